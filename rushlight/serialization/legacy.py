"""Files from before PyTorch 1.6: pickles one after another, then the bytes of the storages;
and tar archives from before 0.1.10.

Enters: an open file whose first bytes are no zip's. Leaves: the object. The same rules hold as for archives: by default
nothing from the file runs, sizes are checked against what is there. Refuses other magic numbers and other protocols.
"""

from __future__ import annotations

import io
import mmap
import os
import pickle
import struct
import sys
import tarfile
from typing import Any

from .. import _C
from .._C import UntypedStorage
from ..tensors import pickling
from ..tensors.storages import STORAGE_DTYPES, TypedStorage
from . import names, options
from .allowed import get_safe_globals
from .locations import StorageType, restore_of
from .restricted import Unpickler as RestrictedUnpickler
from .sources import FileSource
from .unpickling import _dtype_of, _text, unpickler_of
from .write import MAGIC_NUMBER, PROTOCOL_VERSION

_SYSTEM_FILES = (io.BufferedReader, io.FileIO, io.BufferedRandom)


class _Stream:
    """Pickles read one after another from a file, and raw bytes between them.

    The safe reader works on a buffer: the memory of a file in memory, the mapping of one of the system,
    else all that is left.
    """

    def __init__(self, file: Any, pickle_module: Any, load_args: dict) -> None:
        self.file, self._module, self._args = file, pickle_module, load_args
        self._data: Any = None
        self._at = file.tell()
        self._raw = file if type(file) in _SYSTEM_FILES else None
        if pickle_module is None:
            self._data = self._buffer()

    def _buffer(self) -> Any:
        if isinstance(self.file, io.BytesIO):
            return self.file.getvalue()
        if self._raw is not None and os.fstat(self.file.fileno()).st_size:
            return mmap.mmap(self.file.fileno(), 0, access=mmap.ACCESS_READ)
        self._at = 0
        return self.file.read()

    def next(self, persistent_load: Any = None) -> Any:
        """The next pickle's object."""
        if self._data is not None:
            reader = RestrictedUnpickler(self._data, self._at, persistent_load or _no_storages, self._args["encoding"])
            result = reader.load()
            self._at = reader.at
            return result
        return unpickler_of(self._module, self.file, persistent_load or _no_storages, self._args).load()

    def read(self, size: int) -> Any:
        """The next bytes as they are."""
        if self._data is None:
            data = self.file.read(size)
        else:
            data = memoryview(self._data)[self._at : self._at + size]
            self._at += size
        if len(data) < size:
            raise EOFError(
                f"unexpected end of file: {size} bytes were announced, {len(data)} are there. The file was cut short."
            )
        return data

    def fill(self, storage: UntypedStorage) -> None:
        """The next bytes, into a storage."""
        if self._raw is None:
            storage.write(self.read(storage.nbytes()))
            return
        if self._data is None:
            self._at = self.file.tell()
        if FileSource(self.file.fileno()).read_into(self._at, memoryview(storage)) != storage.nbytes():
            raise EOFError(f"unexpected end of file: {storage.nbytes()} bytes were announced. The file was cut short.")
        self._at += storage.nbytes()
        if self._data is None:
            self.file.seek(self._at)

    def left(self) -> int:
        """How many bytes there are still."""
        if self._data is not None:
            return len(self._data) - self._at
        here = self.file.tell()
        self.file.seek(0, io.SEEK_END)
        end = self.file.tell()
        self.file.seek(here)
        return end - here

    def is_plain(self) -> bool:
        """Whether no class but those of plain data may be made from the file."""
        return self._data is not None and not get_safe_globals()

    def tell(self) -> int:
        return self.file.tell() if self._data is None else self._at

    def seek(self, at: int) -> None:
        """Go on reading at a place that `tell` gave."""
        self._at = at
        if self._data is None:
            self.file.seek(at)

    def survey(self, storages: Any) -> None:
        """Name the next pickle's storages and build nothing else of it."""
        if self._data is None:
            _Surveyor(self.file, storages, self._args).load()
            return
        source = io.BytesIO(memoryview(self._data)[self._at :])
        _Surveyor(source, storages, self._args).load()
        self._at += source.tell()

    def finish(self) -> None:
        """Leave the file behind what was read: another object may follow."""
        if self._data is not None and (self._raw is not None or isinstance(self.file, io.BytesIO)):
            self.file.seek(self._at)


class _Nothing:
    """What a survey puts in the place of every class, function and object: it takes any argument and keeps none."""

    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def __call__(self, *args: Any, **kwargs: Any) -> _Nothing:
        return self

    def __setstate__(self, state: Any) -> None: ...
    def __setitem__(self, key: Any, value: Any) -> None: ...
    def add(self, item: Any) -> None: ...
    def append(self, item: Any) -> None: ...
    def extend(self, items: Any) -> None: ...


class _Surveyor(pickle.Unpickler):
    """Runs a pickle for the storages it names. No class or function of the file is looked up, so nothing of it runs."""

    def __init__(self, file: Any, storages: Any, load_args: dict) -> None:
        super().__init__(file, encoding=load_args.get("encoding", "ASCII"))
        self._storages = storages

    def find_class(self, module: str, name: str) -> Any:
        if names.is_ours(module) and name in STORAGE_DTYPES:
            return StorageType(name)
        return UntypedStorage if names.is_ours(module) and name == "UntypedStorage" else _Nothing

    def persistent_load(self, saved: Any) -> Any:
        return (
            _Nothing() if isinstance(saved, tuple) and saved and _text(saved[0]) == "module" else self._storages(saved)
        )


def _no_storages(saved: Any) -> Any:
    raise pickle.UnpicklingError("a storage is named where none can be")


class _Deferred:
    """Storages of the old format: named first, their bytes come at the end of the file."""

    def __init__(self, stream: _Stream, map_location: Any) -> None:
        self._restore = restore_of(map_location)
        self._stream = stream
        self.by_key: dict[str, tuple[TypedStorage, UntypedStorage]] = {}
        self._views: dict[str, TypedStorage] = {}
        self._claimed = 0

    def __call__(self, saved: Any) -> Any:
        if not isinstance(saved, tuple) or not saved:
            raise pickle.UnpicklingError(f"expected what names a storage, got {type(saved).__name__}")
        kind = _text(saved[0])
        if kind == "module":    # a class with its source, which is not compared
            return saved[1]
        if kind != "storage" or len(saved) not in (5, 6):
            raise RuntimeError(f"Unknown saved id type: {kind}")
        _, cls, key, location, numel, *view = saved
        key, dtype = _text(key), _dtype_of(cls)
        if key not in self.by_key:
            self.by_key[key] = self._make(key, dtype, numel, _text(location))
        typed = self.by_key[key][0]
        return self._view(typed, view[0]) if view and view[0] is not None else typed

    def _make(self, key: str, dtype: _C.dtype, numel: Any, location: str) -> tuple[TypedStorage, UntypedStorage]:
        if type(numel) is not int or numel < 0:
            raise RuntimeError(f"load: storage {key!r} claims to have {numel!r} elements")
        self._claimed += numel * dtype.itemsize
        if self._claimed > self._stream.left() and not options.local.skip_data:
            raise RuntimeError(
                f"load: storages of {self._claimed} bytes are named, but only {self._stream.left()} bytes follow. The"
                " file was cut short."
            )
        host = UntypedStorage(numel * dtype.itemsize)
        placed = self._restore(host, location)
        typed = placed if isinstance(placed, TypedStorage) else TypedStorage(wrap_storage=placed, dtype=dtype)
        return typed, host

    def _view(self, typed: TypedStorage, view: Any) -> TypedStorage:
        key, offset, size = view
        key, width = _text(key), typed.dtype.itemsize
        if key not in self._views:
            if not 0 <= offset <= offset + size <= len(typed):
                raise RuntimeError(
                    f"load: a view of {size} elements at {offset} does not fit in a storage of {len(typed)}"
                )
            self._views[key] = TypedStorage(
                wrap_storage=typed.untyped()[offset * width : (offset + size) * width], dtype=typed.dtype
            )
        return self._views[key]

    def forget(self) -> None:
        """Begin anew: what was named is named again."""
        self.by_key.clear()
        self._views.clear()
        self._claimed = 0

    def fill(self, keys: Any, is_little: bool) -> None:
        """Read the bytes of every storage, in the order of `keys`."""
        for key in keys:
            if _text(key) not in self.by_key:
                raise RuntimeError(f"load: bytes of a storage {key!r} follow that was never named")
            typed, host = self.by_key[_text(key)]
            (count,) = struct.unpack("<q", self._stream.read(8))
            if count * typed.dtype.itemsize != host.nbytes():
                raise RuntimeError(
                    f"load: storage {key!r} has {count} elements, but {host.nbytes() // typed.dtype.itemsize} were"
                    " announced"
                )
            if count:
                self._stream.fill(host)
            if is_little != (sys.byteorder == "little"):
                host.byteswap(typed.dtype)
            if typed.untyped() != host and typed.device.type != "meta":
                typed.untyped().copy_(host)


def _fill_first(stream: _Stream, storages: _Deferred, is_little: bool) -> int | None:
    """Read the storages, which follow the object, before it; the place behind them, the stream being where it was.

    An object may read its tensors while it is put together: a Generator takes its state over. Where nothing can do
    that (only plain data is allowed), or the survey does not understand the pickle, nothing is read: None.
    """
    if stream.is_plain():
        return None
    start = stream.tell()
    try:
        stream.survey(storages)
        storages.fill(stream.next(), is_little)
        return stream.tell()
    except (pickle.UnpicklingError, AttributeError, TypeError, EOFError, LookupError, ValueError, RuntimeError):
        storages.forget()    # the reading proper says what is wrong, if anything is
        return None
    finally:
        stream.seek(start)


def _legacy_load(f: Any, map_location: Any, pickle_module: Any, **pickle_load_args: Any) -> Any:
    """The object in a file of the old format."""
    start = f.tell()
    if start == 0 and _is_tar(f):
        return _load_tar(f, map_location, pickle_module, pickle_load_args)
    stream = _Stream(f, pickle_module, pickle_load_args)
    if stream.next() != MAGIC_NUMBER:
        raise RuntimeError("Invalid magic number; corrupt file?")
    version = stream.next()
    if version != PROTOCOL_VERSION:
        raise RuntimeError(f"Invalid protocol version: {version}")
    system = stream.next()
    is_little = system.get("little_endian", True) if isinstance(system, dict) else True
    storages = _Deferred(stream, map_location)
    ongoing, before = pickling.ongoing, pickling.ongoing.map_location
    ongoing.map_location, ongoing.unchecked = map_location, []
    try:
        end = None if options.local.skip_data else _fill_first(stream, storages, is_little)
        result = stream.next(storages)
        if end is not None:
            stream.seek(end)
        else:
            keys = stream.next()
            storages.fill(() if options.local.skip_data else keys, is_little)
        if not options.local.skip_data:
            pickling._validate_loaded_sparse_tensors()
    finally:
        ongoing.map_location, ongoing.unchecked = before, None
    stream.finish()
    return result


# --- tar archives -----------------------------------------------------------------------------------------------------


def _is_tar(f: Any) -> bool:
    head = f.read(512)
    f.seek(0)
    return head[257:262] == b"ustar" or head[:9] == b"storages\0"


def _load_tar(f: Any, map_location: Any, pickle_module: Any, load_args: dict) -> Any:
    """The oldest format: storages, tensors over them and the object, each a member of a tar archive."""
    try:
        with tarfile.open(fileobj=f, mode="r:") as archive:
            names = ("storages", "tensors", "pickle")
            members = {name: archive.extractfile(name).read() for name in names}  # type: ignore[union-attr]
    except (tarfile.TarError, KeyError, AttributeError) as error:
        raise RuntimeError(f"load: this tar archive was not written by PyTorch, or is damaged ({error})") from None
    restore = restore_of(map_location)
    stored: dict[Any, Any] = {}
    stream = _Stream(io.BytesIO(members["storages"]), pickle_module, load_args)
    for _ in range(_count(stream.next())):
        key, location, kind = stream.next()
        dtype = _dtype_of(kind)
        (count,) = struct.unpack("<q", stream.read(8))
        if not 0 <= count * dtype.itemsize <= stream.left():
            raise RuntimeError(f"load: storage {key!r} claims to have {count} elements, more than the file holds")
        host = UntypedStorage(count * dtype.itemsize)
        if count:
            stream.fill(host)
        stored[key] = TypedStorage(wrap_storage=restore(host, _text(location)), dtype=dtype)
    for target, root, offset, size in stream.next():
        root, width = stored[root], stored[root].dtype.itemsize
        if not 0 <= offset <= offset + size <= len(root):
            raise RuntimeError(f"load: a view of {size} elements at {offset} does not fit in a storage of {len(root)}")
        stored[target] = TypedStorage(
            wrap_storage=root.untyped()[offset * width : (offset + size) * width], dtype=root.dtype
        )
    tensors: dict[Any, Any] = {}
    stream = _Stream(io.BytesIO(members["tensors"]), pickle_module, load_args)
    for _ in range(_count(stream.next())):
        key, storage_key, _ = stream.next()
        (ndim,) = struct.unpack("<i", stream.read(4))
        stream.read(4)
        if not 0 <= ndim <= 128:
            raise RuntimeError(f"load: a tensor claims to have {ndim} dims")
        sizes = struct.unpack(f"<{ndim}q", stream.read(8 * ndim))
        strides = struct.unpack(f"<{ndim}q", stream.read(8 * ndim))
        (offset,) = struct.unpack("<q", stream.read(8))
        tensors[key] = pickling._rebuild_tensor(stored[storage_key], offset, sizes, strides)

    def find(saved: Any) -> Any:
        return saved[0] if isinstance(saved, tuple) else tensors[int(saved)]

    return _Stream(io.BytesIO(members["pickle"]), pickle_module, load_args).next(find)


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= 1 << 24:
        raise RuntimeError(f"load: expected a count, got {value!r}")
    return value
