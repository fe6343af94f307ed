"""Boxes of tensors that move to boxes of the results: their loops, and copies that every kind of device has.

Enters: a Lowered with `pieces`. Leaves: whether its boxes are better copied than computed, their loops joined where
memory allows it, and launches: of a background, and of boxes of one or two loops. Refuses elements of opaque types.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....base.shape import reaches
from ....loops.expr import arg, cast, const, idiv, load, min_, var
from ....loops.inline import row_major
from ....loops.lowered import Lowered, Piece, number_value
from ....loops.nest import For, Nest, Store, operands, pointwise_nest, rows
from ...text.primitives import SIZE
from .launch import GRAIN, Launch, grain_of, number_bits, number_names, product
from .loops import gather_loops

ZERO = const(0, "i64")
LONGER = 4               # times as long as rows of the result, boxes are copied after a background is written
CROSSED = 1024           # elements of a result from which on lines across it are written over a background
BACKWARDS = 4096  # elements at a time where one line is written backwards


def checked_pieces(lowered: Lowered) -> list[tuple[str, str, list[list[int]], tuple]]:
    """(type there, type of the result, loops, where both start) of each box that has elements."""
    layout = lowered.layout or row_major(lowered.shape)
    pieces = [p for p in lowered.pieces if all(n != 0 for n in p.sizes)]
    memories = lowered.memories     # thousands of them, where thousands of tensors are joined
    code, out = lowered.outs[0], len(memories)
    opaque = {memories[p.memory].code for p in pieces} - SIZE.keys()
    if opaque:
        raise NotImplementedError(f"{lowered.name!r} is not implemented for elements of type {opaque.pop()!r}")
    found = []
    for p in pieces:
        axes = boxed(p, layout, lowered.layout is not None)
        start = sum([i * s for i, s in zip(p.start, layout, strict=True)])
        start += sum([(p.sizes[d] - 1) * layout[d] for d in p.backwards])
        source = memories[p.memory].code
        places = ((p.memory, p.offset * SIZE[source]), (out, start * SIZE[code]))
        found.append((source, code, axes, places))
    return found


def moves_in_boxes(lowered: Lowered) -> bool:
    """Whether copying boxes suits an op better than computing every element where it goes: a background is written
    twice then, but the loops may be much longer."""
    if lowered.background is None:
        return True
    layout = lowered.layout or row_major(lowered.shape)
    is_turned = lowered.layout is not None
    pieces = [p for p in lowered.pieces if all(n != 0 for n in p.sizes)]
    if all(p.steps is not None for p in pieces):     # lines that cross the result
        return reaches(product(lowered.shape), CROSSED)
    boxes = [boxed(p, layout, is_turned)[-1][0] for p in pieces]
    loops = gather_loops(lowered)
    return not boxes or all(n >= LONGER * loops[-1].size for n in boxes)


def background(lowered: Lowered) -> Launch:
    """The launch that writes one number everywhere."""
    number, code = lowered.reads[lowered.background], lowered.outs[0]
    params = number_names(number.name, number.value)

    def nest() -> Nest:
        result = cast(cast(number_value(number.name, number.value), number.code), code)
        return Nest("fill", operands([], [code]), tuple(params), rows(Store(0, var("i"), result), vector=True))

    key = ("fill", code, number.code, type(number.value))
    return Launch(key, nest, (len(lowered.memories),), tuple(number_bits(number.value)), product(lowered.shape), GRAIN)


def boxed(piece: Piece, layout: Sequence[int], is_turned: bool) -> list[list[int]]:
    """[size, stride in the tensor, stride in the result] of every loop, outermost first, joined where both allow it;
    `is_turned`: the result may lie in another order than its dims."""
    steps = [-s if d in piece.backwards else s for d, s in enumerate(layout if piece.steps is None else piece.steps)]
    dims = range(len(steps))
    if piece.steps is None and is_turned:
        dims = sorted(dims, key=lambda d: -layout[d])
    return joined_axes((piece.sizes[d], piece.strides[d], steps[d]) for d in dims)


def joined_axes(axes: Any) -> list[list[int]]:
    """The loops of a copy, neighbours that are one loop joined."""
    joined: list[list[int]] = []
    for n, s, o in axes:
        if n == 1:
            continue
        if joined and joined[-1][1] == n * s and joined[-1][2] == n * o:
            joined[-1] = [joined[-1][0] * n, s, o]
        else:
            joined.append([n, s, o])
    return joined or [[1, 0, 0]]


def pair_launch(source: str, target: str, axes: list[list[int]], places: tuple) -> Launch:
    """A box of one or two loops as a pointwise kernel, which devices have variants of for vectors."""
    (outer, *far), (inner, *near) = axes if len(axes) == 2 else ([1, 0, 0], axes[0])
    sizes = SIZE[source], SIZE[target]
    steps = [s * size for strides in (near, far) for s, size in zip(strides, sizes, strict=True)]
    return Launch(
        ("copy of a pair", source, target),
        lambda: pointwise_nest("copy", [source], [target], [cast(arg(0, source), target)]),
        places,
        (inner, *steps),
        outer,
        grain_of(inner),
    )


def copy_nest(source: str, target: str, rank: int, backwards: bool = False, inside: bool = False) -> Nest:
    """Strided copy of any rank: outer dims flattened, the last one in vectors, or written backwards in them.
    `inside`: an iteration has a run of rows, whose places need no division."""
    sizes, reads, stores = ([f"{p}{d}" for d in range(rank)] for p in "nso")
    last = var("i" if rank == 1 and not backwards else "j")
    read, store = (last, -last) if backwards else (last * var(reads[-1]), last * var(stores[-1]))
    item, row, runs = var("i"), var("r"), var("runs")
    first = (item - idiv(item, runs) * runs) * var("run") if inside else ZERO
    item = idiv(item, runs) if inside else item
    for d in range(rank - 2, -1, -1):
        at = row if inside and d == rank - 2 else item
        if at is item and d:
            item = idiv(at, var(sizes[d]))
            at = at - item * var(sizes[d])
        read, store = read + at * var(reads[d]), store + at * var(stores[d])
    move = Store(1, store, cast(load(0, read, source), target))
    if rank == 1 and backwards:
        first = var("i") * BACKWARDS
        body = rows(For("j", first, min_(first + BACKWARDS, var(sizes[0])), (move,), vector=True))
    elif rank == 1:
        body = rows(move, vector=True)
    else:
        inner = For("j", ZERO, var(sizes[-1]), (move,), vector=True)
        body = rows(For("r", first, min_(first + var("run"), var(sizes[-2])), (inner,)) if inside else inner)
    params = (*sizes, *reads, *stores, *(["run", "runs"] if inside else []))
    return Nest("copy", operands([source], [target]), params, body)
