"""Planning the positions of a triangle of a matrix: rows and columns of what is on one side of a diagonal.

Enters: a type, sizes and a diagonal. Leaves: a schedule over the result, [2, count], in row-major order.
"""

from __future__ import annotations

import functools
from typing import Any

from ..codegen.schedule.forms.launch import Launch, Schedule, grain_of
from ..loops.expr import Value, cast, const, idiv, max_, min_, var
from ..loops.nest import For, Local, Nest, Store, operands, rows

TWO = const(2, "i64")


def positions_below(row: Any, col: Any, offset: Any, least: Any, most: Any, half: Any) -> Any:
    """How many positions of the first `row` rows are on or below a diagonal, in Python's numbers or the kernel's."""
    start = least(most(-offset, 0), row)              # rows that have none
    full = most(least(row, col - offset), start)      # rows up to this one have one more each, those behind it all
    return half((full - start) * (start + full + 1 + 2 * offset)) + (row - full) * col


def positions_nest(code: str, is_lower: bool) -> Nest:
    """A row of the matrix per iteration, from `top` on: its number, and the columns it has, side by side."""
    i, j, count, col, last = (var(name) for name in ("row", "j", "count", "col", "last"))
    below = positions_below(i, col, last, min_, max_, lambda twice: idiv(twice, TWO))
    edge: Value = max_(min_(i + last + 1, col), 0)    # columns on or below the diagonal
    first, stop, before = (const(0, "i64"), edge, below) if is_lower else (edge, col, i * col - below)
    place = var("place") + j
    stores = Store(0, place, cast(i, code)), Store(0, place + count, cast(j, code))
    body = rows(
        Local("row", var("i") + var("top")), Local("place", before - first), For("j", first, stop, stores, vector=True)
    )
    return Nest("triangle_positions", operands([], [code]), ("count", "col", "last", "top"), body)


def positions_schedule(
    code: str, is_lower: bool, count: int, col: int, last: int, top: int, height: int
) -> Schedule:
    """`count` positions in `height` rows from `top` on, on or below the diagonal `last`, or (not `is_lower`) above."""
    nest = functools.partial(positions_nest, code, is_lower)
    return Schedule((Launch((code, is_lower), nest, (0,), (count, col, last, top), height, grain_of(col)),))
