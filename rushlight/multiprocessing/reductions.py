"""PyTorch's name for `sharing`, and the weak reference to a storage some libraries take from here."""

from __future__ import annotations

from typing import Any

from .._C import UntypedStorage
from .sharing import (
    init_reductions,
    rebuild_storage_cuda,
    rebuild_storage_empty,
    rebuild_storage_fd,
    rebuild_tensor,
    reduce_storage,
    reduce_tensor,
)

__all__ = [
    "StorageWeakRef", "init_reductions", "rebuild_storage_cuda", "rebuild_storage_empty", "rebuild_storage_fd",
    "rebuild_tensor", "reduce_storage", "reduce_tensor",
]


class StorageWeakRef:
    """Names a storage without keeping it: equal to another reference exactly when both name the same one.

    `cdata` is the storage's number. `expired` is not known once the storage is gone, and so not offered.
    """

    __slots__ = ("cdata",)

    def __init__(self, storage: Any) -> None:
        untyped = storage if isinstance(storage, UntypedStorage) else storage.untyped()
        self.cdata = untyped._cdata

    @classmethod
    def from_weakref(cls, cdata: int) -> StorageWeakRef:
        """From a number another reference had."""
        result = cls.__new__(cls)
        result.cdata = cdata
        return result

    def __hash__(self) -> int:
        return hash(self.cdata)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StorageWeakRef) and self.cdata == other.cdata
