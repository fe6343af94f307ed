"""Products of matrices whose rows have room behind them, so that no copy is needed where a library wants whole vectors.

Enters: a product's arguments, and how far rows of its result are to lie from each other (aot/lines.py decides that for
both graphs of a function). Leaves: a plan's steps and slots, or None: then the op's own plan serves, with copies.
"""

from __future__ import annotations

import math
from typing import Any

from ..loops.record import Record
from ..planners.products.gemm import own_kernel
from ..planners.products.padded import WHOLE, Matrix, padded_steps
from .values import Value


class LinesPlan(Record):
    """What the emitter asks a plan for."""

    outputs: tuple
    parts: tuple
    calls_python: bool = False
    single: bool = True


def product_plan(name: str, args: tuple, line: int | None, device: Any) -> LinesPlan | None:
    """The plan of a product of such matrices; None where the op's own plan serves."""
    if name not in ("linear", "matmul", "mm") or (name == "linear" and args[2] is not None):
        return None
    left, right = args[:2]
    if len(left.sizes) < 2 or len(right.sizes) != 2 or not all(is_aligned(v) for v in (left, right)):
        return None
    a, b = matrix(left, 0), matrix(right, 1)
    if a is None or b is None:
        return None
    m, k = math.prod(left.sizes[:-1]), left.sizes[-1]
    n = right.sizes[0 if name == "linear" else 1]
    if name == "linear":
        b = Matrix(1, b.col, b.row)
    c = Matrix(2, n if line is None else line, 1)
    kernel = own_kernel(device, left.dtype.code)
    roomy = [x for x, has in ((a, left.buffer.has_room), (b, right.buffer.has_room), (c, line is not None)) if has]
    results = None if kernel is None else padded_steps(kernel, left.dtype.code, device, a, b, c, (m, n, k), 3, roomy)
    if results is None:
        return None
    sizes = (*left.sizes[:-1], n)
    outputs = (("new", left.dtype, sizes, None, -1, 0), ("temp", left.dtype, (max(1, results[1]),), None, -1, 0))
    return LinesPlan(outputs, (results[0], None))


def matrix(value: Value, slot: int) -> Matrix | None:
    """A tensor as the matrix of its rows; None where they are no lines."""
    if len(value.sizes) == 2:
        return Matrix(slot, *value.strides)
    line = value.line(1)
    return None if line is None else Matrix(slot, line, 1)


def is_aligned(value: Value) -> bool:
    """Whether its first element lies at whole vectors, and its sizes are known."""
    return not value.varies and value.offset % WHOLE == 0
