"""RISC-V as a device: `import rushlight_riscv`, then `x.to("riscv")`.

Kernels are those of `codegen`, compiled for riscv64 with the V extension and linked here (link.py); a server of ours
(server.py) runs them under `qemu-riscv64`, one after another, in memory that host and server both map. The addresses of
tensors are the server's. The host writes commands into a pipe and goes on: it waits where it looks at memory. When the
server dies, what it was doing is said, and the next kernel starts another one; tensors stay where they are.

RUSHLIGHT_RISCV_VLEN says how wide its vector registers are (256 bits unless set), RUSHLIGHT_RISCV_MEMORY how many MiB of
memory there are (2048).
"""

from __future__ import annotations

import atexit
import bisect
import ctypes
import mmap
import os
import resource
import shutil
import signal
import struct
import subprocess
import threading
import time
from collections.abc import Sequence
from typing import Any, NoReturn

import rushlight
from rushlight import codegen
from rushlight.base import disk_cache
from rushlight.base.digest import digest
from rushlight.codegen.stored.cache import pack, source_identity, unpack
from rushlight.codegen.text.targets import find_target
from rushlight.devices import Device, register

from .link import Object
from .server import program

QEMU = "qemu-riscv64"
WIDTHS = (128, 256, 512, 1024)
TARGET = find_target("riscv64")
BASE = 1 << 36          # where the server has the memory; in it lie, from these places on:
RECORD, MARKS, CODE, TENSORS = 1 << 12, 1 << 19, 1 << 20, 65 << 20
ALIGN, SLOTS = 64, 1 << 12
COMMAND = struct.Struct("<QQQqq")


class Kernel:
    """Machine code in the memory of the server."""

    def __init__(self, name: str, address: int) -> None:
        self.name, self.address = name, address


class Mark:
    """An event: where the server writes the time when it comes by, and that time, in nanoseconds."""

    def __init__(self, place: int) -> None:
        self.place, self.time = place, 0.0


class Riscv(Device):
    """One processor with one queue."""

    name = "riscv"
    streams = True

    def __init__(self) -> None:
        self.vlen = int(os.environ.get("RUSHLIGHT_RISCV_VLEN", "256"))
        self.size = int(os.environ.get("RUSHLIGHT_RISCV_MEMORY", "2048")) << 20
        self.server: Any = None             # started with the first kernel
        self.memory: Any = None             # made with the first tensor
        self.is_busy = False                # whether the server may have something to do
        self.kernels: dict[int, str] = {}   # names by address
        self.functions: dict[str, int] = {}     # of the server
        self.marks: dict[int, Mark] = {}
        self.num_streams = self.num_marks = 0
        self.last: Any = None               # the nest that was loaded last
        self.lock = threading.RLock()

    def is_available(self) -> bool:
        """Whether there is an emulator to run it."""
        return shutil.which(QEMU) is not None and hasattr(os, "memfd_create")

    def device_count(self) -> int:
        return int(self.is_available())

    # Memory: a file without a name that the server maps too. The core asks rarely, for large pieces.
    # ------------------------------------------------------

    def open(self) -> None:
        if not self.is_available():
            raise OSError(f"riscv: {QEMU} is not on PATH; install it (Debian: apt-get install qemu-user)")
        self.file = os.memfd_create("riscv")
        os.ftruncate(self.file, self.size)
        self.memory = mmap.mmap(self.file, self.size)
        self.shift = ctypes.addressof(ctypes.c_char.from_buffer(self.memory)) - BASE    # from its addresses to ours
        self.free_at, self.free_sizes, self.code = [TENSORS], {TENSORS: self.size - TENSORS}, CODE
        self.pid = os.getpid()
        atexit.register(self.stop)

    def allocate(self, nbytes: int, index: int) -> int:
        if self.memory is None:
            self.open()
        size = max(nbytes + ALIGN - 1, ALIGN) // ALIGN * ALIGN
        at = next((a for a in self.free_at if self.free_sizes[a] >= size), None)
        if at is None:
            raise MemoryError(f"riscv: {nbytes} bytes asked for, {sum(self.free_sizes.values())} of {self.size} free")
        self.free_at.remove(at)
        rest = self.free_sizes.pop(at) - size
        if rest:
            self.give(at + size, rest)
        return BASE + at

    def give(self, at: int, size: int) -> None:
        """A piece is free; it joins those beside it."""
        place = bisect.bisect(self.free_at, at)
        if place < len(self.free_at) and self.free_at[place] == at + size:
            size += self.free_sizes.pop(self.free_at.pop(place))
        before = self.free_at[place - 1] if place else -1
        if place and before + self.free_sizes[before] == at:
            self.free_sizes[before] += size
        else:
            self.free_at.insert(place, at)
            self.free_sizes[at] = size

    def free(self, address: int, nbytes: int, index: int) -> None:
        size = max(nbytes + ALIGN - 1, ALIGN) // ALIGN * ALIGN
        first, last = -(-(address - BASE) // mmap.PAGESIZE), (address - BASE + size) // mmap.PAGESIZE
        if last > first:        # whole pages go back to the system
            self.memory.madvise(mmap.MADV_REMOVE, first * mmap.PAGESIZE, (last - first) * mmap.PAGESIZE)
        self.give(address - BASE, size)

    def memory_info(self, index: int) -> tuple[int, int]:
        return sum(self.free_sizes.values()) if self.memory else self.size - TENSORS, self.size - TENSORS

    def copy_from_host(self, target: int, source: int, nbytes: int, index: int, stream: int) -> None:
        self.drain()
        ctypes.memmove(target + self.shift, source, nbytes)

    def copy_to_host(self, target: int, source: int, nbytes: int, index: int, stream: int) -> None:
        self.drain()
        ctypes.memmove(target, source + self.shift, nbytes)

    def copy_within(self, target: int, source: int, nbytes: int, index: int, stream: int) -> None:
        self.drain()
        ctypes.memmove(target + self.shift, source + self.shift, nbytes)

    # Kernels
    # ------------------------------------------------------

    def load(self, nest: Any) -> Kernel:
        with self.lock:
            if self.memory is None:
                self.open()
            key = digest(nest.digest() + repr(TARGET).encode() + source_identity())
            kept = disk_cache.read(key.hex())
            code = None if kept is None else unpack(key, kept)
            if code is None:
                code = codegen.emit_object(nest, TARGET)
                disk_cache.write(key.hex(), pack(key, code))
            ready = Object(code, BASE + self.code)
            self.memory[self.code : self.code + len(ready.image)] = bytes(ready.image)
            self.code += (len(ready.image) + ALIGN - 1) // ALIGN * ALIGN
            if self.code > TENSORS:
                raise RuntimeError(f"riscv: no room for the code of {nest.name} and of {len(self.kernels)} others")
            self.last = nest
            kernel = Kernel(nest.name, ready.functions[nest.name])
            self.kernels[kernel.address] = nest.name
            return kernel

    def disassembly(self) -> str:
        """The kernel that was loaded last, as assembly text."""
        if self.last is None:
            raise RuntimeError("riscv: no kernel was loaded yet")
        return codegen.emit_asm(self.last, TARGET)

    def launch(
        self, handle: Kernel, pointers: Sequence[int | bytes], params: Sequence[int], begin: int, end: int, index: int,
        stream: int,
    ) -> None:
        at = BASE + RECORD + COMMAND.size
        behind = at + 8 * (len(pointers) + len(params))     # where constants go
        behind += -behind % 16
        constants, places = b"", []
        for pointer in pointers:
            if isinstance(pointer, bytes):
                places.append(behind + len(constants))
                constants += pointer + bytes(max(16 - len(pointer), -len(pointer) % 16))
            else:
                places.append(pointer)
        numbers = struct.pack(f"<{len(places)}Q{len(params)}q", *places, *params)
        tail = constants and bytes(behind - at - len(numbers)) + constants
        self.post(handle.address, at, at + 8 * len(places), begin, end, numbers + tail)

    def post(self, function: int | str, ptrs: int, params: int, begin: int, end: int, data: bytes = b"") -> None:
        """Write a command, a kernel's address or the name of a function of the server's; it is started if there is
        none."""
        with self.lock:
            if self.pid != os.getpid():
                raise RuntimeError("riscv: this process was forked from one that uses the device; spawn it instead")
            if self.server is None:
                self.start()
            address = self.functions[function] if isinstance(function, str) else function
            record = COMMAND.pack(address, ptrs, params, begin, end) + data
            if len(record) > MARKS - RECORD:
                raise RuntimeError(f"riscv: {self.kernels[address]} has arguments of {len(record)} bytes, too many")
            self.is_busy = True
            try:
                self.server.stdin.write(struct.pack("<Q", len(record)) + record)
            except BrokenPipeError:
                self.died()

    def drain(self) -> None:
        """Wait until the server has nothing left to do."""
        with self.lock:
            if self.is_busy:
                self.post("reply", 0, 0, 0, 0)
                if not self.server.stdout.read(1):
                    self.died()
                self.is_busy = False

    def synchronize(self, index: int | None = None, stream: int = 0) -> None:
        self.drain()

    # Streams are one queue: whatever is asked for later runs later, so there is nothing to wait for.
    # ------------------------------------------------------

    def new_stream(self, index: int, priority: int) -> int:
        self.num_streams += 1
        return self.num_streams

    def record(self, index: int, stream: int) -> Mark:
        slot = len(self.marks) if len(self.marks) < SLOTS else self.num_marks % SLOTS
        if slot < len(self.marks):
            self.finish(self.marks.pop(slot))
        mark = Mark(MARKS + 16 * slot)
        self.memory[mark.place : mark.place + 16] = bytes(16)
        self.marks[slot] = mark
        self.num_marks += 1
        self.post("mark", 0, 0, BASE + mark.place, 0)
        return mark

    def wait(self, event: Mark, index: int, stream: int) -> None:
        pass

    def query(self, event: Mark) -> bool:
        if not event.time:
            seconds, rest = struct.unpack_from("<QQ", self.memory, event.place)
            event.time = seconds * 1e9 + rest
        return event.time > 0

    def finish(self, event: Mark) -> None:
        if not self.query(event):
            self.drain()
            self.query(event)

    def elapsed(self, start: Mark, end: Mark) -> float:
        self.finish(start)
        self.finish(end)
        return (end.time - start.time) / 1e6

    # The server
    # ------------------------------------------------------

    def start(self) -> None:
        if self.vlen not in WIDTHS:
            raise ValueError(f"riscv: vlen must be one of {WIDTHS}, got {self.vlen}")
        code, functions = program(TARGET, self.file, BASE, self.size, BASE, BASE + RECORD)
        self.functions.update(functions)
        self.memory[:8] = bytes(8)
        file, pipe = os.memfd_create("riscv-server"), subprocess.PIPE
        os.write(file, code)
        cpu = f"rv64,v=true,vlen={self.vlen},elen=64,vext_spec=v1.0"
        self.server = subprocess.Popen(
            [QEMU, "-cpu", cpu, f"/proc/self/fd/{file}"], stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0,
            pass_fds=(self.file, file), start_new_session=True,      # what interrupts us shall not end it
        )
        os.close(file)
        resource.prlimit(self.server.pid, resource.RLIMIT_CORE, (0, 0))

    def died(self) -> NoReturn:
        """Say what the server was doing when it ended."""
        running = struct.unpack_from("<Q", self.memory)[0]
        server, self.server, self.is_busy = self.server, None, False
        said, code = server.communicate()[1].decode(errors="replace").strip(), server.returncode
        for mark in self.marks.values():     # nobody reaches those any more
            if not self.query(mark):
                mark.time = time.monotonic_ns()
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with status {code}"
        raise RuntimeError(
            f"riscv: the server ended {how} while it ran {self.kernels.get(running, 'no kernel')}"
            f"{f' ({said})' if said else ''}. What was queued behind did not run; tensors stay, and the next kernel"
            " starts another server."
        )

    def stop(self) -> None:
        """End the server; the next kernel starts it again, as wide as `vlen` then says."""
        with self.lock:
            if self.server is not None and self.pid == os.getpid():
                self.drain()
                self.server.communicate()
                self.server = None


riscv = Riscv()
register(riscv)
rushlight.riscv = riscv
