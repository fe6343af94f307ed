"""`load`: what `save`, here or in PyTorch, wrote.

Enters: a path or a seekable file object. Leaves: the object, its tensors where `map_location` says. By default only
plain data and tensors are made, by an interpreter that runs nothing from the file; `weights_only=False` lets the file's
pickle do whatever it says. Refuses TorchScript archives and everything that does not add up,
before anything is made of it.
"""

from __future__ import annotations

import io
import os
import pickle
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

from .. import _C
from .._C import UntypedStorage
from ..base import environment, late
from ..dispatch.modes import state as modes
from ..tensors.storages import TypedStorage, over_buffer
from . import names, options
from .archive import Entry, PyTorchFileReader, is_zip
from .locations import is_meta, restore_of
from .restricted import Unpickler as RestrictedUnpickler
from .sources import is_path, opened, source_of
from .tensor_files import load_file
from .unpickling import _dtype_of, _text, unpickler_of
from .write import _check_dill_version

UNSAFE_MESSAGE = ("weights_only=False reads such files, and runs whatever code they name: use it only for a file from "
          "somebody you trust.")
_LARGE = 1 << 18         # records from this size on are read by threads, ahead of being asked for
_PIECE = 1 << 23
_TRUE = ("1", "y", "yes", "true")


def load(
    f: Any,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Load an object from a path or a seekable file object.

    Arguments:
        f: a path or a file object
        map_location: where tensors go: a device, a dict of devices, or a function; None for where they were
        pickle_module: what unpickles; needs `weights_only=False`
        weights_only: whether only plain values are read, and no code runs; None for yes
        mmap: whether tensors stay in the file until they are read
        pickle_load_args: options of the unpickler

    Example:
        >>> rl.save({"x": rl.ones(2)}, "x.pt")
        >>> rl.load("x.pt")
        {'x': tensor([1., 1.])}
    """
    weights_only = _is_weights_only(weights_only, pickle_module)
    if weights_only and pickle_module is not None:
        raise RuntimeError("load: pickle_module needs weights_only=False")
    if weights_only and pickle_load_args:
        warnings.warn("load: pickle_load_args have no effect unless weights_only=False.", stacklevel=2)
    _check_dill_version(pickle_module)
    pickle_load_args.setdefault("encoding", "utf-8")
    if mmap is None:
        mmap = options.load.mmap
    if is_path(f) and os.fspath(f).endswith(".safetensors"):
        return _load_safetensors(os.fspath(f), map_location)
    with opened(f) as file:
        return _load_open(
            f, file, map_location, None if weights_only else pickle_module or pickle, mmap, pickle_load_args
        )


def _is_weights_only(asked: bool | None, pickle_module: Any) -> bool:
    """The argument, the environment's wish, or the default: safe unless a pickle module is given."""
    force, forbid = (
        environment.get(f"TORCH_FORCE_{name}").lower() in _TRUE
        for name in ("WEIGHTS_ONLY_LOAD", "NO_WEIGHTS_ONLY_LOAD")
    )
    if force and forbid:
        raise RuntimeError(
            "load: TORCH_FORCE_WEIGHTS_ONLY_LOAD and TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD exclude each other, but both were"
            " set."
        )
    if force:
        return True
    if asked is None and forbid:
        warnings.warn("load: TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD is set, so weights_only=False.", stacklevel=3)
        return False
    return pickle_module is None if asked is None else bool(asked)


def _load_safetensors(path: str, map_location: Any) -> Any:
    if isinstance(map_location, dict) or not (
        map_location is None or isinstance(map_location, (str, bytes, _C.device))
    ):
        raise RuntimeError("load: map_location of a safetensors file must be a device or its name")
    return load_file(path, "cpu" if map_location is None else _text(map_location))


def _load_open(f: Any, file: Any, map_location: Any, pickle_module: Any, mmap: bool, load_args: dict) -> Any:
    start = file.tell()
    head = file.read(4)
    file.seek(start)
    explained = _explained if pickle_module is None else _as_it_is
    if not is_zip(head):
        if mmap:
            raise RuntimeError("mmap can only be used with files in the zip format. "
                               "Save the checkpoint again without _use_new_zipfile_serialization=False.")
        from .legacy import _legacy_load

        return explained(lambda: _legacy_load(file, map_location, pickle_module, **load_args))
    with PyTorchFileReader(source_of(file)) as archive:
        if _is_torchscript_zip(archive):
            return _load_script(file, start, map_location, pickle_module)
        mapping = None
        if mmap:
            if not is_path(f):
                raise ValueError("load: mmap=True needs f to be a path")
            mapping = _map_file(file)
        return explained(lambda: _load(archive, map_location, pickle_module, overall_storage=mapping, **load_args))


def _load_script(file: Any, start: int, map_location: Any, pickle_module: Any) -> Any:
    """Hand a TorchScript archive over to `jit.load`, saying so; a safe load is one of data only and refuses it."""
    if pickle_module is None:
        raise RuntimeError("Cannot use weights_only=True with TorchScript archives passed to torch.load: they hold"
                           " programs. Use torch.jit.load, or weights_only=False.")
    warnings.warn("'torch.load' received a zip file that looks like a TorchScript archive, dispatching to"
                  " 'torch.jit.load' (call 'torch.jit.load' directly to silence this warning)", UserWarning,
                  stacklevel=4)
    file.seek(start)
    return late.provided("package").jit.load(file, map_location=map_location)


def _as_it_is(run: Callable[[], Any]) -> Any:
    return run()


def _explained(run: Callable[[], Any]) -> Any:
    """Say with every refusal of the safe reading what else can be done."""
    try:
        return run()
    except pickle.UnpicklingError as error:
        said = str(error)
        if "add_safe_globals" in said:
            advice = (
                "Weights only load failed. There are two ways to read the file, both only if you trust its "
                f"source.\n\t(1) {UNSAFE_MESSAGE}\n\t(2) weights_only=True reads it where the "
                f"advice of the following error is followed.\n\tWeightsUnpickler error: {said}"
            )
        else:
            advice = f"Weights only load failed. {UNSAFE_MESSAGE}\nWeightsUnpickler error: {said}"
        raise pickle.UnpicklingError(advice) from error.__cause__


def _is_torchscript_zip(zip_file: PyTorchFileReader) -> bool:
    return zip_file.has_record("constants.pkl")


def _map_file(file: Any) -> UntypedStorage:
    """All of a file as a storage; nothing is read until it is looked at."""
    import mmap

    flags = options.load.mmap_flags
    if flags == mmap.MAP_SHARED:
        return UntypedStorage.from_file(file.name, True, 0)
    return over_buffer(mmap.mmap(file.fileno(), 0, flags, mmap.PROT_READ | mmap.PROT_WRITE))


# --- storages of an archive -------------------------------------------------------------------------------------------


def _check_byte_order(zip_file: PyTorchFileReader) -> bool:
    """Whether the bytes must be swapped."""
    if zip_file.has_record("byteorder"):
        order = zip_file.get_record("byteorder")
        if order not in (b"little", b"big"):
            raise ValueError(f"Unknown endianness type: {order!r}")
        return order.decode() != sys.byteorder
    default = options.load.endianness
    if default is options.LoadEndianness.NATIVE:
        return False
    return sys.byteorder != ("big" if default is options.LoadEndianness.BIG else "little")


class _Prefetch:
    """Reads the large records on threads of its own, piece by piece in the order of the file,
    so that they are there when asked for."""

    def __init__(self, archive: PyTorchFileReader) -> None:
        self._archive = archive
        self._waiting: dict[str, _Awaited] = {}
        self._claim = threading.Lock()
        self._stop = False
        pieces = []
        if archive.source.is_parallel:
            for name in archive.get_all_records():
                if name.startswith("data/") and archive.size_of(name) >= _LARGE:
                    record = self._waiting[name] = _Awaited(archive.entry(name))
                    pieces += [(record, at) for at in record.starts]
        self._left = iter(pieces)
        self._threads = [
            threading.Thread(target=self._work, daemon=True) for _ in range(min(4, os.cpu_count() or 1, len(pieces)))
        ]

    def _work(self) -> None:
        while not self._stop:
            with self._claim:
                record, at = next(self._left, (None, 0))
            if record is None:
                return
            record.read(self._archive, at)
            with self._claim:
                record.missing -= 1
                if not record.missing:
                    record.done.release()

    def take(self, name: str) -> UntypedStorage | None:
        """The storage with the record's bytes, if this is one of those read ahead."""
        record = self._waiting.pop(name, None)
        if record is None:
            return None
        record.done.acquire()
        if record.error is not None:
            raise record.error
        return record.storage

    def __enter__(self) -> _Prefetch:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop = True
        for thread in self._threads:
            thread.join()


class _Awaited:
    """A record on its way into a storage; `done` is free when all of its pieces have come."""

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.storage = UntypedStorage(entry.size)
        self.view = memoryview(self.storage)
        # What is compressed comes as a whole.
        self.starts = range(0, entry.size, _PIECE) if not entry.method else range(1)
        self.missing = len(self.starts)
        self.error: BaseException | None = None
        self.done = threading.Lock()
        self.done.acquire()

    def read(self, archive: PyTorchFileReader, at: int) -> None:
        try:
            archive.read_into(self.entry, self.view[at : at + _PIECE] if not self.entry.method else self.view, at)
        except BaseException as error:  # raised again where the record is asked for
            self.error = error


class _ArchiveStorages:
    """Answers the persistent ids of an archive's pickle: each record becomes one storage."""

    def __init__(self, archive: PyTorchFileReader, map_location: Any, mapping: UntypedStorage | None = None,
                 folder: str = "data") -> None:
        self._archive, self._mapping, self._folder = archive, mapping, folder
        self._restore = restore_of(map_location)
        self._is_meta = is_meta(map_location) or options.local.is_fake
        self._swap = _check_byte_order(archive)
        self._loaded: dict[str, TypedStorage] = {}
        self.prefetch: _Prefetch | None = None

    def wants_data(self) -> bool:
        return not (self._is_meta or options.local.skip_data or self._mapping is not None)

    def __call__(self, saved: Any) -> TypedStorage:
        if not isinstance(saved, tuple) or len(saved) != 5 or _text(saved[0]) != "storage":
            raise pickle.UnpicklingError(
                f"expected a storage's ('storage', class, key, place, size), got {type(saved).__name__}"
            )
        _, kind, key, location, numel = saved
        key = _text(key)
        found = self._loaded.get(key)
        if found is None:
            dtype = _dtype_of(kind)
            if type(numel) is not int or numel < 0:
                raise RuntimeError(f"load: storage {key!r} claims to have {numel!r} elements")
            raw = self._read(f"{self._folder}/{key}", numel * dtype.itemsize)
            if self._swap and self.wants_data():
                raw.byteswap(dtype)
            raw = raw if self._is_meta else self._restore(raw, _text(location))
            found = raw if isinstance(raw, TypedStorage) else TypedStorage(wrap_storage=raw, dtype=dtype)
            self._loaded[key] = found
        return found

    def _read(self, name: str, nbytes: int) -> UntypedStorage:
        if self._is_meta:
            return UntypedStorage(nbytes, "meta")
        entry = self._archive.entry(name)
        if nbytes > entry.size:
            raise RuntimeError(
                f"load: the record {name!r} has {entry.size} bytes, but a storage of {nbytes} is said to be in it"
            )
        if options.local.skip_data:
            return UntypedStorage(nbytes)
        if self._mapping is not None:
            return self._mapped(entry, nbytes)
        ready = self.prefetch.take(name) if self.prefetch else None
        if ready is not None:
            return ready if ready.nbytes() == nbytes else ready[:nbytes]
        storage = UntypedStorage(nbytes)
        if nbytes:
            self._archive.read_into(entry, memoryview(storage))
        return storage

    def _mapped(self, entry: Entry, nbytes: int) -> UntypedStorage:
        if entry.method:
            raise RuntimeError(f"load: the record {entry.name!r} is compressed and cannot be mapped. Use mmap=False.")
        return self._mapping[entry.start : entry.start + nbytes]  # type: ignore[index]


# --- reading the pickle -----------------------------------------------------------------------------------------------


def _load(
    zip_file: PyTorchFileReader,
    map_location: Any,
    pickle_module: Any,
    pickle_file: str = "data.pkl",
    overall_storage: UntypedStorage | None = None,
    **pickle_load_args: Any,
) -> Any:
    """The object in an archive; `pickle_module` None reads safely."""
    local = options.local
    before = (local.map_location, local.is_fake)
    local.map_location, local.is_fake = map_location, any(hasattr(mode, "from_tensor") for mode in modes.dispatch_modes)
    try:
        storages = _ArchiveStorages(zip_file, map_location, overall_storage)
        data = zip_file.get_record(pickle_file)
        if not storages.wants_data():
            return _unpickled(data, storages, pickle_module, pickle_load_args)
        with _Prefetch(zip_file) as storages.prefetch:
            return _unpickled(data, storages, pickle_module, pickle_load_args)
    finally:
        local.map_location, local.is_fake = before


def _unpickled(data: bytes, storages: _ArchiveStorages, pickle_module: Any, load_args: dict) -> Any:
    if pickle_module is None:
        return RestrictedUnpickler(data, 0, storages, load_args["encoding"]).load()
    return unpickler_of(pickle_module, io.BytesIO(data), storages, load_args).load()


def get_unsafe_globals_in_checkpoint(f: Any) -> list[str]:
    """The globals a file names that `weights_only=True` would refuse. The file's pickle is looked at, not run."""
    from .allowed import default_globals, user_globals

    with opened(f) as file:
        start = file.tell()
        head = file.read(4)
        file.seek(start)
        if not is_zip(head):
            raise ValueError("expected a checkpoint of torch.save")
        with PyTorchFileReader(source_of(file)) as archive:
            if _is_torchscript_zip(archive):
                raise ValueError("expected a checkpoint of torch.save, got a torchscript archive")
            found = names.globals_in(archive.get_record("data.pkl"))
    return list(found - set(default_globals()) - set(user_globals()))
