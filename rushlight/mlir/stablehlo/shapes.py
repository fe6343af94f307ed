"""Shapes: views by their names where sizes vary, joins, padding, and writing through a view."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...op import find_op
from ..errors import UnsupportedOp
from ..printing import Value
from .building import I64, Hlo, is_fixed, value
from .elements import cast
from .lowering import scatter_into
from .places import viewed
from .table import Call, positive, rule


@rule("view", "reshape", "_unsafe_view", "flatten", "unflatten", "unsqueeze", "squeeze", "ravel", "view_as",
      "reshape_as")
def reshape(call: Call, input: Value, *args: Any, **rest: Any) -> Any:
    if call.out().dtype is not input.dtype:
        return NotImplemented
    return call.b.reshape(input, tuple(call.out().shape))


@rule("alias", "detach", "clone", "contiguous", "resolve_conj", "resolve_neg", "lift_fresh", "lift_fresh_copy",
      "positive")
def same(call: Call, input: Value, **rest: Any) -> Value:
    return input


@rule("_conj", "conj", "_conj_physical")
def conj(call: Call, input: Value) -> Value:
    b = call.b
    if not input.dtype.is_complex:
        return input
    part = input.dtype.to_real()
    parts = [b.unary("real", input, part), b.unary("negate", b.unary("imag", input, part))]
    return b.op("stablehlo.complex", parts, Value(input.type, input.dtype, input.shape))


@rule("_neg_view")
def neg_view(call: Call, input: Value) -> Value:
    return call.b.unary("negate", input)


@rule("real", "_real_part")
def real(call: Call, input: Value) -> Value:
    return call.b.unary("real", input, input.dtype.to_real()) if input.dtype.is_complex else input


@rule("imag", "_imag_part")
def imag(call: Call, input: Value) -> Value:
    return call.b.unary("imag", input, input.dtype.to_real())


@rule("view_as_real")
def view_as_real(call: Call, input: Value) -> Value:
    b, part = call.b, input.dtype.to_real()
    parts = [b.reshape(b.unary(name, input, part), (*input.shape, 1)) for name in ("real", "imag")]
    return b.concatenate(parts, input.ndim)


@rule("view_as_complex")
def view_as_complex(call: Call, input: Value) -> Value:
    b, dtype = call.b, call.out().dtype
    shape = input.shape[:-1]
    parts = [b.reshape(b.slice(input, [*[0] * len(shape), k], [*shape, 1]), shape) for k in (0, 1)]
    return b.op("stablehlo.complex", parts, value(dtype, shape))


@rule("permute")
def permute(call: Call, input: Value, dims: Sequence[int]) -> Value:
    return call.b.transpose(input, [positive(d, input.ndim) for d in dims])


@rule("transpose", "swapaxes", "swapdims")
def transpose(call: Call, input: Value, *args: Any, **rest: Any) -> Value:
    first, second = (positive(d, max(input.ndim, 1)) for d in (*args, *rest.values()))
    order = list(range(input.ndim))
    if order:
        order[first], order[second] = order[second], order[first]
    return call.b.transpose(input, order)


@rule("t")
def t(call: Call, input: Value) -> Value:
    return call.b.transpose(input, list(range(input.ndim))[::-1])


@rule("expand", "broadcast_to", "expand_as")
def expand(call: Call, input: Value, *args: Any, **rest: Any) -> Value:
    b, shape = call.b, tuple(call.out().shape)
    lead = len(shape) - input.ndim
    kept = [d for d in range(input.ndim) if not (type(input.shape[d]) is int and input.shape[d] == 1)]
    return b.broadcast(b.reshape(input, [input.shape[d] for d in kept]), shape, [lead + d for d in kept])


@rule("slice")
def slice_(call: Call, input: Value, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    shape = tuple(call.out().shape)
    if is_fixed((*shape, *input.shape)):
        return NotImplemented
    dim, whole = positive(dim, input.ndim), input.shape[positive(dim, input.ndim)]
    first = start or 0
    if type(first) is int and first < 0:
        first = whole + first
    places: list[Any] = [0] * input.ndim
    places[dim] = first
    return call.b.slice(input, places, shape, [step if d == dim else 1 for d in range(input.ndim)])


@rule("select")
def select(call: Call, input: Value, dim: int, index: Any) -> Any:
    if is_fixed((*input.shape, index)):
        return NotImplemented
    b, dim = call.b, positive(dim, input.ndim)
    if type(index) is int and index < 0:
        index = input.shape[dim] + index
    places: list[Any] = [0] * input.ndim
    places[dim] = index
    shape = [1 if d == dim else n for d, n in enumerate(input.shape)]
    return b.reshape(b.slice(input, places, shape), tuple(call.out().shape))


@rule("as_strided")
def as_strided(call: Call, input: Value, size: Sequence[int], stride: Sequence[int], storage_offset: Any = None
               ) -> Value:
    laid, base = in_memory_order(call, input)
    offset = base if storage_offset is None else storage_offset
    return viewed(call.b, laid, size, stride, offset - base)


def in_memory_order(call: Call, input: Value) -> tuple[Value, int]:
    """The elements of a tensor as they lie in memory, and where the first one lies."""
    seen = call.as_traced["input"]
    if not seen._is_dense():
        raise UnsupportedOp("mlir: as_strided of a tensor that shows a part of its memory")
    order = sorted(range(seen.ndim), key=lambda d: (-seen.stride(d), d))
    return call.b.reshape(call.b.transpose(input, order), (math.prod(input.shape),)), seen.storage_offset()


# --- writing through a view -------------------------------------------------------------------------------------------


def written(b: Hlo, input: Value, src: Value, looked: Any) -> Value:
    """`input` with `src` where the view `looked` (of places) looks."""
    flat = b.reshape(input, (math.prod(input.shape),))
    places = looked(b.reshape(b.iota(I64, flat.shape, 0), input.shape))
    src = cast(b, src, input.dtype)
    if src.shape != places.shape:
        src = b.broadcast(src, places.shape)
    found = scatter_into(b, flat, b.reshape(places, (*places.shape, 1)), src, lambda old, new: [new])
    return b.reshape(found, input.shape)


@rule("select_scatter", "slice_scatter", "diagonal_scatter")
def view_scatter(call: Call, input: Value, src: Value, **rest: Any) -> Value:
    b, view = call.b, call.definition.name.removesuffix("_scatter")
    looked = lambda places: call.expand(VIEWS[view], (places,), rest)  # noqa: E731
    return written(b, input, src, looked)


@rule("as_strided_scatter")
def as_strided_scatter(call: Call, input: Value, src: Value, size: Any, stride: Any, storage_offset: Any = None
                       ) -> Value:
    b = call.b
    laid, base = in_memory_order(call, input)
    places = viewed(b, b.iota(I64, laid.shape, 0), size, stride, (storage_offset or base) - base)
    found = scatter_into(b, laid, b.reshape(places, (*places.shape, 1)), cast(b, src, input.dtype),
                         lambda old, new: [new])
    seen = call.as_traced["input"]
    order = sorted(range(seen.ndim), key=lambda d: (-seen.stride(d), d))
    turned = b.reshape(found, [input.shape[d] for d in order])
    return b.transpose(turned, [order.index(d) for d in range(len(order))])


def _view(name: str) -> Any:
    def call(t: Any, **rest: Any) -> Any:
        return find_op(name)(t, **rest)

    return call


VIEWS = {name: _view(name) for name in ("select", "slice", "diagonal")}


# --- joins ------------------------------------------------------------------------------------------------------------


@rule("cat")
def cat(call: Call, tensors: Sequence[Value], dim: int = 0) -> Value:
    b, dtype = call.b, call.out().dtype
    kept = [x for x in tensors if not (x.ndim == 1 and x.shape[0] == 0)] or list(tensors[:1])
    return b.concatenate([cast(b, x, dtype) for x in kept], positive(dim, kept[0].ndim))


@rule("constant_pad_nd")
def constant_pad_nd(call: Call, input: Value, pad: Sequence[Any], **fill: Any) -> Value:
    b, number = call.b, fill.get("value") or 0
    low, high = [0] * input.ndim, [0] * input.ndim
    for k in range(len(pad) // 2):
        low[input.ndim - 1 - k], high[input.ndim - 1 - k] = pad[2 * k], pad[2 * k + 1]
    return b.pad(input, b.constant(number, input.dtype), low, high)


@rule("flip")
def flip(call: Call, input: Value, dims: Sequence[int]) -> Value:
    return call.b.reverse(input, sorted(positive(d, input.ndim) for d in dims))


# --- parts ------------------------------------------------------------------------------------------------------------


@rule("split", "split_with_sizes", "chunk", "tensor_split", "unsafe_split", "unsafe_split_with_sizes", "unsafe_chunk",
      "unbind")
def parts(call: Call, **given: Any) -> Any:
    """One behind the other along a dim, of whatever sizes the others have."""
    input = next(iter(given.values()))
    if is_fixed(input.shape) or call.definition.is_composite:
        return NotImplemented
    dim = positive(given.get("dim", 0), input.ndim)
    found, at = [], 0
    for shown in call.definition.geometry(*call.fakes.values()):
        size = shown.sizes[dim] if len(shown.sizes) == input.ndim else 1
        start: list[Any] = [0] * input.ndim
        start[dim] = at
        box = call.b.slice(input, start, [size if d == dim else n for d, n in enumerate(input.shape)])
        found.append(call.b.reshape(box, tuple(shown.sizes)))
        at = at + size
    return tuple(found)
