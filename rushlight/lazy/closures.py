"""Functions to be called when a step ends: in order, or on a thread of their own.

Enters: functions and their arguments, while a step is written down. Leaves: nothing. What one raises reaches whoever
ends the step; on the other thread it is kept, and raised when the next one is handed over.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from queue import Empty, Full, Queue
from typing import Any

PATIENCE = 5.0      # seconds that an idle thread of closures waits for more


class ClosureHandler:
    """Calls closures one after the other."""

    def run(self, closure: Callable[[], Any]) -> None:
        """Call one."""
        closure()

    def __call__(self, closures: Iterable[Callable[[], Any]]) -> None:
        for closure in closures:
            self.run(closure)


class AsyncClosureHandler(ClosureHandler):
    """Calls closures in order on a thread of its own, which ends when there is nothing to do."""

    def __init__(self, max_queue_size: int = 100) -> None:
        self._queue: Queue[Callable[[], Any]] = Queue(max_queue_size)
        self._error: BaseException | None = None
        self._guard = threading.Lock()
        self._thread: threading.Thread | None = None

    def start_event_loop(self) -> None:
        """Have the thread running."""
        with self._guard:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._serve, name="lazy step closures", daemon=True)
                self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                closure = self._queue.get(timeout=PATIENCE)
            except Empty:
                with self._guard:
                    if self._queue.empty():
                        self._thread = None
                        return
                continue
            try:
                closure()
            except BaseException as error:  # noqa: BLE001 - whoever hands over the next one is told
                self._error = error
            finally:
                self._queue.task_done()

    def run(self, closure: Callable[[], Any]) -> None:
        """Hand one over; waits while too many are waiting."""
        error, self._error = self._error, None
        if error is not None:
            raise RuntimeError(f"a step closure failed on its thread: {error}") from error
        while True:
            self.start_event_loop()
            try:
                self._queue.put(closure, timeout=PATIENCE)
                break
            except Full:
                continue
        self.start_event_loop()

    def wait(self) -> None:
        """Return when all that was handed over was called."""
        self._queue.join()


class _Waiting(threading.local):
    def __init__(self) -> None:
        self.closures: list[Callable[[], Any]] = []
        self.apart: list[Callable[[], Any]] = []


_waiting = _Waiting()
_in_order, _apart = ClosureHandler(), AsyncClosureHandler()


def add_step_closure(closure: Callable, args: Sequence[Any] = (), run_async: bool = False) -> None:
    """Call `closure(*args)` when the step has ended; `run_async`: on another thread, in order with its like."""
    if not callable(closure):
        raise TypeError(f"add_step_closure: expected a function, got {type(closure).__name__}")
    (_waiting.apart if run_async else _waiting.closures).append(lambda: closure(*args))


def run_step_closures() -> None:
    """Call what waits for the end of this thread's step."""
    apart, _waiting.apart = _waiting.apart, []
    closures, _waiting.closures = _waiting.closures, []
    _apart(apart)
    _in_order(closures)
