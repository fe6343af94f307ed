"""Reductions over dims: sums, means, extremes, truths, moments; and running ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ... import _C
from ..building import Builder, Size
from ..model import Value
from .table import INT64, number, positive, reshaped, result_of, rule

NARROW = ("i8", "i16", "u8", "u16", "b1")


def axes_of(x: Value, dim: Any) -> list[int]:
    """Dims that are reduced; all where none is said, none of a tensor without dims."""
    if not x.ndim:
        return []
    dims = [] if dim is None else [dim] if isinstance(dim, int) else list(dim)
    return sorted({positive(d, x.ndim) for d in dims}) if dims else list(range(x.ndim))


def reduced(g: Builder, op: str, x: Value, axes: list[int], keepdim: bool) -> Value:
    """A reduction by one of ONNX's nodes."""
    if not axes:      # a tensor without dims
        return g.node(op, x, keepdims=1) if op in ("ReduceL1", "ReduceL2") else x
    return g.node(op, x, g.ints(axes), keepdims=int(keepdim))


def _widened(g: Builder, x: Value) -> Value:
    """Computed in a type that runtimes reduce."""
    return g.cast(x, _C.int64) if x.dtype.code in NARROW else x


def _reduction(op: str) -> Callable[..., Value]:
    def convert(g: Builder, input: Value, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Value:
        kind = result_of(g).dtype
        x = g.cast(input, kind) if op in ("ReduceSum", "ReduceMean", "ReduceProd") else input
        return reduced(g, op, _widened(g, x), axes_of(input, dim), keepdim)

    return convert


for _name, _op in {"sum": "ReduceSum", "mean": "ReduceMean", "prod": "ReduceProd", "amax": "ReduceMax",
                   "amin": "ReduceMin", "logsumexp": "ReduceLogSumExp"}.items():
    rule(_name)(_reduction(_op))


def _truth(op: str) -> Callable[..., Value]:
    def convert(g: Builder, input: Value, dim: Any = None, keepdim: bool = False) -> Value:
        truths = g.cast(g.cast(input, _C.bool), _C.int32)
        return g.cast(reduced(g, op, truths, axes_of(input, dim), keepdim), _C.bool)

    return convert


rule("any")(_truth("ReduceMax"))
rule("all")(_truth("ReduceMin"))


def _extreme(which: str) -> Callable[..., Any]:
    def convert(g: Builder, input: Value, dim: int | None = None, keepdim: bool = False, other: Value | None = None
                ) -> Any:
        if other is not None:
            kind = result_of(g).dtype
            return g.node(which, g.cast(input, kind), g.cast(other, kind))
        if dim is None:
            return reduced(g, f"Reduce{which}", _widened(g, input), list(range(input.ndim)), False)
        if not input.ndim:
            return input, g.constant(0, INT64)
        axis, x = positive(dim, input.ndim), _widened(g, input)
        values = g.node(f"Reduce{which}", x, g.ints([axis]), keepdims=int(keepdim))
        return values, g.node(f"Arg{which}", x, dtype=INT64, axis=axis, keepdims=int(keepdim))

    return convert


rule("max")(_extreme("Max"))
rule("min")(_extreme("Min"))


def _place(op: str) -> Callable[..., Value]:
    def convert(g: Builder, input: Value, dim: int | None = None, keepdim: bool = False) -> Value:
        if not input.ndim:
            return g.constant(0, INT64)
        x = _widened(g, input)
        if dim is not None:
            return g.node(op, x, dtype=INT64, axis=positive(dim, input.ndim), keepdims=int(keepdim))
        found = g.node(op, reshaped(g, x, [-1]), dtype=INT64, axis=0, keepdims=0)
        return reshaped(g, found, [1] * input.ndim) if keepdim else found

    return convert


rule("argmax")(_place("ArgMax"))
rule("argmin")(_place("ArgMin"))


@rule("aminmax")
def aminmax(g: Builder, input: Value, dim: int | None = None, keepdim: bool = False) -> tuple[Value, Value]:
    x, axes = _widened(g, input), axes_of(input, dim)
    return reduced(g, "ReduceMin", x, axes, keepdim), reduced(g, "ReduceMax", x, axes, keepdim)


def _moments(root: bool, with_mean: bool) -> Callable[..., Any]:
    def convert(g: Builder, input: Value, dim: Any = None, unbiased: bool = True, keepdim: bool = False,
                correction: Any = None) -> Any:
        axes = axes_of(input, dim)
        less = correction if correction is not None else int(bool(unbiased))
        if any(type(input.shape[axis]) is int and not input.shape[axis] for axis in axes):
            return _of_nothing(g, with_mean)
        mean = reduced(g, "ReduceMean", input, axes, True)
        apart = g.node("Sub", input, mean)
        total = reduced(g, "ReduceSum", g.node("Mul", apart, apart), axes, keepdim)
        count: Any = 1
        for axis in axes:
            n = g.size(input, axis)
            count = count * n if isinstance(count, int) and isinstance(n, int) else g.arithmetic("Mul", count, n, "n")
        if isinstance(count, Size):
            divisor = g.node("Sub", g.scalar(count, input.dtype), number(g, less, input))
            divisor = g.node("Max", divisor, number(g, 0, input))
        else:
            divisor = number(g, max(count - less, 0), input)
        result = g.node("Div", total, divisor)
        result = g.node("Sqrt", result) if root else result
        if not with_mean:
            return result
        return result, mean if keepdim else g.node("Squeeze", mean, g.ints(axes)) if input.ndim else mean

    return convert


def _of_nothing(g: Builder, with_mean: bool) -> Any:
    """Moments of no elements: not numbers."""
    seen = result_of(g)
    sizes = [n if type(n) is int else None for n in seen.shape]
    if None in sizes:
        raise NotImplementedError("moments of no elements, of sizes that vary")
    found = g.node("Expand", g.constant(math.nan, seen.dtype), g.ints(sizes), dtype=seen.dtype)
    return (found, found) if with_mean else found


rule("var")(_moments(False, False))
rule("std")(_moments(True, False))
rule("var_mean")(_moments(False, True))
rule("std_mean")(_moments(True, True))


@rule("linalg_vector_norm")
def vector_norm(g: Builder, x: Value, ord: Any = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Value:
    value, axes = g.cast(x, result_of(g).dtype), axes_of(x, dim)
    size = g.node("Abs", value)
    if ord in (1, 2):
        return reduced(g, f"ReduceL{int(ord)}", value, axes, keepdim)
    if ord in (float("inf"), -float("inf")):
        return reduced(g, "ReduceMax" if ord > 0 else "ReduceMin", size, axes, keepdim)
    if ord == 0:
        zero = g.node("Equal", value, number(g, 0, value), dtype=_C.bool)
        return reduced(g, "ReduceSum", g.cast(g.node("Not", zero), value.dtype), axes, keepdim)
    power = reduced(g, "ReduceSum", g.node("Pow", size, number(g, float(ord), value)), axes, keepdim)
    return g.node("Pow", power, number(g, 1 / ord, value))


@rule("count_nonzero")
def count_nonzero(g: Builder, input: Value, dim: Any = None) -> Value:
    return reduced(g, "ReduceSum", g.cast(g.cast(input, _C.bool), INT64), axes_of(input, dim), False)


@rule("nansum")
def nansum(g: Builder, input: Value, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Value:
    x = g.cast(input, result_of(g).dtype)
    if x.dtype.is_floating_point:
        x = g.node("Where", g.node("IsNaN", x, dtype=_C.bool), number(g, 0, x), x, dtype=x.dtype)
    return reduced(g, "ReduceSum", x, axes_of(input, dim), keepdim)


@rule("cumsum")
def cumsum(g: Builder, input: Value, dim: int, dtype: Any = None) -> Value:
    x = g.cast(input, result_of(g).dtype)
    return x if not input.ndim else g.node("CumSum", x, g.constant(positive(dim, input.ndim), INT64))


@rule("trace")
def trace(g: Builder, input: Value) -> Value:
    rows, columns = input.shape
    if not isinstance(rows, int) or not isinstance(columns, int):
        raise NotImplementedError("the trace of a matrix whose sizes vary")
    kind = result_of(g).dtype
    mask = g.node("EyeLike", g.cast(input, kind), k=0)
    return g.node("ReduceSum", g.node("Mul", g.cast(input, kind), mask), keepdims=0)
