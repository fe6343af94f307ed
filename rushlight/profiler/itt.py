"""`torch.profiler.itt`: marks for Intel's VTune.

Enters: messages. Leaves: ranges and marks in the collector that VTune loads around a program (INTEL_LIBITTNOTIFY64);
where none listens, calls do nothing but count how deep they are.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import threading
from collections.abc import Iterator
from typing import Any

from ..base import environment

__all__ = ["is_available", "range_push", "range_pop", "mark", "range"]

_open = threading.local()


class _Id(ctypes.Structure):
    """ITT's identifier of a task; all zeros: none."""

    _fields_ = [("d1", ctypes.c_ulonglong), ("d2", ctypes.c_ulonglong), ("d3", ctypes.c_ulonglong)]


@functools.cache
def _collector() -> tuple[Any, Any] | None:
    """(the collector's library, our domain in it), if one listens."""
    path = environment.get("INTEL_LIBITTNOTIFY64")
    if not path:
        return None
    try:
        library = ctypes.CDLL(path)
        create, begin, end = library.__itt_domain_create, library.__itt_task_begin, library.__itt_task_end
        library.__itt_string_handle_create.restype = ctypes.c_void_p
    except (OSError, AttributeError):
        return None
    create.restype = ctypes.c_void_p
    begin.argtypes = [ctypes.c_void_p, _Id, _Id, ctypes.c_void_p]
    end.argtypes = [ctypes.c_void_p]
    return library, create(b"PyTorch")


def is_available() -> bool:
    """Whether marks can be made: they can."""
    return True


def range_push(msg: str) -> int:
    """Open a range on this thread's stack; its depth, from 0 on."""
    depth = getattr(_open, "depth", 0)
    _open.depth = depth + 1
    found = _collector()
    if found is not None:
        library, domain = found
        library.__itt_task_begin(domain, _Id(), _Id(), library.__itt_string_handle_create(str(msg).encode()))
    return depth


def range_pop() -> int:
    """Close the innermost range; its depth."""
    _open.depth = max(getattr(_open, "depth", 0) - 1, 0)
    found = _collector()
    if found is not None:
        found[0].__itt_task_end(found[1])
    return _open.depth


def mark(msg: str) -> None:
    """Mark this moment."""
    range_push(msg)
    range_pop()


@contextlib.contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """A range around a block; further arguments are formatted into the message."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
