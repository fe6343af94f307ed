"""Lists of tensors as one vector, and back; lists sorted by dtype.

Enters: tensors. Leaves: a vector of all their elements, views of such a vector, lists of one dtype.
Refuses nothing of its own: the ops refuse what they cannot join.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from .._C import Tensor
from ..op import find_op


def _flatten_dense_tensors(tensors: Iterable[Tensor]) -> Tensor:
    """All elements of tensors of one dtype in one vector."""
    return find_op("cat")([t.reshape(-1) for t in tensors])


def _unflatten_dense_tensors(flat: Tensor, tensors: Iterable[Tensor]) -> tuple[Tensor, ...]:
    """Views of a vector with the shapes of `tensors`, one after another."""
    result, at = [], 0
    for t in tensors:
        result.append(flat.narrow(0, at, t.numel()).view(t.shape))
        at += t.numel()
    return tuple(result)


def _take_tensors(tensors: Iterable[Tensor], size_limit: int) -> Iterator[list[Tensor]]:
    """Lists of tensors of one dtype, each list up to about `size_limit` bytes."""
    waiting: dict[Any, list[Tensor]] = {}
    for t in tensors:
        group = waiting.setdefault(t.dtype, [])
        if group and sum(g.nbytes for g in group) + t.nbytes > size_limit:
            yield waiting.pop(t.dtype)
            group = waiting.setdefault(t.dtype, [])
        group.append(t)
    yield from (group for group in waiting.values() if group)


def _reorder_tensors_as(tensors: Iterable[Tensor], ordered_tensors: Iterable[Tensor]) -> tuple[Tensor, ...]:
    """`tensors`, sorted by dtype as `_take_tensors` leaves them, in the order of others of the same dtypes."""
    by_dtype: dict[Any, list[Tensor]] = {}
    for t in tensors:
        by_dtype.setdefault(t.dtype, []).append(t)
    queues = {dtype: iter(group) for dtype, group in by_dtype.items()}
    return tuple(next(queues[t.dtype]) for t in ordered_tensors)
