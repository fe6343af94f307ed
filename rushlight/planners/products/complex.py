"""Planning products of complex matrices: in tiles of real numbers, which complex ones are pairs of.

Enters: geometries of the operands. Leaves: plan steps, with temporaries for matrices whose columns are runs of memory:
those are copied first, which costs little next to what is multiplied. None for small products and other layouts, which
a BLAS has (gemm.py).
"""

from __future__ import annotations

from typing import Any

from ...codegen.library import transpose
from ...codegen.schedule.cpu.complex import PARTS, schedule_complex, suits_pairs
from ...op.library import Room
from ...op.pack import BY_CODE, packed
from ...op.step import Step
from .gemm import copy_step, explain
from .padded import Matrix

COPIED = 32                     # rows or columns that meet a matrix from which it is worth a copy
GRAIN = 32768                   # elements that a thread copies at a time

_kernels: dict[tuple, Any] = {}


def complex_steps(
    code: str, device: Any, a: Matrix, b: Matrix, c: Matrix, m: int, n: int, k: int, batch: int, room: Room
) -> list[Step] | None:
    """c = a @ b; None where a BLAS is better, or there is nothing to multiply."""
    if code not in PARTS or device.type != "cpu" or c.col != 1 or not bool(batch * m * n * k > 0):
        return None
    if not suits_pairs(m, n, k):
        return None
    if any(x.col != 1 and (x.row != 1 or bool(met < COPIED)) for x, met in ((a, n), (b, m))):
        return None
    copies: list[Step] = []
    left = in_rows(code, device, a, m, k, batch, room, copies)
    right = in_rows(code, device, b, k, n, batch, room, copies)
    result = schedule_complex(code, m, n, k, batch, (left.row, right.row, c.row), (left.batch, right.batch, c.batch))
    explain(code, m, n, k, batch, "tiles of real numbers, which complex ones are pairs of")
    return copies + packed(result, device, _kernels, [], [(x.whole(), 0) for x in (left, right, c)])


def in_rows(
    code: str, device: Any, x: Matrix, rows: int, cols: int, batch: int, room: Room, steps: list[Step]
) -> Matrix:
    """The matrix itself where its rows are runs, or a copy whose rows are, made by a step more."""
    if x.col == 1:
        return x
    count = 1 if x.batch == 0 else batch
    copy = Matrix(room.temp(BY_CODE[code], (count, rows, cols)), cols, 1, rows * cols if x.batch else 0)
    if code == "c64" and bool(min(rows, cols) >= transpose.ROWS):        # exchanged in registers
        strips = -(-cols // transpose.ROWS)
        params = [cols, rows, x.col, cols, strips, x.batch, copy.batch]
        kernel = transpose.transpose_kernel(BY_CODE[code].itemsize).address
        grain = max(1, GRAIN // (transpose.ROWS * rows))
        steps.append(Step(kernel, [x.slot, copy.slot], params, count * strips, grain, -1))
        return copy
    size = BY_CODE[code].itemsize
    for i in range(count):
        step = copy_step(device, x.whole(), copy.whole(), code, (rows, cols), (x.row, x.col), cols)
        places = [(x.slot, i * x.batch * size), (copy.slot, i * copy.batch * size)]
        steps.append(step._replace(operands=places))
    return copy


__all__ = ["complex_steps"]
