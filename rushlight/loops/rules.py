"""Derivatives of the named functions, one rule each.

A rule takes the gradient g of the result, the result y (the call itself, so that a saved output can stand in for
it) and the arguments, and leaves one gradient per argument, None where there is none. Rules are Values again, so
every order of derivative exists. Complex arguments follow PyTorch's convention: the gradient of a holomorphic
function is g times the conjugate of its derivative. Refuses nothing: a function without a rule here is an error in
`derive`, and functions that are flat almost everywhere say so with `flat`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from rushlight.loops.expr import (
    PART,
    Value,
    and_,
    call,
    complex_,
    const,
    eq,
    ge,
    gt,
    imag,
    le,
    lt,
    ne,
    neg,
    not_,
    or_,
    real,
    select,
    sqrt,
    trunc,
)

Gradients = tuple[Value | None, ...]
RULES: dict[str, Callable[..., Gradients]] = {}


def conj(z: Value) -> Value:
    """Complex conjugate; a real is its own."""
    return complex_(real(z), neg(imag(z))) if z.dtype in PART else z


def root(x: Value) -> Value:
    """Square root, real or complex."""
    return call("sqrt", x) if x.dtype in PART else sqrt(x)


def rule(*names: str) -> Callable:
    """Registers `(g, y, *args) -> gradients` under every name."""

    def register(function: Callable[..., Gradients]) -> Callable[..., Gradients]:
        RULES.update(dict.fromkeys(names, function))
        return function

    return register


def slope(name: str, partial: Callable[[Value, Value], Value]) -> None:
    """A one-argument function with derivative partial(y, x); holomorphic where complex."""
    RULES[name] = lambda g, y, x: (g * conj(partial(y, x)),)


def flat(*names: str) -> None:
    """Functions whose derivative is 0 wherever it exists."""
    RULES.update(dict.fromkeys(names, lambda g, y, *args: (None,) * len(args)))


LN2, LN10 = math.log(2), math.log(10)
TWO_OVER_SQRT_PI = 2 / math.sqrt(math.pi)

slope("exp", lambda y, x: y)
slope("exp_of_negative", lambda y, x: y)
slope("weight_of_score", lambda y, x: y)
slope("exp2", lambda y, x: y * LN2)
slope("expm1", lambda y, x: y + 1)
slope("log", lambda y, x: 1 / x)
slope("log2", lambda y, x: 1 / (x * LN2))
slope("log10", lambda y, x: 1 / (x * LN10))
slope("log1p", lambda y, x: 1 / (x + 1))
slope("sin", lambda y, x: call("cos", x))
slope("cos", lambda y, x: neg(call("sin", x)))
slope("tan", lambda y, x: 1 + y * y)
slope("sinh", lambda y, x: call("cosh", x))
slope("cosh", lambda y, x: call("sinh", x))
slope("tanh", lambda y, x: 1 - y * y)
slope("asin", lambda y, x: 1 / root(1 - x * x))
slope("acos", lambda y, x: -1 / root(1 - x * x))
slope("atan", lambda y, x: 1 / (x * x + 1))
slope("asinh", lambda y, x: 1 / root(x * x + 1))
slope("acosh", lambda y, x: 1 / root(x * x - 1) if x.dtype not in PART else 1 / (root(x - 1) * root(x + 1)))
slope("atanh", lambda y, x: 1 / (1 - x * x))
slope("sqrt", lambda y, x: 0.5 / y)
slope("rsqrt", lambda y, x: -0.5 * (y * y * y))
slope("sigmoid", lambda y, x: y * (1 - y))
slope("logit", lambda y, x: 1 / (x * (1 - x)))
slope("log_sigmoid", lambda y, x: call("sigmoid", neg(x)))
slope("softplus", lambda y, x: call("sigmoid", x))
slope("erf", lambda y, x: TWO_OVER_SQRT_PI * call("exp", neg(x * x)))
slope("erfc", lambda y, x: -TWO_OVER_SQRT_PI * call("exp", neg(x * x)))
slope("erfcx", lambda y, x: 2 * x * y - TWO_OVER_SQRT_PI)
slope("erfinv", lambda y, x: (0.5 * math.sqrt(math.pi)) * call("exp", y * y))
slope("ndtr", lambda y, x: (1 / math.sqrt(2 * math.pi)) * call("exp", -0.5 * (x * x)))
slope("ndtri", lambda y, x: math.sqrt(2 * math.pi) * call("exp", 0.5 * (y * y)))
slope("log_ndtr", lambda y, x: math.sqrt(2 / math.pi) / call("erfcx", x * -math.sqrt(0.5)))
slope("gelu", lambda y, x: call("gelu_slope", x))
slope("gelu_slope", lambda y, x: (2 - x * x) * ((1 / math.sqrt(2 * math.pi)) * call("exp", -0.5 * (x * x))))
slope("lgamma", lambda y, x: call("digamma", x))
slope("digamma", lambda y, x: call("polygamma:1", x))
slope("i0", lambda y, x: call("i1", x))
slope("i0e", lambda y, x: call("i1e", x) - sign(x) * y)
flat("floor_divide", "nextafter", "heaviside", "isnan", "gcd", "lcm")


def sign(x: Value) -> Value:
    """-1, 0 or 1; 0 for NaN."""
    one, zero = const(1, x.dtype), const(0, x.dtype)
    return select(gt(x, 0), one, select(lt(x, 0), neg(one), zero))


def order_of(name: str) -> int:
    """The static order carried in a name such as "polygamma:2"."""
    return int(name.partition(":")[2])


@rule("polygamma")
def _polygamma(g: Value, y: Value, x: Value) -> Gradients:
    return (g * call(f"polygamma:{order_of(y.attr) + 1}", x),)


@rule("zeta")
def _zeta(g: Value, y: Value, x: Value, q: Value) -> Gradients:
    return None, g * neg(x) * call("zeta", x + 1, q)


@rule("i1")
def _i1(g: Value, y: Value, x: Value) -> Gradients:
    safe = select(eq(x, 0), const(1, x.dtype), x)
    return (g * select(eq(x, 0), const(0.5, x.dtype), call("i0", x) - y / safe),)


@rule("i1e")
def _i1e(g: Value, y: Value, x: Value) -> Gradients:
    safe = select(eq(x, 0), const(1, x.dtype), x)
    partial = call("i0e", x) - y * (sign(x) + 1 / safe)
    return (g * select(eq(x, 0), const(0.5, x.dtype), partial),)


@rule("sinc")
def _sinc(g: Value, y: Value, x: Value) -> Gradients:
    safe = x * math.pi
    partial = (call("cos", safe) - y) / select(eq(x, 0), const(1, x.dtype), x)
    return (g * conj(select(eq(x, 0), const(0, x.dtype), partial)),)


@rule("abs")
def _complex_abs(g: Value, y: Value, z: Value) -> Gradients:
    return (g * call("sgn", z),)


@rule("angle")
def _complex_angle(g: Value, y: Value, z: Value) -> Gradients:
    # d atan2(im, re): (-im, re) / |z|**2, taken as 0 at the origin.
    size = real(z) * real(z) + imag(z) * imag(z)
    zero = eq(size, 0)
    factor = select(zero, const(0, g.dtype), g / select(zero, const(1, g.dtype), size))
    return (complex_(neg(imag(z)) * factor, real(z) * factor),)


@rule("sgn")
def _complex_sgn(g: Value, y: Value, z: Value) -> Gradients:
    # (g - Re(g conj(y)) y) / |z|, 0 at the origin.
    size = call("abs", z, dtype=PART[z.dtype])
    zero = eq(size, 0)
    along = real(g) * real(y) + imag(g) * imag(y)
    partial = (g - y * along) / select(zero, const(1, size.dtype), size)
    return (select(zero, const(0, z.dtype), partial),)


@rule("pow")
def _pow(g: Value, y: Value, x: Value, n: Value) -> Gradients:
    zero = const(0, x.dtype)
    base = select(eq(n, 0), zero, g * conj(n * call("pow", x, n - 1)))
    if x.dtype in PART:
        flat_there = select(eq(n, 0), const(True, "b1"), and_(eq(x, 0), ge(real(n), 0)))
    else:
        flat_there = select(eq(n, 0), ge(x, 0), and_(eq(x, 0), ge(n, 0)))
    exponent = select(flat_there, zero, g * conj(y * call("log", x)))
    return base, exponent


@rule("atan2")
def _atan2(g: Value, y: Value, a: Value, b: Value) -> Gradients:
    size = a * a + b * b
    factor = g / size
    return factor * b, factor * neg(a)


@rule("hypot")
def _hypot(g: Value, y: Value, a: Value, b: Value) -> Gradients:
    return g * (a / y), g * (b / y)


@rule("fmod")
def _fmod(g: Value, y: Value, a: Value, b: Value) -> Gradients:
    return g, neg(g) * trunc(a / b)


@rule("xlogy")
def _xlogy(g: Value, y: Value, x: Value, v: Value) -> Gradients:
    masked = and_(eq(x, 0), le(v, 0))
    return select(masked, const(0, x.dtype), g * call("log", v)), g * x / v


@rule("xlog1py")
def _xlog1py(g: Value, y: Value, x: Value, v: Value) -> Gradients:
    masked = and_(eq(x, 0), le(v, -1))
    return select(masked, const(0, x.dtype), g * call("log1p", v)), g * x / (v + 1)


@rule("logaddexp")
def _logaddexp(g: Value, y: Value, a: Value, b: Value) -> Gradients:
    return g * call("sigmoid", a - b), g * call("sigmoid", b - a)


@rule("maximum")
def _maximum(g: Value, y: Value, a: Value, b: Value) -> Gradients:
    return _extreme(g, eq(a, b), lt(a, b), lt(b, a))


@rule("minimum")
def _minimum(g: Value, y: Value, a: Value, b: Value) -> Gradients:
    return _extreme(g, eq(a, b), gt(a, b), gt(b, a))


def _extreme(g: Value, tie: Value, first_loses: Value, second_loses: Value) -> Gradients:
    # A tie is shared evenly; a NaN neither wins nor loses, so both sides receive the gradient.
    zero, half = const(0, g.dtype), g * 0.5
    return select(tie, half, select(first_loses, zero, g)), select(tie, half, select(second_loses, zero, g))


@rule("fmax")
def _fmax(g: Value, y: Value, a: Value, b: Value) -> Gradients:
    return _pick(g, or_(ge(a, b), ne(b, b)))


@rule("fmin")
def _fmin(g: Value, y: Value, a: Value, b: Value) -> Gradients:
    return _pick(g, or_(le(a, b), ne(b, b)))


def _pick(g: Value, first: Value) -> Gradients:
    zero = const(0, g.dtype)
    return select(first, g, zero), select(not_(first), g, zero)


def rule_of(name: str) -> Callable[..., Gradients] | None:
    """The rule of a function, static order stripped."""
    return RULES.get(name.partition(":")[0])
