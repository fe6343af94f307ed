"""Folds: which ranges are kept and which folded, loops that fold elements, and the merge of partial results.

Enters: a Lowered with a `folding`. Leaves: axes, parameters, and the parts of nests that CPUs and GPUs share. What an
inlined epilogue reads has no stride along the folded ranges, and is read once, where the result is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from ....loops.expr import Value, cast, const, min_, select, var
from ....loops.lowered import HERE, Lowered, Placed, TwoPass
from ....loops.nest import Assign, Fetch, For, If, Local, Nest, Statement, Store, operands, reduction, rows
from ....loops.record import Record
from ....loops.vocabulary import Scalars
from ...text.primitives import SIZE
from ...text.targets import vector_bits
from .axes import Axis, coalesce, locate
from .launch import GRAIN, grain_of, names
from .sources import given_bits, given_names, sources_of

ZERO = const(0, "i64")
WIDE_COLUMNS = 4096      # columns folded together: the generator keeps their accumulators in cache
EARLY = 8    # bytes per bit of a register: how far ahead of its use a stream is asked for
scalars = Scalars()


class Shape(Record):
    """What a kernel's code depends on besides types."""

    kept: int
    folded: int
    lanes: bool         # columns form
    dense: bool         # columns form: neighbouring lanes are neighbours in the output
    chunked: bool
    inner: bool         # rows form: the last kept loop lies inside an iteration, which then divides no position of it
    strided: bool       # rows form, one read: its elements are not neighbours
    # of several reads, those whose neighbours along the innermost folded loop are neighbours in memory
    unit: tuple[int, ...]
    still: tuple[int, ...]      # those that have one element for the whole of that loop
    # columns form: of every read, the distance of neighbouring lanes if that is 0 or 1, which would else be asked for
    # where it runs; and lanes that share one element would run one by one
    apart: tuple[int | None, ...]


def accumulator_codes(lowered: Lowered) -> list[str]:
    """The types of the fold's accumulators."""
    return [v.dtype for v in lowered.folding.fold.init(scalars, lowered.folding.compute)]


def leading(strides: Sequence[Sequence[int]]) -> int:
    """The read whose layout decides the order of loops: that which the fewest ranges repeat."""
    if len(strides) < 2:
        return 0
    return max(range(len(strides)), key=lambda r: sum([bool(s != 0) for s in strides[r]]) * len(strides) - r)


def leading_factor(lowered: Lowered, strides: Sequence[Sequence[int]]) -> int:
    """The same for a product: the factor whose neighbours are neighbouring results."""
    kept = [d for d in range(len(lowered.ranges)) if d not in lowered.folding.reduced and lowered.ranges[d] != 1]
    near = [r for r, s in enumerate(strides) if kept and s[kept[-1]] == 1 and r < len(strides) - lowered.folding.after]
    return near[0] if near else leading(strides)


def split_axes(
    sizes: Sequence[int], strides: Sequence[Sequence[int]], lead: int, dims: frozenset[int]
) -> tuple[list[Axis], list[Axis]]:
    """Kept loops in output order, and folded loops from the largest stride to the smallest; at least one of these."""
    kept, folded = [], []
    other_kept = other_folded = 1
    for d in range(len(sizes) - 1, -1, -1):
        along = tuple([s[d] for s in strides])
        if d in dims:
            folded.append(Axis(sizes[d], along, other_folded))
            other_folded *= sizes[d]
        else:
            kept.append(Axis(sizes[d], along, other_kept))
            other_kept *= sizes[d]
    one = (1,) * len(strides)
    if other_folded == 0:
        folded = [Axis(0, one, 1)]
    folded = [a for a in folded if a.size != 1]
    if len(folded) > 1 and strides:
        folded.sort(key=lambda a: a.strides[lead])
    return coalesce([a for a in kept if a.size != 1]), coalesce(folded) or [Axis(1, one, 1)]


def lane_axis(kept: list[Axis], folded: list[Axis], lead: int) -> Axis | None:
    """The kept dim to put on lanes, if the contiguous dim is kept."""
    if not folded[-1].strides or (folded[-1].strides[lead] == 1 and folded[-1].size > 1):
        return None
    return next((a for a in kept if a.strides[lead] == 1 and a.size >= 4), None)


def launch_numbers(
    lowered: Lowered,
    kept: list[Axis],
    folded: list[Axis],
    lane: Axis | None,
    lead: int,
    per_chunk: int,
    chunks: int,
    count: int,
    outputs: int,
) -> tuple[tuple[int, ...], int, int]:
    """Run-time parameters, extent and grain of the first kernel."""
    reads = len(lowered.memories)
    others = kept if lane is None else [a for a in kept if a is not lane]
    params = [a.size for a in others] + [a.strides[lead] for a in others if reads]
    params += [a.size for a in folded] + [a.strides[lead] for a in folded if reads]
    if lowered.folding.fold.uses_index:
        params += [a.other for a in folded]
    params.append(count)
    work = count if not per_chunk else per_chunk * (count // folded[0].size)
    extent = chunks
    if lane is None:
        extent *= outputs
    else:
        # Whole rows stream from memory; pieces of them do not. Chunks of rows are the parallel work, if there are any.
        least = WIDE_COLUMNS if chunks > 1 or lane.size > 4 * WIDE_COLUMNS else WIDE_COLUMNS // 4
        width = max(least, GRAIN // max(1, work) // 64 * 64)
        blocks = -(-lane.size // width)
        params += [a.other for a in others] + [lane.size, lane.other, width, blocks]
        extent *= blocks * (outputs // lane.size)
        work *= min(width, lane.size)
    if chunks > 1:
        params += [per_chunk, chunks, outputs]
    for r in range(reads):
        if r != lead and not (chunks > 1 and r >= reads - lowered.folding.after):
            params += (
                [a.strides[r] for a in others]
                + [a.strides[r] for a in folded]
                + ([] if lane is None else [lane.strides[r]])
            )
    if lane is not None and reads and lane.strides[lead] != 1:
        params.append(lane.strides[lead])
    return (*params, *given_bits(lowered)), extent, grain_of(work)


def late_params(lowered: Lowered, kept: list[Axis]) -> list[int]:
    """What the merging kernel needs for the reads of the epilogue."""
    if lowered.folding.epilogue is None:
        return []
    first = len(lowered.memories) - lowered.folding.after
    result = [a.size for a in kept if lowered.folding.after]
    for r in range(first, len(lowered.memories)):
        result += [a.strides[r] for a in kept]
    return [*result, *given_bits(lowered)]


class FoldNest:
    """What the first nest of a fold is made of, for one combination of types and shape; each kind of device divides its
    results among threads in its own way."""

    careful: ClassVar[bool] = False      # runs whose numbers leave the range of their type are folded again, wider

    def __init__(self, lowered: Lowered, lead: int, shape: Shape) -> None:
        self.lowered, self.lead, self.shape = lowered, lead, shape
        self.fold, self.compute = lowered.folding.fold, lowered.folding.compute
        self.codes = [m.code for m in lowered.memories]
        if shape.chunked:       # the epilogue comes with the merge
            self.codes = self.codes[: len(self.codes) - lowered.folding.after]
        self.outs = accumulator_codes(lowered) if shape.chunked else list(lowered.outs)
        self.init = list(self.fold.init(scalars, self.compute))
        others = shape.kept - shape.lanes
        self.kept_sizes, self.sizes = names("k", others), names("r", shape.folded)
        self.kept_strides = [names("ks" if r == lead else f"ks{r}.", others) for r in range(len(self.codes))]
        self.strides = [names("rs" if r == lead else f"rs{r}.", shape.folded) for r in range(len(self.codes))]
        self.spaced = bool(shape.apart) and shape.apart[lead] is None     # lanes of the leading read are no neighbours
        self.lane_strides = [None if r == lead and not self.spaced else f"ls{r}" for r in range(len(self.codes))]
        self.bases = ["base" if r == lead else f"base{r}" for r in range(len(self.codes))]
        self.index_strides = names("ri", shape.folded) if self.fold.uses_index else []
        main = [] if not self.codes else [self.kept_strides[lead], self.strides[lead]]
        self.params = [
            *self.kept_sizes,
            *(main[0] if main else ()),
            *self.sizes,
            *(main[1] if main else ()),
            *self.index_strides,
            "count",
        ]

    def last_params(self) -> list[str]:
        """The strides of reads other than the leading one, and the numbers."""
        outs = []
        for r in range(len(self.codes)):
            if r != self.lead:
                outs += [*self.kept_strides[r], *self.strides[r], *([self.lane_strides[r]] if self.shape.lanes else [])]
        if self.codes and self.shape.lanes and (step := self.lane_strides[self.lead]) is not None:
            outs.append(step)
        return [*outs, *given_names(self.lowered)]

    def chunk_bounds(self, chunk: Value) -> tuple[Value, Value]:
        start = chunk * var("per_chunk")
        return start, min_(start + var("per_chunk"), var(self.sizes[0]))

    def element(self, offsets: list[Value]) -> Value:
        """The element that is folded, its operands at these places."""
        return self.lowered.body(HERE, self.sources(offsets))[0]

    def sources(self, offsets: list[Value]) -> list[Any]:
        placed: list[Any] = [Placed(r, at, code) for r, (at, code) in enumerate(zip(offsets, self.codes, strict=True))]
        placed += [None] * (len(self.lowered.memories) - len(placed))
        return sources_of(self.lowered, placed)

    def loops(
        self, depth: int, offsets: list[Value], bounds: tuple[Value, Value], index: Value = ZERO
    ) -> tuple[list[Statement], list[Value]]:
        """Statements that fold ranges `depth` and deeper, and the accumulators they leave."""
        at = var(f"j{depth}")
        unit, still = (self.shape.unit, self.shape.still) if depth == self.shape.folded - 1 else ((), ())
        offsets = [
            offset if r in still else offset + (at if r in unit else at * var(self.strides[r][depth]))
            for r, offset in enumerate(offsets)
        ]
        if self.index_strides:   # one folded loop counts its positions itself
            index = at if self.shape.folded == 1 else index + at * var(self.index_strides[depth])
        accs = names(f"acc{depth}.", len(self.init))
        if depth == self.shape.folded - 1 and isinstance(self.fold, TwoPass):
            return self.two_passes(at, offsets, bounds)
        if depth == self.shape.folded - 1:
            element = self.element(offsets)
            seen = index if self.fold.uses_index else None
            result = reduction(
                at.attr, *bounds, accs, self.init,
                step=lambda acc: self.fold.step(scalars, acc, element, seen),
                merge=lambda a, b: self.fold.merge(scalars, a, b),
                blocked=self.fold.blocked and self.compute[0] in "fc", gathers=self.shape.strided,
                body=self.requests(offsets, unit),
            )
            return [result], [var(a, v.dtype) for a, v in zip(accs, self.init, strict=True)]
        inside, parts = self.loops(depth + 1, offsets, (ZERO, var(self.sizes[depth + 1])), index)
        now = [var(a, v.dtype) for a, v in zip(accs, self.init, strict=True)]
        merged = self.fold.merge(scalars, now, parts)
        together = [Local(f"next{depth}.{k}", v) for k, v in enumerate(merged)]
        moved = [
            Assign(a, var(f"next{depth}.{k}", v.dtype)) for k, (a, v) in enumerate(zip(accs, self.init, strict=True))
        ]
        declared = [Local(a, v) for a, v in zip(accs, self.init, strict=True)]
        return [*declared, For(at.attr, *bounds, (*inside, *together, *moved))], now

    def requests(self, offsets: list[Value], unit: Sequence[int]) -> list[Statement]:
        """Matrices that are multiplied by a vector come through once, a row after another: asked for early they come a
        tenth sooner (Neoverse N1, Sapphire Rapids)."""
        if self.lowered.name != "vector_product" or len(unit) != 2 or self.shape.lanes:
            return []
        streams = [r for r in unit if None not in self.lowered.memories[r].dims]
        return [Fetch(r, offsets[r] + const(EARLY * vector_bits() // SIZE[self.codes[r]], "i64")) for r in streams]

    def two_passes(
        self, at: Value, offsets: list[Value], bounds: tuple[Value, Value]
    ) -> tuple[list[Statement], list[Value]]:
        """Statements that fold a run in two passes, and the accumulators they leave."""
        fold, element, length = self.fold, self.element(offsets), bounds[1] - bounds[0]
        body, known, second = self.both_passes(fold, "", at, element, length, self.reduced_run(at, bounds))
        joined = fold.join(scalars, known, second, length)
        body += [Local(f"joined{k}", v) for k, v in enumerate(joined)]
        joined = [var(f"joined{k}", v.dtype) for k, v in enumerate(joined)]
        if fold.careful is None or not self.careful:
            return body, joined
        doubt = var("doubt", "b1")
        body.append(Local("doubt", fold.doubts(scalars, known, second, length)))
        again = self.lanes_run(at, bounds, doubt) if self.shape.lanes else self.reduced_run(at, bounds)
        more, known, second = self.both_passes(fold.careful, "careful.", at, element, length, again)
        better = fold.careful.join(scalars, known, second, length)
        if self.shape.lanes:
            return [*body, *more], [select(doubt, b, j) for b, j in zip(better, joined, strict=True)]
        more += [Assign(j.attr, b) for j, b in zip(joined, better, strict=True)]
        return [*body, If(doubt, tuple(more))], joined

    def both_passes(
        self, fold: TwoPass, prefix: str, at: Value, element: Value, length: Value, run: Callable
    ) -> tuple[list[Statement], list[Value], list[Value]]:
        """The loops of both passes, what the second knows, and what it leaves; `run` makes a loop of a step."""
        totals = run(
            f"{prefix}run",
            list(fold.first.init(scalars, self.compute)),
            lambda acc: fold.first.step(scalars, acc, element, None),
            lambda a, b: fold.first.merge(scalars, a, b),
        )
        middle = fold.middle(scalars, totals[1], length)
        known = [var(f"{prefix}known{k}", v.dtype) for k, v in enumerate(middle)]
        second = run(
            f"{prefix}again",
            list(fold.second_init(scalars, self.compute)),
            lambda acc: fold.second_step(scalars, acc, element, known),
            lambda a, b: [x + y for x, y in zip(a, b, strict=True)],
        )
        named = [Local(f"{prefix}known{k}", v) for k, v in enumerate(middle)]
        return [*totals[0], *named, *second[0]], known, second[1]

    def reduced_run(self, at: Value, bounds: tuple[Value, Value]) -> Callable:
        """A maker of loops over a run, in vectors where it lies so."""

        def run(name: str, init: list[Value], step: Callable, merge: Callable) -> tuple[list[Statement], list[Value]]:
            loop = reduction(at.attr, *bounds, names(name, len(init)), init, step=step, merge=merge, blocked=True)
            return [loop], [var(f"{name}{k}", v.dtype) for k, v in enumerate(init)]

        return run

    def lanes_run(self, at: Value, bounds: tuple[Value, Value], doubt: Value) -> Callable:
        """A maker of loops that all lanes go through together, as long as one of them is in doubt."""

        def run(name: str, init: list[Value], step: Callable, merge: Callable) -> tuple[list[Statement], list[Value]]:
            now = [var(f"{name}{k}", v.dtype) for k, v in enumerate(init)]
            after = step(now)
            kept = [Local(f"{name}{k}.next", v) for k, v in enumerate(after)]
            moved = [Assign(f"{name}{k}", var(f"{name}{k}.next", v.dtype)) for k, v in enumerate(after)]
            loop = For(at.attr, *bounds, (*kept, *moved), going=doubt)
            return [*[Local(f"{name}{k}", v) for k, v in enumerate(init)], loop], now

        return run

    def stores(self, accs: list[Value], at: Value, offsets: list[Value]) -> list[Statement]:
        values = accs if self.shape.chunked else finished(self.lowered, accs, self.sources(offsets))
        return [
            Store(len(self.codes) + k, at, cast(v, code))
            for k, (v, code) in enumerate(zip(values, self.outs, strict=True))
        ]


def finished(lowered: Lowered, accs: list[Value], sources: list[Any]) -> Sequence[Value]:
    """The outputs: what the fold makes of its accumulators, through the epilogue if there is one."""
    result = lowered.folding.fold.finish(scalars, accs, var("count"))
    result = result if isinstance(result, tuple) else (result,)
    return result if lowered.folding.epilogue is None else lowered.folding.epilogue(sources, result)


def merge_nest(lowered: Lowered, kept: int) -> Nest:
    """Partial results, laid out [chunk, output], to outputs."""
    fold, codes = lowered.folding.fold, accumulator_codes(lowered)
    at = var("c") * var("outputs") + var("i")
    parts = [Placed(k, at, code).read(HERE) for k, code in enumerate(codes)]
    accs = names("acc", len(codes))
    merge: Callable = lambda a, b: fold.merge(scalars, a, b)  # noqa: E731
    joined = reduction(
        "c",
        ZERO,
        var("chunks"),
        accs,
        list(fold.init(scalars, lowered.folding.compute)),
        step=lambda acc: merge(acc, parts),
        merge=merge,
    )
    late, params, sources = [], ["outputs", "chunks", "count"], []
    if lowered.folding.epilogue is not None:
        memories = lowered.memories
        first = len(memories) - lowered.folding.after
        sizes = names("k", kept)
        params += sizes if lowered.folding.after else []
        placed: list[Any] = [None] * first
        for r, m in enumerate(memories[first:]):
            strides = names(f"ks{r}.", kept)
            params += strides
            placed.append(Placed(len(codes) + r, locate(var("i"), sizes, strides), m.code))
            late.append(m.code)
        params += given_names(lowered)
        sources = sources_of(lowered, placed)
    values = finished(lowered, [var(a, code) for a, code in zip(accs, codes, strict=True)], sources)
    stores = [
        Store(len(codes) + len(late) + k, var("i"), cast(v, code))
        for k, (v, code) in enumerate(zip(values, lowered.outs, strict=True))
    ]
    return Nest(
        f"{lowered.name}_merge",
        operands([*codes, *late], lowered.outs),
        tuple(params),
        rows(joined, *stores, vector=True),
    )
