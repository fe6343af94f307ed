"""How results lie in memory: the word a definition says, and the strides it stands for.

Enters: tensors, shapes and orders of dims. Leaves: strides; None stands for dense rows. Sizes may be symbols.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any

from ..base.shape import or_one


class Layout(Enum):
    """What a definition says of its results; the core knows them by number (csrc/plan.h)."""

    OWN = 0     # as the kind does it: pointwise in the order of the operands, others in dense rows
    INPUT = 1   # as the first argument, without its gaps
    ROWS = 2    # dense rows, whatever comes in
    FORMAT = 3  # channels last where the first argument's strides say so, else dense rows


def strides_in(layout: Layout, t: Any) -> tuple[int, ...] | None:
    """Strides of a result of the shape of the first argument, `t`."""
    if layout is Layout.FORMAT:
        return channels_last_strides(t.shape) if t.ndim in (4, 5) and prefers_channels_last(t) else None
    return strides_like(t) if layout is Layout.INPUT and not t._is_contiguous() else None


def strides_like(t: Any) -> tuple[int, ...]:
    """Strides of a dense tensor with the shape and the order of `t`."""
    return t.stride() if t._is_dense() else ordered_strides(t.shape, by_stride(t.shape, t.stride()))


def by_stride(shape: Sequence[Any], *operands: Sequence[Any]) -> list[int]:
    """Dims from the fastest to the slowest, by the strides of the first operand that tells two apart; a stride of 0
    says nothing of order, and dims that none tells apart stay as they are."""
    order = list(reversed(range(len(shape))))

    def compared(a: int, b: int) -> int:
        for strides in operands:
            if 0 in (strides[a], strides[b]):
                continue
            if strides[a] != strides[b]:
                return -1 if strides[a] < strides[b] else 1
            if shape[a] > shape[b]:
                return 1
        return 0

    for i in range(1, len(order)):
        at = i
        for before in reversed(range(i)):
            found = compared(order[before], order[at])
            if found < 0:
                break
            if found > 0:
                order[before], order[at] = order[at], order[before]
                at = before
    return order


def ordered_strides(shape: Sequence[Any], fastest_first: Iterable[int]) -> tuple[int, ...]:
    """Dense strides with dims laid out from fastest to slowest as listed."""
    strides, step = [0] * len(shape), 1
    for d in fastest_first:
        strides[d] = step
        step *= or_one(shape[d])
    return tuple(strides)


def channels_last_strides(shape: Sequence[Any]) -> tuple[int, ...]:
    """Strides of a dense tensor with channels last."""
    return ordered_strides(shape, (1, *range(len(shape) - 1, 1, -1), 0))


def prefers_channels_last(t: Any) -> bool:
    """Whether the strides alone say channels last; sizes of one leave it open, and then the answer is no."""
    strides, reach = t.stride(), 0
    if strides[1] == 0:
        return False
    for d in (1, *range(t.ndim - 1, 1, -1), 0):
        if t.shape[d] == 0 or strides[d] < reach or (d == 0 and reach == strides[1]):
            return False
        reach = strides[d] * max(t.shape[d], 1)
    return True
