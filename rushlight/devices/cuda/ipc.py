"""Device memory and events that several processes share, by the driver's handles.

Enters: a storage on a CUDA device, or an event. Leaves: numbers and bytes that another process makes the same memory
of, without copies. The sender keeps the memory until its receiver has let go of it, which is told by a byte in a file
both have open: `collect` looks at these bytes, when more is sent and when `cuda.ipc_collect` is called. What was queued
on the memory before it was sent is waited for by the receiver's stream. Refuses: memory that the driver cannot name to
another process (that of expandable segments, or of `cudaMallocAsync`).
"""

from __future__ import annotations

import ctypes
import mmap
import os
import tempfile
import weakref
from typing import Any

from ... import _C
from ...base import late
from .driver import Driver

HANDLE_BYTES = 64
SLOTS = 1 << 16                  # storages that may be under way from one process
FOR_PROCESSES = 2 | 4            # of an event: it takes no times, other processes may wait for it
LAZY_PEERS = 1
FOLDER = "/dev/shm"


class Handle(ctypes.Structure):
    """What the driver names memory or an event by, in another process."""

    _fields_ = (("text", ctypes.c_ubyte * HANDLE_BYTES),)

    def __init__(self, text: bytes = bytes(HANDLE_BYTES)) -> None:
        super().__init__((ctypes.c_ubyte * HANDLE_BYTES)(*text))


def driver() -> Driver:
    """The driver, where there is a device."""
    return late.provided("cuda device")().driver


class Ledger:
    """The bytes of what this process has sent: 1 until its receiver has let go."""

    def __init__(self) -> None:
        file, self.path = tempfile.mkstemp(prefix="rushlight-ipc-", dir=FOLDER if os.path.isdir(FOLDER) else None)
        os.ftruncate(file, SLOTS)
        self.bytes = mmap.mmap(file, SLOTS)
        os.close(file)
        self.owner = os.getpid()
        self.held: dict[int, tuple[Any, ctypes.c_void_p]] = {}
        weakref.finalize(self, forget_file, self.path, self.owner)

    def take(self, storage: _C.UntypedStorage, event: ctypes.c_void_p) -> int:
        """The number of a byte that is free."""
        self.collect()
        slot = next((k for k in range(len(self.held) + 1) if k not in self.held), SLOTS)
        if slot >= SLOTS:
            raise RuntimeError(
                f"{SLOTS} CUDA tensors were sent to other processes that still have them. Send fewer, or drop those"
                " that are not needed where they were received."
            )
        self.held[slot] = storage, event
        self.bytes[slot] = 1
        return slot

    def collect(self) -> None:
        """Let go of what receivers have let go of."""
        for slot in [k for k in self.held if not self.bytes[k]]:
            _, event = self.held.pop(slot)
            driver().call("cuEventDestroy_v2", event)


def forget_file(path: str, owner: int) -> None:
    if os.getpid() == owner and os.path.exists(path):
        os.unlink(path)


_ledger: list[Ledger] = []
_opened: dict[str, mmap.mmap] = {}                         # ledgers of other processes
_memory: dict[tuple[int, bytes], list[int]] = {}           # what is mapped from others: address, and how often in use


def ledger() -> Ledger:
    """This process's."""
    if not _ledger or _ledger[0].owner != os.getpid():
        _ledger[:] = [Ledger()]
    return _ledger[0]


def collect() -> None:
    """Let go of memory that other processes have let go of."""
    if _ledger and _ledger[0].owner == os.getpid():
        _ledger[0].collect()


def range_of(address: int) -> int:
    """Where the allocation begins that an address is in."""
    base, size = ctypes.c_uint64(), ctypes.c_size_t()
    driver().call("cuMemGetAddressRange_v2", ctypes.byref(base), ctypes.byref(size), ctypes.c_uint64(address))
    return base.value


def share(storage: _C.UntypedStorage) -> tuple[Any, ...]:
    """What `receive` makes the same memory of, in another process."""
    unit, handle, event, waited = storage.device, Handle(), ctypes.c_void_p(), Handle()
    _C.cuda_enter(unit.index)
    base = range_of(storage.data_ptr())
    try:
        driver().call("cuIpcGetMemHandle", ctypes.byref(handle), ctypes.c_uint64(base))
    except _C.AcceleratorError as error:
        raise RuntimeError(
            "this CUDA tensor's memory cannot be sent to another process: memory of expandable segments, of"
            " backend:cudaMallocAsync, and of some allocators has no name there. Do without these settings of"
            f" PYTORCH_ALLOC_CONF, or send tensor.cpu(). (The driver says: {error})"
        ) from error
    driver().call("cuEventCreate", ctypes.byref(event), FOR_PROCESSES)
    driver().call("cuEventRecord", event, ctypes.c_void_p(_C.stream_handle(unit)))
    driver().call("cuIpcGetEventHandle", ctypes.byref(waited), event)
    book = ledger()
    slot = book.take(storage, event)
    return (unit.index, book.owner, book.path, slot, bytes(handle.text), storage.data_ptr() - base, storage.nbytes(),
            bytes(waited.text))


def receive(
    unit: int, sender: int, path: str, slot: int, handle: bytes, offset: int, nbytes: int, waited: bytes
) -> Any:
    """The storage that was sent."""
    if sender == os.getpid():        # it came back: the driver opens no memory of its own process
        storage, _ = ledger().held[slot]
        ledger().bytes[slot] = 0
        return storage
    if late.provided("cuda device")() is None:
        raise RuntimeError("a CUDA tensor was received from another process, but there is no CUDA device here")
    book = opened_ledger(path)
    address = open_memory(unit, handle)
    event = ctypes.c_void_p()
    driver().call("cuIpcOpenEventHandle", ctypes.byref(event), Handle(waited))
    device = _C.device("cuda", unit)
    driver().call("cuStreamWaitEvent", ctypes.c_void_p(_C.stream_handle(device)), event, 0)
    driver().call("cuEventDestroy_v2", event)
    owner = Borrowed()
    weakref.finalize(owner, give_back, unit, handle, book, slot)
    return _C.wrap_memory(address + offset, (nbytes,), None, _C.uint8, device, owner).untyped_storage()


class Borrowed:
    """What a storage over another process's memory keeps alive."""


def opened_ledger(path: str) -> mmap.mmap:
    """The bytes of another process."""
    if path not in _opened:
        try:
            file = os.open(path, os.O_RDWR)
        except FileNotFoundError as error:
            raise RuntimeError(
                "a CUDA tensor was received from a process that has ended: its memory went with it. The sender must"
                " stay until what it sent was received."
            ) from error
        _opened[path] = mmap.mmap(file, SLOTS)
        os.close(file)
    return _opened[path]


def open_memory(unit: int, handle: bytes) -> int:
    """Where an allocation of another process is in this one."""
    known = _memory.get((unit, handle))
    if known is None:
        _C.cuda_enter(unit)
        address = ctypes.c_uint64()
        driver().call("cuIpcOpenMemHandle_v2", ctypes.byref(address), Handle(handle), LAZY_PEERS)
        known = _memory[unit, handle] = [address.value, 0]
    known[1] += 1
    return known[0]


def give_back(unit: int, handle: bytes, book: mmap.mmap, slot: int) -> None:
    """Nobody here uses it any more, nor does anything that is queued."""
    _C.synchronize(_C.device("cuda", unit))
    known = _memory[unit, handle]
    known[1] -= 1
    if not known[1]:
        del _memory[unit, handle]
        driver().call("cuIpcCloseMemHandle", ctypes.c_uint64(known[0]))
    book[slot] = 0


# --- events -----------------------------------------------------------------------------------------------------------


class SharedEvent:
    """A mark that other processes may wait for: one event of the driver's, recorded again and again."""

    def __init__(self, unit: int, handle: bytes | None = None) -> None:
        self.unit, self.event = unit, ctypes.c_void_p()
        _C.cuda_enter(unit)
        if handle is None:
            driver().call("cuEventCreate", ctypes.byref(self.event), FOR_PROCESSES)
        else:
            driver().call("cuIpcOpenEventHandle", ctypes.byref(self.event), Handle(handle))

    def handle(self) -> bytes:
        """What names it in another process."""
        found = Handle()
        driver().call("cuIpcGetEventHandle", ctypes.byref(found), self.event)
        return bytes(found.text)

    def record(self, stream: int) -> None:
        """Mark the end of what is queued on a stream, by the driver's handle."""
        driver().call("cuEventRecord", self.event, ctypes.c_void_p(stream))

    def wait(self, stream: int) -> None:
        """The stream goes on when the mark is reached."""
        driver().call("cuStreamWaitEvent", ctypes.c_void_p(stream), self.event, 0)

    def query(self) -> bool:
        """Whether the mark is reached."""
        return driver().library.cuEventQuery(self.event) == 0

    def synchronize(self) -> None:
        """Return when it is."""
        driver().call("cuEventSynchronize", self.event)

    def __del__(self) -> None:
        if self.event and _C is not None:
            driver().library.cuEventDestroy_v2(self.event)


__all__ = ["SharedEvent", "collect", "receive", "share"]
