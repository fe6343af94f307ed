"""The error function family as primitives.

erf is a polynomial near 0 and 1 - exp of one elsewhere, where an error of erfc counts for less the further out it is.
The others come from exp(-t**2) and (1 + 2 t) exp(t**2) erfc(t), which is smooth in q = (t - 4) / (t + 4) from 0 to
infinity; t**2 is kept as a pair, because its error becomes a relative one. f32 results of erfc and its relatives are
computed in f64, from a polynomial for log2 of the normal distribution's tail.
"""

from __future__ import annotations

import math

from rushlight.loops import coefficients as table
from rushlight.loops.expansions import expansion
from rushlight.loops.expr import Value, abs_, cast, copysign, eq, fma, gt, lt, min_, ne, neg, select, sqrt
from rushlight.loops.math.exponential import exp_parts, log_of_sum, log_with_rest, modest_exp
from rushlight.loops.math.normal import modest_exp2
from rushlight.loops.math.power import short_exp, short_log
from rushlight.loops.pairs import (
    Pair,
    divide_by,
    horner,
    like,
    pair_multiply,
    pair_negate,
    pair_scale,
    paired_horner,
    quick_sum,
    scale,
    two_product,
    two_sum,
)

SQRT_HALF = math.sqrt(0.5)
SHORT_END = 14.6   # the normal distribution beyond rounds to 0 in f32


@expansion("erf")
def erf(x: Value) -> Value:
    size = abs_(x)
    z = x * x
    small = fma(x, horner(z, table.ERF[x.dtype]), x)
    if x.dtype == "f32":
        # erf is 1 to the last bit beyond 4; the exponent then needs no care at either end.
        t = min_(like(x, 4.0), size)
        large = 1 - modest_exp(horner(t, table.ERFC_LOG["f32"]))
    else:
        small = fma(x, fma(z, paired_horner(z, table.ERF["f64"][1:]), like(x, table.ERF["f64"][0])), x)
        t = min_(like(x, 6.0), size)
        series = table.ERFC_LOG["f64"]
        large = 1 - modest_exp(fma(t, paired_horner(t, series[1:]), like(x, series[0])))
    return select(lt(size, 1), small, copysign(large, x))


def scaled_complement(t: Value, tail: Value | None = None) -> Pair:
    """exp(t**2) erfc(t) for t >= 0 (f64), as a pair."""
    limited = min_(like(t, 1e150), t)
    top, down = two_sum(limited, like(t, -4)), two_sum(limited, like(t, 4))
    below = two_sum(like(t, 1), limited * 2)
    if tail is not None:
        top, down = (top[0], top[1] + tail), (down[0], down[1] + tail)
        below = (below[0], below[1] + tail * 2)
    # both quotients by one division
    inverse = 1 / (down[0] * below[0])
    q, lost = divide_by(top, down, inverse * below[0])
    coefficients = table.ERFCX["f64"]
    rest = q * paired_horner(q, coefficients[1:]) + lost * coefficients[1]
    value = quick_sum(like(t, coefficients[0]), rest)
    head, low = divide_by(value, below, inverse * down[0])
    return select(gt(t, 1e150), (1 / math.sqrt(math.pi)) / t, head, rare=True), low


def erfc_positive(t: Value, square: Pair, tail: Value | None = None) -> Value:
    """erfc(t + tail) for t >= 0 (f64), given its square as a pair."""
    return _times_exp(scaled_complement(t, tail), square)


def _times_exp(factor: Pair, square: Pair) -> Value:
    """factor * exp(-square)."""
    near = lt(square[0], 760)
    base = select(near, square[0], like(square[0], 760)), select(near, square[1], like(square[0], 0))
    power, n = exp_parts(neg(base[0]), neg(base[1]))
    return scale(sum_of(pair_multiply(power, factor)), n)


def short_tail(t: Value) -> tuple[Value, Value]:
    """(log2 p, p) for p, the normal distribution beyond t, in f64, to f32's accuracy; 0 <= t <= SHORT_END."""
    exponent = paired_horner(t - 7.3, table.NORMAL_TAIL_FAR["lite"])
    return exponent, modest_exp2(exponent, table.EXP2["lite"])


@expansion("erfc")
def erfc(x: Value) -> Value:
    if x.dtype == "f32":
        wide = cast(x, "f64")
        value = 2 * short_tail(min_(like(wide, SHORT_END), abs_(wide) * math.sqrt(2)))[1]
        return cast(select(lt(wide, 0), 2 - value, value), "f32")
    t = min_(like(x, 30), abs_(x))
    value = erfc_positive(t, two_product(t, t))
    z = x * x
    near = fma(x, paired_horner(z, table.ERF["f64"]), x)
    far = select(lt(x, 0), 2 - value, value)
    return select(lt(abs_(x), 0.5), 1 - near, select(ne(x, x), x, far))


@expansion("erfcx")
def erfcx(x: Value) -> Value:
    if x.dtype == "f32":
        return cast(_short_erfcx(cast(x, "f64")), "f32")
    t = abs_(x)
    head, low = scaled_complement(t)
    limited = min_(like(x, 30), t)
    square = two_product(limited, limited)
    power, n = exp_parts(*square)
    grown = scale(power[0] + power[1], n + 1)
    value = select(lt(x, 0), grown - (head + low), head + low)
    return select(ne(x, x), x, value)


def _short_erfcx(x: Value) -> Value:
    """erfcx of an f64, for results rounded to f32."""
    t = min_(like(x, 1e60), abs_(x))
    down, below = t + 4, fma(t, like(t, 2), like(t, 1))
    inverse = 1 / (down * below)
    q = (t - 4) * (inverse * below)
    value = paired_horner(q, table.ERFCX["lite"]) * (inverse * down)
    limited = min_(like(t, 12), t)
    return select(lt(x, 0), 2 * short_exp(limited * limited) - value, value)


@expansion("ndtr")
def ndtr(x: Value) -> Value:
    """The normal distribution function, erfc(-x / sqrt 2) / 2."""
    if x.dtype == "f32":
        wide = cast(x, "f64")
        value = short_tail(min_(like(wide, SHORT_END), abs_(wide)))[1]
        return cast(select(gt(wide, 0), 1 - value, value), "f32")
    value = _normal_tail(min_(like(x, 40), abs_(x)))
    z = x * x * 0.5
    y = x * (SQRT_HALF * 0.5)
    near = fma(y, paired_horner(z, table.ERF["f64"]), y)
    result = select(gt(x, 0), 1 - value, value)
    result = select(lt(abs_(x), 0.5), near + 0.5, result)
    return select(ne(x, x), x, result)


def _normal_tail(size: Value) -> Value:
    """erfc(size / sqrt 2) / 2 for size >= 0: the exponent size**2 / 2 comes from size itself."""
    head, low = table.SQRT_HALF["f64"]
    t, tail = pair_scale((like(size, head), like(size, low)), size)
    square = two_product(size, size)
    return erfc_positive(t, (square[0] * 0.5, square[1] * 0.5), tail) * 0.5


@expansion("log_ndtr")
def log_ndtr(x: Value) -> Value:
    """log of the distribution function: for positive x of 1 - p, with p the tail; one logarithm serves both sides."""
    if x.dtype == "f32":
        return cast(_short_log_ndtr(cast(x, "f64")), "f32")
    size = min_(like(x, 1e154), abs_(x))
    head, low = table.SQRT_HALF["f64"]
    t, tail = pair_scale((like(x, head), like(x, low)), size)
    scaled = scaled_complement(t, tail)
    square = two_product(size, size)
    square = square[0] * 0.5, square[1] * 0.5
    p = _times_exp(scaled, square) * 0.5
    left, above = lt(x, 0), 1 - p
    total, rest = log_of_sum(
        select(left, scaled[0] * 0.5, above), select(left, scaled[1] * 0.5, (1 - above) - p)
    )
    result = select(left, (total + (rest - square[1])) - square[0], total + rest)
    result = select(lt(x, -1e154), like(x, -math.inf), result)
    return select(ne(x, x), x, result)


def _short_log_ndtr(x: Value) -> Value:
    """log_ndtr of an f64, for results rounded to f32."""
    t = abs_(x)
    exponent, p = short_tail(min_(like(x, SHORT_END), t))
    left = lt(x, 0)
    # log(1 - p); the series where 1 - p has lost too much of p
    above = select(lt(p, 2.0**-12), neg(p * fma(p, fma(p, like(p, 1 / 3), like(p, 0.5)), like(p, 1))), short_log(1 - p))
    value = select(left, exponent * math.log(2), above)
    # log(density(t) / t (1 - 1/t**2 + ...))
    far = gt(t, SHORT_END) & left
    safe = select(far, t, like(t, SHORT_END))
    z = 1 / (safe * safe)
    tail = z * horner(z, (-1.0, 2.5, -37 / 3)) - short_log(safe) - 0.5 * math.log(2 * math.pi)
    value = select(far, tail - safe * safe * 0.5, value, rare=True)
    return select(ne(x, x), x, value)


def quantile(w: Value, tail: Value, factor: Pair, deep: bool = False) -> Value:
    """`factor` times erfinv(x) / x, from w + tail = -log(1 - x**2), by fits in w or sqrt(w); past w = 81 only if
    `deep`. Few numbers are so close to 1 that w > 6.25."""
    near = _pair_horner(w - 3.625, table.ERFINV_NEAR["f64"])
    head, low = table.HALF_SQRT_PI["f64"]
    inner = paired_horner(w - 0.5, table.ERFINV_CENTRE["f64"])
    centre = quick_sum(like(w, head), fma(w, inner, like(w, low)))
    common = sum_of(pair_multiply(_either(lt(w, 1), centre, near), factor))
    return select(gt(w, 6.25), sum_of(pair_multiply(_far_quantile(w, tail, deep), factor)), common, rare=True)


def _far_quantile(w: Value, tail: Value, deep: bool) -> Pair:
    """erfinv(x) / x for w > 6.25: sqrt(w) less something small and smooth."""
    root = sqrt(w)
    lost = (fma(neg(root), root, w) + tail) / (root + root)
    less = paired_horner(root - 6.5, table.ERFINV_TAIL["f64"])
    if deep:
        less = select(gt(w, 81), paired_horner(root - 18, table.ERFINV_DEEP["f64"]), less, rare=True)
    less = select(lt(w, 16), paired_horner(root - 3.25, table.ERFINV_FAR["f64"]), less)
    return quick_sum(root, less + lost)


def _short_quantile(w: Value) -> Value:
    """erfinv(x) / x for results rounded to f32, w <= 16.8."""
    near = paired_horner(w - 3.125, table.ERFINV_SHORT["lite"])
    return select(gt(w, 6.25), horner(sqrt(w) - 3.3, table.ERFINV_SHORT_FAR["lite"]), near, rare=True)


def _pair_horner(u: Value, coefficients: tuple[float, ...]) -> Pair:
    """A polynomial whose constant term dominates, keeping what the last addition loses."""
    return quick_sum(like(u, coefficients[0]), u * paired_horner(u, coefficients[1:]))


def _either(condition: Value, a: Pair, b: Pair) -> Pair:
    return select(condition, a[0], b[0]), select(condition, a[1], b[1])


@expansion("erfinv")
def erfinv(x: Value) -> Value:
    wide = cast(x, "f64")
    size = abs_(wide)
    inside = select(lt(size, 1), size, like(wide, 0))
    # 1 - x**2 as a product: no cancellation near 1, and near 0 the factor is flat in w.
    u = (1 - inside) * (1 + inside)
    if x.dtype == "f32":
        value = wide * _short_quantile(neg(short_log(u)))
    else:
        w, tail = pair_negate(log_with_rest(u))
        value = quantile(w, tail, (wide, like(wide, 0)))
    value = select(eq(size, 1), wide * math.inf, copysign(value, wide))
    return cast(select(gt(size, 1), like(wide, math.nan), value), x.dtype)


def sum_of(pair: Pair) -> Value:
    return pair[0] + pair[1]


@expansion("ndtri")
def ndtri(p: Value) -> Value:
    """The normal quantile: sqrt(2) erfinv(2 p - 1), from p itself in the lower tail."""
    if p.dtype == "f32":
        return cast(ndtri(cast(p, "f64")), "f32")
    inside = select(gt(p, 0) & lt(p, 1), p, like(p, 0.5))
    x = inside * 2 - 1
    w, tail = pair_negate(log_with_rest(inside * 4 * (1 - inside)))
    head, low = table.SQRT_HALF["f64"]
    factor = pair_scale((like(p, head * 2), like(p, low * 2)), x)
    value = quantile(w, tail, factor, deep=True)
    value = select(eq(p, 0), like(p, -math.inf), select(eq(p, 1), like(p, math.inf), value))
    return select((p < 0) | (p > 1) | ne(p, p), like(p, math.nan), value)
