"""Short sorts as loops: every element's place is the number of elements that come before it.

Enters: a tensor, a dim of at most `SHORT` elements, the order. Leaves: plans of one kernel that writes values and
positions where they belong, stable in either direction, NaN last as the largest. Quadratic, so refused for long dims;
for short ones it is vector compares on one thread per row, with nothing but arithmetic between input and output.
"""

from __future__ import annotations

from typing import Any

from .. import _C
from ..base.shape import reaches
from ..loops.expr import Value, and_, cast, const, eq, gt, idiv, irem, load, lt, ne, not_, or_, var
from ..loops.nest import For, If, Local, Nest, Store, operands, reduction, rows
from .indexed import contiguous_strides
from .pointwise import compile_for, compute_code
from .reduction import GRAIN, as_step, product

SHORT = 64
ZERO = const(0, "i64")
_kernels: dict[tuple, Any] = {}


def rank_plan(input: Any, dim: int, count: int, descending: bool, wrap: Any) -> Any:
    """A plan for the first `count` elements along `dim` in order, and where they are; None if the dim is long."""
    sizes, strides = tuple(input.shape), input.stride()
    if not sizes or reaches(sizes[dim], SHORT + 1) or input.dtype.is_complex:
        return None
    shape = tuple(count if d == dim else n for d, n in enumerate(sizes))
    outs = contiguous_strides(shape)
    slots = [("new", input.dtype, shape, None, 0, 0), ("new", _C.int64, shape, None, 0, 0)]
    axes = [(sizes[d], strides[d], outs[d]) for d in range(len(sizes)) if d != dim and sizes[d] != 1]
    extent = product(a[0] for a in axes)
    steps = []
    if input.device.type != "meta" and extent and count:
        key = (input.dtype.code, len(axes), descending, input.device.type)
        kernel = _kernels.get(key)
        if kernel is None:
            kernel = _kernels[key] = as_step(
                compile_for(input.device, rank_nest(input.dtype.code, len(axes), descending))
            )
        params = [a[k] for k in range(3) for a in axes] + [sizes[dim], strides[dim], outs[dim], count]
        steps = [(kernel, [0, 1, 2], params, extent, max(1, GRAIN // (sizes[dim] ** 2)), -1)]
    return _C.Plan(1, input.device, slots, steps, False, wrap)


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
