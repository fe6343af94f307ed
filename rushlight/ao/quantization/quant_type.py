"""The kinds of quantization, by PyTorch's numbers."""

from __future__ import annotations

import enum

__all__ = ["QuantType"]


class QuantType(enum.IntEnum):
    """When the parameters of activations are found: at each call, by calibration, by training, or never."""

    DYNAMIC = 0
    STATIC = 1
    QAT = 2
    WEIGHT_ONLY = 3


def _get_quant_type_to_str(quant_type: QuantType) -> str:
    """The word that configuration dictionaries use for a kind."""
    return quant_type.name.lower()


def _quant_type_from_str(name: str) -> QuantType:
    """The kind that a word of configuration dictionaries means. Refuses other words."""
    for kind in QuantType:
        if kind.name.lower() == name:
            return kind
    raise ValueError(f"Unknown QuantType name {name!r}: expected one of {[kind.name.lower() for kind in QuantType]}")
