"""Linear layers that train with rounded weights.

Enters: floats. Leaves: x W^T + b, W as `weight_fake_quant` gives it. Refuses: being made without a qconfig.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

from ....._C import Tensor
from .....nn import Module, functional as F
from .....nn.modules import linear as floats
from .....nn.utils.parametrize import is_parametrized, transfer_parametrizations_and_params
from ...intrinsic.modules.fused import _FusedModule
from ...sources import expect_class, expect_given_qconfig, expect_qconfig, take_weights

__all__ = ["Linear"]


class Linear(floats.Linear):
    """A linear layer with rounded weights."""

    _FLOAT_MODULE: ClassVar[type[Module]] = floats.Linear

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, qconfig: Any = None, device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(in_features, out_features, bias, device=device, dtype=dtype)
        self.qconfig = expect_given_qconfig(self, qconfig)
        self.weight_fake_quant = qconfig.weight(factory_kwargs={"device": device, "dtype": dtype})

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, self.weight_fake_quant(self.weight), self.bias)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Self:
        """From a float layer with a qconfig, whose parameters (and their parametrizations) it takes over."""
        method = f"qat.{cls.__name__}.from_float"
        expect_class(method, mod, cls._FLOAT_MODULE, parametrized=True)
        expect_qconfig(method, mod)
        layer = mod[0] if isinstance(mod, _FusedModule) else mod
        result = cls(layer.in_features, layer.out_features, bias=layer.bias is not None, qconfig=layer.qconfig)
        for name in ("weight", "bias"):
            if is_parametrized(layer, name):
                transfer_parametrizations_and_params(layer, result, name)
            else:
                setattr(result, name, getattr(layer, name))
        return result

    def to_float(self) -> Module:
        """The float layer with these weights, unrounded."""
        result = floats.Linear(self.in_features, self.out_features, self.bias is not None)
        take_weights(result, self.weight, self.bias)
        return result.train(self.training)
