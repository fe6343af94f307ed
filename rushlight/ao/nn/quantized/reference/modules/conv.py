"""Convolutions whose weight is rounded to integers and back on every call."""

from __future__ import annotations

from typing import Any, Self

from ......_C import Tensor
from ......nn.modules import conv as floats
from ....sources import take_weights
from .utils import ReferenceQuantizedModule

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]


class _ConvNd(floats._ConvNd, ReferenceQuantizedModule):
    """What all six share."""

    _IS_REFERENCE = True
    function: Any

    def _get_name(self) -> str:
        return f"Quantized{type(self).__name__}(Reference)"

    @classmethod
    def _settings(cls, conv: Any) -> tuple:
        """What the constructor takes from a float layer, in order."""
        raise NotImplementedError

    @classmethod
    def from_float(cls, float_conv: Any, weight_qparams: dict[str, Any]) -> Self:
        """From a float layer and the qparams of its weight."""
        given = float_conv.weight
        result = cls(
            *cls._settings(float_conv), device=given.device, dtype=given.dtype, weight_qparams=weight_qparams
        )
        take_weights(result, given, float_conv.bias)
        return result


class _Plain(_ConvNd, floats._Convolution):
    """What the three that are not transposed share. As in PyTorch, padding is by zeros whatever the mode says."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
        dilation: Any = 1, groups: int = 1, bias: bool = True, padding_mode: str = "zeros", device: Any = None,
        dtype: Any = None, weight_qparams: dict[str, Any] | None = None,
    ) -> None:
        floats._Convolution.__init__(
            self, in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device,
            dtype,
        )
        self._init_weight_qparams(weight_qparams, device)

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x, self.get_weight(), self.bias, self.stride, self.padding, self.dilation, self.groups)

    @classmethod
    def _settings(cls, conv: Any) -> tuple:
        return (
            conv.in_channels, conv.out_channels, conv.kernel_size, conv.stride, conv.padding, conv.dilation,
            conv.groups, conv.bias is not None, conv.padding_mode,
        )


class Conv1d(_Plain, floats.Conv1d):
    """Convolution of sequences."""


class Conv2d(_Plain, floats.Conv2d):
    """Convolution of images."""


class Conv3d(_Plain, floats.Conv3d):
    """Convolution of volumes."""


class _ConvTransposeNd(_ConvNd, floats._ConvTransposeNd):
    """What the transposed ones share."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
        output_padding: Any = 0, groups: int = 1, bias: bool = True, dilation: Any = 1, padding_mode: str = "zeros",
        device: Any = None, dtype: Any = None, weight_qparams: dict[str, Any] | None = None,
    ) -> None:
        floats._ConvTransposeNd.__init__(
            self, in_channels, out_channels, kernel_size, stride, padding, output_padding, groups, bias, dilation,
            padding_mode, device, dtype,
        )
        self._init_weight_qparams(weight_qparams, device)

    def forward(self, x: Tensor, output_size: Any = None) -> Tensor:
        if not isinstance(self.padding, tuple):
            raise AssertionError(f"{self._get_name()}: Expected padding to be a tuple, got {type(self.padding)}")
        extra = self._output_padding(x, output_size)
        return self.function(
            x, self.get_weight(), self.bias, self.stride, self.padding, extra, self.groups, self.dilation
        )

    @classmethod
    def _settings(cls, conv: Any) -> tuple:
        return (
            conv.in_channels, conv.out_channels, conv.kernel_size, conv.stride, conv.padding, conv.output_padding,
            conv.groups, conv.bias is not None, conv.dilation, conv.padding_mode,
        )


class ConvTranspose1d(_ConvTransposeNd, floats.ConvTranspose1d):
    """The transpose of a convolution of sequences."""


class ConvTranspose2d(_ConvTransposeNd, floats.ConvTranspose2d):
    """The transpose of a convolution of images."""


class ConvTranspose3d(_ConvTransposeNd, floats.ConvTranspose3d):
    """The transpose of a convolution of volumes."""
