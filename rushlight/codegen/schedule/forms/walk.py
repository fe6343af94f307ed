"""Walks (scans) along whole rows.

Enters: a Lowered with a `walk` and one tensor. Leaves: one launch that walks the range in order; other ranges are
divided among threads and, where the contiguous one is among them, put on lanes. Where few elements change the state,
blocks of a dense row that hold none are passed over at once.
"""

from __future__ import annotations

from ....loops.expr import Value, cast, const, idiv, irem, min_, var
from ....loops.lowered import HERE, Lowered, Placed
from ....loops.nest import Assign, For, If, Local, Nest, Statement, Store, operands, reduction, rows
from .launch import GRAIN, Launch, Schedule, grain_of, product
from .sources import given_bits, given_names, sources_of

ZERO = const(0, "i64")
BLOCK = 64          # elements of which is asked at once whether any changes the state
RARE = 4 * BLOCK    # elements of a row from which on few blocks have one that does


def element(lowered: Lowered, place: Value) -> Value:
    """The element that is walked past, its tensor at `place`."""
    return lowered.body(HERE, sources_of(lowered, [Placed(0, place, lowered.memories[0].code)]))[0]


def is_rare(lowered: Lowered) -> bool:
    """Whether dense rows are long enough that most blocks of them change no state."""
    dim, strides = lowered.walk.dim, lowered.memories[0].along()
    if lowered.walk.rare is None or not strides or any(n != 1 for n in lowered.ranges[dim + 1 :]):
        return False
    return bool(strides[dim] == 1) and bool(lowered.ranges[dim] >= RARE)


def whole_rows(lowered: Lowered, lanes_apart: bool = False) -> Schedule:
    """Every row by one thread, or one lane; `lanes_apart`: each lane, too, is a thread's, as on a GPU."""
    memory, dim = lowered.memories[0], lowered.walk.dim
    shape, strides = lowered.ranges or (1,), memory.along() or (1,)
    before = [(n, s) for n, s in zip(shape[:dim], strides[:dim], strict=True) if n != 1]
    after = [(n, s) for n, s in zip(shape[dim + 1 :], strides[dim + 1 :], strict=True) if n != 1]
    lane = after.pop() if after else None
    others = before + after
    dense = lane is None and strides[dim] == 1   # neighbours in memory: no multiplications in the walk
    rare = not lanes_apart and is_rare(lowered)
    key = ("walk", lowered.key, memory.code, lowered.outs, len(before), len(after), lane is not None, dense, rare)
    inner = product(n for n, _ in after) * (lane[0] if lane else 1)
    params = [n for n, _ in others] + [s for _, s in others] + [shape[dim], strides[dim], inner]
    extent = product(n for n, _ in others)
    work = shape[dim]
    if lane:
        width = 1 if lanes_apart else max(64, GRAIN // max(1, work) // 64 * 64)
        blocks = -(-lane[0] // width)
        params += [*lane, width, blocks]
        extent *= blocks
        work *= min(width, lane[0])
    before_, after_ = len(before), len(after)
    operand_numbers = tuple(range(1 + len(lowered.outs)))
    nest = Launch(
        key,
        lambda: rows_nest(lowered, before_, after_, lane is not None, dense, rare),
        operand_numbers,
        (*params, *given_bits(lowered)),
        extent,
        grain_of(work),
    )
    return Schedule((nest,))


def rows_nest(
    lowered: Lowered, before: int, after: int, has_lane: bool, dense: bool, rare: bool = False
) -> Nest:
    """Outer loop over the other ranges, a vector loop over lanes if any, the walk inside."""
    count = before + after
    sizes, strides = [f"n{k}" for k in range(count)], [f"s{k}" for k in range(count)]
    params = [*sizes, *strides, "length", "stride", "inner"]
    item, block = var("i"), ZERO
    if has_lane:
        params += ["lanes", "lane_stride", "width", "blocks"]
        block, item = irem(item, var("blocks")), idiv(item, var("blocks"))
    # Output positions: [before..., dim, after..., lane], contiguous; `inner` elements follow each step along dim.
    read, inside, step = ZERO, ZERO, var("lanes") if has_lane else const(1, "i64")
    rest = item
    for k in range(count - 1, before - 1, -1):
        at = rest if k == 0 else irem(rest, var(sizes[k]))
        rest = rest if k == 0 else idiv(rest, var(sizes[k]))
        read, inside, step = read + at * var(strides[k]), inside + at * step, step * var(sizes[k])
    write = inside + (ZERO if before == 0 else rest * var("length") * var("inner"))
    for k in range(before - 1, -1, -1):
        at = rest if k == 0 else irem(rest, var(sizes[k]))
        rest = rest if k == 0 else idiv(rest, var(sizes[k]))
        read = read + at * var(strides[k])
    head = [Local("read", read), Local("write", write)]
    place = var("write") + (var("j") if dense else var("j") * var("inner"))
    source = var("read") + (var("j") if dense else var("j") * var("stride"))
    if has_lane:
        place, source = place + var("v"), source + var("v") * var("lane_stride")
    walk = walked_in_blocks(lowered) if rare else walked(lowered, source, place)
    if has_lane:
        first = block * var("width")
        walk = [For("v", first, min_(first + var("width"), var("lanes")), tuple(walk), vector=True)]
    return Nest(
        lowered.name,
        operands([lowered.memories[0].code], lowered.outs),
        (*params, *given_names(lowered)),
        rows(*head, *walk),
    )


def walked(lowered: Lowered, source: Value, place: Value) -> list[Statement]:
    """The walk along one row."""
    return [*started(lowered), For("j", ZERO, var("length"), step_at(lowered, source, place))]


def started(lowered: Lowered) -> list[Statement]:
    """The state before the first element."""
    return [Local(f"acc{k}", v) for k, v in enumerate(lowered.walk.init())]


def state(lowered: Lowered) -> tuple[Value, ...]:
    return tuple(var(f"acc{k}", v.dtype) for k, v in enumerate(lowered.walk.init()))


def step_at(lowered: Lowered, source: Value, place: Value) -> tuple[Statement, ...]:
    """The state after element j, and what is stored for it."""
    now = state(lowered)
    following = lowered.walk.step(now, element(lowered, source), var("j"))
    body: list[Statement] = [Local(f"next{k}", v) for k, v in enumerate(following)]
    body += [Assign(f"acc{k}", var(f"next{k}", v.dtype)) for k, v in enumerate(now)]
    return (*body, *stores(lowered, place))


def stores(lowered: Lowered, place: Value) -> list[Statement]:
    emitted = zip(lowered.walk.emit(state(lowered)), lowered.outs, strict=True)
    return [Store(1 + k, place, cast(v, code)) for k, (v, code) in enumerate(emitted)]


def walked_in_blocks(lowered: Lowered) -> list[Statement]:
    """The walk along a dense row: elements of a block one after another where one changes the state, else all results
    at once."""
    rare, block, start = lowered.walk.rare, const(BLOCK, "i64"), var("start")
    stop, count = start + block, idiv(var("length"), block)
    step = step_at(lowered, var("read") + var("j"), var("write") + var("j"))
    joined = reduction("f", start, stop, ["joined"], [rare.init],
                       lambda acc: [rare.join(acc[0], element(lowered, var("read") + var("f")))],
                       lambda a, b: [rare.join(a[0], b[0])])
    same = For("v", start, stop, tuple(stores(lowered, var("write") + var("v"))), vector=True)
    moves = rare.moves(state(lowered), var("joined", rare.init.dtype))
    walk = (Local("start", var("b") * block), joined, If(moves, (For("j", start, stop, step),), (same,)))
    return [*started(lowered), For("b", ZERO, count, walk), For("j", count * block, var("length"), step)]
