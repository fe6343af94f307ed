"""Mixed precision around compiled graphs: a graph has its casts, so that calling it must not cast again.

Enters: the modes of the thread. Leaves: what mixed precision does now, and a block in which it does nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .. import _C
from ..dispatch import autocast
from ..dispatch.keys import AUTOCAST


def autocast_state() -> tuple | None:
    """What mixed precision does on this thread now; None where it is off."""
    keys, excluded = _C.get_thread_keys()
    return (
        (tuple(autocast.state.enabled.items()), tuple(autocast.state.dtypes.items()))
        if keys & ~excluded & AUTOCAST
        else None
    )


@contextmanager
def without_autocast() -> Iterator[None]:
    """Inside, mixed precision is off."""
    keys, excluded = _C.get_thread_keys()
    if not keys & ~excluded & AUTOCAST:
        yield
        return
    _C.set_thread_keys(keys, excluded | AUTOCAST)
    try:
        yield
    finally:
        _C.set_thread_keys(*(_C.get_thread_keys()[0], excluded))
