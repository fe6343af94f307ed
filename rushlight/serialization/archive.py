"""The zip container: records are stored one after another, each starting at a multiple of 64 bytes.

Enters: named buffers to write, or a source of bytes to read. Leaves: a file laid out byte for byte as PyTorch lays out
its own, or the records of one. Reading believes nothing a file says: every record must lie inside the file, apart from
the others, and be what the directory calls it. Refuses archives in parts, encrypted ones, and records that claim to
expand more than deflate can.
"""

from __future__ import annotations

import os
import struct
import sys
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

from .. import _C
from .sources import Source

_crc32 = getattr(_C, "crc32", zlib.crc32)
_LOCAL = struct.Struct("<IHHHHHIIIHH")
_CENTRAL = struct.Struct("<IHHHHHHIIIHHHHHII")
_END = struct.Struct("<IHHHHIIH")
_END64 = struct.Struct("<IQHHIIQQQQ")
_LOCATOR = struct.Struct("<IIQI")
_LOCAL_SIGN, _CENTRAL_SIGN, _END_SIGN, _END64_SIGN, _LOCATOR_SIGN, _DESCRIPTOR_SIGN = (
    0x04034B50, 0x02014B50, 0x06054B50, 0x06064B50, 0x07064B50, 0x08074B50)
_FULL = 0xFFFFFFFF
_UTF8, _DESCRIBED_AFTER, _ENCRYPTED = 0x800, 0x8, 0x1
_STORED, _DEFLATED = 0, 8
_MOST_EXPANSION = 1040            # deflate cannot do better than 1032 to 1
_SUSPICIOUS_EXPANSION = 100       # over a whole archive, once it is large
_SMALL = 1 << 30
CORRUPT = (
    "The file is damaged or was cut short. This happens when it was not saved to the end, or not transferred whole; "
    "save or fetch it again."
)


def is_zip(start: bytes) -> bool:
    """Whether a file that begins so is an archive; zips with something in front are not ours."""
    return start[:4] == b"PK\x03\x04"


# --- writing ----------------------------------------------------------------------------------------------------------


class Record(NamedTuple):
    """What the directory says of a record that was written."""

    name: bytes
    crc: int
    size: int
    at: int
    packed: int
    method: int = _STORED


class PyTorchFileWriter:
    """Writes records in the order given to `sink`, which takes lists of buffers;
    `write_end_of_file` makes the archive whole."""

    def __init__(
        self, sink: Callable[[list], Any], name: str = "archive", alignment: int = 64, has_sums: bool = True,
        says_order: bool = False,
    ) -> None:
        self._sink = sink
        self._says_order = says_order
        self._name = name or "archive"
        self._alignment = alignment
        self._has_sums = has_sums
        self._at = 0
        self._records: list[Record] = []
        self._names: set[str] = set()

    def archive_name(self) -> str:
        return self._name

    def expect(self, size: int) -> None:
        """Say how many bytes are still to come."""
        if hasattr(self._sink, "reserve"):
            self._sink.reserve(size)

    def write_record(self, name: str, data: Any, size: int | None = None, compress: bool = False) -> None:
        """Append a record, deflated where `compress` says so; `data` has the buffer protocol."""
        view = memoryview(data).cast("B")
        if size is not None:
            view = view[:size]
        if name in self._names:
            raise RuntimeError(f"write_record: a record named {name!r} has been written already")
        self._names.add(name)
        full, size = f"{self._name}/{name}".encode(), view.nbytes
        number = _crc32(view) if self._has_sums else 0
        method = _DEFLATED if compress and size else _STORED
        if method == _DEFLATED:
            stream = zlib.compressobj(9, zlib.DEFLATED, -15)
            view = memoryview(stream.compress(view) + stream.flush())
        packed = view.nbytes
        header, start = self._header(full, size, packed, method)
        tail = b""
        if size:
            wide = start >= _FULL or size >= _FULL
            tail = struct.pack("<IIQQ" if wide else "<IIII", _DESCRIPTOR_SIGN, number, packed, size)
        self._sink([header, view, tail] if size else [header])
        self._records.append(Record(full, number, size, start, packed, method))
        self._at = start + len(header) + packed + len(tail)

    def _header(self, name: bytes, size: int, packed: int, method: int) -> tuple[bytes, int]:
        """The bytes in front of a record, padded so that its first byte is aligned; and where they start."""
        at, extra, sizes = self._at, b"", 0
        if at >= _FULL or size >= _FULL:
            fields = [size, packed] if size >= _FULL else []
            fields += [at] if at >= _FULL else []
            extra = struct.pack(f"<HH{len(fields)}Q", 1, 8 * len(fields), *fields)
            sizes = _FULL if size >= _FULL else 0
        padding = -(at + _LOCAL.size + len(name) + len(extra) + 4) % self._alignment
        extra += struct.pack("<2sH", b"FB", padding) + b"Z" * padding
        flags = _UTF8 | (_DESCRIBED_AFTER if size else 0)
        return (
            _LOCAL.pack(_LOCAL_SIGN, 0, flags, method, 0, 0, 0, sizes, sizes, len(name), len(extra)) + name + extra,
            at,
        )

    def write_end_of_file(self, version: int = 3) -> None:
        """Append the version, the order of bytes unless it is there, an identity made of the checksums, and the
        directory."""
        self.write_record("version" if version < 6 else ".data/version", b"%d\n" % version)
        if "byteorder" not in self._names and self._says_order:
            self.write_record("byteorder", sys.byteorder.encode())
        names = zlib.crc32(b"".join(r.name for r in self._records))
        sums = zlib.crc32(b"".join(struct.pack("<I", r.crc) for r in self._records))
        self.write_record(".data/serialization_id", b"%020d%020d" % (names, sums))
        directory = b"".join(map(_central_entry, self._records))
        count, at = len(self._records), self._at
        end = [
            directory,
            _END64.pack(_END64_SIGN, _END64.size - 12, 0x031E, 45, 0, 0, count, count, len(directory), at),
            _LOCATOR.pack(_LOCATOR_SIGN, 0, at + len(directory), 1),
            _END.pack(
                _END_SIGN, 0, 0, min(count, 0xFFFF), min(count, 0xFFFF), min(len(directory), _FULL), min(at, _FULL), 0
            ),
        ]
        self._sink(end)


def _central_entry(record: Record) -> bytes:
    size, at, fields = record.size, record.at, []
    if size >= _FULL:
        fields += [size, record.packed]
    if at >= _FULL:
        fields.append(at)
    extra = struct.pack(f"<HH{len(fields)}Q", 1, 8 * len(fields), *fields) if fields else b""
    flags = _UTF8 | (_DESCRIBED_AFTER if size else 0)
    small, packed = min(size, _FULL), min(record.packed, _FULL) if size < _FULL else _FULL
    head = _CENTRAL.pack(_CENTRAL_SIGN, 0, 0, flags, record.method, 0, 0, record.crc, packed, small, len(record.name),
                         len(extra), 0, 0, 0, 0, min(at, _FULL))
    return head + record.name + extra


# --- reading ----------------------------------------------------------------------------------------------------------


class Entry:
    """A record as the directory describes it; `start` is where its bytes begin, once looked up."""

    __slots__ = ("crc", "header", "method", "name", "packed", "size", "start")

    def __init__(self, name: str, method: int, crc: int, packed: int, size: int, header: int) -> None:
        self.name, self.method, self.crc, self.packed, self.size, self.header = name, method, crc, packed, size, header
        self.start = -1


def _bad(what: str) -> RuntimeError:
    return RuntimeError(f"PytorchStreamReader failed reading zip archive: {what}. {CORRUPT}")


class PyTorchFileReader:
    """The records of an archive, by their names without the archive's own."""

    def __init__(self, source: Source) -> None:
        self.source = source
        entries = _directory(source)
        if not entries:
            raise _bad("it holds no records")
        self._archive = entries[0].name.partition("/")[0]
        prefix = self._archive + "/"
        self._entries: dict[str, Entry] = {}
        for entry in entries:
            name = entry.name.removeprefix(prefix)
            if name in self._entries:
                raise _bad(f"two records are named {name!r}")
            self._entries[name] = entry
        _check_apart(entries, source.size)

    def archive_name(self) -> str:
        return self._archive

    def get_all_records(self) -> list[str]:
        return list(self._entries)

    def has_record(self, name: str) -> bool:
        return name in self._entries

    def entry(self, name: str) -> Entry:
        found = self._entries.get(name)
        if found is None:
            raise RuntimeError(f"PytorchStreamReader failed locating file {name}: file not found. {CORRUPT}")
        if found.start < 0:
            found.start = self._locate(found)
        return found

    def _locate(self, entry: Entry) -> int:
        """Where the bytes of a record begin; its own header must agree with the directory."""
        name = entry.name.encode()
        head = self.source.read(entry.header, _LOCAL.size + len(name))
        if len(head) < _LOCAL.size:
            raise _bad(f"the header of {entry.name!r} lies outside the file")
        sign, _, flags, method, _, _, _, _, _, name_size, extra_size = _LOCAL.unpack_from(head)
        start = entry.header + _LOCAL.size + name_size + extra_size
        if sign != _LOCAL_SIGN or method != entry.method or flags & _ENCRYPTED:
            raise _bad(f"the header of {entry.name!r} does not match the directory")
        if name_size != len(name) or head[_LOCAL.size :] != name:
            raise _bad(f"the header of {entry.name!r} has another name")
        if start + entry.packed > self.source.size:
            raise _bad(f"the record {entry.name!r} lies outside the file")
        return start

    def get_record_size(self, name: str) -> int:
        return self.entry(name).size

    def get_record_offset(self, name: str) -> int:
        return self.entry(name).start

    def get_record_header_offset(self, name: str) -> int:
        return self.entry(name).header

    def get_record(self, name: str) -> bytes:
        """The bytes of a record, checked against their sum where the writer computed one."""
        entry = self.entry(name)
        data = self.source.read(entry.start, entry.packed)
        if entry.method == _DEFLATED:
            data = _inflate(data, entry)
        if len(data) != entry.size:
            raise _bad(f"the record {name!r} is cut short")
        if entry.crc and _crc32(data) != entry.crc:
            raise _bad(f"the checksum of {name!r} is wrong")
        return data

    def size_of(self, name: str) -> int:
        """How many bytes the directory says a record has."""
        return self._entries[name].size

    def read_into(self, entry: Entry, target: memoryview, at: int = 0) -> None:
        """Bytes of a record from `at` on, put where a storage keeps them. Their sum is not checked:
        PyTorch does not either."""
        if entry.method == _DEFLATED:
            target[:] = memoryview(_inflate(self.source.read(entry.start, entry.packed), entry))[
                at : at + target.nbytes
            ]
        elif self.source.read_into(entry.start + at, target) != target.nbytes:
            raise _bad(f"the record {entry.name!r} is cut short")

    def serialization_id(self) -> str:
        name = ".data/serialization_id"
        return self.get_record(name).decode("ascii", "replace") if self.has_record(name) else ""

    def version(self) -> int:
        text = self.get_record("version") if self.has_record("version") else b"0"
        return int(text) if text.strip().isdigit() else 0

    def close(self) -> None:
        """Let go of the source."""
        self.source = None  # type: ignore[assignment]

    def __enter__(self) -> PyTorchFileReader:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _inflate(data: bytes, entry: Entry) -> bytes:
    stream = zlib.decompressobj(-15)
    try:
        result = stream.decompress(data, entry.size) if entry.size else b""
    except zlib.error as error:
        raise _bad(f"the record {entry.name!r} cannot be decompressed ({error})") from None
    if len(result) != entry.size:
        raise _bad(f"the record {entry.name!r} is cut short")
    return result


def _directory(source: Source) -> list[Entry]:
    """The entries of the central directory, from the end of the file."""
    tail_size = min(source.size, _END.size + 0xFFFF)
    tail = source.read(source.size - tail_size, tail_size)
    found = tail.rfind(struct.pack("<I", _END_SIGN))
    if source.size < _END.size:
        raise _bad("not a ZIP archive")
    if found < 0 or found + _END.size > len(tail):
        raise _bad("failed finding central directory")
    _, disk, first_disk, _, count, size, at, _ = _END.unpack_from(tail, found)
    end = source.size - tail_size + found
    if disk not in (0, 0xFFFF) or first_disk not in (0, 0xFFFF):
        raise _bad("archives in several parts are not supported")
    if found >= _LOCATOR.size:
        sign, _, where, _ = _LOCATOR.unpack_from(tail, found - _LOCATOR.size)
        if sign == _LOCATOR_SIGN:
            count, size, at = _read_end64(source, where, end)
    if at + size > end or count * _CENTRAL.size > size:
        raise _bad("the central directory lies outside the file")
    return _parse_directory(source.read(at, size), count)


def _read_end64(source: Source, where: int, end: int) -> tuple[int, int, int]:
    data = source.read(where, _END64.size) if where + _END64.size <= end else b""
    if len(data) < _END64.size:
        raise _bad("failed finding central directory")
    sign, _, _, _, _, _, _, count, size, at = _END64.unpack(data)
    if sign != _END64_SIGN:
        raise _bad("failed finding central directory")
    return count, size, at


def _parse_directory(data: bytes, count: int) -> list[Entry]:
    entries, at = [], 0
    for _ in range(count):
        if at + _CENTRAL.size > len(data):
            raise _bad("the central directory is cut short")
        fields = _CENTRAL.unpack_from(data, at)
        sign, _, _, flags, method, _, _, crc, packed, size, name_size, extra_size, comment_size, _, _, _, header = (
            fields
        )
        at += _CENTRAL.size
        name, extra = data[at : at + name_size], data[at + name_size : at + name_size + extra_size]
        at += name_size + extra_size + comment_size
        if sign != _CENTRAL_SIGN or at > len(data):
            raise _bad("the central directory is damaged")
        if _FULL in (packed, size, header):
            size, packed, header = _wide_fields(extra, size, packed, header)
        if flags & _ENCRYPTED or method not in (_STORED, _DEFLATED):
            raise _bad(f"the record {name!r} is encrypted or compressed in a way that is not supported")
        if packed != size if method == _STORED else size > packed * _MOST_EXPANSION:
            raise _bad(f"the sizes of the record {name!r} cannot be right")
        try:
            text = name.decode()
        except UnicodeDecodeError:
            raise _bad(f"the record name {name!r} is no text") from None
        if not text.endswith("/"):
            entries.append(Entry(text, method, crc, packed, size, header))
    return entries


def _wide_fields(extra: bytes, size: int, packed: int, header: int) -> tuple[int, int, int]:
    """Numbers that did not fit into 32 bits, from the field that holds the wide ones."""
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<HH", extra, at)
        if kind == 1:
            length = min(length, len(extra) - at - 4)
            wide = iter(struct.unpack_from(f"<{length // 8}Q", extra, at + 4))
            size, packed, header = (next(wide, v) if v == _FULL else v for v in (size, packed, header))
            return size, packed, header
        at += 4 + length
    return size, packed, header


def _check_apart(entries: list[Entry], file_size: int) -> None:
    """Records must not overlap: one stretch of bytes counted many times is how small files become huge."""
    end = 0
    for entry in sorted(entries, key=lambda e: e.header):
        if entry.header < end:
            raise _bad(f"the record {entry.name!r} overlaps another")
        end = entry.header + _LOCAL.size + entry.packed
    if end > file_size:
        raise _bad("a record lies outside the file")
    total = sum(entry.size for entry in entries)
    if total > _SMALL and total > file_size * _SUSPICIOUS_EXPANSION:
        raise _bad(f"a file of {file_size} bytes claims to hold {total}")


def archive_name_of(path: str) -> str:
    """What PyTorch calls the archive of a path: its last part without the last suffix, where that is ASCII."""
    return os.path.splitext(os.path.basename(path))[0] if path.isascii() else "archive"
