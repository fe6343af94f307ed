"""Records of `.pt2` archives, by their names.

Enters: a path or a stream. Leaves: bytes of records; or the archive, written. Nothing in a record is run. Refuses:
archives of another kind.
"""

from __future__ import annotations

import io
import os
from typing import Any

from ...serialization import _open_zipfile_reader, _open_zipfile_writer
from .constants import ARCHIVE_FORMAT_PATH, ARCHIVE_FORMAT_VALUE, ARCHIVE_VERSION_PATH, ARCHIVE_VERSION_VALUE


class PT2ArchiveWriter:
    """Writes an archive, record by record; a context manager."""

    def __init__(self, archive_path_or_buffer: Any) -> None:
        self._opened = _open_zipfile_writer(archive_path_or_buffer)
        self._file = self._opened.__enter__()
        self._names: set[str] = set()
        self.write_bytes(".data/version", b"6\n")

    def __enter__(self) -> PT2ArchiveWriter:
        return self

    def __exit__(self, *args: Any) -> None:
        if args[0] is not None:
            self._opened.__exit__(*args)      # half an archive is none
            return
        self.close()

    def has_record(self, name: str) -> bool:
        """Whether a record of this name was written."""
        return name in self._names

    def count_prefix(self, prefix: str) -> int:
        """How many records were written whose names begin so."""
        return sum(name.startswith(prefix) for name in self._names)

    def write_bytes(self, name: str, data: bytes) -> None:
        """One record."""
        if not isinstance(data, bytes):
            raise AssertionError(f"write_bytes: expected bytes, got {type(data).__name__}")
        self._file.write_record(name, data)
        self._names.add(name)

    def write_string(self, name: str, data: str) -> None:
        """One record of text."""
        if not isinstance(data, str):
            raise AssertionError(f"write_string: expected a str, got {type(data).__name__}")
        self.write_bytes(name, data.encode())

    def write_file(self, name: str, file_path: str) -> None:
        """A file as a record."""
        if not os.path.isfile(file_path):
            raise AssertionError(f"write_file: there is no file {file_path!r}")
        with open(file_path, "rb") as file:
            self.write_bytes(name, file.read())

    def write_folder(self, archive_dir: str, folder_dir: str) -> None:
        """The files of a folder, and of those inside it, as records below `archive_dir`."""
        if not os.path.isdir(folder_dir):
            raise AssertionError(f"write_folder: there is no folder {folder_dir!r}")
        for place, _, names in os.walk(folder_dir):
            for name in sorted(names):
                path = os.path.join(place, name)
                own = os.path.relpath(path, folder_dir).replace(os.sep, "/")
                self.write_file(f"{archive_dir.rstrip('/')}/{own}", path)

    def close(self) -> None:
        """Finish the archive."""
        if not self.has_record(ARCHIVE_FORMAT_PATH):
            self.write_string(ARCHIVE_FORMAT_PATH, ARCHIVE_FORMAT_VALUE)
        if not self.has_record(ARCHIVE_VERSION_PATH):
            self.write_string(ARCHIVE_VERSION_PATH, ARCHIVE_VERSION_VALUE)
        self._opened.__exit__(None, None, None)


class PT2ArchiveReader:
    """Reads an archive; a context manager."""

    def __init__(self, archive_path_or_buffer: Any) -> None:
        self._opened = _open_zipfile_reader(archive_path_or_buffer)
        self._file = self._opened.__enter__()
        names = self._file.get_all_records()
        if ARCHIVE_FORMAT_PATH not in names or self.read_string(ARCHIVE_FORMAT_PATH) != ARCHIVE_FORMAT_VALUE:
            raise AssertionError(f"PT2ArchiveReader: no .pt2 archive: {ARCHIVE_FORMAT_PATH} must say 'pt2'")

    def __enter__(self) -> PT2ArchiveReader:
        return self

    def __exit__(self, *args: Any) -> None:
        self._opened.__exit__(None, None, None)

    def read_bytes(self, name: str) -> bytes:
        """One record."""
        return bytes(self._file.get_record(name))

    def read_string(self, name: str) -> str:
        """One record of text."""
        return self.read_bytes(name).decode()

    def archive_version(self) -> int:
        """The version of the format; 0 where the archive does not say."""
        return int(self.read_string(ARCHIVE_VERSION_PATH)) if ARCHIVE_VERSION_PATH in self.get_file_names() else 0

    def get_file_names(self) -> list[str]:
        """The names of all records."""
        return list(self._file.get_all_records())


def is_pt2_package(serialized_model: bytes | str) -> bool:
    """Whether bytes, or a file, are a `.pt2` archive."""
    source = io.BytesIO(serialized_model) if isinstance(serialized_model, bytes) else serialized_model
    try:
        with PT2ArchiveReader(source) as reader:
            return reader.archive_version() >= 0
    except (AssertionError, OSError, RuntimeError, ValueError):
        return False


for _member in (PT2ArchiveReader, PT2ArchiveWriter, is_pt2_package):
    _member.__module__ = __name__.rpartition(".")[0]
