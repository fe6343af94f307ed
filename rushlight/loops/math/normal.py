"""gelu and its slope in f32, from one polynomial.

Enters and leaves: see math/expand.py. With p(t) the normal distribution beyond t and t = |x|,

    gelu(x) = max(x, 0) - t p(t)            slope = (x > 0 ? 1 - p : p) + x density(x)

so the one approximation needed, log2 p(t), serves both signs without cancellation: erf would need one polynomial
near 0 and another elsewhere, and loses all digits for negative x. Within 2 ulp for positive x; for negative x the
relative error stays below 1.2e-6 down to -4. f64 uses erf. Where all results of a kernel are bfloat16, `short_form` is
as exact as they are and seven bits more: a relative error below 1.1e-5.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from rushlight.loops import coefficients as table
from rushlight.loops.expansions import expansion
from rushlight.loops.expr import Value, abs_, bitcast, call, fma, gt, min_, neg, select
from rushlight.loops.math.exponential import MAGIC
from rushlight.loops.pairs import INTEGER, horner, like, paired_horner, power_of_two

# p(9) is 2**-62: the polynomial, fitted to t = 4, is still falling there, and beyond it gelu is max(x, 0).
FAR = 9.0
# log2 p(t) to 8e-6 up to t = 5, and falling from there on; 2**x - 1 over x to 3.7e-6
SHORT_TAIL = (-1.0, -1.1510300636291504, -0.45925870537757874, -0.05293316766619682, 0.007880805060267448,
              -0.0007345611229538918, 3.1305702577810735e-05)
SHORT_EXP2 = (0.6931241750717163, 0.24024099111557007, 0.055906426161527634, 0.009582852013409138)


def modest_exp2(x: Value, series: Sequence[float]) -> Value:
    """2**x where that is a normal number; `series` is (2**r - 1) / r."""
    magic = MAGIC[x.dtype]
    shifted = x + magic
    r = x - (shifted - magic)
    k = bitcast(shifted, INTEGER[x.dtype]) - bitcast(like(x, magic), INTEGER[x.dtype])
    return fma(r, horner(r, series), like(x, 1)) * power_of_two(k, x.dtype)


def tail(x: Value) -> tuple[Value, Value]:
    """(t, p(t)) for t = |x| limited to FAR."""
    t = min_(like(x, FAR), abs_(x))
    return t, modest_exp2(paired_horner(t, table.NORMAL_TAIL_LOG2["f32"]), table.EXP2["f32"])


def short_form(value: Value) -> Value | None:
    """A call of gelu or its slope in f32, good enough for a result of bfloat16; None for others."""
    if value.op != "call" or value.attr not in ("gelu", "gelu_slope") or value.dtype != "f32":
        return None
    x = value.args[0]
    t = min_(like(x, FAR), abs_(x))
    p = modest_exp2(paired_horner(t, SHORT_TAIL), SHORT_EXP2)
    if value.attr == "gelu":
        return of_tail(x, t, p)
    return slope_of_tail(x, t, p, modest_exp2(t * t * (-0.5 / math.log(2)), SHORT_EXP2))


def of_tail(x: Value, t: Value, p: Value) -> Value:
    # The product instead of max(x, 0) makes -inf NaN, as x times the distribution function is there.
    return fma(neg(t), p, x * select(gt(x, 0), like(x, 1), like(x, 0)))


def slope_of_tail(x: Value, t: Value, p: Value, density: Value) -> Value:
    size = t * (density * (1 / math.sqrt(2 * math.pi)))
    # Both halves are positive sums: the slope at -x is 1 minus the slope at x.
    return select(gt(x, 0), 1 - p + size, p - size)


@expansion("gelu")
def gelu(x: Value) -> Value:
    if x.dtype == "f64":
        return 0.5 * x * (1 + call("erf", x * math.sqrt(0.5)))
    return of_tail(x, *tail(x))


@expansion("gelu_slope")
def gelu_slope(x: Value) -> Value:
    if x.dtype == "f64":
        below = 0.5 * (1 + call("erf", x * math.sqrt(0.5)))
        return below + x * (call("exp", -0.5 * x * x) * (1 / math.sqrt(2 * math.pi)))
    t, p = tail(x)
    return slope_of_tail(x, t, p, modest_exp2(t * t * (-0.5 / math.log(2)), table.EXP2["f32"]))
