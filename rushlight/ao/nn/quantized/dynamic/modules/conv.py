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

    def __init__(self, *args: Any, reduce_range: bool = True, **kwargs: Any) -> None:
        warnings.warn(
            f"{self._get_name()} has poor numerical accuracy and its use is not recommended: one scale of the moment"
            " serves the whole batch. Calibrate a static layer instead.",
            stacklevel=2,
        )
        super().__init__(*args, **kwargs)

    def _get_name(self) -> str:
        return "Dynamic" + super()._get_name()

    def forward(self, input: Tensor, reduce_range: bool = True) -> Tensor:
        name = "conv_transpose" if self.transposed else "conv"
        function = getattr(ops.quantized, f"{name}{self.dims}d_dynamic")
        return function(self._ready(input), self._packed_params, reduce_range)


class Conv1d(_Dynamic, static.Conv1d):
    """Convolution of sequences."""


class Conv2d(_Dynamic, static.Conv2d):
    """Convolution of images."""


class Conv3d(_Dynamic, static.Conv3d):
    """Convolution of volumes."""


class ConvTranspose1d(_Dynamic, static.ConvTranspose1d):
    """The transpose of a convolution of sequences."""


class ConvTranspose2d(_Dynamic, static.ConvTranspose2d):
    """The transpose of a convolution of images."""


class ConvTranspose3d(_Dynamic, static.ConvTranspose3d):
    """The transpose of a convolution of volumes."""
