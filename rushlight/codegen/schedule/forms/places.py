"""Schedules of folds whose bodies read at places of their own: windows, distances of pairs, gathers inside sums.

Enters: a Lowered with a `folding` that is not aligned. Leaves: one launch. Results along the last kept range lie on
lanes, and every lane folds its own elements one after another; where the last range itself is folded and long, it runs
in vectors instead. Where a lane's window is cut short by an edge, the results whose windows are whole go in vectors,
the others one by one. Stages (`Staged` reads) are folded first, row by row,
into memory that a thread keeps in its cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ....loops.expr import Value, cast, const, idiv, irem, load, max_, min_, select, var, walk
from ....loops.lowered import At, Elements, Given, Lowered, Memory, NotLowerable, Staged, TwoPass, number_value
from ....loops.nest import Assign, Check, For, Local, Nest, Statement, Store, operands, reduction, rows
from ....loops.split import test_of
from ....loops.vocabulary import Scalars
from .launch import ENOUGH_ROWS, Launch, Schedule, Temp, grain_of, number_bits, number_names, product
from .loops import gather_loops, in_vectors, lanes_of
from .sources import add_geometry

ZERO, ONE = const(0, "i64"), const(1, "i64")
LONG_FOLD = 16           # elements from which on a folded last range runs in vectors, not beside others on lanes
scalars = Scalars()
Position = dict[int, Value]


class Here:
    """A tensor behind a fold: read at the position of the result."""

    def __init__(self, source: Any, at: At) -> None:
        self.source, self.at = source, at

    def read(self, at: Any) -> Value:
        """The element that goes with the result."""
        return self.source.read(self.at)


class Row:
    """The row of a stage that is being worked on: its last coordinate is a place in scratch memory."""

    def __init__(self, operand: int, codes: Sequence[str], shape: Sequence[Value]) -> None:
        self.operand, self.codes, self.shape, self.ndim = operand, codes, tuple(shape), len(shape)

    def __getitem__(self, at: Any) -> Value:
        return self.all(at)[0]

    def all(self, at: Any) -> tuple[Value, ...]:
        """Every result of the stage at a place."""
        place = var("own") + (at if isinstance(at, tuple) else (at,))[-1]
        return tuple([load(self.operand + k, place, code) for k, code in enumerate(self.codes)])


class Reads:
    """All reads of a Lowered and of its stages: sources, parameters, and what of them a kernel's code depends on."""

    def __init__(self, lowered: Lowered) -> None:
        self.params: list[str] = []
        self.values: list[int] = []
        self.codes: list[str] = []
        self.stages: list[tuple[Staged, list[Any], int]] = []      # with the operand of its first result
        self.rows: list[tuple[str, int]] = []                      # type and length of every scratch row
        self.first_row = len(lowered.memories) + len(lowered.outs)
        self.key: list[Any] = []
        self.sources = self.of(lowered)

    def of(self, lowered: Lowered) -> list[Any]:
        """The sources of one body."""
        result: list[Any] = []
        for r in lowered.reads:
            if isinstance(r, Staged):
                inside = self.of(r.producer)
                for d in (
                    sorted(r.producer.folding.reduced - r.producer.folding.written)
                    if r.producer.folding is not None
                    else ()
                ):
                    self.number(f"{r.producer.name}.n{d}", r.producer.ranges[d])
                result.append(
                    Row(
                        self.first_row + len(self.rows),
                        r.producer.outs,
                        [self.number(f"{r.name}.n{d}", n) for d, n in enumerate(r.sizes)],
                    )
                )
                self.stages.append((r, inside, self.first_row + len(self.rows)))
                self.rows += [(code, r.sizes[-1]) for code in r.producer.outs]
                self.key.append((r.producer.key, r.producer.outs))
            elif isinstance(r, Memory):
                kinds = r.classes()
                result.append(Elements(len(self.codes), r.name, r.code, kinds, r.dims))
                self.codes.append(r.code)
                add_geometry(r.name, r.sizes, r.strides, kinds, self.params, self.values)
                self.key.append((r.code, kinds))
            else:
                result.append(Given(cast(number_value(r.name, r.value), r.code)))
                self.params += number_names(r.name, r.value)
                self.values += number_bits(r.value)
                self.key.append(type(r.value))
        return result

    def number(self, name: str, value: int) -> Value:
        """One more run-time parameter."""
        self.params.append(name)
        self.values.append(value)
        return var(name)


def schedule_places(lowered: Lowered, stages_by_row: bool = False) -> Schedule:
    """The launch of a fold with places of its own; `stages_by_row`: for a GPU, where every iteration has scratch memory
    of its own and, without stages, makes one result."""
    folding, ranges = lowered.folding, lowered.ranges
    if isinstance(folding.fold, TwoPass):
        raise NotLowerable(f"{lowered.name}: its elements are read twice, and working them out twice would not pay")
    kept = [d for d in range(len(ranges)) if d not in folding.reduced]
    if any(ranges[d] == 0 for d in kept):
        return Schedule(())
    reads = Reads(lowered)
    last = len(ranges) - 1
    along = (
        last in folding.reduced and last not in folding.written and not folding.windows and ranges[last] >= LONG_FOLD
    )
    loops = gather_loops(kept_part(lowered, kept))
    loop_ranges = tuple([tuple([kept[d] for d in loop.ranges]) for loop in loops])
    sizes = [loop.size for loop in loops]
    alone = stages_by_row and not reads.stages
    rows_inside = not alone and not along and not reads.stages and len(loops) > 2 and product(sizes[:-2]) >= ENOUGH_ROWS
    looped = [d for d in kept if d not in folding.written]
    # rows of stages are along the last range
    lanes = not alone and not along and len(loops) > 0 and (not reads.stages or loop_ranges[-1][-1] == looped[-1])
    short = lanes_of(lowered, sizes[-1], (lowered.memories[0].code, *lowered.outs)) if lanes else None
    form = (along, lanes, rows_inside, None if stages_by_row else short)
    inner = 1 if not lanes else product(sizes[-2:]) if rows_inside else sizes[-1]
    numel = product(sizes)
    writer = PlacesNest(lowered, reads, loop_ranges, form)
    count = product(ranges[d] for d in folding.reduced | folding.written)
    work = inner * count + sum([stage_work(stage) for stage, _, _ in reads.stages])
    extent, grain = numel // inner, 1 if stages_by_row else grain_of(work)
    values = [*reads.values, *sizes, *[ranges[d] for d in writer.counted], *([grain] if reads.stages else [])]
    key = ("places", lowered.key, tuple(reads.key), loop_ranges, form, lowered.outs)
    result, checked = writer.maker_of(key)
    temps = [Temp(code, (-(-extent // grain), width)) for code, width in reads.rows]
    cell = len(lowered.memories) + len(lowered.outs) + len(temps) if checked else -1
    numbers = tuple(range(len(lowered.memories) + len(lowered.outs) + len(temps) + checked))
    return Schedule(
        (Launch(key, result, numbers, tuple(values), extent, grain, cell),),
        (*temps, *([Temp("i64", (1,))] if checked else [])),
    )


def stage_work(stage: Staged) -> int:
    """Elements that one row of a stage is made of."""
    folding = stage.producer.folding
    return stage.sizes[-1] * (1 if folding is None else product(stage.producer.ranges[d] for d in folding.reduced))


def kept_part(lowered: Lowered, kept: Sequence[int]) -> Lowered:
    """The ranges of the results alone, as a gather has them."""
    first = list(kept) == list(range(len(kept)))
    # what is written out is no loop
    sizes = [1 if d in lowered.folding.written else lowered.ranges[d] for d in kept]
    return lowered.but(ranges=tuple(sizes), through=lowered.through if first else frozenset(), folding=None)


_checked: dict[tuple, bool] = {}      # by key: whether a nest checks indices, which only its body can tell


class PlacesNest:
    """Writes the nest, for one combination of types and form."""

    def __init__(
        self, lowered: Lowered, reads: Reads, loops: tuple[tuple[int, ...], ...], form: tuple[bool, bool, bool, Any]
    ) -> None:
        self.lowered, self.reads, self.loops = lowered, reads, loops
        self.along, self.has_lanes, self.rows_inside, self.short = form
        self.dims = [own[-1] for own in loops]
        folding = lowered.folding
        self.beside = sorted(folding.written - folding.reduced)      # kept ranges whose results are written out
        self.counted = sorted(folding.reduced - folding.written)     # sizes that are parameters
        self.checks: list[Check] = []
        self.fresh = 0

    def maker_of(self, key: tuple) -> tuple[Callable[[], Nest], bool]:
        """What makes the nest, and whether it checks indices."""
        if key not in _checked:
            nest = self.nest()
            _checked[key] = bool(self.checks)
            return lambda: nest, _checked[key]
        return self.nest, _checked[key]

    def nest(self) -> Nest:
        reads, lowered = self.reads, self.lowered
        self.checks, self.fresh = [], 0
        sizes = [f"out.n{d}" for d in self.dims]
        params = [
            *reads.params,
            *sizes,
            *[f"{lowered.name}.n{d}" for d in self.counted],
            *(["grain"] if reads.stages else []),
        ]
        item, position = var("i"), {}
        lanes = self.dims[-1:] if self.has_lanes else []
        outer = self.dims[: len(self.dims) - len(lanes) - self.rows_inside]
        for d in reversed(outer):
            n, first = var(f"out.n{d}"), d == outer[0]
            position[d] = item if first else irem(item, n)
            item = item if first else idiv(item, n)
        row = var("i")
        if self.rows_inside:
            position[self.dims[-2]] = var("r")
            row = var("i") * var(sizes[-2]) + var("r")
        body = self.stages(position)
        if lanes:
            body += self.lane_loop(
                lowered,
                reads.sources,
                position,
                lanes[0],
                "j",
                var(sizes[-1]),
                lambda values, at: self.stores(values, row * var(sizes[-1]) + at),
                self.beside,
            )
        else:
            body += self.line(
                lowered, reads.sources, position, frozenset(), lambda values: self.stores(values, row), self.beside
            )
        if self.rows_inside:
            body = [For("r", ZERO, var(sizes[-2]), tuple(body))]
        temps = [code for code, _ in reads.rows] + (["i64"] if self.checks else [])
        return Nest(lowered.name, operands(reads.codes, lowered.outs, temps), tuple(params), rows(*body))

    def stores(self, values: Sequence[Value], at: Value) -> list[Statement]:
        """The results to their places; those that are written out lie beside each other."""
        first = len(self.reads.codes)
        if self.beside:
            at = at * const(int(self.lowered.ranges[self.beside[0]]), "i64") + const(self.phase, "i64")
        return [
            Store(first + k, at, cast(v, code))
            for k, (v, code) in enumerate(zip(values, self.lowered.outs, strict=True))
        ]

    def stages(self, position: Position) -> list[Statement]:
        """The rows that the reader needs here, computed into scratch memory."""
        result: list[Statement] = []
        for number, (stage, sources, operand) in enumerate(self.reads.stages):
            producer, x = stage.producer, f"x{number}"
            width = var(f"{stage.name}.n{len(stage.sizes) - 1}")
            kept = [
                d for d in range(len(producer.ranges)) if producer.folding is None or d not in producer.folding.reduced
            ]
            if number == 0:
                result.append(Local("own", idiv(var("i"), var("grain")) * width))

            def store(
                values: Sequence[Value],
                at: Value,
                first: int = operand,
                codes: Sequence[str] = producer.outs,
            ) -> list[Statement]:
                return [
                    Store(first + k, var("own") + at, cast(v, code))
                    for k, (v, code) in enumerate(zip(values, codes, strict=True))
                ]

            result += self.lane_loop(producer, sources, position, kept[-1], x, width, store)
        return result

    # Results along one range, on lanes
    # ---------------------------------------------------------------------------------------

    def lane_loop(
        self,
        lowered: Lowered,
        sources: list[Any],
        position: Position,
        dim: int,
        name: str,
        stop: Value,
        store: Callable,
        beside: Sequence[int] = (),
    ) -> list[Statement]:
        """Loops over results: those with whole windows in vectors, the others one by one. `store` is told the results
        and where on the range they are."""
        here = {**position, dim: var(name)}

        def line(
            whole: frozenset[int], phases: Sequence[int] | None = None, at: Value | None = None
        ) -> tuple[Statement, ...]:
            i = var(name) if at is None else at
            own = {**position, dim: i}
            return tuple(self.line(lowered, sources, own, whole, lambda values: store(values, i), beside, phases))

        def vectors(start: Value, stop: Value, whole: frozenset[int]) -> list[For]:
            """Results in vectors. Those beside each other are stored lane by lane, which short sums are not worth."""
            if beside and not self.is_written_out(lowered, whole):
                return [
                    For(name, start, stop, line(whole, (k,)), vector=not self.checks)
                    for k in range(int(lowered.ranges[beside[0]]))
                ]
            return [For(name, start, stop, line(whole), vector=not self.checks and not beside)]

        windows = dict(lowered.folding.windows) if lowered.folding else {}
        at = self.at(lowered, here)
        moving = [d for d, w in windows.items() if any(depends(v, name) for v in w.bounds(at, sources))]
        if not moving and self.short and lowered is self.lowered and not beside:
            few = in_vectors(name, stop, self.short, lambda i: line(frozenset(), at=i))
            if not self.checks:
                return few
        if not moving:
            return [*vectors(ZERO, stop, frozenset())]
        if any(windows[d].whole is None for d in moving):
            return [For(name, ZERO, stop, line(frozenset()))]
        low, high = f"{name}.low", f"{name}.high"
        first, past = self.stretch([windows[d].whole(at, sources) for d in moving], name, stop)
        return [
            Local(low, min_(max_(first, ZERO), stop)), Local(high, max_(min_(past, stop), var(low))),
            For(name, ZERO, var(low), line(frozenset())), *vectors(var(low), var(high), frozenset(moving)),
            For(name, var(high), stop, line(frozenset())),
        ]

    def line(
        self, lowered: Lowered, sources: list[Any], here: Position, whole: frozenset[int], store: Callable,
        beside: Sequence[int], phases: Sequence[int] | None = None,
    ) -> list[Statement]:
        """One result, or those beside each other at one position."""
        result: list[Statement] = []
        for self.phase in phases or range(int(lowered.ranges[beside[0]]) if beside else 1):
            own = {**here, beside[0]: const(self.phase, "i64")} if beside else here
            folded, accs = self.folded(lowered, sources, own, whole, self.along and lowered is self.lowered)
            result += [*folded, *store(self.results(lowered, sources, own, accs, whole))]
        return result

    def stretch(self, conditions: Sequence[Value], name: str, stop: Value) -> tuple[Value, Value]:
        """[first, past): positions at which all conditions hold."""
        first, past = ZERO, stop
        pending = list(conditions)
        while pending:
            node = pending.pop()
            if node.op == "and":
                pending += node.args
                continue
            if node.op == "const":
                past = past if node.attr else ZERO
                continue
            test = test_of(node, name)
            if test is None:       # as where the distance of windows is a number of the call
                return ZERO, ZERO
            if test.step == 0:
                past = select(node, past, ZERO)
            elif test.holds:
                past = min_(past, test.limit())
            else:
                first = max_(first, test.limit())
        return first, past

    # One result
    # -----------------------------------------------------------------------------------------------------------------

    def at(self, lowered: Lowered, position: Position, whole: frozenset[int] = frozenset()) -> At:
        """A position, 0 along ranges it does not name."""
        result = At(position.get(d, ZERO) for d in range(len(lowered.ranges)))
        result.checks, result.whole = [], whole
        return result

    def results(
        self, lowered: Lowered, sources: list[Any], position: Position, accs: list[Value], whole: frozenset[int]
    ) -> Sequence[Value]:
        """The outputs, from the accumulators."""
        folding, at = lowered.folding, self.at(lowered, position, whole)
        if folding is None:
            return accs
        if folding.result is not None:
            result = folding.result(at, sources, accs)
        else:
            count = ONE
            for d in sorted(folding.reduced):
                count = count * self.size(lowered, d)
            result = folding.fold.finish(scalars, accs, count)
        result = result if isinstance(result, tuple) else (result,) if isinstance(result, Value) else tuple(result)
        if folding.epilogue is None:
            return result
        late = len(lowered.reads) - after_reads(lowered)
        own = [s if k < late or isinstance(s, Given) else Here(s, at) for k, s in enumerate(sources)]
        return folding.epilogue(own, result)

    def size(self, lowered: Lowered, d: int) -> Value:
        """The size of a folded range."""
        return const(int(lowered.ranges[d]), "i64") if d in lowered.folding.written else var(f"{lowered.name}.n{d}")

    def folded(
        self, lowered: Lowered, sources: list[Any], position: Position, whole: frozenset[int], along: bool
    ) -> tuple[list[Statement], list[Value]]:
        """Statements that fold the elements of one result, and the accumulators they leave."""
        folding = lowered.folding
        if folding is None:
            at = self.at(lowered, position)
            return [], list(lowered.body(at, sources))
        at = self.at(lowered, position)
        if self.is_written_out(lowered, whole):
            return self.written_out(lowered, sources, position, whole)
        init = list(folding.start(at, sources)) if folding.start else list(folding.fold.init(scalars, folding.compute))
        accs = [self.named("acc") for _ in init]
        now = [var(a, v.dtype) for a, v in zip(accs, init, strict=True)]
        body = self.level(lowered, sources, position, sorted(folding.reduced), whole, now, along)
        return [*[Local(a, v) for a, v in zip(accs, init, strict=True)], *body], now

    def is_written_out(self, lowered: Lowered, whole: frozenset[int]) -> bool:
        """Whether no folded range is a loop."""
        folding, windows = lowered.folding, dict(lowered.folding.windows)
        return all(d in folding.written and (d in whole or d not in windows) for d in folding.reduced)

    def written_out(
        self, lowered: Lowered, sources: list[Any], position: Position, whole: frozenset[int]
    ) -> tuple[list[Statement], list[Value]]:
        """All steps one after another; without loops there is nothing to name but the accumulators between them."""
        folding, at = lowered.folding, self.at(lowered, position, whole)
        places = [position]
        for d in sorted(folding.reduced):
            places = [{**place, d: const(t, "i64")} for place in places for t in range(int(lowered.ranges[d]))]
        result: list[Statement] = []
        accs: list[Value] | None = list(folding.start(at, sources)) if folding.start else None
        for place in places:
            checks, x, index = self.element(lowered, sources, place, whole)
            if x is None:
                continue
            if accs is None:
                accs = list(folding.fold.first(scalars, x, index))
            else:
                accs = list(folding.fold.step(scalars, accs, x, index))
            result += checks
            if len(accs) > 1:       # each is used by the others
                kept = [self.named("acc") for _ in accs]
                result += [Local(n, v) for n, v in zip(kept, accs, strict=True)]
                accs = [var(n, v.dtype) for n, v in zip(kept, accs, strict=True)]
        return result, list(folding.fold.init(scalars, folding.compute)) if accs is None else accs

    def named(self, prefix: str) -> str:
        """A name that no other statement has."""
        self.fresh += 1
        return f"{prefix}{self.fresh}"

    def level(
        self,
        lowered: Lowered,
        sources: list[Any],
        position: Position,
        left: Sequence[int],
        whole: frozenset[int],
        now: list[Value],
        along: bool,
    ) -> list[Statement]:
        """Loops over the ranges that are left, the element inside."""
        if not left:
            return self.step(lowered, sources, position, whole, now)
        folding, d = lowered.folding, left[0]
        window = dict(folding.windows).get(d)
        bounds = (ZERO, self.size(lowered, d))
        if window is not None and (d not in whole or d not in folding.written):
            bounds = window.bounds(
                self.at(lowered, {k: v for k, v in position.items() if k not in folding.reduced}, whole), sources
            )
        elif d in folding.written:
            result: list[Statement] = []
            for t in range(int(lowered.ranges[d])):
                result += self.level(lowered, sources, {**position, d: const(t, "i64")}, left[1:], whole, now, along)
            return result
        name = self.named(f"k{d}.")
        if along and len(left) == 1:
            return self.vectors(lowered, sources, {**position, d: var(name)}, name, bounds, now)
        return [
            For(
                name,
                *bounds,
                tuple(self.level(lowered, sources, {**position, d: var(name)}, left[1:], whole, now, along)),
            )
        ]

    def element(
        self, lowered: Lowered, sources: list[Any], position: Position, whole: frozenset[int]
    ) -> tuple[list[Statement], Value | None, Value | None]:
        """What is folded at a position, the index the fold sees, and the checks that come first."""
        folding = lowered.folding
        at = self.at(lowered, position, whole)
        values = lowered.body(at, sources)
        if values is None:
            return [], None, None
        cell = len(self.reads.codes) + len(self.lowered.outs) + len(self.reads.rows)
        checks: list[Statement] = [Check(condition, cell, shown) for condition, shown in at.checks]
        self.checks += checks
        index = values[1] if len(values) > 1 else None
        if index is None and folding.fold.uses_index:
            index = ZERO
            for d in sorted(folding.reduced):
                index = index * self.size(lowered, d) + at[d]
        return checks, cast(values[0], folding.compute), index

    def step(
        self, lowered: Lowered, sources: list[Any], position: Position, whole: frozenset[int], now: list[Value]
    ) -> list[Statement]:
        """One more element."""
        checks, x, index = self.element(lowered, sources, position, whole)
        if x is None:
            return []
        element = self.named("x")
        following = lowered.folding.fold.step(scalars, now, var(element, x.dtype), index)
        later = [self.named("next") for _ in following]
        return [
            *checks, Local(element, x), *[Local(n, v) for n, v in zip(later, following, strict=True)],
            *[Assign(a.attr, var(n, a.dtype)) for a, n in zip(now, later, strict=True)],
        ]

    def vectors(
        self,
        lowered: Lowered,
        sources: list[Any],
        position: Position,
        name: str,
        bounds: tuple[Value, Value],
        now: list[Value],
    ) -> list[Statement]:
        """The last folded range in vectors."""
        fold, compute = lowered.folding.fold, lowered.folding.compute
        checks, x, index = self.element(lowered, sources, position, frozenset())
        if checks:
            return [For(name, *bounds, tuple(self.step(lowered, sources, position, frozenset(), now)))]
        parts = [self.named("part") for _ in now]
        result = reduction(
            name, *bounds, parts, list(fold.init(scalars, compute)), step=lambda acc: fold.step(scalars, acc, x, index),
            merge=lambda a, b: fold.merge(scalars, a, b), blocked=fold.blocked and compute[0] in "fc",
        )
        joined = fold.merge(scalars, now, [var(p, a.dtype) for p, a in zip(parts, now, strict=True)])
        later = [self.named("next") for _ in joined]
        return [
            result,
            *[Local(n, v) for n, v in zip(later, joined, strict=True)],
            *[Assign(a.attr, var(n, a.dtype)) for a, n in zip(now, later, strict=True)],
        ]


def after_reads(lowered: Lowered) -> int:
    """How many of the reads, numbers included, only the epilogue sees."""
    memories, count = lowered.folding.after, 0
    for r in reversed(lowered.reads):
        if memories == 0:
            break
        count += 1
        memories -= isinstance(r, Memory)
    return count


def depends(value: Value, name: str) -> bool:
    """Whether a value reads a variable."""
    return any(node.op == "var" and node.attr == name for node in walk([value]))


__all__ = ["schedule_places"]
