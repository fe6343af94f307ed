"""Bessel and Airy functions.

Enters: real tensors; integers become the default float. Leaves: a floating dtype. Refuses: complex numbers and, like
PyTorch, half precision except for i0, i0e, i1 and i1e.
Each function joins a few Chebyshev fits (see fits.py); where a fit does not apply its argument is clamped into range.
"""

from __future__ import annotations

import math

from rushlight.definitions.pointwise import fits
from rushlight.loops.expr import select
from rushlight.op import Pointwise, Promote

NAN, INF = float("nan"), float("inf")
LONG = 16   # terms of a series from which on waiting for the one before counts


def chebyshev(s, t, terms: tuple[float, ...]):
    """The Chebyshev series at t in [-1, 1], by Clenshaw's recurrence; float32 drops the terms it cannot see.

    Of a long one, terms of even and odd degrees are series in u = 2 t**2 - 1 with the same recurrence: two chains of
    half the length.
    """
    if t.dtype == "f32":
        terms = [c for c in terms if abs(c) > 1e-9 * max(map(abs, terms))]
    if len(terms) < LONG:
        ahead, after = clenshaw(s, t + t, terms[1:])
        return s.fma(t, ahead, terms[0] - after)
    u = 2 * t * t - 1
    even, odd = (clenshaw(s, u + u, part) for part in (terms[2::2], terms[1::2]))
    return s.fma(t, odd[0] - odd[1], s.fma(u, even[0], terms[0] - even[1]))


def clenshaw(s, twice, terms: tuple[float, ...]):
    """The last two sums of Clenshaw's recurrence."""
    ahead = after = s.const(0, twice.dtype)
    for c in reversed(terms):
        ahead, after = s.fma(twice, ahead, c - after), ahead
    return ahead, after


class I0(Pointwise):
    """Modified Bessel function of the first kind, order 0."""

    schema = "i0(Tensor input) -> Tensor"
    aliases = ("special.i0",)
    promote = Promote.TO_FLOAT
    refuse = ("complex",)

    def expr(self, s, x):
        return s.i0(x)

    def vjp(self, s, g, input):
        return {"input": g * s.i1(input)}


class I0e(Pointwise):
    """exp(-|input|) * i0(input)."""

    schema = "i0e(Tensor input) -> Tensor"
    namespace = "special"
    method = inplace = False
    promote = Promote.TO_FLOAT
    refuse = ("complex",)

    def expr(self, s, x):
        return s.i0e(x)

    def vjp(self, s, g, input, result):
        return {"input": g * (s.i1e(input) - s.sign(input) * result)}


class I1(Pointwise):
    """Modified Bessel function of the first kind, order 1."""

    schema = "i1(Tensor input) -> Tensor"
    namespace = "special"
    method = inplace = False
    promote = Promote.TO_FLOAT
    refuse = ("complex",)

    def expr(self, s, x):
        return s.i1(x)

    def vjp(self, s, g, input, result):
        safe = s.where(s.eq(input, 0), 1, input)
        return {"input": g * s.where(s.eq(input, 0), 0.5, s.i0(input) - result / safe)}


class I1e(Pointwise):
    """exp(-|input|) * i1(input)."""

    schema = "i1e(Tensor input) -> Tensor"
    namespace = "special"
    method = inplace = False
    promote = Promote.TO_FLOAT
    refuse = ("complex",)

    def expr(self, s, x):
        return s.i1e(x)

    def vjp(self, s, g, input, result):
        safe = s.where(s.eq(input, 0), 1, input)
        slope = s.i0e(input) - result * (s.sign(input) + 1 / safe)
        return {"input": g * s.where(s.eq(input, 0), 0.5, slope)}


def bounded(s, x, at_zero: float, value):
    """`value` for positive x, its limit at 0, NaN below."""
    return s.where(s.eq(x, 0), at_zero, s.where(x < 0, NAN, value))


def scaled_k(s, x, order: int):
    """exp(x) K(x) for positive x."""
    near = s.minimum(s.where(x > 0, x, 1), 2)
    square = near * near / 2 - 1
    if order == 0:
        small = chebyshev(s, square, fits.K0_SMALL) - s.log(near / 2) * chebyshev(s, square, fits.I0_TINY)
        terms = fits.K0_LARGE
    else:
        small = chebyshev(s, square, fits.K1_SMALL) / near + s.log(near / 2) * near * chebyshev(s, square, fits.I1_TINY)
        terms = fits.K1_LARGE
    far = s.maximum(x, 2)
    return s.where(x <= 2, small * s.exp(near), chebyshev(s, 4 / far - 1, terms) / s.sqrt(far))


def oscillate(s, x, order: int, second: bool):
    """J (or Y) of x >= 8: an amplitude times the cosine (or sine) of a phase."""
    inverse = 8 / x
    t = 2 * inverse * inverse - 1
    p, q = (fits.P0, fits.Q0) if order == 0 else (fits.P1, fits.Q1)
    p, q = chebyshev(s, t, p), chebyshev(s, t, q) / x
    phase = x - (0.25 + 0.5 * order) * math.pi
    cos, sin = s.cos(phase), s.sin(phase)
    wave = p * sin + q * cos if second else p * cos - q * sin
    return wave * s.sqrt(2 / (math.pi * x))


def j_near(s, x, order: int):
    """J for |x| <= 8."""
    t = x * x / 32 - 1
    return chebyshev(s, t, fits.J0_SMALL) if order == 0 else x * chebyshev(s, t, fits.J1_SMALL)


def bessel_j(s, x, order: int):
    """J of any real x."""
    size = s.abs(x)
    far = oscillate(s, s.maximum(size, 8), order, second=False)
    if order:
        far = s.where(x < 0, -far, far)
    return select(~(size <= 8), far, j_near(s, s.minimum(s.maximum(x, -8), 8), order), rare=True)


def bessel_y(s, x, order: int):
    """Y of positive x; -inf at 0, NaN below."""
    near = s.minimum(s.where(x > 0, x, 1), 8)
    t = near * near / 32 - 1
    log = s.log(near) * j_near(s, near, order)
    if order == 0:
        small = chebyshev(s, t, fits.Y0_SMALL) + 2 / math.pi * log
    else:
        small = near * chebyshev(s, t, fits.Y1_SMALL) + 2 / math.pi * (log - 1 / near)
    far = oscillate(s, s.maximum(x, 8), order, second=True)
    return bounded(s, x, -INF, select(~(x <= 8), far, small, rare=True))


def airy(s, x):
    """Ai of any real x: a fit in the middle, a decay to the right, an oscillation to the left."""
    middle = chebyshev(s, (s.minimum(s.maximum(x, -6), 2) + 2) / 4, fits.AI_MIDDLE)
    right = s.maximum(x, 2)
    z = right * s.sqrt(right) * (2 / 3)
    t = (8 / 3 * math.sqrt(2)) / z - 1
    decay = chebyshev(s, t, fits.AI_LARGE) * s.exp(-z) / (2 * math.sqrt(math.pi) * s.sqrt(s.sqrt(right)))
    left = s.maximum(-x, 6)
    z = left * s.sqrt(left) * (2 / 3)
    t = 192 / (z * z) - 1
    p, q = chebyshev(s, t, fits.AI_P), chebyshev(s, t, fits.AI_Q) / z
    phase = z - math.pi / 4
    wave = (p * s.cos(phase) + q * s.sin(phase)) / (math.sqrt(math.pi) * s.sqrt(s.sqrt(left)))
    inner = select(x < -6, wave, s.where(x > 2, decay, middle), rare=True)
    return s.where(s.eq(x, -INF) | s.ne(x, x), NAN, inner)


class _Special(Pointwise):
    """Shared settings: published in `special` only, real, not half, without a derivative as in PyTorch."""

    abstract = True
    namespace = "special"
    method = inplace = False
    promote = Promote.TO_FLOAT
    refuse = ("complex", "half")
    differentiable = False


class AiryAi(_Special):
    """Airy function Ai."""

    schema = "airy_ai(Tensor input) -> Tensor"

    def expr(self, s, x):
        return airy(s, x)


class BesselJ0(_Special):
    """Bessel function of the first kind, order 0."""

    schema = "bessel_j0(Tensor input) -> Tensor"

    def expr(self, s, x):
        return bessel_j(s, x, 0)


class BesselJ1(_Special):
    """Bessel function of the first kind, order 1."""

    schema = "bessel_j1(Tensor input) -> Tensor"

    def expr(self, s, x):
        return bessel_j(s, x, 1)


class BesselY0(_Special):
    """Bessel function of the second kind, order 0."""

    schema = "bessel_y0(Tensor input) -> Tensor"

    def expr(self, s, x):
        return bessel_y(s, x, 0)


class BesselY1(_Special):
    """Bessel function of the second kind, order 1."""

    schema = "bessel_y1(Tensor input) -> Tensor"

    def expr(self, s, x):
        return bessel_y(s, x, 1)


class ModifiedBesselI0(_Special):
    """Modified Bessel function of the first kind, order 0."""

    schema = "modified_bessel_i0(Tensor input) -> Tensor"

    def expr(self, s, x):
        return s.i0(x)


class ModifiedBesselI1(_Special):
    """Modified Bessel function of the first kind, order 1."""

    schema = "modified_bessel_i1(Tensor input) -> Tensor"

    def expr(self, s, x):
        return s.i1(x)


class ModifiedBesselK0(_Special):
    """Modified Bessel function of the second kind, order 0."""

    schema = "modified_bessel_k0(Tensor input) -> Tensor"

    def expr(self, s, x):
        return bounded(s, x, INF, scaled_k(s, x, 0) * s.exp(-x))


class ModifiedBesselK1(_Special):
    """Modified Bessel function of the second kind, order 1."""

    schema = "modified_bessel_k1(Tensor input) -> Tensor"

    def expr(self, s, x):
        return bounded(s, x, INF, scaled_k(s, x, 1) * s.exp(-x))


class ScaledModifiedBesselK0(_Special):
    """exp(input) * modified_bessel_k0(input)."""

    schema = "scaled_modified_bessel_k0(Tensor x) -> Tensor"

    def expr(self, s, x):
        return bounded(s, x, INF, scaled_k(s, x, 0))


class ScaledModifiedBesselK1(_Special):
    """exp(input) * modified_bessel_k1(input)."""

    schema = "scaled_modified_bessel_k1(Tensor x) -> Tensor"

    def expr(self, s, x):
        return bounded(s, x, INF, scaled_k(s, x, 1))


class SphericalBesselJ0(_Special):
    """sin(x) / x, 1 at 0."""

    schema = "spherical_bessel_j0(Tensor input) -> Tensor"

    def expr(self, s, x):
        safe = s.where(s.eq(x, 0), 1, x)
        return s.where(s.eq(x, 0), 1, s.where(s.eq(s.abs(x), INF), 0, s.sin(safe) / safe))
