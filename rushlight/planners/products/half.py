"""Few rows of a half type times a matrix of it: weights that are read once, as when a model writes word after word.

Enters: geometries of the operands. Leaves: plan steps that widen the rows, multiply them with the matrix where it lies
and round the sums, with an addend, once. Refuses (None): more rows, small matrices, layouts without runs, and machines
where the kernel for few rows does not serve.
"""

from __future__ import annotations

from typing import Any

from ... import _C
from ...codegen.library.products import few_rows
from ...codegen.schedule.forms.launch import grain_of
from ...loops.expr import Value, arg, cast
from ...loops.nest import Nest, pointwise_nest
from ...op.library import Room
from ...op.pack import BY_CODE, as_step, compile_for
from ...op.step import Step
from .gemm import few_rows_step
from .padded import Matrix

_kernels: dict[tuple, Any] = {}


def are_few(rows: int) -> bool:
    """Whether so many rows may be multiplied with a matrix where it lies."""
    return rows <= few_rows.MOST


def half_rows_steps(
    code: str, device: Any, a: Matrix, b: Matrix, c: Matrix, m: int, n: int, k: int, room: Room,
    addend: Matrix | None = None,
) -> list[Step] | None:
    """c = a @ b (+ addend), all of a half type, summed in single precision."""
    if code not in few_rows.HALVES or c.col != 1:
        return None
    rows, sums = Matrix(room.next, k, 1), Matrix(room.next + 1, n, 1)
    product = few_rows_step("f32", device, rows, b, sums, m, n, k, 1, None, code, wishes=room.wishes)
    if product is None:
        return None
    room.temp(_C.float32, (m, k))
    room.temp(_C.float32, (m, n))
    added = [(sums, "f32"), *([] if addend is None else [(addend, code)])]
    return [sum_step(device, [(a, code)], (rows, "f32"), m, k), product, sum_step(device, added, (c, code), m, n)]


def sum_step(
    device: Any, sources: list[tuple[Matrix, str]], target: tuple[Matrix, str], m: int, n: int
) -> Step:
    """A step that writes the sum of matrices, computed in single precision, in the target's type."""
    codes, operands = tuple([code for _, code in sources]), [*sources, target]
    key = (codes, target[1], device.type)
    if key not in _kernels:
        _kernels[key] = as_step(compile_for(device, _sum_nest(codes, target[1])))
    sizes = [BY_CODE[code].itemsize for _, code in operands]
    inner = [matrix.col * size for (matrix, _), size in zip(operands, sizes, strict=True)]
    outer = [matrix.row * size for (matrix, _), size in zip(operands, sizes, strict=True)]
    return Step(_kernels[key], [matrix.slot for matrix, _ in operands], [n, *inner, *outer], m, grain_of(n), -1)


def _sum_nest(codes: tuple[str, ...], out: str) -> Nest:
    total: Value | None = None
    for i, code in enumerate(codes):
        value = cast(arg(i, code), "f32")
        total = value if total is None else total + value
    assert total is not None, "there is something to add"
    return pointwise_nest("sum_of_halves", codes, [out], [cast(total, out)])


__all__ = ["are_few", "half_rows_steps"]
