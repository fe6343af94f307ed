"""Key-value stores: how processes find each other before they can exchange tensors.

Enters: keys as text, values as text or bytes. Leaves: values as bytes, once somebody has set them. Refuses: to wait
longer than the store's timeout; the error names the keys that nobody set.

`Table` is one such store in memory, with callbacks for readers that wait. `HashStore` is a table between the threads
of one process, `TCPStore` (tcp_store.py) serves one to other processes, `FileStore` is a log file that every process
reads to its end, `PrefixStore` a part of any other.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from typing import Any

from .errors import DistStoreError, QueueEmptyError

DEFAULT_TIMEOUT = timedelta(minutes=5)


def as_bytes(value: str | bytes | bytearray) -> bytes:
    """A value as it is kept."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, (bytes, bytearray)):
        return bytes(value)
    raise TypeError(f"a store keeps str or bytes, got {type(value).__name__}")


def _seconds(timeout: timedelta) -> float:
    if not isinstance(timeout, timedelta):
        raise TypeError(f"timeout must be a datetime.timedelta, got {type(timeout).__name__}")
    return timeout.total_seconds()


def nobody_set(keys: Iterable[str], seconds: float, where: str) -> DistStoreError:
    """The error of a wait that ended without the keys."""
    named = ", ".join(map(repr, keys))
    return DistStoreError(f"{where}: waited {seconds:g} s for {named}, and no process set it (wait timeout)")


class Store:
    """What every store can do. A subclass gives `_request`, one operation of `Table` by name.

    Subclasses written in a program may override the public methods instead."""

    def __init__(self) -> None:
        self._timeout = DEFAULT_TIMEOUT

    def _request(self, operation: str, *args: Any, seconds: float | None = None) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not say how it answers {operation!r}")

    @property
    def timeout(self) -> timedelta:
        """How long `get` and `wait` wait for a key."""
        return self._timeout

    def set_timeout(self, timeout: timedelta) -> None:
        """Wait this long for keys from now on."""
        _seconds(timeout)
        self._timeout = timeout

    def set(self, key: str, value: str | bytes) -> None:
        """Keep a value under a key, over what was there."""
        self._request("set", key, as_bytes(value))

    def get(self, key: str) -> bytes:
        """The value under a key, waiting for it up to the timeout."""
        return self._request("get", key, seconds=_seconds(self._timeout))

    def add(self, key: str, amount: int) -> int:
        """Add to the number under a key (0 where there is none); the number then."""
        return int(self._request("add", key, int(amount)))

    def compare_set(self, key: str, expected_value: str | bytes, desired_value: str | bytes) -> bytes:
        """Set a key to the desired value where it holds the expected one, or where it does not exist and nothing is
        expected; the value then."""
        return self._request("compare_set", key, as_bytes(expected_value), as_bytes(desired_value))

    def append(self, key: str, value: str | bytes) -> None:
        """Put bytes behind those under a key."""
        self._request("append", key, as_bytes(value))

    def check(self, keys: list[str]) -> bool:
        """Whether all the keys are set."""
        return bool(self._request("check", *keys))

    def wait(self, keys: list[str], timeout: timedelta | None = None) -> None:
        """Return when all the keys are set."""
        self._request("wait", *keys, seconds=_seconds(self._timeout if timeout is None else timeout))

    def delete_key(self, key: str) -> bool:
        """Forget a key; whether it was there."""
        return bool(self._request("delete_key", key))

    def num_keys(self) -> int:
        """How many keys are set."""
        return int(self._request("num_keys"))

    def list_keys(self) -> list[str]:
        """The keys that are set, sorted."""
        return [key.decode() for key in self._request("list_keys")]

    def multi_get(self, keys: list[str]) -> list[bytes]:
        """Several values, waiting for each."""
        return [self.get(key) for key in keys]

    def multi_set(self, keys: list[str], values: list[str | bytes]) -> None:
        """Several keys at once."""
        if len(keys) != len(values):
            raise ValueError(f"multi_set: {len(keys)} keys but {len(values)} values")
        for key, value in zip(keys, values, strict=True):
            self.set(key, value)

    def queue_push(self, key: str, value: str | bytes) -> None:
        """Put a value at the end of a queue."""
        self._request("queue_push", key, as_bytes(value))

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        """Take the first value of a queue, waiting for one unless told not to."""
        return self._request("queue_pop", key, seconds=_seconds(self._timeout) if block else 0.0)

    def queue_len(self, key: str) -> int:
        """How many values a queue holds."""
        return int(self._request("queue_len", key))

    def has_extended_api(self) -> bool:
        """Whether append, multi_get and multi_set work: they do in every store here."""
        return True

    def address_towards_server(self) -> str | None:
        """The address of this machine at the interface that leads to whoever serves the values; None where no network
        is between."""
        return None

    def clone(self) -> Store:
        """Another handle on the same values."""
        return self


class Table:
    """A store in memory. Every operation runs under the caller's lock; `waiting` holds readers without their key."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.queues: dict[str, deque[bytes]] = {}

    def set(self, key: str, value: bytes) -> None:
        self.values[key] = value

    def get(self, key: str) -> bytes:
        return self.values[key]

    def add(self, key: str, amount: int) -> int:
        try:
            number = int(self.values.get(key, b"0")) + amount
        except ValueError:
            raise DistStoreError(f"add: {key!r} holds {self.values[key]!r}, which is no number") from None
        self.values[key] = str(number).encode()
        return number

    def compare_set(self, key: str, expected: bytes, desired: bytes) -> bytes:
        held = self.values.get(key)
        if held is None and expected:
            return expected
        if held is None or held == expected:
            self.values[key] = desired
        return self.values[key]

    def append(self, key: str, value: bytes) -> None:
        self.values[key] = self.values.get(key, b"") + value

    def check(self, *keys: str) -> bool:
        return all(key in self.values or self.queues.get(key) for key in keys)

    def wait(self, *keys: str) -> None:
        for key in keys:
            if key not in self.values and not self.queues.get(key):
                raise KeyError(key)

    def delete_key(self, key: str) -> bool:
        return (self.values.pop(key, None) is not None) | (self.queues.pop(key, None) is not None)

    def num_keys(self) -> int:
        return len(self.values) + len(self.queues)

    def list_keys(self) -> list[bytes]:
        return [key.encode() for key in sorted({*self.values, *self.queues})]

    def queue_push(self, key: str, value: bytes) -> None:
        self.queues.setdefault(key, deque()).append(value)

    def queue_pop(self, key: str) -> bytes:
        queue = self.queues[key]
        value = queue.popleft()
        if not queue:
            del self.queues[key]
        return value

    def queue_len(self, key: str) -> int:
        return len(self.queues.get(key, ()))


CHANGES = frozenset(("set", "add", "compare_set", "append", "queue_push"))   # what a waiting reader may be waiting for
WAITS = frozenset(("get", "wait", "queue_pop"))


class HashStore(Store):
    """Keys and values between the threads of one process."""

    def __init__(self) -> None:
        super().__init__()
        self._table = Table()
        self._changed = threading.Condition()

    def _request(self, operation: str, *args: Any, seconds: float | None = None) -> Any:
        run: Callable[..., Any] = getattr(self._table, operation)
        with self._changed:
            if operation not in WAITS:
                result = run(*args)
                if operation in CHANGES:
                    self._changed.notify_all()
                return result
            deadline = time.monotonic() + (seconds or 0)
            while True:
                try:
                    return run(*args)
                except KeyError:
                    left = deadline - time.monotonic()
                    if left <= 0 or not self._changed.wait(left):
                        raise _without(operation, args, seconds or 0, "HashStore") from None


def _without(operation: str, keys: tuple[str, ...], seconds: float, where: str) -> DistStoreError:
    if operation == "queue_pop" and not seconds:
        return QueueEmptyError(f"{where}: the queue {keys[0]!r} is empty")
    return nobody_set(keys, seconds, where)


class PrefixStore(Store):
    """The part of another store whose keys begin with a prefix and a slash."""

    def __init__(self, prefix: str, store: Store) -> None:
        if not isinstance(store, Store):
            raise TypeError(f"PrefixStore(prefix, store): store must be a Store, got {type(store).__name__}")
        self._prefix = str(prefix)
        self._store = store

    @property
    def underlying_store(self) -> Store:
        """The store that keeps the values."""
        return self._store

    @property
    def _underlying_non_prefix_store(self) -> Store:
        store = self._store
        while isinstance(store, PrefixStore):
            store = store._store
        return store

    @property
    def timeout(self) -> timedelta:
        return self._store.timeout

    def set_timeout(self, timeout: timedelta) -> None:
        self._store.set_timeout(timeout)

    def _key(self, key: str) -> str:
        return f"{self._prefix}/{key}"

    def set(self, key: str, value: str | bytes) -> None:
        self._store.set(self._key(key), value)

    def get(self, key: str) -> bytes:
        return self._store.get(self._key(key))

    def add(self, key: str, amount: int) -> int:
        return self._store.add(self._key(key), amount)

    def compare_set(self, key: str, expected_value: str | bytes, desired_value: str | bytes) -> bytes:
        return self._store.compare_set(self._key(key), expected_value, desired_value)

    def append(self, key: str, value: str | bytes) -> None:
        self._store.append(self._key(key), value)

    def check(self, keys: list[str]) -> bool:
        return self._store.check([self._key(key) for key in keys])

    def wait(self, keys: list[str], timeout: timedelta | None = None) -> None:
        full = [self._key(key) for key in keys]
        self._store.wait(full) if timeout is None else self._store.wait(full, timeout)

    def delete_key(self, key: str) -> bool:
        return self._store.delete_key(self._key(key))

    def num_keys(self) -> int:
        return self._store.num_keys()

    def list_keys(self) -> list[str]:
        start = self._key("")
        return [key.removeprefix(start) for key in self._store.list_keys() if key.startswith(start)]

    def queue_push(self, key: str, value: str | bytes) -> None:
        self._store.queue_push(self._key(key), value)

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        return self._store.queue_pop(self._key(key), block)

    def queue_len(self, key: str) -> int:
        return self._store.queue_len(self._key(key))

    def address_towards_server(self) -> str | None:
        return self._store.address_towards_server()

    def clone(self) -> Store:
        return PrefixStore(self._prefix, self._store.clone())


def _private(path: str, flags: int) -> int:
    """Open a file that only this user reads where it is made: what processes tell each other includes their secret."""
    return os.open(path, flags, 0o600)


class FileStore(Store):
    """Keys and values as a log file that all processes append to; it works wherever they share a folder.

    When `world_size` handles have been closed, the last of them removes the file."""

    _RECORD = struct.Struct("<BII")
    _SET, _DELETE, _PUSH, _POP = range(4)
    _CLOSED = "\0closed"

    def __init__(self, file_name: str, world_size: int = -1) -> None:
        super().__init__()
        self._path = os.fspath(file_name)
        self._world_size = world_size
        self._table = Table()
        self._read = 0
        self._lock = threading.Lock()
        self._open = True
        with self._locked():      # a file that is no store is refused here
            pass

    @property
    def path(self) -> str:
        """The file."""
        return self._path

    def clone(self) -> FileStore:
        return FileStore(self._path, self._world_size)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[Any]:
        """The file, locked against other processes, its news read."""
        with self._lock, open(self._path, "a+b", opener=_private) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            self._catch_up(file)
            yield file

    def _catch_up(self, file: Any) -> None:
        if os.fstat(file.fileno()).st_size < self._read:   # another run began the file anew
            self._table, self._read = Table(), 0
        file.seek(self._read)
        log = file.read()
        at = 0
        while len(log) - at >= self._RECORD.size:
            kind, key_size, size = self._RECORD.unpack_from(log, at)
            end = at + self._RECORD.size + key_size + size
            if kind > self._POP or end > len(log):
                raise DistStoreError(f"FileStore: {self._path} is no store, or is damaged at byte {self._read + at}")
            start = at + self._RECORD.size
            self._apply(kind, log[start : start + key_size].decode(), log[start + key_size : end])
            at = end
        self._read += at

    def _apply(self, kind: int, key: str, value: bytes) -> None:
        if kind == self._SET:
            self._table.set(key, value)
        elif kind == self._DELETE:
            self._table.delete_key(key)
        elif kind == self._PUSH:
            self._table.queue_push(key, value)
        else:
            self._table.queue_pop(key)

    def _write(self, file: Any, kind: int, key: str, value: bytes = b"") -> None:
        name = key.encode()
        record = self._RECORD.pack(kind, len(name), len(value)) + name + value
        at = 0
        try:
            while at < len(record):
                at += os.pwrite(file.fileno(), record[at:], self._read + at)
        except OSError:      # a full disk: half a record would be the end of the store for all
            os.ftruncate(file.fileno(), self._read)
            raise
        self._read += len(record)
        self._apply(kind, key, value)

    def _add(self, file: Any, key: str, amount: int) -> int:
        number = Table.add(self._table, key, amount)
        self._write(file, self._SET, key, str(number).encode())
        return number

    def _request(self, operation: str, *args: Any, seconds: float | None = None) -> Any:
        deadline = time.monotonic() + (seconds or 0)
        pause = 0.001
        while True:
            with self._locked() as file:
                try:
                    return self._answer(file, operation, args)
                except KeyError:
                    pass
            if time.monotonic() >= deadline:
                raise _without(operation, args, seconds or 0, f"FileStore({self._path!r})")
            time.sleep(pause)
            pause = min(2 * pause, 0.05)

    def _answer(self, file: Any, operation: str, args: tuple) -> Any:
        table = self._table
        if operation == "set":
            return self._write(file, self._SET, *args)
        if operation == "add":
            return self._add(file, *args)
        if operation in ("compare_set", "append"):
            before = table.values.get(args[0])
            result = getattr(table, operation)(*args)
            if table.values.get(args[0]) != before:
                self._write(file, self._SET, args[0], table.values[args[0]])
            return result
        if operation == "delete_key":
            there = args[0] in table.values or args[0] in table.queues
            if there:
                self._write(file, self._DELETE, args[0])
            return there
        if operation == "queue_push":
            return self._write(file, self._PUSH, *args)
        if operation == "queue_pop":
            value = table.queues[args[0]][0]
            self._write(file, self._POP, args[0])
            return value
        if operation == "num_keys":
            return table.num_keys() - (self._CLOSED in table.values)     # that count is ours
        if operation == "list_keys":
            return [key for key in table.list_keys() if key != self._CLOSED.encode()]
        return getattr(table, operation)(*args)

    def __del__(self) -> None:
        if not getattr(self, "_open", False):
            return
        self._open = False
        # at the end of the interpreter `open` may be gone
        with contextlib.suppress(OSError, DistStoreError, NameError), self._locked() as file:
            if self._add(file, self._CLOSED, 1) >= self._world_size > 0:
                os.unlink(self._path)
