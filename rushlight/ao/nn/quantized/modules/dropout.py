"""Dropout in a model of integers: it does nothing, since such models do not train."""

from __future__ import annotations

from typing import Any, Self

from ....._C import Tensor
from .....nn.modules import dropout as floats

__all__ = ["Dropout"]


class Dropout(floats.Dropout):
    """The input, unchanged."""

    def forward(self, input: Tensor) -> Tensor:
        return input

    def _get_name(self) -> str:
        return "QuantizedDropout"

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Self:
        """From a float layer."""
        return cls(mod.p, mod.inplace)

    @classmethod
    def from_reference(cls, mod: Any, scale: Any, zero_point: Any) -> Self:
        """From a float layer; there is nothing to scale."""
        return cls(mod.p, mod.inplace)
