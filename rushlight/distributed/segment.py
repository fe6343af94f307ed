"""Memory that the ranks of one machine share, and the one step that every collective between them is made of.

Enters: a store to meet at, this rank, how many there are. Leaves: `step`, in which each rank may publish bytes and
reads those of others. Refuses: to wait for a rank that died, left or failed, or that is at another call; the error
names it.

Every rank owns a counter, two slots for bytes (used in turn) and a line of text. A rank whose counter is at e has
finished reading everything before step e, and what it publishes in step e is in its slot e % 2. So it may write that
slot once all counters are at e - 1 or beyond: then nobody reads what step e - 2 left there. A collective that reads
from all ranks needs one wait per step; nothing is ever locked.

Which ranks live is the kernel's to say: each holds a lock on its own byte of the file, which ends with the process.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import struct
import tempfile
import time
import uuid
import zlib
from collections.abc import Callable
from typing import Any

from .. import _C
from ..base import environment
from ..tensors.interop import frombuffer
from .errors import DistBackendError
from .store import Store

LINE = 64                # a counter, alone in its cache line
TEXT = 512               # what a rank is doing, or why it failed, for other ranks' errors
SLOT = 1 << 19           # bytes that a rank publishes at once: two of them fit the caches of most cores
SLICE = 0.2              # seconds between looks at whether the others live
_ALIVE, _LEFT, _FAILED = range(3)
_STATE = struct.Struct("<II")     # state, length of the text


def _folder() -> str:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else tempfile.gettempdir()


class Segment:
    """The shared file of one group on one machine, as one rank sees it."""

    def __init__(self, file: int, rank: int, size: int, name: str, global_ranks: list[int]) -> None:
        self.file, self.rank, self.size, self.name, self.global_ranks = file, rank, size, name, global_ranks
        self.memory = mmap.mmap(file, total_bytes(size))
        self.bytes = frombuffer(self.memory, dtype=_C.uint8)
        self.address = self.bytes.data_ptr()
        self.epoch = 0
        self.texts_at = _round(LINE * size)
        self.slots_at = _round(self.texts_at + TEXT * size)
        self.mine = self.address + LINE * rank
        self._slots = [[self._slot(r, turn) for r in range(size)] for turn in range(2)]
        self.broken: str | None = None
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, rank)

    def _slot(self, rank: int, turn: int) -> Any:
        start = self.slots_at + SLOT * (2 * rank + turn)
        return self.bytes[start : start + SLOT]

    def step(
        self,
        mark: int,
        timeout: float,
        publish: Callable[[Any], None] | None = None,
        source: int | None = None,
    ) -> list[Any]:
        """Publish this rank's part, and wait for all ranks' or for one rank's; the slots of this step, by rank.

        `mark` is a number that all ranks must agree on: it stands for the call, its types and sizes."""
        if self.broken is not None:
            raise DistBackendError(self.broken)
        self.epoch += 1
        epoch = self.epoch
        slots = self._slots[epoch & 1]
        if publish is not None:
            late = _C.wait_counters(self.address, LINE, self.size, epoch - 1, 0, SLICE)
            if late != -1:
                self._wait_on(epoch - 1, 0, timeout, late, 0, self.size)
            publish(slots[self.rank])
        _C.signal_counter(self.mine, epoch, mark)
        first, count = (0, self.size) if source is None else (source, 1)
        late = _C.wait_counters(self.address + LINE * first, LINE, count, epoch, mark, SLICE)
        if late != -1:
            self._wait_on(epoch, mark, timeout, late, first, count)
        return slots

    def _wait_on(self, epoch: int, mark: int, timeout: float, late: int, first: int, count: int) -> None:
        """The slow part of a wait: between slices of it, look whether the rank that is missing still lives."""
        deadline = time.monotonic() + timeout - SLICE
        while late != -1:
            if late <= -2:
                raise self._at_another_call(first - 2 - late, epoch)
            rank = first + late
            left = deadline - time.monotonic()
            gone = self._why_gone(rank)
            if gone is None and left <= 0:
                gone = f"did not come within {timeout:g} s (the timeout of the group); it still lives"
            if gone is not None:
                # It may have signalled and left between the two looks.
                late = _C.wait_counters(self.address + LINE * first, LINE, count, epoch, mark, 0.0)
                if late >= 0:
                    raise self.fail(f"rank {self.global_ranks[rank]} {gone}")
                continue
            late = _C.wait_counters(self.address + LINE * first, LINE, count, epoch, mark, min(SLICE, max(left, 0.0)))

    def fail(self, reason: str) -> DistBackendError:
        """This group cannot be used any more; other ranks that wait for this one are told why."""
        doing = f" during {self._doing}" if self._doing else ""
        self.broken = f"{self.name}: {reason}{doing}. The group cannot be used any more: destroy it and make it anew"
        self._write_state(_FAILED, f"gave up, since {reason}")
        return DistBackendError(self.broken)

    _doing = ""

    def describe(self, doing: str) -> None:
        """Remember what the next steps are for, in the words of errors."""
        self._doing = doing

    def _at_another_call(self, rank: int, epoch: int) -> DistBackendError:
        """All ranks but those that agree find out at once; each writes down what it does before it raises."""
        self._write_state(_FAILED, f"is at {self._doing}", epoch)
        deadline = time.monotonic() + 2.0
        theirs = ""
        while not theirs and time.monotonic() < deadline:
            state, text = self._read_state(rank)
            theirs = text if state == _FAILED else ""
            time.sleep(0.001)
        other = self.global_ranks[rank]
        self.broken = (
            f"{self.name}: ranks are at different calls: rank {self.global_ranks[self.rank]} is at {self._doing}, rank "
            f"{other} {theirs or 'is at another call'}. All ranks of a group must make the same calls, with the same "
            f"shapes and dtypes, in the same order"
        )
        return DistBackendError(self.broken)

    def _text_at(self, rank: int) -> int:
        return self.texts_at + TEXT * rank

    def _write_state(self, state: int, text: str, epoch: int = 0) -> None:
        at, data = self._text_at(self.rank), text.encode()[: TEXT - _STATE.size]
        self.memory[at + _STATE.size : at + _STATE.size + len(data)] = data
        _STATE.pack_into(self.memory, at, state, len(data))

    def _read_state(self, rank: int) -> tuple[int, str]:
        at = self._text_at(rank)
        state, length = _STATE.unpack_from(self.memory, at)
        start = at + _STATE.size
        return state, bytes(self.memory[start : start + length]).decode(errors="replace")

    def _why_gone(self, rank: int) -> str | None:
        state, text = self._read_state(rank)
        if state == _FAILED:
            return text
        if state == _LEFT:
            return "left the group (it called destroy_process_group, or ended)"
        return None if self._holds_lock(rank) else "died"

    def _holds_lock(self, rank: int) -> bool:
        if rank == self.rank:
            return True
        asked = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, rank, 1, 0)
        kind = struct.unpack("hhqqi4x", fcntl.fcntl(self.file, fcntl.F_GETLK, asked))[0]
        return kind != fcntl.F_UNLCK

    def close(self) -> None:
        """Leave the group: ranks that still wait for this one are told."""
        if self.file < 0:
            return
        if self._read_state(self.rank)[0] == _ALIVE:
            self._write_state(_LEFT, "")
        os.close(self.file)
        self.file = -1
        self.broken = self.broken or f"{self.name}: it was destroyed"


def _round(size: int) -> int:
    return -(-size // 4096) * 4096


def total_bytes(size: int) -> int:
    """How long the file of a group of so many ranks is."""
    return _round(_round(LINE * size) + TEXT * size) + 2 * SLOT * size


def mark_of(*parts: Any) -> int:
    """A number for a call: equal calls have equal ones. Never 0, which stands for any."""
    return zlib.crc32(repr(parts).encode()) | 1 << 32


def meet(store: Store, rank: int, size: int, name: str, global_ranks: list[int]) -> Segment | None:
    """The segment of a group, where all of its ranks can open the first one's file; otherwise None, on every rank."""
    if rank == 0:
        path = _create(size)
        store.set("segment", path)
    else:
        path = store.get("segment").decode()
    file = _open(path)
    store.set(f"sees/{rank}", "1" if file is not None else "0")
    all_see = all(store.get(f"sees/{r}") == b"1" for r in range(size))
    segment = Segment(file, rank, size, name, global_ranks) if all_see and file is not None else None
    # The name is removed once everybody has the file open: whatever happens later, nothing stays behind.
    if store.add("opened", 1) == size and path:
        with contextlib.suppress(OSError):
            os.unlink(path)
    if segment is None and file is not None:
        os.close(file)
    if segment is not None:
        store.set(f"ready/{rank}", "1")      # locks are held: from here on silence means death
        for r in range(size):
            store.get(f"ready/{r}")
    return segment


def _create(size: int) -> str:
    """A new file of the right length with all its blocks reserved, or "" where there is no room for it."""
    if environment.get("RUSHLIGHT_DISTRIBUTED_TRANSPORT") == "tcp":
        return ""
    path = os.path.join(_folder(), f"rushlight-{uuid.uuid4().hex}")
    try:
        file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    except OSError:
        return ""
    try:
        os.posix_fallocate(file, 0, total_bytes(size))
    except OSError:      # a full /dev/shm is no reason to fail: sockets need no room
        os.unlink(path)
        return ""
    finally:
        os.close(file)
    return path


def _open(path: str) -> int | None:
    if not path or environment.get("RUSHLIGHT_DISTRIBUTED_TRANSPORT") == "tcp":
        return None
    try:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
