"""Orthogonal polynomials of degree n at x, by their three-term recurrences.

Enters: x and n as tensors or Python numbers (n is truncated to an integer). Leaves: a floating tensor of the broadcast
shape; a negative degree gives 0. Refuses: complex numbers and half precision, like PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.op import Composite
from rushlight.op.pointwise import refuse_numbers
from rushlight.promotion import result_type, to_float

# name -> (degree 1 at x, step): step(k, x, p, before) is the polynomial of degree k + 1.
Step = Callable[[int, Any, Any, Any], Any]


def evaluate(name: str, input: Any, n: Any, first: Callable[[Any], Any], step: Step) -> Any:
    """Runs the recurrence up to the largest degree asked for, keeping at each element the degree it asks for."""
    if not hasattr(input, "dtype") and not hasattr(n, "dtype"):
        refuse_numbers(name, (input, n))
    common = to_float(result_type(input, n))
    x = input.to(common) if hasattr(input, "dtype") else n.new_tensor(input, dtype=common)
    if x.dtype.is_complex or x.dtype.itemsize < 4:
        raise NotImplementedError(f'"{name}" not implemented for {x.dtype}')
    many = hasattr(n, "dtype")
    degree = n.to(x.dtype).trunc() if many else None
    if many and n.is_meta:   # no degrees to look at, and none needed: only the shape is asked for
        return x + degree
    top = int(n.max().item() if n.numel() else 0) if many else int(n)
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
        return evaluate("chebyshev_polynomial_t", input, n, lambda x: x, doubling)


class ChebyshevPolynomialU(_Polynomial):
    """Second kind: starts from 1 and 2 x."""

    schema = "chebyshev_polynomial_u(Tensor|Scalar input, Tensor|Scalar n) -> Tensor"

    def compute(self, input, n):
        return evaluate("chebyshev_polynomial_u", input, n, lambda x: 2 * x, doubling)


class ChebyshevPolynomialV(_Polynomial):
    """Third kind: starts from 1 and 2 x - 1."""

    schema = "chebyshev_polynomial_v(Tensor|Scalar input, Tensor|Scalar n) -> Tensor"

    def compute(self, input, n):
        return evaluate("chebyshev_polynomial_v", input, n, lambda x: 2 * x - 1, doubling)


class ChebyshevPolynomialW(_Polynomial):
    """Fourth kind: starts from 1 and 2 x + 1."""

    schema = "chebyshev_polynomial_w(Tensor|Scalar input, Tensor|Scalar n) -> Tensor"

    def compute(self, input, n):
        return evaluate("chebyshev_polynomial_w", input, n, lambda x: 2 * x + 1, doubling)


def shifted(k: int, x: Any, p: Any, before: Any) -> Any:
    """The Chebyshev step at 2 x - 1, which maps [0, 1] to [-1, 1]."""
    return (4 * x - 2) * p - before


class ShiftedChebyshevPolynomialT(_Polynomial):
    """First kind at 2 x - 1."""

    schema = "shifted_chebyshev_polynomial_t(Tensor|Scalar input, Tensor|Scalar n) -> Tensor"

    def compute(self, input, n):
        return evaluate("shifted_chebyshev_polynomial_t", input, n, lambda x: 2 * x - 1, shifted)


class ShiftedChebyshevPolynomialU(_Polynomial):
    """Second kind at 2 x - 1."""

    schema = "shifted_chebyshev_polynomial_u(Tensor|Scalar input, Tensor|Scalar n) -> Tensor"

    def compute(self, input, n):
        return evaluate("shifted_chebyshev_polynomial_u", input, n, lambda x: 4 * x - 2, shifted)


class ShiftedChebyshevPolynomialV(_Polynomial):
    """Third kind at 2 x - 1."""

    schema = "shifted_chebyshev_polynomial_v(Tensor|Scalar input, Tensor|Scalar n) -> Tensor"

    def compute(self, input, n):
        return evaluate("shifted_chebyshev_polynomial_v", input, n, lambda x: 4 * x - 3, shifted)


class ShiftedChebyshevPolynomialW(_Polynomial):
    """Fourth kind at 2 x - 1."""

    schema = "shifted_chebyshev_polynomial_w(Tensor|Scalar input, Tensor|Scalar n) -> Tensor"

    def compute(self, input, n):
        return evaluate("shifted_chebyshev_polynomial_w", input, n, lambda x: 4 * x - 1, shifted)


class HermitePolynomialH(_Polynomial):
    """Physicist's Hermite polynomial."""

    schema = "hermite_polynomial_h(Tensor|Scalar input, Tensor|Scalar n) -> Tensor"

    def compute(self, input, n):
        return evaluate("hermite_polynomial_h", input, n, lambda x: 2 * x, lambda k, x, p, b: 2 * (x * p - k * b))


class HermitePolynomialHe(_Polynomial):
    """Probabilist's Hermite polynomial."""

    schema = "hermite_polynomial_he(Tensor|Scalar input, Tensor|Scalar n) -> Tensor"

    def compute(self, input, n):
        return evaluate("hermite_polynomial_he", input, n, lambda x: x, lambda k, x, p, b: x * p - k * b)


class LaguerrePolynomialL(_Polynomial):
    """Laguerre polynomial."""

    schema = "laguerre_polynomial_l(Tensor|Scalar input, Tensor|Scalar n) -> Tensor"

    def compute(self, input, n):
        def step(k, x, p, before):
            return ((2 * k + 1 - x) * p - k * before) / (k + 1)

        return evaluate("laguerre_polynomial_l", input, n, lambda x: 1 - x, step)


class LegendrePolynomialP(_Polynomial):
    """Legendre polynomial."""

    schema = "legendre_polynomial_p(Tensor|Scalar input, Tensor|Scalar n) -> Tensor"

    def compute(self, input, n):
        def step(k, x, p, before):
            return ((2 * k + 1) * x * p - k * before) / (k + 1)

        return evaluate("legendre_polynomial_p", input, n, lambda x: x, step)
