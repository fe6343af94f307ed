"""Linear and ReLU as one layer that quantizes its input by the moment's range."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from ....... import _C, ops
from ......._C import Tensor
from .......nn import Module
from .....quantized.dynamic.modules.linear import Linear
from ....modules import fused

__all__ = ["LinearReLU"]


class LinearReLU(Linear):
    """relu(x W^T + b), floats in and out, integers between."""

    _FLOAT_MODULE: ClassVar[type[Module]] = fused.LinearReLU

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, dtype: _C.dtype = _C.qint8
    ) -> None:
        super().__init__(in_features, out_features, bias, dtype)

    def forward(self, x: Tensor) -> Tensor:
        packed = self._packed_params
        if packed.dtype == _C.qint8:
            return ops.quantized.linear_relu_dynamic(x, packed._packed_params, reduce_range=True).to(x.dtype)
        return ops.quantized.linear_relu_dynamic_fp16(x, packed._packed_params).to(x.dtype)

    def _get_name(self) -> str:
        return "DynamicQuantizedLinearReLU"

    @classmethod
    def from_reference(cls, ref_qlinear_relu: Any) -> Self:
        """From a chain of a reference layer and ReLU."""
        return super().from_reference(ref_qlinear_relu[0])
