"""NNPACK is not here; its switch is kept for the programs that set it."""

from __future__ import annotations

from typing import Any

from .flags_of_modules import Switch, set_switches, switched

__all__ = ["flags", "is_available", "set_flags"]

_switches = {"enabled": Switch("nnpack.enabled", False)}


def is_available() -> bool:
    """False."""
    return False


def set_flags(_enabled: bool) -> tuple:
    """Set the switch; what it was."""
    return set_switches(_switches, {"enabled": _enabled})


def flags(enabled: bool = False) -> Any:
    """A context with the switch set."""
    return switched(_switches, {"enabled": enabled})
