"""Collectives that run on a card: works and futures that order streams, and the thread that watches over them.

A work is begun when its calls are queued on the group's stream. To wait for one makes the current stream wait, not the
host. What has hung is found by the watch: a work that is not done within its timeout, a communicator that failed, or
another rank's alarm in the store.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from .. import _C
from ..base import environment
from ..futures import Future
from ..torch_names.streams import Stream
from .errors import DistBackendError
from .store import Store
from .work import Work

_TICK = 0.2


class StreamFuture(Future):
    """A result that is on its way on a stream: to wait orders streams, callbacks run on the result's stream."""

    def __init__(self, result: Any, stream: Stream, mark: Any) -> None:
        super().__init__()
        self._stream, self._mark = stream, mark
        self.set_result(result)

    def wait(self) -> Any:
        device = self._stream.device
        _C.wait_event(device, _C.current_stream(device), self._mark)
        return self.value()

    def then(self, callback: Callable[[Future], Any]) -> Future:
        with self._stream:
            result = callback(self)
        return StreamFuture(result, self._stream, _C.record_event(self._stream.device, self._stream.stream_id))


class NcclWork(Work):
    """A call that is queued on a stream of a card."""

    def __init__(self, name: str, number: int, stream: Stream, seconds: float, result: list[Any]) -> None:
        super().__init__()
        self.name, self.number, self.seconds = name, number, seconds
        self.began = time.monotonic()
        self._stream, self._mark, self._result = stream, None, result

    def queued(self) -> None:
        """All calls are in the queue."""
        self._mark = _C.record_event(self._stream.device, self._stream.stream_id)

    def has_ended(self) -> bool:
        """Whether the card is done with it."""
        return self._mark is not None and _C.query_event(self._mark)

    def is_completed(self) -> bool:
        return self._finished.is_set() or self.has_ended()

    def is_success(self) -> bool:
        return self._error is None and self.is_completed()

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Make the current stream wait for it; with a timeout, or TORCH_NCCL_BLOCKING_WAIT=1, the host."""
        if self._error is not None:
            raise self._error
        if timeout or environment.get("TORCH_NCCL_BLOCKING_WAIT") == "1":
            self._wait_on_host(timeout.total_seconds() if timeout else self.seconds)
        device = self._stream.device
        _C.wait_event(device, _C.current_stream(device), self._mark)
        return True

    synchronize = block_current_stream = wait

    def _wait_on_host(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not self.has_ended():
            if self._error is not None:
                raise self._error
            if time.monotonic() > deadline:
                raise DistBackendError(f"{self.name}: Work.wait: not done within {seconds:g} s")
            time.sleep(0.0002)

    def get_future(self) -> Future:
        """The result as a future of the stream's: its callbacks run now, and their work behind this one's."""
        if self._error is not None:
            failed: Future = Future()
            failed.set_exception(self._error)
            return failed
        return StreamFuture(self._result, self._stream, self._mark)

    def when_ended(self, callback: Callable[[], Any]) -> None:
        """Call when the card is done, as the watch sees it."""
        super().get_future().add_done_callback(lambda _: callback())


class Watch:
    """A thread over the works of one group."""

    def __init__(self, name: str, store: Store, rank: int, ranks: list[int], give_up: Callable[[], None]) -> None:
        self._name, self._store, self._rank, self._ranks, self._give_up = name, store, rank, ranks, give_up
        self._works: list[NcclWork] = []
        self._failures: dict[int, Callable[[], str]] = {}
        self._lock = threading.Lock()
        self._said, self.number = 0, 0
        self.error: DistBackendError | None = None
        self._is_open = True
        self._thread: threading.Thread | None = None

    def add(self, work: NcclWork, failure: Callable[[], str]) -> None:
        """Watch over a work that is about to be queued."""
        with self._lock:
            self._works.append(work)
            self._failures[id(failure)] = failure
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=f"{self._name} watch", daemon=True)
                self._thread.start()

    def drop(self, work: NcclWork) -> None:
        """A work that could not be queued."""
        with self._lock:
            if work in self._works:
                self._works.remove(work)

    def close(self) -> None:
        """Stop watching."""
        self._is_open = False

    def _run(self) -> None:
        while self._is_open:
            time.sleep(_TICK)
            try:
                wrong = self._look()
            except Exception as error:      # the store has gone, or the group has been destroyed meanwhile
                if not self._is_open:
                    return
                wrong = f"the watch itself failed: {error}"
            if wrong and self._is_open:
                self._alarm(wrong)
                return

    def _look(self) -> str:
        """What is wrong, if anything is."""
        with self._lock:
            works = list(self._works)
        for work in works:
            if work.has_ended():
                with self._lock:
                    self._works.remove(work)
                work._finish()
        if self._said != self.number:
            self._said = self.number
            self._store.set(f"number/{self._rank}", str(self._said))
        for failure in list(self._failures.values()):
            if text := failure():
                return f"{self._name}: NCCL failed: {text}"
        if works and self._store.check(["alarm"]):
            return self._store.get("alarm").decode()
        now = time.monotonic()
        late = next((w for w in works if not w.is_completed() and now - w.began > w.seconds), None)
        return "" if late is None else self._lateness(late)

    def _lateness(self, late: NcclWork) -> str:
        absent = []
        for place, rank in enumerate(self._ranks):
            key = f"number/{place}"
            if place != self._rank and (not self._store.check([key]) or int(self._store.get(key)) < late.number):
                absent.append(rank)
        who = f"ranks {absent} have not made it" if absent else "all ranks have made it"
        return (
            f"{self._name}: {late.name} (call {late.number}) is not done within {late.seconds:g} s on rank "
            f"{self._ranks[self._rank]}: {who}"
        )

    def _alarm(self, wrong: str) -> None:
        """Tell the others, then do as TORCH_NCCL_ASYNC_ERROR_HANDLING says."""
        try:
            self._store.compare_set("alarm", "", wrong)
        except Exception as error:
            wrong = f"{wrong} (and the others could not be told: {error})"
        self.error = DistBackendError(wrong)
        handling = environment.get("TORCH_NCCL_ASYNC_ERROR_HANDLING")
        if handling in ("1", "2"):
            self._give_up()
        with self._lock:
            works, self._works = self._works, []
        for work in works:
            work._finish(self.error)
        if handling in ("1", "3"):      # results on the card are wrong, and nothing else would stop their use
            print(f"{wrong}. The process ends (TORCH_NCCL_ASYNC_ERROR_HANDLING={handling}).", file=sys.stderr)
            sys.stderr.flush()
            os.kill(os.getpid(), signal.SIGABRT)
