"""What an op computes, element by element, as loops of the linalg dialect.

Enters: a `Lowered` (loops/lowered.py) and the tensors that it reads. Leaves: its results. Bodies become
`linalg.generic`; folds have reduction iterators, those over windows a loop in the body of one without; walks and
scatters are `scf.for` over tensors. Refuses: bodies that ask for more than this has.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from ...loops.expr import COMPLEX, Value, cast, const, eq, replace_all, select, var
from ...loops.lowered import (
    HERE,
    ONE,
    ZERO,
    At,
    Given,
    Lowered,
    Memory,
    NotLowerable,
    Staged,
    Table,
    TwoPass,
    body_of,
    folding_of,
)
from ...loops.vocabulary import Scalars as Vocabulary
from ...op.indexed import contiguous_strides
from ..printing import Value as Built
from .scalars import Scalars
from .tensors import INDEX, Tensors, loop, named, product, same

VOCABULARY = Vocabulary()
FORMATS = {"i64": "q", "i32": "i", "f32": "f", "f64": "d"}


class Source:
    """A tensor in a body: `x[i, j]` is the element at its own coordinates, `read(at)` that at a loop position."""

    def __init__(self, own: Sources, memory: Memory, t: Built) -> None:
        self.own, self.memory, self.code, self.dims = own, memory, memory.code, memory.dims
        self.ndim = len(memory.sizes)
        self.shape = tuple([own.tensors.extent(n) for n in memory.sizes])
        self.t, self.rule = placed(own.tensors, memory, t)

    def __getitem__(self, at: Value | tuple[Value, ...]) -> Value:
        at = at if isinstance(at, tuple) else (at,)
        own = [ZERO if type(n) is int and n == 1 else i for i, n in zip(at, self.memory.sizes, strict=True)]
        return self.own.tensors.read(self.own.read, self.t, self.rule(own))

    def read(self, at: Sequence[Value]) -> Value:
        assert self.dims is not None, "it is read at places of the body's own"
        if at is HERE:      # of results, with or without the ranges that were folded
            at = self.own.here if len(self.own.here) == len(self.dims) else self.own.kept
        own = [ZERO] * self.ndim
        for i, d in zip(at, self.dims, strict=True):
            if d is not None:
                own[d] = i
        return self[tuple(own)]

    def broadcast(self, at: Sequence[Value]) -> Value:
        own = at[len(at) - self.ndim:]
        return self[tuple([i if type(m) is int else select(eq(n, ONE), ZERO, i)
                           for i, n, m in zip(own, self.shape, self.memory.sizes, strict=True)])]


class Stage(Source):
    """What a stage computes, of which there may be several results."""

    def __init__(self, own: Sources, memory: Memory, results: Sequence[Built]) -> None:
        super().__init__(own, memory, results[0])
        self.others = [Source(own, memory.but(code=named(t)), t) for t in results]

    def all(self, at: Any) -> tuple[Value, ...]:
        return tuple([s[at] for s in self.others])


class Sources:
    """The reads of a body; `read` are the tensors among them that were looked at."""

    def __init__(self, tensors: Tensors, here: Sequence[Value], kept: Sequence[Value] = ()) -> None:
        self.tensors, self.here, self.kept = tensors, here, kept
        self.read: list[Built] = []


def placed(tensors: Tensors, memory: Memory, t: Built) -> tuple[Built, Any]:
    """A tensor to read elements of a memory from, and the rule from the memory's coordinates to its own."""
    if named(t) != memory.code:
        raise NotLowerable(f"elements of {named(t)} seen as {memory.code}")
    strides = contiguous_strides(memory.sizes)
    plain = all(same(a, b) for a, b, n in zip(memory.strides, strides, memory.sizes, strict=True) if not same(n, 1))
    if plain and same(memory.offset, 0) and len(memory.sizes) == t.ndim and all(map(same, memory.sizes, t.shape)):
        return t, lambda at: at
    found = coordinates(memory, t.shape)
    if found is not None:
        starts, steps = found

        def along(at: Sequence[Value]) -> list[Value]:
            result = [const(first, "i64") for first in starts]
            for i, step in zip(at, steps, strict=True):
                if step is not None:
                    dim, factor = step
                    result[dim] = result[dim] + i * const(factor, "i64")
            return result

        return t, along

    def flat(at: Sequence[Value]) -> list[Value]:
        place = tensors.extent(memory.offset)
        for i, stride in zip(at, memory.strides, strict=True):
            place = place + i * tensors.extent(stride)
        return [place]

    return tensors.reshape(t, [product(t.shape)]), flat


def coordinates(memory: Memory, shape: Sequence[Any]) -> tuple[list[int], list[tuple[int, int] | None]] | None:
    """Where a memory starts in a tensor of a shape, and which dim of it, in which steps, each of its dims runs along;
    None where dims of the memory are no dims of the tensor."""
    own = contiguous_strides(shape)
    if not all(type(n) is int for n in (*shape[1:], *memory.strides, memory.offset)):
        return None
    starts, left = [], int(memory.offset)
    for stride in own:
        starts.append(left // stride)
        left %= stride
    if left:
        return None
    steps: list[tuple[int, int] | None] = []
    used: dict[int, Any] = {}
    for n, stride in zip(memory.sizes, memory.strides, strict=True):
        if same(n, 1) or stride == 0:
            steps.append(None)
            continue
        dim = next((d for d, s in enumerate(own) if stride % s == 0 and s <= stride and not same(shape[d], 1)), None)
        if dim is None or dim in used or stride < 0:
            return None
        factor = stride // own[dim]
        if type(n) is not int or type(shape[dim]) is not int:
            if factor != 1 or starts[dim] or not same(n, shape[dim]):
                return None
        elif starts[dim] + (n - 1) * factor >= shape[dim]:
            return None
        used[dim] = factor
        steps.append((dim, factor))
    return starts, steps


def lowered_ops(tensors: Tensors, lowered: Lowered, given: Sequence[Built]) -> list[Built]:
    """The results of an op that reads the tensors `given`."""
    return Nest(tensors, lowered, list(given)).results()


class Nest:
    """One Lowered on its way into operations."""

    def __init__(self, tensors: Tensors, lowered: Lowered, given: list[Built]) -> None:
        self.tensors, self.of, self.given = tensors, lowered, given
        self.ranges = tuple(lowered.ranges)

    def results(self) -> list[Built]:
        if 0 in self.of.shape:      # some definitions state nothing then
            return [self.tensors.full(code, self.of.shape, 0) for code in self.of.outs]
        if self.of.scatter is not None:
            return [self.scattered()]
        if self.of.walk is not None:
            return self.walked()
        if self.of.folding is not None:
            found = self.folded()
        else:
            own = self.sources([loop(d) for d in range(len(self.ranges))])
            at = position(range(len(self.ranges)))
            values = body_of(self.of)(at, self.opened(own))
            outs = [cast(v, code) for v, code in zip(values, self.of.outs, strict=True)]
            found = self.tensors.pointwise(self.ranges, own.read, outs, [c for c, _ in at.checks])
        return [self.tensors.reshape(t, self.of.shape) for t in found]

    # --- reads --------------------------------------------------------------------------------------------------------

    def sources(self, here: Sequence[Value], kept: Sequence[Value] = ()) -> Sources:
        return Sources(self.tensors, here, kept)

    def results_at(self, kept: Sequence[int]) -> Sources:
        """The reads where results are made, which the loops over `kept` ranges do."""
        here: list[Value] = [ZERO] * len(self.ranges)
        for k, d in enumerate(kept):
            here[d] = loop(k)
        return self.sources(here, [loop(k) for k in range(len(kept))])

    def opened(self, own: Sources) -> list[Any]:
        """The reads as bodies take them."""
        result: list[Any] = []
        left = iter(self.given)
        for r in self.of.reads:
            if isinstance(r, Staged):
                count = sum(not isinstance(m, Table) for m in r.producer.memories)
                parts = type(self)(self.tensors, r.producer, [next(left) for _ in range(count)]).results()
                whole = r.but(producer=None, strides=contiguous_strides(r.sizes))
                result.append(Stage(own, whole, parts))
            elif isinstance(r, Table):
                result.append(Source(own, r, self.table(r)))
            elif isinstance(r, Memory):
                result.append(Source(own, r, next(left)))
            else:
                result.append(Given(self.number(r.value, r.code)))
        return result

    def number(self, value: Any, code: str) -> Value:
        if isinstance(value, (bool, int, float, complex)):
            return const(value, code) if code in COMPLEX or not isinstance(value, complex) else const(value.real, code)
        return cast(self.tensors.extent(value), code)

    def table(self, r: Table) -> Built:
        count = product(r.sizes)
        values = struct.unpack(f"<{count}{FORMATS[r.code]}", r.values)
        return self.tensors.constant(r.code, r.sizes, values)

    # --- folds --------------------------------------------------------------------------------------------------------

    def folded(self) -> list[Built]:
        folding = folding_of(self.of)
        if folding.windows or folding.written or folding.start or folding.result:
            return self.folded_inside()
        kept = [d for d in range(len(self.ranges)) if d not in folding.reduced]
        own = self.sources([loop(d) for d in range(len(self.ranges))])
        at = position(range(len(self.ranges)))
        values = body_of(self.of)(at, self.opened(own))
        x = cast(values[0], folding.compute)
        index = values[1] if len(values) > 1 else self.count_up(at) if folding.fold.uses_index else None
        count = self.tensors.extent(product([self.ranges[d] for d in self.folded_dims()]))
        checks = [c for c, _ in at.checks]
        if isinstance(folding.fold, TwoPass):
            return self.two_passes(folding.fold, own, x, count, kept)
        init = folding.fold.init(VOCABULARY, folding.compute)
        accs = [var(f"acc{k}", v.dtype) for k, v in enumerate(init)]
        following = folding.fold.step(VOCABULARY, accs, x, index)
        parts = self.reduced(own.read, init, accs, following, kept, checks)
        return self.finished(parts, kept, lambda a: folding.fold.finish(VOCABULARY, a, count))

    def folded_dims(self) -> list[int]:
        """The ranges that are folded; a tensor without dims has none, though one was named."""
        return [d for d in sorted(folding_of(self.of).reduced) if d < len(self.ranges)]

    def count_up(self, at: At) -> Value:
        """The position along the folded ranges, counted through."""
        index = ZERO
        for d in self.folded_dims():
            index = index * self.tensors.extent(self.ranges[d]) + at[d]
        return index

    def reduced(self, read: list[Built], init: Sequence[Value], accs: Sequence[Value], following: Sequence[Value],
                kept: Sequence[int], checks: Sequence[Value] = ()) -> list[Built]:
        """Accumulators over the kept ranges."""
        shape = [self.ranges[d] for d in kept]
        inits = [self.tensors.full(v.dtype, shape, constant(v)) for v in init]

        def body(s: Scalars, now: Sequence[Built]) -> list[Built]:
            s.known.update(zip(accs, now, strict=True))
            return s.all(following)

        folded = frozenset(range(len(self.ranges))) - frozenset(kept)
        return self.tensors.generic(self.ranges, folded, read, inits, body, list(following), checks)

    def two_passes(self, fold: TwoPass, own: Sources, x: Value, count: Value, kept: Sequence[int]) -> list[Built]:
        """A fold that reads its elements twice."""
        init = list(fold.first.init(VOCABULARY, x.dtype))
        accs = [var(f"acc{k}", v.dtype) for k, v in enumerate(init)]
        first = self.reduced(own.read, init, accs, fold.first.step(VOCABULARY, accs, x, None), kept)
        shape, here = [self.ranges[d] for d in kept], [loop(k) for k in range(len(kept))]
        seen: list[Built] = []
        before = [self.tensors.read(seen, t, here) for t in first]
        known = self.tensors.pointwise(shape, seen, list(fold.middle(VOCABULARY, before, count)))
        read = list(own.read)
        values = [self.tensors.read(read, t, [loop(d) for d in kept]) for t in known]
        second = list(fold.second_init(VOCABULARY, x.dtype))
        accs = [var(f"acc{k}", v.dtype) for k, v in enumerate(second)]
        rest = self.reduced(read, second, accs, fold.second_step(VOCABULARY, accs, x, values), kept)

        def finish(parts: Sequence[Value]) -> Any:
            mine, others = parts[:len(known)], parts[len(known):]
            return fold.finish(VOCABULARY, fold.join(VOCABULARY, mine, others, count), count)

        return self.finished([*known, *rest], kept, finish)

    def finished(self, parts: Sequence[Built], kept: Sequence[int], finish: Any) -> list[Built]:
        """Results of accumulators: nothing is done where they are the same."""
        shape, here = [self.ranges[d] for d in kept], [loop(k) for k in range(len(kept))]
        own = self.results_at(kept)
        values = [self.tensors.read(own.read, t, here) for t in parts]
        done = finish(values)
        done = done if isinstance(done, (tuple, list)) else (done,)
        epilogue = folding_of(self.of).epilogue
        if epilogue is not None:
            done = epilogue(self.opened(own), done)
        outs = [cast(v, code) for v, code in zip(done, self.of.outs, strict=True)]
        if outs == values[:len(outs)]:
            return list(parts[:len(outs)])
        return self.tensors.pointwise(shape, own.read, outs)

    def folded_inside(self) -> list[Built]:
        """Folds over windows: loops in the body of a loop over results."""
        folding = folding_of(self.of)
        kept = [d for d in range(len(self.ranges)) if d not in folding.reduced]
        here: dict[int, Value] = {d: loop(k) for k, d in enumerate(kept)}
        own = self.results_at(kept)
        sources = self.opened(own)
        windows = dict(folding.windows)
        at = self.at(here)
        start = list(folding.start(at, sources) if folding.start else folding.fold.init(VOCABULARY, folding.compute))
        accs = [var(f"acc{k}", v.dtype) for k, v in enumerate(start)]
        count: Value = ONE
        bounds: dict[int, tuple[Value, Value]] = {}
        for d in self.folded_dims():
            bounds[d] = windows[d].bounds(at, sources) if d in windows else (ZERO, self.tensors.extent(self.ranges[d]))
            count = count * (bounds[d][1] - bounds[d][0])
        values = (folding.result(at, sources, accs) if folding.result
                  else folding.fold.finish(VOCABULARY, accs, count))
        values = values if isinstance(values, (tuple, list)) else (values,)
        if folding.epilogue is not None:
            values = folding.epilogue(sources, values)
        outs = [cast(v, code) for v, code in zip(values, self.of.outs, strict=True)]

        def level(s: Scalars, left: Sequence[int], position: dict[int, Value], now: Sequence[Built]) -> Sequence[Built]:
            if not left:
                return self.step(s, sources, position, accs, now)
            d = left[0]
            if d in folding.written and d not in windows:
                for t in range(int(self.ranges[d])):
                    now = level(s, left[1:], {**position, d: const(t, "i64")}, now)
                return now
            place = var(f"k{d}")
            ends = [self.tensors.as_index(v, s) for v in bounds[d]]
            return self.tensors.repeat(s, *ends, place, now,
                                       lambda inner, parts: level(inner, left[1:], {**position, d: place}, parts))

        def body(s: Scalars, _: Sequence[Built]) -> Sequence[Built]:
            s.all([loop(k) for k in range(len(kept))])      # loops within cannot ask for them
            parts = level(s, self.folded_dims(), here, s.all(start))
            s.known.update(zip(accs, parts, strict=True))
            return s.all(outs)

        shape = [self.ranges[d] for d in kept]
        inits = [self.tensors.empty(v.dtype, shape) for v in outs]
        return self.tensors.generic(shape, frozenset(), own.read, inits, body, [], [c for c, _ in at.checks])

    def at(self, here: dict[int, Value]) -> At:
        """A position: 0 along ranges that are not in it."""
        result = At([here.get(d, ZERO) for d in range(len(self.ranges))])
        result.checks = []
        return result

    def step(self, s: Scalars, sources: Sequence[Any], here: dict[int, Value], accs: Sequence[Value],
             now: Sequence[Built]) -> Sequence[Built]:
        """Accumulators after one more element."""
        folding, at = folding_of(self.of), self.at(here)
        values = body_of(self.of)(at, sources)
        if values is None:
            return now
        index = values[1] if len(values) > 1 else self.count_up(at) if folding.fold.uses_index else None
        inner = s.inside()
        inner.known.update(zip(accs, now, strict=True))
        following = folding.fold.step(VOCABULARY, accs, cast(values[0], folding.compute), index)
        return inner.all([cast(v, a.dtype) for v, a in zip(following, accs, strict=True)])

    # --- walks and scatters -------------------------------------------------------------------------------------------

    def walked(self) -> list[Built]:
        """A running state along one range, all positions of the others outside of it."""
        walk = self.of.walk
        assert walk is not None, "it walks"
        others = [d for d in range(len(self.ranges)) if d != walk.dim]
        own = self.sources([loop(d) for d in range(len(self.ranges))])
        at = position(range(len(self.ranges)))
        (x,) = body_of(self.of)(at, self.opened(own))
        init = list(walk.init())
        accs = [var(f"acc{k}", v.dtype) for k, v in enumerate(init)]
        following = list(walk.step(accs, x, loop(walk.dim)))
        outs = [cast(v, code) for v, code in zip(walk.emit(accs), self.of.outs, strict=True)]
        if not self.ranges:      # one number is a walk of one step
            first = dict(zip(accs, walk.step(init, x, ZERO), strict=True))
            return self.tensors.pointwise((), own.read, replace_all(outs, first))
        results = [self.tensors.empty(v.dtype, self.ranges) for v in outs]
        count = len(results)
        s = Scalars(self.tensors.b, lambda e, s: self.tensors.leaf(e, s, own.read))

        def one(inner: Scalars, now: Sequence[Built]) -> Sequence[Built]:
            inner.known.update(zip(accs, now[count:], strict=True))
            state = inner.all(following)
            after = inner.inside()
            for a in accs:
                after.known.pop(a)
            after.known = {k: v for k, v in after.known.items() if not depends(k, accs)}
            after.known.update(zip(accs, state, strict=True))
            return [*inserted(self.tensors, after, outs, now[:count], at), *state]

        def line(inner: Scalars, now: Sequence[Built]) -> Sequence[Built]:
            whole = self.tensors.index(0), self.tensors.index(self.ranges[walk.dim])
            return self.tensors.repeat(inner, *whole, loop(walk.dim), [*now, *inner.all(init)], one)[:count]

        return everywhere(self.tensors, s, self.ranges, others, results, line)

    def scattered(self) -> Built:
        """Values combined into elements, one position after the other."""
        scatter = self.of.scatter
        assert scatter is not None, "it scatters"
        own = self.sources([loop(d) for d in range(len(self.ranges))])
        at, target, sources = position(range(len(self.ranges))), scatter.target, self.opened(own)
        if scatter.cleared:
            first = self.tensors.full(target.code, target.sizes, 0)
        else:
            first = self.tensors.reshape(self.given[0], target.sizes)
        out = Source(own, target.but(strides=contiguous_strides(target.sizes)), first)
        place, value = scatter.writes(at, out, sources)
        checks = [c for c, _ in at.checks]
        return scatter_into(self.tensors, self.ranges, own.read, first, place, cast(value, target.code),
                            lambda old, new: scatter.combine(old, new, sources), checks)


def scatter_into(tensors: Tensors, ranges: Sequence[Any], read: list[Built], first: Built, place: Sequence[Value],
                 value: Value, combine: Any, checks: Sequence[Value] = ()) -> Built:
    """A tensor after values were combined into places of it, at every position of `ranges` in order."""
    old = var("old", named(first))
    after = cast(combine(old, value), named(first))
    s = Scalars(tensors.b, lambda e, s: tensors.leaf(e, s, read))

    def one(inner: Scalars, now: Sequence[Built]) -> Sequence[Built]:
        tensors.check(inner, checks)
        indices = [tensors.as_index(i, inner) for i in place]
        inner.known[old] = tensors.b.op("tensor.extract", [now[0], *indices], Built(now[0].type.element))
        return inserted(tensors, inner, [after], now, place)

    return everywhere(tensors, s, ranges, range(len(ranges)), [first], one)[0]


def inserted(tensors: Tensors, s: Scalars, values: Sequence[Value], into: Sequence[Built], at: Sequence[Value]
             ) -> list[Built]:
    """Tensors with an element exchanged."""
    place = [tensors.as_index(i, s) for i in at]
    return [tensors.b.op("tensor.insert", [s.of(v), t, *place], tensors.like(named(t), t.shape))
            for v, t in zip(values, into, strict=True)]


def everywhere(tensors: Tensors, s: Scalars, ranges: Sequence[Any], dims: Sequence[int], now: Sequence[Built],
               body: Any) -> list[Built]:
    """`body` at every position along some ranges."""
    if not dims:
        return list(body(s, now))
    ends = tensors.index(0), tensors.index(ranges[dims[0]])
    return tensors.repeat(s, *ends, loop(dims[0]), now,
                          lambda inner, parts: everywhere(tensors, inner, ranges, dims[1:], parts, body))


def position(dims: Any) -> At:
    at = At([loop(d) for d in dims])
    at.checks = []
    return at


def constant(v: Value) -> Any:
    """The number that an accumulator starts with."""
    if v.op == "complex":
        return complex(constant(v.args[0]), constant(v.args[1]))
    if v.op != "const":
        raise NotLowerable(f"an accumulator starts with {v}")
    return v.attr


def depends(value: Value, names: Sequence[Value]) -> bool:
    """Whether a value is made of one of these."""
    from ...loops.expr import walk as every  # noqa: PLC0415

    return any(node in names for node in every([value]))


__all__ = ["INDEX", "lowered_ops"]
