"""TCPStore: a table of keys and values in one process, served to the others over TCP.

One thread serves all connections: it never waits for one of them, a reader whose key is not there yet is answered when
the key is set. A message is a length, an operation and length-prefixed fields; nothing in it is ever executed.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import struct
import threading
import time
import weakref
from collections.abc import Iterable
from datetime import timedelta
from ipaddress import ip_address
from typing import Any

from .errors import DistNetworkError, DistStoreError, QueueEmptyError
from .store import CHANGES, DEFAULT_TIMEOUT, WAITS, Store, Table, _seconds, nobody_set

OPERATIONS = (
    "set", "get", "add", "compare_set", "append", "check", "wait", "delete_key", "num_keys", "list_keys",
    "queue_push", "queue_pop", "queue_len", "cancel",
)
_OK, _ERROR, _ABSENT = range(3)
_LENGTH = struct.Struct("<I")
_LARGEST = 1 << 30   # a message longer than this is not one of ours
_WORKERS = "worker-count"


def _pack(head: int, fields: Iterable[bytes]) -> bytes:
    body = bytes((head,)) + b"".join(_LENGTH.pack(len(field)) + field for field in fields)
    return _LENGTH.pack(len(body)) + body


def _fields(body: bytes) -> list[bytes]:
    found, at = [], 1
    while at < len(body):
        (size,) = _LENGTH.unpack_from(body, at)
        if at + 4 + size > len(body):
            raise ValueError("a field runs past its message")
        found.append(body[at + 4 : at + 4 + size])
        at += 4 + size
    return found


class _Connection:
    """One client as the server sees it: bytes not understood yet, and the read it waits for."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        self.received = bytearray()
        self.to_send = bytearray()
        self.waiting: tuple[str, tuple[str, ...]] | None = None


class Server:
    """The table and the thread that serves it; it ends with `close` or with the process."""

    def __init__(self, listener: socket.socket) -> None:
        self.listener = listener
        bound = listener.getsockname()[0]
        self.host = "localhost" if bound in ("::", "0.0.0.0") else bound      # where this process reaches it
        self.table = Table()
        self._waiting: set[_Connection] = set()
        self._selector = selectors.DefaultSelector()
        self._wake_read, self._wake_write = os.pipe()
        self._selector.register(self._wake_read, selectors.EVENT_READ)
        listener.setblocking(False)
        self._selector.register(listener, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._serve, name="tcp-store", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop serving; every client's next call says that the server is gone."""
        with contextlib.suppress(OSError):
            os.write(self._wake_write, b".")
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _serve(self) -> None:
        while True:
            for key, _ in self._selector.select():
                if key.fileobj == self._wake_read:
                    return self._end()
                if key.fileobj is self.listener:
                    self._accept()
                else:
                    self._attend(key.data)

    def _end(self) -> None:
        for key in list(self._selector.get_map().values()):
            if isinstance(key.fileobj, socket.socket):
                key.fileobj.close()
        self._selector.close()
        os.close(self._wake_read)
        os.close(self._wake_write)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            sock, _ = self.listener.accept()
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._selector.register(sock, selectors.EVENT_READ, _Connection(sock))

    def _drop(self, connection: _Connection) -> None:
        self._waiting.discard(connection)
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(connection.socket)
        connection.socket.close()

    def _attend(self, connection: _Connection) -> None:
        try:
            self._flush(connection)
            with contextlib.suppress(BlockingIOError):
                received = connection.socket.recv(1 << 16)
                if not received:
                    return self._drop(connection)
                connection.received += received
                self._take_messages(connection)
        except (OSError, ValueError, struct.error, UnicodeDecodeError, IndexError):
            self._drop(connection)

    def _take_messages(self, connection: _Connection) -> None:
        buffer = connection.received
        while len(buffer) >= 4:
            (size,) = _LENGTH.unpack_from(buffer)
            if not 1 <= size <= _LARGEST:
                raise ValueError("not a message of a store")
            if len(buffer) < 4 + size:
                return
            body = bytes(buffer[4 : 4 + size])
            del buffer[: 4 + size]
            self._answer(connection, OPERATIONS[body[0]], _fields(body))

    def _answer(self, connection: _Connection, operation: str, fields: list[bytes]) -> None:
        if operation == "cancel":   # the client's time ran out
            if connection in self._waiting:
                self._waiting.discard(connection)
                self._send(connection, _pack(_ABSENT, ()))
            return
        args: tuple[Any, ...]
        if operation in ("check", "wait"):
            args = tuple(field.decode() for field in fields)
        else:
            args = (*(field.decode() for field in fields[:1]), *fields[1:])
        if operation == "add":
            args = (args[0], int(args[1]))
        try:
            result = getattr(self.table, operation)(*args)
        except KeyError:
            connection.waiting = operation, args
            self._waiting.add(connection)
            return
        except DistStoreError as error:
            return self._send(connection, _pack(_ERROR, (str(error).encode(),)))
        self._send(connection, _pack(_OK, _result_fields(result)))
        if operation in CHANGES:
            self._wake_readers()

    def _wake_readers(self) -> None:
        for connection in list(self._waiting):
            operation, args = connection.waiting     # type: ignore[misc]
            with contextlib.suppress(KeyError):
                result = getattr(self.table, operation)(*args)
                self._waiting.discard(connection)
                self._send(connection, _pack(_OK, _result_fields(result)))

    def _send(self, connection: _Connection, message: bytes) -> None:
        connection.to_send += message
        try:
            self._flush(connection)
        except OSError:
            self._drop(connection)

    def _flush(self, connection: _Connection) -> None:
        pending = connection.to_send
        with contextlib.suppress(BlockingIOError):
            while pending:
                del pending[: connection.socket.send(pending)]
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if pending else 0)
        self._selector.modify(connection.socket, events, connection)


def _result_fields(result: Any) -> list[bytes]:
    if result is None:
        return []
    if isinstance(result, list):
        return result
    return [result if isinstance(result, bytes) else str(int(result)).encode()]


_servers: weakref.WeakValueDictionary[int, Server] = weakref.WeakValueDictionary()   # by port, for multi_tenant


class TCPStore(Store):
    """A store that one process (`is_master=True`) serves at `host_name:port` and the others connect to.

    With `wait_for_workers`, the constructor returns when `world_size` processes have connected. Port 0 lets the
    master choose one; `port` then says which. A master at a loopback address is reached from its own machine only."""

    def __init__(
        self,
        host_name: str,
        port: int,
        world_size: int | None = None,
        is_master: bool = False,
        timeout: timedelta = DEFAULT_TIMEOUT,
        wait_for_workers: bool = True,
        multi_tenant: bool = False,
        master_listen_fd: int | None = None,
        use_libuv: bool = True,
    ) -> None:
        super().__init__()
        self.set_timeout(timeout)
        self._host, self._port, self._world_size = host_name, int(port), world_size
        self._server = self._start_server(multi_tenant, master_listen_fd) if is_master else None
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._process = os.getpid()
        self._connect()
        if world_size is not None and world_size > 0 and self.add(_WORKERS, 1) and wait_for_workers:
            self._await_workers(world_size)

    def _start_server(self, multi_tenant: bool, descriptor: int | None) -> Server:
        if multi_tenant and self._port in _servers:
            return _servers[self._port]
        try:
            if descriptor is not None:
                listener = socket.socket(fileno=os.dup(descriptor))
            else:
                listener = _listen(self._host, self._port)
        except OSError as error:
            raise DistNetworkError(
                f"TCPStore: cannot serve at port {self._port} ({error.strerror}). Is another job using it? Choose "
                f"another MASTER_PORT, or port 0 for any free one"
            ) from None
        self._port = listener.getsockname()[1]
        server = Server(listener)
        _servers[self._port] = server
        return server

    def _connect(self) -> None:
        deadline = time.monotonic() + _seconds(self._timeout)
        pause = 0.01
        while True:
            try:
                host = self._server.host if self._server else self._host
                self._socket = socket.create_connection((host, self._port), max(0.1, deadline - time.monotonic()))
                self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return
            except OSError as error:
                if time.monotonic() + pause >= deadline:
                    raise DistNetworkError(
                        f"TCPStore: no server at {self._host}:{self._port} within {_seconds(self._timeout):g} s "
                        f"({error.strerror or error}). Is rank 0 running, and are MASTER_ADDR and MASTER_PORT its own?"
                    ) from None
            time.sleep(pause)
            pause = min(2 * pause, 0.5)

    def _await_workers(self, world_size: int) -> None:
        deadline = time.monotonic() + _seconds(self._timeout)
        pause = 0.0005
        while (there := self.add(_WORKERS, 0)) < world_size:
            if time.monotonic() >= deadline:
                raise DistStoreError(
                    f"TCPStore: {there} of {world_size} processes connected within {_seconds(self._timeout):g} s"
                )
            time.sleep(pause)
            pause = min(2 * pause, 0.02)

    host = property(lambda self: self._host, doc="The server's host, as given.")
    port = property(lambda self: self._port, doc="The port that is served.")
    libuvBackend = property(lambda self: False, doc="Whether the server is libuv's: it is our own.")   # noqa: N815

    def address_towards_server(self) -> str | None:
        with contextlib.suppress(OSError):
            family, kind, _, _, place = socket.getaddrinfo(self._host, self._port, type=socket.SOCK_DGRAM)[0]
            with socket.socket(family, kind) as probe:
                probe.connect(place)      # nothing is sent: the kernel only chooses the interface
                return probe.getsockname()[0]
        return None

    def clone(self) -> TCPStore:
        other = TCPStore(self._host, self._port, None, False, self._timeout)
        other._server = self._server    # the server lives as long as any handle of its process
        return other

    def _request(self, operation: str, *args: Any, seconds: float | None = None) -> Any:
        fields = [str(a).encode() if isinstance(a, (str, int)) else a for a in args]
        message = _pack(OPERATIONS.index(operation), fields)
        with self._lock:
            if self._process != os.getpid():    # a forked child shares no connection with its parent
                self._process = os.getpid()
                self._connect()
            kind, result = self._exchange(message, seconds if operation in WAITS else None)
        if kind == _ABSENT:
            if operation == "queue_pop" and not seconds:
                raise QueueEmptyError(f"TCPStore: the queue {args[0]!r} is empty")
            raise nobody_set(args, seconds or 0, f"TCPStore({self._host}:{self._port})")
        if kind == _ERROR:
            raise DistStoreError(result[0].decode())
        if operation == "list_keys":
            return result
        return result[0] if result and operation in ("get", "compare_set", "queue_pop") else (
            int(result[0]) if result else None
        )

    def _exchange(self, message: bytes, seconds: float | None) -> tuple[int, list[bytes]]:
        sock = self._socket
        if sock is None:
            raise DistNetworkError("TCPStore: its connection was lost before")
        try:
            sock.settimeout(_seconds(self._timeout))
            sock.sendall(message)
            if seconds is not None:
                sock.settimeout(max(seconds, 1e-3))
            try:
                first = sock.recv(4, socket.MSG_PEEK)
            except TimeoutError:
                if seconds is None:
                    raise
                sock.settimeout(_seconds(DEFAULT_TIMEOUT))
                sock.sendall(_pack(OPERATIONS.index("cancel"), ()))    # answered either way, once
                first = sock.recv(4, socket.MSG_PEEK)
            if not first:
                raise ConnectionResetError("the server closed the connection")
            body = self._receive(sock, _LENGTH.unpack(self._receive(sock, 4))[0])
        except OSError as error:
            self._socket = None
            sock.close()
            raise DistNetworkError(
                f"TCPStore: the server at {self._host}:{self._port} does not answer ({error}); has rank 0 ended?"
            ) from None
        except BaseException:           # interrupted half-way: the rest of the answer must not be taken for the next
            self._socket = None
            sock.close()
            raise
        return body[0], _fields(body)

    @staticmethod
    def _receive(sock: socket.socket, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            part = sock.recv(size - len(parts))
            if not part:
                raise ConnectionResetError("the server closed the connection")
            parts += part
        return bytes(parts)

    def __repr__(self) -> str:
        return f"TCPStore({self._host}:{self._port}{', serving' if self._server else ''})"


def _listen(host: str, port: int) -> socket.socket:
    """A listening socket: for this machine only where the processes meet at a loopback address, otherwise for every
    address, IPv6 and IPv4 alike where the machine has both."""
    if host == "localhost" or _is_loopback(host):
        at = "127.0.0.1" if host == "localhost" else host
        return socket.create_server((at, port), family=socket.AF_INET6 if ":" in at else socket.AF_INET, backlog=2048)
    if socket.has_dualstack_ipv6():
        with contextlib.suppress(OSError):
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=2048)
    return socket.create_server(("", port), backlog=2048)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:      # a name
        return False
