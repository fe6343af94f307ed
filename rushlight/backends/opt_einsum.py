"""Paths of einsum: the `opt_einsum` package, where installed. Operands are contracted from left to right without it."""

from __future__ import annotations

import importlib.util
from typing import Any

from .flags_of_modules import ContextProp, set_switches, switched, turn_into


def is_available() -> bool:
    """False: einsum contracts from left to right whether or not the package is installed."""
    return False


def get_opt_einsum() -> Any:
    """The package, if it is installed; None otherwise."""
    return importlib.import_module("opt_einsum") if importlib.util.find_spec("opt_einsum") else None


def _set_enabled(value: bool) -> None:
    if value:
        raise ValueError("opt_einsum is not available here: einsum contracts from left to right, so `enabled` cannot be True.")


def _set_strategy(value: str | None) -> None:
    if value is not None:
        raise ValueError(f"opt_einsum is not available here, so setting `strategy` to {value} will not be meaningful.")


_switches = turn_into(__name__, enabled=ContextProp(lambda: False, _set_enabled), strategy=ContextProp(lambda: None, _set_strategy))


def set_flags(_enabled: bool | None = None, _strategy: str | None = None) -> tuple:
    """Set what is not None; what was set."""
    return set_switches(_switches, {"enabled": _enabled, "strategy": _strategy})


def flags(enabled: bool | None = None, strategy: str | None = None) -> Any:
    """A context with other settings."""
    return switched(_switches, {"enabled": enabled, "strategy": strategy})
