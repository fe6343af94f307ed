"""The Hurwitz zeta function as primitives.

Twenty terms (enough for starts above -10) are added to the Euler-Maclaurin expansion of the rest; powers go through
exp and log, because kernels of twenty full powers would take seconds to compile. f32 is computed in f64.

Starts further left, where the power is a whole number: with d the distance of the start q from the nearest whole
number, the terms at q, q + 1, ... are those at d - n and d + n for all n, without those left of q. These three sums
have positive starts, 1 - d, 1 + d and 1 - q, so that ten terms of the first two, and none of the last, are enough.
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


def rest(power: Value, start: Value, odd: Value) -> Value:
    """Sum of (start + k) ** -power over k >= 0 by its expansion, for starts above 10."""
    first = inverse_power(start, power, odd)
    total = first * start / (power - 1) + 0.5 * first
    term, factor, inverse = first / start, power, 1 / (start * start)
    for k, b in enumerate(BERNOULLI):
        total = total + term * factor * (b / math.factorial(2 * k + 2))
        factor = factor * (power + (2 * k + 1)) * (power + (2 * k + 2))
        term = term * inverse
    return total


def whole_zeta(power: Value, start: Value) -> Value:
    """Sum of (start + k) ** -power over k >= 0, for power > 1 (a whole number where start < 0)."""
    odd = eq(power - 2 * floor(power / 2), 1)
    far = lt(start, -9.5)
    near = select(far, 1, start)
    d = start - floor(start + 0.5)
    right, left = select(far, d + 1, near), select(far, 1 - d, near + 10)
    sign = select(far & odd, const(-1, start.dtype), const(1, start.dtype))
    first, second = const(0, start.dtype), const(0, start.dtype)
    for k in range(10):
        first = first + inverse_power(right + k, power, odd)
        second = second + inverse_power(left + k, power, odd)
    mirrored = second + rest(power, left + 10, odd)
    beyond = inverse_power(select(far, d, 1), power, odd) + rest(power, select(far, right + 10, 20), odd)
    # Summed so that what cancels does: with d = +-1/2 and an odd power all but the last does.
    both = select(far, beyond + first + sign * mirrored, first + mirrored)
    return both - select(far, sign * rest(power, select(far, 1 - start, 20), odd), 0)


@expansion("zeta")
def zeta(power: Value, start: Value) -> Value:
    return cast(wide_zeta(cast(power, "f64"), cast(start, "f64")), power.dtype)


def wide_zeta(power: Value, start: Value) -> Value:
    """zeta in f64, with its poles and what it is not defined for."""
    nan, infinity = const(math.nan, "f64"), const(math.inf, "f64")
    left, whole = le(start, 0), eq(start, floor(start))
    undefined = lt(power, 1) | (left & ~whole & ne(power, floor(power))) | ne(power, power) | ne(start, start)
    value = whole_zeta(select(gt(power, 1), power, 2), select(left & whole, 1, start))
    # Infinite powers and starts: the first term decides.
    first = call("pow", start, -power)
    value = select(eq(start, math.inf) | eq(power, math.inf), first, value)
    return select(eq(power, 1), infinity, select(undefined, nan, select(left & whole, infinity, value)))
