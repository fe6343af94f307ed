"""Orthogonal polynomials of degree n at x, by their three-term recurrences.

Enters: x and n as tensors or Python numbers (n is truncated to an integer). Leaves: a floating tensor of the broadcast
shape; a negative degree gives 0. Refuses: complex numbers and half precision, like PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight._C import float64
from rushlight.base.promotion import result_type, to_float
from rushlight.op import Composite, find_op
from rushlight.op.pointwise import refuse_numbers
from rushlight.rules.levels import shape_is_enough

# name -> (degree 1 at x, step): step(k, x, p, before) is the polynomial of degree k + 1.
Step = Callable[[int, Any, Any, Any], Any]


HIGH = 512             # degrees above are computed in closed form where there is one
ASYMPTOTIC = 1 << 16   # degrees above are computed from an expansion whose error falls with the degree

High = Callable[[Any, Any], Any]


def evaluate(
    name: str, input: Any, n: Any, first: Callable[[Any], Any], step: Step, high: High, limit: int = HIGH
) -> Any:
    """Runs the recurrence up to the largest degree asked for, keeping at each element the degree it asks for.

    `high(x, n)` is the polynomial of degrees above `limit`.
    """
    if not hasattr(input, "dtype") and not hasattr(n, "dtype"):
        refuse_numbers(name, (input, n))
    common = to_float(result_type(input, n))
    x = input.to(common) if hasattr(input, "dtype") else n.new_tensor(input, dtype=common)
    if x.dtype.is_complex or x.dtype.itemsize < 4:
        raise NotImplementedError(f'"{name}" not implemented for {x.dtype}')
    many = hasattr(n, "dtype")
    degree = n.to(x.dtype).trunc() if many else None
    if many and shape_is_enough(name, n):   # no degrees to look at, and none needed
        return x + degree
    top = int(n.max().item() if n.numel() else 0) if many else int(n)
    if top > limit:
        degrees = degree if many else x.new_full((), float(int(n)))
        if not many or bool((degrees > limit).all()):
            return high(x, degrees)
        low = evaluate(name, x, degrees.masked_fill(degrees > limit, 0), first, step, high, limit)
        return high(x, degrees.clamp(min=limit)).where(degrees > limit, low)
    x = x + x.new_zeros(()) if not many else x + degree * 0
    before, p = x.new_ones(x.shape), first(x)
    result = x.new_zeros(x.shape)
    for k in range(top + 1):
        if not many:
            result = before
        else:
            result = before.where(degree == k, result)
        before, p = p, step(k + 1, x, p, before)
    return result


def doubling(k: int, x: Any, p: Any, before: Any) -> Any:
    """p(k+1) = 2 x p(k) - p(k-1): every kind of Chebyshev polynomial."""
    return 2 * x * p - before


def chebyshev(inside: Callable[[Any, Any], Any], outside: Callable[[Any, Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Closed forms: `inside(n, acos x)` between -1 and 1; `outside(n, acosh |x|, x < 0)` elsewhere,
    times (-1)**n below -1."""

    def high(x: Any, n: Any) -> Any:
        within = inside(n, x.clamp(-1, 1).acos())
        negative = x < 0
        beyond = outside(n, x.abs().clamp(min=1).acosh(), negative)
        beyond = (-beyond).where(negative & (n.remainder(2) == 1), beyond)
        beyond = beyond.masked_fill(beyond.isinf(), float("nan"))   # as the recurrence ends: inf - inf
        return within.where(x.abs() < 1, beyond).where(x == x, x + n)

    return high


def _growth(f: str, n: Any, t: Any, half: Any, at_one: Any) -> Any:
    """f(n t) / f(half) for f cosh or sinh, with the limit `at_one` where t is 0."""
    result = getattr(n * t, f)() / getattr(half, f)()
    return (result * 0 + at_one).where(t == 0, result) if f == "cosh" else (t + at_one).where(t == 0, result)


def _third(n: Any, t: Any) -> Any:
    return _growth("cosh", n + 0.5, t, t / 2, 1)


def _fourth(n: Any, t: Any) -> Any:
    return _growth("sinh", n + 0.5, t, t / 2, 2 * n + 1)


HIGH_T = chebyshev(lambda n, a: (n * a).cos(), lambda n, t, negative: (n * t).cosh())
HIGH_U = chebyshev(
    lambda n, a: ((n + 1) * a).sin() / a.sin(), lambda n, t, negative: _growth("sinh", n + 1, t, t, n + 1)
)
HIGH_V = chebyshev(
    lambda n, a: ((n + 0.5) * a).cos() / (a / 2).cos(),
    lambda n, t, negative: _fourth(n, t).where(negative, _third(n, t)),
)
HIGH_W = chebyshev(
    lambda n, a: ((n + 0.5) * a).sin() / (a / 2).sin(),
    lambda n, t, negative: _third(n, t).where(negative, _fourth(n, t)),
)


def no_number(x: Any, n: Any) -> Any:
    """Hermite polynomials of high degree overflow: PyTorch answers NaN at once."""
    return (x + n) * float("nan")


def in_double(high: High) -> High:
    """The same in float64, whose angles keep their digits at high degrees; what overflows is NaN,
    as the recurrence ends."""

    def wide(x: Any, n: Any) -> Any:
        result = high(x.to(float64), n.to(float64)).to(x.dtype)
        return result.masked_fill(result.isinf(), float("nan"))

    return wide


def bessel(order: int, x: Any, is_modified: Any) -> Any:
    """J of an order at x, or I where it is modified."""
    plain = find_op(f"bessel_j{order}")(x)
    return find_op(f"modified_bessel_i{order}")(x).where(is_modified, plain)


@in_double
def high_legendre(x: Any, n: Any) -> Any:
    """Hilb's formula and its first correction, by the angle from the nearer end of [-1, 1]; beyond, it is imaginary."""
    size = x.abs()
    beyond = size > 1
    angle = size.clamp(min=1).acosh().where(beyond, size.clamp(max=1).acos())
    safe = angle.masked_fill(angle == 0, 1.0)
    sine = safe.sinh().where(beyond, safe.sin())
    cotangent = (size / sine).masked_fill(angle == 0, 1.0)
    half = n + 0.5
    slope = ((safe * cotangent - 1) / (8 * safe)).masked_fill(angle == 0, 0.0)
    result = bessel(0, half * angle, beyond) + slope * bessel(1, half * angle, beyond) / half
    result = result * (safe / sine).masked_fill(angle == 0, 1.0).sqrt()
    return (-result).where((x < 0) & (n.remainder(2) == 1), result)


@in_double
def high_laguerre(x: Any, n: Any) -> Any:
    """exp(x / 2) times a Bessel function (Erdelyi's form), uniform in t = x / (4 n + 2) below 1;
    elsewhere it overflows."""
    scale = 4 * n + 2
    t = x.abs() / scale
    left = x < 0
    safe = t.masked_fill(t == 0, 0.25).clamp(max=0.25)   # what lies beyond overflows
    root = safe.sqrt()
    phase = ((safe + safe * safe).sqrt() + root.asinh()).where(left, (safe - safe * safe).sqrt() + root.asin()) / 2
    spread = (phase * phase / (safe * (1 + safe).where(left, 1 - safe))).pow(0.25)
    result = (x / 2).exp() * spread * bessel(0, scale * phase, left)
    return result.masked_fill(x == 0, 1.0).masked_fill(x.isinf(), float("nan")).where(x == x, x + n)


class _Polynomial(Composite):
    """Shared settings: published in `special` only."""

    abstract = True
    namespace = "special"
    method = inplace = False
    batch = "pointwise"


class ChebyshevPolynomialT(_Polynomial):
    """First kind: cos(n arccos x)."""

    schema = "chebyshev_polynomial_t(Tensor|Scalar input, Tensor|Scalar n) -> Tensor"

    def compute(self, input, n):
        return evaluate("chebyshev_polynomial_t", input, n, lambda x: x, doubling, HIGH_T)


class ChebyshevPolynomialU(_Polynomial):
    """Second kind: starts from 1 and 2 x."""

    schema = "chebyshev_polynomial_u(Tensor|Scalar input, Tensor|Scalar n) -> Tensor"

    def compute(self, input, n):
        return evaluate("chebyshev_polynomial_u", input, n, lambda x: 2 * x, doubling, HIGH_U)


class ChebyshevPolynomialV(_Polynomial):
    """Third kind: starts from 1 and 2 x - 1."""

    schema = "chebyshev_polynomial_v(Tensor|Scalar input, Tensor|Scalar n) -> Tensor"

    def compute(self, input, n):
        return evaluate("chebyshev_polynomial_v", input, n, lambda x: 2 * x - 1, doubling, HIGH_V)


class ChebyshevPolynomialW(_Polynomial):
    """Fourth kind: starts from 1 and 2 x + 1."""

    schema = "chebyshev_polynomial_w(Tensor|Scalar input, Tensor|Scalar n) -> Tensor"

    def compute(self, input, n):
        return evaluate("chebyshev_polynomial_w", input, n, lambda x: 2 * x + 1, doubling, HIGH_W)


def shifted(k: int, x: Any, p: Any, before: Any) -> Any:
    """The Chebyshev step at 2 x - 1, which maps [0, 1] to [-1, 1]."""
    return (4 * x - 2) * p - before


class ShiftedChebyshevPolynomialT(_Polynomial):
    """First kind at 2 x - 1."""

    schema = "shifted_chebyshev_polynomial_t(Tensor|Scalar input, Tensor|Scalar n) -> Tensor"

    def compute(self, input, n):
        return evaluate(
            "shifted_chebyshev_polynomial_t", input, n, lambda x: 2 * x - 1, shifted, lambda x, n: HIGH_T(2 * x - 1, n)
        )


class ShiftedChebyshevPolynomialU(_Polynomial):
    """Second kind at 2 x - 1."""

    schema = "shifted_chebyshev_polynomial_u(Tensor|Scalar input, Tensor|Scalar n) -> Tensor"

    def compute(self, input, n):
        return evaluate(
            "shifted_chebyshev_polynomial_u", input, n, lambda x: 4 * x - 2, shifted, lambda x, n: HIGH_U(2 * x - 1, n)
        )


class ShiftedChebyshevPolynomialV(_Polynomial):
    """Third kind at 2 x - 1."""

    schema = "shifted_chebyshev_polynomial_v(Tensor|Scalar input, Tensor|Scalar n) -> Tensor"

    def compute(self, input, n):
        return evaluate(
            "shifted_chebyshev_polynomial_v", input, n, lambda x: 4 * x - 3, shifted, lambda x, n: HIGH_V(2 * x - 1, n)
        )


class ShiftedChebyshevPolynomialW(_Polynomial):
    """Fourth kind at 2 x - 1."""

    schema = "shifted_chebyshev_polynomial_w(Tensor|Scalar input, Tensor|Scalar n) -> Tensor"

    def compute(self, input, n):
        return evaluate(
            "shifted_chebyshev_polynomial_w", input, n, lambda x: 4 * x - 1, shifted, lambda x, n: HIGH_W(2 * x - 1, n)
        )


class HermitePolynomialH(_Polynomial):
    """Physicist's Hermite polynomial."""

    schema = "hermite_polynomial_h(Tensor|Scalar input, Tensor|Scalar n) -> Tensor"

    def compute(self, input, n):
        return evaluate(
            "hermite_polynomial_h", input, n, lambda x: 2 * x, lambda k, x, p, b: 2 * (x * p - k * b), no_number
        )


class HermitePolynomialHe(_Polynomial):
    """Probabilist's Hermite polynomial."""

    schema = "hermite_polynomial_he(Tensor|Scalar input, Tensor|Scalar n) -> Tensor"

    def compute(self, input, n):
        return evaluate("hermite_polynomial_he", input, n, lambda x: x, lambda k, x, p, b: x * p - k * b, no_number)


class LaguerrePolynomialL(_Polynomial):
    """Laguerre polynomial."""

    schema = "laguerre_polynomial_l(Tensor|Scalar input, Tensor|Scalar n) -> Tensor"

    def compute(self, input, n):
        def step(k, x, p, before):
            return ((2 * k + 1 - x) * p - k * before) / (k + 1)

        return evaluate("laguerre_polynomial_l", input, n, lambda x: 1 - x, step, high_laguerre, ASYMPTOTIC)


class LegendrePolynomialP(_Polynomial):
    """Legendre polynomial."""

    schema = "legendre_polynomial_p(Tensor|Scalar input, Tensor|Scalar n) -> Tensor"

    def compute(self, input, n):
        def step(k, x, p, before):
            return ((2 * k + 1) * x * p - k * before) / (k + 1)

        return evaluate("legendre_polynomial_p", input, n, lambda x: x, step, high_legendre, ASYMPTOTIC)
