"""The Hurwitz zeta function as primitives.

Twenty terms (enough for starts above -10) are added to the Euler-Maclaurin expansion of the rest; powers go through
exp and log, because kernels of twenty full powers would take seconds to compile. f32 is computed in f64.
"""

from __future__ import annotations

import math

from rushlight.loops.expansions import expansion
from rushlight.loops.expr import Value, abs_, call, cast, const, eq, floor, gt, le, lt, ne, select

# Bernoulli numbers B2, B4, ...
BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798)


def inverse_power(x: Value, power: Value, odd: Value) -> Value:
    """x ** -power through exp and log."""
    size = call("exp", -power * call("log", abs_(x)))
    return select(odd & lt(x, 0), -size, size)


def positive_zeta(power: Value, start: Value) -> Value:
    """Sum of (start + k) ** -power over k >= 0, for power > 1."""
    odd = eq(power - 2 * floor(power / 2), 1)
    total = const(0, start.dtype)
    for k in range(20):
        total = total + inverse_power(start + k, power, odd)
    z = start + 20
    last = inverse_power(z, power, odd)
    total = total + last * z / (power - 1) + 0.5 * last
    term, factor, inverse = last / z, power, 1 / (z * z)
    for k, b in enumerate(BERNOULLI):
        total = total + term * factor * (b / math.factorial(2 * k + 2))
        factor = factor * (power + (2 * k + 1)) * (power + (2 * k + 2))
        term = term * inverse
    return total


@expansion("zeta")
def zeta(power: Value, start: Value) -> Value:
    return cast(wide_zeta(cast(power, "f64"), cast(start, "f64")), power.dtype)


def wide_zeta(power: Value, start: Value) -> Value:
    """zeta in f64, with its poles and what it is not defined for."""
    nan, infinity = const(math.nan, "f64"), const(math.inf, "f64")
    left, whole = le(start, 0), eq(start, floor(start))
    undefined = lt(power, 1) | (left & ~whole & ne(power, floor(power))) | ne(power, power) | ne(start, start)
    value = positive_zeta(select(gt(power, 1), power, 2), select(left & whole, 1, start))
    # Infinite powers and starts: the first term decides.
    first = call("pow", start, -power)
    value = select(eq(start, math.inf) | eq(power, math.inf), first, value)
    return select(eq(power, 1), infinity, select(undefined, nan, select(left & whole, infinity, value)))
