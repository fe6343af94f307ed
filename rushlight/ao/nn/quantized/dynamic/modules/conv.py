"""Convolutions that quantize their input by the moment's range.

Enters: floats. Leaves: floats. Warns: the range of a whole batch is coarse for most convolutions.
"""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

from ...... import ops
from ......_C import Tensor
from ......nn import Module
from ...modules import conv as static

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]


class _Dynamic(static._ConvNd):
    """What all six share, before their static layer in the bases."""

    _NNIQAT_CONV_BN_MODULE: ClassVar[type[Module] | None] = None
    _NNI_CONV_RELU_MODULE: ClassVar[type[Module] | None] = None

    def _warn(self) -> None:
        warnings.warn(
            f"{self._get_name()} has poor numerical accuracy and its use is not recommended: one scale of the moment"
            " serves the whole batch. Calibrate a static layer instead.",
            stacklevel=3,
        )

    def _get_name(self) -> str:
        return "Dynamic" + super()._get_name()

    def forward(self, input: Tensor, reduce_range: bool = True) -> Tensor:
        name = "conv_transpose" if self.transposed else "conv"
        function = getattr(ops.quantized, f"{name}{self.dims}d_dynamic")
        return function(self._ready(input), self._packed_params, reduce_range)


class _Plain(_Dynamic):
    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
        dilation: Any = 1, groups: int = 1, bias: bool = True, padding_mode: str = "zeros", device: Any = None,
        dtype: Any = None,
    ) -> None:
        self._warn()
        window = (in_channels, out_channels, kernel_size, stride, padding, dilation)
        super().__init__(*window, groups, bias, padding_mode, device, dtype)


class _Transposed(_Dynamic):
    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
        output_padding: Any = 0, groups: int = 1, bias: bool = True, dilation: Any = 1, padding_mode: str = "zeros",
        device: Any = None, dtype: Any = None,
    ) -> None:
        self._warn()
        window = (in_channels, out_channels, kernel_size, stride, padding, output_padding)
        super().__init__(*window, groups, bias, dilation, padding_mode, device, dtype)


class Conv1d(_Plain, static.Conv1d):
    """Convolution of sequences. As in PyTorch it is `forward` that asks for a reduced range, not what is said here."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
        dilation: Any = 1, groups: int = 1, bias: bool = True, padding_mode: str = "zeros", device: Any = None,
        dtype: Any = None, reduce_range: bool = True,
    ) -> None:
        window = (in_channels, out_channels, kernel_size, stride, padding, dilation)
        super().__init__(*window, groups, bias, padding_mode, device, dtype)


class Conv2d(_Plain, static.Conv2d):
    """Convolution of images."""


class Conv3d(_Plain, static.Conv3d):
    """Convolution of volumes."""


class ConvTranspose1d(_Transposed, static.ConvTranspose1d):
    """The transpose of a convolution of sequences."""


class ConvTranspose2d(_Transposed, static.ConvTranspose2d):
    """The transpose of a convolution of images."""


class ConvTranspose3d(_Transposed, static.ConvTranspose3d):
    """The transpose of a convolution of volumes."""
