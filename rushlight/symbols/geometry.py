"""Questions about layouts, for sizes and strides that may be symbolic. The core answers them for plain numbers
(csrc/geometry.cpp, csrc/launch.cpp).

Enters: sizes and strides. Leaves: strides or an answer; each comparison that other sizes would answer otherwise leaves
a guard. A size that only elements can tell is taken to be 2 or more: where that gives another layout than 0 or 1 would,
no element lies elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cmp_to_key
from typing import TYPE_CHECKING, Any

from .functions import guard_as_large, statically_known_true, sym_max

if TYPE_CHECKING:
    from .numbers import Dim

Sizes = Sequence[Any]


def same(a: Dim, b: Dim) -> bool:
    """Whether two numbers are equal; no where only elements could tell."""
    return guard_as_large(a == b)


def contiguous_strides(sizes: Sizes) -> tuple:
    """Row-major strides."""
    strides: list[Any] = []
    step: Any = 1
    for size in reversed(sizes):
        strides.append(step)
        step = step * sym_max(size, 1)
    return tuple(reversed(strides))


def is_empty(sizes: Sizes) -> bool:
    return any(same(size, 0) for size in sizes)


def is_contiguous(sizes: Sizes, strides: Sizes) -> bool:
    """Whether the elements are dense in row-major order."""
    return _is_dense_in(range(len(sizes) - 1, -1, -1), sizes, strides)


def is_surely_contiguous(sizes: Sizes, strides: Sizes) -> bool:
    """Whether they are for all sizes; nothing is asked."""
    return _is_surely(contiguous_strides(sizes), strides)


def is_channels_last(sizes: Sizes, strides: Sizes) -> bool:
    """Whether the elements are dense with the channels innermost."""
    ndim = len(sizes)
    return ndim in (4, 5) and _is_dense_in([1, *range(ndim - 1, 1, -1), 0], sizes, strides)


def _is_dense_in(order: Sequence[int], sizes: Sizes, strides: Sizes) -> bool:
    # the first asks nothing of sizes that may be 1
    if _is_surely(dense_like(sizes, order), strides) or is_empty(sizes):
        return True
    expected: Any = 1
    for d in order:
        if same(sizes[d], 1):
            continue
        if not same(strides[d], expected):
            return False
        expected = expected * sizes[d]
    return True


def _is_surely(a: Sizes, b: Sizes) -> bool:
    """Whether sequences of numbers are equal for all sizes."""
    return len(a) == len(b) and all(x is y or statically_known_true(x == y) for x, y in zip(a, b, strict=True))


def is_dense(sizes: Sizes, strides: Sizes) -> bool:
    """Whether the elements fill their memory, in some order of dims."""
    return is_empty(sizes) or _is_dense_in(_rising(sizes, strides), sizes, strides)


def overlaps_itself(sizes: Sizes, strides: Sizes) -> bool:
    """Whether two indices may reach one element."""
    if is_empty(sizes):
        return False
    reach: Any = 0
    for d in _rising(sizes, strides):
        if not guard_as_large(strides[d] > reach):
            return True
        reach = reach + strides[d] * (sizes[d] - 1)
    return False


def _rising(sizes: Sizes, strides: Sizes) -> list[int]:
    """Dims of more than one element, by rising stride."""
    wide = [d for d in range(len(sizes)) if not same(sizes[d], 1)]

    def order(a: int, b: int) -> int:
        return 0 if same(strides[a], strides[b]) else -1 if guard_as_large(strides[a] < strides[b]) else 1

    return sorted(wide, key=cmp_to_key(order))


def view_strides(sizes: Sizes, strides: Sizes, new: Sizes) -> tuple | None:
    """Strides of the same elements with other sizes; None where there are none."""
    if is_empty(sizes):
        equal = len(sizes) == len(new) and all(same(a, b) for a, b in zip(sizes, new, strict=True))
        return tuple(strides) if equal else contiguous_strides(new)
    if not len(sizes):      # one element, and every size of the view is 1
        return contiguous_strides(new)
    result: list[Any] = [1] * len(new)
    at = len(new) - 1
    base: Any = strides[-1] if len(sizes) else 1
    chunk: Any = 1
    filled: Any = 1
    for d in range(len(sizes) - 1, -1, -1):
        chunk = chunk * sizes[d]
        if d and (same(sizes[d - 1], 1) or same(strides[d - 1], chunk * base)):
            continue
        while at >= 0 and (
            same(new[at], 1) or (not same(filled, chunk) and (d == 0 or guard_as_large(filled < chunk)))
        ):
            result[at] = filled * base
            filled = filled * new[at]
            at -= 1
        # all elements are named, or the sizes would not have been accepted
        if not same(filled, chunk) and not (d == 0 and at < 0):
            return None
        if d:
            base = strides[d - 1]
        chunk = filled = 1
    return tuple(result) if at < 0 else None


def dense_like(sizes: Sizes, order: Sequence[int]) -> tuple:
    """Dense strides with dims from innermost to outermost as given."""
    strides: list[Any] = [1] * len(sizes)
    step: Any = 1
    for d in order:
        strides[d] = step
        step = step * sym_max(sizes[d], 1)
    return tuple(strides)


def broadcast(shapes: Sequence[Sizes]) -> tuple:
    """The common shape; sizes that meet are required to be equal. Of sizes that are one expression nothing is asked."""
    ndim = max((len(s) for s in shapes), default=0)
    result: list[Any] = []
    for d in range(ndim):
        found: list[Any] = []
        for shape in shapes:
            at = d - ndim + len(shape)
            if (
                at >= 0
                and not (isinstance(shape[at], int) and shape[at] == 1)
                and not any(_is_surely((shape[at],), (x,)) for x in found)
            ):
                found.append(shape[at])
        size: Any = found[0] if found else 1
        for other in found[1:]:
            size = other if same(size, 1) else size if same(other, 1) else met(size, other)
        result.append(size)
    return tuple(result)


def met(a: Dim, b: Dim) -> Any:
    """Two sizes that must be one: the plainer of them. RuntimeError if they are not."""
    equal = a == b
    if not (equal.expect_true() if hasattr(equal, "expect_true") else equal):
        raise RuntimeError(f"sizes {a} and {b} do not match, and neither is 1")
    return a if isinstance(a, int) else b


def pointwise_strides(sizes: Sizes, operands: Sequence[tuple[Sizes, Sizes]]) -> tuple:
    """Strides of a fresh result of a pointwise op: dense, with dims in the order of the operands'."""
    ndim = len(sizes)
    plain = contiguous_strides(sizes)
    wide = [o for o in operands if len(o[0])]
    if all(_is_surely(own, sizes) and _is_surely(strides, plain) for own, strides in wide):
        return plain
    padded = [
        ([1] * (ndim - len(own)) + list(own), [0] * (ndim - len(own)) + list(strides)) for own, strides in operands
    ]
    order = list(range(ndim - 1, -1, -1))
    for i in range(1, ndim):
        slot = i
        for j in range(i - 1, -1, -1):
            found = _compare(order[j], order[slot], sizes, padded)
            if found > 0:
                order[j], order[slot] = order[slot], order[j]
                slot = j
            elif found < 0:
                break
    return dense_like(sizes, order)


def _compare(a: int, b: int, sizes: Sizes, operands: Sequence[tuple[Sizes, Sizes]]) -> int:
    """Which of two dims is further in, as the operands are laid out; 0 if none of them tells."""
    for own, strides in operands:
        first, second = (0 if same(own[d], 1) else strides[d] for d in (a, b))
        if same(first, 0) or same(second, 0):
            continue
        if not same(first, second):
            return -1 if guard_as_large(first < second) else 1
        if guard_as_large(sizes[a] > sizes[b]):
            return 1
    return 0
