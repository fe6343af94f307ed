"""Whether a program is being captured on this thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from .. import _C


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


@contextmanager
def without_saving_hooks() -> Iterator[None]:
    """Inside, hooks on saved tensors that are active outside see nothing: what capture saves are fakes."""
    try:
        _C._push_saved_hooks(None, None)
    except RuntimeError:     # hooks are forbidden here, so none are active
        yield
        return
    try:
        yield
    finally:
        _C._pop_saved_hooks()
