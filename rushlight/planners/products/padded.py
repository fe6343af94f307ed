"""Matrices as products take them, and products of sizes that a library is slow at.

Enters: slots, strides and sizes. Leaves: steps over copies of the matrices whose sizes are whole multiples of 16 bytes.
A library for matrix units reads such matrices several times faster than others, so the copies pay for large ones.
"""

from __future__ import annotations

import struct
from collections.abc import Collection
from typing import Any

from ...loops import expr
from ...loops.nest import pointwise_nest
from ...loops.record import Record
from ...op.pack import as_step, compile_for
from ...op.step import Step

WHOLE = 8            # elements of a half type in 16 bytes
LEAST = 512          # sizes from which the copies pay
_kernels: dict[tuple, Any] = {}


Spot = int | tuple[int, int]     # a slot, or one with the bytes before the first element


class Matrix(Record):
    """One operand of a (batched) product: a slot, its two strides and its batch stride, in elements."""

    slot: Spot
    row: int
    col: int
    batch: int = 0

    def whole(self) -> int:
        """The slot of an operand that begins with it."""
        assert isinstance(self.slot, int), f"an operand that begins with its slot, got {self.slot}"
        return self.slot

    def leading(self, rows_: int, cols: int) -> tuple[int, bool] | None:
        """Leading dimension and whether it is transposed; None if a BLAS cannot read it."""
        if (self.col == 1 and self.row >= max(1, cols)) or (cols == 1 and rows_ == 1):
            return max(self.row, cols, 1), False
        if rows_ == 1 and self.col == 1:
            return max(cols, 1), False
        if cols == 1 and self.row >= 1:
            return (self.row, False) if self.row >= 1 else None
        if self.row == 1 and self.col >= max(1, rows_):
            return max(self.col, rows_, 1), True
        if rows_ == 1 and self.col >= 1:
            return self.col, True
        return None


def rounded(n: int) -> int:
    return -(-n // WHOLE) * WHOLE


def pays(code: str, m: int, n: int, k: int) -> bool:
    """Whether a product of these sizes is one that a library is slow at."""
    if code not in ("f16", "bf16") or m < LEAST or n < LEAST or k < LEAST:
        return False
    return bool(m % WHOLE or n % WHOLE or k % WHOLE)


def padded_steps(
    kernel: Any, code: str, device: Any, a: Matrix, b: Matrix, c: Matrix, sizes: tuple[int, int, int], scratch: int,
    roomy: Collection[Matrix] = (),
) -> tuple[list[Step], int] | None:
    """Steps of c = a @ b by a device's own kernel (`Device.product`) through padded copies in slot `scratch`, and how
    many elements that has. None for types and sizes that need none. `roomy` ones have whole lines of memory: what lies
    behind their rows, up to the next, may be read and written."""
    m, n, k = sizes
    if not pays(code, m, n, k):
        return None
    given, before, after, used = [], [], [], 0
    for x, (high, wide) in ((a, (m, k)), (b, (k, n)), (c, (m, n))):
        found = x.leading(high, wide)
        if found is None or (x is c and found[1]):
            return None
        line, transposed = found
        count, length = (wide, high) if transposed else (high, wide)
        if count % WHOLE == 0 and length % WHOLE == 0 and line % WHOLE == 0:
            given.append((x.slot, line, int(transposed)))
            continue
        pitch = rounded(length)
        if any(x is one for one in roomy) and count % WHOLE == 0 and line % WHOLE == 0 and line >= pitch:
            given.append((x.slot, line, int(transposed)))
            if x is not c and length == k and k % WHOLE:
                before += cleared(code, device, x.whole(), 0, count, length, line)
            continue
        if x is c:
            after.append(copied(code, device, (scratch, used * 2), x.slot, count, length, pitch, line))
        else:
            before.append(copied(code, device, x.slot, (scratch, used * 2), count, length, line, pitch))
            if k % WHOLE:       # what is added to sums must be 0
                before += cleared(code, device, scratch, used, count, length, pitch)
        given.append(((scratch, used * 2), pitch, int(transposed)))
        used += rounded(count) * pitch
    (left, lda, ta), (right, ldb, tb), (out, ldc, _) = given
    bits = struct.unpack("<qq", struct.pack("<dd", 1.0, 0.0))
    params = [rounded(m), rounded(n), rounded(k), lda, ta, 0, ldb, tb, 0, ldc, 0, 1, *bits]
    return [*before, Step(kernel, [left, right, out], params, 1, 1, -1), *after], used


def copied(
    code: str, device: Any, source: Any, target: Any, count: int, length: int, step: int, target_step: int
) -> Step:
    """A step that copies lines to another distance from each other."""
    result = kernel_of(code, device, "copy", [code], expr.arg(0, code))
    return Step(result, [source, target], [length, 2, 2, step * 2, target_step * 2], count, 1, -1)


def cleared(code: str, device: Any, slot: int, used: int, count: int, length: int, pitch: int) -> list[Step]:
    """Steps that clear what pads `count` lines: their ends, and whole lines behind them."""
    result, end = kernel_of(code, device, "clear", [], expr.const(0, code)), rounded(length)
    steps = []
    if end != length:
        steps.append(Step(result, [(slot, (used + length) * 2)], [end - length, 2, pitch * 2], count, 1, -1))
    if rounded(count) != count:
        size = (rounded(count) - count) * pitch
        steps.append(Step(result, [(slot, (used + count * pitch) * 2)], [size, 2, 0], 1, 1, -1))
    return steps


def kernel_of(code: str, device: Any, name: str, reads: list[str], value: Any) -> Any:
    key = (name, code, device.type)
    if key not in _kernels:
        _kernels[key] = as_step(compile_for(device, pointwise_nest(name, reads, [code], [value])))
    return _kernels[key]
