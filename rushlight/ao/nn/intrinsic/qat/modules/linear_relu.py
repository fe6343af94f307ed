"""Linear and ReLU as one layer that trains with rounded weights."""

from __future__ import annotations

from typing import Any, ClassVar

from ......_C import Tensor
from ......nn import Module, functional as F
from ......nn.modules.activation import ReLU
from ......nn.modules.linear import Linear as _FloatLinear
from ....qat.modules.linear import Linear
from ....sources import take_weights
from ...modules import fused

__all__ = ["LinearReLU"]


class LinearReLU(Linear, fused._FusedModule):
    """relu(x W^T + b), W rounded."""

    _FLOAT_MODULE: ClassVar[type[Module]] = fused.LinearReLU

    def __init__(self, in_features: int, out_features: int, bias: bool = True, qconfig: Any = None) -> None:
        super().__init__(in_features, out_features, bias, qconfig)

    def forward(self, input: Tensor) -> Tensor:
        return F.relu(super().forward(input))

    def to_float(self) -> fused.LinearReLU:
        """The chain with these weights, unrounded."""
        linear = _FloatLinear(self.in_features, self.out_features, self.bias is not None)
        take_weights(linear, self.weight, self.bias)
        return fused.LinearReLU(linear, ReLU())
