"""Contractions as matrix products: which ranges are rows, columns, sums and batches of them.

Enters: a Lowered whose folding gives both factors of its products (loops/contraction.py). Leaves: its `Parts`, each
group of ranges joined to one; None where they are not one range in memory, for all that is read and for the result.
Every scheduler starts here.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....loops.expr import Value, arg, cast, walk
from ....loops.lowered import HERE, Lowered, Memory, Placed, Staged, Table
from ....loops.record import Record
from .axes import Axis, coalesce
from .sources import sources_of


class Parts(Record):
    """A product c[b, i, j] = sum over k of left[b, i, k] * right[b, j, k], and what is made of it.

    Axes hold the stride of every tensor read, and of the result (`other`); `left`, `right` and `late` number the
    tensors that each factor and the epilogue read."""

    batch: Axis
    rows: Axis
    columns: Axis
    deep: Axis
    left: tuple[int, ...]
    right: tuple[int, ...]
    late: tuple[int, ...]
    swapped: bool               # the first factor is on the right: columns of the result are its lines

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        return self.batch.size, self.rows.size, self.columns.size, self.deep.size


def leaves(lowered: Lowered) -> list[Placed]:
    """The tensors read, as numbered leaves of expressions."""
    return [Placed(r, None, m.code, arg(r, m.code)) for r, m in enumerate(lowered.memories)]


def factors_of(lowered: Lowered, placed: Sequence[Placed]) -> tuple[Value, Value]:
    """Both factors of an element, from its reads; in the type that products are added up in."""
    x, y = lowered.folding.factors(HERE, sources_of(lowered, placed))
    return cast(x, lowered.folding.compute), cast(y, lowered.folding.compute)


def result_of(lowered: Lowered, placed: Sequence[Placed], total: Value) -> Value:
    """What is stored of a sum; None where it is the sum as it is."""
    values: Sequence[Value] = (total,)
    if lowered.folding.epilogue is not None:
        values = lowered.folding.epilogue(sources_of(lowered, placed), [cast(total, lowered.folding.compute)])
    return cast(values[0], lowered.outs[0])


def parts_of(lowered: Lowered, splits: bool = False) -> Parts | None:
    """The groups of ranges; None where this is no contraction, or no product of matrices one range each. `splits`: of
    two ranges of rows or columns the outer one may be that of batches, which one factor does not have."""
    folding = lowered.folding
    if folding is None or folding.factors is None or not lowered.aligned or len(lowered.outs) != 1:
        return None
    if folding.windows or folding.start or folding.result or any(isinstance(r, (Staged, Table)) for r in lowered.reads):
        return None
    read = [{v.attr for v in walk((f,)) if v.op == "arg"} for f in factors_of(lowered, leaves(lowered))]
    count = len(lowered.memories)
    late = tuple(range(count - folding.after, count))
    left, right = (tuple(sorted(r)) for r in read)
    if set(left) & set(right) or set(late) & {*left, *right} or not left or not right:
        return None
    groups = grouped(lowered, left, right)
    for lines in groups[1:3] if splits and not groups[0] else ():
        if len(lines) == 2 and not groups[0]:
            groups[0].append(lines.pop(0))
    if any(len(g) > 1 for g in groups):
        return None
    batch, rows, columns, deep = (g[0] if g else Axis(1, (0,) * count, 0) for g in groups)
    swapped = bool(columns.other != 1) and bool(rows.other == 1)
    if swapped:
        left, right, rows, columns = right, left, columns, rows
    return Parts(batch, rows, columns, deep, left, right, late, swapped)


def grouped(lowered: Lowered, left: Sequence[int], right: Sequence[int]) -> list[list[Axis]]:
    """Ranges of batches, rows, columns and sums, neighbours joined."""
    strides = [m.along() for m in lowered.memories if isinstance(m, Memory)]
    steps = result_strides(lowered)
    groups: list[list[Axis]] = [[], [], [], []]
    for d in range(len(lowered.ranges) - 1, -1, -1):
        size, along = lowered.ranges[d], tuple([s[d] for s in strides])
        if size == 1:
            continue
        if d in lowered.folding.reduced:
            inner = groups[3][-1] if groups[3] else None
            groups[3].append(Axis(size, along, 1 if inner is None else inner.other * inner.size))
            continue
        in_left, in_right = (any(along[r] != 0 for r in side) for side in (left, right))
        which = 1 if in_left and not in_right else 2 if in_right and not in_left else 0
        groups[which].append(Axis(size, along, steps[d]))
    return [coalesce(g) for g in groups]


def result_strides(lowered: Lowered) -> list[int]:
    """How far the result's elements are apart along every range; 0 along those that are folded."""
    kept = [d for d in range(len(lowered.ranges)) if d not in lowered.folding.reduced]
    if lowered.layout is not None:
        own = dict(zip(kept, lowered.layout, strict=True)) if len(lowered.layout) == len(kept) else None
        if own is None:
            own = dict(enumerate(lowered.layout))
        return [0 if d in lowered.folding.reduced else own[d] for d in range(len(lowered.ranges))]
    steps, step = [0] * len(lowered.ranges), 1
    for d in reversed(kept):
        steps[d] = step
        step = step * lowered.ranges[d]
    return steps
