"""The error function family as primitives.

erf is a polynomial near 0. Elsewhere everything comes from exp(-t**2) and (1 + 2 t) exp(t**2) erfc(t), which is
smooth in q = (t - 4) / (t + 4) from 0 to infinity; t**2 is kept as a pair, because its error becomes a relative
one. f32 results of erfc and its relatives are computed in f64 with shorter polynomials.
"""

from __future__ import annotations

import math

from rushlight.loops import coefficients as table, coefficients_special as special
from rushlight.loops.expansions import expansion
from rushlight.loops.expr import Value, abs_, cast, copysign, eq, fma, gt, lt, min_, ne, neg, select, sqrt
from rushlight.loops.math_exp import exp_parts, log, log1p, log_with_rest, modest_exp
from rushlight.loops.math_power import short_exp
from rushlight.loops.pairs import (
    Pair,
    horner,
    like,
    pair_add,
    pair_divide,
    pair_multiply,
    pair_scale,
    quick_sum,
    scale,
    two_product,
    two_sum,
)

SQRT_HALF = math.sqrt(0.5)


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
        t = min_(like(x, 6.0), size)
        large = 1 - erfc_positive(t, two_product(t, t))
    return select(lt(size, 1), small, copysign(large, x))


def scaled_complement(t: Value, tail: Value | None = None) -> Pair:
    """exp(t**2) erfc(t) for t >= 0 (f64), as a pair."""
    zero = like(t, 0)
    top, down = two_sum(t, like(t, -4)), two_sum(t, like(t, 4))
    if tail is not None:
        top, down = (top[0], top[1] + tail), (down[0], down[1] + tail)
    q, lost = pair_divide(top, down)
    coefficients = table.ERFCX["f64"]
    rest = q * horner(q, coefficients[1:]) + lost * coefficients[1]
    value = quick_sum(like(t, coefficients[0]), rest)
    below = two_sum(like(t, 1), t * 2)
    if tail is not None:
        below = (below[0], below[1] + tail * 2)
    head, low = pair_divide(value, below)
    # t = inf gives NaN in the remainders.
    far = gt(t, 1e150)
    return select(far, (1 / math.sqrt(math.pi)) / t, head), select(far, zero, low)


def erfc_positive(t: Value, square: Pair, tail: Value | None = None) -> Value:
    """erfc(t + tail) for t >= 0 (f64), given its square as a pair."""
    factor = scaled_complement(t, tail)
    near = lt(square[0], 760)
    base = select(near, square[0], like(t, 760)), select(near, square[1], like(t, 0))
    power, n = exp_parts(neg(base[0]), neg(base[1]))
    head, low = pair_multiply(power, factor)
    return scale(head + low, n)


def _short_scaled(t: Value) -> Value:
    """exp(t**2) erfc(t) for t >= 0 in f64, to f32's accuracy."""
    q = (t - 4) / (t + 4)
    return horner(q, table.ERFCX["lite"]) / fma(t, like(t, 2), like(t, 1))


@expansion("erfc")
def erfc(x: Value) -> Value:
    if x.dtype == "f32":
        wide = cast(x, "f64")
        t = min_(like(wide, 12), abs_(wide))
        value = _short_scaled(t) * short_exp(neg(t * t))
        return cast(select(lt(wide, 0), 2 - value, value), "f32")
    t = min_(like(x, 30), abs_(x))
    value = erfc_positive(t, two_product(t, t))
    z = x * x
    near = fma(x, horner(z, table.ERF["f64"]), x)
    far = select(lt(x, 0), 2 - value, value)
    return select(lt(abs_(x), 0.5), 1 - near, select(ne(x, x), x, far))


@expansion("erfcx")
def erfcx(x: Value) -> Value:
    if x.dtype == "f32":
        return cast(erfcx(cast(x, "f64")), "f32")
    t = abs_(x)
    head, low = scaled_complement(t)
    limited = min_(like(x, 30), t)
    square = two_product(limited, limited)
    power, n = exp_parts(*square)
    grown = scale(power[0] + power[1], n + 1)
    value = select(lt(x, 0), grown - (head + low), head + low)
    return select(eq(x, math.inf), like(x, 0), select(ne(x, x), x, value))


@expansion("ndtr")
def ndtr(x: Value) -> Value:
    """The normal distribution function, erfc(-x / sqrt 2) / 2."""
    if x.dtype == "f32":
        return cast(ndtr(cast(x, "f64")), "f32")
    value = _normal_tail(min_(like(x, 40), abs_(x)))
    near = erf(x * SQRT_HALF) * 0.5
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
    if x.dtype == "f32":
        return cast(log_ndtr(cast(x, "f64")), "f32")
    size = min_(like(x, 1e154), abs_(x))
    head, low = table.SQRT_HALF["f64"]
    t, tail = pair_scale((like(x, head), like(x, low)), size)
    scaled = scaled_complement(t, tail)
    square = two_product(size, size)
    left = log((scaled[0] + scaled[1]) * 0.5) - square[1] * 0.5 - square[0] * 0.5
    right = log1p(neg(select(lt(x, 0), like(x, 0), ndtr(neg(x)))))
    result = select(lt(x, 0), left, right)
    result = select(lt(x, -1e154), like(x, -math.inf), result)
    return select(ne(x, x), x, result)


def quantile_factor(w: Value, tail: Value, deep: bool = False) -> Pair:
    """erfinv(x) / x from w + tail = -log(1 - x**2), by fits in w or sqrt(w); past w = 81 only if `deep`."""
    root = sqrt(w)
    lost = (fma(neg(root), root, w) + tail) / (root + root)
    # There the factor is sqrt(w) less something small and smooth.
    less = horner(root - 3.25, special.ERFINV_FAR["f64"])
    less = select(lt(w, 16), less, horner(root - 6.5, special.ERFINV_TAIL["f64"]))
    if deep:
        less = select(lt(w, 81), less, horner(root - 18, special.ERFINV_DEEP["f64"]))
    far = quick_sum(root, less + lost)
    near = _pair_horner(w - 3.625, special.ERFINV_NEAR["f64"])
    head, low = table.HALF_SQRT_PI["f64"]
    centre = quick_sum(like(w, head), fma(w, horner(w - 0.5, special.ERFINV_CENTRE["f64"]), like(w, low)))
    return _either(lt(w, 1), centre, _either(lt(w, 6.25), near, far))


def _pair_horner(u: Value, coefficients: tuple[float, ...]) -> Pair:
    """A polynomial whose constant term dominates, keeping what the last addition loses."""
    return quick_sum(like(u, coefficients[0]), u * horner(u, coefficients[1:]))


def _either(condition: Value, a: Pair, b: Pair) -> Pair:
    return select(condition, a[0], b[0]), select(condition, a[1], b[1])


@expansion("erfinv")
def erfinv(x: Value) -> Value:
    if x.dtype == "f32":
        return cast(erfinv(cast(x, "f64")), "f32")
    size = abs_(x)
    inside = select(lt(size, 1), size, like(x, 0))
    # 1 - x**2 as a product: no cancellation near 1, and near 0 the factor is flat in w.
    w, tail = log_with_rest((1 - inside) * (1 + inside))
    small = log1p(neg(inside * inside))
    near = lt(inside, 0.5)
    w, tail = neg(select(near, small, w)), neg(select(near, like(x, 0), tail))
    value = copysign(sum_of(pair_scale(quantile_factor(w, tail), x)), x)
    value = select(eq(size, 1), x * math.inf, value)
    return select(gt(size, 1), like(x, math.nan), value)


def sum_of(pair: Pair) -> Value:
    return pair[0] + pair[1]


@expansion("ndtri")
def ndtri(p: Value) -> Value:
    """The normal quantile: sqrt(2) erfinv(2 p - 1), from p itself in the lower tail."""
    if p.dtype == "f32":
        return cast(ndtri(cast(p, "f64")), "f32")
    inside = select(gt(p, 0) & lt(p, 1), p, like(p, 0.5))
    x = inside * 2 - 1
    near = lt(abs_(x), 0.5)
    first, second = log_with_rest(inside), log_with_rest((1 - inside) * 4)
    w, tail = pair_add(first, second)
    w, tail = neg(select(near, log1p(neg(x * x)), w)), neg(select(near, like(p, 0), tail))
    head, low = table.SQRT_HALF["f64"]
    transposed = pair_scale((like(p, head * 2), like(p, low * 2)), x)
    value = sum_of(pair_multiply(quantile_factor(w, tail, deep=True), transposed))
    value = select(eq(p, 0), like(p, -math.inf), select(eq(p, 1), like(p, math.inf), value))
    return select((p < 0) | (p > 1) | ne(p, p), like(p, math.nan), value)
