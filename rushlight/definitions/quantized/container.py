"""The quantized tensor: a plain Tensor of a quantized dtype whose core record holds a quantizer.

Enters: integers and a quantizer (`create.py` checks what users give). Leaves: tensors, and a table of what each op does
with them. A call with such a tensor leaves the fast path at its key bit and comes to `call`. Views keep the quantizer.
Refuses: ops without a rule, by name; they never see a float copy silently.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import _C
from ...base.quantizers import PerTensor, Quantizer
from ...op import find_op
from ...op.definition import KIND_PYTHON

PLAIN = {
    _C.quint8: _C.uint8, _C.qint8: _C.int8, _C.qint32: _C.int32, _C.quint4x2: _C.uint8, _C.quint2x4: _C.uint8,
}
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
        return overload.redispatch(*args)
    if definition.kind == KIND_PYTHON and not overload.records:
        return NotImplemented
    held = next(a for a in flat(args) if is_quantized(a))
    raise NotImplementedError(
        f"{name}: not implemented for quantized tensors, got one of {held.dtype}. Use dequantize() first."
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
    """The integers of a quantized tensor: a plain tensor over the same memory."""
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
