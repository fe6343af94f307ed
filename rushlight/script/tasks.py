"""Calls that run beside the program: what `fork` starts.

Enters: a function and its arguments. Leaves: a `Future`. As many threads as `get_num_interop_threads` says take tasks
up; whoever waits for one that nobody has taken up runs it himself, so that tasks that wait for tasks never stand still.
The grad mode of the place that forks holds inside, as it would for a plain call.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable
from typing import Any

from .. import _C
from ..base.settings import get_num_interop_threads
from ..futures import Future


class Task(Future):
    """A call and its result to come."""

    def __init__(self, call: Callable[..., Any], args: tuple[Any, ...]) -> None:
        super().__init__()
        self._call: tuple[Callable[..., Any], tuple[Any, ...]] | None = (call, args)
        self._taken = threading.Lock()
        self._grad = _C.is_grad_enabled()

    def take(self) -> None:
        """Run it here, unless somebody has taken it up."""
        if not self._taken.acquire(blocking=False):
            return
        assert self._call is not None
        (call, args), self._call = self._call, None
        before = _C.is_grad_enabled()
        _C._set_grad_enabled(self._grad)
        try:
            result = call(*args)
        except Exception as error:      # whoever waits gets it
            self.set_exception(error)
        else:
            self.set_result(result)
        finally:
            _C._set_grad_enabled(before)

    def wait(self) -> Any:
        self.take()
        return super().wait()


class _Pool:
    """Threads that take tasks up, started when the first is there."""

    def __init__(self) -> None:
        self._tasks: queue.SimpleQueue[Task] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()

    def submit(self, task: Task) -> None:
        with self._lock:
            if len(self._threads) < max(1, get_num_interop_threads()):
                thread = threading.Thread(target=self._serve, name=f"fork {len(self._threads)}", daemon=True)
                self._threads.append(thread)
                thread.start()
        self._tasks.put(task)

    def _serve(self) -> None:
        while True:
            with contextlib.suppress(Exception):     # of a callback; the task keeps its own
                self._tasks.get().take()


_pool = _Pool()


def fork(call: Callable[..., Any], *args: Any) -> Task:
    """Start a call; its future."""
    task = Task(call, args)
    _pool.submit(task)
    return task
