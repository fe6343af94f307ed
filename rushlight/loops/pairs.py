"""Exact sums and products: a number held as an unevaluated pair (head, tail) of two floats of one dtype.

Enters and leaves: Values and pairs of Values. Everything relies on round-to-nearest arithmetic that the code
generator neither reorders nor contracts, and on a true fused multiply-add.
"""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.loops.expr import Number, Value, bitcast, const, fma, neg, shl, sqrt

Pair = tuple[Value, Value]

INTEGER = {"f32": "i32", "f64": "i64"}
FRACTION = {"f32": 23, "f64": 52}
BIAS = {"f32": 127, "f64": 1023}


def like(x: Value, number: Number) -> Value:
    """A constant of x's dtype."""
    return const(number, x.dtype)


def two_sum(a: Value, b: Value) -> Pair:
    """a + b exactly."""
    total = a + b
    back = total - a
    return total, (a - (total - back)) + (b - back)


def quick_sum(a: Value, b: Value) -> Pair:
    """a + b exactly when |a| >= |b| or a == 0."""
    total = a + b
    return total, b - (total - a)


def two_product(a: Value, b: Value) -> Pair:
    """a * b exactly."""
    product = a * b
    return product, fma(a, b, neg(product))


def pair_add(a: Pair, b: Pair) -> Pair:
    """Sum of pairs, to about twice the precision."""
    head, tail = two_sum(a[0], b[0])
    return quick_sum(head, tail + (a[1] + b[1]))


def pair_multiply(a: Pair, b: Pair) -> Pair:
    """Product of pairs, to about twice the precision."""
    head, tail = two_product(a[0], b[0])
    return quick_sum(head, tail + fma(a[0], b[1], a[1] * b[0]))


def pair_scale(a: Pair, b: Value) -> Pair:
    """Pair times float."""
    head, tail = two_product(a[0], b)
    return quick_sum(head, fma(a[1], b, tail))


def pair_divide(a: Pair, b: Pair) -> Pair:
    """Quotient of pairs, to about twice the precision; the divisor's inverse must be a normal number."""
    return divide_by(a, b, 1 / b[0])


def divide_by(a: Pair, b: Pair, inverse: Value) -> Pair:
    """Quotient of pairs, given 1 / b up to a few units in its last place: divisions cost as much as many products."""
    head = a[0] * inverse
    left = fma(neg(head), b[0], a[0]) + (a[1] - head * b[1])
    return quick_sum(head, left * inverse)


def pair_divide_any(a: Pair, b: Pair) -> Pair:
    """The same for divisors of any size, with a second division."""
    head = a[0] / b[0]
    left = fma(neg(head), b[0], a[0]) + (a[1] - head * b[1])
    return quick_sum(head, left / b[0])


def pair_negate(a: Pair) -> Pair:
    return neg(a[0]), neg(a[1])


def pair_sqrt(a: Pair) -> Pair:
    """Square root of a positive pair."""
    head = sqrt(a[0])
    left = fma(neg(head), head, a[0]) + a[1]
    return quick_sum(head, left / (head + head))


def horner(z: Value, coefficients: Sequence[float]) -> Value:
    """The polynomial with these coefficients, lowest power first, at z."""
    total = like(z, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = fma(total, z, like(z, c))
    return total


def paired_horner(z: Value, coefficients: Sequence[float]) -> Value:
    """The polynomial at z, by powers of z**2: half as deep as Horner's rule, for one more product."""
    pairs = [
        fma(like(z, high), z, like(z, low))
        for low, high in zip(coefficients[0::2], coefficients[1::2], strict=False)
    ]
    total = like(z, coefficients[-1]) if len(coefficients) % 2 else pairs.pop()
    square = z * z
    for pair in reversed(pairs):
        total = fma(total, square, pair)
    return total


def power_of_two(n: Value, dtype: str) -> Value:
    """2**n for an integer Value n in the range of normal exponents of `dtype`."""
    return bitcast(shl(n + BIAS[dtype], FRACTION[dtype]), dtype)


def scale(x: Value, n: Value) -> Value:
    """x * 2**n for |n| up to twice the exponent range, rounding once even into denormals (|x| near 1)."""
    half = n >> 1
    return x * power_of_two(half, x.dtype) * power_of_two(n - half, x.dtype)
