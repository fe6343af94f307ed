"""The gamma function family as primitives.

lgamma of positive arguments below 3 (f32: 8) is moved next to 2 by the recurrence, whose logarithm is kept as a pair;
digamma below 2 comes from a polynomial over [1, 2], trigamma there from two terms of its sum; larger ones take fits of
the shape of the asymptotic series. Negative ones use the reflection formula (a select marked rare); close to the zeros
on that side only the absolute error is small. f32 is computed in f64 with shorter polynomials and without pairs.
"""

from __future__ import annotations

import math

from rushlight.loops import coefficients as table
from rushlight.loops.expansions import expansion
from rushlight.loops.expr import Value, abs_, cast, const, eq, floor, fma, ge, gt, le, lt, ne, neg, rint, select
from rushlight.loops.math.exponential import log_pair, log_with_rest
from rushlight.loops.math.power import short_log
from rushlight.loops.math.trigonometry import cosine_pair, nearest_half_turn, sin_pi, sine_pair
from rushlight.loops.pairs import (
    Pair,
    divide_by,
    horner,
    like,
    pair_add,
    pair_divide,
    pair_multiply,
    pair_negate,
    pair_scale,
    paired_horner,
    quick_sum,
    two_product,
    two_sum,
)

LARGE = 8.0
HIGHEST = 170   # the order of a polygamma whose factor, its factorial, is finite in f64


@expansion("lgamma")
def lgamma(x: Value) -> Value:
    if x.dtype == "f32":
        wide = cast(x, "f64")
        return cast(_finish_lgamma(wide, _lgamma_short(abs_(wide)), _lgamma_short_below(wide)), "f32")
    t = abs_(x)
    head, tail = _lgamma_positive(t)
    # log(pi) - log(t |sin(pi x)|) - lgamma(t); for tiny t it is lgamma(t).
    sine = sin_pi(x)
    sine = select(lt(sine[0], 0), neg(sine[0]), sine[0]), select(lt(sine[0], 0), neg(sine[1]), sine[1])
    tiny = lt(t, 2.0**-60)
    product = pair_scale(sine, select(tiny, like(x, 1), t))
    logarithm = log_pair(select(gt(product[0], 0), product[0], like(x, 1)), product[1])
    below = pair_add((like(x, table.LOG_PI["f64"][0]), like(x, table.LOG_PI["f64"][1])), pair_negate(logarithm))
    below = pair_add(below, (neg(head), neg(tail)))
    return _finish_lgamma(x, head + tail, select(tiny, head + tail, below[0] + below[1]))


def _finish_lgamma(x: Value, above: Value, below: Value) -> Value:
    """Puts the halves together; poles and infinities give +inf."""
    value = select(lt(x, 0), below, above, rare=True)
    pole = eq(x, 0) | (lt(x, 0) & eq(floor(x), x)) | eq(abs_(x), math.inf)
    return select(ne(x, x), x, select(pole, like(x, math.inf), value))


def _lgamma_positive(t: Value) -> Pair:
    """lgamma of a positive f64 as a pair."""
    zero, one = like(t, 0), like(t, 1)
    far = ge(t, 3)
    nearest = rint(select(far, like(t, 2), t))
    d = t - nearest
    # lgamma(2 + d) and the logarithm of t - 1 above 2.5; below 1.5 less that of t, or of t (t + 1)
    low, first, above = lt(nearest, 2), eq(nearest, 1), gt(nearest, 2)
    both = pair_scale(two_sum(t, one), t)
    moved = select(low, select(first, t, both[0]), select(above, t - 1, one))
    lost = select(low & ~first, both[1], zero)
    logarithm = log_pair(select(far, t, moved), lost)
    coefficients = table.LGAMMA["f64"]
    inner = fma(d, paired_horner(d, coefficients[2:]), like(t, coefficients[1]))
    slope = two_sum(like(t, coefficients[0]), d * inner)
    signed = select(low, neg(logarithm[0]), logarithm[0]), select(low, neg(logarithm[1]), logarithm[1])
    near = pair_add(signed, pair_scale(slope, d))
    # Stirling: (t - 1/2) log t - t + log(2 pi)/2 + series / t, as (t - 1/2)(log t - 1) - 1/2 + ...
    inverse = 1 / t
    series = paired_horner(inverse * inverse, table.LGAMMA_FAR["f64"]) * inverse
    main = pair_scale(pair_add(logarithm, (neg(one), zero)), t - 0.5)
    constant = quick_sum(like(t, table.HALF_LOG_2PI["f64"][0]), like(t, -0.5))
    main = pair_add(main, (constant[0], constant[1] + table.HALF_LOG_2PI["f64"][1]))
    main = quick_sum(main[0], main[1] + series)
    finite = lt(abs_(main[0]), math.inf)
    main = select(finite, main[0], like(t, math.inf)), select(finite, main[1], zero)
    return select(far, main[0], near[0]), select(far, main[1], near[1])


def _lgamma_short(t: Value) -> Value:
    """lgamma of a positive f64, for results rounded to f32."""
    one = like(t, 1)
    nearest = rint(select(lt(t, LARGE + 1), t, like(t, 2)))
    d = t - nearest
    product = one
    for k in range(1, 7):
        product = product * select(ge(nearest, 2 + k), t - k, one)
    low = lt(nearest, 2)
    product = select(low, select(eq(nearest, 1), t, t * (t + 1)), product)
    far = ge(t, LARGE)
    logarithm = short_log(select(far, t, product))
    near = fma(d, horner(d, table.LGAMMA["lite"]), select(low, neg(logarithm), logarithm))
    inverse = 1 / t
    series = horner(inverse * inverse, table.STIRLING["lite"]) * inverse
    main = (t - 0.5) * (logarithm - 1) + (series + (table.HALF_LOG_2PI["f64"][0] - 0.5))
    return select(far, main, near)


def _lgamma_short_below(x: Value) -> Value:
    t = abs_(x)
    sine = sin_pi(x)[0]
    product = abs_(sine) * t
    logarithm = short_log(select(gt(product, 0), product, like(x, 1)))
    return math.log(math.pi) - logarithm - _lgamma_short(t)


# Digamma and polygamma


@expansion("digamma")
def digamma(x: Value) -> Value:
    wide = cast(x, "f64")
    short = x.dtype == "f32"
    t = abs_(wide)
    head, tail = _digamma_positive(t, short)
    # digamma(-t) = digamma(t) + 1/t + pi cot(pi t)
    inverse = pair_divide((like(wide, 1), like(wide, 0)), (t, like(wide, 0)))
    below = pair_add(pair_add((head, tail), inverse), _pi_cotangent(t))
    value = select(lt(wide, 0), below[0] + below[1], head + tail, rare=True)
    pole = lt(wide, 0) & (eq(floor(wide), wide))
    value = select(pole, like(wide, math.nan), value)
    # Near 0, and at it, only -1/x counts; the pairs would overflow.
    value = select(lt(t, 2.0**-60), -1 / wide, value)
    value = select(eq(wide, math.inf) | ne(wide, wide), wide, value)
    return cast(value, x.dtype)


def _pi_cotangent(t: Value) -> Pair:
    """pi cos(pi t) / sin(pi t) as a pair."""
    n, k = nearest_half_turn(t)
    left = t - n
    head, low = table.PI["f64"]
    r, lost = two_product(left, like(t, head))
    angle = quick_sum(r, fma(left, like(t, low), lost))
    sine, cosine = sine_pair(*angle), cosine_pair(*angle)
    odd = ne(k & 1, 0)
    top = select(odd, neg(sine[0]), cosine[0]), select(odd, neg(sine[1]), cosine[1])
    down = select(odd, cosine[0], sine[0]), select(odd, cosine[1], sine[1])
    return pair_multiply(pair_divide(top, down), (like(t, head), like(t, low)))


def _digamma_positive(t: Value, short: bool) -> Pair:
    """digamma of a positive f64 as a pair; `short` uses the polynomials for f32."""
    zero, one = like(t, 0), like(t, 1)
    low, far = lt(t, 1), ge(t, 2)
    # below 1: digamma(t + 1) - 1/t
    inverse = 1 / t
    if short:
        return select(far, _short_digamma_far(t, inverse), _short_digamma_near(t, inverse, low)), zero
    moved = two_sum(t, select(low, one, zero))
    root = table.DIGAMMA_ROOT["f64"]
    offset = pair_add(moved, (like(t, -root[0]), like(t, -root[1])))
    u = moved[0] - 1.5
    coefficients = table.DIGAMMA["f64"]
    slope = quick_sum(like(t, coefficients[0]), u * paired_horner(u, coefficients[1:]))
    near = pair_multiply(offset, slope)
    rest = fma(neg(inverse), t, one) * inverse
    near = pair_add((select(low, neg(inverse), zero), select(low, neg(rest), zero)), near)
    z = inverse * inverse
    series = fma(z, paired_horner(z, table.DIGAMMA_FAR["f64"]), inverse * 0.5)
    logarithm = log_with_rest(t)
    main = quick_sum(logarithm[0], logarithm[1] - series)
    return select(far, main[0], near[0]), select(far, main[1], near[1])


def _short_digamma_near(t: Value, inverse: Value, low: Value) -> Value:
    moved = t + select(low, like(t, 1), like(t, 0))
    root = table.DIGAMMA_ROOT["f64"]
    near = ((moved - root[0]) - root[1]) * paired_horner(moved - 1.5, table.DIGAMMA["lite"])
    return select(low, near - inverse, near)


def _short_digamma_far(t: Value, inverse: Value) -> Value:
    z = inverse * inverse
    return short_log(t) - fma(z, paired_horner(z, table.DIGAMMA_FAR["lite"]), inverse * 0.5)


@expansion("polygamma")
def polygamma(x: Value, order: int) -> Value:
    """(-1)**(n + 1) n! times the Hurwitz zeta function at n + 1."""
    wide = cast(x, "f64")
    sign = 1.0 if order % 2 else -1.0
    if order > HIGHEST:
        return cast(_polygamma_without_factor(wide, order, sign), x.dtype)
    factor = like(wide, sign * math.factorial(order))
    if order == 1:
        value = _trigamma(wide, x.dtype == "f32")
    else:
        head, tail = hurwitz_zeta((wide, like(wide, 0)), order + 1)
        value = (head + tail) * factor
        pole = le(wide, 0) & eq(floor(wide), wide)
        value = select(pole, factor * math.inf, value)
        value = select(lt(wide, -float(10 + order)), like(wide, math.nan), value)
    value = select(eq(wide, math.inf), like(wide, 0) * sign, value)
    return cast(select(ne(wide, wide), wide, value), x.dtype)


def _trigamma(x: Value, short: bool) -> Value:
    """The derivative of digamma, in f64; `short` is for results rounded to f32."""
    t = abs_(x)
    above = _trigamma_positive(t, short)
    # trigamma(-t) = pi**2 / sin(pi t)**2 - trigamma(t) + 1/t**2
    pi = like(x, table.PI["f64"][0]), like(x, table.PI["f64"][1])
    turn = pair_divide(pi, sin_pi(x))
    inverse = pair_divide((like(x, 1), like(x, 0)), (t, like(x, 0)))
    below = pair_add(pair_multiply(turn, turn), pair_multiply(inverse, inverse))
    below = pair_add(below, (neg(above[0]), neg(above[1])))
    value = select(lt(x, 0), below[0] + below[1], above[0] + above[1], rare=True)
    value = select(lt(t, 1e-100), 1 / (x * x), value, rare=True)
    return select(le(x, 0) & eq(floor(x), x), like(x, math.inf), value)


def _trigamma_positive(t: Value, short: bool) -> Pair:
    """trigamma of a positive f64: below 2 that of t + 2, and 1/t**2 + 1/(t + 1)**2."""
    zero, one = like(t, 0), like(t, 1)
    low = lt(t, 2)
    y, lost = two_sum(t, select(low, like(t, 2), zero))
    inverse = 1 / y
    z = inverse * inverse
    if short:
        main = fma(z, fma(inverse, paired_horner(z, table.TRIGAMMA["lite"]), like(t, 0.5)), inverse)
        safe = select(low, t, one)
        both = 1 / (safe * (safe + 1))
        first = both * (safe + 1)
        return select(low, fma(first, first, fma(both * safe, both * safe, main)), main), zero
    series = paired_horner(z, table.TRIGAMMA["f64"])
    # 1/y + 1/(2 y**2) + 1/y**3 ...; the first term with what its rounding, and that of y, lost
    rest = fma(neg(inverse), y, one) * inverse - lost * z
    whole = quick_sum(inverse, fma(z, fma(inverse, series, like(t, 0.5)), rest))
    safe = select(low, t, one)
    next_ = two_sum(safe, one)
    both = 1 / (safe * next_[0])
    once = divide_by((one, zero), (safe, zero), both * next_[0])
    twice = divide_by((one, zero), next_, both * safe)
    total = pair_add(pair_multiply(once, once), pair_add(pair_multiply(twice, twice), whole))
    return select(low, total[0], whole[0]), select(low, total[1], whole[1])


def _polygamma_without_factor(x: Value, order: int, sign: float) -> Value:
    """Orders whose factor is inf: what is left of the sum is its largest term's sign, and whether that term is 0.

    That term belongs to the x + k next to 0. Terms of equal size and opposite signs (x halfway between integers, an odd
    power) cancel up to the one of 1 - x.
    """
    above = x - floor(x)
    cancelled = 1 - x if order % 2 == 0 else above
    nearest = select(lt(above, 0.5), above, select(gt(above, 0.5), above - 1, cancelled))
    value = _plain_inverse_power(select(gt(x, 0), x, nearest), order + 1) * (sign * math.inf)
    pole = le(x, 0) & eq(floor(x), x)
    value = select(pole, like(x, sign * math.inf), value)
    value = select(eq(x, math.inf), like(x, 0) * sign, value)
    return select(ne(x, x), x, value)


def hurwitz_zeta(x: Pair, s: int) -> Pair:
    """The sum of (x + k)**-s over k >= 0 for integer s >= 2 by Euler and Maclaurin, as a pair."""
    zero = like(x[0], 0)
    steps = 10 + s
    total: Pair = (zero, zero)
    for k in range(steps):
        term = _inverse_power(_shifted(x, k), s)
        total = term if k == 0 else pair_add(total, term)
    y = _shifted(x, steps)
    inverse = 1 / y[0]
    power = _inverse_power(y, s - 1)
    main = pair_divide(power, (like(x[0], s - 1), zero))
    z = inverse * inverse
    series, rising = [], float(s)
    for j, bernoulli in enumerate(table.BERNOULLI):
        series.append(bernoulli * rising)
        rising *= (s + 2 * j + 1) * (s + 2 * j + 2)
    rest = power[0] * fma(z, horner(z, series), inverse * 0.5)
    total = pair_add(pair_add(total, main), (rest, zero))
    finite = lt(abs_(total[0]), math.inf) & eq(total[1], total[1])
    first = _plain_inverse_power(x[0], s)
    return select(finite, total[0], first), select(finite, total[1], zero)


def _shifted(x: Pair, k: int) -> Pair:
    if k == 0:
        return x
    head, tail = two_sum(x[0], const(k, "f64"))
    return head, tail + x[1]


def _inverse_power(x: Pair, s: int) -> Pair:
    inverse = pair_divide((like(x[0], 1), like(x[0], 0)), x)
    result = inverse
    for bit in bin(s)[3:]:
        result = pair_multiply(result, result)
        if bit == "1":
            result = pair_multiply(result, inverse)
    return result


def _plain_inverse_power(x: Value, s: int) -> Value:
    """For x so small that a pair's remainder overflows."""
    result = x
    for bit in bin(s)[3:]:
        result = result * result
        if bit == "1":
            result = result * x
    return 1 / result
