"""MIOpen is not here; its switch is kept for the programs that set it."""

from __future__ import annotations

from typing import Any

from .flags_of_modules import Switch, set_switches, switched, turn_into

_switches = turn_into(__name__, immediate=Switch("miopen.immediate", False))


def is_available() -> bool:
    """False."""
    return False


def set_flags(_immediate: bool | None = None) -> tuple:
    """Set the switch unless None; what it was."""
    return set_switches(_switches, {"immediate": _immediate})


def flags(immediate: bool = False) -> Any:
    """A context with the switch set."""
    return switched(_switches, {"immediate": immediate})
