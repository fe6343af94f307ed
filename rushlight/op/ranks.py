"""Short sorts as loops: every element's place is the number of elements that come before it.

Enters: a tensor, a dim of at most `SHORT` elements, the order. Leaves: one kernel that writes values and
positions where they belong, stable in either direction, NaN last as the largest. Quadratic, so refused for long dims;
for short ones it is vector compares on one thread per row, with nothing but arithmetic between input and output.
"""

from __future__ import annotations

from typing import Any

from ..base.shape import reaches
from ..codegen.schedule.launch import Launch, Schedule, grain_of, product
from ..loops.expr import Value, and_, cast, const, eq, gt, idiv, irem, load, lt, ne, not_, or_, var
from ..loops.lowered import compute_code
from ..loops.nest import For, If, Local, Nest, Store, operands, reduction, rows
from .indexed import contiguous_strides

SHORT = 64
ZERO = const(0, "i64")


def rank_launches(input: Any, dim: int, count: int, descending: bool) -> Schedule | None:
    """The kernel for the first `count` elements along `dim` in order, and where they are; None if the dim is long."""
    sizes, strides = tuple(input.shape), input.stride()
    if not sizes or reaches(sizes[dim], SHORT + 1) or input.dtype.is_complex:
        return None
    outs = contiguous_strides([count if d == dim else n for d, n in enumerate(sizes)])
    axes = [(sizes[d], strides[d], outs[d]) for d in range(len(sizes)) if d != dim and sizes[d] != 1]
    rank, code = len(axes), input.dtype.code
    params = [a[k] for k in range(3) for a in axes] + [sizes[dim], strides[dim], outs[dim], count]
    extent, grain = product(a[0] for a in axes), grain_of(sizes[dim] ** 2)
    key = ("ranks", code, rank, descending)
    return Schedule((Launch(key, lambda: rank_nest(code, rank, descending), (0, 1, 2), tuple(params), extent, grain),))


def before(a: Value, b: Value, descending: bool) -> Value:
    """Whether `a` sorts strictly before `b`."""
    first, second = (b, a) if descending else (a, b)
    if a.dtype[0] != "f":
        return lt(first, second)
    return or_(lt(first, second), and_(ne(second, second), eq(first, first)))


def rank_nest(code: str, rank: int, descending: bool) -> Nest:
    """One row per iteration: count what comes before each element, then store it there."""
    sizes, reads, writes = ([f"{p}{d}" for d in range(rank)] for p in "nso")
    item, read, write = var("i"), ZERO, ZERO
    for d in range(rank - 1, -1, -1):
        at = irem(item, var(sizes[d])) if d else item
        read, write = read + at * var(reads[d]), write + at * var(writes[d])
        item = idiv(item, var(sizes[d])) if d else item

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
    params = (*sizes, *reads, *writes, "length", "stride", "out_stride", "count")
    return Nest(
        "ranks", operands([code], [code, "i64"]), params, rows(Local("read", read), Local("write", write), each)
    )
