"""Whether a program is being captured on this thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class _State(threading.local):
    depth = 0     # captures now on this thread's stack


_state = _State()


def is_compiling() -> bool:
    """Whether this runs inside a capture."""
    return _state.depth > 0


@contextmanager
def tracing() -> Iterator[None]:
    """Inside, a program is being captured."""
    _state.depth += 1
    try:
        yield
    finally:
        _state.depth -= 1
