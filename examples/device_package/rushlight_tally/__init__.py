"""A whole device in one file: `import rushlight_tally`, then `x.to("tally")`.

The tally chip is pretended: its memory is one large buffer that the host can reach only through `copy_*`, its addresses
are offsets into that buffer, and its kernels are the host's machine code run inside it. What a real chip does instead
is said at each method. It keeps count of what it was asked to do, which is how you see that nothing leaves the chip
unnoticed while a model trains.
"""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import rushlight
from rushlight import codegen
from rushlight.devices import Device, register

MEMORY = 256 << 20
FIRST = 64      # address 0 is nobody's, so that it can mean "no memory"
KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


class Tally(Device):
    """One chip with 256 MiB."""

    name = "tally"

    def __init__(self) -> None:
        self.memory: Any = None                  # made with the first tensor: registering a device costs nothing
        self.next = FIRST
        self.freed: dict[int, list[int]] = {}    # size -> addresses
        self.counts: Counter[str] = Counter()

    # Memory: a real chip calls its driver here. The core asks rarely, for large pieces.
    # -------------------------------------

    def allocate(self, nbytes: int, index: int) -> int:
        size = (nbytes + 63) // 64 * 64
        if self.freed.get(size):
            return self.freed[size].pop()
        if self.next + size > MEMORY:
            raise RuntimeError(f"tally: out of memory: {nbytes} bytes asked for, {MEMORY - self.next} of {MEMORY} left")
        address, self.next = self.next, self.next + size
        return address

    def free(self, address: int, nbytes: int, index: int) -> None:
        self.freed.setdefault((nbytes + 63) // 64 * 64, []).append(address)

    def copy_from_host(self, target: int, source: int, nbytes: int, index: int) -> None:
        self.counts["bytes to the chip"] += nbytes
        ctypes.memmove(self.place(target), source, nbytes)

    def copy_to_host(self, target: int, source: int, nbytes: int, index: int) -> None:
        self.counts["bytes to the host"] += nbytes
        ctypes.memmove(target, self.place(source), nbytes)

    def copy_within(self, target: int, source: int, nbytes: int, index: int) -> None:
        ctypes.memmove(self.place(target), self.place(source), nbytes)

    def place(self, address: int) -> int:
        """Where the chip's `address` really is."""
        if self.memory is None:
            self.memory = (ctypes.c_char * MEMORY)()
        return ctypes.addressof(self.memory) + address

    # Kernels: a real chip prints the nest in its own language (`codegen.c_text`, `emit_llvm`, `emit_ptx`, or a walk
    # over the nest) and gives it to its compiler.
    # ------------------------------------------------------------------------------------------

    def load(self, nest: Any) -> Any:
        self.counts["kernels loaded"] += 1
        return KERNEL(codegen.compile(nest).address)

    def launch(
        self, handle: Any, pointers: Sequence[int | bytes], params: Sequence[int], begin: int, end: int, index: int
    ) -> None:
        self.counts["kernels launched"] += 1
        constants = [
            ctypes.create_string_buffer(p, max(16, len(p))) if isinstance(p, bytes) else None for p in pointers
        ]
        places = [
            ctypes.addressof(c) if c is not None else self.place(p) for p, c in zip(pointers, constants, strict=True)
        ]
        handle((ctypes.c_void_p * len(places))(*places), (ctypes.c_int64 * max(1, len(params)))(*params), begin, end)

    # Library ops: what the chip has a fast routine for. `out` and the arguments are tensors of this device.
    # ---------------

    def implementation(self, op: str) -> Callable | None:
        return {"matmul": self.multiply}.get(op)

    def multiply(self, out: Any, a: Any, b: Any) -> None:
        """Products of vectors, matrices and batches of them, by the generated kernels alone; a real chip calls its
        matrix unit."""
        self.counts["matrix products"] += 1
        rows, columns = a if a.ndim > 1 else a.unsqueeze(0), b if b.ndim > 1 else b.unsqueeze(1)
        out.copy_((rows.unsqueeze(-1) * columns.unsqueeze(-3)).sum(-2).reshape(out.shape))


tally = Tally()
register(tally)
rushlight.tally = tally     # programs read the counts as `rushlight.tally.counts`
