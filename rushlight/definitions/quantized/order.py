"""Comparing and ordering quantized tensors.

Enters: quantized tensors, compared with one another, with numbers or with plain tensors. Leaves: truth values, the
numbers that integers stand for being compared; or quantized tensors in another order, which the integers alone decide.
Refuses: ordering tensors whose elements have scales of their own.
"""

from __future__ import annotations

from typing import Any

from ... import _C
from ...base.quantizers import PerTensor
from ...op import ops
from .assign import one_scale
from .container import ints, is_quantized, like, rule
from .create import dequantized


def number(value: Any) -> Any:
    """What takes part in a comparison."""
    return dequantized(value) if isinstance(value, _C.Tensor) else value


def comparison(name: str) -> Any:
    def compare(input: Any, other: Any) -> Any:
        return ops[name](number(input), number(other))

    return compare


for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    rule(_name)(comparison(_name))


@rule("equal")
def equal(input: Any, other: Any) -> bool:
    """Whether dtype, sizes, quantizers and integers are the same."""
    if not (is_quantized(input) and is_quantized(other)) or input.dtype is not other.dtype:
        return False
    return input.shape == other.shape and same(input._quantizer, other._quantizer) and ops["equal"](
        ints(input), ints(other)
    )


def same(a: Any, b: Any) -> bool:
    """Whether integers mean the same with both quantizers."""
    if type(a) is not type(b):
        return False
    if isinstance(a, PerTensor):
        return (a.scale, a.zero_point) == (b.scale, b.zero_point)
    return a.axis == b.axis and ops["equal"](a.scales, b.scales) and ops["equal"](a.zero_points, b.zero_points)


def ordered(name: str) -> Any:
    """A rule that gives values, and indices where the op has them."""

    def order(t: Any, *args: Any) -> Any:
        if args and isinstance(args[0], _C.Tensor):
            raise RuntimeError(f"{name}: not implemented for the elements of two quantized tensors. Use dequantize().")
        integers = ints(one_scale(t, name)).contiguous()
        if name == "sort" and isinstance(args[0], bool | None):     # the form that has `stable` first
            result = ops["sort"](integers, stable=args[0], dim=args[1], descending=args[2])
        else:
            result = ops[name](integers, *args)
        if isinstance(result, _C.Tensor):
            return like(t, result)
        return type(result)((like(t, result[0]), *result[1:]))

    return order


for _name in ("sort", "topk", "max", "min", "msort"):
    rule(_name)(ordered(_name))


def refused(name: str) -> Any:
    """A rule for what is made of ops that quantized tensors have, but is not done with them."""

    def refuse(t: Any, *args: Any) -> Any:
        raise NotImplementedError(f"{name}: not implemented for quantized tensors. Use dequantize() first.")

    return refuse


for _name in ("nonzero", "masked_select", "unique", "_unique2", "unique_dim", "allclose", "to_sparse", "bincount"):
    rule(_name)(refused(_name))


@rule("argsort")
def argsort(t: Any, *args: Any) -> Any:
    return ops["argsort"](ints(one_scale(t, "argsort")), *args)
