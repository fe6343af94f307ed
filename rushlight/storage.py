"""Storages seen from Python, pickling and copying tensors.

Enters: tensors and storages. Leaves: `TypedStorage`, the reduce and deepcopy protocols of tensors. Within one pickle
or deepcopy, tensors over one storage stay over one storage. Refuses to deepcopy tensors computed in a graph.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pickle import PickleBuffer
from typing import Any
from weakref import WeakValueDictionary

from . import _C
from ._C import Tensor, UntypedStorage

# One Python face per storage while anyone looks at it: pickle and deepcopy recognise shared objects by identity.
_faces: WeakValueDictionary[int, UntypedStorage] = WeakValueDictionary()


def face_of(t: Tensor) -> UntypedStorage:
    """The storage of `t`, the same object every time as long as one is held."""
    storage = t.untyped_storage()
    return _faces.setdefault(storage._cdata, storage)


# --- pickling -----------------------------------------------------------------------------------------------------------


def _rebuild_storage(data: Any, device: str = "cpu") -> UntypedStorage:
    view = memoryview(data)
    storage = UntypedStorage(view.nbytes, device)
    if view.nbytes:
        storage.write(view)
    return storage


def _reduce_storage(self: UntypedStorage, protocol: int = 4) -> tuple:
    data = PickleBuffer(self) if protocol >= 5 and len(self) else self.tobytes()
    return _rebuild_storage, (data,)


def _rebuild_tensor(
    storage: UntypedStorage, offset: int, size: tuple, stride: tuple, dtype: _C.dtype, requires_grad: bool, device: Any = None
) -> Tensor:
    made = _C.empty((0,), None, dtype, storage.device)
    made._set_storage(storage, offset, size, stride)
    if device is not None:
        made = made.to(device)
    return made.requires_grad_() if requires_grad else made


def _rebuild_meta(size: tuple, stride: tuple, dtype: _C.dtype, requires_grad: bool) -> Tensor:
    made = _C.empty(size, stride, dtype, "meta")
    return made.requires_grad_() if requires_grad else made


def _rebuild_as(maker: Any, cls: type, args: tuple, state: dict | None) -> Tensor:
    """A tensor of a subclass, or with attributes of its own."""
    made = maker(*args)
    if type(made) is not cls:
        requires_grad = made.requires_grad
        made = _C.shallow_copy(made, True, cls)
        if requires_grad:
            made.requires_grad_()
    if state:
        made.__dict__.update(state)
    return made


def reduce_tensor(self: Tensor, protocol: int = 4) -> tuple:
    """`Tensor.__reduce_ex__`."""
    geometry = (tuple(self.shape), tuple(self.stride()), self.dtype, self.requires_grad)
    if self.is_meta:
        maker, args = _rebuild_meta, geometry
    elif self.is_cpu:
        maker, args = _rebuild_tensor, (face_of(self), self.storage_offset(), *geometry)
    else:
        host = self.detach().cpu()
        size, _, dtype, requires_grad = geometry
        maker, args = _rebuild_tensor, (face_of(host), 0, size, host.stride(), dtype, requires_grad, str(self.device))
    state = self.__dict__ or None
    if type(self) is Tensor and state is None:
        return maker, args
    return _rebuild_as, (maker, type(self), args, state)


def set_state(self: Tensor, state: Any) -> None:
    """`Tensor.__setstate__`: attributes, or PyTorch's old (storage, offset, size, stride) form."""
    if isinstance(state, dict):
        self.__dict__.update(state)
        return
    if not self.is_leaf:
        raise RuntimeError("__setstate__ can be only called on leaf Tensors")
    storage, offset, size, stride = state[:4]
    if isinstance(storage, TypedStorage):
        storage = storage.untyped()
    self._set_storage(storage, offset, size, stride)


# --- copying ------------------------------------------------------------------------------------------------------------


def deepcopy_storage(self: UntypedStorage, memo: dict) -> UntypedStorage:
    """A copy of the bytes, made once per storage and deepcopy."""
    copied = memo.setdefault("rushlight", {})
    if self._cdata not in copied:
        # The original is kept with its copy, so that its number cannot be taken by another storage meanwhile.
        copied[self._cdata] = (_rebuild_storage(self), self)
    return copied[self._cdata][0]


def deepcopy_tensor(self: Tensor, memo: dict) -> Tensor:
    """`Tensor.__deepcopy__`: views of one storage stay views of one storage."""
    if not self.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment. "
            "Copy tensor.detach() instead, or detach it before the object that holds it is copied."
        )
    if id(self) in memo:
        return memo[id(self)]
    if self.is_cpu:
        made = _C.empty((0,), None, self.dtype, self.device)
        storage = deepcopy_storage(self.untyped_storage(), memo)
        made._set_storage(storage, self.storage_offset(), tuple(self.shape), self.stride())
    elif self.is_meta:
        made = _C.empty(tuple(self.shape), self.stride(), self.dtype, self.device)
    else:
        made = self.detach().clone()
    if type(self) is not Tensor:
        made = _C.shallow_copy(made, True, type(self))
    if self.requires_grad:
        made.requires_grad_()
    memo[id(self)] = made
    if self.grad is not None:
        made.grad = copy.deepcopy(self.grad, memo)
    if self.__dict__:
        made.__dict__.update(copy.deepcopy(self.__dict__, memo))
    return made


# --- typed storages -----------------------------------------------------------------------------------------------------


class TypedStorage:
    """A storage whose bytes are read as elements of one dtype."""

    def __init__(self, *, wrap_storage: UntypedStorage, dtype: _C.dtype) -> None:
        self._untyped_storage = wrap_storage
        self.dtype = dtype

    def untyped(self) -> UntypedStorage:
        """The bytes underneath."""
        return self._untyped_storage

    def _whole(self) -> Tensor:
        made = _C.empty((0,), None, self.dtype, self._untyped_storage.device)
        made._set_storage(self._untyped_storage, 0, (len(self),), (1,))
        return made

    def __len__(self) -> int:
        return self._untyped_storage.nbytes() // self.dtype.itemsize

    size = __len__

    @property
    def device(self) -> _C.device:
        return self._untyped_storage.device

    def nbytes(self) -> int:
        return self._untyped_storage.nbytes()

    def element_size(self) -> int:
        return self.dtype.itemsize

    def data_ptr(self) -> int:
        return self._untyped_storage.data_ptr()

    def resize_(self, size: int) -> None:
        self._untyped_storage.resize_(size * self.dtype.itemsize)

    def tolist(self) -> list:
        return _C.tolist(self._whole())

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} out of range for storage of size {len(self)}")
        return _C.item(self._whole()[index])

    def __setitem__(self, index: int | slice, value: Any) -> None:
        self._whole()[index] = value

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TypedStorage) and self._untyped_storage == other._untyped_storage and self.dtype is other.dtype

    def __hash__(self) -> int:
        return hash(self._untyped_storage)

    def __repr__(self) -> str:
        items = "".join(f" {v}\n" for v in self.tolist())
        return f"{items}[rushlight.storage.TypedStorage(dtype={self.dtype}, device={self.device}) of size {len(self)}]"

    def __reduce__(self) -> tuple:
        return _rebuild_typed, (self._untyped_storage, self.dtype)

    def __deepcopy__(self, memo: dict) -> TypedStorage:
        return TypedStorage(wrap_storage=deepcopy_storage(self._untyped_storage, memo), dtype=self.dtype)


def _rebuild_typed(storage: UntypedStorage, dtype: _C.dtype) -> TypedStorage:
    return TypedStorage(wrap_storage=storage, dtype=dtype)


# --- untyped storages -----------------------------------------------------------------------------------------------------


def _bytes_of(self: UntypedStorage) -> Tensor:
    made = _C.empty((0,), None, _C.uint8, self.device)
    made._set_storage(self, 0, (self.nbytes(),), (1,))
    return made


def _copy_storage(self: UntypedStorage, source: Any, non_blocking: bool = False) -> UntypedStorage:
    other = source.untyped() if isinstance(source, TypedStorage) else source
    if other.nbytes() != self.nbytes():
        raise RuntimeError(f"copy_: storages must have one size, got {other.nbytes()} and {self.nbytes()} bytes")
    _bytes_of(self).copy_(_bytes_of(other))
    return self


def _clone_storage(self: UntypedStorage) -> UntypedStorage:
    return _copy_storage(UntypedStorage(self.nbytes(), self.device), self)


def _fill_storage(self: UntypedStorage, value: int) -> UntypedStorage:
    _bytes_of(self).fill_(value)
    return self


def _storage_text(self: UntypedStorage) -> str:
    items = "" if self.device.type == "meta" else "".join(f" {v}\n" for v in self.tobytes())
    return f"{items}[rushlight.storage.UntypedStorage(device={self.device}) of size {self.nbytes()}]"


def install() -> None:
    """Teach storages to be pickled, copied, filled and printed."""
    UntypedStorage.copy_ = _copy_storage
    UntypedStorage.clone = _clone_storage
    UntypedStorage.fill_ = _fill_storage
    UntypedStorage.tolist = lambda self: list(self.tobytes())
    UntypedStorage.element_size = lambda self: 1
    UntypedStorage.is_cuda = False
    UntypedStorage.__repr__ = _storage_text
    UntypedStorage.__reduce_ex__ = _reduce_storage
    UntypedStorage.__deepcopy__ = deepcopy_storage
