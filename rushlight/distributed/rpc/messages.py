"""What travels between workers: a pickle, and the tensors it names, as they are.

Workers of a job run one program and trust each other, as in PyTorch: what is read here was pickled by one of them.
Functions go by name, so both sides must have them.
"""

from __future__ import annotations

import io
import pickle
import socket
import struct
import threading
from typing import Any

from ... import _C
from ..._C import Tensor
from ...op import find_op
from ..doors import receive_all

_empty = find_op("empty")
_HEAD = struct.Struct("<QQ")
_reading = threading.local()
_REDUCERS: dict[type, Any] = {}      # classes that may be pickled in calls only


class Message:
    """One message: what it is about (`head`, plain data), the pickle and its tensors."""

    def __init__(self, head: tuple, body: bytes = b"", tensors: list[Tensor] | None = None) -> None:
        self.head, self.body, self.tensors = head, body, tensors or []


def register_reducer(cls: type, reducer: Any) -> None:
    """Let objects of a class be pickled in calls: `reducer(object)` as `__reduce__`."""
    _REDUCERS[cls] = reducer


def _tensor_at(index: int) -> Tensor:
    return _reading.tensors[index]


class _Pickler(pickle.Pickler):
    def __init__(self, file: Any, tensors: list[Tensor]) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self._tensors = tensors

    def reducer_override(self, item: Any) -> Any:
        if type(item) is Tensor and item.layout is _C_STRIDED:
            if item.device.type != "cpu":
                raise RuntimeError(f"a tensor on {item.device} cannot go to another worker: move it to the CPU first")
            self._tensors.append(item)
            return _tensor_at, (len(self._tensors) - 1,)
        reducer = _REDUCERS.get(type(item))
        return NotImplemented if reducer is None else reducer(item)


_C_STRIDED = _empty(0).layout


def packed(item: Any) -> tuple[bytes, list[Tensor]]:
    """The pickle of an object, and the tensors in it."""
    file, tensors = io.BytesIO(), []
    _Pickler(file, tensors).dump(item)
    return file.getvalue(), tensors


def unpacked(body: bytes, tensors: list[Tensor]) -> Any:
    """The object."""
    before = getattr(_reading, "tensors", None)
    _reading.tensors = tensors
    try:
        return pickle.loads(body)
    except (AttributeError, ModuleNotFoundError) as error:
        raise type(error)(f"{error}. Functions go to other workers by name: this worker must be able to import the "
                          "module, and find it there") from None
    finally:
        _reading.tensors = before


def send(connection: socket.socket, lock: threading.Lock, message: Message) -> None:
    """Write a message, whole, between those of other threads."""
    flat = [t.detach().contiguous() for t in message.tensors]
    shapes = [(t.dtype, tuple(t.shape)) for t in flat]
    head = pickle.dumps((message.head, [(str(dtype).rpartition(".")[2], shape) for dtype, shape in shapes]))
    with lock:
        connection.sendall(_HEAD.pack(len(head), len(message.body)) + head)
        connection.sendall(message.body)
        for tensor in flat:
            if tensor.numel():
                connection.sendall(memoryview(tensor.view(-1).view(_C.uint8).numpy()))


def receive(connection: socket.socket) -> Message:
    """Read a message. ConnectionError where there are no more."""
    lengths = bytearray(_HEAD.size)
    receive_all(connection, memoryview(lengths))
    head_size, body_size = _HEAD.unpack(lengths)
    head, body = bytearray(head_size), bytearray(body_size)
    receive_all(connection, memoryview(head))
    if body_size:
        receive_all(connection, memoryview(body))
    about, shapes = pickle.loads(head)
    tensors = []
    for name, shape in shapes:
        tensor = _empty(shape, dtype=getattr(_C, name))
        if tensor.numel():
            receive_all(connection, memoryview(tensor.view(-1).view(_C.uint8).numpy()))
        tensors.append(tensor)
    return Message(about, bytes(body), tensors)
