"""Event files: records framed by their length and checksums, as TensorFlow's readers expect them.

Enters: encoded events. Leaves: `<length> <checksum of length> <event> <checksum of event>` for each, in a file whose
name TensorBoard recognizes. Events wait in memory until a few have come or some time has passed;
`flush` writes them at once.
"""

from __future__ import annotations

import atexit
import itertools
import os
import socket
import struct
import threading
import time
import weakref
from typing import Any

from .wire import Message

_POLYNOMIAL = 0x82F63B78   # Castagnoli's, bits reversed
_LANE = 512                # bytes a lane of the parallel checksum holds
_counter = itertools.count()
_open_files: weakref.WeakSet = weakref.WeakSet()


def _make_table() -> list[int]:
    table = []
    for i in range(256):
        for _ in range(8):
            i = i >> 1 ^ (_POLYNOMIAL if i & 1 else 0)
        table.append(i)
    return table


_TABLE = _make_table()


def _shifted(crc: int) -> int:
    """A checksum's register after `_LANE` more zero bytes."""
    for _ in range(_LANE):
        crc = _TABLE[crc & 0xFF] ^ crc >> 8
    return crc


_shift_tables: list[list[int]] = []


def _lanes(data: bytes, crc: int) -> int:
    """The register after many whole lanes: their checksums are made side by side, then joined from left to right."""
    import numpy as np  # noqa: PLC0415 - only for large events

    if not _shift_tables:
        for byte in range(4):
            bits = [_shifted(1 << (8 * byte + bit)) for bit in range(8)]
            row = [0] * 256
            for value in range(256):
                for bit in range(8):
                    row[value] ^= bits[bit] if value >> bit & 1 else 0
            _shift_tables.append(row)
    table, columns = np.array(_TABLE, np.uint32), np.frombuffer(data, np.uint8).reshape(-1, _LANE).T
    registers = np.zeros(columns.shape[1], np.uint32)
    for column in columns:
        registers = table[(registers ^ column) & 0xFF] ^ registers >> 8
    a, b, c, d = _shift_tables
    for lane in registers.tolist():
        crc = a[crc & 0xFF] ^ b[crc >> 8 & 0xFF] ^ c[crc >> 16 & 0xFF] ^ d[crc >> 24] ^ lane
    return crc


def crc32c(data: bytes) -> int:
    """The CRC-32C checksum."""
    crc, whole = 0xFFFFFFFF, 0
    if len(data) >= 32 * _LANE:
        whole = len(data) // _LANE * _LANE
        crc = _lanes(data[:whole], crc)
    for byte in data[whole:]:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def masked_crc(data: bytes) -> bytes:
    """The checksum as records store it: rotated and offset, so that checksums of data with checksums stay good."""
    crc = crc32c(data)
    return struct.pack("<I", (crc >> 15 | crc << 17) + 0xA282EAD8 & 0xFFFFFFFF)


class RecordWriter:
    """Records in one file."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._file: Any = open(path, "ab")   # noqa: SIM115 - closed by close()

    def write(self, data: bytes) -> None:
        """One record."""
        length = struct.pack("<Q", len(data))
        self._file.write(length + masked_crc(length) + data + masked_crc(data))

    def flush(self) -> None:
        """Hand everything to the system."""
        self._file.flush()

    def close(self) -> None:
        """Write what waits and close the file."""
        self._file.close()

    @property
    def closed(self) -> bool:
        return self._file.closed


class EventFileWriter:
    """Events in a new file of a folder. Safe to use from several threads."""

    def __init__(
        self, logdir: str, max_queue_size: int = 10, flush_secs: float = 120, filename_suffix: str = ""
    ) -> None:
        self._logdir, self._suffix = logdir, filename_suffix
        self._most, self._flush_secs = max_queue_size, flush_secs
        self._lock = threading.Lock()
        self._waiting: list[bytes] = []
        self._open()

    def _open(self) -> None:
        os.makedirs(self._logdir, exist_ok=True)
        writer = f"{socket.gethostname()}.{os.getpid()}.{next(_counter)}"
        name = f"events.out.tfevents.{int(time.time()):010d}.{writer}{self._suffix}"
        self._records = RecordWriter(os.path.join(self._logdir, name))
        self._flushed_at = time.monotonic()
        _open_files.add(self)
        self.add_event(Message("Event", wall_time=time.time(), file_version="brain.Event:2"))
        self.flush()

    def get_logdir(self) -> str:
        """The folder."""
        return self._logdir

    def add_event(self, event: Message) -> None:
        """Append an event."""
        data = event.SerializeToString()
        with self._lock:
            if self._records.closed:
                raise ValueError("the event file is closed; reopen() starts a new one")
            self._waiting.append(data)
            is_due = len(self._waiting) > self._most or time.monotonic() - self._flushed_at > self._flush_secs
        if is_due:
            self.flush()

    def flush(self) -> None:
        """Write what waits."""
        with self._lock:
            if self._records.closed:
                return
            for data in self._waiting:
                self._records.write(data)
            self._waiting.clear()
            self._records.flush()
            self._flushed_at = time.monotonic()

    def close(self) -> None:
        """Write what waits and close the file."""
        self.flush()
        self._records.close()
        _open_files.discard(self)

    def reopen(self) -> None:
        """Start a new file if this one is closed."""
        if self._records.closed:
            self._open()


@atexit.register
def _flush_all() -> None:
    for writer in list(_open_files):
        writer.flush()
