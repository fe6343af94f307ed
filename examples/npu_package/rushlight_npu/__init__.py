"""A simulated NPU: `import rushlight_npu`, then `x.to("npu")`.

The chip has a 16 x 16 systolic array, a vector unit of 128 lanes, a scalar unit, 1 MiB of scratchpad and DMA to its
memory; docs/npu.md is its manual. This file is the device: kernels are assembled from loop nests (generate.py) or
written by hand (product.py) and run by machine.py. What the chip cannot express runs on the host and is counted.
"""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import rushlight
from rushlight import codegen
from rushlight.devices import Device, register

from . import product
from .assembler import AssemblyError, assemble, disassemble
from .convolution import convolution, convolution_weight
from .expressions import NotExpressible
from .formats import ARRAY, PATTERNS, narrow
from .generate import generate
from .machine import Fault, Machine, Program

MEMORY = 1 << 30
CONSTANTS = 1 << 16      # bytes at the start of memory for operands that are constants of a launch
HOST_KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


class Kernel:
    """What `load` returns: a program with the addresses of its own memory and of its tables, or a function of the
    host."""

    def __init__(
        self, name: str, program: Program | None, own: Sequence[int] = (), tables: Sequence[int] = (), host: Any = None
    ) -> None:
        self.name, self.program, self.own, self.tables, self.host = name, program, own, tables, host


class Npu(Device):
    """One chip with 1 GiB."""

    name = "npu"
    scheduler = "gpu"      # nests in which every element is for itself: lanes run over them

    def __init__(self) -> None:
        self.machine: Machine | None = None      # made with the first tensor: registering a device costs nothing
        self.holes = [(CONSTANTS, MEMORY - CONSTANTS)]      # free memory: (address, bytes), by address
        self.next_constant = 64
        self.host: Counter[str] = Counter()
        self.last: Kernel | None = None
        self.clock: Any = None
        self.total = 0

    # --- memory -------------------------------------------------------------------------------------------------------

    def chip(self) -> Machine:
        if self.machine is None:
            self.machine = Machine(MEMORY)
        return self.machine

    def allocate(self, nbytes: int, index: int) -> int:
        size = -(-max(nbytes, 1) // 64) * 64
        for k, (address, room) in enumerate(self.holes):
            if room >= size:
                self.holes[k : k + 1] = [(address + size, room - size)] if room > size else []
                return address
        left = sum(room for _, room in self.holes)
        raise MemoryError(f"npu: out of memory: {nbytes} bytes asked for, {left} of {MEMORY} left")

    def free(self, address: int, nbytes: int, index: int) -> None:
        self.holes.append((address, -(-max(nbytes, 1) // 64) * 64))
        joined: list[tuple[int, int]] = []
        for start, room in sorted(self.holes):
            if joined and sum(joined[-1]) == start:
                joined[-1] = joined[-1][0], joined[-1][1] + room
            else:
                joined.append((start, room))
        self.holes = joined

    def place(self, address: int) -> int:
        """Where device memory really is."""
        return self.chip().memory.ctypes.data + address

    def copy_from_host(self, target: int, source: int, nbytes: int, index: int) -> None:
        ctypes.memmove(self.place(target), source, nbytes)

    def copy_to_host(self, target: int, source: int, nbytes: int, index: int) -> None:
        ctypes.memmove(target, self.place(source), nbytes)

    def copy_within(self, target: int, source: int, nbytes: int, index: int) -> None:
        ctypes.memmove(self.place(target), self.place(source), nbytes)

    # --- kernels ------------------------------------------------------------------------------------------------------

    def load(self, nest: Any) -> Kernel:
        try:
            text, rooms, tables = generate(nest)
        except NotExpressible:
            return Kernel(nest.name, None, host=HOST_KERNEL(codegen.compile(nest).address))
        own = [self.allocate(room, 0) for room in rooms]
        return Kernel(nest.name, Program(assemble(text)), own, [self.keep(*table) for table in tables])

    def keep(self, code: str, numbers: Sequence[float]) -> int:
        """A table of constants in device memory, for as long as the device lives."""
        values = narrow(code, np.array(numbers)) if code in PATTERNS else np.array(numbers, ARRAY[code])
        address = self.allocate(values.nbytes, 0)
        self.chip().memory[address : address + values.nbytes] = values.view(np.uint8)
        return address

    def constant(self, data: bytes) -> int:
        """Bytes of a launch's own, in a ring at the start of memory."""
        if self.next_constant + len(data) > CONSTANTS:
            self.next_constant = 64
        address = self.next_constant
        self.next_constant += -(-len(data) // 16) * 16
        self.chip().memory[address : address + len(data)] = np.frombuffer(data, np.uint8)
        return address

    def launch(
        self, handle: Any, pointers: Sequence[int | bytes], params: Sequence[int], begin: int, end: int, index: int
    ) -> None:
        places = [self.constant(p.ljust(16, b"\0")) if isinstance(p, bytes) else p for p in pointers]
        if handle.program is None:
            self.host[handle.name] += 1
            real = (ctypes.c_void_p * len(places))(*[self.place(p) for p in places])
            handle.host(real, (ctypes.c_int64 * max(1, len(params)))(*params), begin, end)
            return
        self.last = handle
        self.clock = self.chip().run(handle.program, (*places, *handle.own, *params, begin, end, *handle.tables))
        self.total += self.clock.total()

    def launch_pointwise(
        self, handle: Any, pointers: Sequence[int | bytes], sizes: Sequence[int], strides: Any, index: int
    ) -> None:
        """The two longest dims are the kernel's, the others are walked here."""
        order = sorted(range(len(sizes)), key=lambda d: -sizes[d])
        inner, *outer = [*order, *[-1] * (2 - len(order))]
        lengths = [sizes[d] if d >= 0 else 1 for d in (inner, outer[0])]
        steps = [s[d] if d >= 0 else 0 for d in (inner, outer[0]) for s in strides]
        for position in np.ndindex(*[sizes[d] for d in outer[1:]]):
            at = list(zip(outer[1:], position, strict=True))
            moved = [p if isinstance(p, bytes) else p + sum(s[d] * k for d, k in at)
                     for p, s in zip(pointers, strides, strict=True)]
            self.launch(handle, moved, (lengths[0], *steps), 0, lengths[1], index)

    # --- the array ----------------------------------------------------------------------------------------------------

    def product(self, code: str) -> Kernel | None:
        if code not in ("f32", "f16", "bf16"):
            return None      # generated: the vector unit's
        return Kernel(f"product of {code}", Program(assemble(product.program(code))))

    def implementation(self, op: str) -> Callable | None:
        return {"convolution": convolution, "_convolution_weight": convolution_weight}.get(op)

    def own_or_report(self, op: str, expected: bool = False) -> Callable | None:
        if self.own(op) is None:
            self.host[op] += 1
        return super().own_or_report(op, expected)

    # --- looking inside -----------------------------------------------------------------------------------------------

    def listing(self) -> str:
        """The last kernel's program, as assembler."""
        return "" if self.last is None else f"; {self.last.name}\n" + disassemble(self.last.program.code)

    def cycles(self) -> int:
        """How long the last kernel took."""
        return 0 if self.clock is None else self.clock.total()

    def busy(self) -> dict[str, int]:
        """For how many of those cycles each unit worked."""
        return {} if self.clock is None else dict(self.clock.busy)

    def total_cycles(self) -> int:
        """Of all kernels so far, one after another."""
        return self.total

    def host_counts(self) -> dict[str, int]:
        """What the host computed for the chip, and how often."""
        return dict(self.host)


npu = Npu()
register(npu)
rushlight.npu = npu     # programs ask `rushlight.npu.cycles()`
listing, cycles, busy, total_cycles, host_counts = (
    npu.listing, npu.cycles, npu.busy, npu.total_cycles, npu.host_counts
)
__all__ = [
    "AssemblyError", "Fault", "Machine", "Npu", "Program", "assemble", "busy", "cycles", "disassemble", "host_counts",
    "listing", "npu", "total_cycles",
]
