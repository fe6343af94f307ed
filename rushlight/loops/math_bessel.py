"""Modified Bessel functions of the first kind and the Hurwitz zeta function, as primitives.

exp(-|x|) I(x) joins two Chebyshev series, one in x up to 8 and one in 1 / x beyond; where a series does not apply its
argument is clamped into range. zeta adds twenty terms (enough for starts above -10) to the Euler-Maclaurin
expansion of the rest. f32 is computed in f64. Series from `tools/fit_special.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from rushlight.loops.expr import (
    Value,
    abs_,
    call,
    cast,
    const,
    copysign,
    eq,
    floor,
    gt,
    le,
    lt,
    max_,
    min_,
    ne,
    select,
    sqrt,
)
from rushlight.loops.math import expansion

# fmt: off
# exp(-x) I0(x), x in [0, 8]
I0E_SMALL = (
    0.33839763720473803, -0.3046826723431984, 0.17162090152220877, -0.09490109704804764, 0.04930528423967071,
    -0.02373741480589947, 0.010546460394594998, -0.004324309995050576, 0.0016394756169413357, -0.0005763755745385824,
    0.00018850288509584165, -5.754195010082104e-05, 1.6448448070728896e-05, -4.4167383584587505e-06,
    1.1173875391201037e-06, -2.670793853940612e-07, 6.046995022541919e-08, -1.300025009986248e-08,
    2.6598237246823866e-09, -5.189795601635263e-10, 9.675809035373237e-11, -1.726826291441556e-11,
    2.95505266312964e-12, -4.856446783111929e-13, 7.676185498604936e-14, -1.1685332877993451e-14,
    1.715391285555133e-15, -2.431279846547955e-16, 3.3307945188222384e-17, -4.4153416464793395e-18,
    5.669178006921496e-19,
)
# sqrt(x) exp(-x) I0(x), 1/x in [0, 1/8]
I0E_LARGE = (
    0.4022452055070544, 0.0033691164782556943, 6.889758346916825e-05, 2.8913705208347567e-06, 2.0489185894690638e-07,
    2.266668990498178e-08, 3.3962320257083865e-09, 4.94060238822497e-10, 1.1889147107846439e-11,
    -3.1499165279632416e-11, -1.3215811840447713e-11, -1.7941785315068062e-12, 7.180124451383666e-13,
    3.8527783827421426e-13, 1.54008621752141e-14, -4.150569347287222e-14, -9.554846698828307e-15,
    3.8116806693526224e-15, 1.7725601330565263e-15, -3.425485619677219e-16, -2.8276239805165836e-16,
    3.461222867697461e-17, 4.46562142029676e-17, -4.830504485944182e-18, -7.233180487874754e-18,
    9.921475412173699e-19, 1.193650890845982e-18,
)
# exp(-x) I1(x) / x, x in [0, 8]
I1E_SMALL = (
    0.12629359322181682, -0.17641651835783406, 0.1026436586898471, -0.05294598120809499, 0.024726449030626516,
    -0.010564084894626197, 0.004156422944312888, -0.0015135724506312532, 0.0005122859561685758,
    -0.00016176081582589674, 4.781565107550054e-05, -1.3273163656039436e-05, 3.4702513081376785e-06,
    -8.568720264695455e-07, 2.0032947535521353e-07, -4.445059128796328e-08, 9.381537386495773e-09,
    -1.8872497517228294e-09, 3.625590281552117e-10, -6.663489723502027e-11, 1.1736186298890901e-11,
    -1.9839743977649436e-12, 3.223793365945575e-13, -5.042185504727912e-14, 7.600684294735408e-15,
    -1.1055969477353862e-15, 1.5536319577362005e-16, -2.111421214358166e-17, 2.7779141127610464e-18,
    -3.541581772542136e-19,
)
# sqrt(x) exp(-x) I1(x), 1/x in [0, 1/8]
I1E_LARGE = (
    0.38928811750914005, -0.009761097491361469, -0.00011058893876262371, -3.882564808877691e-06,
    -2.512236237870209e-07, -2.6314688468895196e-08, -3.835380385964237e-09, -5.589743462196584e-10,
    -1.8974958123505413e-11, 3.2526035830154884e-11, 1.4125807436613782e-11, 2.0356285441470896e-12,
    -7.198551776245908e-13, -4.0835511110921974e-13, -2.1015418427726643e-14, 4.272440016711951e-14,
    1.0420276984128802e-14, -3.8144030724370075e-15, -1.8803547755107825e-15, 3.3082023109209285e-16,
    2.96262899764595e-16, -3.209525921993424e-17, -4.6503053684893586e-17, 4.414348323071708e-18,
    7.517296310842105e-18, -9.314178867326884e-19, -1.242193275194891e-18,
)
# fmt: on
# Bernoulli numbers B2, B4, ...
BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798)


def chebyshev(t: Value, terms: Sequence[float]) -> Value:
    """The Chebyshev series at t in [-1, 1], by Clenshaw's recurrence."""
    twice = t + t
    ahead = after = const(0, t.dtype)
    for c in reversed(terms[1:]):
        ahead, after = twice * ahead - after + c, ahead
    return t * ahead - after + terms[0]


def in_double(body: Callable[..., Value]) -> Callable[..., Value]:
    """The expansion computed in f64 and rounded to the arguments' type."""

    def expand(*args: Value) -> Value:
        return cast(body(*[cast(a, "f64") for a in args]), args[0].dtype)

    return expand


def scaled(x: Value, order: int) -> Value:
    """exp(-|x|) times the Bessel function of this order, for f64."""
    size = abs_(x)
    near, far = min_(size, 8), max_(size, 8)
    small = chebyshev(near / 4 - 1, I1E_SMALL if order else I0E_SMALL)
    large = chebyshev(16 / far - 1, I1E_LARGE if order else I0E_LARGE) / sqrt(far)
    if order:
        small, large = small * x, copysign(large, x)
    return select(ne(x, x), x, select(le(size, 8), small, large))


def grown(x: Value, order: int) -> Value:
    # Two factors, so that it overflows only where the product does.
    half = call("exp", abs_(x) * 0.5)
    return scaled(x, order) * half * half


expansion("i0e")(in_double(lambda x: scaled(x, 0)))
expansion("i1e")(in_double(lambda x: scaled(x, 1)))
expansion("i0")(in_double(lambda x: grown(x, 0)))
expansion("i1")(in_double(lambda x: grown(x, 1)))


def inverse_power(x: Value, power: Value, odd: Value) -> Value:
    """x ** -power through exp and log: kernels of twenty full powers would take seconds to compile."""
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
@in_double
def zeta(power: Value, start: Value) -> Value:
    nan, infinity = const(math.nan, "f64"), const(math.inf, "f64")
    left, whole = le(start, 0), eq(start, floor(start))
    undefined = lt(power, 1) | (left & ~whole & ne(power, floor(power))) | ne(power, power) | ne(start, start)
    value = positive_zeta(select(gt(power, 1), power, 2), select(left & whole, 1, start))
    # Infinite powers and starts: the first term decides.
    first = call("pow", start, -power)
    value = select(eq(start, math.inf) | eq(power, math.inf), first, value)
    return select(eq(power, 1), infinity, select(undefined, nan, select(left & whole, infinity, value)))
