"""The bits of floats, as numbers: what expressions of special functions look at. Since opset 26 ONNX has a node for it.

Enters: a value of 32 or 64 bits, and the type to see it as. Leaves: the same bits as that type. Before opset 26 they
are computed: a float is a sign, a power of two and a fraction, all exact in 64 bits. Refuses: other widths.
"""

from __future__ import annotations

import math
from typing import Any

from .. import _C
from .building import Builder
from .model import Value, element_type

BIASES = {32: (23, 127), 64: (52, 1023)}        # digits of the fraction, and what is added to exponents
WIDE, INT64, TRUTH = _C.float64, _C.int64, _C.bool


def seen_as(g: Builder, x: Value, dtype: Any) -> Value:
    """The bits of x as another type of the same width."""
    if x.dtype is dtype:
        return x
    width = 8 * dtype.itemsize
    if g.opset >= 26:
        return g.node("BitCast", x, dtype=dtype, to=element_type(dtype))
    if width not in BIASES or x.dtype.itemsize != dtype.itemsize:
        raise NotImplementedError(f"the bits of {x.dtype} as {dtype} need opset 26 (BitCast)")
    if x.dtype.is_floating_point == dtype.is_floating_point:
        raise NotImplementedError(f"the bits of {x.dtype} as {dtype} need opset 26 (BitCast)")
    return _integer(g, x, dtype, width) if x.dtype.is_floating_point else _real(g, x, dtype, width)


def _power(g: Builder, exponent: Value) -> Value:
    """2 to an integer, exactly: halves of it, so that none is too large or too small on its own."""
    half = g.node("Floor", g.node("Mul", exponent, g.constant(0.5, WIDE)))
    two = g.constant(2.0, WIDE)
    return g.node("Mul", g.node("Pow", two, half), g.node("Pow", two, g.node("Sub", exponent, half)))


def _chosen(g: Builder, condition: Value, a: Value, b: Value) -> Value:
    return g.node("Where", condition, a, b, dtype=b.dtype)


def _compare(g: Builder, op: str, x: Value, y: Value) -> Value:
    return g.node(op, x, y, dtype=TRUTH)


def _integer(g: Builder, x: Value, dtype: Any, width: int) -> Value:
    digits, bias = BIASES[width]

    def number(value: float) -> Value:
        return g.constant(value, WIDE)

    wide = g.cast(x, WIDE)
    size = g.node("Abs", wide)
    usual = _compare(g, "GreaterOrEqual", size, number(2.0 ** (1 - bias)))
    safe = _chosen(g, usual, g.node("Min", size, number(2.0**bias * (2 - 2.0**-digits))), number(1.0))
    guess = g.node("Floor", g.node("Mul", g.node("Log", safe), number(1 / math.log(2))))
    # The logarithm may be off by a little at powers of two: one step to either side settles it.
    power = _power(g, guess)
    below = g.cast(_compare(g, "Greater", power, safe), WIDE)
    above = g.cast(_compare(g, "LessOrEqual", g.node("Mul", power, number(2.0)), safe), WIDE)
    exponent = g.node("Add", g.node("Sub", guess, below), above)
    fraction = g.node("Sub", g.node("Div", safe, _power(g, exponent)), number(1.0))
    fraction = g.cast(g.node("Mul", fraction, number(2.0**digits)), INT64)
    whole = g.cast(g.node("Add", exponent, number(float(bias))), INT64)
    bits = g.node("Add", g.node("Mul", whole, g.constant(2**digits, INT64)), fraction)
    tiny = g.node("Mul", g.node("Mul", size, number(2.0 ** (bias - 1))), number(2.0**digits))
    bits = _chosen(g, usual, bits, g.cast(_chosen(g, usual, number(0.0), tiny), INT64))
    endless = (2 ** (width - 1 - digits) - 1) * 2**digits
    bits = _chosen(g, g.node("IsInf", wide, dtype=TRUTH), g.constant(endless, INT64), bits)
    bits = _chosen(g, g.node("IsNaN", wide, dtype=TRUTH), g.constant(endless + 2 ** (digits - 1), INT64), bits)
    inverse = g.node("Reciprocal", wide)
    negative = g.node("Or", _compare(g, "Less", wide, number(0.0)), g.node(
        "And", _compare(g, "Equal", wide, number(0.0)), _compare(g, "Less", inverse, number(0.0))))
    lowest = g.constant(-(2 ** (width - 1)), INT64)
    return g.cast(_chosen(g, negative, g.node("Add", bits, lowest), bits), dtype)


def _real(g: Builder, x: Value, dtype: Any, width: int) -> Value:
    digits, bias = BIASES[width]

    def number(value: float) -> Value:
        return g.constant(value, WIDE)

    bits, zero = g.cast(x, INT64), g.constant(0, INT64)
    negative = _compare(g, "Less", bits, zero)
    size = _chosen(g, negative, g.node("Sub", bits, g.constant(-(2 ** (width - 1)), INT64)), bits)
    whole = g.node("Div", size, g.constant(2**digits, INT64))
    fraction = g.cast(g.node("Sub", size, g.node("Mul", whole, g.constant(2**digits, INT64))), WIDE)
    fraction = g.node("Mul", fraction, number(2.0**-digits))
    usual = _compare(g, "Greater", whole, zero)
    exponent = g.node("Sub", g.cast(g.node("Max", whole, g.constant(1, INT64)), WIDE), number(float(bias)))
    lead = g.cast(usual, WIDE)
    # The largest exponent stands for infinity and for what is no number.
    last = _compare(g, "Equal", whole, g.constant(2 ** (width - 1 - digits) - 1, INT64))
    safe = _chosen(g, last, number(0.0), exponent)
    value = g.node("Mul", g.node("Add", lead, fraction), _power(g, safe))
    special = _chosen(g, _compare(g, "Greater", fraction, number(0.0)), number(math.nan), number(math.inf))
    value = _chosen(g, last, special, value)
    return g.cast(_chosen(g, negative, g.node("Neg", value), value), dtype)
