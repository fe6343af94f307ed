"""Powers, exact remainders, order and other functions of two numbers as primitives.

Every function takes f32 or f64 Values and returns one of the same dtype. Powers of f32 are computed in f64 with
short polynomials; powers of f64 carry log(x) as a pair, because an error in y log x becomes a relative one.
"""

from __future__ import annotations

import math

from rushlight.loops import coefficients as table
from rushlight.loops.expansions import expansion
from rushlight.loops.expr import (
    Value,
    abs_,
    and_,
    bitcast,
    cast,
    copysign,
    eq,
    floor,
    fma,
    ge,
    gt,
    is_const,
    le,
    lt,
    max_,
    min_,
    ne,
    neg,
    select,
    sqrt,
    trunc,
)
from rushlight.loops.math.exponential import exp, exp_parts, log, log1p, log_pair, nearest_integer, split_exponent
from rushlight.loops.pairs import INTEGER, horner, like, pair_add, pair_scale, scale, two_product

INFINITY = math.inf


@expansion("rsqrt")
def rsqrt(x: Value) -> Value:
    return 1 / sqrt(x)


def short_log(x: Value) -> Value:
    """log of a positive f64 to about 2**-40, for results rounded to f32."""
    m, n = split_exponent(x)
    f = m - 1
    s = f / (m + 1)
    z = s * s
    return fma(n, like(x, math.log(2)), fma(s * z, horner(z, table.ATANH["lite"]), s * 2))


def short_exp(x: Value) -> Value:
    """exp of an f64 to about 2**-40; the argument must lie within the exponents of f64."""
    n, k = nearest_integer(x, table.LOG2E["f64"][0])
    r = fma(n, like(x, -math.log(2)), x)
    value = fma(r * r, horner(r, table.EXP["lite"]), r)
    return scale(value + 1, k)


MULTIPLIED = 32   # whole exponents up to which a power is a few products


def whole_power(x: Value, n: int) -> Value:
    """x ** n in f64, by squares: rounded to f32 it is the nearest number but for rare ties."""
    result, square, left = None, cast(x, "f64"), abs(n)
    while left:
        if left & 1:
            result = square if result is None else result * square
        left >>= 1
        if left:
            square = square * square
    assert result is not None, "a power of 0 is no product"
    return cast(result if n > 0 else 1 / result, "f32")


@expansion("pow")
def power(x: Value, y: Value) -> Value:
    if x.dtype == "f32" and is_const(y) and y.attr == int(y.attr) and 0 < abs(y.attr) <= MULTIPLIED:
        return whole_power(x, int(y.attr))
    size = abs_(x)
    # What the logarithm cannot take is replaced by 1 and decided below.
    plain = and_(gt(size, 0), lt(size, INFINITY))
    base = select(plain, size, like(x, 1))
    if x.dtype == "f32":
        exponent = cast(y, "f64") * short_log(cast(base, "f64"))
        limited = max_(like(exponent, -200), min_(like(exponent, 200), exponent))
        value = cast(short_exp(limited), "f32")
    else:
        limited = max_(like(y, -(2.0**65)), min_(like(y, 2.0**65), y))
        head, tail = pair_scale(log_pair(base), limited)
        tail = select(lt(abs_(head), 1000), tail, like(x, 0))
        (top, low), n = exp_parts(head, tail)
        value = scale(top + low, n)
    whole = eq(trunc(y), y)
    odd = and_(whole, ne(trunc(y * 0.5), y * 0.5))
    zero, one = like(x, 0), like(x, 1)
    # |x| is 0 or inf; then y infinite; then the sign; then the exact ones.
    vanishes = eq(lt(y, 0), gt(size, 1))
    value = select(plain, value, select(vanishes, zero, like(x, INFINITY)))
    grows = eq(gt(y, 0), gt(size, 1))
    endless = select(eq(size, 1), one, select(grows, like(x, INFINITY), zero))
    value = select(eq(abs_(y), INFINITY), endless, value)
    negative = lt(copysign(one, x), 0)
    value = select(and_(negative, odd), neg(value), value)
    root = and_(and_(lt(x, 0), lt(size, INFINITY)), and_(~whole, lt(abs_(y), INFINITY)))
    value = select(root, like(x, math.nan), value)
    value = select(ne(x, x) | ne(y, y), x + y, value)
    return select(eq(y, 0) | eq(x, 1), one, value)


@expansion("hypot")
def hypot(a: Value, b: Value) -> Value:
    infinite = eq(abs_(a), INFINITY) | eq(abs_(b), INFINITY)
    if a.dtype == "f32":
        wide, other = cast(a, "f64"), cast(b, "f64")
        value = cast(sqrt(fma(wide, wide, other * other)), "f32")
    else:
        x, y = abs_(a), abs_(b)
        large = max_(x, y)
        big, tiny = gt(large, 2.0**500), lt(large, 2.0**-400)
        factor = select(big, like(a, 2.0**-600), select(tiny, like(a, 2.0**600), like(a, 1)))
        back = select(big, like(a, 2.0**600), select(tiny, like(a, 2.0**-600), like(a, 1)))
        x, y = x * factor, y * factor
        head, tail = pair_add(two_product(x, x), two_product(y, y))
        root = sqrt(head)
        rest = (fma(neg(root), root, head) + tail) / (root + root)
        value = (root + select(gt(root, 0), rest, like(a, 0))) * back
        value = select(ne(a, a) | ne(b, b), a + b, value)
    return select(infinite, like(a, INFINITY), value)


# Remainders


@expansion("fmod")
def fmod(a: Value, b: Value) -> Value:
    wide = "f64"
    x, y = cast(abs_(a), wide), cast(abs_(b), wide)
    near = _subtract_multiples(x, y)
    far = x
    # Quotients of more than 51 bits: take 51 bits at a time, from the top.
    top = 5 if a.dtype == "f32" else 41
    for step in range(top, -1, -1):
        # In three factors: 2**2091 is no f64, and an infinite multiple is skipped.
        multiple = y * 2.0 ** (51 * min(step, 20)) * 2.0 ** (51 * max(0, min(step - 20, 20)))
        multiple = multiple * 2.0 ** (51 * (step > 40))
        far = select(le(multiple, x), _subtract_multiples(far, multiple), far)
    value = cast(select(gt(x, y * 2.0**51), far, near, rare=True), a.dtype)
    value = select(gt(abs_(b), abs_(a)), a, copysign(value, a))
    undefined = eq(b, 0) | eq(abs_(a), INFINITY) | ne(a, a) | ne(b, b)
    return select(undefined, like(a, math.nan), value)


def _subtract_multiples(x: Value, y: Value) -> Value:
    """x modulo y for 0 <= x < 2**52 y: the remainder is exact, the quotient may be off by one."""
    left = fma(neg(trunc(x / y)), y, x)
    left = select(lt(left, 0), left + y, left)
    return select(ge(left, y), left - y, left)


@expansion("floor_divide")
def floor_divide(a: Value, b: Value) -> Value:
    left = fmod(a, b)
    quotient = (a - left) / b
    quotient = select(and_(ne(left, 0), ne(lt(b, 0), lt(left, 0))), quotient - 1, quotient)
    # The quotient is an integer up to rounding.
    down = floor(quotient)
    down = select(gt(quotient - down, 0.5), down + 1, down)
    ratio = a / b
    down = select(eq(quotient, 0), copysign(like(a, 0), ratio), down)
    return select(eq(b, 0), ratio, down)


# Order and neighbours


@expansion("maximum")
def maximum(a: Value, b: Value) -> Value:
    return select(gt(a, b) | ne(a, a), a, b)


@expansion("minimum")
def minimum(a: Value, b: Value) -> Value:
    return select(lt(a, b) | ne(a, a), a, b)


@expansion("fmax")
def fmax(a: Value, b: Value) -> Value:
    return select(ge(a, b) | ne(b, b), a, b)


@expansion("fmin")
def fmin(a: Value, b: Value) -> Value:
    return select(le(a, b) | ne(b, b), a, b)


@expansion("nextafter")
def nextafter(a: Value, b: Value) -> Value:
    integer = INTEGER[a.dtype]
    bits = bitcast(a, integer)
    # Away from zero the bit pattern grows, towards it shrinks; from zero the smallest denormal.
    outward = eq(lt(a, b), gt(a, 0))
    moved = bitcast(select(outward, bits + 1, bits - 1), a.dtype)
    smallest = copysign(bitcast(like(bits, 1), a.dtype), b)
    value = select(eq(a, b), b, select(eq(a, 0), smallest, moved))
    return select(ne(a, a) | ne(b, b), a + b, value)


# Products and sums with logarithms


@expansion("xlogy")
def xlogy(x: Value, y: Value) -> Value:
    value = select(eq(x, 0), like(x, 0), x * log(y))
    return select(ne(y, y), y, value)


@expansion("xlog1py")
def xlog1py(x: Value, y: Value) -> Value:
    value = select(eq(x, 0), like(x, 0), x * log1p(y))
    return select(ne(y, y), y, value)


@expansion("logaddexp")
def logaddexp(a: Value, b: Value) -> Value:
    large = maximum(a, b)
    same = and_(eq(abs_(a), INFINITY), eq(a, b))
    return select(same, a, large + log1p(exp(neg(abs_(a - b)))))


@expansion("softplus")
def softplus(x: Value) -> Value:
    """log(1 + exp(x))."""
    return select(ne(x, x), x, max_(x, like(x, 0)) + log1p(exp(neg(abs_(x)))))


@expansion("log_sigmoid")
def log_sigmoid(x: Value) -> Value:
    return select(ne(x, x), x, min_(x, like(x, 0)) - log1p(exp(neg(abs_(x)))))
