"""CPU schedules of folds.

Enters: a Lowered with a `folding`. Leaves: one launch, or two where one output needs many elements: partial results of
chunks whose size depends on the shape alone, then their merge, so results never depend on the number of threads.

Two loop forms, of any rank: *rows* fold along the contiguous dim, one output at a time, in vectors; *columns* keep
the contiguous dim and fold many outputs at a time, one per lane. What an inlined epilogue reads has no stride along the
folded ranges, and is read once, where the result is stored.
"""

from __future__ import annotations

from ....base.shape import is_below
from ....loops.expr import const, idiv, irem, min_, var
from ....loops.lowered import Fold, Lowered
from ....loops.nest import For, Local, Nest, operands, rows
from ..forms.axes import Axis, locate
from ..forms.fold import (
    ZERO,
    FoldNest,
    Shape,
    accumulator_codes,
    lane_axis,
    late_params,
    launch_numbers,
    leading,
    leading_factor,
    merge_nest,
    split_axes,
)
from ..forms.launch import ENOUGH_ROWS, GRAIN, Launch, Schedule, Temp, grain_of, names, product

ROW_CHUNK = 65536        # elements of one partial result along a contiguous dim
STRIDED_CHUNK = 2048     # the same where elements are folded one by one: bounds the rounding error of sums
SHORT_ROW = 32           # elements below which rows of slow folds go side by side
COLUMN_CHUNK = 256       # rows of one partial result when lanes are columns


def schedule_fold(lowered: Lowered) -> Schedule:
    """The launches of a fold."""
    folding, memories = lowered.folding, lowered.memories
    strides = [m.along() for m in memories]
    lead = leading(strides) if folding.factors is None else leading_factor(lowered, strides)
    kept, folded = split_axes(lowered.ranges, strides, lead, folding.reduced)
    count = product(a.size for a in folded)
    outputs = product(a.size for a in kept)
    if outputs == 0:
        return Schedule(())
    lane = lane_axis(kept, folded, lead) or (row_axis(kept, folded, lead) if folding.fold.slow else None)
    per_chunk = chunk_length(folding.fold, folding.compute, kept, folded, lane, lead)
    chunks = -(-folded[0].size // per_chunk) if per_chunk else 1
    inner = (
        len(memories) > 1 and lane is None and chunks == 1 and len(kept) > 1 and outputs // kept[-1].size >= ENOUGH_ROWS
    )
    # one read has its stride tested where it runs
    unit = tuple([r for r, s in enumerate(folded[-1].strides) if s == 1]) if len(memories) > 1 else ()
    still = tuple([r for r, s in enumerate(folded[-1].strides) if s == 0]) if len(memories) > 1 else ()
    strided = len(memories) == 1 and lane is None and folded[-1].strides[0] not in (0, 1)
    apart = () if lane is None else tuple([next((n for n in (0, 1) if s == n), None) for s in lane.strides])
    is_dense = lane is not None and lane.other == 1
    shape = Shape(len(kept), len(folded), lane is not None, is_dense, chunks > 1, inner, strided, unit, still, apart)
    key = ("fold", lowered.key, tuple([m.code for m in memories]), lowered.outs, lead, shape)
    params, extent, grain = launch_numbers(lowered, kept, folded, lane, lead, per_chunk, chunks, count, outputs)
    if inner:
        extent, grain = outputs // kept[-1].size, grain_of(count * kept[-1].size)

    def nest() -> Nest:
        return CpuFoldNest(lowered, lead, shape).nest()

    inside, results = len(memories), range(len(memories), len(memories) + len(lowered.outs))
    if not shape.chunked:
        return Schedule((Launch(key, nest, (*range(inside), *results), params, extent, grain),))
    codes = accumulator_codes(lowered)
    temps = range(inside + len(lowered.outs), inside + len(lowered.outs) + len(codes))
    read, late = list(range(inside - folding.after)), list(range(inside - folding.after, inside))
    joined = [outputs, chunks, count, *late_params(lowered, kept)]
    return Schedule(
        (
            Launch(key, nest, (*read, *temps), params, extent, grain),
            Launch(
                ("merge", *key),
                lambda: merge_nest(lowered, len(kept)),
                (*temps, *late, *results),
                tuple(joined),
                outputs,
                max(1, GRAIN // chunks),
            ),
        ),
        tuple([Temp(code, (chunks * outputs,)) for code in codes]),
    )


def row_axis(kept: list[Axis], folded: list[Axis], lead: int) -> Axis | None:
    """The kept dim whose rows go side by side on lanes, where there are many and they are short."""
    if len(folded) != 1 or not folded[0].strides or not is_below(folded[0].size, SHORT_ROW):
        return None
    return next((a for a in reversed(kept) if a.strides[lead] not in (0, 1) and a.size >= SHORT_ROW), None)


def chunk_length(fold: Fold, compute: str, kept: list[Axis], folded: list[Axis], lane: Axis | None, lead: int) -> int:
    """Steps of the outermost folded loop per partial result; 0: the whole of it at once."""
    count = product(a.size for a in folded)
    outputs = product(a.size for a in kept)
    inner = max(1, count // max(1, folded[0].size))
    rounds = fold.blocked and compute[0] in "fc"
    scarce = count * outputs > 8 * GRAIN
    if lane is not None:
        needed = count > 2 * COLUMN_CHUNK and (rounds or scarce)
        length = COLUMN_CHUNK if count * lane.size <= 64 * ROW_CHUNK or outputs < 8 * 64 else 2 * COLUMN_CHUNK
    elif not folded[-1].strides or (
        folded[-1].strides[lead] == 1 and all(s == 1 or s == 0 for s in folded[-1].strides)
    ):
        needed = scarce and outputs < 8
        length = ROW_CHUNK
    else:
        needed = (rounds and count > 2 * STRIDED_CHUNK) or (scarce and outputs < 8)
        length = STRIDED_CHUNK if rounds else ROW_CHUNK
    length = max(1, length // inner)
    return length if needed and length < folded[0].size else 0


class CpuFoldNest(FoldNest):
    """The first nest of a fold: rows or columns."""

    careful = True

    def nest(self) -> Nest:
        return self.columns() if self.shape.lanes else self.rows()

    def rows(self) -> Nest:
        """One output per iteration, elements folded in vectors."""
        item, chunk, bounds = var("i"), None, (ZERO, var(self.sizes[0]))
        if self.shape.chunked:
            self.params += ["per_chunk", "chunks", "outputs"]
            item, chunk = idiv(item, var("chunks")), irem(item, var("chunks"))
            bounds = self.chunk_bounds(chunk)
        body = [Local(base, locate(item, self.kept_sizes, self.kept_strides[r])) for r, base in enumerate(self.bases)]
        if self.shape.inner:
            return self.inner_rows()
        fold, accs = self.loops(0, [var(base) for base in self.bases], bounds)
        at = item if chunk is None else chunk * var("outputs") + item
        stores = self.stores(accs, at, [var(base) for base in self.bases])
        return Nest(
            f"{self.lowered.name}_rows",
            operands(self.codes, self.outs),
            (*self.params, *self.last_params()),
            rows(*body, *fold, *stores),
        )

    def inner_rows(self) -> Nest:
        """Outputs along the last kept loop one after another in each iteration, each folded in vectors."""
        sizes, item, q = self.kept_sizes, var("i"), var("q")
        head = [Local(base, locate(item, sizes[:-1], self.kept_strides[r][:-1])) for r, base in enumerate(self.bases)]
        places = [var(base) + q * var(self.kept_strides[r][-1]) for r, base in enumerate(self.bases)]
        fold, accs = self.loops(0, places, (ZERO, var(self.sizes[0])))
        stores = self.stores(accs, item * var(sizes[-1]) + q, places)
        loop = rows(*head, For("q", ZERO, var(sizes[-1]), (*fold, *stores)))
        return Nest(
            f"{self.lowered.name}_rows", operands(self.codes, self.outs), (*self.params, *self.last_params()), loop
        )

    def columns(self) -> Nest:
        """Many outputs per iteration: each lane folds one column."""
        kept_out = names("ko", len(self.kept_sizes))
        self.params += [*kept_out, "lanes", "lane_out", "width", "blocks"]
        item, chunk, bounds = var("i"), None, (ZERO, var(self.sizes[0]))
        block, item = irem(item, var("blocks")), idiv(item, var("blocks"))
        if self.shape.chunked:
            self.params += ["per_chunk", "chunks", "outputs"]
            chunk, item = irem(item, var("chunks")), idiv(item, var("chunks"))
            bounds = self.chunk_bounds(chunk)
        out = locate(item, self.kept_sizes, kept_out)
        out = out if chunk is None else out + chunk * var("outputs")
        head = [Local(base, locate(item, self.kept_sizes, self.kept_strides[r])) for r, base in enumerate(self.bases)]
        head += [Local("out", out), Local("first", block * var("width"))]
        lanes = [
            var(base) + var("v") * (var(step) if apart is None else const(apart, "i64"))
            for base, step, apart in zip(self.bases, self.lane_strides, self.shape.apart, strict=False)
        ]
        fold, accs = self.loops(0, lanes, bounds)
        at = var("out") + (var("v") if self.shape.dense else var("v") * var("lane_out"))
        last = min_(var("first") + var("width"), var("lanes"))
        inner = For("v", var("first"), last, (*fold, *self.stores(accs, at, lanes)), vector=True,
                    gathers=self.spaced)
        return Nest(
            f"{self.lowered.name}_columns",
            operands(self.codes, self.outs),
            (*self.params, *self.last_params()),
            rows(*head, inner),
        )
