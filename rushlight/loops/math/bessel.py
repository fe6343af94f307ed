"""The modified Bessel functions I0 and I1 and their scaled forms as primitives.

(1 + x) exp(-x) I(x) is a polynomial in x - 4 up to 8, and beyond it 1 / sqrt(x) times one in 1/x. The unscaled
functions multiply by exp(x) before scaling by its power of two, because I0 overflows later than exp.
f32 is computed in f64 with shorter polynomials.
"""

from __future__ import annotations

import math

from rushlight.loops import coefficients as table
from rushlight.loops.expansions import expansion
from rushlight.loops.expr import Value, abs_, cast, copysign, eq, gt, lt, max_, min_, ne, select, sqrt
from rushlight.loops.math.exponential import expm1_reduced
from rushlight.loops.pairs import (
    Pair,
    horner,
    like,
    pair_divide,
    pair_multiply,
    pair_scale,
    pair_sqrt,
    paired_horner,
    quick_sum,
    scale,
    two_sum,
)


def _scaled(t: Value, order: int) -> Pair:
    """exp(-t) I(t) for t >= 0 in f64, as a pair."""
    near_table, far_table = ((table.I0E_NEAR, table.I0E_FAR), (table.I1E_NEAR, table.I1E_FAR))[order]
    zero = like(t, 0)
    small = min_(like(t, 8), t)
    u = small - 4
    near = two_sum(like(t, near_table["f64"][0]), u * horner(u, near_table["f64"][1:]))
    if order:
        near = pair_scale(near, small)
    near = pair_divide(near, two_sum(like(t, 1), small))
    large = max_(like(t, 8), min_(like(t, 1e300), t))
    v = 1 / large
    w = v - 0.0625
    top = quick_sum(like(t, far_table["f64"][0]), w * horner(w, far_table["f64"][1:]))
    far = pair_divide(top, pair_sqrt((large, zero)))
    inside = lt(t, 8)
    return select(inside, near[0], far[0]), select(inside, near[1], far[1])


def _short_scaled(t: Value, order: int) -> Value:
    """exp(-t) I(t) for t >= 0 in f64, for results rounded to f32."""
    near_table, far_table = ((table.I0E_NEAR, table.I0E_FAR), (table.I1E_NEAR, table.I1E_FAR))[order]
    small = min_(like(t, 8), t)
    large = max_(like(t, 8), min_(like(t, 1e100), t))
    inverse = 1 / (large * (small + 1))
    near = paired_horner(small - 4, near_table["lite"]) * (inverse * large)
    v = inverse * (small + 1)
    far = paired_horner(v - 0.0625, far_table["lite"]) * sqrt(v)
    return select(lt(t, 8), near * small if order else near, far)


def _bessel(x: Value, order: int, unscaled: bool) -> Value:
    wide = cast(x, "f64")
    t = abs_(wide)
    value = (_short_scaled(t, order), like(t, 0)) if x.dtype == "f32" else _scaled(t, order)
    if unscaled:
        r, q, n = expm1_reduced(min_(like(t, 716), t))
        one, rest = quick_sum(like(t, 1), r)
        head, tail = pair_multiply(quick_sum(one, rest + q), value)
        result = select(gt(t, 716), like(t, math.inf), scale(head + tail, n))
        # PyTorch multiplies inf by 0 there; so does its NaN come out here.
        result = select(eq(t, math.inf), like(t, math.nan), result)
    else:
        result = select(eq(t, math.inf), like(t, 0), value[0] + value[1])
    result = copysign(result, wide) if order else result
    return cast(select(ne(wide, wide), wide, result), x.dtype)


@expansion("i0")
def i0(x: Value) -> Value:
    return _bessel(x, 0, True)


@expansion("i0e")
def i0e(x: Value) -> Value:
    return _bessel(x, 0, False)


@expansion("i1")
def i1(x: Value) -> Value:
    return _bessel(x, 1, True)


@expansion("i1e")
def i1e(x: Value) -> Value:
    return _bessel(x, 1, False)
