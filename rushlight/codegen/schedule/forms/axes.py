"""Ranges as loops: each with its stride in every operand, neighbours joined, and where a position among them lies.

Enters: sizes and strides, which may be symbolic. Leaves: `Axis`es, and expressions of offsets.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....loops.expr import Value, const, idiv, irem, var
from ....loops.record import Record

ZERO = const(0, "i64")


class Axis(Record):
    """One loop: its size, its stride in every operand that is read,
    and its stride in the output (kept) or the position (folded)."""

    size: int
    strides: tuple[int, ...]
    other: int


def coalesce(axes: list[Axis]) -> list[Axis]:
    """Neighbours that are one loop joined; given innermost first, returned outermost first."""
    joined: list[Axis] = []
    for a in axes:
        if joined and follows(a, joined[-1]):
            inner = joined[-1]
            joined[-1] = Axis(a.size * inner.size, inner.strides, inner.other)
            continue
        joined.append(a)
    joined.reverse()
    return joined


def follows(a: Axis, inner: Axis) -> bool:
    """Whether a step along `a` is a whole run along `inner`, for every operand."""
    return (
        all(s == inner.size * t for s, t in zip(a.strides, inner.strides, strict=True))
        and a.other == inner.size * inner.other
    )


def locate(item: Value, sizes: Sequence[str], strides: Sequence[str]) -> Value:
    """Offset of position number `item` of loops of these sizes."""
    offset, rest = ZERO, item
    for k in range(len(sizes) - 1, -1, -1):
        at = rest if k == 0 else irem(rest, var(sizes[k]))
        offset = offset + at * var(strides[k])
        rest = idiv(rest, var(sizes[k])) if k else rest
    return offset
