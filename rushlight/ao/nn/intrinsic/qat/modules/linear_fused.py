"""Linear and BatchNorm1d as one layer that trains with rounded weights."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from ......_C import Tensor
from ......nn import Module, Parameter, functional as F
from ......nn.modules.batchnorm import BatchNorm1d
from ......nn.modules.linear import Linear
from ......op import find_op
from ....sources import fold_batch_norm
from ...modules import fused
from .folded_norm import FoldedNorm

__all__ = ["LinearBn1d"]


class LinearBn1d(FoldedNorm, Linear, fused._FusedModule):
    """The batch norm of x W^T + b, W rounded as it will be with the norm folded in."""

    _FLOAT_MODULE: ClassVar[type[Module]] = fused.LinearBn1d

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, eps: float = 1e-05, momentum: float = 0.1,
        freeze_bn: bool = False, qconfig: Any = None,
    ) -> None:
        super().__init__(in_features, out_features, bias)
        self._fold(BatchNorm1d(out_features, eps, momentum, True, True), freeze_bn, qconfig)
        if bias:
            self.bias = Parameter(find_op("empty")(out_features))
        self._settle(freeze_bn)

    def forward(self, input: Tensor) -> Tensor:
        _, factor = self._scales()
        weight = self._rounded_weight(factor)
        return self._normalized(F.linear(input, weight, self._zero_bias(self.out_features, self.bias, None)), factor)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Self:
        """From a chain of Linear and BatchNorm1d with a qconfig, whose parameters and statistics it takes over."""
        linear, bn, qconfig = cls._source(mod)
        result = cls(
            linear.in_features, linear.out_features, linear.bias is not None, bn.eps, bn.momentum, False, qconfig
        )
        return result._take_over(linear, bn)

    def to_float(self) -> Linear:
        """The float layer with the norm folded in."""
        result = Linear(self.in_features, self.out_features)
        result.weight, result.bias = fold_batch_norm(self)
        return result
