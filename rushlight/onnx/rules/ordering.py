"""Sorting and the largest few."""

from __future__ import annotations

from typing import Any

from ... import _C
from ..building import Builder
from ..model import Value
from .table import INT64, positive, rule


def _ordered(g: Builder, x: Value, k: Any, axis: int, largest: bool) -> tuple[Value, Value]:
    own = x.dtype
    wide = g.cast(x, INT64) if own.code in ("i8", "i16", "u8", "u16", "b1") else x
    values, indices = g.nodes("TopK", wide, g.sizes([k]), dtypes=(wide.dtype, INT64), axis=axis, largest=int(largest),
                              sorted=1)
    return g.cast(values, own), indices


@rule("topk")
def topk(g: Builder, input: Value, k: Any, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    if not input.ndim:
        return input, g.constant(0, INT64)
    return _ordered(g, input, k, positive(dim, input.ndim), largest)


@rule("sort")
def sort(g: Builder, input: Value, dim: int = -1, descending: bool = False, stable: bool | None = None) -> Any:
    if not input.ndim:
        return input, g.constant(0, INT64)
    axis = positive(dim, input.ndim)
    return _ordered(g, input, g.size(input, axis), axis, descending)


@rule("argsort")
def argsort(g: Builder, input: Value, dim: int = -1, descending: bool = False, stable: bool = False) -> Value:
    return sort(g, input, dim, descending)[1]


@rule("isin")
def isin(g: Builder, elements: Any, test_elements: Any = None, test_element: Any = None, element: Any = None,
         assume_unique: bool = False, invert: bool = False) -> Value:
    if not isinstance(elements, Value) or not isinstance(test_elements, Value):
        raise NotImplementedError("isin with a number")
    wide = g.node("Unsqueeze", elements, g.ints([-1]))
    flat = g.node("Reshape", g.cast(test_elements, elements.dtype), g.ints([-1]))
    equal = g.cast(g.node("Equal", wide, flat, dtype=_C.bool), _C.int32)
    found = g.cast(g.node("ReduceMax", equal, g.ints([-1]), keepdims=0), _C.bool)
    return g.node("Not", found) if invert else found
