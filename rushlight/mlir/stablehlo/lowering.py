"""What an op computes, element by element, as StableHLO: the rule of all ops that can be lowered.

Enters: a `Lowered` (ranges, reads, a body, perhaps a fold, a walk or a scatter) and values for its reads. Leaves: the
results. Positions are iotas; a read at places that run along dims is a slice, any other a gather; a fold is a reduce
with the fold's own region; a walk is a fold of halves over halves; a scatter has the combination as its region.
Refuses: two-pass folds with windows, and reads of other loops' rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ... import _C
from ...definitions.reduction.extremes import lowest
from ...definitions.window.maxima import LargestAt, LargestOfColumns
from ...loops import expr
from ...loops.lowered import ONE, At, Lowered, Memory, Number, Staged, Table, TwoPass
from ...loops.vocabulary import Scalars
from ...op.pack import BY_CODE
from ...tensors.interop import frombuffer
from ..errors import UnsupportedOp
from ..printing import Value
from .building import I64, Hlo, is_fixed, types_list
from .control import counted, part, with_part
from .elements import Expression, cast
from .places import Affine, affine, seen

scalars = Scalars()


class Source:
    """A tensor as bodies read it: loads name the position in each dim."""

    def __init__(self, number: int, memory: Memory) -> None:
        self.number, self.code, self.dims, self.ndim = number, memory.code, memory.dims, len(memory.sizes)
        self.shape = tuple([ONE if type(n) is int and n == 1 else size_of(n) for n in memory.sizes])

    def __getitem__(self, at: Any) -> expr.Value:
        at = at if isinstance(at, tuple) else (at,)
        own = [expr.const(0, "i64") if n is ONE else expr.cast(i, "i64") for i, n in zip(at, self.shape, strict=True)]
        return expr.node("load", tuple(own), self.code, self.number)

    def read(self, at: Sequence[expr.Value]) -> expr.Value:
        own = [expr.const(0, "i64")] * self.ndim
        for i, d in zip(at, self.dims or (), strict=True):
            if d is not None:
                own[d] = i
        return self[tuple(own)]

    def broadcast(self, at: Sequence[expr.Value]) -> expr.Value:
        return self[tuple(at[len(at) - self.ndim :])]


class Rows(Source):
    """What another loop made: one tensor or several of the same sizes."""

    def __init__(self, number: int, memory: Memory, codes: Sequence[str]) -> None:
        super().__init__(number, memory)
        self.codes = codes

    def all(self, at: Any) -> tuple[expr.Value, ...]:
        """The elements of all of them at a place, which may be one in the reader's own row."""
        at = at if isinstance(at, tuple) else (at,)
        at = (*[position(d) for d in range(self.ndim - len(at))], *at)
        place = super().__getitem__(at)
        return tuple([expr.node("load", place.args, code, (self.number, i)) for i, code in enumerate(self.codes)])

    def __getitem__(self, at: Any) -> expr.Value:
        return self.all(at)[0]


class LargestAnywhere(LargestOfColumns):
    """The largest element and where it is, in whatever order elements come."""

    def init(self, s: Scalars, code: str) -> tuple[expr.Value, ...]:
        raise AssertionError("the type of positions is known to `started` alone")

    def merge(self, s: Scalars, a: Sequence[expr.Value], b: Sequence[expr.Value]) -> Any:
        return self.step(s, a, b[0], b[1])


def started(fold: Any, code: str, index: expr.Value | None) -> list[expr.Value]:
    """The first accumulators of a fold, which are neutral in it."""
    if isinstance(fold, LargestAnywhere):
        assert index is not None, "it keeps positions"
        return [expr.const(lowest(code), code), expr.const((1 << expr.BITS[index.dtype] - 1) - 1, index.dtype)]
    return list(fold.init(scalars, code))


class Fixed:
    """A number as bodies read it."""

    ndim, shape = 0, ()

    def __init__(self, value: expr.Value) -> None:
        self.value, self.code = value, value.dtype

    def read(self, at: Sequence[expr.Value]) -> expr.Value:
        return self.value


def size_of(n: Any) -> expr.Value:
    """A size in a body."""
    return expr.const(n, "i64") if type(n) is int else expr.node("var", (), "i64", ("size", n.expression))


def position(d: int) -> expr.Value:
    """Where a loop is along range d."""
    return expr.node("var", (), "i64", ("range", d))


class Loops:
    """One lowered op on its way."""

    def __init__(self, b: Hlo, lowered: Lowered, given: Iterable[Value]) -> None:
        """`given`: values of the tensors among the reads, in order, or what is left of them."""
        self.b, self.of = b, lowered
        self.values: dict[Any, Value] = {}
        left = iter(given)
        self.sources: list[Any] = []
        for k, read in enumerate(lowered.reads):
            if isinstance(read, Number):
                self.sources.append(Fixed(number(read)))
                continue
            if isinstance(read, Staged):      # rows of another loop: all of them, made before
                made = Loops(b, read.producer, left).results()
                self.values.update({(k, i): v for i, v in enumerate(made)})
                self.sources.append(Rows(k, read, [v.dtype.code for v in made]))
                continue
            self.values[k] = table(b, read) if isinstance(read, Table) else seen(b, next(left), read)
            self.sources.append(Source(k, read))
        self.at = At([position(d) for d in range(len(lowered.ranges))])
        self.at.checks = []

    def results(self) -> list[Value]:
        o = self.of
        if o.scatter is not None:
            raise AssertionError("scatters are built by `scattered`")
        if o.walk is not None:
            found = self.walked()
        elif o.folding is not None:
            found = self.folded()
        else:
            if o.body is None:
                found = self.moved()
                return [self.b.reshape(found, o.shape)]
            found = self.over(o.ranges).all(list(o.body(self.at, self.sources)))
        dtypes = [BY_CODE[code] for code in o.outs]
        return [self.b.reshape(cast(self.b, x, d), o.shape) for x, d in zip(found, dtypes, strict=True)]

    # --- leaves -------------------------------------------------------------------------------------------------------

    def over(self, ranges: Sequence[Any], known: dict[expr.Value, Value] | None = None) -> Expression:
        """Expressions at all positions of ranges."""
        return Expression(self.b, ranges, known or {}, self.leaf)

    def leaf(self, e: expr.Value, within: Expression) -> Value:
        if e.op == "var":
            kind, what = e.attr
            if kind == "size":
                return self.b.broadcast(self.b.formula(what), within.shape, ())
            return self.b.iota(I64, within.shape, what)
        assert e.op == "load", f"{e} is no leaf of {self.of.name}"
        return self.load(e, within)

    def load(self, e: expr.Value, within: Expression) -> Value:
        x, shape = self.values[e.attr], within.shape
        if x.dtype.code != e.dtype:
            raise UnsupportedOp(f"mlir: {self.of.name} reads {x.dtype} as {e.dtype}")
        if not x.ndim:
            return self.b.broadcast(x, shape, ())
        if 0 in x.shape or 0 in shape:      # read by nobody, or for nothing
            return self.b.constant(0, x.dtype, shape)
        places = [affine(a) for a in e.args]
        if all(p is not None for p in places):
            sliced = self.sliced(x, places, shape)   # type: ignore[arg-type]
            if sliced is not None:
                return sliced
        index = [self.b.reshape(within.of(a), (*shape, 1)) for a in e.args]
        return self.b.gather_at(x, self.b.concatenate(index, len(shape)), shape)

    def sliced(self, x: Value, places: list[Affine], shape: tuple) -> Value | None:
        """A read whose every place is a multiple of one position, all different, and stays inside."""
        runs = [p.range for p in places if p.range is not None]
        if len(set(runs)) != len(runs):
            return None
        start, sizes, steps, backwards, kept = [], [], [], [], []
        for d, p in enumerate(places):
            whole = x.shape[d]
            n = 1 if p.range is None else shape[p.range]
            if not (type(n) is int and type(whole) is int):
                if p.range is not None and p.step == 1 and p.first == 0 and type(n) is not int and str(n) == str(whole):
                    start.append(0), sizes.append(n), steps.append(1), kept.append(p.range)
                    continue
                if p.range is None and p.first == 0:
                    start.append(0), sizes.append(1), steps.append(1)
                    continue
                return None
            last = p.first + (n - 1) * p.step
            if n == 0 or not (0 <= p.first < whole and 0 <= last < whole):
                return None
            start.append(min(p.first, last))
            sizes.append(n)
            steps.append(abs(p.step) or 1)
            if p.step < 0:
                backwards.append(d)
            if p.range is not None:
                kept.append(p.range)
        found = self.b.reverse(self.b.slice(x, start, sizes, steps), backwards)
        found = self.b.reshape(found, [n for n, p in zip(sizes, places, strict=True) if p.range is not None])
        order = sorted(range(len(kept)), key=kept.__getitem__)
        return self.b.broadcast(self.b.transpose(found, order), shape, sorted(kept))

    # --- folds --------------------------------------------------------------------------------------------------------

    def folded(self) -> list[Value]:
        o, folding = self.of, self.of.folding
        assert folding is not None
        fold = LargestAnywhere() if isinstance(folding.fold, LargestAt) else folding.fold
        dims = sorted(d for d in folding.reduced if d < len(o.ranges))
        if o.body is not None:
            read = list(o.body(self.at, self.sources))
        else:
            assert folding.factors is not None, f"{o.name} has neither a body nor factors"
            x, y = folding.factors(self.at, self.sources)
            read = [expr.cast(x, folding.compute) * expr.cast(y, folding.compute)]
        elements = self.over(o.ranges)
        kept = [n for d, n in enumerate(o.ranges) if d not in folding.reduced]
        inside = self.inside(elements)
        count = elements_in(o.ranges, dims)
        if isinstance(fold, TwoPass):
            if inside is not None:
                raise UnsupportedOp(f"mlir: {o.name} folds windows twice")
            accumulators = self.twice(fold, elements, read[0], dims, count)
        else:
            index = read[1] if len(read) > 1 else self.flat_position(dims) if fold.uses_index else None
            accumulators = self.once(fold, elements, read[0], index, dims, inside)
        if folding.start is not None:
            zero = At([expr.const(0, "i64") if d in folding.reduced else p for d, p in enumerate(self.at)])
            zero.checks = []
            names = [expr.arg(("acc", k), a.dtype.code) for k, a in enumerate(accumulators)]
            begin = [self.kept_position(v, folding.reduced) for v in folding.start(zero, self.sources)]
            joined = fold.merge(scalars, tuple(begin), tuple(names))
            accumulators = self.over(kept, dict(zip(names, accumulators, strict=True))).all(list(joined))
        names = [expr.arg(("acc", k), a.dtype.code) for k, a in enumerate(accumulators)]
        outer = self.over(kept, dict(zip(names, accumulators, strict=True)))
        if folding.result is not None:
            zero = At([expr.const(0, "i64") if d in folding.reduced else p for d, p in enumerate(self.at)])
            zero.checks = []
            made = [self.kept_position(v, folding.reduced) for v in folding.result(zero, self.sources, tuple(names))]
        else:
            made = fold.finish(scalars, tuple(names), count)
        return outer.all(list(made) if isinstance(made, (tuple, list)) else [made])

    def kept_position(self, v: expr.Value, reduced: frozenset[int]) -> expr.Value:
        """An expression over all ranges, over those that stay: they are counted anew."""
        kept = [d for d in range(len(self.of.ranges)) if d not in reduced]
        return expr.replace_all([v], {position(d): position(k) for k, d in enumerate(kept)})[0] if kept else v

    def inside(self, elements: Expression) -> Value | None:
        """Which elements results see, where they see a part of them."""
        folding = self.of.folding
        assert folding is not None
        found = None
        for dim, window in folding.windows:
            zero = At([expr.const(0, "i64") if d in folding.reduced else p for d, p in enumerate(self.at)])
            zero.checks = []
            first, past = window.bounds(zero, self.sources)
            here = elements.of(expr.and_(expr.ge(self.at[dim], first), expr.lt(self.at[dim], past)))
            found = here if found is None else self.b.binary("and", found, here)
        return found

    def flat_position(self, dims: Sequence[int]) -> expr.Value:
        """The position among the folded elements."""
        flat = expr.const(0, "i64")
        for d in dims:
            flat = flat * size_of(self.of.ranges[d]) + self.at[d]
        return flat

    def once(self, fold: Any, elements: Expression, x: expr.Value, index: expr.Value | None, dims: Sequence[int],
             inside: Value | None) -> list[Value]:
        """Every element is stepped onto the first accumulators, and these are merged."""
        b = self.b
        start = started(fold, x.dtype, index)
        stepped = fold.step(scalars, tuple(start), x, index)
        given = elements.all(list(stepped))
        starts = Expression(b, (), {}).all(start)
        if inside is not None:
            given = [b.select(inside, g, b.broadcast(s, g.shape, ())) for g, s in zip(given, starts, strict=True)]
        return self.merged(fold, given, starts, dims)

    def merged(self, fold: Any, given: Sequence[Value], starts: Sequence[Value], dims: Sequence[int]) -> list[Value]:
        if not dims:
            return list(given)
        half = len(given)

        def body(*args: Value) -> list[Value]:
            names = [expr.arg(k, a.dtype.code) for k, a in enumerate(args)]
            joined = fold.merge(scalars, tuple(names[:half]), tuple(names[half:]))
            return Expression(self.b, (), dict(zip(names, args, strict=True))).all(list(joined))

        return self.b.reduce(given, starts, dims, body)

    def twice(self, fold: TwoPass, elements: Expression, x: expr.Value, dims: Sequence[int], length: expr.Value
              ) -> list[Value]:
        b, shape = self.b, elements.shape
        first = self.once(fold.first, elements, x, None, dims, None)
        kept = [d for d in range(len(shape)) if d not in dims]
        names = [expr.arg(("first", k), a.dtype.code) for k, a in enumerate(first)]
        outer = self.over([shape[d] for d in kept], dict(zip(names, first, strict=True)))
        known = list(fold.middle(scalars, tuple(names), length))
        values = outer.all(known)
        marks = [expr.arg(("known", k), v.dtype.code) for k, v in enumerate(values)]
        for mark, v in zip(marks, values, strict=True):
            elements.done[mark] = b.broadcast(v, shape, kept)
            outer.done[mark] = v
        start = list(fold.second_init(scalars, x.dtype))
        stepped = elements.all(list(fold.second_step(scalars, tuple(start), x, tuple(marks))))
        starts = Expression(b, (), {}).all(start)
        second = [b.reduce([g], [s], dims, lambda p, q: [b.binary("add", p, q)])[0] if dims else g
                  for g, s in zip(stepped, starts, strict=True)]
        ends = [expr.arg(("second", k), v.dtype.code) for k, v in enumerate(second)]
        outer.done.update(zip(ends, second, strict=True))
        return outer.all(list(fold.join(scalars, tuple(marks), tuple(ends), length)))

    # --- walks --------------------------------------------------------------------------------------------------------

    def walked(self) -> list[Value]:
        """Running results: each position merged with what lies 1, 2, 4, ... before it."""
        b, o, walk = self.b, self.of, self.of.walk
        assert walk is not None and o.body is not None
        ranges = o.ranges
        x = o.body(self.at, self.sources)[0]
        if not ranges:
            names = walk.single(x) if walk.single else walk.step(walk.init(), x, expr.const(0, "i64"))
            return self.over(ranges).all(list(walk.emit(tuple(names))))
        if walk.merge is None or walk.single is None or not is_fixed(ranges):
            return self.stepped(x)
        elements = self.over(ranges)
        state = elements.all(list(walk.single(x)))
        n, distance = ranges[walk.dim], 1
        while distance < n:
            start = [0] * len(ranges)
            head = [distance if d == walk.dim else s for d, s in enumerate(ranges)]
            rest = [n - distance if d == walk.dim else s for d, s in enumerate(ranges)]
            before = [b.slice(s, start, rest) for s in state]
            after = [b.slice(s, [distance if d == walk.dim else 0 for d in range(len(ranges))], rest) for s in state]
            joined = self.pairwise(walk.merge, before, after, rest)
            state = [b.concatenate([b.slice(s, start, head), j], walk.dim) for s, j in zip(state, joined, strict=True)]
            distance *= 2
        names = [expr.arg(("state", k), s.dtype.code) for k, s in enumerate(state)]
        return self.over(ranges, dict(zip(names, state, strict=True))).all(list(walk.emit(tuple(names))))

    def pairwise(self, merge: Any, left: Sequence[Value], right: Sequence[Value], shape: Sequence[Any]) -> list[Value]:
        names = [[expr.arg((side, k), v.dtype.code) for k, v in enumerate(values)]
                 for side, values in (("left", left), ("right", right))]
        known = dict(zip((*names[0], *names[1]), (*left, *right), strict=True))
        return Expression(self.b, shape, known).all(list(merge(tuple(names[0]), tuple(names[1]))))

    def stepped(self, x: expr.Value) -> list[Value]:
        """The walk as it is: one position after the other."""
        b, o, walk = self.b, self.of, self.of.walk
        assert walk is not None
        elements, outer = self.over(o.ranges).of(x), [n for d, n in enumerate(o.ranges) if d != walk.dim]
        state = Expression(b, outer, {}).all(list(walk.init()))
        codes = [expr.arg(("state", k), s.dtype.code) for k, s in enumerate(state)]
        dtypes = [BY_CODE[e.dtype] for e in walk.emit(tuple(codes))]
        outs = [b.constant(0, d, o.ranges) for d in dtypes]

        def once(at: Value, carried: Sequence[Value]) -> list[Value]:
            here, place = expr.arg("here", x.dtype), expr.arg("place", "i64")
            known = dict(zip(codes, carried, strict=False))
            known[here], known[place] = part(b, elements, at, walk.dim), b.broadcast(at, outer, ())
            within = Expression(b, outer, known)
            names = walk.step(tuple(codes), here, place)
            made = within.all(list(names))
            shown = within.all(list(walk.emit(tuple(names))))
            return [*made, *[with_part(b, whole, y, at, walk.dim)
                             for whole, y in zip(carried[len(codes):], shown, strict=True)]]

        return counted(b, b.extent(o.ranges[walk.dim]), [*state, *outs], once)[len(codes):]

    # --- nothing ------------------------------------------------------------------------------------------------------

    def moved(self) -> Value:
        """What has neither a body nor elements."""
        if 0 in self.of.shape:
            return self.b.constant(0, BY_CODE[self.of.outs[0]], self.of.shape)
        raise UnsupportedOp(f"mlir: {self.of.name} states no element of its result")


# --- scatters ---------------------------------------------------------------------------------------------------------


def scattered(b: Hlo, lowered: Lowered, given: Sequence[Value], target: Value) -> Value:
    """A tensor with values combined into elements of it. Places outside are left out."""
    scatter = lowered.scatter
    assert scatter is not None
    if str(target.shape) != str(tuple(scatter.target.sizes)):      # dims that are one to the loops
        flat = b.reshape(target, tuple(scatter.target.sizes))
        return b.reshape(scattered(b, lowered, [flat if v is target else v for v in given], flat), target.shape)
    loops = Loops(b, lowered, given)
    shape = tuple(lowered.ranges)
    out = Source(-1, scatter.target)
    places, new = scatter.writes(loops.at, out, loops.sources)   # type: ignore[arg-type]
    elements = loops.over(shape)
    value = cast(b, elements.of(new), target.dtype) if new.dtype != target.dtype.code else elements.of(new)
    if not target.ndim:      # one element has one place
        places = [expr.const(0, "i64")]
        target = b.reshape(target, (1,))
    index = b.concatenate([b.reshape(elements.of(expr.cast(p, "i64")), (*shape, 1)) for p in places], len(shape))

    def body(old: Value, fresh: Value) -> list[Value]:
        names = expr.arg("old", old.dtype.code), expr.arg("new", fresh.dtype.code)
        joined = scatter.combine(*names, loops.sources)

        def leaf(e: expr.Value, within: Expression) -> Value:
            raise UnsupportedOp(f"mlir: {lowered.name} combines elements with more than the two of them")

        made = Expression(b, (), {names[0]: old, names[1]: fresh}, leaf).of(joined)
        return [cast(b, made, old.dtype)]

    return b.reshape(scatter_into(b, target, index, value, body), () if not scatter.target.sizes else target.shape)


def scatter_into(b: Hlo, target: Value, index: Value, value: Value, body: Any) -> Value:
    """Single elements: `index` has places in its last dim."""
    dims = types_list(range(target.ndim))
    numbers = (f"#stablehlo.scatter<inserted_window_dims = {dims}, scatter_dims_to_operand_dims = {dims}, "
               f"index_vector_dim = {index.ndim - 1}>")
    region = b.scalar_region([target.dtype, target.dtype], body)
    return b.op("stablehlo.scatter", [target, index, value], Value(target.type, target.dtype, target.shape), {
        "scatter_dimension_numbers": numbers, "indices_are_sorted": "false", "unique_indices": "false"}, [region])


# --- numbers ----------------------------------------------------------------------------------------------------------


def number(read: Number) -> expr.Value:
    """A number that kernels would be given."""
    if isinstance(read.value, _C.SymbolicInt):
        return expr.cast(size_of(read.value), read.code)
    return expr.const(read.value, read.code)


def table(b: Hlo, read: Table) -> Value:
    """Elements that an op worked out when it was planned."""
    t = frombuffer(bytearray(read.values), dtype=BY_CODE[read.code]).reshape(read.sizes)
    return b.tensor(t)


def elements_in(ranges: Sequence[Any], dims: Sequence[int]) -> expr.Value:
    """How many elements are folded into one."""
    count = expr.const(1, "i64")
    for d in dims:
        count = count * size_of(ranges[d])
    return count

