"""CPU schedules of ops without a fold: pointwise, gather and scatter forms.

Enters: Lowereds. Leaves: one launch each. Aligned bodies have their ranges joined where every operand allows it; the
last one runs in vectors. Bodies with places of their own keep their ranges; computed indices are checked in blocks,
before any is used. Scatter loops that may meet in one element (`serial`) run in order on one thread; the others are
divided among threads. So results never depend on the number of threads, repeated indices included.
"""

from __future__ import annotations

from collections.abc import Sequence

from .... import _C
from ....loops.expr import Value, cast, const, ge, idiv, irem, load, min_, or_, var, walk
from ....loops.lowered import HERE, At, Elements, Lowered, Placed, compute_code
from ....loops.nest import Check, For, If, Nest, Statement, Store, operands, reduction, rows
from ....loops.split import split_loop, splits
from ..forms.axes import locate
from ..forms.launch import ENOUGH_ROWS, GRAIN, Launch, Schedule, Temp, grain_of, names, product
from ..forms.loops import (
    clear_launch,
    form_of,
    gather_loops,
    in_vectors,
    joined_ranges,
    lanes_of,
    nest_with_form,
    unrolled,
)
from ..forms.sources import Bound, add_geometry, given_bits, given_names, sources_of

ZERO = const(0, "i64")
CHECK_BLOCK = 4096       # positions whose indices are checked before any is used: they stay in the nearest cache


# --- aligned ----------------------------------------------------------------------------------------------------------


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


def schedule_gather(lowered: Lowered) -> Schedule:
    """A body with places of its own: outer loop over all ranges but the last, vector loop over that."""
    if any(n == 0 for n in lowered.ranges):
        return Schedule(())
    bound, loops = Bound(lowered), gather_loops(lowered)
    ranges = tuple([loop.ranges for loop in loops])
    # Where threads have enough to share, rows lie inside an iteration, and their positions need no division.
    inside = len(loops) > 2 and product(loop.size for loop in loops[:-2]) >= ENOUGH_ROWS
    lanes = lanes_of(lowered, loops[-1].size, (*bound.codes[:1], *lowered.outs)) if len(loops) > 1 else None
    key = ("gather", lowered.key, bound.key, ranges, inside, lowered.outs, lanes)
    result = nest_with_form(key, lambda: gather_nest(lowered, bound, ranges, inside, lanes))
    checked, blocked = form_of(key)
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


def gather_nest(
    lowered: Lowered, bound: Bound, ranges: tuple[tuple[int, ...], ...], inside: bool, lanes: tuple[int, bool] | None
) -> tuple[Nest, bool, bool]:
    """The kernel, and its form; the last loop goes in vectors of `lanes` if that is a number, and if nothing is
    checked or chosen."""
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

    def stores(at: Value, values: Sequence[Value] = values) -> list[Store]:
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
        start, stop = row * var(sizes[-1]), var(sizes[-1])
        line = [*before, *checked_loop("j", ZERO, stop, along, stores(start + var("j")))]
        if lanes and not checks and not splits("j", values):
            line = in_vectors("j", stop, lanes, lambda at: stores(start + at, traced(at)[0]))
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
    cell = inputs + 1 if form_of(key)[0] else -1
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
