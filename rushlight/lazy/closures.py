"""Functions to be called when a step ends: in order, or on a thread of their own.

Enters: functions and their arguments, while a step is written down. Leaves: nothing; what they raise ends the step.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any


class _Waiting(threading.local):
    def __init__(self) -> None:
        self.closures: list[Callable[[], Any]] = []
        self.apart: list[Callable[[], Any]] = []


_waiting = _Waiting()
_queue: SimpleQueue[Callable[[], Any]] | None = None


def add_step_closure(closure: Callable, args: Sequence[Any] = (), run_async: bool = False) -> None:
    """Call `closure(*args)` when the step has ended; `run_async`: on another thread, in order with its like."""
    (_waiting.apart if run_async else _waiting.closures).append(lambda: closure(*args))


def run_step_closures() -> None:
    """Call what waits for the end of this step."""
    global _queue
    apart, _waiting.apart = _waiting.apart, []
    if apart:
        if _queue is None:
            _queue = SimpleQueue()
            threading.Thread(target=_serve, args=(_queue,), name="lazy step closures", daemon=True).start()
        for closure in apart:
            _queue.put(closure)
    closures, _waiting.closures = _waiting.closures, []
    for closure in closures:
        closure()


def _serve(queue: SimpleQueue[Callable[[], Any]]) -> None:
    while True:
        queue.get()()
