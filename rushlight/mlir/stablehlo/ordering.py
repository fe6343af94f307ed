"""Orders: sorts with a comparison that puts what is no number behind all numbers, and what is picked from them."""

from __future__ import annotations

from typing import Any

from ...op.pack import BY_CODE
from .. import types
from ..printing import Value
from .building import B1, I64, Hlo, value
from .elements import cast
from .table import Call, positive, rule


def sorted_with_places(b: Hlo, x: Value, dim: int, descending: bool) -> tuple[Value, Value]:
    """x in order along a dim, equal ones as they came, and where each was."""
    if not x.ndim:
        return x, b.constant(0, I64)
    places = b.iota(I64, x.shape, dim)
    keys = cast(b, x, BY_CODE["u8"]) if x.dtype is B1 else x

    def before(p: Value, q: Value, _i: Value, _j: Value) -> list[Value]:
        if descending:
            p, q = q, p
        less = b.compare("LT", p, q)
        if not p.dtype.is_floating_point:
            return [less]
        is_last = b.binary("and", b.compare("NE", q, q), b.compare("EQ", p, p))
        return [b.binary("or", less, is_last)]

    region = b.scalar_region([keys.dtype, keys.dtype, I64, I64], before)
    found = b.ops("stablehlo.sort", [keys, places], [value(keys.dtype, x.shape), value(I64, x.shape)],
                  {"dimension": types.integer(dim), "is_stable": "true"}, [region])
    return cast(b, found[0], x.dtype), found[1]



@rule("sort")
def sort(call: Call, input: Value, dim: int = -1, descending: bool = False, stable: Any = None) -> tuple:
    return sorted_with_places(call.b, input, positive(dim, input.ndim), bool(descending))


@rule("topk")
def topk(call: Call, input: Value, k: Any, dim: int = -1, largest: bool = True, sorted: bool = True) -> tuple:
    b = call.b
    dim = positive(dim, input.ndim)
    found = sorted_with_places(b, input, dim, bool(largest))
    shape = [k if d == dim else n for d, n in enumerate(input.shape)]
    return tuple([b.slice(f, [0] * f.ndim, shape) for f in found])


@rule("_ranked_element")
def ranked_element(call: Call, input: Value, position: int, missing: str, dim: int) -> tuple:
    """The element at a position in order: the same of all rows, or where what is no number moves it."""
    b = call.b
    values, order = sorted_with_places(b, input, dim, False)
    if not input.ndim:
        return values, order
    shape = tuple([1 if d == dim else n for d, n in enumerate(input.shape)])
    if not (input.dtype.is_floating_point and missing != "kept"):
        start = [position if d == dim else 0 for d in range(input.ndim)]
        return b.slice(values, start, shape), b.slice(order, start, shape)
    n = input.shape[dim]
    gone = b.fold("add", b.convert(b.compare("NE", input, input), I64), 0, [dim])
    gone = b.reshape(gone, shape)
    whole = b.constant(n, I64, shape)
    if missing == "skipped":
        one = b.constant(1, I64, shape)
        left = b.binary("maximum", b.binary("subtract", b.binary("subtract", whole, gone), one),
                        b.constant(0, I64, shape))
        wanted = b.binary("divide", left, b.constant(2, I64, shape))
    else:
        wanted = b.select(b.compare("EQ", gone, b.constant(0, I64, shape)), b.constant(position, I64, shape),
                          b.binary("subtract", whole, gone))
    index = [wanted if d == dim else b.iota(I64, shape, d) for d in range(input.ndim)]
    at = b.concatenate([b.reshape(i, (*shape, 1)) for i in index], len(shape))
    return b.gather_at(values, at, shape), b.gather_at(order, at, shape)
