"""The regularised incomplete gamma functions.

Enters: real tensors a and x that broadcast. Leaves: P(a, x) or Q(a, x) = 1 - P, computed in float64 and rounded to the
common dtype. Refuses: integers and complex numbers, and gradients with respect to a, like PyTorch.

Up to a = LARGE one kernel has a power series for x below a or 1 and a continued fraction for the rest, four terms at a
time, both times x**a exp(-x) / gamma(a + 1); its loops end when no lane of a vector moves. Beyond, the tail of the
integrand, which is then nearly normal, is integrated by Gauss-Legendre quadrature.
"""

from __future__ import annotations

import functools
import math
from typing import Any

from rushlight._C import float32, float64
from rushlight.base.promotion import result_type_of
from rushlight.codegen.schedule.forms.launch import Launch, Schedule, grain_of
from rushlight.definitions.pointwise.checks import is_complex, is_integral
from rushlight.loops import coefficients as table
from rushlight.loops.expr import (
    Value,
    abs_,
    and_,
    cast,
    const,
    eq,
    floor,
    fma,
    ge,
    gt,
    le,
    load,
    lt,
    max_,
    min_,
    neg,
    not_,
    select,
    sqrt,
    var,
)
from rushlight.loops.math.exponential import exp_parts, log_of_sum
from rushlight.loops.nest import Assign, For, Local, Nest, Statement, Store, operands, rows
from rushlight.loops.pairs import horner, like, pair_add, pair_divide, pair_scale, paired_horner, quick_sum, scale
from rushlight.op import Composite, Library, Spec, find_op
from rushlight.rules.levels import shape_is_enough
from rushlight.rules.out import overwrite

LARGE = 1000.0   # a from which on the quadrature serves
SMALL = 8        # a below which gamma is a product
TURNS = 200      # of four terms each: near x = a the series needs sqrt(74 a) of them
ENOUGH = {"f32": 2.0**-30, "f64": 2.0**-53}   # of a sum, what its next terms may leave out
COST = 32        # elements of a plain op that one of these takes the time of
# Nodes in (0, 1) and weights of the 30-point rule on [-1, 1]; the others are their mirror images.
NODES = (
    (0.051471842555317696, 0.10285265289355884), (0.15386991360858355, 0.1017623897484055),
    (0.25463692616788985, 0.099593420586795267), (0.35270472553087811, 0.09636873717464426),
    (0.44703376953808918, 0.092122522237786129), (0.5366241481420199, 0.08689978720108298),
    (0.62052618298924286, 0.080755895229420215), (0.6978504947933158, 0.073755974737705206),
    (0.76777743210482619, 0.065974229882180495), (0.8295657623827684, 0.057493156217619066),
    (0.88256053579205268, 0.048402672830594053), (0.92620004742927433, 0.03879919256962705),
    (0.96002186496830751, 0.028784707883323369), (0.98366812327974721, 0.018466468311090959),
    (0.99689348407464954, 0.0079681924961666056),
)


def local(name: str) -> Value:
    return var(name, "f64")


def leading_factor(a: Value, x: Value) -> Value:
    """x**a exp(-x) / gamma(a + 1) for positive a and x, the exponent as a pair.

    gamma(a + 1) is a product of up to SMALL factors times a polynomial in a's fraction, or Stirling's formula; there
    x / a takes the place of x, so that what is large cancels before it is rounded.
    """
    zero, one = like(a, 0), like(a, 1)
    stirling = ge(a, SMALL)
    ratio, lost = pair_divide((x, zero), (select(stirling, a, one), zero))
    logarithm = log_of_sum(ratio, lost)
    exponent = pair_add(pair_scale(quick_sum(*logarithm), a), (neg(x), zero))
    exponent = pair_add(exponent, (select(stirling, a, zero), zero))
    inverse = 1 / max_(like(a, SMALL), a)
    series = inverse * horner(inverse * inverse, table.STIRLING["f64"])
    exponent = pair_add(exponent, (select(stirling, neg(series), zero), zero))
    (head, low), n = exp_parts(exponent[0], select(lt(abs_(exponent[0]), 800), exponent[1], zero))
    limited = min_(like(a, SMALL), a)
    whole = floor(limited)
    f = limited - whole
    product = one
    for k in range(1, SMALL):
        product = product * select(ge(whole, k), f + k, one)
    small = paired_horner(f - 0.5, table.INVERSE_GAMMA["f64"])
    factor = select(stirling, sqrt(inverse * (1 / (2 * math.pi))), small) / select(stirling, one, product)
    return scale((head + low) * factor, n)


def series(a: Value, x: Value, wanted: Value, enough: float) -> tuple[Statement, ...]:
    """P(a, x) over the leading factor, for x below a or 1: the sum of x**k / ((a + 1) ... (a + k)), four at a time."""
    last, term, total = local("last"), local("term"), local("total")
    d = [last + k for k in range(1, 5)]
    right = d[2] * d[3]
    inverse = 1 / (d[0] * d[1] * right)
    # x d2 d3 d4 + x**2 d3 d4 + x**3 d4 + x**4
    top = x * fma(right, d[1] + x, x * x * (d[3] + x))
    step = term * inverse
    moves = gt(term, total * enough)   # a lane that is done keeps its sum, whatever its neighbours need
    return (
        Local("last", a), Local("term", like(a, 1)), Local("total", like(a, 1)),
        For("turn", const(0, "i64"), const(TURNS, "i64"), (
            Local("step", step), Local("moves", moves),
            Assign("total", select(var("moves", "b1"), fma(local("step"), top, total), total)),
            Assign("term", select(var("moves", "b1"), local("step") * (x * x) * (x * x), term)),
            Assign("last", d[3]),
        ), going=and_(wanted, moves)),
    )


def fraction(a: Value, x: Value, wanted: Value, enough: float) -> tuple[Statement, ...]:
    """Q(a, x) over a times the leading factor, for x above both a and 1: numerators and denominators of a continued
    fraction, divided by the last denominator after every four steps; their quotient is `value`."""
    k, b, value = local("k"), local("b"), local("value")
    top, down = (local("top"), value), (local("down"), like(a, 1))
    for step in range(1, 5):
        count = k + step
        numerator, plus = count * (a - count), b + 2 * step
        top = top[1], fma(plus, top[1], numerator * top[0])
        down = down[1], fma(plus, down[1], numerator * down[0])
    inverse = 1 / down[1]
    start = 1 / (x + 1 - a)
    moves = gt(abs_(local("moved")), abs_(value) * (16 * enough))
    return (
        Local("k", like(a, 0)), Local("b", x + 1 - a), Local("top", like(a, 0)), Local("value", start),
        Local("down", start), Local("moved", like(a, math.inf)),
        For("turn", const(0, "i64"), const(TURNS, "i64"), (
            Local("moves", moves), Local("shrink", inverse),
            Local("before", top[0]), Local("below", down[0]), Local("next", top[1]),
            Local("change", fma(local("next"), local("shrink"), neg(value))),
            Assign("moved", select(var("moves", "b1"), local("change"), local("moved"))),
            Assign("value", select(var("moves", "b1"), local("next") * local("shrink"), value)),
            Assign("top", local("before") * local("shrink")), Assign("down", local("below") * local("shrink")),
            Assign("k", k + 4), Assign("b", b + 8),
        ), going=and_(wanted, moves)),
    )


def incomplete_gamma_nest(code: str, upper: bool) -> Nest:
    """P or Q of every pair of numbers, a up to LARGE."""
    i, a, x = var("i"), local("a"), local("x")
    given = [Local(name, cast(load(k, i, code), "f64")) for k, name in enumerate(("given.a", "given.x"))]
    first, second = local("given.a"), local("given.x")
    inside = and_(and_(gt(first, 0), le(first, LARGE)), and_(gt(second, 0), lt(second, math.inf)))
    bound = max_(a, like(a, 1))
    below = le(x, bound)
    p = local("factor") * local("total")
    q = local("factor") * a * local("value")
    result = select(below, 1 - p, q) if upper else select(below, p, 1 - q)
    one, enough = like(a, 1), ENOUGH[code]
    body = rows(
        *given, Local("a", select(inside, first, one)), Local("x", select(inside, second, one)),
        Local("factor", leading_factor(a, x)),
        Local("near", min_(x, bound)), Local("far", min_(max_(x, bound), like(x, 1e30))),
        *series(a, local("near"), below, enough), *fraction(a, local("far"), not_(below), enough),
        Store(2, i, cast(select(inside, result, limit(first, second, upper)), code)), vector=True,
    )
    return Nest("incomplete_gamma", operands([code] * 2, [code]), (), body)


def limit(a: Value, x: Value, upper: bool) -> Value:
    """At the ends: all of the mass lies below x = inf and above x = 0; a = 0 is a point mass at 0."""
    endless = eq(x, math.inf)
    one = (endless & ge(a, 0) & lt(a, math.inf)) | (eq(a, 0) & gt(x, 0))
    zero = (eq(x, 0) & gt(a, 0)) | (eq(a, math.inf) & ge(x, 0) & lt(x, math.inf))
    whole, none = (0.0, 1.0) if upper else (1.0, 0.0)
    return select(one, like(a, whole), select(zero, like(a, none), like(a, math.nan)))


class IncompleteGamma(Library):
    """P (or Q, if `upper`) of dense tensors of one shape, float32 or float64; a between LARGE and inf gives NaN."""

    schema = "_incomplete_gamma(Tensor input, Tensor other, bool upper) -> Tensor"
    function = method = out = differentiable = False
    batch = "pointwise"

    def meta(self, input, other, upper):
        return Spec(input.shape, input.dtype)

    def launches(self, args: tuple) -> Schedule:
        input, _, upper = args
        code = input.dtype.code
        nest = functools.partial(incomplete_gamma_nest, code, upper)
        return Schedule((Launch((code, upper), nest, (0, 1, 2), (), math.prod(input.shape), grain_of(COST)),))


def quadrature(a: Any, x: Any) -> tuple[Any, Any]:
    """(P, Q) for large a: the smaller tail by quadrature over some ten standard deviations, the other from it."""
    peak = a - 1
    log_peak, width = peak.log(), peak.sqrt()
    upper = x > peak
    far_up = (peak + 11.5 * width).maximum(x + 6 * width)
    far_down = (peak - 7.5 * width).minimum(x - 5 * width).clamp_min(0)
    end = far_up.where(upper, far_down)
    middle, half = (x + end) / 2, (end - x) / 2
    total = 0
    for node, weight in NODES:
        for t in (middle + half * node, middle - half * node):
            total = total + weight * (peak * (t.log() - log_peak) - (t - peak)).exp()
    tail = (total * half * (peak * (log_peak - 1) - a.lgamma()).exp()).abs()
    return (1 - tail).where(upper, tail), tail.where(upper, 1 - tail)


def one_of(a: Any, x: Any, which: int) -> Any:
    """P (0) or Q (1) for tensors of one shape, float32 or float64."""
    result = find_op("_incomplete_gamma")(a.contiguous(), x.contiguous(), bool(which))
    large = (a > LARGE) & (a < float("inf")) & (x > 0) & (x < float("inf"))
    if bool(large.any()):
        wide = quadrature(a.double().where(large, LARGE), x.double().where(large, LARGE))[which]
        result = wide.to(result.dtype).where(large, result)
    return result


def regularized(name: str, input: Any, other: Any, which: int) -> Any:
    """One of the two functions, in the common dtype."""
    if (is_integral(input) and is_integral(other)) or is_complex(input) or is_complex(other):
        raise NotImplementedError(f"\"{name}\" not implemented for '{input.dtype.name}'")
    dtype = result_type_of((input, other))
    if shape_is_enough(name, input) or shape_is_enough(name, other):   # nothing to choose methods by
        return (input + other).to(dtype)
    wide = float64 if dtype == float64 else float32
    a, x = find_op("broadcast_tensors")([input.to(wide), other.to(wide)])
    return one_of(a, x, which).to(dtype)


def density(name: str, input: Any, other: Any) -> Any:
    """The derivative of P in x; refuses one in a."""
    if input.requires_grad:
        raise NotImplementedError(f"the derivative for '{name}: input' is not implemented. Detach it.")
    return (-other + (input - 1) * other.log() - input.lgamma()).exp()


class Igamma(Composite):
    """The lower regularised incomplete gamma function P(input, other)."""

    schema = "igamma(Tensor input, Tensor other) -> Tensor"
    aliases = ("special.gammainc",)
    batch = "pointwise"

    def compute(self, input, other):
        return regularized("igamma", input, other, 0)

    def vjp(self, g, input, other):
        return {"other": g * density("igamma", input, other)}


class Igammac(Composite):
    """The upper regularised incomplete gamma function Q(input, other)."""

    schema = "igammac(Tensor input, Tensor other) -> Tensor"
    aliases = ("special.gammaincc",)
    batch = "pointwise"

    def compute(self, input, other):
        return regularized("igammac", input, other, 1)

    def vjp(self, g, input, other):
        return {"other": -g * density("igammac", input, other)}


class IgammaInplace(Composite):
    """igamma written over its input."""

    schema = "igamma_(Tensor input, Tensor other) -> Tensor"
    function = False

    def compute(self, input, other):
        return overwrite("igamma_", input, input.igamma(other))


class IgammacInplace(Composite):
    """igammac written over its input."""

    schema = "igammac_(Tensor input, Tensor other) -> Tensor"
    function = False

    def compute(self, input, other):
        return overwrite("igammac_", input, input.igammac(other))
