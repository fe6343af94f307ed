"""Messages from one rank to another: sent over a socket between the two, matched by sender and tag.

Enters: flat tensors in host memory, a rank, a tag. Leaves: the same on the other side. Refuses: a message of another
size than was expected, a peer that is gone; both are named.

A socket pair is made when the first message goes out: the receiver listens where the store says. Messages that come
before somebody asks for them are kept. One thread per peer reads, so that two ranks which send to each other first and
receive afterwards both get on.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections import deque
from typing import Any

from .. import _C
from .doors import Doors, connect, listen, receive_all
from .errors import DistBackendError
from .store import Store

_HEAD = struct.Struct("<qqq")     # sender, tag, bytes
_SMALL = 1 << 16                  # messages up to this size are read without being asked for


def view_of(flat: Any) -> memoryview:
    """A flat tensor's bytes, to be sent or received into."""
    return memoryview(flat.view(_C.uint8).numpy())


class _Message:
    """One that came: its bytes, or the connection they are still in."""

    def __init__(self, tag: int, size: int) -> None:
        self.tag, self.size = tag, size
        self.data: bytearray | None = None
        self.taken = threading.Event()
        self.target: memoryview | None = None


class Mailbox:
    """A rank's door for messages of one group."""

    def __init__(self, store: Store, rank: int, global_ranks: list[int], name: str) -> None:
        self._store, self._rank, self._ranks, self._name = store, rank, global_ranks, name
        self._news = threading.Condition()
        self._came: dict[int, deque[_Message]] = {}
        self._lost: dict[int, str] = {}
        self._out: dict[int, socket.socket] = {}
        self._out_locks = [threading.Lock() for _ in global_ranks]
        self._closed = False
        self._doors = self._listen()
        for listener in self._doors.listeners:
            threading.Thread(target=self._accept, args=(listener,), name="mailbox", daemon=True).start()

    def _listen(self) -> Doors:
        """Doors for other ranks; the store says where they are."""
        doors = listen(self._store, len(self._ranks))
        self._store.set(f"mailbox/{self._rank}", doors.address)
        return doors

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._read, args=(connection,), name="mailbox-read", daemon=True).start()

    def _read(self, connection: socket.socket) -> None:
        if not self._doors.admit(connection):
            return
        sender = -1
        try:
            while True:
                head = bytearray(_HEAD.size)
                receive_all(connection, memoryview(head))
                sender, tag, size = _HEAD.unpack(head)
                message = _Message(tag, size)
                if size <= _SMALL:
                    message.data = bytearray(size)
                    receive_all(connection, memoryview(message.data))
                self._deliver(sender, message)
                if size > _SMALL:       # straight into the tensor that asks for it
                    message.taken.wait()
                    if message.target is None:
                        return
                    receive_all(connection, message.target)
                    message.data = bytearray()
                    with self._news:
                        self._news.notify_all()
        except OSError as error:
            with self._news:
                if sender >= 0 and not self._closed:
                    self._lost[sender] = str(error)
                self._news.notify_all()
        finally:
            connection.close()

    def _deliver(self, sender: int, message: _Message) -> None:
        with self._news:
            self._came.setdefault(sender, deque()).append(message)
            self._news.notify_all()

    def send(self, flat: Any, to: int, tag: int, timeout: float) -> None:
        """Send a tensor's bytes; they are on their way when this returns."""
        data = view_of(flat)
        with self._out_locks[to]:
            connection = self._out.get(to) or self._connect(to, timeout)
            connection.settimeout(timeout)
            try:
                connection.sendall(_HEAD.pack(self._rank, tag, data.nbytes))
                connection.sendall(data)
            except OSError as error:
                self._out.pop(to, None)
                raise DistBackendError(
                    f"{self._name}: send to rank {self._ranks[to]} failed ({error}); has it ended?"
                ) from None

    def _connect(self, to: int, timeout: float) -> socket.socket:
        try:
            connection = connect(self._store.get(f"mailbox/{to}").decode(), self._doors.secret, timeout)
        except OSError as error:
            raise DistBackendError(f"{self._name}: rank {self._ranks[to]} cannot be reached ({error})") from None
        self._out[to] = connection
        return connection

    def receive(self, flat: Any, source: int | None, tag: int, timeout: float) -> int:
        """Fill a tensor with the next message of a rank (or of any) with this tag; the rank."""
        deadline = time.monotonic() + timeout
        with self._news:
            while True:
                found = self._take(source, tag)
                if found:
                    break
                self._check_alive(source)
                left = deadline - time.monotonic()
                if left <= 0:
                    who = "any rank" if source is None else f"rank {self._ranks[source]}"
                    raise DistBackendError(f"{self._name}: nothing came from {who} (tag {tag}) within {timeout:g} s")
                self._news.wait(left)
        sender, message = found
        target = view_of(flat)
        if message.size != target.nbytes:
            message.taken.set()
            raise DistBackendError(
                f"{self._name}: rank {self._ranks[sender]} sent {message.size} bytes (tag {tag}), and rank "
                f"{self._ranks[self._rank]} expects {target.nbytes}"
            )
        if message.data is not None:
            target[:] = message.data
            return sender
        message.target = target
        message.taken.set()
        with self._news:
            while message.data is None:
                if sender in self._lost:
                    raise DistBackendError(f"{self._name}: rank {self._ranks[sender]} ended in the middle of a message")
                if not self._news.wait(max(0.0, deadline - time.monotonic())):
                    raise DistBackendError(f"{self._name}: a message of rank {self._ranks[sender]} stopped half-way")
        return sender

    def _take(self, source: int | None, tag: int) -> tuple[int, _Message] | None:
        for sender, queue in self._came.items():
            if source is not None and sender != source:
                continue
            for message in queue:
                if message.tag == tag:
                    queue.remove(message)
                    return sender, message
        return None

    def _check_alive(self, source: int | None) -> None:
        if source is not None and source in self._lost:
            raise DistBackendError(
                f"{self._name}: rank {self._ranks[source]} ended while a message from it was awaited "
                f"({self._lost[source]})"
            )

    def close(self) -> None:
        """Stop listening."""
        self._closed = True
        for listener in self._doors.listeners:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        for connection in self._out.values():
            connection.close()
