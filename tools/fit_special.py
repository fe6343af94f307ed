"""Fits the Chebyshev coefficients of rushlight/definitions/pointwise/fits.txt (needs mpmath; run by hand).

Each fit interpolates at Chebyshev nodes in 40-digit arithmetic and drops coefficients below 1e-18 of the largest.
Usage:

    python tools/fit_special.py > rushlight/definitions/pointwise/fits.txt
"""

from __future__ import annotations

from collections.abc import Callable

import mpmath as m
from fit_coefficients import write_row

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


# What is fitted, as a comment of the table says it, and where.
FITS = {
    "K0_SMALL": ("K0(x) + log(x/2) I0(x), x*x in [0, 4]",
        in_root(lambda x: m.besselk(0, x) + m.log(x / 2) * m.besseli(0, x)), 0, 4),
    "K1_SMALL": ("x (K1(x) - log(x/2) I1(x)), x*x in [0, 4]",
        in_root(lambda x: x * (m.besselk(1, x) - m.log(x / 2) * m.besseli(1, x))), 0, 4),
    "I0_TINY": ("I0(x), x*x in [0, 4]",
        in_root(lambda x: m.besseli(0, x)), 0, 4),
    "I1_TINY": ("I1(x) / x, x*x in [0, 4]",
        in_root(lambda x: m.besseli(1, x) / x), 0, 4),
    "K0_LARGE": ("sqrt(x) exp(x) K0(x), 1/x in [0, 1/2]",
        lambda u: m.exp(1 / u) * m.besselk(0, 1 / u) / m.sqrt(u), 0, 1 / 2),
    "K1_LARGE": ("sqrt(x) exp(x) K1(x), 1/x in [0, 1/2]",
        lambda u: m.exp(1 / u) * m.besselk(1, 1 / u) / m.sqrt(u), 0, 1 / 2),
    "J0_SMALL": ("J0(x), x*x in [0, 64]",
        in_root(lambda x: m.besselj(0, x)), 0, 64),
    "J1_SMALL": ("J1(x) / x, x*x in [0, 64]",
        in_root(lambda x: m.besselj(1, x) / x), 0, 64),
    "Y0_SMALL": ("Y0(x) - 2/pi log(x) J0(x), x*x in [0, 64]",
        in_root(y0_rest), 0, 64),
    "Y1_SMALL": ("(Y1(x) - 2/pi (log(x) J1(x) - 1/x)) / x, x*x in [0, 64]",
        in_root(y1_rest), 0, 64),
    "P0": ("in-phase amplitude of J0 and Y0 times sqrt(pi x / 2), 1/(x*x) in [0, 1/64]",
        bessel_amplitude(0, True), 0, 1 / 64),
    "Q0": ("x times the quadrature amplitude, same range",
        bessel_amplitude(0, False), 0, 1 / 64),
    "P1": ("as P0, for J1 and Y1",
        bessel_amplitude(1, True), 0, 1 / 64),
    "Q1": ("as Q0, for J1 and Y1",
        bessel_amplitude(1, False), 0, 1 / 64),
    "AI_MIDDLE": ("Ai(x), x in [-6, 2]",
        m.airyai, -6, 2),
    "AI_LARGE": ("2 sqrt(pi) x**(1/4) exp(z) Ai(x), z = 2/3 x**(3/2), 1/z in [0, 3/(4 sqrt(2))]",
        airy_right, 0, 3 / (4 * m.sqrt(2))),
    "AI_P": ("in-phase amplitude of Ai(-x) times sqrt(pi) x**(1/4), 1/(z*z) in [0, 1/96]",
        airy_amplitude(True), 0, m.mpf(1) / 96),
    "AI_Q": ("z times the quadrature amplitude, same range",
        airy_amplitude(False), 0, m.mpf(1) / 96),
}


if __name__ == "__main__":
    print("# Chebyshev coefficients, the constant term first. Made by tools/fit_special.py; do not edit.\n")
    for name, (note, f, low, high) in FITS.items():
        print(f"# {note}")
        write_row(name, fit(f, low, high))
