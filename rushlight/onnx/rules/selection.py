"""Elements that elements decide: counts, runs of equal ones, writes to a flat tensor."""

from __future__ import annotations

from typing import Any

from ... import _C
from ...tensors.interop import tensor
from ..building import Builder, Size
from ..model import Value
from .indexing import nonzero
from .table import INT64, full_size, permuted, positive, reshaped, result_of, rule


@rule("_local_scalar_dense")
def element(g: Builder, input: Value) -> Any:
    """An element as a number that the program goes on with: an integer is a size."""
    if input.dtype.is_floating_point:
        raise NotImplementedError("item() of a tensor of floats; keep it a tensor")
    return Size(g.node("Reshape", g.cast(input, INT64), g.ints([1]), shape=(1,)), str(g.result))


@rule("nonzero_static")
def nonzero_static(g: Builder, input: Value, size: int, fill_value: int = -1) -> Value:
    found = nonzero(g, input)
    rows = g.node("Slice", found, g.ints([0]), g.ints([size]), g.ints([0]))
    count = g.node("Shape", rows, dtype=INT64, start=0, end=1)
    pads = g.node("Concat", g.ints([0, 0]), g.node("Sub", g.ints([size]), count), g.ints([0]), axis=0)
    return g.node("Pad", rows, pads, g.constant(fill_value, INT64))


@rule("_repeated_positions")
def repeated_positions(g: Builder, repeats: Value, total: Any = None) -> Value:
    wide = g.cast(repeats, INT64)
    ends = g.node("CumSum", wide, g.constant(0, INT64))
    every = g.node("Range", g.constant(0, INT64), g.node("ReduceSum", wide, keepdims=0), g.constant(1, INT64))
    before = g.node("LessOrEqual", ends, g.node("Unsqueeze", every, g.ints([-1])), dtype=_C.bool)
    return g.cast(g.node("ReduceSum", g.cast(before, INT64), g.ints([-1]), keepdims=0), repeats.dtype)


@rule("put")
def put(g: Builder, input: Value, index: Value, source: Value, accumulate: bool = False) -> Value:
    flat, places = reshaped(g, input, [-1]), reshaped(g, g.cast(index, INT64), [-1])
    found = g.node("ScatterElements", flat, places, reshaped(g, g.cast(source, input.dtype), [-1]), axis=0,
                   reduction="add" if accumulate else None)
    return reshaped(g, found, full_size(g, input))


@rule("bincount")
def bincount(g: Builder, input: Value, weights: Value | None = None, minlength: int = 0) -> Value:
    places = g.cast(input, INT64)
    last = g.node("ReduceMax", g.node("Concat", places, g.ints([minlength - 1]), axis=0), keepdims=1)
    zeros = g.node("ConstantOfShape", g.node("Add", last, g.ints([1])), dtype=INT64, value=tensor([0]))
    kind = result_of(g).dtype
    given = g.cast(weights, kind) if weights is not None else g.node(
        "Expand", g.constant(1, kind), g.node("Shape", places, dtype=INT64))
    return g.node("ScatterElements", g.cast(zeros, kind), places, given, axis=0, reduction="add")


@rule("unique_consecutive")
def unique_consecutive(g: Builder, input: Value, return_inverse: bool = False, return_counts: bool = False,
                       dim: int | None = None) -> Any:
    axis = 0 if dim is None else positive(dim, input.ndim)
    order = [axis, *[d for d in range(input.ndim) if d != axis]] if dim is not None else [0]
    x = reshaped(g, input, [-1]) if dim is None else permuted(g, input, order)
    later = g.node("Slice", x, g.ints([1]), g.ints([2**63 - 1]), g.ints([0]))
    sooner = g.node("Slice", x, g.ints([0]), g.ints([-1]), g.ints([0]))
    differs = g.node("Not", g.node("Equal", later, sooner, dtype=_C.bool))
    if len(order) > 1:
        rows = g.node("ReduceMax", g.cast(differs, _C.int32), g.ints(range(1, len(order))), keepdims=0)
        differs = g.cast(rows, _C.bool)
    count = g.node("Shape", x, dtype=INT64, start=0, end=1)
    keeps = g.node("Concat", g.constant([True], _C.bool), differs, axis=0)
    keeps = g.node("Slice", keeps, g.ints([0]), count, g.ints([0]))        # of nothing, nothing
    values = g.node("Compress", x, keeps, axis=0)
    values = values if dim is None else permuted(g, values, [order.index(d) for d in range(input.ndim)])
    found = [values]
    if return_inverse:
        inverse = g.node("Sub", g.node("CumSum", g.cast(keeps, INT64), g.constant(0, INT64)), g.constant(1, INT64))
        found.append(reshaped(g, inverse, full_size(g, input)) if dim is None else inverse)
    if return_counts:
        starts = g.node("Reshape", g.node("NonZero", keeps, dtype=INT64), g.ints([-1]))
        ends = g.node("Concat", g.node("Slice", starts, g.ints([1]), g.ints([2**63 - 1]), g.ints([0])), count, axis=0)
        found.append(g.node("Sub", ends, starts))
    return tuple(found) if len(found) > 1 else values


@rule("_scaled_mm")
def scaled_mm(g: Builder, input: Value, mat2: Value, scale_a: Value, scale_b: Value, bias: Value | None = None,
              scale_result: Value | None = None, out_dtype: Any = None, use_fast_accum: bool = False) -> Value:
    if result_of(g).dtype.itemsize == 1:
        raise NotImplementedError("a scaled product with results of 8 bits; give out_dtype")
    sides = [g.node("Mul", g.cast(x, _C.float32), g.cast(scale, _C.float32))
             for x, scale in ((input, scale_a), (mat2, scale_b))]
    found = g.node("MatMul", *sides)
    if bias is not None:
        found = g.node("Add", found, g.cast(bias, _C.float32))
    if scale_result is not None:
        found = g.node("Mul", found, g.cast(scale_result, _C.float32))
    return g.cast(found, result_of(g).dtype)


