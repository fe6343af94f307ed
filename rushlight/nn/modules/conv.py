"""Convolution layers over one, two and three dims, transposed and lazy ones too.

Enters: [batch,] channels and the convolved dims. Leaves: the same with output channels. Refuses: channels that groups
do not divide, paddings a mode does not know; the rest is refused by the functions they call.
"""

from __future__ import annotations

import math
from typing import Any

from ..._C import Tensor
from ...op import find_op
from .. import functional as F, init
from ..parameter import Parameter, UninitializedParameter
from .descriptions import describe_layers
from .lazy import LazyModuleMixin
from .module import Module
from .settings import repeated

_empty = find_op("empty")
_MODES = ("zeros", "reflect", "replicate", "circular")


class _ConvNd(Module):
    __constants__ = (
        "stride",
        "padding",
        "dilation",
        "groups",
        "padding_mode",
        "output_padding",
        "in_channels",
        "out_channels",
        "kernel_size",
    )
    dims = 1

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: tuple[int, ...], stride: tuple[int, ...], padding: Any,
        dilation: tuple[int, ...], transposed: bool, output_padding: tuple[int, ...], groups: int, bias: bool,
        padding_mode: str, device: Any = None, dtype: Any = None,
    ) -> None:
        super().__init__()
        self._check(in_channels, out_channels, stride, padding, groups, padding_mode)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.transposed = transposed
        self.output_padding = output_padding
        self.groups = groups
        self.padding_mode = padding_mode
        self._reversed_padding_repeated_twice = self._pad_sizes()
        outer, inner = (in_channels, out_channels) if transposed else (out_channels, in_channels)
        self.weight = Parameter(_empty((outer, inner // groups, *kernel_size), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(_empty((out_channels,), device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    @staticmethod
    def _check(
        in_channels: int, out_channels: int, stride: tuple[int, ...], padding: Any, groups: int, padding_mode: str
    ) -> None:
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        if in_channels % groups:
            raise ValueError("in_channels must be divisible by groups")
        if out_channels % groups:
            raise ValueError("out_channels must be divisible by groups")
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                raise ValueError(f"Invalid padding string {padding!r}, should be one of ('same', 'valid')")
            if padding == "same" and any(s != 1 for s in stride):
                raise ValueError("padding='same' needs a stride of 1")
        if padding_mode not in _MODES:
            raise ValueError(f"padding_mode must be one of {_MODES}, but got padding_mode='{padding_mode}'")

    def _pad_sizes(self) -> list[int]:
        """The padding as `F.pad` takes it: pairs, last dim first."""
        if self.padding == "valid":
            return [0, 0] * len(self.kernel_size)
        if self.padding == "same":
            totals = [d * (k - 1) for d, k in zip(self.dilation, self.kernel_size)]
            return [n for total in reversed(totals) for n in (total // 2, total - total // 2)]
        return [p for p in reversed(self.padding) for _ in range(2)]

    def reset_parameters(self) -> None:
        """Uniform over ±1/sqrt(fan_in), weight and bias."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        zeros = (0,) * len(self.kernel_size)
        parts = [f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"]
        if self.padding != zeros:
            parts.append(f"padding={self.padding}")
        if self.dilation != (1,) * len(self.dilation):
            parts.append(f"dilation={self.dilation}")
        if self.output_padding != (0,) * len(self.output_padding):
            parts.append(f"output_padding={self.output_padding}")
        if self.groups != 1:
            parts.append(f"groups={self.groups}")
        if self.bias is None:
            parts.append("bias=False")
        if self.padding_mode != "zeros":
            parts.append(f"padding_mode={self.padding_mode}")
        return ", ".join(parts)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({"padding_mode": "zeros", **state})


class _Convolution(_ConvNd):
    """What Conv1d, Conv2d and Conv3d share; `function` does the work.

    Shape:
        input (N, in_channels, {sizes}) or without N; output (N, out_channels, ...), each size (size + 2 padding -
        dilation (kernel_size - 1) - 1) / stride + 1

    Example:
        >>> layer = rl.nn.{name}(4, 6, 3, padding=1)
        >>> tuple(layer(rl.ones(2, 4, {8})).shape)
        (2, 6, {8})
    """

    function: Any = None

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
        dilation: Any = 1, groups: int = 1, bias: bool = True, padding_mode: str = "zeros", device: Any = None,
        dtype: Any = None,
    ) -> None:
        kernel, steps, gaps = (repeated(value, self.dims) for value in (kernel_size, stride, dilation))
        edges = padding if isinstance(padding, str) else repeated(padding, self.dims)
        super().__init__(
            in_channels,
            out_channels,
            kernel,
            steps,
            edges,
            gaps,
            False,
            (0,) * self.dims,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        if self.padding_mode != "zeros":
            input = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            return self.function(input, weight, bias, self.stride, (0,) * self.dims, self.dilation, self.groups)
        return self.function(input, weight, bias, self.stride, self.padding, self.dilation, self.groups)

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)


class Conv1d(_Convolution):
    """Convolution of sequences [N, C, L]."""

    function = staticmethod(F.conv1d)


class Conv2d(_Convolution):
    """Convolution of images [N, C, H, W]."""

    dims = 2
    function = staticmethod(F.conv2d)


class Conv3d(_Convolution):
    """Convolution of volumes [N, C, D, H, W]."""

    dims = 3
    function = staticmethod(F.conv3d)


class _ConvTransposeNd(_ConvNd):
    """What the transposed convolutions share.

    Shape:
        input (N, in_channels, {sizes}) or without N; output (N, out_channels, ...), each size (size - 1) stride -
        2 padding + dilation (kernel_size - 1) + output_padding + 1

    Example:
        >>> layer = rl.nn.{name}(4, 6, 3, stride=2)
        >>> tuple(layer(rl.ones(2, 4, {8})).shape)
        (2, 6, {17})
    """

    function: Any = None

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
        output_padding: Any = 0, groups: int = 1, bias: bool = True, dilation: Any = 1, padding_mode: str = "zeros",
        device: Any = None, dtype: Any = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        kernel, steps, edges, gaps, extra = (
            repeated(v, self.dims) for v in (kernel_size, stride, padding, dilation, output_padding)
        )
        super().__init__(
            in_channels,
            out_channels,
            kernel,
            steps,
            edges,
            gaps,
            True,
            extra,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _output_padding(self, input: Tensor, output_size: Any) -> tuple[int, ...]:
        """The padding that gives `output_size`, or the layer's own."""
        if output_size is None:
            return self.output_padding
        sizes = list(output_size)
        leading = input.dim() - self.dims
        if len(sizes) == input.dim():
            sizes = sizes[leading:]
        if len(sizes) != self.dims:
            raise ValueError(
                f"ConvTranspose{self.dims}D: for {input.dim()}D input, output_size must have {self.dims} or"
                f" {input.dim()} elements (got {len(output_size)})"
            )
        smallest = [
            (input.size(d + leading) - 1) * self.stride[d]
            - 2 * self.padding[d]
            + self.dilation[d] * (self.kernel_size[d] - 1)
            + 1
            for d in range(self.dims)
        ]
        largest = [low + step - 1 for low, step in zip(smallest, self.stride)]
        if not all(low <= size <= high for low, size, high in zip(smallest, sizes, largest)):
            raise ValueError(
                f"requested an output size of {output_size}, but valid sizes range from {smallest} to {largest} "
                f"(for an input of {tuple(input.size())[2:]})"
            )
        return tuple(size - low for size, low in zip(sizes, smallest))

    def forward(self, input: Tensor, output_size: Any = None) -> Tensor:
        extra = self._output_padding(input, output_size)
        return self.function(
            input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation
        )


class ConvTranspose1d(_ConvTransposeNd):
    """The transpose of a convolution of sequences."""

    function = staticmethod(F.conv_transpose1d)


class ConvTranspose2d(_ConvTransposeNd):
    """The transpose of a convolution of images."""

    dims = 2
    function = staticmethod(F.conv_transpose2d)


class ConvTranspose3d(_ConvTransposeNd):
    """The transpose of a convolution of volumes."""

    dims = 3
    function = staticmethod(F.conv_transpose3d)


class _LazyConvXdMixin(LazyModuleMixin):
    """A convolution that takes in_channels from its first input."""

    weight: UninitializedParameter
    bias: UninitializedParameter | None

    def _start(
        self, out_channels: int, kernel_size: Any, groups: int, bias: bool, device: Any, dtype: Any, **given: Any
    ) -> None:
        super().__init__(0, 0, kernel_size, groups=1, bias=False, **given)
        self.groups = groups
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_channels = out_channels
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:
        """Shapes from the first input."""
        if not self.has_uninitialized_params():
            return
        self.in_channels = self._get_in_channels(input)
        if self.in_channels % self.groups:
            raise ValueError("in_channels must be divisible by groups")
        outer, inner = (
            (self.in_channels, self.out_channels) if self.transposed else (self.out_channels, self.in_channels)
        )
        self.weight.materialize((outer, inner // self.groups, *self.kernel_size))
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()

    def _get_in_channels(self, input: Tensor) -> int:
        if input.dim() not in (self.dims + 1, self.dims + 2):
            raise RuntimeError(
                f"Expected {self.dims + 1}D (unbatched) or {self.dims + 2}D (batched) input to {type(self).__name__},"
                f" but got input of size: {tuple(input.shape)}"
            )
        return input.shape[-self.dims - 1]


class _LazyConvolution(_LazyConvXdMixin):
    """What LazyConv1d, LazyConv2d and LazyConv3d share.

    Example:
        >>> layer = rl.nn.{name}(6, 3, padding=1)
        >>> tuple(layer(rl.ones(2, 4, {8})).shape)
        (2, 6, {8})
    """

    def __init__(self, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
                 groups: int = 1, bias: bool = True, padding_mode: str = "zeros", device: Any = None,
                 dtype: Any = None) -> None:
        self._start(
            out_channels,
            kernel_size,
            groups,
            bias,
            device,
            dtype,
            stride=stride,
            padding=padding,
            dilation=dilation,
            padding_mode=padding_mode,
        )


class _LazyTransposed(_LazyConvXdMixin):
    """What the lazy transposed convolutions share.

    Example:
        >>> layer = rl.nn.{name}(6, 3, stride=2)
        >>> tuple(layer(rl.ones(2, 4, {8})).shape)
        (2, 6, {17})
    """

    def __init__(self, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0, output_padding: Any = 0,
                 groups: int = 1, bias: bool = True, dilation: Any = 1, padding_mode: str = "zeros", device: Any = None,
                 dtype: Any = None) -> None:
        self._start(out_channels, kernel_size, groups, bias, device, dtype, stride=stride, padding=padding,
                    output_padding=output_padding, dilation=dilation, padding_mode=padding_mode)


class LazyConv1d(_LazyConvolution, Conv1d):
    """A Conv1d that takes in_channels from its first input."""

    cls_to_become = Conv1d


class LazyConv2d(_LazyConvolution, Conv2d):
    """A Conv2d that takes in_channels from its first input."""

    cls_to_become = Conv2d


class LazyConv3d(_LazyConvolution, Conv3d):
    """A Conv3d that takes in_channels from its first input."""

    cls_to_become = Conv3d


class LazyConvTranspose1d(_LazyTransposed, ConvTranspose1d):
    """A ConvTranspose1d that takes in_channels from its first input."""

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyTransposed, ConvTranspose2d):
    """A ConvTranspose2d that takes in_channels from its first input."""

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyTransposed, ConvTranspose3d):
    """A ConvTranspose3d that takes in_channels from its first input."""

    cls_to_become = ConvTranspose3d


describe_layers(globals())
