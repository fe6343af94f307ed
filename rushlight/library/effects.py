"""Effects of users' ops: what a call does beside giving results, so that graphs neither drop nor move it.

Enters: an op, by name or as an object, and `EffectType.ORDERED` or None. Leaves: the op, marked. Refuses: ops that
nobody defined, and effects of another kind.
"""

from __future__ import annotations

import enum
from typing import Any

from .definition import find


class EffectType(enum.Enum):
    """Kinds of effects; PyTorch has one that keeps the order of calls."""

    ORDERED = "Ordered"


def register_effect(op: Any, effect: EffectType | None) -> None:
    """Mark an op; None takes the mark off."""
    if effect is not None and not isinstance(effect, EffectType):
        raise TypeError(f"register_effect: expected an EffectType or None, got {effect!r}")
    find(op).effect = effect
