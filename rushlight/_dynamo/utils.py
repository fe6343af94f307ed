"""Small questions about capture that libraries ask."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..dynamo import settings
from ..dynamo.bytecode import instructions
from ..dynamo.record.counting import compilation_time_metrics, compile_times, counters

__all__ = ["compilation_time_metrics", "compile_times", "counters", "disable_cache_limit", "is_compile_supported",
           "is_dynamo_supported", "warn_once"]

_LIMITS = ("recompile_limit", "accumulated_recompile_limit")
_warned: set[str] = set()


def is_dynamo_supported() -> bool:
    """Whether functions can be captured here: on versions of CPython whose bytecode is known."""
    return instructions.IS_SUPPORTED


def is_inductor_supported() -> bool:
    """Whether captured graphs can be handed to the inductor here."""
    return True


def is_compile_supported(device_type: Any) -> bool:
    """Whether `compile()` makes code for a device: not yet for any."""
    return is_dynamo_supported()


def warn_once(msg: str, stacklevel: int = 1) -> None:
    """Warn with this text unless it was said before in this process."""
    if msg not in _warned:
        _warned.add(msg)
        warnings.warn(msg, stacklevel=stacklevel + 1)


@contextmanager
def disable_cache_limit() -> Iterator[None]:
    """Inside, a function may be compiled for any number of kinds of arguments."""
    before = {name: getattr(settings, name) for name in _LIMITS}
    vars(settings).update(dict.fromkeys(_LIMITS, sys.maxsize))
    try:
        yield
    finally:
        vars(settings).update(before)
