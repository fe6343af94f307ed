"""The order of an einsum's contractions: chosen by the `opt_einsum` package where installed,
from left to right without it."""

from __future__ import annotations

import importlib.util
from typing import Any

from ..base.settings import get_einsum_strategy, set_einsum_strategy
from .flags_of_modules import ContextProp, set_switches, switched, turn_into


def is_available() -> bool:
    """Whether the package is installed."""
    return importlib.util.find_spec("opt_einsum") is not None


def get_opt_einsum() -> Any:
    """The package, if it is installed; None otherwise."""
    return importlib.import_module("opt_einsum") if is_available() else None


def _set_enabled(value: bool) -> None:
    if value and not is_available():
        raise ValueError("enabled: opt_einsum is not available, so there is nothing to find einsum's path with. "
                         "Install it with `pip install opt_einsum`.")
    set_einsum_strategy((get_einsum_strategy() or "auto") if value else None)


def _set_strategy(value: str | None) -> None:
    if not is_available():
        raise ValueError(f"strategy: {value!r} has no effect where opt_einsum is not available.")
    if get_einsum_strategy() is None:
        raise ValueError(
            f"strategy: {value!r} has no effect while opt_einsum is not enabled. Set enabled = True first."
        )
    set_einsum_strategy(value)


_switches = turn_into(
    __name__,
    enabled=ContextProp(lambda: is_available() and get_einsum_strategy() is not None, _set_enabled),
    strategy=ContextProp(lambda: get_einsum_strategy() if is_available() else None, _set_strategy),
)


def set_flags(_enabled: bool | None = None, _strategy: str | None = None) -> tuple:
    """Set what is not None; what was set."""
    if _strategy not in (None, "auto", "greedy", "optimal"):
        raise ValueError(f"strategy: expected 'auto', 'greedy' or 'optimal', got {_strategy}")
    return set_switches(_switches, {"enabled": _enabled, "strategy": _strategy})


def flags(enabled: bool | None = None, strategy: str | None = None) -> Any:
    """A context with other settings."""
    return switched(_switches, {"enabled": enabled, "strategy": strategy})
