"""CPU schedules of ops without a fold: pointwise, gather and scatter forms.

Enters: Lowereds. Leaves: one launch each. Aligned bodies have their ranges joined where every operand allows it; the
last one runs in vectors. Bodies with places of their own keep their ranges; computed indices are checked in blocks,
before any is used. Scatter loops that may meet in one element (`serial`) run in order on one thread; the others are
divided among threads. So results never depend on the number of threads, repeated indices included.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .... import _C
from ....loops.expr import Value, arg, cast, const, ge, idiv, irem, load, min_, or_, replace, var, walk
from ....loops.lowered import (
    GENERAL,
    HERE,
    SINGLE,
    At,
    Elements,
    Given,
    Lowered,
    Memory,
    Placed,
    Table,
    compute_code,
    number_value,
)
from ....loops.nest import Check, For, If, Nest, Statement, Store, operands, pointwise_nest, reduction, rows
from ....loops.record import Record
from ....loops.split import split_loop, splits
from ..forms.launch import (
    CHECK_BLOCK,
    ENOUGH_ROWS,
    GRAIN,
    Launch,
    Schedule,
    Temp,
    grain_of,
    names,
    number_bits,
    number_names,
    product,
)
from .fold import Axis, coalesce, given_bits, given_names, locate, sources_of

ZERO = const(0, "i64")
_forms: dict[tuple, tuple[bool, bool]] = {}      # by key: what only a body can tell of a nest, see nest_with_form


# --- aligned ----------------------------------------------------------------------------------------------------------


def point_nest(lowered: Lowered) -> Nest:
    """A pointwise op for any shapes: two strided dims, whose sizes and strides the core works out at each call;
    numbers are operands."""
    sources = [Placed(k, None, r.code, arg(k, r.code)) for k, r in enumerate(lowered.reads)]
    values = [cast(v, code) for v, code in zip(lowered.body(HERE, sources), lowered.outs, strict=True)]
    return pointwise_nest(lowered.name, [r.code for r in lowered.reads], lowered.outs, values)


def joined_ranges(lowered: Lowered) -> tuple[list[Axis], list[int], tuple] | None:
    """The ranges of an aligned body, joined where every operand allows it; None where there are no elements.

    Gives the axes, their sizes and strides as a kernel is given them, and what the kernel's code depends on."""
    memories = lowered.memories
    strides = [m.along() for m in memories]
    axes, other = [], 1
    for d in range(len(lowered.ranges) - 1, -1, -1):
        axes.append(Axis(lowered.ranges[d], tuple([s[d] for s in strides]), other))
        other *= lowered.ranges[d]
    if other == 0:
        return None
    axes = coalesce([a for a in axes if a.size != 1]) or [Axis(1, (0,) * len(memories), 1)]
    params = [a.size for a in axes]
    for r in range(len(memories)):
        params += [a.strides[r] for a in axes]
    kinds = tuple([type(r.value) for r in lowered.reads if not isinstance(r, Memory)])
    return axes, params, (lowered.key, tuple([m.code for m in memories]), lowered.outs, len(axes), kinds)


def schedule_points(lowered: Lowered) -> Schedule:
    """An aligned body: ranges joined, all but the last flattened into the outer loop."""
    joined = joined_ranges(lowered)
    if joined is None:
        return Schedule(())
    axes, params, key = joined
    inner = axes[-1].size if len(axes) > 1 else 1
    extent = product(a.size for a in axes[:-1]) if len(axes) > 1 else axes[0].size
    operand_numbers = tuple(range(len(lowered.memories) + len(lowered.outs)))
    return Schedule(
        (
            Launch(
                ("points", *key),
                lambda: joined_nest(lowered, len(axes)),
                operand_numbers,
                (*params, *given_bits(lowered)),
                extent,
                grain_of(inner),
            ),
        )
    )


def joined_nest(lowered: Lowered, rank: int) -> Nest:
    """Loops over `rank` joined ranges."""
    codes = [m.code for m in lowered.memories]
    sizes = names("n", rank)
    strides = [names(f"s{r}.", rank) for r in range(len(codes))]
    outer, last = (ZERO, var("i")) if rank == 1 else (var("i"), var("j"))
    places = [locate(outer, sizes[:-1], s[:-1]) + last * var(s[-1]) for s in strides]
    sources = sources_of(lowered, [Placed(r, at, code) for r, (at, code) in enumerate(zip(places, codes, strict=True))])
    at = last if rank == 1 else outer * var(sizes[-1]) + last
    stores = [
        Store(len(codes) + k, at, cast(v, code))
        for k, (v, code) in enumerate(zip(lowered.body(HERE, sources), lowered.outs, strict=True))
    ]
    loop = rows(*stores, vector=True) if rank == 1 else rows(For("j", ZERO, var(sizes[-1]), tuple(stores), vector=True))
    params = [*sizes, *[s for own in strides for s in own], *given_names(lowered)]
    return Nest(lowered.name, operands(codes, lowered.outs), tuple(params), loop)


# --- places of their own ----------------------------------------------------------------------------------------------


class Bound:
    """The reads of a body with places of its own: its sources, and the parameters they need."""

    def __init__(self, lowered: Lowered) -> None:
        self.sources: list[Any] = []
        self.params: list[str] = []
        self.values: list[int] = []
        self.codes: list[str] = []
        key = []
        for r in lowered.reads:
            if isinstance(r, Memory):
                kinds = r.classes()
                self.sources.append(Elements(len(self.codes), r.name, r.code, kinds, r.dims))
                self.codes.append(r.code)
                add_geometry(r.name, r.sizes, r.strides, kinds, self.params, self.values)
                key.append((r.code, kinds))
            else:
                self.sources.append(Given(cast(number_value(r.name, r.value), r.code)))
                self.params += number_names(r.name, r.value)
                self.values += number_bits(r.value)
                key.append(type(r.value))
        self.key = tuple(key)


def add_geometry(
    name: str, sizes: Sequence[int], strides: Sequence[int], kinds: Sequence[int], params: list[str], values: list[int]
) -> None:
    """Add the sizes and strides that are run-time parameters."""
    for d, kind in enumerate(kinds):
        if kind != SINGLE:
            params.append(f"{name}.n{d}")
            values.append(sizes[d])
        if kind == GENERAL:
            params.append(f"{name}.s{d}")
            values.append(strides[d])


class Loop(Record):
    """One loop of a gather: the ranges it runs through as one, slowest first, and its size."""

    ranges: tuple[int, ...]
    size: int


def schedule_gather(lowered: Lowered) -> Schedule:
    """A body with places of its own: outer loop over all ranges but the last, vector loop over that."""
    if any(n == 0 for n in lowered.ranges):
        return Schedule(())
    bound, loops = Bound(lowered), gather_loops(lowered)
    ranges = tuple([loop.ranges for loop in loops])
    # Where threads have enough to share, rows lie inside an iteration, and their positions need no division.
    inside = len(loops) > 2 and product(loop.size for loop in loops[:-2]) >= ENOUGH_ROWS
    key = ("gather", lowered.key, bound.key, ranges, inside, lowered.outs)
    result = nest_with_form(key, lambda: gather_nest(lowered, bound, ranges, inside))
    checked, blocked = _forms[key]
    inputs, outs, sizes = len(bound.codes), len(lowered.outs), [loop.size for loop in loops]
    numel = product(sizes)
    inner = product(sizes[-2:]) if inside else sizes[-1] if len(sizes) > 1 else 1
    extent = numel // inner
    params = [*bound.values, *(sizes if len(sizes) > 1 else (numel,) if blocked else ())]
    if blocked:
        extent, inner = -(-numel // CHECK_BLOCK), CHECK_BLOCK
    cell = inputs + outs if checked else -1
    operand_numbers = (*range(inputs + outs), *([cell] if checked else []))
    return Schedule(
        (Launch(key, result, operand_numbers, tuple(params), extent, grain_of(inner), cell),),
        (Temp("i64", (1,)),) if checked else (),
    )


def gather_loops(lowered: Lowered) -> list[Loop]:
    """The loops in the order of the result's memory; ranges that every tensor is read along as they come are joined."""
    rank, layout = len(lowered.ranges), lowered.layout
    order = range(rank) if layout is None else sorted(range(rank), key=lambda d: -layout[d])
    loops: list[Loop] = []
    for d in order:
        n = lowered.ranges[d]
        if n == 1:
            continue
        before = loops[-1] if loops else None
        if before is not None and d in lowered.through and lowered.through.issuperset(before.ranges):
            last = before.ranges[-1]
            if all(m.strides[last] == n * m.strides[d] for m in lowered.memories if not isinstance(m, Table)):
                loops[-1] = Loop((*before.ranges, d), before.size * n)
                continue
        loops.append(Loop((d,), n))
    return loops


def nest_with_form(key: tuple, make: Any) -> Any:
    """What makes the nest, made already where nobody knows its form yet: whether it checks indices,
    and whether one range goes in blocks."""
    if key in _forms:
        return lambda: make()[0]
    nest, *form = make()
    _forms[key] = tuple(form)
    return lambda: nest


def form_of(key: tuple) -> tuple:
    """The form of a nest that was made, by its key."""
    return _forms[key]


def gather_nest(
    lowered: Lowered, bound: Bound, ranges: tuple[tuple[int, ...], ...], inside: bool
) -> tuple[Nest, bool, bool]:
    """The kernel, and its form."""
    dims = [own[-1] for own in ranges]       # the last range of a loop stands for all of them
    sizes = [f"out.n{d}" for d in dims]
    item, position = var("i"), {}
    flat = len(dims) <= 1
    if inside:
        position[dims[-2]] = var("r")
    outer = dims[: -2 if inside else -1]
    for d in reversed(outer):
        n = var(f"out.n{d}")
        first = d == outer[0]
        position[d] = item if first else irem(item, n)
        item = item if first else idiv(item, n)

    def traced(last: Value) -> tuple[list[Value], list]:
        at = At({**position, **({dims[-1]: last} if dims else {})}.get(d, ZERO) for d in range(len(lowered.ranges)))
        at.checks = []
        return [cast(v, code) for v, code in zip(lowered.body(at, bound.sources), lowered.outs, strict=True)], at.checks

    values, found = traced(var("j"))
    blocked = flat and (bool(found) or (bool(dims) and splits("j", values)))
    if flat and not blocked:   # nothing to check: the outer loop itself runs in vectors
        values, found = traced(var("i"))
    inputs = bound.codes
    checks = [Check(condition, len(inputs) + len(values), shown) for condition, shown in found]

    def stores(at: Value) -> list[Store]:
        return [Store(len(inputs) + k, at, value) for k, value in enumerate(values)]

    if flat and not blocked:
        body = rows(*stores(var("i")), vector=True)
    elif flat:
        first = var("i") * const(CHECK_BLOCK, "i64")
        last = min_(first + const(CHECK_BLOCK, "i64"), var("numel"))
        body = rows(*checked_loop("j", first, last, checks, stores(var("j"))))
    else:
        row = var("i") * var(sizes[-2]) + var("r") if inside else var("i")
        along = [c for c in checks if depends(c, "j")]
        before = [c for c in checks if c not in along]
        line = [*before, *checked_loop("j", ZERO, var(sizes[-1]), along, stores(row * var(sizes[-1]) + var("j")))]
        body = rows(For("r", ZERO, var(sizes[-2]), tuple(line))) if inside else rows(*line)
    result = operands(inputs, lowered.outs, ["i64"] if checks else [])
    own = ("numel",) if blocked else () if flat else sizes
    return Nest(lowered.name, result, (*bound.params, *own), body), bool(checks), blocked


def checked_loop(
    name: str, start: Value, stop: Value, checks: Sequence[Check], body: Sequence[Store]
) -> list[Statement]:
    """A loop over computed places. All places are looked at first, in vectors; then no step has to test its own."""
    if not checks:
        return split_loop(name, start, stop, body)
    sign = ZERO
    for check in checks:
        sign = or_(sign, check.condition.args[0])   # `bounded` made it: negative where the check fails
    verified = reduction(
        name, start, stop, ["signs"], [ZERO], lambda acc: [or_(acc[0], sign)], lambda a, b: [or_(a[0], b[0])]
    )
    return [
        verified,
        If(
            ge(var("signs"), ZERO),
            tuple(unrolled(name, start, stop, body)),
            (For(name, start, stop, (*checks, *body)),),
        ),
    ]


def unrolled(name: str, start: Value, stop: Value, body: Sequence[Store], times: int = 4) -> list[Statement]:
    """A serial loop whose steps come several at a time: short ones are all overhead otherwise."""
    four = const(times, "i64")
    whole = idiv(stop - start, four)
    steps = []
    for k in range(times):
        at = {var(name): start + var(f"{name}.group") * four + const(k, "i64")}
        steps += [Store(s.operand, replace(s.index, at), replace(s.value, at), s.combine) for s in body]
    return [For(f"{name}.group", ZERO, whole, tuple(steps)), For(name, start + whole * four, stop, tuple(body))]


def depends(check: Check, name: str) -> bool:
    """Whether a check reads the loop variable `name`."""
    return any(node.op == "var" and node.attr == name for node in walk((check.condition, check.value)))


def looks_up(index: Value, name: str) -> bool:
    """Whether a place is read from memory at the loop variable `name`: lanes then write apart from each other."""
    loads = [node for node in walk([index]) if node.op == "load"]
    return any(node.op == "var" and node.attr == name for node in walk(loads))


# --- scatter ----------------------------------------------------------------------------------------------------------


def schedule_scatter(lowered: Lowered) -> Schedule:
    """Values combined into elements: shared positions among threads, then the serial ranges,
    then lanes if the last range is free."""
    space, scatter = lowered.ranges, lowered.scatter
    if any(n == 0 for n in space):
        cleared = clear_launch(scatter.target.code, scatter.target.sizes, len(lowered.memories))
        return Schedule((cleared,) if scatter.cleared else ())
    bound, target, serial = Bound(lowered), scatter.target, scatter.serial
    ones = tuple([n == 1 for n in space])
    kinds = target.classes()
    loops = [d for d in range(len(space)) if not ones[d]]
    lane = loops[-1] if loops and loops[-1] not in serial else None
    shared = [d for d in loops if d not in serial and d != lane]
    # each iteration clears what it writes to, which is then in its cache
    clears = scatter.cleared and scatter.own.issuperset([d for d in loops if d not in serial])
    key = ("scatter", lowered.key, bound.key, ones, kinds, serial, clears)
    result = nest_with_form(key, lambda: scatter_nest(lowered, bound, kinds, ones, clears))
    inner = product(space[d] for d in loops if d in serial)
    if clears:
        inner += product(n for d, n in enumerate(target.sizes) if d not in scatter.own)
    values = [*bound.values]
    add_geometry("out", target.sizes, target.strides, kinds, [], values)
    values.extend([space[d] for d in loops])
    extent = product(space[d] for d in shared)
    if lane is not None:
        width = max(1024, GRAIN // max(1, inner) // 64 * 64)   # long runs: slices are visited in any order
        if extent == 1 and inner * space[lane] >= 4 * GRAIN:   # else one thread would do all
            width = min(width, piece_for_threads(space[lane])) if _C.get_num_threads() > 1 else space[lane]
        blocks = -(-space[lane] // width)
        values.extend((width, blocks))
        extent *= blocks
        inner *= min(width, space[lane])
    inputs = len(bound.codes)
    cell = inputs + 1 if _forms[key][0] else -1
    operand_numbers = (*range(inputs + 1), *([cell] if cell >= 0 else []))
    launch = Launch(key, result, operand_numbers, tuple(values), extent, grain_of(inner), cell)
    first = (clear_launch(target.code, target.sizes, inputs),) if scatter.cleared and not clears else ()
    return Schedule(
        (*first, launch),
        (Temp("i64", (1,)),) if cell >= 0 else (),
    )


def piece_for_threads(length: int) -> int:
    """How much of a run each thread gets: in two parts, unless those are short; slices lie anywhere in memory, and the
    shorter a part the more of the time goes into finding it."""
    threads = _C.get_num_threads()
    parts = 2 * threads if length >= 512 * threads else threads
    return max(64, -(-length // parts // 64) * 64)


def clear_launch(code: str, sizes: Sequence[int], operand: int) -> Launch:
    """Zeros everywhere in a dense tensor."""
    nest = Nest("clear", operands([], [code]), (), rows(Store(0, var("i"), const(0, code)), vector=True))
    return Launch(("clear", code), lambda: nest, (operand,), (), product(sizes), GRAIN)


def scatter_nest(
    lowered: Lowered, bound: Bound, kinds: tuple[int, ...], ones: tuple[bool, ...], clears: bool
) -> tuple[Nest, bool]:
    """The kernel, and whether it checks indices; where it `clears`, zeros are written first."""
    inputs, serial, code = bound.codes, lowered.scatter.serial, lowered.scatter.target.code
    out = Elements(len(inputs), "out", code, kinds)
    loops = [d for d in range(len(ones)) if not ones[d]]
    lane = loops[-1] if loops and loops[-1] not in serial else None
    shared = [d for d in loops if d not in serial and d != lane]
    params = [*bound.params]
    add_geometry("out", (0,) * len(kinds), (0,) * len(kinds), kinds, params, [])
    params.extend([f"loop{d}" for d in loops])
    item, position, block = var("i"), {}, ZERO
    if lane is not None:
        params.extend(("width", "blocks"))
        block, item = irem(item, var("blocks")), idiv(item, var("blocks"))
        position[lane] = var(f"at{lane}")
    for d in reversed(shared):
        first = d == shared[0]
        position[d] = item if first else irem(item, var(f"loop{d}"))
        item = item if first else idiv(item, var(f"loop{d}"))
    for d in loops:
        if d in serial:
            position[d] = var(f"at{d}")
    at = At(position.get(d, ZERO) for d in range(len(ones)))
    at.checks = []
    place, value = lowered.scatter.writes(at, out, bound.sources)
    compute = compute_code(code)
    index = out.place(place)
    result = lowered.scatter.combine(cast(load(out.operand, index, code), compute), cast(value, compute), bound.sources)
    store = Store(out.operand, index, cast(cast(result, compute), code))
    checks = [Check(condition, len(inputs) + 1, shown) for condition, shown in at.checks]
    variables = [f"at{d}" for d in loops if d in serial] + ([f"at{lane}"] if lane is not None else [])
    body: list[Statement] = [store]
    for level in range(len(variables) - 1, -1, -1):
        name = variables[level]
        own = [c for c in checks if depends(c, name) and not any(depends(c, v) for v in variables[level + 1 :])]
        d = int(name[2:])
        bounds = (ZERO, var(f"loop{d}"))
        if d == lane:
            first = block * var("width")
            bounds = (first, min_(first + var("width"), var(f"loop{d}")))
        if own and level == len(variables) - 1:
            body = checked_loop(name, *bounds, own, [store])
        else:
            body = [For(name, *bounds, (*own, *body), vector=d == lane and not own and not looks_up(index, name))]
    own = [c for c in checks if not any(depends(c, v) for v in variables)]
    answer = operands(inputs, [code], ["i64"] if checks else [])
    if clears:
        first = block * var("width")
        stretch = None if lane is None else (first, min_(first + var("width"), var(f"loop{lane}")))
        body = [*clearing(out, at, lowered.scatter.own, lane, stretch), *body]
    return Nest(lowered.name, answer, tuple(params), rows(*own, *body)), bool(checks)


def clearing(
    out: Elements, at: At, own: frozenset[int], lane: int | None, stretch: tuple[Value, Value] | None
) -> list[Statement]:
    """Zeros in the part of the tensor that one iteration writes to: at its position along the ranges in `own`, and of
    those along its lanes in `stretch`."""
    place = [at[d] if d in own and d != lane else var(f"clear{d}") for d in range(out.ndim)]
    looped = [d for d in range(out.ndim) if d not in own or d == lane]
    body: list[Statement] = [Store(out.operand, out.place(place), const(0, out.code))]
    for d in reversed(looped):
        bounds = stretch if d == lane else (ZERO, out.shape[d])
        body = [For(f"clear{d}", *bounds, tuple(body), vector=d == looped[-1])]
    return body
