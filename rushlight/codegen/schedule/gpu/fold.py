"""GPU schedules of folds.

Enters: a Lowered with a `folding`. Leaves: one launch, or two where there are too few results to fill the unit: partial
results of chunks, then their merge. Where elements that are folded lie side by side a block folds them for one result;
where those of neighbouring results do, or a result has few elements, each thread folds its own; many rows of whole
vectors are folded by blocks that take tiles of columns (codegen/nvptx/columns.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from ....loops.expr import Value, idiv, irem, var
from ....loops.lowered import Lowered, TwoPass
from ....loops.nest import For, Local, Nest, operands, rows
from ...text.primitives import SIZE
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
from ..forms.launch import Launch, Schedule, Temp, product

BLOCKS = 1056            # that keep a unit busy
TURN = 16384             # elements of a half type that a block has under way at once
THREADS = 262144         # the same, of single threads
BLOCK_CHUNK = 8192       # elements from which on a block gets help
THREAD_CHUNK = 64        # elements from which on a thread gets help
WHOLE = 64               # elements that chunks of a row are multiples of
SHORT = 32               # elements that one thread folds as quickly as a block
TILES = 264              # blocks of columns that keep a unit busy, all at once
TILE_ROWS = 128          # rows that are worth such a block
LANES = 32               # vectors of columns that it takes


def schedule_fold(lowered: Lowered) -> Schedule:
    """The launches of a fold."""
    folding, memories = lowered.folding, lowered.memories
    strides = [m.along() for m in memories]
    lead = leading(strides) if folding.factors is None else leading_factor(lowered, strides)
    kept, folded = split_axes(lowered.ranges, strides, lead, folding.reduced)
    count, outputs = product(a.size for a in folded), product(a.size for a in kept)
    if outputs == 0:
        return Schedule(())
    by_thread = lane_axis(kept, folded, lead) is not None or count <= SHORT
    once = len(folded) == 1 and not isinstance(folding.fold, TwoPass)
    near = near_strides(kept, len(memories)) if by_thread and once else ()
    each = column_vector(outputs, [m.code for m in memories], near) if count >= TILE_ROWS else 0
    if each:
        chunks = min(TILES // -(-outputs // (each * LANES)), count // TILE_ROWS)
    else:
        chunks = (THREADS if by_thread else BLOCKS) // outputs
        chunks = min(chunks, count // (THREAD_CHUNK if by_thread else BLOCK_CHUNK), folded[0].size)
    per_chunk = -(-folded[0].size // chunks) if chunks > 1 else 0
    if per_chunk and len(folded) == 1 and not by_thread:     # chunks start where vectors may; long ones are whole turns
        whole = TURN if per_chunk > 4 * TURN else WHOLE
        per_chunk = -(-per_chunk // whole) * whole
    chunks = -(-folded[0].size // per_chunk) if per_chunk else 1
    unit = tuple([r for r, s in enumerate(folded[-1].strides) if s == 1])
    shape = Shape(len(kept), len(folded), False, False, chunks > 1, False, False, unit, (), ())
    key = ("gpu fold", lowered.key, tuple([m.code for m in memories]), lowered.outs, lead, shape, by_thread, near)
    params, _, _ = launch_numbers(lowered, kept, folded, None, lead, per_chunk, chunks, count, outputs)

    def nest() -> Nest:
        return GpuFoldNest(lowered, lead, shape, by_thread, near).nest()

    inside, results = len(memories), range(len(memories), len(memories) + len(lowered.outs))
    if chunks == 1:
        return Schedule((Launch(key, nest, (*range(inside), *results), params, outputs, 1),))
    codes = accumulator_codes(lowered)
    temps = range(inside + len(lowered.outs), inside + len(lowered.outs) + len(codes))
    read, late = list(range(inside - folding.after)), list(range(inside - folding.after, inside))
    joined = (outputs, chunks, count, *late_params(lowered, kept))
    few = chunks <= SHORT or bool(each)
    merge = Launch(
        ("merge", few, *key), lambda: merged(lowered, len(kept), few), (*temps, *late, *results), joined, outputs, 1
    )
    result = (Launch(key, nest, (*read, *temps), params, outputs * chunks, 1), merge)
    return Schedule(result, tuple([Temp(code, (chunks * outputs,)) for code in codes]))


def near_strides(kept: Sequence[Axis], reads: int) -> tuple[int, ...]:
    """Strides of the reads along the last of the kept loops, where they are all 0 or 1 and some are 1."""
    strides = kept[-1].strides[:reads] if kept else ()
    return strides if 1 in strides and all(s in (0, 1) for s in strides) else ()


def column_vector(outputs: int, codes: Sequence[str], near: Sequence[int]) -> int:
    """Columns that a thread of a tile takes; 0 where there are no tiles."""
    sizes = [SIZE[code] for code, s in zip(codes, near, strict=True) if s] if near else []
    each = min(8, 16 // min(sizes)) if sizes else 0
    return each if each and outputs % each == 0 else 0


class GpuFoldNest(FoldNest):
    """The first nest of a fold: results next to each other are neighbours among threads, then come the chunks."""

    def __init__(self, lowered: Lowered, lead: int, shape: Shape, by_thread: bool, near: tuple[int, ...]) -> None:
        super().__init__(lowered, lead, shape)
        self.by_thread, self.near = by_thread, near

    def base(self, item: Value, r: int) -> Value:
        """Where the elements of result number `item` start, of the read `r`."""
        if not self.near:
            return locate(item, self.kept_sizes, self.kept_strides[r])
        last = self.kept_sizes[-1]
        alone = len(self.kept_sizes) == 1
        along = (item if alone else irem(item, var(last))) if self.near[r] else ZERO
        others = self.kept_sizes[:-1], self.kept_strides[r][:-1]
        return along if alone else locate(idiv(item, var(last)), *others) + along

    def nest(self) -> Nest:
        """One result, or one chunk of it, per iteration."""
        item, at, bounds = var("i"), var("i"), (ZERO, var(self.sizes[0]))
        if self.shape.chunked:
            self.params += ["per_chunk", "chunks", "outputs"]
            item, chunk = irem(item, var("outputs")), idiv(item, var("outputs"))
            bounds = self.chunk_bounds(chunk)
        body = [Local(base, self.base(item, r)) for r, base in enumerate(self.bases)]
        fold, accs = self.loops(0, [var(base) for base in self.bases], bounds)
        stores = self.stores(accs, at, [var(base) for base in self.bases])
        signature = operands(self.codes, self.outs)
        return Nest(
            f"{self.lowered.name}_fold",
            signature,
            (*self.params, *self.last_params()),
            rows(*body, *fold, *stores, vector=self.by_thread),
        )


def merged(lowered: Lowered, kept: int, by_thread: bool) -> Nest:
    """The partial results joined: by a thread for each result, or by a block."""
    nest = merge_nest(lowered, kept)
    loop = nest.loop
    return (
        nest
        if by_thread
        else Nest(nest.name, nest.operands, nest.params, For(loop.var, loop.start, loop.stop, loop.body), nest.point)
    )
