"""Handlers of signals that arrive while a frame is captured: a program that saves its tensors when it is told to end
must find them, and not the fakes and modes of a capture.

Enters: nothing but the handlers that are installed when a capture begins on the main thread, where Python runs them.
Leaves: each in the clothes of one that turns everything off that capture turned on, for as long as the handler runs.
Compiled functions that it calls run what was compiled before, or as they are. Exceptions of handlers are the program's:
whatever capture makes of them, they are raised when it ends.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .. import _C
from ..rules import levels
from .record import tracing
from .record.recorder import without_modes
from .record.thread_modes import modes_now, set_modes


class _Handler:
    """A handler of the program. What the thread's state was is told by whoever begins the capture."""

    def __init__(self, handler: Callable, keys: tuple[int, int], modes: tuple) -> None:
        self.handler, self.keys, self.modes = handler, keys, modes
        self.is_capturing = True      # afterwards somebody may still have it, as the handler that was there before
        self.raised: BaseException | None = None

    def __call__(self, number: int, frame: Any) -> Any:
        if not self.is_capturing:
            return self.handler(number, frame)
        keys, modes, depth, stack = _C.get_thread_keys(), modes_now(), tracing._state.depth, levels.state.stack
        tracing._state.depth, levels.state.stack = 0, []
        try:
            with without_modes():
                set_modes(self.modes)
                _C.set_thread_keys(*self.keys)
                return self.handler(number, frame)
        except BaseException as error:
            self.raised = error
            raise
        finally:
            tracing._state.depth, levels.state.stack = depth, stack
            set_modes(modes)
            _C.set_thread_keys(*keys)


@contextmanager
def handlers_outside() -> Iterator[None]:
    """Inside, handlers of signals run as if nothing were captured."""
    signal = sys.modules.get("signal")      # without it, a program has installed none
    if signal is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    import _signal  # noqa: PLC0415 - a hundredth of what `signal` takes, which makes members of an enumeration

    keys, modes = _C.get_thread_keys(), modes_now()
    found = [(n, _signal.getsignal(n)) for n in _signal.valid_signals()]
    ours = {n: _Handler(handler, keys, modes) for n, handler in found
            if callable(handler) and handler is not signal.default_int_handler}
    for n, handler in ours.items():
        _signal.signal(n, handler)
    try:
        yield
    finally:
        for n, handler in ours.items():
            handler.is_capturing = False
            if _signal.getsignal(n) is handler:
                _signal.signal(n, handler.handler)
        for handler in ours.values():
            if handler.raised is not None:
                raise handler.raised
