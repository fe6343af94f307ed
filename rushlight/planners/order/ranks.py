"""Short sorts as loops: every element's place is the number of elements that come before it.

Enters: a tensor, a dim of at most `SHORT` (or `HELD`) elements, the order. Leaves: one kernel that writes values and
positions where they belong, stable in either direction, NaN last as the largest. Quadratic, so refused for long dims;
for short ones it is vector compares on one thread per row, with nothing but arithmetic between input and output.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ...base.shape import is_below, reaches
from ...codegen.schedule.forms.launch import Launch, Schedule, grain_of, product
from ...loops.expr import Value, and_, cast, const, eq, gt, idiv, irem, load, lt, ne, not_, or_, var
from ...loops.lowered import compute_code
from ...loops.nest import For, If, Local, Nest, Operand, Statement, Store, operands, reduction, rows
from ...op.indexed import contiguous_strides
from .radix import BITS, key_of

SHORT, HELD = 64, 96  # elements of a dim, at most: elsewhere, and where a row's keys are held near
STRIP = 16            # keys of a row are made a multiple of this, so that vectors leave nothing over
KEYS, EQUALS = 3, 4   # operands that hold a row
ZERO = const(0, "i64")


def rank_launches(input: Any, dim: int, count: int, descending: bool) -> Schedule | None:
    """The kernel for the first `count` elements along `dim` in order, and where they are; None if the dim is long."""
    sizes, strides = tuple(input.shape), input.stride()
    if not sizes or input.dtype.is_complex:
        return None
    # Near memory has room for so many elements and no more: a size that nothing is known of is not held.
    has_keys = input.dtype.code in BITS
    is_held = has_keys and input.device.type == "cpu" and is_below(sizes[dim], HELD + 1)
    if not is_held and reaches(sizes[dim], SHORT + 1):
        return None
    outs = contiguous_strides([count if d == dim else n for d, n in enumerate(sizes)])
    axes = [(sizes[d], strides[d], outs[d]) for d in range(len(sizes)) if d != dim and sizes[d] != 1]
    rank, code = len(axes), input.dtype.code
    params = [a[k] for k in range(3) for a in axes] + [sizes[dim], strides[dim], outs[dim], count]
    extent, grain = product(a[0] for a in axes), grain_of(sizes[dim] ** 2)
    nest = held_nest if is_held else rank_nest
    key = (nest.__name__, code, rank, descending)
    return Schedule((Launch(key, partial(nest, code, rank, descending), (0, 1, 2), tuple(params), extent, grain),))


def before(a: Value, b: Value, descending: bool) -> Value:
    """Whether `a` sorts strictly before `b`."""
    first, second = (b, a) if descending else (a, b)
    if a.dtype[0] != "f":
        return lt(first, second)
    return or_(lt(first, second), and_(ne(second, second), eq(first, first)))


def rank_nest(code: str, rank: int, descending: bool) -> Nest:
    """One row per iteration: count what comes before each element, then store it there."""
    params, places = row_places(rank)

    def element(at: Value) -> Value:
        return load(0, var("read") + at * var("stride"), code)

    compute = {"b1": "u8"}.get(code, compute_code(code))
    mine, other = var("mine", compute), cast(element(var("k")), compute)
    tie = and_(not_(before(mine, other, descending)), gt(var("j"), var("k")))
    ahead = cast(or_(before(other, mine, descending), tie), "i32")
    counted = reduction(
        "k",
        ZERO,
        var("length"),
        ["ahead"],
        [const(0, "i32")],
        step=lambda acc: [acc[0] + ahead],
        merge=lambda a, b: [a[0] + b[0]],
    )
    place = cast(var("ahead", "i32"), "i64")
    at = var("write") + place * var("out_stride")
    stores = (Store(1, at, element(var("j"))), Store(2, at, var("j")))
    each = For(
        "j",
        ZERO,
        var("length"),
        (Local("mine", cast(element(var("j")), compute)), counted, If(lt(place, var("count")), stores)),
    )
    return Nest("ranks", operands([code], [code, "i64"]), params, rows(*places, each))


def row_places(rank: int) -> tuple[tuple[str, ...], list[Statement]]:
    """A kernel's parameters, and where its row is read and written."""
    sizes, reads, writes = ([f"{p}{d}" for d in range(rank)] for p in "nso")
    item, read, write = var("i"), ZERO, ZERO
    for d in range(rank - 1, -1, -1):
        at = irem(item, var(sizes[d])) if d else item
        read, write = read + at * var(reads[d]), write + at * var(writes[d])
        item = idiv(item, var(sizes[d])) if d else item
    params = (*sizes, *reads, *writes, "length", "stride", "out_stride", "count")
    return params, [Local("read", read), Local("write", write)]


def held_nest(code: str, rank: int, descending: bool) -> Nest:
    """The same with the row's keys in the nearest memory: neighbours whatever the stride, and compared by one
    instruction. Equals find the same number of keys below theirs; how many came before them is counted apart."""
    params, places = row_places(rank)
    word = "u64" if BITS[code] == 64 else "u32"
    most = const((1 << BITS[word]) - 1, word)
    padded = idiv(var("length") + const(STRIP - 1, "i64"), const(STRIP, "i64")) * const(STRIP, "i64")

    def element(at: Value) -> Value:
        return load(0, var("read") + at * var("stride"), code)

    fill = For("f", var("length"), padded, (Store(KEYS, var("f"), most),))
    copy = For("h", ZERO, var("length"), (Store(KEYS, var("h"), cast(key_of(element(var("h")), descending), word)),
                                          Store(EQUALS, var("h"), const(0, "u32"))), vector=True)
    below = lt(load(KEYS, var("k"), word), var("mine", word))
    counted = reduction(
        "k", ZERO, padded, ["below"], [const(0, word)],
        step=lambda acc: [acc[0] + cast(below, word)], merge=lambda a, b: [a[0] + b[0]],
    )
    slot, equals = cast(var("below", word), "i64"), var("equals", "u32")
    at = var("write") + var("place") * var("out_stride")
    stores = (Store(1, at, element(var("j"))), Store(2, at, var("j")))
    each = For("j", ZERO, var("length"), (
        Local("mine", load(KEYS, var("j"), word)), counted,
        Local("slot", slot), Local("equals", load(EQUALS, var("slot"), "u32")),
        Store(EQUALS, var("slot"), equals + const(1, "u32")),
        Local("place", var("slot") + cast(equals, "i64")), If(lt(var("place"), var("count")), stores),
    ))
    memory = (*operands([code], [code, "i64"]), Operand(word, HELD), Operand("u32", HELD))
    return Nest("ranks", memory, params, rows(*places, fill, copy, each))
