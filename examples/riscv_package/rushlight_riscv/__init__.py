"""RISC-V as a device: `import rushlight_riscv`, then `x.to("riscv")`.

Kernels are those of `codegen` for riscv64 with vectors, linked here (link.py). A server (server.ll) runs them under
`qemu-riscv64`, in order, in memory that the host maps too; the addresses of tensors are the server's. The host writes
commands into a pipe and goes on; it waits where it looks at memory. If the server dies, the error says what it ran, and
the next kernel starts another one: tensors stay where they are.

RUSHLIGHT_RISCV_VLEN: bits of a vector register (256); RUSHLIGHT_RISCV_MEMORY: MiB of memory (2048).
"""

from __future__ import annotations

import atexit
import ctypes
import mmap
import os
import resource
import shutil
import signal
import string
import struct
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import rushlight
from rushlight import codegen
from rushlight.base import disk_cache
from rushlight.base.digest import digest
from rushlight.codegen.llvm.cpu import compile_ir
from rushlight.codegen.stored.cache import pack, source_identity, unpack
from rushlight.codegen.text.targets import find_target
from rushlight.devices import Device, register

from .link import Object, executable

TARGET = find_target("riscv64").but(truncates=False)
QEMU, WIDTHS = "qemu-riscv64", (128, 256, 512, 1024)
BASE = 1 << 36      # where the server has the memory; in it lie, from these places on, behind what runs now:
RECORD, MARKS, CODE, TENSORS = 1 << 12, 1 << 19, 1 << 20, 65 << 20
SLOTS = 1 << 12     # of marks
COMMAND = struct.Struct("<QQQqq8x")
PAGE = mmap.PAGESIZE


class Kernel:
    """Machine code in the memory."""

    def __init__(self, name: str, address: int) -> None:
        self.name, self.address = name, address


class Mark:
    """An event: where the server writes the time when it gets there, and that time in nanoseconds."""

    def __init__(self, place: int) -> None:
        self.place, self.time = place, 0


class Riscv(Device):
    """One processor with one queue."""

    name = "riscv"
    streams = True

    def __init__(self) -> None:
        self.vlen = int(os.environ.get("RUSHLIGHT_RISCV_VLEN", "256"))      # a change counts from the next start on
        self.size = int(os.environ.get("RUSHLIGHT_RISCV_MEMORY", "2048")) << 20
        self.memory: Any = None             # made with the first tensor or kernel
        self.server: Any = None             # started with the first kernel
        self.is_busy = False                # whether the server may have something to do
        self.names: dict[int, str] = {}     # of kernels, by address
        self.asked = ""                     # the kernel that was asked for last
        self.functions: dict[str, int] = {}     # of the server
        self.marks: dict[int, Mark] = {}
        self.last: Any = None               # the nest that was loaded last
        self.num_streams = self.num_marks = self.num_replies = 0
        self.lock = threading.RLock()

    def is_available(self) -> bool:
        """Whether there is something to run it."""
        return shutil.which(QEMU) is not None and hasattr(os, "memfd_create")

    def device_count(self) -> int:
        return int(self.is_available())

    # Memory: a file without a name, which the server maps too. The core asks rarely, for large pieces.
    # ------------------------------------------------------------------------------------------------------------------

    def open(self) -> None:
        if not self.is_available():
            raise OSError(f"riscv: there is no {QEMU} on PATH to run it. Debian: apt-get install qemu-user")
        self.file, self.pid = os.memfd_create("riscv"), os.getpid()
        os.ftruncate(self.file, self.size)
        self.memory = mmap.mmap(self.file, self.size)
        self.shift = ctypes.addressof(ctypes.c_char.from_buffer(self.memory)) - BASE    # from its addresses to ours
        self.pieces, self.next_code = [(TENSORS, self.size - TENSORS)], CODE    # what is free: (place, bytes), sorted
        atexit.register(self.stop)

    def allocate(self, nbytes: int, index: int) -> int:
        with self.lock:
            if self.memory is None:
                self.open()
            size = -(-max(nbytes, 1) // PAGE) * PAGE
            for k, (at, room) in enumerate(self.pieces):
                if room >= size:
                    self.pieces[k : k + 1] = [(at + size, room - size)] if room > size else []
                    return BASE + at
        raise MemoryError(f"riscv: {nbytes} bytes asked for, {self.memory_info(0)[0]} of {self.size} are free")

    def free(self, address: int, nbytes: int, index: int) -> None:
        place, size = address - BASE, -(-max(nbytes, 1) // PAGE) * PAGE
        with self.lock:
            self.memory.madvise(mmap.MADV_REMOVE, place, size)     # the system has its pages back
            pieces, self.pieces = sorted([*self.pieces, (place, size)]), []
            for at, room in pieces:     # neighbours join
                joins = self.pieces and sum(self.pieces[-1]) == at
                start = self.pieces.pop()[0] if joins else at
                self.pieces.append((start, at + room - start))

    def memory_info(self, index: int) -> tuple[int, int]:
        return sum(room for _, room in self.pieces) if self.memory else self.size - TENSORS, self.size - TENSORS

    def copy_from_host(self, target: int, source: int, nbytes: int, index: int, stream: int) -> None:
        self.synchronize()
        ctypes.memmove(target + self.shift, source, nbytes)

    def copy_to_host(self, target: int, source: int, nbytes: int, index: int, stream: int) -> None:
        self.synchronize()
        ctypes.memmove(target, source + self.shift, nbytes)

    def copy_within(self, target: int, source: int, nbytes: int, index: int, stream: int) -> None:
        self.synchronize()
        ctypes.memmove(target + self.shift, source + self.shift, nbytes)

    # Kernels
    # ------------------------------------------------------------------------------------------------------------------

    def load(self, nest: Any) -> Kernel:
        key = digest(nest.digest() + repr(TARGET).encode() + source_identity())
        kept = disk_cache.read(key.hex())
        code = None if kept is None else unpack(key, kept)
        if code is None:
            code = codegen.emit_object(nest, TARGET)
            disk_cache.write(key.hex(), pack(key, code))
        with self.lock:
            if self.memory is None:
                self.open()
            ready = Object(code, BASE + self.next_code)
            at, self.next_code = self.next_code, -(-(self.next_code + len(ready.image)) // 64) * 64
            if self.next_code > TENSORS:
                raise RuntimeError(f"riscv: no room for the code of {nest.name}, beside {len(self.names)} kernels")
            self.memory[at : at + len(ready.image)] = bytes(ready.image)
            self.last, kernel = nest, Kernel(nest.name, ready.functions[nest.name])
            self.names[kernel.address] = nest.name
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
        at, constants, places = BASE + RECORD + COMMAND.size, b"", []
        for pointer in pointers:
            is_constant = isinstance(pointer, bytes)
            places.append(at + len(constants) if is_constant else pointer)
            constants += pointer + bytes(-len(pointer) % 16) if is_constant else b""
        at += len(constants)
        numbers, self.asked = struct.pack(f"<{len(places)}Q{len(params)}q", *places, *params), handle.name
        self.post(handle.address, at, at + 8 * len(places), begin, end, constants + numbers)

    def post(self, function: int | str, ptrs: int, params: int, begin: int, end: int, data: bytes = b"") -> None:
        """Write a command for the server: a kernel by its address, or a function of its own by name."""
        with self.lock:
            if self.pid != os.getpid():
                raise RuntimeError("riscv: this process was forked from one that uses the device. Spawn it instead.")
            if self.server is None:
                self.start()
            address = self.functions[function] if isinstance(function, str) else function
            record = COMMAND.pack(address, ptrs, params, begin, end) + data
            if len(record) > MARKS - RECORD:
                raise RuntimeError(f"riscv: {self.asked} was given {len(record)} bytes of arguments")
            self.is_busy = True
            try:
                self.server.stdin.write(struct.pack("<Q", len(record)) + record)
                self.server.stdin.flush()
            except BrokenPipeError:
                self.died()

    def synchronize(self, index: int | None = None, stream: int = 0) -> None:
        with self.lock:
            if self.is_busy:
                self.num_replies += 1
                self.post("reply", 0, 0, self.num_replies, 0)
                answer = b""
                while answer != self.num_replies.to_bytes(8, "little"):    # others are of waits that were interrupted
                    answer = self.server.stdout.read(8) or self.died()
                self.is_busy = False

    # Streams share the queue: what is asked for later runs later, so that none has to wait for another.
    # ------------------------------------------------------------------------------------------------------------------

    def new_stream(self, index: int, priority: int) -> int:
        self.num_streams += 1
        return self.num_streams

    def record(self, index: int, stream: int) -> Mark:
        with self.lock:
            slot, self.num_marks = self.num_marks % SLOTS, self.num_marks + 1
            if slot in self.marks:
                self.finish(self.marks[slot])
            mark = self.marks[slot] = Mark(MARKS + 16 * slot)
            self.memory[mark.place : mark.place + 16] = bytes(16)
            self.post("mark", 0, 0, BASE + mark.place, 0)
        return mark

    def wait(self, event: Mark, index: int, stream: int) -> None:
        pass

    def query(self, event: Mark) -> bool:
        if not event.time:
            seconds, rest = struct.unpack_from("<QQ", self.memory, event.place)
            event.time = seconds * 10**9 + rest
        return event.time > 0

    def finish(self, event: Mark) -> None:
        if not self.query(event):
            self.synchronize()
            self.query(event)

    def elapsed(self, start: Mark, end: Mark) -> float:
        self.finish(start)
        self.finish(end)
        return (end.time - start.time) / 1e6

    # The server
    # ------------------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        if self.vlen not in WIDTHS:
            raise ValueError(f"riscv: vlen is one of {WIDTHS}, got {self.vlen}")
        text: Any = string.Template((Path(__file__).parent / "server.ll").read_text())
        record = BASE + RECORD
        text = text.substitute(BASE=BASE, SIZE=self.size, FILE=self.file, RECORD=record, THIRD=record + 24)
        program, self.functions = executable(compile_ir(text, TARGET), 0x10000)
        self.memory[:8] = bytes(8)
        file, pipe = os.memfd_create("riscv-server"), subprocess.PIPE
        os.write(file, program)
        cpu = f"rv64,v=true,vlen={self.vlen},elen=64,vext_spec=v1.0"
        self.server = subprocess.Popen(
            [QEMU, "-cpu", cpu, f"/proc/self/fd/{file}"], stdin=pipe, stdout=pipe, stderr=pipe,
            pass_fds=(self.file, file), start_new_session=True,     # what interrupts us shall not end it
        )
        os.close(file)
        resource.prlimit(self.server.pid, resource.RLIMIT_CORE, (0, 0))

    def died(self) -> NoReturn:
        server, self.server, self.is_busy = self.server, None, False
        running = self.names.get(struct.unpack_from("<Q", self.memory)[0])
        said, code = server.communicate()[1].decode(errors="replace").strip(), server.returncode
        for mark in self.marks.values():     # nobody comes there any more
            mark.time = mark.time if self.query(mark) else time.monotonic_ns()
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with status {code}"
        raise RuntimeError(
            f"riscv: the server ended {how} {f'while it ran {running}' if running else f'before it ran {self.asked}'}"
            f"{said and f' ({said})'}. What was queued is lost; tensors stay, the next kernel starts another server."
        )

    def stop(self) -> None:
        """End the server; the next kernel starts one, as wide as `vlen` then says."""
        with self.lock:
            if self.server is not None and self.pid == os.getpid():
                self.synchronize()
                self.server.communicate()
                self.server = None


riscv = Riscv()
register(riscv)
rushlight.riscv = riscv     # programs ask `rushlight.riscv.is_available()`
