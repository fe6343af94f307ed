"""The quantized tensor: a plain Tensor of a quantized dtype whose core record holds a quantizer.

Enters: integers and a quantizer (`create.py` checks what users give). Leaves: tensors, and a table of what each op does
with them. A call with such a tensor leaves the fast path at its key bit and comes to `call`. Views keep the quantizer.
Refuses: ops without a rule, by name; they never see a float copy silently.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from ... import _C
from ...base.quantizers import PLAIN, PerTensor, Quantizer
from ...op import find_op
from ...op.definition import KIND_PYTHON
from .subbyte import PER_BYTE, memory_of

rules: dict[str, Callable] = {}       # op name ("relu", "relu_") -> its quantized form, called with the bound arguments


def rule(*names: str) -> Callable:
    """Decorator: what the ops of these names do when an argument is quantized."""

    def register(function: Callable) -> Callable:
        for name in names:
            rules[name] = function
        return function

    return register


def call(overload: Any, args: tuple) -> Any:
    """What a call with a quantized tensor gives; NotImplemented for ops that are made of others, or of a namespace."""
    definition = overload.definition
    if definition.custom:
        return NotImplemented
    name = definition.spec.name + ("_" if definition.is_inplace else "")
    found = rules.get(name)
    if found is not None:
        return found(*args)
    if definition.is_view():
        return view(name, overload, args)
    if definition.kind == KIND_PYTHON and not overload.records:
        return NotImplemented
    held = next(a for a in flat(args) if is_quantized(a))
    raise NotImplementedError(
        f"{name}: not implemented for quantized tensors, got one of {held.dtype}. Use dequantize() first."
    )


def call_out(name: str, args: tuple, out: Any) -> Any:
    """What a call that writes into a quantized tensor gives: rules called "cat.out" say how."""
    found = rules.get(f"{name}.out")
    if found is None:
        raise NotImplementedError(f"{name}: out= is not implemented for quantized tensors, got one of {out.dtype}")
    return found(*args, out)


# Views that show some of the elements, and leave dims where they are but for those they take away.
PARTS = frozenset(("select", "slice", "narrow", "split", "split_with_sizes", "unbind", "_basic_index"))


def view(name: str, overload: Any, args: tuple) -> Any:
    """A view keeps the quantizer; one of a tensor quantized per channel, the channels it shows. Refused per channel:
    views that exchange or repeat dims; of elements that share bytes: what does not begin with the first."""
    t = args[0]
    quantizer = t._quantizer
    if any(isinstance(a, _C.dtype) for a in args):
        raise RuntimeError(f"{name}: a quantized tensor cannot be seen as another dtype. Use int_repr().")
    if isinstance(quantizer, PerTensor) or name == "alias":
        result = overload.redispatch(*args)
    elif name in PARTS:
        # The scales, spread over the sizes of `t`, go the same way: their strides then say where the channels are.
        axis = quantizer.axis
        strides = [int(dim == axis) for dim in range(t.ndim)]
        spread = _C.alias(quantizer.scales, t.shape, strides, quantizer.scales.storage_offset())
        result, shown = overload.redispatch(*args), overload.redispatch(spread, *args[1:])
        pairs = zip(result, shown, strict=True) if isinstance(result, (list, tuple)) else ((result, shown),)
        for part, scales in pairs:
            part._quantizer = shown_channels(name, quantizer, scales)
    elif name in ("view", "unsqueeze", "squeeze"):
        result = overload.redispatch(*args)
        result._quantizer = type(quantizer)(quantizer.scales, quantizer.zero_points, new_axis(name, t, result))
    else:
        raise RuntimeError(f"{name}: expected a tensor quantized per tensor, got {quantizer.scheme}")
    if t.dtype in PER_BYTE and (
        isinstance(result, (list, tuple)) or result.storage_offset() or not result.is_contiguous()
    ):
        raise RuntimeError(f"{name}: elements of {t.dtype} share bytes, views of them must begin with the first")
    return result


def shown_channels(name: str, quantizer: Any, shown: Any) -> Quantizer:
    """The quantizer of a view, from how it shows the scales."""
    axis = next((dim for dim in range(shown.ndim) if shown.stride(dim) and shown.shape[dim] != 1), None)
    first = shown.storage_offset() - quantizer.scales.storage_offset()
    if axis is not None:
        along = slice(first, first + (shown.shape[axis] - 1) * shown.stride(axis) + 1, shown.stride(axis))
        if not shown.shape[axis]:
            along = slice(0, 0)
        return type(quantizer)(quantizer.scales[along], quantizer.zero_points[along], axis)
    scale, point = quantizer.scales[first].item(), quantizer.zero_points[first].item()
    if int(point) != point:
        raise RuntimeError(f"{name}: one channel of {quantizer.scheme} has no integer as its zero point, but {point}")
    return PerTensor(scale, int(point))


def new_axis(name: str, t: Any, result: Any) -> int:
    """Where the dim that is quantized lies in a view with other sizes."""
    axis = t._quantizer.axis
    before, count = prod(t.shape[:axis]), t.shape[axis]
    for dim in range(result.ndim):
        if result.shape[dim] == count and prod(result.shape[:dim]) == before:
            return dim
    raise RuntimeError(
        f"{name}: dim {axis}, which is quantized per channel, is lost from {list(t.shape)} to {list(result.shape)}"
    )


def flat(args: tuple) -> list[Any]:
    """Arguments with lists opened."""
    return [x for a in args for x in (a if isinstance(a, (list, tuple)) else (a,))]


def is_quantized(t: Any) -> bool:
    return isinstance(t, _C.Tensor) and t._quantizer is not None


def put(ints: Any, dtype: Any, quantizer: Quantizer) -> Any:
    """A tensor of a quantized dtype over the memory of these integers."""
    result = _C.alias(ints, ints.shape, ints.stride(), ints.storage_offset(), dtype)
    result._quantizer = quantizer
    return result


def ints(t: Any) -> Any:
    """The integers of a quantized tensor: a plain tensor over the same memory. Of dtypes whose elements share bytes,
    the bytes, as a vector."""
    if t.dtype in PER_BYTE:
        return memory_of(t)
    return _C.alias(t, t.shape, t.stride(), t.storage_offset(), PLAIN[t.dtype])


def like(t: Any, integers: Any) -> Any:
    """Other integers that mean what those of `t` do."""
    return put(integers, t.dtype, t._quantizer)


def qparams(t: Any, name: str = "this op") -> tuple[float, int]:
    """Scale and zero point of a tensor that has one of each."""
    quantizer = t._quantizer
    if not isinstance(quantizer, PerTensor):
        raise RuntimeError(f"{name}: expected a tensor quantized per tensor, got {quantizer.scheme}")
    return quantizer.scale, quantizer.zero_point


def _readable(t: Any, what: str) -> Any:
    return find_op("dequantize")(t)


def call_at_once(overload: Any, args: tuple) -> Any:
    """The same, asked by the core where no mode, level or subclass has a say; ops of our own namespaces run as well."""
    definition = overload.definition
    if definition.custom:
        function = getattr(definition, "function_of_all", None)
        return NotImplemented if function is None else function(*args)
    answer = call(overload, args)
    return overload.redispatch(*args) if answer is NotImplemented and definition.is_composite else answer


_C._autograd_callbacks["quantized_call"] = call_at_once
_C._autograd_callbacks["quantized_value"] = _readable      # what item() and tolist() read
