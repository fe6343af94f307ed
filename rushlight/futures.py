"""Futures: results that come later, set by whoever computes them.

Enters: a value or an exception, set once from any thread. Leaves: the value to everyone who waits, and callbacks run.
Refuses: a second value.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

__all__ = ["Future", "collect_all", "wait_all"]

T = TypeVar("T")


class Future(Generic[T]):
    """A value to wait for."""

    def __init__(self, *, devices: list[Any] | None = None) -> None:
        if devices:
            raise NotImplementedError(
                "futures.Future: devices need streams to wait on, and there is no such device yet"
            )
        self._done = threading.Condition()
        self._is_done = False
        self._value: Any = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Future[T]], Any]] = []

    def done(self) -> bool:
        """Whether there is a value or an exception."""
        return self._is_done

    def wait(self) -> T:
        """The value, when it is there; an exception is raised here."""
        with self._done:
            self._done.wait_for(lambda: self._is_done)
        return self.value()

    def value(self) -> T:
        """The value of a future that is done."""
        if not self._is_done:
            raise RuntimeError("Future: value() needs a result, and there is none yet; call wait() first")
        if self._error is not None:
            raise self._error
        return self._value

    def set_result(self, result: T) -> None:
        """Give the value."""
        self._finish(result, None)

    def set_exception(self, result: BaseException) -> None:
        """Give an exception instead of a value."""
        if not isinstance(result, Exception):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        self._finish(None, result)

    def _finish(self, value: Any, error: BaseException | None) -> None:
        with self._done:
            if self._is_done:
                raise RuntimeError("Future can only be marked completed once")
            self._value, self._error, self._is_done = value, error, True
            callbacks, self._callbacks = self._callbacks, []
            self._done.notify_all()
        for callback in callbacks:
            callback(self)

    def add_done_callback(self, callback: Callable[[Future[T]], None]) -> None:
        """Run `callback(self)` when done, or now if it is."""
        with self._done:
            if not self._is_done:
                self._callbacks.append(callback)
                return
        callback(self)

    def then(self, callback: Callable[[Future[T]], Any]) -> Future[Any]:
        """A future of `callback(self)`."""
        following: Future[Any] = Future()

        def run(done: Future[T]) -> None:
            try:
                result = callback(done)
            except Exception as failure:   # whoever waits for the result gets it
                following.set_exception(failure)
            else:
                following.set_result(result)

        self.add_done_callback(run)
        return following


def collect_all(futures: list[Future]) -> Future[list[Future]]:
    """A future of the list itself, done when all of them are."""
    together: Future[list[Future]] = Future()
    left, lock = [len(futures)], threading.Lock()

    def one_done(_: Future) -> None:
        with lock:
            left[0] -= 1
            finished = left[0] == 0
        if finished:
            together.set_result(futures)

    if not futures:
        together.set_result(futures)
    for future in futures:
        future.add_done_callback(one_done)
    return together


def wait_all(futures: list[Future]) -> list[Any]:
    """The values of all."""
    return [future.wait() for future in collect_all(futures).wait()]
