"""What programs compute with sizes, as nodes: integers, reals and truths of one element.

Enters: a builder, the operands of a Python operator (numbers, and `Size`s where they vary), and how the result is
written. Leaves: a `Size`, whose value is a tensor of int64, of float64 (as Python's reals are) or of bool. Refuses:
nothing; operators that are not in the table are refused by whoever looks here.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from .. import _C
from ..base import assertions
from .building import Builder, Size
from .model import Value

INT64, REAL, TRUTH = _C.int64, _C.float64, _C.bool
Number = int | float | bool | Size


def _dtype(n: Number) -> Any:
    if isinstance(n, Size):
        return n.value.dtype
    return TRUTH if isinstance(n, bool) else INT64 if isinstance(n, int) else REAL


def _value(g: Builder, n: Number, dtype: Any) -> Value:
    """A number as a tensor of shape [1] of this type."""
    return g.cast(n.value, dtype) if isinstance(n, Size) else g.constant([n], dtype)


def _common(*numbers: Number) -> Any:
    return REAL if any(_dtype(n) is REAL for n in numbers) else INT64


def _arithmetic(op: str) -> Callable[..., Size]:
    def rule(g: Builder, a: Number, b: Number, text: str) -> Size:
        dtype = _common(a, b)
        return Size(g.node(op, _value(g, a, dtype), _value(g, b, dtype), shape=(1,)), text)

    return rule


def _comparison(op: str, is_negated: bool = False) -> Callable[..., Size]:
    def rule(g: Builder, a: Number, b: Number, text: str) -> Size:
        dtype = _common(a, b)
        found = g.node(op, _value(g, a, dtype), _value(g, b, dtype), dtype=TRUTH, shape=(1,))
        return Size(g.node("Not", found, shape=(1,)) if is_negated else found, text)

    return rule


def _logical(op: str) -> Callable[..., Size]:
    def rule(g: Builder, *operands: Any) -> Size:
        *numbers, text = operands
        return Size(g.node(op, *[_value(g, n, TRUTH) for n in numbers], dtype=TRUTH, shape=(1,)), text)

    return rule


def _real(op: str) -> Callable[..., Size]:
    def rule(g: Builder, a: Number, text: str) -> Size:
        return Size(g.node(op, _value(g, a, REAL), shape=(1,)), text)

    return rule


def _whole(op: str) -> Callable[..., Size]:
    def rule(g: Builder, a: Number, text: str) -> Size:
        if _common(a) is INT64:
            return Size(_value(g, a, INT64), text)
        return Size(g.cast(g.node(op, _value(g, a, REAL), shape=(1,)), INT64), text)

    return rule


def _truncated(g: Builder, a: Number, text: str) -> Size:
    return Size(g.cast(_value(g, a, _common(a)), INT64), text)      # a cast drops what follows the point


def _divided(g: Builder, a: Number, b: Number, text: str) -> Size:
    return Size(g.node("Div", _value(g, a, REAL), _value(g, b, REAL), shape=(1,)), text)


def _floor_divided(g: Builder, a: Number, b: Number, text: str) -> Size:
    if _common(a, b) is REAL:
        return Size(g.node("Floor", _divided(g, a, b, "").value, shape=(1,)), text)
    rest = _remainder(g, a, b, "")
    return _arithmetic("Div")(g, _arithmetic("Sub")(g, a, rest, ""), b, text)


def _remainder(g: Builder, a: Number, b: Number, text: str) -> Size:
    if _common(a, b) is INT64:
        return _arithmetic("Mod")(g, a, b, text)
    whole = _arithmetic("Mul")(g, _floor_divided(g, a, b, ""), b, "")      # Mod of reals has the sign of the first
    return _arithmetic("Sub")(g, a, whole, text)


def _power(g: Builder, a: Number, b: Number, text: str) -> Size:
    if isinstance(b, (int, Size)) and _common(a, b) is INT64:
        return _arithmetic("Pow")(g, a, b, text)
    return Size(g.node("Pow", _value(g, a, REAL), _value(g, b, REAL), shape=(1,)), text)


def _absolute(g: Builder, a: Number, text: str) -> Size:
    return Size(g.node("Abs", _value(g, a, _common(a)), shape=(1,)), text)


def _chosen(g: Builder, condition: Number, a: Number, b: Number, text: str) -> Size:
    dtype = _common(a, b)
    return Size(g.node("Where", _value(g, condition, TRUTH), _value(g, a, dtype), _value(g, b, dtype), dtype=dtype,
                       shape=(1,)), text)


# By the function that a graph calls: operators of Python, of `math`, and of sizes.
NUMBERS: dict[Any, Callable[..., Size]] = {
    operator.add: _arithmetic("Add"), operator.sub: _arithmetic("Sub"), operator.mul: _arithmetic("Mul"),
    operator.mod: _remainder, operator.floordiv: _floor_divided, operator.truediv: _divided, operator.pow: _power,
    operator.neg: lambda g, a, text: _arithmetic("Sub")(g, 0, a, text), operator.abs: _absolute,
    assertions.sym_max: _arithmetic("Max"), assertions.sym_min: _arithmetic("Min"), assertions.sym_ite: _chosen,
    assertions.sym_float: lambda g, a, text: Size(_value(g, a, REAL), text), assertions.sym_int: _truncated,
    assertions.sym_sqrt: _real("Sqrt"), assertions.sym_not: _logical("Not"),
    math.floor: _whole("Floor"), math.ceil: _whole("Ceil"), math.trunc: _truncated, round: _whole("Round"),
    math.sqrt: _real("Sqrt"), math.exp: _real("Exp"), math.log: _real("Log"), math.sin: _real("Sin"),
    math.cos: _real("Cos"), math.tanh: _real("Tanh"),
    operator.eq: _comparison("Equal"), operator.ne: _comparison("Equal", is_negated=True),
    operator.lt: _comparison("Less"), operator.gt: _comparison("Greater"),
    operator.le: _comparison("Greater", is_negated=True), operator.ge: _comparison("Less", is_negated=True),
    operator.and_: _logical("And"), operator.or_: _logical("Or"), operator.not_: _logical("Not"),
}
