"""`Work`: a collective under way, and the lanes that run them.

A lane runs what it is given one after another. A call that need not be asynchronous runs in the caller's own thread
when its lane is idle; otherwise, and for `async_op=True`, in the lane's thread, in the order of the calls.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from ..futures import Future
from .errors import DistBackendError


class Work:
    """A call between processes that may still be under way. Back ends written in a program subclass it."""

    def __init__(self) -> None:
        self._finished = threading.Event()
        self._error: BaseException | None = None
        self._result: list[Any] = []
        self._source = -1
        self._future: Future | None = None
        self._lock = threading.Lock()

    def is_completed(self) -> bool:
        """Whether it has ended, well or not."""
        return self._finished.is_set()

    def is_success(self) -> bool:
        """Whether it has ended well."""
        return self._finished.is_set() and self._error is None

    def exception(self) -> BaseException | None:
        """What went wrong, if anything did."""
        return self._error

    def source_rank(self) -> int:
        """The rank that a message came from."""
        return self._source

    _source_rank = source_rank

    def result(self) -> list[Any]:
        """The tensors that were written."""
        return self._result

    def synchronize(self) -> None:
        """Make later work of this thread see the results."""
        self.wait()

    block_current_stream = synchronize

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Return when it has ended; raise what went wrong."""
        seconds = None if not timeout else timeout.total_seconds()
        if not self._finished.wait(seconds):
            raise DistBackendError(f"Work.wait: not done within {seconds:g} s")
        if self._error is not None:
            raise self._error
        return True

    def get_future(self) -> Future:
        """The result as a future, whose callbacks run when it is there."""
        with self._lock:
            if self._future is None:
                self._future = Future()
                if self._finished.is_set():
                    self._settle(self._future)
            return self._future

    get_future_result = get_future

    def _settle(self, future: Future) -> None:
        if self._error is not None:
            future.set_exception(self._error)
        else:
            future.set_result(self._result)

    def _finish(self, error: BaseException | None = None) -> None:
        with self._lock:
            self._error = error
            self._finished.set()
            future = self._future
        if future is not None:
            self._settle(future)


class Lane:
    """A queue of calls and, once one of them is asynchronous, the thread that runs them."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls: deque[tuple[Work, Callable[[], Any]]] = deque()
        self._news = threading.Condition()
        self._busy = False          # a call is running, in whichever thread
        self._thread: threading.Thread | None = None
        self._open = True

    def run(self, call: Callable[[], Any], result: list[Any], in_background: bool) -> Work:
        """Run a call now, or put it at the end of the queue."""
        work = Work()
        work._result = result
        with self._news:
            if in_background or self._busy or self._calls:
                self._enqueue(work, call)
                return work
            self._busy = True
        try:
            _perform(work, call)
        finally:
            with self._news:
                self._busy = False
                if self._calls:
                    self._news.notify()
        return work

    def _enqueue(self, work: Work, call: Callable[[], Any]) -> None:
        self._calls.append((work, call))
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
            self._thread.start()
        self._news.notify()

    def _serve(self) -> None:
        while True:
            with self._news:
                while self._busy or not self._calls:
                    if not self._open and not self._calls:
                        return
                    self._news.wait()
                work, call = self._calls.popleft()
                self._busy = True
            _perform(work, call)
            with self._news:
                self._busy = False
            del work, call

    def close(self) -> None:
        """Let the thread end when the queue is empty."""
        with self._news:
            self._open = False
            self._news.notify_all()


def _perform(work: Work, call: Callable[[], Any]) -> None:
    try:
        source = call()
        if isinstance(source, int):
            work._source = source
        work._finish()
    except Exception as error:
        work._finish(error)
    except BaseException as error:       # an interrupt belongs to the caller, but nobody may wait for ever
        work._finish(DistBackendError(f"interrupted by {type(error).__name__}"))
        raise
