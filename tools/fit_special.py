"""Recompute the Chebyshev coefficients in `rushlight/definitions/pointwise/fits.py`. Prints `NAME = (...)` lines;
needs mpmath.

Each fit interpolates at Chebyshev nodes in 40-digit arithmetic and drops coefficients below 1e-18 of the largest.
"""

from __future__ import annotations

from collections.abc import Callable

import mpmath as m

m.mp.dps = 40
half = m.mpf(1) / 2


def fit(f: Callable, low: float, high: float, nodes: int = 64, tolerance: float = 1e-18) -> list[float]:
    """Chebyshev coefficients of `f` on [low, high], the constant term not halved."""
    low, high = m.mpf(low), m.mpf(high)
    angles = [m.pi * (k + half) / nodes for k in range(nodes)]
    values = [f((high - low) / 2 * m.cos(t) + (low + high) / 2) for t in angles]
    terms = [2 * m.fsum(y * m.cos(j * t) for y, t in zip(values, angles, strict=True)) / nodes for j in range(nodes)]
    terms[0] /= 2
    largest = max(abs(t) for t in terms)
    while len(terms) > 1 and abs(terms[-1]) < tolerance * largest:
        terms.pop()
    return [float(t) for t in terms]


def bessel_amplitude(order: int, in_phase: bool) -> Callable:
    """Amplitudes of the oscillation of J and Y far out, as a function of 1 / x**2."""

    def f(u):
        x = 1 / m.sqrt(u)
        angle = x - (order * half + half / 2) * m.pi
        j, y = (m.sqrt(m.pi * x / 2) * b(order, x) for b in (m.besselj, m.bessely))
        return j * m.cos(angle) + y * m.sin(angle) if in_phase else x * (y * m.cos(angle) - j * m.sin(angle))

    return f


def airy_amplitude(in_phase: bool) -> Callable:
    """Amplitudes of the oscillation of Ai far to the left, as a function of 1 / z**2."""

    def f(u):
        z = 1 / m.sqrt(u)
        x = (z * 3 / 2) ** (m.mpf(2) / 3)
        angle = z - m.pi / 4
        a, b = (m.sqrt(m.pi) * x ** (half / 2) * k(-x) for k in (m.airyai, m.airybi))
        return a * m.cos(angle) - b * m.sin(angle) if in_phase else z * (a * m.sin(angle) + b * m.cos(angle))

    return f


def airy_right(v):
    z = 1 / v
    x = (z * 3 / 2) ** (m.mpf(2) / 3)
    return 2 * m.sqrt(m.pi) * x ** (half / 2) * m.exp(z) * m.airyai(x)


def in_root(f: Callable) -> Callable:
    return lambda u: f(m.sqrt(u))


def y0_rest(x):
    return m.bessely(0, x) - 2 / m.pi * m.log(x) * m.besselj(0, x)


def y1_rest(x):
    return (m.bessely(1, x) - 2 / m.pi * (m.log(x) * m.besselj(1, x) - 1 / x)) / x


FITS = {
    "K0_SMALL": (in_root(lambda x: m.besselk(0, x) + m.log(x / 2) * m.besseli(0, x)), 0, 4),
    "K1_SMALL": (in_root(lambda x: x * (m.besselk(1, x) - m.log(x / 2) * m.besseli(1, x))), 0, 4),
    "I0_TINY": (in_root(lambda x: m.besseli(0, x)), 0, 4),
    "I1_TINY": (in_root(lambda x: m.besseli(1, x) / x), 0, 4),
    "K0_LARGE": (lambda u: m.exp(1 / u) * m.besselk(0, 1 / u) / m.sqrt(u), 0, 1 / 2),
    "K1_LARGE": (lambda u: m.exp(1 / u) * m.besselk(1, 1 / u) / m.sqrt(u), 0, 1 / 2),
    "J0_SMALL": (in_root(lambda x: m.besselj(0, x)), 0, 64),
    "J1_SMALL": (in_root(lambda x: m.besselj(1, x) / x), 0, 64),
    "Y0_SMALL": (in_root(y0_rest), 0, 64),
    "Y1_SMALL": (in_root(y1_rest), 0, 64),
    "P0": (bessel_amplitude(0, True), 0, 1 / 64),
    "Q0": (bessel_amplitude(0, False), 0, 1 / 64),
    "P1": (bessel_amplitude(1, True), 0, 1 / 64),
    "Q1": (bessel_amplitude(1, False), 0, 1 / 64),
    "AI_MIDDLE": (m.airyai, -6, 2),
    "AI_LARGE": (airy_right, 0, 3 / (4 * m.sqrt(2))),
    "AI_P": (airy_amplitude(True), 0, m.mpf(1) / 96),
    "AI_Q": (airy_amplitude(False), 0, m.mpf(1) / 96),
}


if __name__ == "__main__":
    for name, (f, low, high) in FITS.items():
        print(name, "=", tuple(fit(f, low, high)))
