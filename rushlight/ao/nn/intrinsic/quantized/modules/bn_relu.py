"""Batch norm and ReLU as one layer of integers."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from ......nn import Module
from ....quantized.modules.batchnorm import BatchNorm2d, BatchNorm3d
from ...modules import fused

__all__ = ["BNReLU2d", "BNReLU3d"]


class BNReLU2d(BatchNorm2d):
    """relu of the norm of images."""

    _OP = "batch_norm2d_relu"
    _FLOAT_MODULE: ClassVar[type[Module]] = fused.BNReLU2d

    def _get_name(self) -> str:
        return "QuantizedBNReLU2d"

    @classmethod
    def from_reference(cls, bn_relu: Any, output_scale: Any, output_zero_point: Any) -> Self:
        """From a chain of a float norm and ReLU."""
        return super().from_reference(bn_relu[0], output_scale, output_zero_point)


class BNReLU3d(BatchNorm3d):
    """relu of the norm of volumes."""

    _OP = "batch_norm3d_relu"
    _FLOAT_MODULE: ClassVar[type[Module]] = fused.BNReLU3d

    def _get_name(self) -> str:
        return "QuantizedBNReLU3d"

    @classmethod
    def from_reference(cls, bn_relu: Any, output_scale: Any, output_zero_point: Any) -> Self:
        """From a chain of a float norm and ReLU."""
        return super().from_reference(bn_relu[0], output_scale, output_zero_point)
