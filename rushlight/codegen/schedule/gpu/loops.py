"""GPU schedules of ops without a fold: a thread for each element, or a block for each slice.

Enters: Lowereds. Leaves: one launch each, and for scattered sums of half types those that widen and narrow them.
Positions that meet in one element combine by an atomic instruction where there is one, else by exchanging the element,
and replace each other as they come; where results must not depend on how threads run, they run in order, in one thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .... import _C
from ....base.settings import are_deterministic_algorithms_enabled
from ....loops.expr import Value, arg, cast, const, idiv, irem, load, var, walk
from ....loops.lowered import HERE, At, Elements, Given, Lowered, Memory, Placed, Table, compute_code
from ....loops.nest import THERE, Check, For, Local, Nest, Statement, Store, operands, pointwise_nest, rows
from ...text.primitives import SIZE
from ..forms.axes import Axis, locate
from ..forms.launch import Launch, Schedule, Temp, names, product
from ..forms.loops import clear_launch, form_of, joined_ranges, nest_with_form
from ..forms.sources import Bound, add_geometry, given_bits, given_names, sources_of
from .items import items_of, position_of as position_among, strided

ZERO = const(0, "i64")
ATOMIC = ("f32", "f64", "i32", "i64")      # types whose sums have an atomic instruction
SWAPPED = ("f32", "f64", "f16", "bf16", "i8", "u8", "i16", "i32", "i64")      # types whose elements can be exchanged
HALF = ("f16", "bf16")
MOST_POINTS = 28         # operands of a kernel that has variants by geometry
CONSTANT = 16            # bytes of a constant operand
MOST_DIMS = 6            # and its dims (kSplitDims of csrc/cuda/device.cpp)
BY_CODE = {d.code: d for d in vars(_C).values() if isinstance(d, _C.dtype)}
SLICES = 256             # that keep a unit busy, a block each
SLICE = (256, 1 << 15)   # elements of a slice that are worth a block, and not more than one's share


# --- a thread for each element ----------------------------------------------------------------------------------------


def schedule_points(lowered: Lowered, many_dims: bool = False) -> Schedule:
    """An aligned body: ranges joined where they are one in memory. `many_dims`: pointwise kernels go along more than
    two of them."""
    joined = joined_ranges(lowered)
    if joined is None:
        return Schedule(())
    axes, params, key = joined
    inputs, outs = len(lowered.memories), len(lowered.outs)
    given = constants_of(lowered)
    if len(axes) <= (MOST_DIMS if many_dims else 2) and given is not None and inputs + len(given) + outs <= MOST_POINTS:
        inner, *outer = reversed(axes)
        steps = [byte_strides(lowered, a, len(given)) for a in (inner, *outer)]
        further = [n for a, s in zip(outer[1:], steps[2:], strict=True) for n in (a.size, *s)]
        numbers = (inner.size, *steps[0], *(steps[1] if outer else [0] * len(steps[0])), *further)
        operands_ = (*range(inputs), *[(-1, CONSTANT * k) for k in range(len(given))], *range(inputs, inputs + outs))
        extent, constants = outer[0].size if outer else 1, b"".join(given)
        nest = lambda: pair_nest(lowered)  # noqa: E731
        return Schedule((Launch(("gpu pair", *key), nest, operands_, numbers, extent, 1, constants=constants),))
    extent, every = product(lowered.ranges), tuple(range(inputs + outs))
    values = (*params, *given_bits(lowered))
    return Schedule((Launch(("gpu points", *key), lambda: points_nest(lowered, len(axes)), every, values, extent, 1),))


def constants_of(lowered: Lowered) -> list[bytes] | None:
    """The numbers that a body is given, as constants of a pointwise kernel; None where one is known at run time only,
    or tables travel with the kernel."""
    if any(isinstance(m, Table) for m in lowered.memories):
        return None
    found = []
    for r in lowered.reads:
        if not isinstance(r, Memory):
            if not isinstance(r.value, (bool, int, float, complex)):
                return None
            found.append(_C.number_bytes(r.value, BY_CODE[r.code]).ljust(CONSTANT, b"\0"))
    return found


def byte_strides(lowered: Lowered, axis: Axis, constants: int) -> list[Any]:
    """How far every operand goes along an axis, in bytes."""
    read = [s * SIZE[m.code] for s, m in zip(axis.strides, lowered.memories, strict=True)]
    return [*read, *[0] * constants, *[axis.other * SIZE[code] for code in lowered.outs]]


def pair_nest(lowered: Lowered) -> Nest:
    """A body over few ranges as the pointwise kernel it is, which has variants for vectors; numbers are operands."""
    codes = [m.code for m in lowered.memories]
    placed = iter([Placed(r, None, code, arg(r, code)) for r, code in enumerate(codes)])
    given = [r.code for r in lowered.reads if not isinstance(r, Memory)]
    numbers = iter([Given(arg(len(codes) + k, code)) for k, code in enumerate(given)])
    sources = [next(placed if isinstance(r, Memory) else numbers) for r in lowered.reads]
    values = [cast(v, code) for v, code in zip(lowered.body(HERE, sources), lowered.outs, strict=True)]
    return pointwise_nest(lowered.name, [*codes, *given], lowered.outs, values)


def points_nest(lowered: Lowered, rank: int) -> Nest:
    """A loop over `rank` joined ranges as one."""
    codes = [m.code for m in lowered.memories]
    sizes = names("n", rank)
    strides = [names(f"s{r}.", rank) for r in range(len(codes))]
    sources = sources_of(
        lowered,
        [Placed(r, locate(var("i"), sizes, s), code) for r, (s, code) in enumerate(zip(strides, codes, strict=True))],
    )
    values = zip(lowered.body(HERE, sources), lowered.outs, strict=True)
    stores = [Store(len(codes) + k, var("i"), cast(v, code)) for k, (v, code) in enumerate(values)]
    params = [*sizes, *[s for own in strides for s in own], *given_names(lowered)]
    return Nest(lowered.name, operands(codes, lowered.outs), tuple(params), rows(*stores, vector=True))


def position_of(item: Value, dims: list[int], size: str) -> dict[int, Value]:
    """Where number `item` of all positions is, the last of `dims` fastest."""
    position = {}
    for d in reversed(dims):
        n, first = var(f"{size}{d}"), d == dims[0]
        position[d] = item if first else irem(item, n)
        item = item if first else idiv(item, n)
    return position


def schedule_gather(lowered: Lowered) -> Schedule:
    """A body with places of its own; each thread checks the indices it uses."""
    if any(n == 0 for n in lowered.ranges):
        return Schedule(())
    bound, layout, rank = Bound(lowered), lowered.layout, len(lowered.ranges)
    order = range(rank) if layout is None else sorted(range(rank), key=lambda d: -layout[d])
    dims = [d for d in order if lowered.ranges[d] != 1]
    sizes = [lowered.ranges[d] for d in dims]
    if len(dims) > 1 and SLICE[0] <= sizes[-1] <= SLICE[1] and product(sizes[:-1]) >= SLICES:
        found = schedule_slices(lowered, bound, dims)
        if found is not None:
            return found
    count = product(sizes)
    each, small = items_of(count)
    key = ("gpu gather", lowered.key, bound.key, tuple(dims), lowered.outs, each, small)
    result = nest_with_form(key, lambda: gather_nest(lowered, bound, dims, each, small))
    inputs, outs, (checked,) = len(bound.codes), len(lowered.outs), form_of(key)
    cell = inputs + outs if checked else -1
    numbers = (*range(inputs + outs), *([cell] if checked else []))
    temps, extent = (Temp("i64", (1,)),) if checked else (), -(-count // each)
    return Schedule((Launch(key, result, numbers, (*bound.values, *sizes, extent, count), extent, 1, cell),), temps)


def schedule_slices(lowered: Lowered, bound: Bound, dims: list[int]) -> Schedule | None:
    """A block for each slice along the last dim, whose indices it checks once; None where there are none to check, or
    they depend on the place in the slice."""
    key = ("gpu slices", lowered.key, bound.key, tuple(dims), lowered.outs)
    result = nest_with_form(key, lambda: slices_nest(lowered, bound, dims))
    if not form_of(key)[0]:
        return None
    sizes, cell = [lowered.ranges[d] for d in dims], len(bound.codes) + len(lowered.outs)
    launch = Launch(key, result, tuple(range(cell + 1)), (*bound.values, *sizes), product(sizes[:-1]), 1, cell)
    return Schedule((launch,), (Temp("i64", (1,)),))


def slices_nest(lowered: Lowered, bound: Bound, dims: list[int]) -> tuple[Nest | None, bool]:
    """The kernel, and whether there is one."""
    names_of_sizes = [f"out.n{d}" for d in dims]
    outer = position_among(var("i"), names_of_sizes[:-1], False)
    position = {**dict(zip(dims[:-1], outer, strict=True)), dims[-1]: var("j")}
    at = At(position.get(d, ZERO) for d in range(len(lowered.ranges)))
    at.checks = []
    values = [cast(v, code) for v, code in zip(lowered.body(at, bound.sources), lowered.outs, strict=True)]
    if not at.checks or any(var("j") in walk(check) for check in at.checks):
        return None, False
    inputs, size = len(bound.codes), var(names_of_sizes[-1])
    checks = [Check(condition, inputs + len(values), shown) for condition, shown in at.checks]
    stores = [Store(inputs + k, var("i") * size + var("j"), value) for k, value in enumerate(values)]
    inner = For("j", ZERO, size, tuple(stores), True)
    signature = operands(bound.codes, lowered.outs, ["i64"])
    return Nest(f"{lowered.name}_slices", signature, (*bound.params, *names_of_sizes), rows(*checks, inner)), True


def gather_nest(lowered: Lowered, bound: Bound, dims: list[int], each: int, small: bool) -> tuple[Nest, bool]:
    """The kernel, and whether it checks indices. A thread with several elements reads all their indices first, then
    checks them, then reads the elements."""
    inputs, outs = len(bound.codes), len(lowered.outs)
    names_of_sizes = [f"out.n{d}" for d in dims]
    indices: list[Statement] = []
    checks, values, stores = [], [], []
    for k, item in enumerate(strided(each)):
        position = dict(zip(dims, position_among(item, names_of_sizes, small), strict=True))
        at = At(position.get(d, ZERO) for d in range(len(lowered.ranges)))
        at.checks = []
        for n, (v, code) in enumerate(zip(lowered.body(at, bound.sources), lowered.outs, strict=True)):
            values.append(Local(f"value{k}.{n}", cast(v, code)))
            stores.append(Store(inputs + n, item, var(f"value{k}.{n}", code)))
        checks += [Check(condition, inputs + outs, shown) for condition, shown in at.checks]
        read = [v for condition, _ in at.checks for v in walk([condition]) if v.op == "load"]
        indices += [Local(f"index{k}.{n}", v) for n, v in enumerate(read)]
    result = operands(bound.codes, lowered.outs, ["i64"] if checks else [])
    body = [*indices, *checks, *values, *stores]
    return Nest(
        lowered.name, result, (*bound.params, *names_of_sizes, "apart", "count"), rows(*body, vector=not checks)
    ), bool(checks)


# --- scatter ----------------------------------------------------------------------------------------------------------


def schedule_scatter(lowered: Lowered) -> Schedule:
    """A thread for each position where what meets is added by an atomic instruction or exchanged; otherwise one for all
    positions that may meet. Sums of half types are kept in single precision meanwhile."""
    space, target, cleared = lowered.ranges, lowered.scatter.target, lowered.scatter.cleared
    out = len(lowered.memories)
    if any(n == 0 for n in space):
        return Schedule((clear_launch(target.code, target.sizes, out),) if cleared else ())
    is_wide = target.code in HALF and is_sum(lowered)
    if is_wide:
        lowered = lowered.but(scatter=lowered.scatter.but(target=target.but(code="f32", strides=dense(target.sizes))))
    scatter = lowered.scatter
    bound, kinds = Bound(lowered), scatter.target.classes()
    dims = [d for d in range(len(space)) if space[d] != 1]
    in_order = are_deterministic_algorithms_enabled()     # then what meets is added by one thread
    key = ("gpu scatter", lowered.key, bound.key, tuple(dims), kinds, scatter.serial, scatter.target.code, in_order)
    result = nest_with_form(key, lambda: scatter_nest(lowered, bound, kinds, dims, in_order))
    checked, atomic = form_of(key)
    shared = [d for d in dims if atomic or d not in scatter.serial]
    values = [*bound.values]
    add_geometry("out", scatter.target.sizes, scatter.target.strides, kinds, [], values)
    values.extend([space[d] for d in dims])
    temps = [Temp("f32", scatter.target.sizes)] if is_wide else []
    cell = out + 1 + len(temps) if checked else -1
    temps += [Temp("i64", (1,))] if checked else []
    numbers = (*range(out), out + is_wide, *([cell] if checked else []))
    launches = [Launch(key, result, numbers, tuple(values), product([space[d] for d in shared]), 1, cell)]
    if cleared:
        launches.insert(0, clear_launch(scatter.target.code, scatter.target.sizes, out + is_wide))
    elif is_wide:
        launches.insert(0, moved(target, out, True))
    if is_wide:
        launches.append(moved(target, out, False))
    return Schedule(tuple(launches), tuple(temps))


def dense(sizes: Sequence[int]) -> tuple[int, ...]:
    """Strides of a tensor without gaps."""
    strides, reach = [], 1
    for n in reversed(sizes):
        strides.append(reach)
        reach = reach * n
    return tuple(reversed(strides))


def moved(target: Memory, out: int, widens: bool) -> Launch:
    """The tensor at number `out` copied to the dense one behind it in single precision, or back."""
    sizes, strides = target.sizes, target.strides
    rank, params = len(sizes), (*sizes, *strides)
    numbers = (out, out + 1) if widens else (out + 1, out)
    if strides == dense(sizes):      # a pointwise kernel, which has variants for vectors
        codes = (target.code, "f32") if widens else ("f32", target.code)
        count, steps = product(sizes), [SIZE[code] for code in codes]
        given = (count, *steps, *[count * step for step in steps])
        return Launch(("gpu moved", codes), lambda: moved_in_vectors(codes), numbers, given, 1, 1)
    key = ("gpu moved", target.code, rank, widens)
    return Launch(key, lambda: moved_nest(target.code, rank, widens), numbers, params, product(target.sizes), 1)


def moved_in_vectors(codes: tuple[str, str]) -> Nest:
    return pointwise_nest("widen" if codes[1] == "f32" else "narrow", codes[:1], codes[1:],
                          [cast(arg(0, codes[0]), codes[1])])


def moved_nest(code: str, rank: int, widens: bool) -> Nest:
    sizes, strides = names("n", rank), names("s", rank)
    place = locate(var("i"), sizes, strides) if rank else ZERO
    if widens:
        store, codes = Store(1, var("i"), cast(load(0, place, code), "f32")), (code, "f32")
    else:
        store, codes = Store(1, place, cast(load(0, var("i"), "f32"), code)), ("f32", code)
    return Nest("widen" if widens else "narrow", operands([codes[0]], [codes[1]]), (*sizes, *strides),
                rows(store, vector=True))


def scatter_nest(
    lowered: Lowered, bound: Bound, kinds: tuple[int, ...], dims: list[int], in_order: bool = False
) -> tuple[Nest, bool, bool]:
    """The kernel, whether it checks indices, and whether positions that meet may run at once."""
    inputs, scatter, code = bound.codes, lowered.scatter, lowered.scatter.target.code
    out = Elements(len(inputs), "out", code, kinds)
    params = [*bound.params]
    add_geometry("out", (0,) * len(kinds), (0,) * len(kinds), kinds, params, [])
    params.extend([f"loop{d}" for d in dims])
    adds = is_sum(lowered) and code in ATOMIC
    swaps = not adds and not is_written(lowered) and code in SWAPPED
    atomic = not in_order and (is_written(lowered) or adds or swaps)
    serial = [d for d in dims if d in scatter.serial and not atomic]
    position = position_of(var("i"), [d for d in dims if d not in serial], "loop")
    position.update({d: var(f"at{d}") for d in serial})
    at = At(position.get(d, ZERO) for d in range(len(lowered.ranges)))
    at.checks = []
    place, value = scatter.writes(at, out, bound.sources)
    index, compute = out.place(place), compute_code(code)
    if atomic and is_written(lowered):
        store = Store(out.operand, index, cast(cast(value, compute), code))
    elif atomic and swaps:
        result = scatter.combine(cast(var(THERE, code), compute), cast(value, compute), bound.sources)
        store = Store(out.operand, index, cast(cast(result, compute), code), "swap")
    elif atomic:
        store = Store(out.operand, index, cast(addend(lowered, bound.sources, cast(value, compute)), code), "add")
    else:
        result = scatter.combine(cast(load(out.operand, index, code), compute), cast(value, compute), bound.sources)
        store = Store(out.operand, index, cast(cast(result, compute), code))
    checks = [Check(condition, len(inputs) + 1, shown) for condition, shown in at.checks]
    body: list[Statement] = [*checks, store]
    for d in reversed(serial):
        body = [For(f"at{d}", ZERO, var(f"loop{d}"), tuple(body))]
    answer = operands(inputs, [code], ["i64"] if checks else [])
    vector = atomic and not checks      # a thread for each position
    return Nest(lowered.name, answer, tuple(params), rows(*body, vector=vector)), bool(checks), atomic


def addend(lowered: Lowered, sources: Sequence[Any], new: Value) -> Value | None:
    """What a position adds to the element that is there; None where it does something else to it."""
    old = var("old", new.dtype)
    result = lowered.scatter.combine(old, new, sources)
    if result.op != "add" or old not in result.args:
        return None
    other = result.args[result.args[0] is old]
    return None if old in walk([other]) else other


def is_written(lowered: Lowered) -> bool:
    """Whether values replace what is there: of several for one place any may stay, as in PyTorch."""
    old, new = (var(name, compute_code(lowered.scatter.target.code)) for name in ("old", "new"))
    return lowered.scatter.combine(old, new, Bound(lowered).sources) is new


def is_sum(lowered: Lowered) -> bool:
    """Whether values are added to what is there."""
    new = var("new", compute_code(lowered.scatter.target.code))
    return addend(lowered, Bound(lowered).sources, new) is not None
