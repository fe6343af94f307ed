"""Positions of triangles of matrices: tril_indices, triu_indices.

Enters: sizes of a matrix and a diagonal. Leaves: [2, count], rows and columns of the positions on one side of it, in
row-major order. Refuses: negative sizes.
"""

from __future__ import annotations

from typing import ClassVar

from ... import _C
from ...loops.sizes import larger, smaller
from ...op import Spec
from ...op.factory import Factory, check_sizes
from ...planners.triangles import positions_below, positions_schedule


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
        top = larger(-last, 0) if self.is_lower else 0     # the first row that has any
        height = row - top if self.is_lower else smaller(row, larger(col - last - 1, 0))
        height = smaller(height, shape[1])                 # none has any without columns
        return Spec(shape, dtype), positions_schedule(dtype.code, self.is_lower, shape[1], col, last, top, height)


class TriuIndices(TrilIndices):
    """Positions of the upper triangle of a matrix."""

    schema = (
        "triu_indices(int row, int col, int offset=0, *, dtype? dtype=None, layout? layout=None, device? device=None,"
        " bool pin_memory=False) -> Tensor"
    )
    is_lower = False


