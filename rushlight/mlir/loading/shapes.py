"""Operations that move elements: reshapes, broadcasts, transposes, slices, paddings, and their forms with sizes as
operands.

Enters: tensors and where their elements go. Leaves: ATen calls, views wherever there is one. Refuses dimensions that a
tensor has not, and slices beyond its sizes.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

from ...fx import Node
from ..syntax import Dense, Operation
from ..types import TensorType
from .table import COMPLEX, FLOATS, INTEGERS, counted, distinct, of_elements, op, require, scalar, size_fits, tensors
from .writer import Writer, dtype


def sizes_operand(o: Operation, index: int, count: int | None = None) -> None:
    """An operand that lists sizes: integers in one dimension."""
    kind = o.types[index]
    require(o, len(kind.shape) == 1 and kind.element in INTEGERS, f"sizes are integers in one dimension, got {kind}")
    require(o, count is None or size_fits(kind.shape[0], count), f"expected {count} sizes, got {kind}")


def only_result(o: Operation) -> TensorType:
    require(o, len(o.results) == 1 and isinstance(o.type, TensorType), "expected one tensor as result")
    return o.type


# --- constants --------------------------------------------------------------------------------------------------------


def _constant(o: Operation) -> list[TensorType]:
    tensors(o, 0)
    value = o.attributes.get("value")
    if not isinstance(value, Dense):
        raise o.error("the attribute 'value' must be a constant like dense<0.0> : tensor<f32>")
    return [value.type]


@op("constant", _constant, lifts=True)
def constant(w: Writer, o: Operation) -> Node:
    value = o.attributes["value"]
    assert isinstance(value, Dense)
    return w.constant(value)


def _iota(o: Operation) -> list[TensorType]:
    tensors(o, 0)
    return [_numbered(o, only_result(o))]


def _numbered(o: Operation, kind: TensorType) -> TensorType:
    of_elements(o, [kind], INTEGERS + FLOATS + COMPLEX)
    distinct(o, [o.integer("iota_dimension")], len(kind.shape), "iota_dimension")
    return kind


def numbered(w: Writer, kind: TensorType, dim: int, shape: Sequence[Any]) -> Node:
    """Positions along a dimension, the same along the others."""
    element = kind.element if kind.element in ("i32", "i64", "f32", "f64") else "i64"
    line = w.arange(shape[dim], element)
    if element != kind.element:
        line = w("_to_copy.default", line, dtype=dtype(kind.element))
    if len(shape) == 1:
        return line
    column = w("view.default", line, [-1 if d == dim else 1 for d in range(len(shape))])
    return w("expand.default", column, list(shape))


@op("iota", _iota)
def iota(w: Writer, o: Operation) -> Node:
    require(o, None not in o.type.shape, "a size that varies needs dynamic_iota")
    return numbered(w, o.type, o.integer("iota_dimension"), o.type.shape)


def _dynamic_iota(o: Operation) -> list[TensorType]:
    tensors(o, 1)
    kind = _numbered(o, only_result(o))
    sizes_operand(o, 0, len(kind.shape))
    return [kind]


@op("dynamic_iota", _dynamic_iota)
def dynamic_iota(w: Writer, o: Operation, shape: Node) -> Node:
    return numbered(w, o.type, o.integer("iota_dimension"), w.elements(shape, o.types[0]))


# --- reshapes ---------------------------------------------------------------------------------------------------------


def _reshaped(o: Operation) -> list[TensorType]:
    kind, = tensors(o, 1)
    target = only_result(o)
    require(o, None not in target.shape or None in kind.shape, "sizes that vary need dynamic_reshape")
    if None not in kind.shape and None not in target.shape:
        sizes = [math.prod(n or 0 for n in t.shape) for t in (kind, target)]
        require(o, sizes[0] == sizes[1], f"{kind} and {target} have not as many elements")
    return [TensorType(target.shape, kind.element)]


@op("reshape", _reshaped, lifts=True)
def reshape(w: Writer, o: Operation, x: Node) -> Node:
    kind, target = o.types[0], o.type
    if kind.shape == target.shape and None not in target.shape:
        return x
    shape = [-1 if n is None else n for n in target.shape]
    require(o, shape.count(-1) <= 1, "at most one size may vary here; dynamic_reshape takes more")
    return w("reshape.default", x, shape)


def _dynamic_reshaped(o: Operation) -> list[TensorType]:
    kind, _ = tensors(o, 2)
    target = only_result(o)
    sizes_operand(o, 1, len(target.shape))
    return [TensorType(target.shape, kind.element)]


@op("dynamic_reshape", _dynamic_reshaped)
def dynamic_reshape(w: Writer, o: Operation, x: Node, shape: Node) -> Node:
    return w("reshape.default", x, w.elements(shape, o.types[1]))


# --- broadcasts -------------------------------------------------------------------------------------------------------


def _broadcast_in_dim(o: Operation, count: int = 1) -> list[TensorType]:
    kind = tensors(o, count)[0]
    target = only_result(o)
    dims = o.integers("broadcast_dimensions")
    counted(o, dims, len(kind.shape), "broadcast_dimensions")
    distinct(o, dims, len(target.shape), "broadcast_dimensions")
    for n, d in zip(kind.shape, dims, strict=True):
        require(o, n == 1 or size_fits(n, target.shape[d]), f"a size {n} cannot become {target.shape[d]}")
    require(o, count == 2 or None not in target.shape, "sizes that vary need dynamic_broadcast_in_dim")
    return [TensorType(target.shape, kind.element)]


def broadcast(w: Writer, x: Node, rank: int, dims: Sequence[int], shape: Sequence[Any]) -> Node:
    """Dimensions of `x` at the places `dims` of a shape."""
    order = sorted(range(rank), key=lambda i: dims[i])
    if order != list(range(rank)):
        x = w("permute.default", x, order)
    kept = sorted(dims)
    for d in range(len(shape)):
        if d not in kept:
            x = w("unsqueeze.default", x, d)
    return w("expand.default", x, list(shape)) if shape else x


@op("broadcast_in_dim", _broadcast_in_dim, lifts=True)
def broadcast_in_dim(w: Writer, o: Operation, x: Node) -> Node:
    if not o.type.shape or (o.type.shape == o.types[0].shape and o.integers("broadcast_dimensions") == list(
            range(len(o.type.shape)))):
        return x
    return broadcast(w, x, len(o.types[0].shape), o.integers("broadcast_dimensions"), o.type.shape)


def _dynamic_broadcast_in_dim(o: Operation) -> list[TensorType]:
    found = _broadcast_in_dim(o, 2)
    sizes_operand(o, 1, len(o.type.shape))
    return found


@op("dynamic_broadcast_in_dim", _dynamic_broadcast_in_dim)
def dynamic_broadcast_in_dim(w: Writer, o: Operation, x: Node, shape: Node) -> Node:
    sizes = w.elements(shape, o.types[1])
    return broadcast(w, x, len(o.types[0].shape), o.integers("broadcast_dimensions"), sizes)


def _broadcast(o: Operation) -> list[TensorType]:
    kind, = tensors(o, 1)
    added = o.integers("broadcast_sizes")
    require(o, all(n >= 0 for n in added), "sizes are not negative")
    return [TensorType((*added, *kind.shape), kind.element)]


@op("broadcast", _broadcast)
def broadcast_in_front(w: Writer, o: Operation, x: Node) -> Node:
    kind = o.types[0]
    return w("expand.default", x, [*o.integers("broadcast_sizes"), *w.shape(x, kind)])


# --- order ------------------------------------------------------------------------------------------------------------


def _transposed(o: Operation) -> list[TensorType]:
    kind, = tensors(o, 1)
    dims = o.integers("permutation")
    counted(o, dims, len(kind.shape), "permutation")
    distinct(o, dims, len(kind.shape), "permutation")
    return [TensorType(tuple([kind.shape[d] for d in dims]), kind.element)]


@op("transpose", _transposed)
def transpose(w: Writer, o: Operation, x: Node) -> Node:
    return w("permute.default", x, o.integers("permutation"))


def _reversed(o: Operation) -> list[TensorType]:
    kind, = tensors(o, 1)
    distinct(o, o.integers("dimensions"), len(kind.shape), "dimensions")
    return [kind]


@op("reverse", _reversed)
def reverse(w: Writer, o: Operation, x: Node) -> Node:
    return w("flip.default", x, o.integers("dimensions"))


def _concatenated(o: Operation) -> list[TensorType]:
    types = tensors(o, 1, 1 << 30)
    dim = o.integer("dimension")
    distinct(o, [dim], len(types[0].shape), "dimension")
    shape = list(types[0].shape)
    for t in types[1:]:
        fits = t.element == types[0].element and len(t.shape) == len(shape) and all(
            d == dim or size_fits(a, b) for d, (a, b) in enumerate(zip(t.shape, shape, strict=True)))
        require(o, fits, f"operands must agree but in dimension {dim}, got {types[0]} and {t}")
        shape = [b if a is None else a for a, b in zip(shape, t.shape, strict=True)]
    along = [t.shape[dim] for t in types]
    shape[dim] = None if None in along else sum(n or 0 for n in along)
    return [TensorType(tuple(shape), types[0].element)]


@op("concatenate", _concatenated)
def concatenate(w: Writer, o: Operation, *operands: Node) -> Node:
    return w("cat.default", list(operands), o.integer("dimension"))


# --- slices and paddings ----------------------------------------------------------------------------------------------


def _sliced(o: Operation) -> list[TensorType]:
    kind, = tensors(o, 1)
    starts, limits = o.integers("start_indices"), o.integers("limit_indices")
    strides, shape = o.integers("strides"), []
    for what, values in (("start_indices", starts), ("limit_indices", limits), ("strides", strides)):
        counted(o, values, len(kind.shape), what)
    for n, a, b, s in zip(kind.shape, starts, limits, strides, strict=True):
        require(o, s >= 1, f"a stride is at least 1, got {s}")
        require(o, 0 <= a <= b and (n is None or b <= n), f"cannot take {a}:{b} of a size {'?' if n is None else n}")
        shape.append((b - a + s - 1) // s)
    return [TensorType(tuple(shape), kind.element)]


@op("slice", _sliced)
def take_slice(w: Writer, o: Operation, x: Node) -> Node:
    spans = zip(o.integers("start_indices"), o.integers("limit_indices"), o.integers("strides"), strict=True)
    for d, (a, b, s) in enumerate(spans):
        if (a, b, s) != (0, o.types[0].shape[d], 1):
            x = w("slice.Tensor", x, d, a, b, s)
    return x


def _real_dynamic_slice(o: Operation) -> list[TensorType]:
    kind = tensors(o, 4)[0]
    target = only_result(o)
    for i in (1, 2, 3):
        sizes_operand(o, i, len(kind.shape))
    require(o, len(target.shape) == len(kind.shape), f"the result has as many dimensions as the operand, got {target}")
    return [TensorType(target.shape, kind.element)]


@op("real_dynamic_slice", _real_dynamic_slice)
def real_dynamic_slice(w: Writer, o: Operation, x: Node, starts: Node, limits: Node, strides: Node) -> Node:
    parts = [w.elements(n, t) for n, t in zip((starts, limits, strides), o.types[1:], strict=True)]
    for d, (a, b, s) in enumerate(zip(*parts, strict=True)):
        x = w("slice.Tensor", x, d, a, b, s)
    return x


def _padded(o: Operation) -> list[TensorType]:
    kind, value = tensors(o, 2)
    require(o, scalar(o, value, "what is padded with").element == kind.element,
            f"what is padded with must have elements of {kind.element}, got {value}")
    low, high, interior = (o.integers(n) for n in ("edge_padding_low", "edge_padding_high", "interior_padding"))
    shape: list[int | None] = []
    for what, values in (("edge_padding_low", low), ("edge_padding_high", high), ("interior_padding", interior)):
        counted(o, values, len(kind.shape), what)
    for n, a, b, i in zip(kind.shape, low, high, interior, strict=True):
        require(o, i >= 0, "padding between elements is not negative")
        size = None if n is None else n + max(n - 1, 0) * i + a + b
        require(o, size is None or size >= 0, f"nothing is left of a size {n} with {a} and {b} around it")
        shape.append(size)
    return [TensorType(tuple(shape), kind.element)]


@op("pad", _padded)
def pad(w: Writer, o: Operation, x: Node, value: Node) -> Node:
    names = ("edge_padding_low", "edge_padding_high", "interior_padding")
    return padded(w, x, o.types[0], value, *[o.integers(n) for n in names])


def _dynamic_padded(o: Operation) -> list[TensorType]:
    kind, value = tensors(o, 5)[:2]
    require(o, scalar(o, value, "what is padded with").element == kind.element,
            f"what is padded with must have elements of {kind.element}, got {value}")
    for i in (2, 3, 4):
        sizes_operand(o, i, len(kind.shape))
    target = only_result(o)
    require(o, len(target.shape) == len(kind.shape), f"the result has as many dimensions as the operand, got {target}")
    return [TensorType(target.shape, kind.element)]


@op("dynamic_pad", _dynamic_padded)
def dynamic_pad(w: Writer, o: Operation, x: Node, value: Node, low: Node, high: Node, interior: Node) -> Node:
    parts = [w.elements(n, t) for n, t in zip((low, high, interior), o.types[2:], strict=True)]
    return padded(w, x, o.types[0], value, *parts)


def padded(w: Writer, x: Node, kind: TensorType, value: Node, low: Sequence[Any], high: Sequence[Any],
           interior: Sequence[Any]) -> Node:
    """Elements around and between; negative numbers take away. A value that is not in the text fills by a mask."""
    if not any(isinstance(n, Node) or n for n in (*low, *high, *interior)):
        return x
    literal = w.literals.get(value)
    if literal is not None and not isinstance(literal, complex):
        return stretched(w, x, low, high, interior, literal)
    inside = stretched(w, w("ones_like.default", x, dtype=dtype("i1")), low, high, interior, False)
    zeros = False if kind.element == "i1" else 0
    return w("where.self", inside, stretched(w, x, low, high, interior, zeros), value)


def stretched(w: Writer, x: Node, low: Sequence[Any], high: Sequence[Any], interior: Sequence[Any], fill: Any) -> Node:
    """The same with a number."""
    for d, count in enumerate(interior):
        if isinstance(count, Node) or count:
            rows = w("unsqueeze.default", x, d + 1)
            rows = w("constant_pad_nd.default", rows, [*[0, 0] * (len(low) - d - 1), 0, count], fill)
            x = w("flatten.using_ints", rows, d, d + 1)
            x = w("slice.Tensor", x, d, 0, w.node(operator.neg, count) if isinstance(count, Node) else -count)
    around = [n if isinstance(n, Node) else max(n, 0) for d in reversed(range(len(low))) for n in (low[d], high[d])]
    if any(isinstance(n, Node) or n for n in around):
        x = w("constant_pad_nd.default", x, around, fill)
    for d in range(len(low)):
        if isinstance(low[d], int) and low[d] < 0:
            x = w("slice.Tensor", x, d, -low[d])
        if isinstance(high[d], int) and high[d] < 0:
            x = w("slice.Tensor", x, d, 0, high[d])
    return x


def _measured(o: Operation) -> list[TensorType]:
    kind, = tensors(o, 1)
    distinct(o, [o.integer("dimension")], len(kind.shape), "dimension")
    return [TensorType((), "i32")]


@op("get_dimension_size", _measured)
def get_dimension_size(w: Writer, o: Operation, x: Node) -> Node:
    size = w.size(x, o.types[0], o.integer("dimension"))
    return w("full.default", [], size, dtype=dtype("i32"), device=w.device)
