"""Pooling layers: windows over one, two or three dims reduced to their largest, mean or norm.

Enters: [N,] C and the pooled dims. Leaves: the same with fewer places; with return_indices also where the largest were.
Refuses what the functions they call refuse.

Shape:
    input (N, C, {sizes}) or (C, {sizes}); output with (size + 2 padding - window) / stride + 1 in place of each size

Example:
    >>> layer = rl.nn.{name}(2)
    >>> tuple(layer(rl.ones(2, 4, {8})).shape)
    (2, 4, {4})
"""

from __future__ import annotations

from typing import Any

from ..._C import Tensor
from .. import functional as F
from .descriptions import describe_layers
from .module import Module
from .settings import repeated, settings


class _MaxPoolNd(Module):
    __constants__ = ("kernel_size", "stride", "padding", "dilation", "return_indices", "ceil_mode")
    function: Any = None

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Any:
        return self.function(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            ceil_mode=self.ceil_mode,
            return_indices=self.return_indices,
        )

    def extra_repr(self) -> str:
        return settings(self, "kernel_size", "stride", "padding", "dilation", "ceil_mode")


class MaxPool1d(_MaxPoolNd):
    """The largest of windows over sequences."""

    function = staticmethod(F.max_pool1d)


class MaxPool2d(_MaxPoolNd):
    """The largest of windows over images."""

    function = staticmethod(F.max_pool2d)


class MaxPool3d(_MaxPoolNd):
    """The largest of windows over volumes."""

    function = staticmethod(F.max_pool3d)


class _MaxUnpoolNd(Module):
    """Values put back where a pooling found them, zeros elsewhere.

    Arguments:
        padding: padding of the pooling that is undone

    Shape:
        input (N, C, {sizes}) or (C, {sizes}) and the indices of the pooling; output with the sizes before it
    """

    dims = 1
    function: Any = None

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        self.kernel_size = repeated(kernel_size, self.dims)
        self.stride = repeated(kernel_size if stride is None else stride, self.dims)
        self.padding = repeated(padding, self.dims)

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        return self.function(input, indices, self.kernel_size, self.stride, self.padding, output_size)

    def extra_repr(self) -> str:
        return settings(self, "kernel_size", "stride", "padding")


class MaxUnpool1d(_MaxUnpoolNd):
    """Values put back where MaxPool1d found them, zeros elsewhere.

    Example:
        >>> layer = rl.nn.MaxUnpool1d(2)
        >>> tuple(layer(*rl.nn.MaxPool1d(2, return_indices=True)(rl.ones(2, 4, 8))).shape)
        (2, 4, 8)
    """

    function = staticmethod(F.max_unpool1d)


class MaxUnpool2d(_MaxUnpoolNd):
    """Values put back where MaxPool2d found them, zeros elsewhere.

    Example:
        >>> layer = rl.nn.MaxUnpool2d(2)
        >>> tuple(layer(*rl.nn.MaxPool2d(2, return_indices=True)(rl.ones(2, 4, 8, 8))).shape)
        (2, 4, 8, 8)
    """

    dims = 2
    function = staticmethod(F.max_unpool2d)


class MaxUnpool3d(_MaxUnpoolNd):
    """Values put back where MaxPool3d found them, zeros elsewhere.

    Example:
        >>> layer = rl.nn.MaxUnpool3d(2)
        >>> tuple(layer(*rl.nn.MaxPool3d(2, return_indices=True)(rl.ones(2, 4, 8, 8, 8))).shape)
        (2, 4, 8, 8, 8)
    """

    dims = 3
    function = staticmethod(F.max_unpool3d)


class _AvgPoolNd(Module):
    __constants__ = ("kernel_size", "stride", "padding", "ceil_mode", "count_include_pad")

    def extra_repr(self) -> str:
        return settings(self, "kernel_size", "stride", "padding")


class AvgPool1d(_AvgPoolNd):
    """Means of windows over sequences."""

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size = repeated(kernel_size, 1)
        self.stride = repeated(kernel_size if stride is None else stride, 1)
        self.padding = repeated(padding, 1)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)


class _AvgPoolWide(_AvgPoolNd):
    """AvgPool2d and AvgPool3d, which also take a divisor."""

    function: Any = None

    def __init__(
        self, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
        count_include_pad: bool = True, divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input: Tensor) -> Tensor:
        return self.function(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )


class AvgPool2d(_AvgPoolWide):
    """Means of windows over images."""

    function = staticmethod(F.avg_pool2d)


class AvgPool3d(_AvgPoolWide):
    """Means of windows over volumes."""

    function = staticmethod(F.avg_pool3d)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({"padding": 0, "ceil_mode": False, "count_include_pad": True, **state})


class _FractionalMaxPoolNd(Module):
    """The largest of windows at pseudo-random places, so that sizes shrink by any ratio.

    Shape:
        input (N, C, {sizes}) or (C, {sizes}); output with output_size, or output_ratio times the size, in place of
        ({sizes})

    Example:
        >>> layer = rl.nn.{name}(2, output_size=4)
        >>> tuple(layer(rl.ones(2, 4, {8})).shape)
        (2, 4, {4})
    """

    dims = 2
    function: Any = None

    def __init__(
        self,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = repeated(kernel_size, self.dims)
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = repeated(output_size, self.dims) if output_size is not None else None
        self.output_ratio = repeated(output_ratio, self.dims) if output_ratio is not None else None
        name = type(self).__name__
        if (output_size is None) == (output_ratio is None):
            which = (
                "requires specifying either an output size, or a pooling ratio"
                if output_size is None
                else "accepts only one of output_size and output_ratio"
            )
            raise ValueError(f"{name} {which}")
        if self.output_ratio is not None and not all(0 < ratio < 1 for ratio in self.output_ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")

    def forward(self, input: Tensor) -> Any:
        return self.function(
            input,
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            _random_samples=self._random_samples,
        )


class FractionalMaxPool2d(_FractionalMaxPoolNd):
    """Fractional max pooling of images."""

    function = staticmethod(F.fractional_max_pool2d)


class FractionalMaxPool3d(_FractionalMaxPoolNd):
    """Fractional max pooling of volumes."""

    dims = 3
    function = staticmethod(F.fractional_max_pool3d)


class _LPPoolNd(Module):
    """The p-norms of windows.

    Shape:
        input (N, C, {sizes}) or (C, {sizes}); output with (size - kernel_size) / stride + 1 in place of each size

    Example:
        >>> layer = rl.nn.{name}(2, 2)
        >>> tuple(layer(rl.ones(2, 4, {8})).shape)
        (2, 4, {4})
    """

    function: Any = None

    def __init__(self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        return self.function(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)

    def extra_repr(self) -> str:
        return settings(self, "norm_type", "kernel_size", "stride", "ceil_mode")


class LPPool1d(_LPPoolNd):
    """p-norms of windows over sequences."""

    function = staticmethod(F.lp_pool1d)


class LPPool2d(_LPPoolNd):
    """p-norms of windows over images."""

    function = staticmethod(F.lp_pool2d)


class LPPool3d(_LPPoolNd):
    """p-norms of windows over volumes."""

    function = staticmethod(F.lp_pool3d)


class _AdaptiveAvgPoolNd(Module):
    """Means of as many windows as the output has places.

    Shape:
        input (N, C, {sizes}) or (C, {sizes}); output with output_size in place of ({sizes})

    Example:
        >>> layer = rl.nn.{name}(2)
        >>> tuple(layer(rl.ones(2, 4, {8})).shape)
        (2, 4, {2})
    """

    function: Any = None

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Any:
        return self.function(input, self.output_size)

    def extra_repr(self) -> str:
        return settings(self, "output_size")


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """Means, to a given length."""

    function = staticmethod(F.adaptive_avg_pool1d)


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """Means, to a given image size."""

    function = staticmethod(F.adaptive_avg_pool2d)


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """Means, to a given volume size."""

    function = staticmethod(F.adaptive_avg_pool3d)


class _AdaptiveMaxPoolNd(_AdaptiveAvgPoolNd):
    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__(output_size)
        self.return_indices = return_indices

    def forward(self, input: Tensor) -> Any:
        return self.function(input, self.output_size, self.return_indices)


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """Largest elements, to a given length."""

    function = staticmethod(F.adaptive_max_pool1d)


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """Largest elements, to a given image size."""

    function = staticmethod(F.adaptive_max_pool2d)


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """Largest elements, to a given volume size."""

    function = staticmethod(F.adaptive_max_pool3d)


describe_layers(globals())
