"""What a tensor sees of a storage, as views that graphs know: reshapes, slices and permutations.

Enters: a flat tensor, and sizes, strides and an offset into it. Leaves: a view of it, made of the steps that engines
have rules for, so that writes through it become their inverses. What sees elements twice in a way that no such steps
give stays one `as_strided`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..op import find_op


def seen(base: Any, sizes: Sequence[int], strides: Sequence[int], offset: int) -> Any:
    """What `as_strided` shows of a tensor, which may have any layout."""
    sizes, strides = tuple(sizes), tuple(strides)
    if base.shape == sizes and base.stride() == strides and base.storage_offset() == offset:
        return base
    flat = in_order(base)
    found = None if flat is None or 0 in sizes else _steps(flat, sizes, strides, offset)
    return find_op("as_strided")(base, sizes, strides, offset) if found is None else found


def in_order(base: Any) -> Any:
    """All elements of a tensor as they lie in memory; None where it skips or repeats some."""
    if base.storage_offset():
        return None
    if base.is_contiguous():
        return base.reshape(-1) if base.ndim != 1 else base
    order = sorted(range(base.ndim), key=lambda d: (-base.stride(d), base.shape[d]))
    permuted = base.permute(order)
    return permuted.view(-1) if permuted.is_contiguous() else None


def _steps(flat: Any, sizes: tuple[int, ...], strides: tuple[int, ...], offset: int) -> Any:
    """The view, dim by dim from the one with the largest stride; None where dims reach into each other."""
    if strides == tuple(math.prod(sizes[d + 1 :]) for d in range(len(sizes))):
        count = math.prod(sizes)
        return (flat if count == flat.shape[0] else flat.narrow(0, offset, count)).view(sizes)
    real = [d for d in range(len(sizes)) if sizes[d] != 1 and strides[d]]
    real.sort(key=lambda d: -strides[d])
    reach = [0] * (len(real) + 1)      # from the first to the last element that dims from here on see
    for k in reversed(range(len(real))):
        reach[k] = reach[k + 1] + (sizes[real[k]] - 1) * strides[real[k]]
        if reach[k + 1] >= strides[real[k]]:
            return None
    x = flat
    for k, d in enumerate(real):
        if strides[d] == 1:      # the last of them
            x = x.narrow(-1, offset, sizes[d]) if sizes[d] != x.shape[-1] else x
            break
        x, offset = _cut(x, sizes[d], strides[d], offset, reach[k + 1])
        if x is None:
            return None
    else:
        x = x.select(-1, offset)
    order = [d for d in range(len(sizes)) if d in real]
    x = x.permute([real.index(d) for d in order]) if order != real else x
    if len(order) == len(sizes):
        return x
    for d in range(len(sizes)):
        if d not in real:
            x = x.unsqueeze(d)
    return x.expand(sizes) if tuple(x.shape) != sizes else x


def _cut(x: Any, size: int, stride: int, offset: int, rest: int) -> tuple[Any, int]:
    """The last dim of x as `size` pieces of `stride` elements: (..., size, stride), and where in the first piece the
    rest begins. (None, 0) where the rest would reach into the next piece, or over the end."""
    length = x.shape[-1]
    start, inner = divmod(offset, stride)
    if inner + rest >= stride:      # pieces begin at the offset
        start, inner, begin = 0, 0, offset
    else:
        begin = 0 if length % stride == 0 else start * stride
        start = start if length % stride == 0 else 0
    if length % stride or begin:
        if begin + size * stride > length:
            if rest:
                return None, 0
            last = begin + inner
            return x[..., last : last + (size - 1) * stride + 1 : stride].unsqueeze(-1), 0
        x = x.narrow(-1, begin, size * stride)
    pieces = x.unflatten(-1, (x.shape[-1] // stride, stride))
    return pieces.narrow(-2, start, size) if pieces.shape[-2] != size else pieces, inner

