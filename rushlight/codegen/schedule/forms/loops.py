"""Loops of ops without a fold: which ranges they run through, and the nests that are the same on every kind of device.

Enters: Lowereds. Leaves: axes of aligned bodies, loops of those with places of their own, both joined where every
operand allows it; the nest of a pointwise op of any shape; serial loops several steps at a time; short loops in whole
vectors; zeros for what is scattered to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ....base.shape import is_below
from ....loops.expr import Value, arg, cast, const, idiv, lt, replace, var
from ....loops.lowered import HERE, Lowered, Memory, Number, Placed, Table
from ....loops.nest import For, If, Nest, Statement, Store, operands, pointwise_nest, rows
from ....loops.record import Record
from ...text.primitives import SIZE
from ...text.targets import vector_bits
from .axes import Axis, coalesce
from .launch import GRAIN, Launch, product

ZERO = const(0, "i64")
SHORT = 8           # vectors up to which a loop is short
LEAST_LANES = 4     # elements that are worth a vector
_forms: dict[tuple, tuple[bool, bool]] = {}      # by key: what only a body can tell of a nest, see nest_with_form


def point_nest(lowered: Lowered, steady: bool = False) -> Nest:
    """A pointwise op for any shapes: two strided dims, whose sizes and strides the core works out at each call;
    numbers are operands. `steady`: they are read once, before the loops."""
    sources = [Placed(k, None, r.code, arg(k, r.code)) for k, r in enumerate(lowered.reads)]
    values = [cast(v, code) for v, code in zip(lowered.body(HERE, sources), lowered.outs, strict=True)]
    single = [k for k, r in enumerate(lowered.reads) if steady and isinstance(r, Number)]
    return pointwise_nest(lowered.name, [r.code for r in lowered.reads], lowered.outs, values, single)


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


class Loop(Record):
    """One loop of a gather: the ranges it runs through as one, slowest first, and its size."""

    ranges: tuple[int, ...]
    size: int


def gather_loops(lowered: Lowered) -> list[Loop]:
    """The loops in the order of the result's memory; ranges that every tensor is read along as they come are joined.
    Ranges that are no dims of the result, as where channels and positions are one row, come in that order already."""
    rank, layout = len(lowered.ranges), lowered.layout
    in_order = layout is None or len(layout) != rank
    order = range(rank) if in_order else sorted(range(rank), key=lambda d: -layout[d])
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


def unrolled(name: str, start: Value, stop: Value, body: Sequence[Store], times: int = 4) -> list[Statement]:
    """A serial loop whose steps come several at a time: short ones are all overhead otherwise."""
    four = const(times, "i64")
    whole = idiv(stop - start, four)
    steps = []
    for k in range(times):
        at = {var(name): start + var(f"{name}.group") * four + const(k, "i64")}
        steps += [Store(s.operand, replace(s.index, at), replace(s.value, at), s.combine) for s in body]
    return [For(f"{name}.group", ZERO, whole, tuple(steps)), For(name, start + whole * four, stop, tuple(body))]


def lanes_of(lowered: Lowered, size: int, codes: Sequence[str]) -> tuple[int, bool] | None:
    """How many channels that lie last go in one vector, and whether that is a whole one, where there are so few of
    them, `size`, that what fills none would take longest; None: they go as any loop."""
    if lowered.layout is None or (lowered.folding is not None and lowered.folding.epilogue is not None):
        return None
    whole = lanes = vector_bits() // 8 // min(SIZE[code] for code in codes)
    if not is_below(size, SHORT * lanes) or size < LEAST_LANES or size % lanes == 0:
        return None
    while lanes > size:
        lanes //= 2
    return lanes, lanes == whole


def in_vectors(
    name: str, stop: Value, short: tuple[int, bool], body: Callable[[Value], Sequence[Statement]]
) -> list[Statement]:
    """A loop of at least so many iterations as a vector of `short` has lanes. The last vector ends with the loop, and
    does again what the one before it did: nobody may read meanwhile what they write."""
    width = const(short[0], "i64")

    def one(start: Value) -> For:
        return For(f"{name}.lane", ZERO, width, tuple(body(start + var(f"{name}.lane"))), vector=True)

    if not short[1]:     # less than two of them
        return [one(ZERO), If(lt(width, stop), (one(stop - width),))]
    most = idiv(stop, width) * width
    return [For(name, ZERO, most, tuple(body(var(name))), vector=True), If(lt(most, stop), (one(stop - width),))]


def clear_launch(code: str, sizes: Sequence[int], operand: int) -> Launch:
    """Zeros everywhere in a dense tensor."""
    nest = Nest("clear", operands([], [code]), (), rows(Store(0, var("i"), const(0, code)), vector=True))
    return Launch(("clear", code), lambda: nest, (operand,), (), product(sizes), GRAIN)
