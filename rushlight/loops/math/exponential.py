"""Exponential, logarithm and hyperbolic functions as primitives.

Every function takes f32 or f64 Values and returns one of the same dtype. Method: exp(x) = 2**n exp(r) with
|r| <= ln(2)/2 and a polynomial for exp(r) - 1 - r; log(x) = n ln 2 + log(1 + f) with 1 + f between sqrt(1/2) and
sqrt(2). Heads and tails (pairs) carry the bits that a second rounding would lose.
"""

from __future__ import annotations

import math
from fractions import Fraction

from rushlight.loops import coefficients as table
from rushlight.loops.expansions import expansion
from rushlight.loops.expr import (
    Value,
    abs_,
    bitcast,
    cast,
    copysign,
    eq,
    fma,
    ge,
    gt,
    le,
    lt,
    max_,
    min_,
    ne,
    neg,
    select,
)
from rushlight.loops.pairs import (
    BIAS,
    FRACTION,
    INTEGER,
    Pair,
    horner,
    like,
    pair_add,
    pair_divide,
    pair_multiply,
    pair_scale,
    pair_sqrt,
    paired_horner,
    power_of_two,
    quick_sum,
    scale,
    two_product,
    two_sum,
)

# Adding 1.5 * 2**fraction rounds to an integer, which then sits in the low bits.
MAGIC = {"f32": 1.5 * 2.0**23, "f64": 1.5 * 2.0**52}
# Beyond these exp is inf or 0, whatever rounding does; within them exponents fit two halves.
EXP_RANGE = {"f32": (-105.0, 90.0), "f64": (-746.0, 711.0)}
LARGEST = {"f32": 3.4028234663852886e38, "f64": 1.7976931348623157e308}
SMALLEST_NORMAL = {"f32": 2.0**-126, "f64": 2.0**-1022}


def nearest_integer(x: Value, factor: float) -> tuple[Value, Value]:
    """round(x * factor) as a float and as an integer Value."""
    magic = MAGIC[x.dtype]
    shifted = fma(x, like(x, factor), like(x, magic))
    return shifted - magic, bitcast(shifted, INTEGER[x.dtype]) - bitcast(like(x, magic), INTEGER[x.dtype])


def clamp_exponent(x: Value) -> Value:
    """x limited to where exp is neither 0 nor inf; NaN stays."""
    low, high = EXP_RANGE[x.dtype]
    return max_(like(x, low), min_(like(x, high), x))


def expm1_reduced(x: Value, tail: Value | None = None) -> tuple[Value, Value, Value]:
    """(r, q, n): exp(x + tail) = 2**n (1 + r + q), |r| <= 0.347; x is already clamped."""
    head, middle, _ = table.LN2[x.dtype]
    n, k = nearest_integer(x, table.LOG2E[x.dtype][0])
    exact = fma(n, like(x, -head), x)
    r = fma(n, like(x, -middle), exact)
    lost = fma(n, like(x, -middle), exact - r)
    q = r * r * _exp_series(r)
    if tail is not None:
        lost = lost + tail
        lost = fma(lost, r + q, lost)  # a large tail is scaled by exp(r), not by 1
    return r, q + lost, k


def _exp_series(r: Value) -> Value:
    """(exp(r) - 1 - r) / r**2; in f64 a chain of ten products would be waited for."""
    return (paired_horner if r.dtype == "f64" else horner)(r, table.EXP[r.dtype])


def exp_parts(x: Value, tail: Value | None = None) -> tuple[Pair, Value]:
    """((head, tail), n): exp = 2**n (head + tail), head between 0.7 and 1.42."""
    r, q, n = expm1_reduced(clamp_exponent(x), tail)
    total, rest = quick_sum(like(x, 1), r)
    return quick_sum(total, rest + q), n


@expansion("exp")
def exp(x: Value) -> Value:
    r, count = _exp_reduced(clamp_exponent(x), 2 * BIAS[x.dtype])
    first, second = _two_scales(count, x.dtype)
    return horner(r, (1.0, 1.0, *table.EXP[x.dtype])) * first * second


def modest_exp(x: Value) -> Value:
    """exp of an x between the logarithms of the smallest and the largest normal number."""
    r, count = _exp_reduced(x, BIAS[x.dtype])
    value = fma(r, fma(r, _exp_series(r), like(r, 1)), like(r, 1))
    return value * bitcast(count << FRACTION[x.dtype], x.dtype)


@expansion("exp_of_negative")
def exp_of_negative(x: Value) -> Value:
    """exp of an x that is not above 1, or -inf. Half the work of `exp` is in larger ones, and in two factors for small
    results: here the polynomial is that much smaller, and its factor larger.

    Weights in sums: in f32 the error grows with |x| (2.1e-7 at -10, 1.3e-6 at -88), which saves a step."""
    return _exp_below_one(x, (BIAS[x.dtype] + 1) // 2)


@expansion("weight_of_score")
def weight_of_score(x: Value) -> Value:
    """The same, but 0 where it would be less than the smallest normal number."""
    return _exp_below_one(x, 0)


def _exp_below_one(x: Value, more: int) -> Value:
    """exp of an x that is not above 1; 2**-more is in the polynomial. The factor of the least x is 0 itself: products
    with it are no small numbers, which x86 processors round by a program of their own, in some 150 cycles, and scores
    that are hidden are many."""
    code = x.dtype
    limited = max_(like(x, -(BIAS[code] + more) * math.log(2)), x)
    if code == "f32":
        magic, turns = MAGIC[code] + BIAS[code] + more, like(x, table.LOG2E[code][0])
        shifted = fma(limited, turns, like(x, magic))
        r, count = fma(limited, turns, magic - shifted), bitcast(shifted, INTEGER[code])
        series = (1.0, *table.EXP2[code])
    else:
        r, count = _exp_reduced(limited, BIAS[code] + more)
        series = (1.0, 1.0, *table.EXP[code])
    return horner(r, [c * 2.0**-more for c in series]) * bitcast(count << FRACTION[code], code)


def _two_scales(count: Value, dtype: str) -> Pair:
    """Two factors whose product is 2**n, given n + 2 * bias in the low bits: its halves are biased exponents."""
    half = count >> 1  # what is above the exponent is shifted out
    return bitcast(half << FRACTION[dtype], dtype), bitcast((count - half) << FRACTION[dtype], dtype)


def _exp_reduced(x: Value, offset: int) -> tuple[Value, Value]:
    """(r, an integer whose low bits are n + offset): x = n ln 2 + r."""
    head, middle, _ = table.LN2[x.dtype]
    magic = MAGIC[x.dtype] + offset
    shifted = fma(x, like(x, table.LOG2E[x.dtype][0]), like(x, magic))
    n = shifted - magic
    r = fma(n, like(x, -middle), fma(n, like(x, -head), x))
    return r, bitcast(shifted, INTEGER[x.dtype])


@expansion("exp2")
def exp2(x: Value) -> Value:
    low, high = (-152.0, 130.0) if x.dtype == "f32" else (-1080.0, 1030.0)
    x = max_(like(x, low), min_(like(x, high), x))
    n, k = nearest_integer(x, 1.0)
    ln2 = sum(table.LN2[x.dtype])
    fraction = x - n
    r = fraction * like(x, ln2)
    low = (table.LN2[x.dtype][0] - ln2) + table.LN2[x.dtype][1]
    lost = fma(fraction, like(x, ln2), neg(r)) + fraction * like(x, low)
    q = fma(r * r, horner(r, table.EXP[x.dtype]), lost)
    total, rest = quick_sum(like(x, 1), r)
    return scale(total + (rest + q), k)


@expansion("expm1")
def expm1(x: Value) -> Value:
    # Below, expm1 is -1 to the last bit; 2**n must stay a normal number.
    # Above, 2**(n - 1) must; the result has overflowed long before.
    low, high = (-18.0, 89.0) if x.dtype == "f32" else (-39.0, 709.9)
    limited = max_(like(x, low), min_(like(x, high), x))
    r, q, k = expm1_reduced(limited)
    half = power_of_two(k - 1, x.dtype)
    # 2**n (r + q) + 2**n - 1 at half scale, because 2**n itself may overflow.
    head, tail = two_sum(half - 0.5, half * r)
    whole = (head + fma(half, q, tail)) * 2
    whole = select(eq(k, 0), r + q, whole)
    return copysign(whole, x)


# Logarithms


def split_exponent(x: Value) -> tuple[Value, Value]:
    """(m, n): x = m * 2**n with m between sqrt(1/2) and sqrt(2), for positive finite x, n a float."""
    dtype, integer = x.dtype, INTEGER[x.dtype]
    digits = FRACTION[dtype]
    tiny = lt(x, SMALLEST_NORMAL[dtype])
    bits = bitcast(select(tiny, x * 2.0 ** (digits + 1), x), integer)
    root = bitcast(like(x, table.SQRT_HALF[dtype][0]), integer)
    shifted = bits - root
    exponent = shifted >> digits
    m = bitcast((shifted & ((1 << digits) - 1)) + root, dtype)
    n = cast(exponent, dtype)
    return m, select(tiny, n - (digits + 1), n)


def log1p_reduced(f: Value, lost: Value | None = None) -> tuple[Value, Value]:
    """(f - f**2/2 as a head, the rest) of log(1 + f + lost), 1 + f between sqrt(1/2) and sqrt(2)."""
    half = f * f * 0.5
    if f.dtype == "f32":
        rest = f * f * f * horner(f, table.LOG["f32"])
    else:
        s = f / (f + 2)
        z = s * s
        rest = s * (half + z * horner(z, table.ATANH["f64"]))
    return half, rest if lost is None else rest + lost


def log_limits(x: Value, result: Value) -> Value:
    """`result` for positive finite x, else what a logarithm gives."""
    result = select(lt(x, float("inf")), result, x)
    result = select(eq(x, 0), like(x, -float("inf")), result)
    return select(lt(x, 0), like(x, float("nan")), result)


@expansion("log")
def log(x: Value) -> Value:
    head, middle, _ = table.LN2[x.dtype]
    m, n = split_exponent(x)
    f = m - 1
    half, rest = log1p_reduced(f)
    small = fma(n, like(x, middle), rest) - half
    if x.dtype == "f32":
        return log_limits(x, fma(n, like(x, head), f + small))
    total, rest = _head_and_rest(n, head, f, small)
    return log_limits(x, total + rest)


def _head_and_rest(n: Value, head: float, f: Value, small: Value) -> Pair:
    big = n * head
    total, rest = quick_sum(select(eq(n, 0), f, big), select(eq(n, 0), big, f))
    return total, rest + small


def log_with_rest(x: Value) -> Pair:
    """log of a positive finite x with some bits more, as a normalised pair."""
    head, middle, _ = table.LN2[x.dtype]
    m, n = split_exponent(x)
    half, rest = log1p_reduced(m - 1)
    return quick_sum(*_head_and_rest(n, head, m - 1, fma(n, like(x, middle), rest) - half))


@expansion("log1p")
def log1p(x: Value) -> Value:
    return log_limits_1p(x, log1p_pair(x, None))


def log_limits_1p(x: Value, result: Value) -> Value:
    result = select(lt(x, float("inf")), result, x)
    result = select(eq(x, -1), like(x, -float("inf")), result)
    result = select(eq(x, 0), x, result)
    return select(lt(x, -1), like(x, float("nan")), result)


def log1p_pair(x: Value, tail: Value | None) -> Value:
    """log(1 + x + tail) for x > -1."""
    u, lost = two_sum(like(x, 1), x)
    total, rest = log_of_sum(u, lost if tail is None else lost + tail)
    return total + rest


def log_of_sum(u: Value, lost: Value) -> Pair:
    """log(u + lost), where `lost` is what the rounding of u > 0 lost."""
    head, middle, _ = table.LN2[u.dtype]
    m, n = split_exponent(u)
    # below 2**-60 of u it is nothing, and u = inf would make it NaN.
    correction = select(lt(u, LARGEST[u.dtype]), lost / u, like(u, 0))
    f = m - 1
    half, rest = log1p_reduced(f, None)
    small = (fma(n, like(u, middle), rest) - half) + correction
    return _head_and_rest(n, head, f, small)


def log_pair(x: Value, tail: Value | None = None) -> Pair:
    """log(x + tail) to about 2**-68 in f64 (2**-40 in f32), for positive finite x."""
    dtype = x.dtype
    m, n = split_exponent(x)
    low = None
    if tail is not None:
        low = (tail / x) * m
    numerator = quick_sum(m - 1, low) if low is not None else (m - 1, like(x, 0))
    total, rest = two_sum(m, like(x, 1))
    s = pair_divide(numerator, (total, rest if low is None else rest + low))
    z = pair_multiply(s, s)
    # atanh(s)/s = 1 + z/3 + z**2/5 + z**3 * tail(z); the first terms need more than one float.
    fifth, third = _ratio(x, 1, 5), _ratio(x, 1, 3)
    series = pair_add(fifth, two_product(z[0], horner(z[0], table.ATANH_TAIL["f64"])))
    series = pair_add(third, pair_multiply(z, series))
    series = pair_multiply(z, series)
    twice = (s[0] * 2, s[1] * 2)
    logm = pair_add(twice, pair_multiply(twice, series))
    head, middle, last = table.LN2[dtype]
    big = pair_add((n * head, like(x, 0)), two_product(n, like(x, middle)))
    return pair_add((big[0], fma(n, like(x, last), big[1])), logm)


def _ratio(x: Value, a: int, b: int) -> Pair:
    exact = Fraction(a, b)
    head = like(x, float(exact))
    return head, like(x, float(exact - Fraction(head.attr)))


@expansion("log2")
def log2(x: Value) -> Value:
    return _log_base(x, table.LOG2E[x.dtype], (1.0, 0.0))


@expansion("log10")
def log10(x: Value) -> Value:
    return _log_base(x, table.LOG10E[x.dtype], table.LOG10_2[x.dtype])


def _log_base(x: Value, factor: tuple[float, ...], unit: tuple[float, ...]) -> Value:
    m, n = split_exponent(x)
    f = m - 1
    half, rest = log1p_reduced(f)
    # log(m) as a pair: f - half with the rounding of both kept, then times the factor.
    square, lost = two_product(f, f * 0.5)
    head, tail = two_sum(f, neg(square))
    natural = quick_sum(head, tail + ((rest + (square - half)) - lost) if x.dtype == "f64" else tail + (rest - lost))
    product = pair_scale((like(x, factor[0]), like(x, factor[1])), natural[0])
    product = (product[0], fma(natural[1], like(x, factor[0]), product[1]))
    big, low = two_sum(n * unit[0], product[0])
    return log_limits(x, big + (low + fma(n, like(x, unit[1]), product[1])))


# Hyperbolic functions


def exp_and_inverse(x: Value) -> tuple[Pair, Pair, Value]:
    """exp(x) / 2**n as a pair, exp(-x) * 2**n as a pair, and n."""
    pair, n = exp_parts(x)
    return pair, pair_divide((like(x, 1), like(x, 0)), pair), n


def _cosh_sinh(x: Value, sign: int) -> Value:
    size = min_(like(x, EXP_RANGE[x.dtype][1]), abs_(x))
    up, down, n = exp_and_inverse(size)
    # exp(-|x|) relative to 2**n; past 2**-2n it cannot matter, and the exponent must stay normal.
    shift = power_of_two(max_(-2 * n, like(n, -BIAS[x.dtype] + 1)), x.dtype)
    head, tail = two_sum(up[0], down[0] * shift * sign)
    total = head + (tail + fma(down[1], shift * sign, up[1]))
    return scale(total, n - 1)


@expansion("cosh")
def cosh(x: Value) -> Value:
    return select(eq(x, x), _cosh_sinh(x, 1), x)


@expansion("sinh")
def sinh(x: Value) -> Value:
    z = x * x
    small = fma(x * z, horner(z, table.SINH[x.dtype]), x)
    large = copysign(_cosh_sinh(x, -1), x)
    return select(lt(abs_(x), 1), small, select(eq(x, x), large, x))


@expansion("tanh")
def tanh(x: Value) -> Value:
    size = abs_(x)
    z = x * x
    small = fma(x * z, horner(z, table.TANH[x.dtype]), x)
    # 1 - 2 / (exp(2|x|) + 1); beyond the limit that is 1 to the last bit.
    limited = min_(like(x, 10.0 if x.dtype == "f32" else 22.0), size)
    large = 1 - 2 / (modest_exp(limited * 2) + 1)
    return copysign(select(lt(size, 0.625), small, large), x)


@expansion("sigmoid")
def sigmoid(x: Value) -> Value:
    # exp(-|x|) <= 1 never overflows: sigmoid is 1 / (1 + e) or e / (1 + e), e = (1 + t) 2**n.
    r, count = _exp_reduced(max_(like(x, EXP_RANGE[x.dtype][0]), neg(abs_(x))), 2 * BIAS[x.dtype])
    t = fma(r * r, horner(r, table.EXP[x.dtype]), r)
    first, second = _two_scales(count, x.dtype)
    e = (1 + t) * first * second
    down = 1 + e
    # What 1 + e loses is taken out of the numerator before that is rounded.
    lost = e - (down - 1)
    below = lt(x, 0)
    quotient = select(below, 1 + (t - lost), like(x, 1)) / down
    return select(below, quotient * first * second, quotient)


@expansion("asinh")
def asinh(x: Value) -> Value:
    size = abs_(x)
    # Beyond 2**28 asinh is log(2|x|) to the last bit, and x**2 may overflow.
    big = gt(size, 2.0**28)
    t = select(big, like(x, 1), size)
    square = two_product(t, t)
    root = pair_sqrt(pair_add((like(x, 1), like(x, 0)), square))
    # sqrt(1 + t**2) - 1 = t**2 / (1 + sqrt(1 + t**2)), without cancellation.
    rise = pair_divide(square, pair_add((like(x, 1), like(x, 0)), root))
    argument = pair_add((t, like(x, 0)), rise)
    small = log1p_pair(*argument)
    large = log(size) + sum(table.LN2[x.dtype])
    result = copysign(select(big, large, small, rare=True), x)
    return select(eq(x, 0) | ne(x, x), x, result)


@expansion("acosh")
def acosh(x: Value) -> Value:
    big = gt(x, 2.0**28)
    t = select(big, like(x, 2), x) - 1
    # log1p(t + sqrt(2 t + t**2)), t = x - 1, exact for x >= 1 up to its own rounding.
    lost = select(big, like(x, 0), (x - (t + 1)) - 0)
    inside = pair_add((t * 2, lost * 2), two_product(t, t))
    root = pair_sqrt(inside)
    root = (select(eq(inside[0], 0), like(x, 0), root[0]), select(eq(inside[0], 0), like(x, 0), root[1]))
    argument = pair_add((t, lost), root)
    small = log1p_pair(*argument)
    large = log(x) + sum(table.LN2[x.dtype])
    result = select(big, large, small, rare=True)
    result = select(eq(x, 1), like(x, 0), result)
    return select(ge(x, 1), result, like(x, float("nan")))


@expansion("atanh")
def atanh(x: Value) -> Value:
    size = abs_(x)
    # log1p(2 t / (1 - t)) / 2
    inside = select(lt(size, 1), size, like(x, 0))
    quotient = pair_divide((inside * 2, like(x, 0)), two_sum(like(x, 1), neg(inside)))
    small = log1p_pair(*quotient) * 0.5
    result = copysign(select(eq(size, 1), like(x, float("inf")), small), x)
    result = select(eq(x, 0), x, result)
    return select(le(size, 1), result, like(x, float("nan")))


@expansion("logit")
def logit(x: Value) -> Value:
    """log(x / (1 - x)); near 1/2, log1p of the exact difference."""
    down = 1 - x
    quotient = pair_divide((x * 2 - 1, like(x, 0)), (down, (1 - down) - x))
    middle = log1p_pair(*quotient)
    near = abs_(x - 0.5) < 0.25
    outer = log(x) - log1p(neg(x))
    result = select(near, middle, outer)
    result = select(eq(x, 0.5), like(x, 0), result)
    return select(ne(x, x), x, result)
