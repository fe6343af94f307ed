"""Positions of triangles of matrices: tril_indices, triu_indices.

Enters: sizes of a matrix and a diagonal. Leaves: [2, count], rows and columns of the positions on one side of it, in
row-major order. Refuses: negative sizes.
"""

from __future__ import annotations

import functools
from typing import Any, ClassVar

from ... import _C
from ...codegen.schedule.forms.launch import Launch, Schedule, grain_of
from ...loops.expr import Value, cast, const, idiv, max_, min_, var
from ...loops.nest import For, Local, Nest, Store, operands, rows
from ...loops.sizes import larger, smaller
from ...op import Spec
from ...op.factory import Factory, check_sizes

TWO = const(2, "i64")


def positions_below(row: Any, col: Any, offset: Any, least: Any, most: Any, half: Any) -> Any:
    """How many positions of the first `row` rows are on or below a diagonal, in Python's numbers or the kernel's."""
    start = least(most(-offset, 0), row)              # rows that have none
    full = most(least(row, col - offset), start)      # rows up to this one have one more each, those behind it all
    return half((full - start) * (start + full + 1 + 2 * offset)) + (row - full) * col


class TrilIndices(Factory):
    """Positions of the lower triangle of a matrix."""

    schema = (
        "tril_indices(int row, int col, int offset=0, *, dtype? dtype=None, layout? layout=None, device? device=None,"
        " bool pin_memory=False) -> Tensor"
    )
    out = False
    is_lower: ClassVar[bool] = True

    def dtype(self, row, col, offset):
        return _C.int64

    def split(self, args):
        return super().split((*args, False))          # positions have no gradients

    def spec_and_content(self, own, dtype, device):
        row, col, offset = own
        if row < 0 or col < 0:
            raise RuntimeError(f"row and col must be non-negative, got row {row} and col {col}")
        last = smaller(larger(offset if self.is_lower else offset - 1, -row), col)
        count = positions_below(row, col, last, smaller, larger, lambda twice: twice // 2)
        shape = (2, count if self.is_lower else row * col - count)
        check_sizes(self.name, shape)
        nest = functools.partial(positions_nest, dtype.code, self.is_lower)
        top = larger(-last, 0) if self.is_lower else 0     # the first row that has any
        height = row - top if self.is_lower else smaller(row, larger(col - last - 1, 0))
        height = smaller(height, shape[1])                 # none has any without columns
        launch = Launch((dtype.code, self.is_lower), nest, (0,), (shape[1], col, last, top), height, grain_of(col))
        return Spec(shape, dtype), Schedule((launch,))


class TriuIndices(TrilIndices):
    """Positions of the upper triangle of a matrix."""

    schema = (
        "triu_indices(int row, int col, int offset=0, *, dtype? dtype=None, layout? layout=None, device? device=None,"
        " bool pin_memory=False) -> Tensor"
    )
    is_lower = False


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
