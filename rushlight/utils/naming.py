"""Where an object says it comes from."""

from __future__ import annotations

from typing import Any


def set_module(obj: Any, mod: str) -> None:
    """Make `obj.__module__` name `mod`."""
    if not isinstance(mod, str):
        raise TypeError("The mod argument should be a string")
    obj.__module__ = mod
