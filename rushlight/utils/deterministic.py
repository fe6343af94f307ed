"""What determinism includes: whether memory nobody wrote to is filled. A module with one switch."""

from __future__ import annotations

import sys
import types

from ..base import settings


class _Deterministic(types.ModuleType):
    """`fill_uninitialized_memory`: with deterministic algorithms on,
    fill `empty` and its kin with NaN or the largest integer."""

    @property
    def fill_uninitialized_memory(self) -> bool:
        return settings.fills_uninitialized_memory()

    @fill_uninitialized_memory.setter
    def fill_uninitialized_memory(self, mode: bool) -> None:
        settings.set_fill_uninitialized_memory(mode)


sys.modules[__name__].__class__ = _Deterministic
