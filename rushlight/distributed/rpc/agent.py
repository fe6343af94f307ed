"""A worker: its door, its connections to the others, the calls it waits for and those it serves.

A call goes out over the one connection to a worker and its answer comes back over it. Messages of one connection are
taken in order; calls are then run by threads, as many as there are calls, so that calls which call back do not wait for
each other's thread.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import queue
import socket
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...futures import Future
from ..doors import announce, connect, listen
from ..store import Store
from . import messages
from .messages import Message


@dataclass(frozen=True)
class WorkerInfo:
    """A worker: its name and its number."""

    name: str
    id: int

    def __repr__(self) -> str:
        return f"WorkerInfo(id={self.id}, name={self.name})"


class RemoteException:
    """What a function raised on another worker."""

    def __init__(self, msg: str, exception_type: type) -> None:
        self.msg, self.exception_type = msg, exception_type

    def as_error(self) -> BaseException:
        """The same kind of error, with what the other worker said."""
        try:
            return self.exception_type(self.msg)
        except Exception:       # one that takes other arguments
            return RuntimeError(f"{self.exception_type.__name__}: {self.msg}")


class _Threads:
    """Threads as calls need them: one that has nothing to do waits a while for more."""

    def __init__(self, kept: int) -> None:
        self._kept, self._idle = kept, 0
        self._lock = threading.Lock()
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()

    def run(self, work: Callable[[], None]) -> None:
        with self._lock:
            is_served = self._idle > 0
            if is_served:
                self._idle -= 1
        self._work.put(work)
        if not is_served:
            threading.Thread(target=self._serve, name="rpc", daemon=True).start()

    def _serve(self) -> None:
        while True:
            work = self._work.get()
            if work is None:
                return
            work()
            del work
            with self._lock:
                if self._idle >= self._kept:
                    return
                self._idle += 1

    def close(self) -> None:
        with self._lock:
            for _ in range(self._idle):
                self._work.put(None)


class _Link:
    """A connection to a worker, and the answers that are to come over it."""

    def __init__(self, connection: socket.socket, info: WorkerInfo) -> None:
        self.connection, self.info = connection, info
        self.lock = threading.Lock()
        self.waiting: dict[int, Future] = {}
        self.lost: str | None = None


class _Deadlines:
    """Ends calls that take too long."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._news = threading.Condition()
        self._count = itertools.count()
        self._open = True
        threading.Thread(target=self._watch, name="rpc-deadlines", daemon=True).start()

    def add(self, seconds: float, end: Callable[[], None]) -> None:
        with self._news:
            heapq.heappush(self._heap, (time.monotonic() + seconds, next(self._count), end))
            self._news.notify()

    def _watch(self) -> None:
        while True:
            with self._news:
                while self._open and (not self._heap or self._heap[0][0] > time.monotonic()):
                    self._news.wait(self._heap[0][0] - time.monotonic() if self._heap else None)
                if not self._open:
                    return
                _, _, end = heapq.heappop(self._heap)
            end()

    def close(self) -> None:
        with self._news:
            self._open = False
            self._news.notify()


class Agent:
    """This process among the workers."""

    def __init__(
        self, store: Store, name: str, rank: int, world_size: int, timeout: float, kept_threads: int,
        serve: Callable[[Message, WorkerInfo, Callable[[Message], None]], None],
        take: Callable[[Message, WorkerInfo], bool],
    ) -> None:
        """`take(message, from)` handles what must be handled in order, and says whether that was all; `serve(message,
        from, answer)` runs a call."""
        self.me, self.timeout, self._store = WorkerInfo(name, rank), timeout, store
        self._serve, self._take = serve, take
        self._threads, self._deadlines = _Threads(kept_threads), _Deadlines()
        self._links: dict[int, _Link] = {}
        self._making = threading.Lock()
        self._numbers = itertools.count()
        self._is_open = True
        self._serving = 0
        self._idle = threading.Condition()
        self._accepted: list[socket.socket] = []
        if store.add(f"id/{rank}", 1) > 1:
            raise RuntimeError(f"init_rpc: two workers were given rank {rank}")
        announce(store, rank)
        self._doors = listen(store, world_size, ("TP_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"))
        self.workers = self._meet(world_size)

    def start(self) -> None:
        """Serve calls: from now on, when everything that serves them is in place."""
        for listener in self._doors.listeners:
            threading.Thread(target=self._accept, args=(listener,), name="rpc-accept", daemon=True).start()

    # --- meeting ------------------------------------------------------------------------------------------------------

    def _meet(self, world_size: int) -> dict[str, WorkerInfo]:
        said = self._store.compare_set(f"name/{self.me.name}", "", str(self.me.id)).decode()
        self._store.set(f"worker/{self.me.id}", f"{self.me.name} {self._doors.address}")
        workers = {}
        self._addresses: dict[int, str] = {}
        for rank in range(world_size):
            name, _, place = self._store.get(f"worker/{rank}").decode().partition(" ")
            if name in workers:
                raise RuntimeError(f"init_rpc: ranks {workers[name].id} and {rank} are both called {name!r}")
            workers[name] = WorkerInfo(name, rank)
            self._addresses[rank] = place
        if said != str(self.me.id):
            raise RuntimeError(f"init_rpc: rank {said} is called {self.me.name!r} too")
        return workers

    def info(self, to: Any) -> WorkerInfo:
        """A worker by its name, number or info."""
        if isinstance(to, WorkerInfo):
            to = to.name
        found = self.workers.get(to) if isinstance(to, str) else next(
            (w for w in self.workers.values() if w.id == to), None
        )
        if found is None:
            raise RuntimeError(f"there is no worker {to!r}; there are {', '.join(sorted(self.workers))}")
        return found

    # --- calling ------------------------------------------------------------------------------------------------------

    def _link(self, info: WorkerInfo) -> _Link:
        with self._making:
            link = self._links.get(info.id)
            if link is not None and link.lost is None:
                return link
            try:
                connection = connect(self._addresses[info.id], self._doors.secret, self.timeout or None)
                connection.settimeout(None)
            except OSError as error:
                raise RuntimeError(f"worker {info.name} cannot be reached ({error}): has it ended?") from None
            link = self._links[info.id] = _Link(connection, info)
            messages.send(connection, link.lock, Message(("hello", self.me.id)))
        threading.Thread(target=self._read_answers, args=(link,), name="rpc-answers", daemon=True).start()
        return link

    def call(self, to: WorkerInfo, kind: str, about: tuple, body: bytes, tensors: list, timeout: float) -> Future:
        """Send a call; a future of the message that answers it."""
        if not self._is_open:
            raise RuntimeError("RPC was shut down")
        seconds = self.timeout if timeout < 0 else timeout
        link, number, future = self._link(to), next(self._numbers), Future()
        link.waiting[number] = future
        try:
            messages.send(link.connection, link.lock, Message((kind, number, *about), body, tensors))
        except OSError as error:
            link.waiting.pop(number, None)
            self._lose(link, str(error))
            raise RuntimeError(f"worker {to.name} cannot be reached ({error}): has it ended?") from None
        if link.lost is not None and link.waiting.pop(number, None) is not None:
            future.set_exception(RuntimeError(link.lost))
        if seconds:
            self._deadlines.add(seconds, lambda: self._expire(link, number, seconds))
        return future

    def tell(self, to: WorkerInfo, kind: str, about: tuple) -> None:
        """Send what needs no answer."""
        link = self._link(to)
        messages.send(link.connection, link.lock, Message((kind, -1, *about)))

    def _expire(self, link: _Link, number: int, seconds: float) -> None:
        future = link.waiting.pop(number, None)
        if future is not None:
            error = RuntimeError(
                f"RPC ran for more than set timeout ({seconds * 1000:g} ms) and will now be marked with an error: "
                f"worker {link.info.name} did not answer {self.me.name}"
            )
            self._threads.run(lambda: future.set_exception(error))

    def _read_answers(self, link: _Link) -> None:
        try:
            while True:
                message = messages.receive(link.connection)
                future = link.waiting.pop(message.head[1], None)
                if future is not None:       # otherwise it came too late
                    self._threads.run(lambda f=future, m=message: f.set_result(m))
        except (OSError, EOFError) as error:
            self._lose(link, str(error))

    def _lose(self, link: _Link, why: str) -> None:
        link.lost = f"worker {link.info.name} ended, or the connection to it did ({why}), while {self.me.name} waited"
        for number in list(link.waiting):
            future = link.waiting.pop(number, None)
            if future is not None:
                self._threads.run(lambda f=future: f.set_exception(RuntimeError(link.lost)))

    # --- serving ------------------------------------------------------------------------------------------------------

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._read_calls, args=(connection,), name="rpc-calls", daemon=True).start()

    def _read_calls(self, connection: socket.socket) -> None:
        if not self._doors.admit(connection):       # before a byte of it is unpickled
            return
        self._accepted.append(connection)
        lock = threading.Lock()
        try:
            if not self._is_open:
                return
            source = self.info(messages.receive(connection).head[1])
            while True:
                message = messages.receive(connection)
                if self._take(message, source):
                    continue
                with self._idle:
                    self._serving += 1
                self._threads.run(lambda m=message: self._run(m, source, connection, lock))
        except (OSError, EOFError):
            pass
        except Exception:       # a message that cannot be read ends its connection, and no other
            traceback.print_exc()
        finally:
            connection.close()

    def _run(self, message: Message, source: WorkerInfo, connection: socket.socket, lock: threading.Lock) -> None:
        def answer(reply: Message) -> None:
            reply.head = ("answer", message.head[1], *reply.head)
            with contextlib.suppress(OSError):        # the caller has gone: nobody waits for it
                messages.send(connection, lock, reply)
            with self._idle:
                self._serving -= 1
                self._idle.notify_all()

        self._serve(message, source, answer)

    # --- the end ------------------------------------------------------------------------------------------------------

    def run_here(self, work: Callable[[], None]) -> None:
        """Run something in a thread of this worker's."""
        self._threads.run(work)

    def wait_until_served(self) -> None:
        """Until every call that came is answered."""
        with self._idle:
            while self._serving:
                self._idle.wait()

    def wait_until_idle(self) -> None:
        """Until nothing is served here, and no answer is awaited."""
        self.wait_until_served()
        while any(link.waiting for link in list(self._links.values())):
            time.sleep(0.001)

    def close(self) -> None:
        """End all connections."""
        self._is_open = False
        for listener in self._doors.listeners:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        for connection in [*(link.connection for link in self._links.values()), *self._accepted]:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
        self._deadlines.close()
        self._threads.close()
