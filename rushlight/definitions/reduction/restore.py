"""Gradients of reductions start here: a reduced tensor given its dims back.

Enters: a gradient or result, the reduced dims as the op was given them. Leaves: a view that broadcasts against the
input. Copies nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight.op import find_op


def dims_of(dim: Any, ndim: int) -> tuple[int, ...]:
    """The reduced dims, counted from the front, in order; None and () mean all."""
    if dim is None:
        return tuple(range(ndim))
    if isinstance(dim, int):
        dim = (dim,)
    if not dim:
        return tuple(range(ndim))
    return tuple(sorted(d + ndim if d < 0 else d for d in dim)) if ndim else ()


def unreduce(g: Any, ndim: int, dim: Any, keepdim: Any) -> Any:
    """`g` with size-1 dims where dims were reduced, so that it broadcasts against the input."""
    if keepdim or ndim == 0 or g.ndim == ndim:
        return g
    if g.ndim == 0:
        return g   # broadcasts against anything
    for d in dims_of(dim, ndim):
        g = g.unsqueeze(d)
    return g


def count_of(shape: Sequence[int], dim: Any) -> int:
    """How many elements one result was made of."""
    count = 1
    for d in dims_of(dim, len(shape)):
        count *= shape[d]
    return count


def as_dtype(g: Any, dtype: Any) -> Any:
    """`g` in `dtype`; the real part where a complex gradient flows to a real input."""
    if g.dtype is dtype:
        return g
    if g.dtype.is_complex and not dtype.is_complex:
        g = find_op("real")(g)
    return g.to(dtype)
