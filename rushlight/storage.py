"""`torch.storage`: the classes of storages and the functions their pickles name, which stand in `tensors.storages`."""

from __future__ import annotations

from typing import Any

from ._C import UntypedStorage
from .tensors.storages import (
    STORAGE_DTYPES,
    TypedStorage,
    _dtype_to_storage_type_map,
    _get_dtype_from_pickle_storage_type,
    _LegacyStorageMeta,
    _load_from_bytes,
    _new_dtypes,
    _rebuild_storage,
    _rebuild_typed,
    _storage_type_to_dtype_map,
    _warn_typed_storage_removal,
    legacy_class,
)

__all__ = [
    "TypedStorage", "UntypedStorage", "_LegacyStorage", "_LegacyStorageMeta", "_StorageBase",
    "_dtype_to_storage_type_map", "_get_dtype_from_pickle_storage_type", "_load_from_bytes", "_new_dtypes",
    "_rebuild_storage", "_rebuild_typed", "_storage_type_to_dtype_map", "_warn_typed_storage_removal",
]

_StorageBase = UntypedStorage
_LegacyStorage = TypedStorage


def __getattr__(name: str) -> Any:
    if name in STORAGE_DTYPES:
        return legacy_class(name)
    if name == "Storage":     # the class of storages of the usual dtype
        return legacy_class("FloatStorage")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
