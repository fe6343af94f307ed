"""What readers of both formats share: PyTorch's names found here, dtypes of storage classes, text that was bytes."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

from .. import _C
from .._C import UntypedStorage
from ..tensors.storages import STORAGE_DTYPES
from . import names
from .locations import StorageType


def _text(value: Any) -> str:
    """Files written by Python 2 have bytes where text is meant."""
    return value.decode("ascii") if isinstance(value, bytes) else str(value)


def _dtype_of(kind: Any) -> _C.dtype:
    """The dtype of a storage class named by a file."""
    if kind is UntypedStorage:
        return _C.uint8
    dtype = getattr(kind, "dtype", None)
    if not isinstance(dtype, _C.dtype):
        raise pickle.UnpicklingError(f"expected the class of a storage, got {kind!r}")
    return dtype


def unpickler_of(pickle_module: Any, file: Any, persistent_load: Callable[[Any], Any], load_args: dict) -> Any:
    """An unrestricted unpickler that finds PyTorch's names here."""

    class Unpickler(pickle_module.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            if names.is_ours(module):
                return StorageType(name) if name in STORAGE_DTYPES else names.find(module, name)
            return super().find_class(module, name)

    result = Unpickler(file, **load_args)
    result.persistent_load = persistent_load
    return result
