"""Whether a program is being captured on this thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from ... import _C

HOOKED = 2      # of the core's words for modes, the one that says whether saved tensors go through hooks


class _State(threading.local):
    depth = 0             # captures now on this thread's stack
    hooked: bool | None = None      # whether tensors that are saved go through hooks, where those are suspended


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
    hooked, before = mode_words()[HOOKED], _state.hooked
    try:
        _C._push_saved_hooks(None, None)
    except RuntimeError:     # hooks are forbidden here, so none are active
        yield
        return
    _state.hooked = hooked
    try:
        yield
    finally:
        _state.hooked = before
        _C._pop_saved_hooks()


def mode_words() -> tuple:
    """The modes of this thread as the core has them; inside a capture those of the program."""
    words = _C.mode_words()
    return words if _state.hooked is None else (*words[:HOOKED], _state.hooked, *words[HOOKED + 1 :])
