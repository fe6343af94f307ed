"""Convolutions of integers whose result is added to a second input."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from ......_C import Tensor
from ......nn import Module
from ....quantized.modules.conv import Conv2d
from ...modules import fused

__all__ = ["ConvAdd2d", "ConvAddReLU2d"]


class ConvAdd2d(Conv2d):
    """conv(input) + extra_input."""

    _OP = "conv2d_add"
    _FLOAT_MODULE: ClassVar[type[Module]] = fused.ConvAdd2d

    def forward(self, input: Tensor, extra_input: Tensor) -> Tensor:  # type: ignore[override]
        return self._run(self._OP, input, extra_input)

    def _get_name(self) -> str:
        return "QuantizedConvAdd2d"

    @classmethod
    def from_reference(cls, ref_qconv: Any, output_scale: Any, output_zero_point: Any) -> Self:
        """From a chain that begins with a reference convolution."""
        return super().from_reference(ref_qconv[0], output_scale, output_zero_point)


class ConvAddReLU2d(ConvAdd2d):
    """relu(conv(input) + extra_input)."""

    _OP = "conv2d_add_relu"
    _FLOAT_MODULE: ClassVar[type[Module]] = fused.ConvAddReLU2d

    def _get_name(self) -> str:
        return "QuantizedConvAddReLU2d"
