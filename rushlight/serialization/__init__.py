"""Saving and loading: `rushlight.save`, `rushlight.load` and PyTorch's `torch.serialization`.

Enters: objects with tensors in them, and files in PyTorch's formats. Leaves: files, and objects. Refuses: by default,
pickles that name anything but data.

`write.py` and `read.py` hold the two functions; `archive.py` the zip container; `restricted.py` the interpreter that
reads pickles as data, with `allowed.py` for what they may name; `names.py` the names in files;
`tensors/legacy_types.py` the older formats; `locations.py` devices; `sources.py` files and buffers;
`options.py` what can be set.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any

from .._C import device as _device
from ..base.shape import _get_layout
from ..tensors.pickling import ongoing as _serialization_tls
from ..tensors.storages import TypedStorage, UntypedStorage
from . import options as _options
from .allowed import add_safe_globals, clear_safe_globals, get_safe_globals, safe_globals
from .archive import PyTorchFileReader, PyTorchFileWriter, archive_name_of as _archive_name_of, is_zip as _starts_as_zip
from .legacy import _legacy_load
from .locations import (
    StorageType,
    _registry as _package_registry,
    default_restore_location,
    is_meta as _is_meta_location,
    location_tag,
    normalize_storage_type,
    register_package,
    restore_of as _get_restore_location,
    storage_to_tensor_type,
)
from .options import (
    LoadEndianness,
    get_crc32_options,
    get_default_load_endianness,
    get_default_mmap_options,
    set_crc32_options,
    set_default_load_endianness,
    set_default_mmap_options,
    skip_data,
)
from .read import (
    UNSAFE_MESSAGE,
    _is_torchscript_zip,
    _load,
    _text as _maybe_decode_ascii,
    get_unsafe_globals_in_checkpoint,
    load,
)
from .sources import (
    FileSink as _FileSink,
    check_seekable as _check_seekable,
    is_path as _is_path,
    opened as _opened,
    replaced as _replaced,
    source_of as _source_of,
    stream_sink as _stream_sink,
)
from .write import DEFAULT_PROTOCOL, MAGIC_NUMBER, PROTOCOL_VERSION, _check_dill_version, _legacy_save, _save, save

FILE_LIKE = FileLike = str | os.PathLike | IO[bytes]
MAP_LOCATION = Callable[[Any, str], Any] | _device | str | dict[str, str] | None
STORAGE = TypedStorage | UntypedStorage
STORAGE_KEY_SEPARATOR = ","
IS_WINDOWS = False
LONG_SIZE, INT_SIZE, SHORT_SIZE = 4, 4, 2


class SourceChangeWarning(Warning):
    """Said of a class whose source differs from what was saved. Sources are not compared here,
    so it is never raised."""


@contextmanager
def mkdtemp() -> Iterator[str]:
    """A new folder for the block, removed after it."""
    path = tempfile.mkdtemp()
    try:
        yield path
    finally:
        shutil.rmtree(path)


def check_module_version_greater_or_equal(
    module: Any, req_version_tuple: tuple, error_if_malformed: bool = True
) -> bool:
    """Whether a module's `__version__` is at least the one required, part by part."""
    try:
        return tuple(
            type(r)(v) for r, v in zip(req_version_tuple, module.__version__.split("."), strict=False)
        ) >= tuple(req_version_tuple)
    except Exception as error:
        message = (
            f"'{module.__name__}' module version string is malformed '{module.__version__}' and cannot be compared with"
            f" tuple {req_version_tuple}"
        )
        if error_if_malformed:
            raise RuntimeError(message) from error
        return True


def validate_cuda_device(location: str) -> int:
    """The index of a CUDA location; refused here, where there is none."""
    raise RuntimeError(
        f"load: the file's storages are on a CUDA device ({location}), and this machine has none. "
        "Pass map_location='cpu'."
    )


def validate_hpu_device(location: str) -> int:
    """The index of an HPU location; refused here, where there is none."""
    raise RuntimeError(
        f"load: the file's storages are on {location}, and there is no HPU here. Pass map_location='cpu'."
    )


def _is_zipfile(f: Any) -> bool:
    start = f.tell()
    head = f.read(4)
    f.seek(start)
    return _starts_as_zip(head)


def _is_compressed_file(f: Any) -> bool:
    return getattr(f, "__module__", None) in ("gzip",)


def _should_read_directly(f: Any) -> bool:
    """Whether a file object stands for plain bytes of the system."""
    try:
        return not _is_compressed_file(f) and f.fileno() >= 0
    except (OSError, AttributeError):
        return False


def _get_storage_alignment() -> int:
    return _options.save.storage_alignment


def _open_file_like(name_or_buffer: Any, mode: str) -> Any:
    """A context manager for the open file."""
    if "w" in mode:
        return open(name_or_buffer, mode) if _is_path(name_or_buffer) else _kept_open(name_or_buffer)
    return _opened(name_or_buffer)


@contextmanager
def _kept_open(file: Any) -> Iterator[Any]:
    yield file
    file.flush()


@contextmanager
def _open_zipfile_reader(name_or_buffer: Any) -> Iterator[PyTorchFileReader]:
    """A reader of the archive, for the block."""
    with _opened(name_or_buffer) as file, PyTorchFileReader(_source_of(file)) as reader:
        yield reader


@contextmanager
def _open_zipfile_writer(name_or_buffer: Any) -> Iterator[PyTorchFileWriter]:
    """A writer whose archive is made whole when the block ends."""
    if not _is_path(name_or_buffer):
        writer = PyTorchFileWriter(_stream_sink(name_or_buffer))
        yield writer
        writer.write_end_of_file()
        return
    with _replaced(os.fspath(name_or_buffer)) as fd:
        sink = _FileSink(fd)
        writer = PyTorchFileWriter(sink, _archive_name_of(os.fspath(name_or_buffer)))
        yield writer
        writer.write_end_of_file()
        sink.finish()


__all__ = [
    "DEFAULT_PROTOCOL", "FILE_LIKE", "FileLike", "INT_SIZE", "LONG_SIZE", "LoadEndianness", "MAGIC_NUMBER",
    "MAP_LOCATION", "PROTOCOL_VERSION", "PyTorchFileReader", "PyTorchFileWriter", "SHORT_SIZE", "STORAGE",
    "STORAGE_KEY_SEPARATOR", "SourceChangeWarning", "StorageType", "_check_dill_version", "_check_seekable",
    "_get_layout", "_get_restore_location", "_is_path", "_is_torchscript_zip", "_is_zipfile",
    "_legacy_load", "_legacy_save", "_load", "_maybe_decode_ascii", "_open_file_like", "_open_zipfile_reader",
    "_open_zipfile_writer", "_save", "_serialization_tls", "add_safe_globals", "check_module_version_greater_or_equal",
    "clear_safe_globals", "default_restore_location", "get_crc32_options", "get_default_load_endianness",
    "get_default_mmap_options", "get_safe_globals", "get_unsafe_globals_in_checkpoint", "load",
    "location_tag", "mkdtemp", "normalize_storage_type", "register_package", "safe_globals", "save",
    "set_crc32_options", "set_default_load_endianness", "set_default_mmap_options", "skip_data",
    "storage_to_tensor_type", "validate_cuda_device", "validate_hpu_device",
]
