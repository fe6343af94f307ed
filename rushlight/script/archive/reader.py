"""Reading an archive: its objects and, when they are first called, its programs.

Enters: a path or file object, where its tensors go, which extra files are wanted. Leaves: `Loaded`: the root object and
the importer of its classes. Nothing of the file is run or trusted: every record lies inside it, code is parsed by our
own parser and names ops and other members only. Refuses: other formats, versions outside 1 to 10, damage.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from ...serialization.archive import PyTorchFileReader
from ...serialization.read import _ArchiveStorages
from ...serialization.sources import is_path, opened, source_of
from ..classes import Object
from ..unit import Unit
from .debug import Origins, read_origins
from .imports import Importer
from .pickles import unpickled
from .upgraders import NEWEST, upgraded

OLDEST = 1
_MOST_CODE = 1 << 28            # bytes of one member


class Loaded(NamedTuple):
    """What an archive held."""

    root: Object
    importer: Importer
    extra: dict[str, bytes]
    has_inputs: bool = False      # whether examples of what it was traced with lie in it


class Archive:
    """An open archive."""

    def __init__(self, records: PyTorchFileReader, map_location: Any) -> None:
        self.records, self.map_location = records, map_location
        self.version = self._version()
        self._constants: list[Any] | None = None
        self._members: dict[str, bytes] = {}
        for name in records.get_all_records():
            if name.startswith("code/") and records.size_of(name) <= _MOST_CODE:
                self._members[name] = b""
        self.importer = Importer(Unit(), self.version, self.text_of, self.constants, self.origins_of,
                                 upgraded)

    def _version(self) -> int:
        records = self.records
        if records.has_record("model.json"):
            raise RuntimeError("this archive is of the format from before PyTorch 1.3 (model.json), which is not read."
                               " Load it with PyTorch and save it again.")
        name = "version" if records.has_record("version") else ".data/version"
        text = records.get_record(name).strip() if records.has_record(name) else b""
        if not text.isdigit() or len(text) > 18:
            raise RuntimeError(f"the archive's version cannot be read: {text[:40]!r}")
        found = int(text)
        if found < OLDEST:
            raise RuntimeError(f"this archive is of version {found}; the minimum supported version is {OLDEST}. Save it"
                               " again with a later PyTorch.")
        if found > NEWEST:
            raise RuntimeError(f"this archive is of version {found}; the maximum supported version is {NEWEST}")
        return found

    def read_all(self) -> None:
        """Take code and constants into memory: they are needed when the file is closed."""
        for name in self._members:
            self._members[name] = self.records.get_record(name)
        self.constants()

    def text_of(self, path: str) -> str | None:
        data = self._members.get(path)
        if data is None:
            return None
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise RuntimeError(f"the record '{path}' of the archive is no text: {error}") from None

    def origins_of(self, path: str, text: str) -> Origins:
        data = self._members.get(f"{path}.debug_pkl")
        if not data:
            return Origins()
        try:
            return read_origins(unpickled(data, _no_storage, None, path), text)
        except (RuntimeError, TypeError, ValueError, IndexError):
            return Origins()     # it only tells lines

    def constants(self) -> list[Any]:
        if self._constants is None:
            self._constants = []     # what the table itself names cannot be in it
            if self.records is not None and self.records.has_record("constants.pkl"):
                held = self.unpickle("constants")
                if not isinstance(held, tuple):
                    raise RuntimeError("the record 'constants.pkl' of the archive holds no tuple")
                self._constants = list(held)
        return self._constants

    def unpickle(self, name: str) -> Any:
        """The value of `name.pkl`, its tensors from the folder of that name."""
        data = self.records.get_record(f"{name}.pkl")
        folder = name if any(r.startswith(f"{name}/") for r in self.records.get_all_records()) else "tensors"
        storages = _ArchiveStorages(self.records, self.map_location, folder=folder)
        return unpickled(data, storages, self.importer, f"{name}.pkl")


def _no_storage(key: Any) -> Any:
    raise RuntimeError("a debug file holds no tensors")


def read_archive(f: Any, map_location: Any = None, extra: Any = ()) -> Loaded:
    """Open an archive and read all of it."""
    if is_path(f):
        path = os.fspath(f)
        if not os.path.exists(path):
            raise ValueError(f"jit.load: the file {path} does not exist")
        if os.path.isdir(path):
            raise ValueError(f"jit.load: {path} is a directory, not a file")
    with opened(f) as file, PyTorchFileReader(source_of(file)) as records:
        archive = Archive(records, map_location)
        if not records.has_record("data.pkl"):
            raise RuntimeError("PytorchStreamReader failed locating file data.pkl: file not found. This is no"
                               " TorchScript archive, or one that was cut short.")
        archive.read_all()
        root = archive.unpickle("data")
        if not isinstance(root, Object) or not root.type.is_module():
            raise RuntimeError("the archive holds no module: it was not made by jit.save. Try torch.load.")
        found = {name: records.get_record(f"extra/{name}") for name in extra if records.has_record(f"extra/{name}")}
        has_inputs = records.has_record("traced_inputs.pkl")
    archive.records = None  # type: ignore[assignment]
    return Loaded(root, archive.importer, found, has_inputs)
