"""Which engine is behind each lazy device: our own, where nobody brought another.

Enters: engines that packages register. Leaves: the one of a device.
"""

from __future__ import annotations

from .engine import Engine
from .native import NativeEngine

_engines: dict[str, Engine] = {}


def register_engine(device: str, engine: Engine) -> None:
    """Make an engine the one behind a lazy device."""
    if not isinstance(engine, Engine):
        raise TypeError(f"register_engine: expected a lazy.Engine for {device!r}, got {type(engine).__name__}")
    _engines[device] = engine


def use_native() -> None:
    """Our own engine behind "lazy"."""
    _engines.pop("lazy", None)


def engine_of(device: str) -> Engine:
    """The engine behind a lazy device; our own where nobody brought another."""
    found = _engines.get(device)
    if found is None:
        found = _engines[device] = NativeEngine()
    return found
