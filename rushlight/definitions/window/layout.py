"""Memory orders of images: dense rows, or channels last; what windowed kernels read and write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight.base.shape import channels_last, channels_last_3d
from rushlight.loops.expr import Value, const
from rushlight.loops.nest import For, Statement
from rushlight.op.layout import prefers_channels_last

ZERO, ONE = const(0, "i64"), const(1, "i64")


def is_channels_last(t: Any, spatial: int) -> bool:
    """Whether a batch of images has its channels next to each other in memory, and rows not."""
    return spatial > 1 and t.ndim == spatial + 2 and t._is_channels_last() and prefers_channels_last(t)


def is_turned(t: Any) -> bool:
    """Whether a batch of rows, [N, C, L], has its channels next to each other: as images of one row they lie last."""
    return t.ndim == 3 and not t._is_contiguous() and prefers_channels_last(t.unsqueeze(2))


def is_dense(t: Any, spatial: int) -> bool:
    """Whether a windowed kernel can read the tensor as it lies."""
    return t._is_contiguous() or is_channels_last(t, spatial)


def dense(t: Any, spatial: int) -> Any:
    """The tensor in one of the two orders: channels last if its strides say so."""
    if is_dense(t, spatial):
        return t
    if spatial > 1 and t.ndim == spatial + 2 and prefers_channels_last(t):
        return in_order(t, True)
    return t.contiguous()


def in_order(t: Any, channels: bool) -> Any:
    """The tensor with channels last, or in dense rows."""
    if not channels:
        return t.contiguous()
    return t.contiguous(memory_format=channels_last if t.ndim == 4 else channels_last_3d)


def nested(loops: Sequence[tuple[str, Value]], body: Sequence[Statement]) -> tuple[Statement, ...]:
    """`body` inside serial loops from 0, the first outermost."""
    inner = tuple(body)
    for name, stop in reversed(loops):
        inner = (For(name, ZERO, stop, inner),)
    return inner
