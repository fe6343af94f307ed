"""Where elements are: places of reads as multiples of one position, and views as slices of what they look at.

Enters: an index expression, or the sizes, strides and offset of a view. Leaves: `Affine`, `step` times the position
along `range`, and `first`, or None; or the elements that a view shows. Refuses: views of other sizes than numbers.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from ... import _C
from ...loops import expr
from ...loops.lowered import Memory
from ...op.indexed import contiguous_strides
from ...op.pack import BY_CODE
from ..errors import UnsupportedOp
from ..printing import Value
from .building import I64, Hlo, is_fixed, value


@dataclasses.dataclass(frozen=True)
class Affine:
    """`first + step * position(range)`; `range` is None where it is a number."""

    first: int
    step: int = 0
    range: int | None = None


def affine(e: expr.Value) -> Affine | None:
    """The form of an index, if it has it."""
    if e.op == "const":
        return Affine(int(e.attr))
    if e.op == "var":
        kind, what = e.attr
        return Affine(0, 1, what) if kind == "range" else None
    if e.op == "cast" and e.dtype == "i64":
        return affine(e.args[0])
    parts = [affine(a) for a in e.args]
    if any(p is None for p in parts):
        return None
    if e.op == "neg":
        return _scaled(parts[0], -1)   # type: ignore[arg-type]
    if e.op in ("add", "sub"):
        a, b = parts
        assert a is not None and b is not None
        if e.op == "sub":
            b = _scaled(b, -1)
        if a.range is not None and b.range is not None and a.range != b.range:
            return None
        step = a.step + b.step
        return Affine(a.first + b.first, step, (a.range if a.range is not None else b.range) if step else None)
    if e.op == "mul":
        a, b = parts
        assert a is not None and b is not None
        if a.range is None:
            return _scaled(b, a.first)
        return _scaled(a, b.first) if b.range is None else None
    return None


def _scaled(a: Affine, by: int) -> Affine:
    return Affine(a.first * by, a.step * by, a.range if a.step * by else None)


# --- views ------------------------------------------------------------------------------------------------------------


def seen(b: Hlo, x: Value, memory: Memory) -> Value:
    """A tensor, whose elements lie in order, as an op reads it."""
    if x.dtype.code != memory.code:
        x = as_bits(b, x, BY_CODE[memory.code])
    if not memory.strides:      # the elements in order, of a shape that may vary
        return b.reshape(x, memory.sizes)
    return viewed(b, x, memory.sizes, memory.strides, memory.offset)


def as_bits(b: Hlo, x: Value, dtype: Any) -> Value:
    """The memory of x as elements of another type: the last dim gets longer or shorter."""
    if x.dtype.is_complex or dtype.is_complex or _C.bool in (x.dtype, dtype):
        raise UnsupportedOp(f"mlir: {x.dtype} read as {dtype}")
    old, new = x.dtype.itemsize, dtype.itemsize
    if old == new:
        return b.bitcast(x, dtype)
    if old > new:
        found = b.op("stablehlo.bitcast_convert", [x], value(dtype, (*x.shape, old // new)))
        return b.reshape(found, (*x.shape[:-1], x.shape[-1] * (old // new))) if x.ndim else found
    split = b.reshape(x, (*x.shape[:-1], x.shape[-1] // (new // old), new // old))
    return b.op("stablehlo.bitcast_convert", [split], value(dtype, split.shape[:-1]))


def viewed(b: Hlo, x: Value, sizes: Sequence[Any], strides: Sequence[Any], offset: int) -> Value:
    """The elements that a view of x shows; x's lie in order."""
    if [str(n) for n in sizes] == [str(n) for n in x.shape] and (
            not is_fixed(sizes) or (not offset and lies_in_order(sizes, strides))):
        return x
    if not is_fixed((*sizes, *strides, offset, *x.shape)):
        raise UnsupportedOp("mlir: a view of sizes that vary")
    if 0 in sizes:
        return b.constant(0, x.dtype, sizes)
    if math.prod(sizes) == math.prod(x.shape) and not offset and lies_in_order(sizes, strides):
        return b.reshape(x, sizes)
    sliced = _sliced(b, x, sizes, strides, offset)
    if sliced is not None:
        return sliced
    place = b.constant(offset, I64, sizes)
    for d, step in enumerate(strides):
        if sizes[d] > 1 and step:
            along = b.binary("multiply", b.iota(I64, sizes, d), b.constant(step, I64, sizes))
            place = b.binary("add", place, along)
    return b.gather_at(b.reshape(x, (math.prod(x.shape),)), b.reshape(place, (*sizes, 1)), sizes)


def lies_in_order(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    wanted = contiguous_strides(tuple(sizes))
    return all(n == 1 or s == w for n, s, w in zip(sizes, strides, wanted, strict=True)) or 0 in sizes


def _sliced(b: Hlo, x: Value, sizes: Sequence[int], strides: Sequence[int], offset: int) -> Value | None:
    """The view as a slice along dims, in another order and repeated, if it is one."""
    own = contiguous_strides(x.shape)
    start, left = [], offset
    for n, step in zip(x.shape, own, strict=True):
        start.append(left // step if n > 1 else 0)
        left -= start[-1] * step
    if left:
        return None
    taken: dict[int, tuple[int, int]] = {}      # dim of x -> dim of the view, step
    for i, (n, step) in enumerate(zip(sizes, strides, strict=True)):
        if n == 1 or not step:
            continue
        fit = [d for d, s in enumerate(own) if x.shape[d] > 1 and d not in taken and step % s == 0
               and 0 <= start[d] + (n - 1) * (step // s) < x.shape[d]]
        if not fit:
            return None
        taken[fit[0]] = i, step // own[fit[0]]
    counts = [sizes[taken[d][0]] if d in taken else 1 for d in range(x.ndim)]
    steps = [taken[d][1] if d in taken else 1 for d in range(x.ndim)]
    turned = [d for d, k in enumerate(steps) if k < 0]
    for d in turned:
        start[d] += (counts[d] - 1) * steps[d]
        steps[d] = -steps[d]
    if any(s < 0 or s + (n - 1) * k >= whole for s, n, k, whole in zip(start, counts, steps, x.shape, strict=True)):
        return None
    kept = [d for d in range(x.ndim) if d in taken]
    found = b.reshape(b.reverse(b.slice(x, start, counts, steps), turned), [counts[d] for d in kept])
    order = sorted(range(len(kept)), key=lambda k: taken[kept[k]][0])
    found = b.transpose(found, order)
    return b.broadcast(found, sizes, sorted(taken[d][0] for d in kept))
