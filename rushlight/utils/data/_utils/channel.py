"""How batches travel from a worker to the loader's process, and tasks the other way.

Enters: Python objects. Leaves: the same on the other side. A pipe carries a short pickled message; bytes of tensors and
of larger NumPy arrays stay where they are, in an arena that both have mapped (`csrc/extras/shared_arena.cpp`), and the
message says where. Tensors that are not in the arena yet are copied into it once, views of much larger storages only by
the part they show. When the arena is full the bytes go through the pipe instead. Refuses: tensors computed in a graph.

Most batches are lists, tuples and dicts of tensors and plain values: for those the message is a tree of builtins, which
costs a tenth of pickling tensors one by one. Anything else is pickled whole.
"""

from __future__ import annotations

import io
import os
import pickle
import queue
import select
import threading
from multiprocessing.reduction import ForkingPickler
from typing import Any

from .... import _C
from ...._C import SharedArena, Tensor, UntypedStorage, empty
from ....base.shape import strided
from ....multiprocessing.sharing import refuse_graph
from ....tensors.storages import face_of

_HEADER = 4
_CHUNK = 1 << 16
_LEAST_SHARED = 4096  # a smaller array is cheaper in the message

# In the loader's process: arenas by the key that messages name them with.
arenas: dict[int, SharedArena] = {}


# --- messages ---------------------------------------------------------------------------------------------------------


def _take_storage(key: int, at: int, nbytes: int) -> UntypedStorage:
    return arenas[key].take(at, nbytes)


def _take_tensor(
    storage: UntypedStorage, dtype: Any, offset: int, size: tuple, stride: tuple, requires_grad: bool
) -> Tensor:
    result = empty((0,), None, dtype, "cpu")
    result._set_storage(storage, offset, size, stride)
    return result.requires_grad_() if requires_grad else result


def _span(t: Tensor) -> tuple[int, int]:
    """First and one past the last element of the storage that `t` shows."""
    start = t.storage_offset()
    if t.numel() == 0:
        return start, start
    return start, start + 1 + sum((n - 1) * s for n, s in zip(t.shape, t.stride()))


class Gifts:
    """What one message puts into the arena: `given` says where, `buffers` which of it are buffers of objects' own.

    Kept apart from the pickler, which must not be part of a cycle: its memo holds the tensors of the batch.
    """

    def __init__(self, arena: SharedArena, key: int) -> None:
        self.arena = arena
        self.key = key
        self.buffers: list[tuple[int, int, int]] = []
        self.given: list[int] = []

    def give(self, storage: UntypedStorage) -> int | None:
        """Where the other side finds `storage`, copied into the arena unless it is there; None when that is full."""
        at = self.arena.give(storage)
        if at is None:
            moved = self.arena.new(storage.nbytes())
            if moved is None:
                return None
            if storage.nbytes():
                moved.write(storage)
            at = self.arena.give(moved)
        self.given.append(at)
        return at

    def take_back(self) -> None:
        """Let go of everything: the message will not be sent."""
        for at in self.given:
            self.arena.drop(at)
        self.given.clear()

    def keep_in_message(self, buffer: pickle.PickleBuffer) -> bool:
        """Put a buffer into the arena; True if it should rather stay in the message."""
        view = buffer.raw()
        storage = None if view.nbytes < _LEAST_SHARED or view.readonly else self.arena.new(view.nbytes)
        if storage is None:
            return True
        storage.write(view)
        self.buffers.append((self.key, self.give(storage), view.nbytes))
        return False


class BatchPickler(ForkingPickler):
    """Pickles a batch, giving its storages to the other side instead of writing them."""

    def __init__(self, file: io.BytesIO, gifts: Gifts) -> None:
        super().__init__(file, 5, True, gifts.keep_in_message)
        self.gifts = gifts

    def reducer_override(self, obj: Any) -> Any:
        if type(obj) is UntypedStorage:
            return self._give(obj)
        if type(obj) is Tensor and obj.layout is strided and obj.is_cpu and not (obj.__dict__ or obj._keys):
            return self._reduce_tensor(obj)
        if isinstance(obj, Tensor):
            refuse_graph(obj)
        return NotImplemented

    def _reduce_tensor(self, t: Tensor) -> tuple:
        refuse_graph(t)
        storage, offset = face_of(t), t.storage_offset()
        if not storage.is_shared():
            start, end = _span(t)
            if 2 * (end - start) * t.element_size() < storage.nbytes():
                storage, offset = self._cut(t, start, end), 0
        return _take_tensor, (storage, t.dtype, offset, tuple(t.shape), t.stride(), t.requires_grad)

    def _cut(self, t: Tensor, start: int, end: int) -> UntypedStorage:
        """The shown part of a larger storage, as one of its own."""
        size = t.element_size()
        storage = self.gifts.arena.new((end - start) * size)
        if storage is None:
            storage = UntypedStorage((end - start) * size)
        if end > start:
            storage.write(memoryview(t.untyped_storage())[start * size : end * size])
        return storage

    def _give(self, storage: UntypedStorage) -> Any:
        at = self.gifts.give(storage) if storage.device.type == "cpu" else None
        # By value where it must be, and never as multiprocessing would:
        # a worker may be gone before its file is fetched.
        return storage.__reduce_ex__(5) if at is None else (_take_storage, (self.gifts.key, at, storage.nbytes()))


# --- trees of builtins ------------------------------------------------------------------------------------------------

_LEAVES = frozenset((int, float, bool, complex, str, bytes, type(None)))
_NAMES = {value: name for name, value in vars(_C).items() if isinstance(value, _C.dtype)}
_VALUE, _TENSOR, _LIST, _TUPLE, _DICT = range(5)


class _NotPlain(Exception):
    """Something in the batch has to be pickled."""


class _Tree:
    """Describes one batch. `storages` lists (offset, size) of those its tensors are over, each once."""

    def __init__(self, gifts: Gifts) -> None:
        self.gifts = gifts
        self.storages: list[tuple[int, int]] = []
        self.held: list[UntypedStorage] = []
        self.numbers: dict[int, int] = {}

    def describe(self, value: Any) -> tuple:
        cls = type(value)
        if cls is Tensor:
            return self.describe_tensor(value)
        if cls in _LEAVES:
            return _VALUE, value
        if cls is dict:
            if not _LEAVES.issuperset(map(type, value)):
                raise _NotPlain
            return _DICT, list(value), [self.describe(v) for v in value.values()]
        if cls is not list and cls is not tuple:
            raise _NotPlain
        if _LEAVES.issuperset(map(type, value)):
            return _VALUE, value
        return _LIST if cls is list else _TUPLE, [self.describe(v) for v in value]

    def describe_tensor(self, t: Tensor) -> tuple:
        if t.layout is not strided or not t.is_cpu or t.__dict__ or t._keys:
            raise _NotPlain
        refuse_graph(t)
        storage = t.untyped_storage()
        number = self.numbers.get(storage._cdata)
        if number is None:
            at = self.gifts.arena.give(storage)
            if at is None:  # made elsewhere: the pickler decides how much of it is copied
                raise _NotPlain
            self.gifts.given.append(at)
            number = self.numbers[storage._cdata] = len(self.storages)
            self.storages.append((at, storage.nbytes()))
            self.held.append(storage)  # its number must not be another's before the message is done
        return _TENSOR, number, _NAMES[t.dtype], t.storage_offset(), tuple(t.shape), t.stride(), t.requires_grad


def _rebuild(node: tuple, storages: list[UntypedStorage]) -> Any:
    kind = node[0]
    if kind == _VALUE:
        return node[1]
    if kind == _TENSOR:
        _, number, name, offset, size, stride, requires_grad = node
        return _take_tensor(storages[number], getattr(_C, name), offset, size, stride, requires_grad)
    if kind == _DICT:
        return dict(zip(node[1], [_rebuild(n, storages) for n in node[2]]))
    items = [_rebuild(n, storages) for n in node[1]]
    return items if kind == _LIST else tuple(items)


# --- both ways --------------------------------------------------------------------------------------------------------


def encode(task: Any, data: Any, arena: SharedArena, key: int) -> bytes:
    """The bytes to send; what the message shares is held for the other side. On an error nothing is held."""
    gifts = Gifts(arena, key)
    try:
        try:
            tree = _Tree(gifts)
            node = tree.describe(data)
            return b"T" + pickle.dumps((task, key, tree.storages, node), 5)
        except _NotPlain:
            gifts.take_back()
            file = io.BytesIO()
            BatchPickler(file, gifts).dump((task, data))
    except BaseException:
        gifts.take_back()
        raise
    payload = file.getvalue()
    return b"P" + (pickle.dumps(_WithBuffers(payload, gifts.buffers), 5) if gifts.buffers else payload)


def decode(message: bytes) -> tuple[Any, Any]:
    """(task, data) of what `encode` made."""
    content = pickle.loads(memoryview(message)[1:])
    if message[:1] == b"P":
        return content
    task, key, places, node = content
    arena = arenas[key]
    return task, _rebuild(node, [arena.take(at, nbytes) for at, nbytes in places])


class _WithBuffers:
    """A pickled message and where its buffers are."""

    def __init__(self, payload: bytes, buffers: list[tuple[int, int, int]]) -> None:
        self.payload = payload
        self.buffers = buffers

    def __reduce__(self) -> tuple:
        return _load_with_buffers, (self.payload, self.buffers)


def _load_with_buffers(payload: bytes, buffers: list[tuple[int, int, int]]) -> Any:
    return pickle.loads(payload, buffers=[memoryview(_take_storage(*where)) for where in buffers])


# --- pipes ------------------------------------------------------------------------------------------------------------


def frame(payload: bytes) -> bytes:
    return len(payload).to_bytes(_HEADER, "little") + payload


def write_all(fd: int, data: bytes) -> None:
    """Write to a blocking descriptor."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


class Reader:
    """Messages out of a pipe. `read` never waits for more than the pipe's descriptor does."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.parts: list[bytes] = []
        self.size = 0

    def _pop(self) -> bytes | None:
        if self.size < _HEADER:
            return None
        if len(self.parts) > 1 and len(self.parts[0]) < _HEADER:
            self.parts = [b"".join(self.parts)]
        need = _HEADER + int.from_bytes(self.parts[0][:_HEADER], "little")
        if self.size < need:
            return None
        data = self.parts[0] if len(self.parts) == 1 else b"".join(self.parts)
        rest = data[need:]
        self.parts = [rest] if rest else []
        self.size = len(rest)
        return data[_HEADER:need]

    def read(self) -> bytes | None:
        """The next message; None if it is not complete yet. EOFError when the other side is gone."""
        while (message := self._pop()) is None:
            try:
                part = os.read(self.fd, _CHUNK)
            except BlockingIOError:
                return None
            if not part:
                raise EOFError
            self.parts.append(part)
            self.size += len(part)
        return message


class Writer:
    """Messages into a pipe without ever waiting: what does not fit at once is left to a thread."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.backlog: queue.SimpleQueue[bytes | None] | None = None
        self.thread: threading.Thread | None = None

    def send(self, payload: bytes) -> None:
        """A worker that is gone is found out when its answer is read, not here."""
        data = frame(payload)
        if self.backlog is None:
            try:
                done = os.write(self.fd, data)
            except BlockingIOError:
                done = 0
            except BrokenPipeError:
                return
            if done == len(data):
                return
            data = data[done:]
            self.backlog = queue.SimpleQueue()
            self.thread = threading.Thread(target=_feed, args=(self.fd, self.backlog), daemon=True)
            self.thread.start()
        self.backlog.put(data)

    def close(self) -> None:
        """Stop the thread, if there is one. The descriptor is the caller's to close, afterwards."""
        if self.backlog is not None and self.thread is not None:
            self.backlog.put(None)
            self.thread.join(timeout=1.0)


def _feed(fd: int, backlog: queue.SimpleQueue[bytes | None]) -> None:
    ready = select.poll()
    ready.register(fd, select.POLLOUT)
    while (data := backlog.get()) is not None:
        view = memoryview(data)
        while view:
            # A look at the queue's end from time to time: the reader may be stuck while the loader is being closed.
            if not ready.poll(100) and _is_closing(backlog):
                return
            try:
                view = view[os.write(fd, view) :]
            except BlockingIOError:
                continue
            except OSError:
                return


def _is_closing(backlog: queue.SimpleQueue[bytes | None]) -> bool:
    kept = []
    while not backlog.empty():
        kept.append(backlog.get())
    for data in kept:
        backlog.put(data)
    return None in kept
