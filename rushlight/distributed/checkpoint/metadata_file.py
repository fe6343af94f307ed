"""The `.metadata` file: PyTorch's pickle, read without running anything of it.

Enters: bytes of a file, or a `Metadata`. Leaves: the other. Refuses every name that is no record of a checkpoint's.
"""

from __future__ import annotations

import pathlib
import pickle
from typing import Any, NoReturn

from ...serialization.names import torch_name, with_torch_names
from ...serialization.restricted import Unpickler
from . import metadata as records

_PROTOCOL = 2       # its names are found by one pass over the bytes


def _path(*parts: Any) -> pathlib.Path:
    if not all(isinstance(part, str) for part in parts):
        raise pickle.UnpicklingError(f"a path is made of text, got {parts!r}")
    return pathlib.Path(*parts)


def _member(cls: Any, name: Any) -> Any:
    """A memory format by its name: Python 3.11 before 3.11.4 writes members of enums as attributes of their class."""
    if cls is not records._MEM_FORMAT_ENCODING or name not in cls.__members__:
        raise pickle.UnpicklingError(f"getattr: only memory formats are looked up by name, got {name!r} of {cls!r}")
    return cls[name]


def _known(more: tuple[type, ...]) -> dict[str, Any]:
    classes = [getattr(records, name) for name in (*records.__all__, "_MEM_FORMAT_ENCODING")]
    table: dict[str, Any] = {
        ".".join(torch_name(cls.__module__, cls.__qualname__)): cls for cls in (*classes, *more)
    }
    table.update(dict.fromkeys(("getattr", "builtins.getattr", "__builtin__.getattr"), _member))
    for module in ("pathlib", "pathlib._local"):
        for name in ("PosixPath", "WindowsPath", "PurePosixPath", "PureWindowsPath"):
            table[f"{module}.{name}"] = _path
    return table


def _no_storage(key: Any) -> NoReturn:
    raise pickle.UnpicklingError("a checkpoint's metadata holds no tensors")


def read(data: bytes, where: Any, storage_records: tuple[type, ...]) -> records.Metadata:
    """What the file's bytes say, in records of checkpoints and of the storage; `where` names the file in errors."""
    reader = Unpickler(data, 0, _no_storage)
    reader.user = {**_known(storage_records), **reader.user}
    try:
        found = reader.load()
    except (pickle.UnpicklingError, EOFError) as error:
        raise type(error)(f"{where}: this is not a checkpoint's metadata ({error})") from None
    if not isinstance(found, records.Metadata):
        raise pickle.UnpicklingError(f"{where}: expected a checkpoint's metadata, found {type(found).__name__}")
    return found


def written(metadata: records.Metadata) -> bytes:
    """The file's bytes."""
    return with_torch_names(pickle.dumps(metadata, protocol=_PROTOCOL))
