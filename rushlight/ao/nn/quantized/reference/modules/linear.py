"""A linear layer whose weight is rounded to integers and back on every call."""

from __future__ import annotations

from typing import Any

from ......_C import Tensor
from ......nn import functional as F
from ......nn.modules import linear as floats
from ....sources import take_weights
from .utils import ReferenceQuantizedModule

__all__ = ["Linear"]


class Linear(floats.Linear, ReferenceQuantizedModule):
    """x W^T + b, W as its integers give it."""

    _IS_REFERENCE = True

    def __init__(
        self, in_features: int, out_features: int, bias_: bool = True, device: Any = None, dtype: Any = None,
        weight_qparams: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(in_features, out_features, bias_, device, dtype)
        self._init_weight_qparams(weight_qparams, device)

    def _get_name(self) -> str:
        return "QuantizedLinear(Reference)"

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.get_weight(), self.bias)

    @classmethod
    def from_float(cls, float_linear: Any, weight_qparams: dict[str, Any]) -> Linear:
        """From a float layer and the qparams of its weight."""
        given = float_linear.weight
        result = Linear(
            float_linear.in_features, float_linear.out_features, float_linear.bias is not None, device=given.device,
            dtype=given.dtype, weight_qparams=weight_qparams,
        )
        take_weights(result, given, float_linear.bias)
        return result
