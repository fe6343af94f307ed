"""`torch._library.effects`: kinds of effects that users' ops have."""

from ..library.effects import EffectType

__all__ = ["EffectType"]
