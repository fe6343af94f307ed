"""Whether optional packages are here."""

from __future__ import annotations

import importlib.util
from functools import lru_cache
from types import ModuleType


def _check_module_exists(name: str) -> bool:
    """Whether a module can be found, without importing it."""
    try:
        return importlib.util.find_spec(name) is not None
    except ImportError:
        return False


@lru_cache
def dill_available() -> bool:
    """Whether dill is installed."""
    return _check_module_exists("dill")


@lru_cache
def import_dill() -> ModuleType | None:
    """dill, or None."""
    return importlib.import_module("dill") if dill_available() else None
