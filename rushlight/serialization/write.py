"""`save`: an object and its tensors to a file that PyTorch reads too.

Enters: any object that can be pickled, and a path or file object. Leaves: a zip archive (or, on request, the format
from before version 1.6) with PyTorch's names for every class. A path gets its new content whole or keeps the old one.
Refuses storages that are looked at as two dtypes: files cannot say that.
"""

from __future__ import annotations

import copyreg
import io
import os
import pickle
import struct
import sys
from collections.abc import Callable, Mapping
from typing import Any

from .. import _C
from .._C import UntypedStorage
from .._tensor import reduce_tensor
from ..tensors.storages import TypedStorage, legacy_class, moved
from . import options
from .archive import PyTorchFileWriter, archive_name_of
from .locations import location_tag
from .names import with_torch_names
from .sources import FileSink, is_path, replaced, stream_sink

DEFAULT_PROTOCOL = 2
MAGIC_NUMBER = 0x1950A86A20F9469CFC6C
PROTOCOL_VERSION = 1001
_AROUND_A_RECORD = 256


def save(
    obj: object,
    f: Any,
    pickle_module: Any = pickle,
    pickle_protocol: int = DEFAULT_PROTOCOL,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:
    """Save an object to a path or a file object that has `write`.

    Arguments:
        obj: tensors, and lists, dicts and objects that hold them; a `state_dict()` is best
        f: a path or a file object
        pickle_module: what pickles
        pickle_protocol: which protocol of pickle

    Example:
        >>> model = rl.nn.Linear(3, 2)
        >>> rl.save(model.state_dict(), "model.pt")
        >>> model.load_state_dict(rl.load("model.pt"))
        <All keys matched successfully>
    """
    _check_dill_version(pickle_module)
    if is_path(f):
        path = os.fspath(f)
        with replaced(path, options.save.fsync) as fd:
            if _use_new_zipfile_serialization:
                sink = FileSink(fd)
                _write_zip(obj, sink, archive_name_of(path), pickle_module, pickle_protocol, _disable_byteorder_record)
                sink.finish()
            else:
                with open(fd, "wb", closefd=False) as file:
                    _legacy_save(obj, file, pickle_module, pickle_protocol)
        return
    if not hasattr(f, "write"):
        raise AttributeError("save: expected f to be a path or an object with a 'write' method")
    if not _use_new_zipfile_serialization:
        _legacy_save(obj, f, pickle_module, pickle_protocol)
        return
    if isinstance(f, io.TextIOBase):
        raise TypeError("save: the file must be opened for binary writing ('wb'), got one for text")
    _write_zip(obj, stream_sink(f), "archive", pickle_module, pickle_protocol, _disable_byteorder_record)


def _check_dill_version(pickle_module: Any) -> None:
    if getattr(pickle_module, "__name__", None) != "dill":
        return
    version = tuple(int(part) for part in pickle_module.__version__.split(".")[:3] if part.isdigit())
    if version < (0, 3, 1):
        raise ValueError(
            f"'dill' >= 0.3.1 is required, got {pickle_module.__version__}. Update it, or use another pickle_module."
        )


# --- storages ---------------------------------------------------------------------------------------------------------


class _Storages:
    """The storages met while pickling: each gets a key, and must be of one dtype."""

    def __init__(self, key_of: Callable[[UntypedStorage, int], str]) -> None:
        self._key_of = key_of
        self._keys: dict[int, str] = {}
        self._dtypes: dict[int, _C.dtype] = {}
        self.by_key: dict[str, tuple[UntypedStorage, _C.dtype]] = {}

    def describe(self, obj: Any) -> tuple:
        """("storage", class, key, place, number of elements) for a storage."""
        if type(obj) is UntypedStorage:
            storage, dtype, cls, numel = obj, _C.uint8, UntypedStorage, obj.nbytes()
        else:
            storage, dtype, numel = obj._untyped_storage, obj.dtype, len(obj)
            cls = legacy_class(obj.pickle_storage_type())
        number = storage._cdata
        key = self._keys.get(number)
        if key is None:
            key = self._keys[number] = self._key_of(storage, len(self._keys))
            self.by_key[key] = (storage, dtype)
        if (
            storage.nbytes()
            and self._dtypes.setdefault(storage.data_ptr(), dtype) is not dtype
            and storage.device.type != "meta"
        ):
            raise RuntimeError("save: two tensors or storages look at the same data as different types")
        return "storage", cls, key, location_tag(storage), numel


def _pickled(obj: object, describe: Callable[[Any], tuple], pickle_module: Any, protocol: int) -> bytes:
    """The pickle of `obj`, with storages left out and PyTorch's names."""

    known = getattr(pickle_module.Pickler, "dispatch_table", None)
    known = known if isinstance(known, Mapping) else copyreg.dispatch_table

    class Pickler(pickle_module.Pickler):
        dispatch_table = {**known, _C.Tensor: reduce_tensor}

        def persistent_id(self, item: Any) -> tuple | None:
            kind = type(item)
            return describe(item) if kind is TypedStorage or kind is UntypedStorage else None

    file = io.BytesIO()
    Pickler(file, protocol=protocol).dump(obj)
    return with_torch_names(file.getvalue())


def _host_view(storage: UntypedStorage) -> memoryview:
    """The bytes of a storage, on the host; a hole of zeros where data are to be left out."""
    if storage.device.type == "meta" or options.local.skip_data:
        return memoryview(bytes(storage.nbytes()))
    return memoryview(moved(storage, "cpu"))


# --- the archive ------------------------------------------------------------------------------------------------------


def _write_zip(
    obj: object, sink: Callable[[list], Any], name: str, pickle_module: Any, protocol: int, without_order: bool
) -> None:
    writer = PyTorchFileWriter(sink, name, options.save.storage_alignment, options.save.compute_crc32)
    _save(obj, writer, pickle_module, protocol, without_order)
    writer.write_end_of_file()


def _save(
    obj: object, zip_file: PyTorchFileWriter, pickle_module: Any, pickle_protocol: int, _disable_byteorder_record: bool
) -> None:
    """Write all records but the last ones."""
    met = _Storages(lambda storage, count: str(count))
    zip_file.write_record("data.pkl", _pickled(obj, met.describe, pickle_module, pickle_protocol))
    zip_file.write_record(".format_version", b"1")
    zip_file.write_record(".storage_alignment", str(options.save.storage_alignment).encode())
    if not _disable_byteorder_record:
        zip_file.write_record("byteorder", sys.byteorder.encode())
    views = [_host_view(storage) for storage, _ in met.by_key.values()]
    zip_file.expect(sum(view.nbytes + _AROUND_A_RECORD for view in views))
    for key, view in zip(met.by_key, views, strict=True):
        zip_file.write_record(f"data/{key}", view)


# --- the format before 1.6 --------------------------------------------------------------------------------------------


def _legacy_save(obj: object, f: Any, pickle_module: Any, pickle_protocol: int) -> None:
    """One pickle after another, then the bytes of the storages in the order of their keys."""
    met = _Storages(lambda storage, count: str(storage._cdata))
    system = {"protocol_version": PROTOCOL_VERSION, "little_endian": sys.byteorder == "little",
              "type_sizes": {"short": 2, "int": 4, "long": 4}}
    options.local.unchecked = []    # says that the old format is meant
    try:
        body = _pickled(obj, lambda storage: (*met.describe(storage), None), pickle_module, pickle_protocol)
    finally:
        options.local.unchecked = None
    for part in (MAGIC_NUMBER, PROTOCOL_VERSION, system):
        pickle_module.dump(part, f, protocol=pickle_protocol)
    f.write(body)
    keys = sorted(met.by_key)
    pickle_module.dump(keys, f, protocol=pickle_protocol)
    for key in keys:
        storage, dtype = met.by_key[key]
        view = _host_view(storage)
        f.write(struct.pack("<q", view.nbytes // dtype.itemsize))
        f.write(view)
    if hasattr(f, "flush"):
        f.flush()
