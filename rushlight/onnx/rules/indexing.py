"""Reading and writing at computed places."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ... import _C
from ...base.dtype import iinfo
from ...tensors.interop import tensor
from ..building import Builder
from ..model import Value
from .shapes import along_axis
from .table import INT64, full_size, number, permuted, positive, reshaped, result_of, rule


@rule("embedding")
def embedding(g: Builder, weight: Value, indices: Value, padding_idx: int = -1, scale_grad_by_freq: bool = False,
              sparse: bool = False) -> Value:
    return g.node("Gather", weight, indices)


@rule("embedding_renorm")
def embedding_renorm(g: Builder, input: Value, indices: Value, max_norm: float, norm_type: float) -> Value:
    """Rows that are looked up, at most of a length; all others as they are."""
    size = g.node("Abs", input)
    power = g.node("ReduceSum", g.node("Pow", size, number(g, norm_type, input)), g.ints([1]), keepdims=1)
    norms = g.node("Pow", power, number(g, 1 / norm_type, input))
    flat = g.node("Reshape", g.cast(indices, INT64), g.ints([-1]))
    shape = [g.sizes([g.size(input, 0)]), g.node("Shape", flat, dtype=INT64)]
    none, ones = [g.node("Expand", g.constant(n, INT64), s) for n, s in zip((0, 1), shape)]
    used = g.cast(g.node("Unsqueeze", g.node("ScatterElements", none, flat, ones, axis=0), g.ints([1])), _C.bool)
    long = g.node("And", used, g.node("Greater", norms, number(g, max_norm, input), dtype=_C.bool))
    scale = g.node("Div", number(g, max_norm, input), g.node("Add", norms, number(g, 1e-7, input)))
    return g.node("Mul", input, g.node("Where", long, scale, number(g, 1.0, input), dtype=input.dtype))


@rule("_insertion_point")
def insertion_point(g: Builder, sequence: Value, input: Value, right: bool, out_int32: bool, steps: int) -> Value:
    """How many elements of a sorted sequence come before each number."""
    kind = input.dtype if sequence.dtype is input.dtype else _C.float64
    wide = g.node("Unsqueeze", g.cast(input, kind), g.ints([-1]))
    op = "LessOrEqual" if right else "Less"
    row = g.cast(sequence, kind)
    row = g.node("Unsqueeze", row, g.ints([-2])) if sequence.ndim > 1 else row
    before = g.node(op, row, wide, dtype=_C.bool)
    return g.node("ReduceSum", g.cast(before, INT64), g.ints([-1]), keepdims=0)


@rule("unique")
def unique(g: Builder, input: Value, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False,
           dim: int | None = None) -> Any:
    values, _, inverse, counts = g.nodes("Unique", input, dtypes=(input.dtype, INT64, INT64, INT64), axis=dim, sorted=1)
    if return_inverse and dim is None:
        inverse = g.node("Reshape", inverse, g.sizes(full_size(g, input)))
    wanted = [values, *([inverse] if return_inverse else []), *([counts] if return_counts else [])]
    return tuple(wanted) if len(wanted) > 1 else values


@rule("index_select")
def index_select(g: Builder, input: Value, dim: int, index: Value) -> Value:
    if not input.ndim:
        return g.node("Identity", input)
    index = g.node("Unsqueeze", index, g.ints([0])) if index.ndim == 0 else index
    return g.node("Gather", input, index, axis=positive(dim, input.ndim))


@rule("gather")
def gather(g: Builder, input: Value, dim: int, index: Value, sparse_grad: bool = False) -> Value:
    if not input.ndim:
        return g.node("Expand", input, g.sizes(full_size(g, index)))
    if not index.ndim:
        return g.node("Gather", input, index, axis=0)
    return g.node("GatherElements", input, _index(g, index), axis=positive(dim, input.ndim))


def _index(g: Builder, index: Value) -> Value:
    """Indices of a type that ONNX indexes with."""
    return index if index.dtype.code in ("i32", "i64") else g.cast(index, INT64)


@rule("take")
def take(g: Builder, input: Value, index: Value) -> Value:
    return g.node("Gather", reshaped(g, input, [-1]), index)


@rule("take_along_dim")
def take_along_dim(g: Builder, input: Value, indices: Value, dim: int | None = None) -> Value:
    if dim is None:
        return g.node("GatherElements", reshaped(g, input, [-1]), reshaped(g, indices, [-1]), axis=0)
    axis = positive(dim, input.ndim)

    def spread(x: Value, like: Value) -> Value:
        sizes = [1 if d == axis else g.size(like, d) for d in range(like.ndim)]
        return g.node("Expand", x, g.sizes(sizes))

    return g.node("GatherElements", spread(input, indices), spread(indices, input), axis=axis)


# --- advanced indexing ------------------------------------------------------------------------------------------------


def _index_tuple(g: Builder, x: Value, indices: Sequence[Value | None]) -> tuple[list[int], list[Value]]:
    """Dims that are indexed, and the indices, masks refused."""
    dims, values, at = [], [], 0
    for index in indices:
        if index is None:
            at += 1
        elif index.dtype is _C.bool or index.dtype is _C.uint8:
            raise NotImplementedError("an index that is a mask beside others")
        else:
            dims.append(at)
            values.append(g.cast(index, INT64))
            at += 1
    return dims, values


def _places(g: Builder, x: Value, dims: list[int], values: list[Value]) -> tuple[Value, int]:
    """Indices as one tensor whose last dim has a number for each indexed dim, none negative; its rank without that."""
    rank = max(v.ndim for v in values)
    shape = values[0]
    for v in values[1:]:
        shape = g.node("Add", shape, g.node("Mul", v, g.constant(0, INT64)))
    size = g.node("Shape", shape, dtype=INT64)
    parts = []
    for d, v in zip(dims, values):
        n = g.scalar(g.size(x, d), INT64)
        v = g.node("Where", g.node("Less", v, g.constant(0, INT64), dtype=_C.bool), g.node("Add", v, n), v, dtype=INT64)
        v = v if len(values) == 1 else g.node("Expand", v, size)
        parts.append(g.node("Unsqueeze", v, g.ints([-1])))
    return (g.node("Concat", *parts, axis=-1) if len(parts) > 1 else parts[0]), rank


def _is_one_block(dims: list[int]) -> bool:
    return dims == list(range(dims[0], dims[0] + len(dims)))


@rule("index")
def index(g: Builder, input: Value, indices: Sequence[Value | None]) -> Value:
    given = [i for i in indices if i is not None]
    if len(given) == 1 and given[0].dtype in (_C.bool, _C.uint8):
        return _masked(g, input, given[0], next(i for i, v in enumerate(indices) if v is not None))
    dims, values = _index_tuple(g, input, indices)
    if len(values) == 1:
        return g.node("Gather", input, values[0], axis=dims[0])
    places, rank = _places(g, input, dims, values)
    rest = [d for d in range(input.ndim) if d not in dims]
    found = g.node("GatherND", permuted(g, input, [*dims, *rest]), places)       # dims: of the indices, then the rest
    if not _is_one_block(dims):
        return found
    before = [rank + i for i, d in enumerate(rest) if d < dims[0]]
    after = [rank + i for i, d in enumerate(rest) if d > dims[0]]
    return permuted(g, found, [*before, *range(rank), *after])


def _masked(g: Builder, x: Value, mask: Value, at: int) -> Value:
    """The elements (or slices) where a mask is true."""
    mask = g.cast(mask, _C.bool)
    places = g.node("Transpose", g.node("NonZero", mask, dtype=INT64), perm=[1, 0])
    dims = list(range(at, at + mask.ndim))
    rest = [d for d in range(x.ndim) if d not in dims]
    found = g.node("GatherND", permuted(g, x, [*dims, *rest]), places)
    order = [*[1 + i for i, d in enumerate(rest) if d < at], 0, *[1 + i for i, d in enumerate(rest) if d > at]]
    return permuted(g, found, order)


@rule("index_put", "_index_put", "_unsafe_index_put")
def index_put(g: Builder, input: Value, indices: Sequence[Value | None], values: Value, accumulate: bool = False,
              **unsafe: Any) -> Value:
    given = [i for i in indices if i is not None]
    values = g.cast(values, input.dtype)
    if len(given) == 1 and given[0].dtype in (_C.bool, _C.uint8):
        return _put_masked(g, input, given[0], next(i for i, v in enumerate(indices) if v is not None), values,
                           accumulate)
    dims, index_values = _index_tuple(g, input, indices)
    places, rank = _places(g, input, dims, index_values)
    rest = [d for d in range(input.ndim) if d not in dims]
    order = [*dims, *rest]
    moved = permuted(g, input, order)
    # Updates: dims of the indices first, then the rest. Values stand as the result of reading would.
    places_size = g.node("Slice", g.node("Shape", places, dtype=INT64), g.ints([0]), g.ints([-1]), g.ints([0]))
    sizes = [g.sizes([g.size(input, d)]) for d in rest]
    if _is_one_block(dims) and any(d < dims[0] for d in rest):
        before = [s for s, d in zip(sizes, rest) if d < dims[0]]
        after = [s for s, d in zip(sizes, rest) if d > dims[0]]
        whole = g.node("Concat", *before, places_size, *after, axis=0)
        spread, b = g.node("Expand", values, whole), len(before)
        updates = permuted(g, spread, [*range(b, b + rank), *range(b), *range(b + rank, b + rank + len(after))])
    else:
        whole = g.node("Concat", places_size, *sizes, axis=0) if sizes else places_size
        updates = g.node("Expand", values, whole)
    written = g.node("ScatterND", moved, places, updates, reduction="add" if accumulate else None)
    return permuted(g, written, [order.index(d) for d in range(input.ndim)])


def _put_masked(g: Builder, x: Value, mask: Value, at: int, values: Value, accumulate: bool) -> Value:
    if values.ndim == 0 or values.shape == (1,):
        flag = g.cast(mask, _C.bool)
        tail = x.ndim - at - mask.ndim
        flag = g.node("Unsqueeze", flag, g.ints(range(-tail, 0))) if tail else flag
        new = g.node("Add", x, values) if accumulate else values
        return g.where(flag, new, x)
    if at:
        raise NotImplementedError("a write to where a mask of later dims is true, of more than one number")
    places = g.node("Transpose", g.node("NonZero", g.cast(mask, _C.bool), dtype=INT64), perm=[1, 0])
    count = g.node("Slice", g.node("Shape", places, dtype=INT64), g.ints([0]), g.ints([1]), g.ints([0]))
    tail = [g.sizes([g.size(x, d)]) for d in range(mask.ndim, x.ndim)]
    updates = g.node("Expand", values, g.node("Concat", count, *tail, axis=0) if tail else count)
    return g.node("ScatterND", x, places, updates, reduction="add" if accumulate else None)


# --- scatter ----------------------------------------------------------------------------------------------------------

_NEUTRAL = {"sum": 0.0, "prod": 1.0, "amax": -math.inf, "amin": math.inf, "mean": 0.0}
_REDUCTIONS = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min", "add": "add", "multiply": "mul"}


def _scattered(g: Builder, input: Value, dim: int, index: Value, src: Value, reduction: str | None = None) -> Value:
    src, index = g.cast(src, input.dtype), Value(_index(g, index).name, INT64, index.shape)
    if not input.ndim:
        one = [g.node("Reshape", v, g.ints([1])) for v in (input, index, src)]
        return g.node("Squeeze", g.node("ScatterElements", *one, axis=0, reduction=reduction), g.ints([0]))
    if src.shape != index.shape:      # more was given than is written
        ends = g.sizes([g.size(index, d) for d in range(index.ndim)])
        src = g.node("Slice", src, g.ints([0] * index.ndim), ends)
    return g.node("ScatterElements", input, index, src, axis=positive(dim, input.ndim), reduction=reduction)


@rule("scatter")
def scatter(g: Builder, input: Value, dim: int, index: Value, src: Value | None = None, value: Any = None,
            reduce: str | None = None) -> Value:
    if src is None:
        filled = g.node("Expand", number(g, value, input), g.sizes(full_size(g, index)), dtype=input.dtype)
        src = Value(filled.name, filled.dtype, index.shape)
    return _scattered(g, input, dim, index, src, _REDUCTIONS[reduce] if reduce else None)


@rule("scatter_add")
def scatter_add(g: Builder, input: Value, dim: int, index: Value, src: Value) -> Value:
    return _scattered(g, input, dim, index, src, "add")


@rule("scatter_reduce")
def scatter_reduce(g: Builder, input: Value, dim: int, index: Value, src: Value, reduce: str,
                   include_self: bool = True) -> Value:
    is_float = input.dtype.is_floating_point
    if reduce not in _NEUTRAL or (not is_float and reduce == "mean"):
        raise NotImplementedError(f"scatter_reduce(reduce={reduce!r}) of {input.dtype}")

    def filled(value: float) -> Value:
        if not is_float:
            limits = iinfo(input.dtype)
            value = limits.min if value == -math.inf else limits.max if value == math.inf else int(value)
        whole = g.node("Expand", number(g, value, input), g.sizes(full_size(g, index)), dtype=input.dtype)
        return Value(whole.name, input.dtype, index.shape)

    base = input
    if not include_self:      # what is written to begins with the number that changes nothing
        base = Value(_scattered(g, input, dim, index, filled(_NEUTRAL[reduce])).name, input.dtype, input.shape)
    if reduce != "mean":
        return _scattered(g, base, dim, index, src, _REDUCTIONS[reduce])
    total = _scattered(g, base, dim, index, src, "add")
    own = g.node("Expand", number(g, 1.0, input), g.sizes(full_size(g, input)), dtype=input.dtype)
    count = Value(own.name, input.dtype, input.shape)
    if not include_self:
        count = Value(_scattered(g, count, dim, index, filled(0.0)).name, input.dtype, input.shape)
    return g.node("Div", total, _scattered(g, count, dim, index, filled(1.0), "add"))


@rule("index_add")
def index_add(g: Builder, input: Value, dim: int, index: Value, source: Value, alpha: Any = 1) -> Value:
    source = source if alpha == 1 else g.node("Mul", source, number(g, alpha, source))
    return _by_slices(g, input, dim, index, source, "add")


@rule("index_copy")
def index_copy(g: Builder, input: Value, dim: int, index: Value, source: Value) -> Value:
    return _by_slices(g, input, dim, index, source, None)


def _by_slices(g: Builder, x: Value, dim: int, index: Value, source: Value, reduction: str | None) -> Value:
    if not x.ndim:
        return _scattered(g, x, 0, index, source, reduction)
    axis = positive(dim, x.ndim)
    order = [axis, *[d for d in range(x.ndim) if d != axis]]
    places = g.node("Reshape", g.cast(index, INT64), g.ints([-1, 1]))
    found = g.node("ScatterND", permuted(g, x, order), places, permuted(g, source, order), reduction=reduction)
    return permuted(g, found, [order.index(d) for d in range(x.ndim)])


@rule("index_fill")
def index_fill(g: Builder, input: Value, dim: int, index: Value, value: Any) -> Value:
    if not input.ndim:
        return g.cast(value, input.dtype) if isinstance(value, Value) else number(g, value, input)
    axis = positive(dim, input.ndim)
    places = g.node("Reshape", g.cast(index, INT64), g.ints([-1]))
    count = g.node("Shape", places, dtype=INT64)
    sizes = [count if d == axis else g.sizes([g.size(input, d)]) for d in range(input.ndim)]
    given = g.cast(value, input.dtype) if isinstance(value, Value) else number(g, value, input)
    whole = g.node("Concat", *sizes, axis=0) if len(sizes) > 1 else count
    return along_axis(g, input, axis, places, g.node("Expand", given, whole, dtype=input.dtype))


@rule("masked_scatter")
def masked_scatter(g: Builder, input: Value, mask: Value, source: Value) -> Value:
    seen = result_of(g)
    if list(seen.shape) != list(input.shape):      # the mask is the larger one
        input = g.node("Expand", input, g.node("Shape", mask, dtype=INT64), shape=mask.shape)
    sizes = g.node("Shape", input, dtype=INT64)
    spread = g.node("Expand", mask, sizes)
    places = g.node("Transpose", g.node("NonZero", spread, dtype=INT64), perm=[1, 0])
    count = g.node("Slice", g.node("Shape", places, dtype=INT64), g.ints([0]), g.ints([1]), g.ints([0]))
    flat = g.node("Slice", reshaped(g, source, [-1]), g.ints([0]), count)
    return g.node("ScatterND", input, places, flat)


@rule("nonzero", "argwhere")
def nonzero(g: Builder, input: Value, as_tuple: bool = False) -> Any:
    if not input.ndim and not as_tuple:      # a row without columns, or none
        some = g.cast(g.cast(g.node("Reshape", input, g.ints([1])), _C.bool), INT64)
        return g.node("ConstantOfShape", g.node("Concat", some, g.ints([0]), axis=0), dtype=INT64, value=tensor([0]))
    if not input.ndim:
        input = Value(g.node("Reshape", input, g.ints([1])).name, input.dtype, (1,))
    found = g.node("NonZero", input, dtype=INT64)
    if not as_tuple:
        return g.node("Transpose", found, perm=[1, 0])
    rows = [g.node("Gather", found, g.constant(d, INT64), axis=0) for d in range(input.ndim)]
    return tuple(rows)


@rule("masked_select")
def masked_select(g: Builder, input: Value, mask: Value) -> Value:
    size = g.node("Shape", g.node("Where", mask, input, input, dtype=input.dtype), dtype=INT64)
    flat = [g.node("Reshape", g.node("Expand", v, size), g.ints([-1])) for v in (input, mask)]
    return g.node("Compress", *flat)


@rule("one_hot")
def one_hot(g: Builder, input: Value, num_classes: int = -1) -> Value:
    if num_classes < 0:
        raise NotImplementedError("one_hot without num_classes: elements decide its shape")
    return g.node("OneHot", input, g.ints([num_classes]), g.ints([0, 1]), dtype=INT64, axis=-1)


@rule("diag_embed")
def diag_embed(g: Builder, input: Value, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Value:
    result = result_of(g)
    n, (a, b) = result.shape[dim1], (positive(dim1, result.ndim), positive(dim2, result.ndim))
    if type(n) is not int:
        raise NotImplementedError("diag_embed of a size that varies")
    pads = [0] * (input.ndim - 1) + [max(-offset, 0)] + [0] * (input.ndim - 1) + [max(offset, 0)]
    rows = g.node("Pad", input, g.ints(pads), g.constant(0, input.dtype)) if offset else input
    # Row i of the result has element i of the padded input in column i + offset.
    wide = g.node("Unsqueeze", rows, g.ints([-1]))
    mask = g.constant([[float(j - i == offset) for j in range(n)] for i in range(n)], _C.float32)
    zero = number(g, 0, input)
    found = g.where(g.cast(mask, _C.bool), wide, zero)
    order = [d for d in range(result.ndim) if d not in (a, b)] + [a, b]
    return permuted(g, found, [order.index(d) for d in range(result.ndim)])


@rule("diagonal_scatter")
def diagonal_scatter(g: Builder, input: Value, src: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    a, b = positive(dim1, input.ndim), positive(dim2, input.ndim)
    length = src.shape[-1]
    if not isinstance(length, int):
        raise NotImplementedError("diagonals whose length varies")
    if not length:
        return input
    rest = [d for d in range(input.ndim) if d not in (a, b)]
    order = [a, b, *rest]
    rows = g.constant([[i + max(-offset, 0), i + max(offset, 0)] for i in range(length)], INT64)
    updates = permuted(g, g.cast(src, input.dtype), [src.ndim - 1, *range(src.ndim - 1)])
    found = g.node("ScatterND", permuted(g, input, order), rows, updates)
    return permuted(g, found, [order.index(d) for d in range(input.ndim)])
