"""Functions of complex numbers in terms of real ones.

Every function takes c64 or c128 Values and returns one of the same dtype (a real one for abs and angle). The
branch cuts are the usual ones: continuous from above for positive, from below for negative zeros. Infinities and NaN
give what C's Annex G and the array API standard say; where those leave a sign or a part open, what PyTorch gives.
"""

from __future__ import annotations

import math

from rushlight.loops.expansions import complex_expansion
from rushlight.loops.expr import (
    Value,
    abs_,
    call,
    complex_,
    const,
    copysign,
    eq,
    ge,
    gt,
    imag,
    lt,
    max_,
    min_,
    ne,
    neg,
    real,
    select,
    sqrt,
)


def infinite(x: Value) -> Value:
    return eq(abs_(x), math.inf)


def finite(x: Value) -> Value:
    """Neither infinite nor NaN."""
    return lt(abs_(x), math.inf)


def is_nan(x: Value) -> Value:
    return ne(x, x)


def parts(z: Value) -> tuple[Value, Value]:
    return real(z), imag(z)


def times_i(z: Value) -> Value:
    return complex_(neg(imag(z)), real(z))


def over_i(z: Value) -> Value:
    return complex_(imag(z), neg(real(z)))


@complex_expansion("abs")
def absolute(z: Value) -> Value:
    return call("hypot", *parts(z))


@complex_expansion("angle")
def angle(z: Value) -> Value:
    return call("atan2", imag(z), real(z))


@complex_expansion("sgn")
def sgn(z: Value) -> Value:
    size = call("hypot", *parts(z))
    zero = eq(size, 0)
    return select(zero, const(0, z.dtype), z / select(zero, const(1, size.dtype), size))


@complex_expansion("exp")
def exp(z: Value) -> Value:
    a, b = parts(z)
    size = call("exp", a)
    flat = eq(b, 0)
    # A real argument stays real even where exp overflows and 0 * inf would be NaN; exp(-inf) is 0 in any direction.
    lost = infinite(a) & ~finite(b)
    re = select(flat | lost, size, size * call("cos", b))
    return complex_(re, select(flat, b, select(lost & lt(a, 0), copysign(size, b), size * call("sin", b))))


@complex_expansion("exp2")
def exp2(z: Value) -> Value:
    return exp(z * math.log(2))


@complex_expansion("expm1")
def expm1(z: Value) -> Value:
    # expm1(a) cos b - 2 sin(b/2)**2, + i exp(a) sin b: no cancellation near 0.
    a, b = parts(z)
    half = call("sin", b * 0.5)
    less, size = call("expm1", a), call("exp", a)
    flat, lost = eq(b, 0), infinite(a) & ~finite(b)
    re = select(flat | lost, less, less * call("cos", b) - 2 * (half * half))
    return complex_(re, select(flat, b, select(lost & lt(a, 0), copysign(size, b), size * call("sin", b))))


@complex_expansion("log")
def log(z: Value) -> Value:
    return complex_(log_abs(z), angle(z))


def log_abs(z: Value) -> Value:
    """log|z|, accurate near |z| = 1 and at either end of the range."""
    a, b = abs_(real(z)), abs_(imag(z))
    large, small = max_(a, b), min_(a, b)
    # Near the unit circle: log1p((large - 1)(large + 1) + small**2) / 2.
    near = gt(large, 0.5) & lt(large, 2) & ~is_nan(a) & ~is_nan(b)
    inside = (large - 1) * (large + 1) + small * small
    far = call("log", call("hypot", a, b))
    return select(near, call("log1p", select(near, inside, const(0, a.dtype))) * 0.5, far)


@complex_expansion("log2")
def log2(z: Value) -> Value:
    return log(z) * (1 / math.log(2))


@complex_expansion("log10")
def log10(z: Value) -> Value:
    return log(z) * (1 / math.log(10))


@complex_expansion("log1p")
def log1p(z: Value) -> Value:
    # |1 + z|**2 - 1 = a (a + 2) + b**2 keeps small z accurate.
    a, b = parts(z)
    small = lt(max_(abs_(a), abs_(b)), 0.5)
    inside = select(small, a * (a + 2) + b * b, const(0, a.dtype))
    return complex_(select(small, call("log1p", inside) * 0.5, log_abs(z + 1)), call("atan2", b, a + 1))


@complex_expansion("sqrt")
def sqrt_(z: Value) -> Value:
    a, b = parts(z)
    # Halving in advance keeps |z| from overflowing; t = sqrt((|a| + |z|) / 2).
    size = call("hypot", a * 0.5, b * 0.5)
    t = sqrt(size + abs_(a) * 0.5)
    zero = eq(t, 0)
    other = abs_(b) * 0.5 / select(zero, const(1, a.dtype), t)
    right = ge(a, 0)
    re, im = select(right, t, other), copysign(select(right, other, t), b)
    infinite = eq(abs_(b), math.inf)
    re = select(infinite, abs_(b), select(zero, const(0, a.dtype), re))
    return complex_(re, select(infinite | zero, b, im))


@complex_expansion("rsqrt")
def rsqrt(z: Value) -> Value:
    return 1 / sqrt_(z)


@complex_expansion("sigmoid")
def sigmoid(z: Value) -> Value:
    return 1 / (1 + exp(neg(z)))


@complex_expansion("sinh")
def sinh(z: Value) -> Value:
    a, b = parts(z)
    flat = eq(b, 0)
    odd = call("sinh", a)
    re = select(flat, odd, odd * call("cos", b))
    re = select(finite(b), re, select(eq(a, 0), a, select(infinite(a), abs_(a), re)))
    return complex_(re, select(flat, b, call("cosh", a) * call("sin", b)))


@complex_expansion("cosh")
def cosh(z: Value) -> Value:
    a, b = parts(z)
    flat = eq(b, 0)
    even = call("cosh", a)
    re = select(flat | (infinite(a) & ~finite(b)), even, even * call("cos", b))
    im = select(flat, select(is_nan(a), b, b * copysign(const(1, a.dtype), a)), call("sinh", a) * call("sin", b))
    return complex_(re, select(eq(a, 0) & ~finite(b), const(0, a.dtype), im))


@complex_expansion("tanh")
def tanh(z: Value) -> Value:
    # With t = tan b and s = sinh a: (cosh a * s (1 + t**2) + i t) / (1 + s**2 (1 + t**2)).
    a, b = parts(z)
    limited = max_(const(-20, a.dtype), min_(const(20, a.dtype), a))
    s, c = call("sinh", limited), call("cosh", limited)
    cosine, sine = call("cos", b), call("sin", b)
    down = s * s + cosine * cosine
    inside = complex_(select(eq(a, 0), a, s * c / down), select(eq(b, 0), b, sine * cosine / down))
    # Far out 1 / down is 4 exp(-2 |a|), and at infinity the direction is lost: only a sign is left of the second part.
    far, end = gt(abs_(a), 20), infinite(a)
    small = call("exp", -2 * select(far, abs_(a), const(20, a.dtype)))
    edge_im = select(end, copysign(const(0, a.dtype), sine * cosine), 4 * sine * cosine * small)
    edge_re = select(end | finite(b), copysign(const(1, a.dtype), a), const(math.nan, a.dtype))
    return select(far, complex_(edge_re, edge_im), inside)


@complex_expansion("sin")
def sin(z: Value) -> Value:
    return times_i(sinh(over_i(z)))


@complex_expansion("cos")
def cos(z: Value) -> Value:
    return cosh(times_i(z))


@complex_expansion("tan")
def tan(z: Value) -> Value:
    return over_i(tanh(times_i(z)))


@complex_expansion("asinh")
def asinh(z: Value) -> Value:
    return over_i(asin(times_i(z)))


@complex_expansion("asin")
def asin(z: Value) -> Value:
    """Hull, Fairgrieve and Tang's formulas: real part from atan2 of well-conditioned roots."""
    a, b = parts(z)
    minus, plus = sqrt_(complex_(1 - a, neg(b))), sqrt_(complex_(1 + a, b))
    re = call("atan2", a, real(minus * plus))
    im = call("asinh", real(conj_product(minus, plus)))
    end = infinite(a) | infinite(b)
    re = select(end, call("atan2", a, abs_(b)), select(eq(a, 0) & is_nan(b), a, re))
    return complex_(re, copysign(select(end, const(math.inf, a.dtype), im), b))


def conj_product(u: Value, v: Value) -> Value:
    """conj(u) * v as a complex whose real part is Im(conj(u) v)."""
    cross = real(u) * imag(v) - imag(u) * real(v)
    return complex_(cross, real(u) * real(v) + imag(u) * imag(v))


@complex_expansion("acos")
def acos(z: Value) -> Value:
    a, b = parts(z)
    minus, plus = sqrt_(complex_(1 - a, neg(b))), sqrt_(complex_(1 + a, b))
    re = 2 * call("atan2", real(minus), real(plus))
    # Im(conj(sqrt(1 + z)) sqrt(1 - z))
    cross = real(plus) * imag(minus) - imag(plus) * real(minus)
    end = infinite(a) | infinite(b)
    re = select(end, call("atan2", abs_(b), a), select(eq(a, 0) & is_nan(b), const(math.pi / 2, a.dtype), re))
    return complex_(re, copysign(select(end, const(math.inf, a.dtype), call("asinh", cross)), neg(b)))


@complex_expansion("acosh")
def acosh(z: Value) -> Value:
    minus, plus = sqrt_(z - 1), sqrt_(z + 1)
    re = call("asinh", real(minus) * real(plus) + imag(minus) * imag(plus))
    im = 2 * call("atan2", imag(minus), real(plus))
    a, b = parts(z)
    end = infinite(a) | infinite(b)
    im = select(end, call("atan2", b, a), select(eq(a, 0) & is_nan(b), const(math.pi / 2, a.dtype), im))
    return complex_(select(end, const(math.inf, a.dtype), re), im)


@complex_expansion("atanh")
def atanh(z: Value) -> Value:
    # (log1p(4 a / ((1 - a)**2 + b**2)) / 4, atan2(2 b, (1 - a)(1 + a) - b**2) / 2)
    a, b = parts(z)
    size, end = abs_(a), infinite(a) | infinite(b)
    down = (1 - size) * (1 - size) + b * b
    span = call("hypot", a, b)
    near = lt(down, math.inf)
    ratio = select(near, size / down, size / span / span)   # |z|**2 may overflow where 1 / z does not underflow
    re = copysign(select(end, const(0, a.dtype), call("log1p", 4 * ratio) * 0.25), a)
    im = call("atan2", 2 * b, (1 - a) * (1 + a) - b * b) * 0.5
    im = select(end & ~is_nan(b), copysign(const(math.pi / 2, a.dtype), b), im)
    return complex_(select(eq(a, 0) & is_nan(b), a, re), im)


@complex_expansion("atan")
def atan(z: Value) -> Value:
    return over_i(atanh(times_i(z)))


@complex_expansion("sinc")
def sinc(z: Value) -> Value:
    transposed = z * math.pi
    zero = eq(z, 0)
    return select(zero, const(1, z.dtype), sin(transposed) / select(zero, const(1, z.dtype), transposed))


@complex_expansion("pow")
def power(z: Value, w: Value) -> Value:
    """exp(w log z); 0 to a power with positive real part is 0, anything to the power 0 is 1."""
    value = exp(w * log(select(eq(z, 0), const(1, z.dtype), z)))
    one, zero = const(1, z.dtype), const(0, z.dtype)
    infinite = const(math.inf, real(z).dtype)
    at_zero = select(gt(real(w), 0), zero, complex_(infinite, const(math.nan, infinite.dtype)))
    return select(eq(w, 0) & ne(real(w), math.nan), one, select(eq(z, 0), at_zero, value))


@complex_expansion("logaddexp")
def logaddexp(a: Value, b: Value) -> Value:
    """The larger real part is taken out, so that nothing overflows."""
    first = ge(real(a), real(b))
    return select(first, a, b) + log1p(exp(select(first, b, a) - select(first, a, b)))
