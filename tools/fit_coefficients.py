"""Fits the polynomial coefficients of rushlight/loops/coefficients.txt (needs mpmath; run by hand).

Each row interpolates its function at Chebyshev nodes in 60 digits, which is within a small factor of the best
polynomial, and is printed per dtype with the error it leaves. Usage:

    python tools/fit_coefficients.py > rushlight/loops/coefficients.txt
"""

from __future__ import annotations

import struct
import sys
import textwrap
from collections.abc import Callable, Iterable

import mpmath as mp

mp.mp.dps = 60


def interpolate(f: Callable, low, high, count: int) -> list:
    """Monomial coefficients, lowest first, of the interpolant of f at `count` Chebyshev nodes."""
    low, high = mp.mpf(low), mp.mpf(high)
    mid, half = (low + high) / 2, (high - low) / 2
    nodes = [mp.cos(mp.pi * (2 * k + 1) / (2 * count)) for k in range(count)]
    # A removable singularity may sit exactly on a node.
    values = [f(mid + half * x + (mp.mpf(10) ** -22 if abs(mid + half * x) < mp.mpf(10) ** -22 else 0)) for x in nodes]
    series = [
        mp.mpf(2 if j else 1) / count * mp.fsum(v * mp.cos(j * mp.acos(x)) for v, x in zip(values, nodes))
        for j in range(count)
    ]
    # Chebyshev sum -> monomials in u = (x - mid) / half -> monomials in x.
    previous, current, total = [mp.mpf(1)], [mp.mpf(0), mp.mpf(1)], [series[0]] + [mp.mpf(0)] * (count - 1)
    for j in range(1, count):
        for k, c in enumerate(current):
            total[k] += series[j] * c
        following = [mp.mpf(0), *(2 * c for c in current)]
        for k, c in enumerate(previous):
            following[k] -= c
        previous, current = current, following
    result = [mp.mpf(0)] * count
    for c in reversed(total):
        shifted = [mp.mpf(0), *(r / half for r in result[:-1])]
        result = [s - r * mid / half for s, r in zip(shifted, result)]
        result[0] += c
    return result


def rounded(value, dtype: str) -> float:
    number = float(value)
    return struct.unpack("f", struct.pack("f", number))[0] if dtype == "f32" else number


def write_row(head: str, numbers: Iterable[float]) -> None:
    """Prints `head: numbers`, broken into lines, as `rushlight.base.tables` reads it."""
    row = f"{head}: {' '.join(map(repr, numbers))}"
    print(textwrap.fill(row, 120, subsequent_indent="    ", break_on_hyphens=False))


def emit(name: str, note: str, f: Callable, low, high, **counts: int) -> None:
    """Prints the rows of a table, one for each dtype, with the largest error relative to f after rounding."""
    print(f"\n# {note}")
    for dtype, count in counts.items():
        emit_row(f"{name} {dtype}", interpolate(f, low, high, count), f, low, high, lambda x: 1 / f(x), "relative")
    print(f"{name}: {note}", file=sys.stderr)


def emit_row(head: str, fitted: list, f: Callable, low, high, weight: Callable, kind: str) -> None:
    """Prints one row of coefficients, with the largest error times the weight. `head` ends in the dtype."""
    coefficients, worst = [rounded(c, head.split()[-1]) for c in fitted], mp.mpf(0)
    for k in range(201):
        x = mp.mpf(low) + (mp.mpf(high) - mp.mpf(low)) * (k + mp.mpf("0.37")) / mp.mpf("201.9")
        worst = max(worst, abs(mp.polyval(coefficients[::-1], x) - f(x)) * abs(weight(x)))
    print(f"# {kind} error {float(worst):.1e}")
    write_row(head, coefficients)


def weighted(f: Callable, low, high, count: int, weight: Callable) -> list:
    """Monomial coefficients of the polynomial whose squared errors times `weight`, at Chebyshev nodes, are least."""
    low, high = mp.mpf(low), mp.mpf(high)
    nodes = [(low + high) / 2 + (high - low) / 2 * mp.cos(mp.pi * (2 * k + 1) / (8 * count)) for k in range(4 * count)]
    rows = mp.matrix([[weight(x) * x**j for j in range(count)] for x in nodes])
    return list(mp.lu_solve(rows.T * rows, rows.T * mp.matrix([weight(x) * f(x) for x in nodes])))


def parts(value, dtype: str, *bits: int) -> tuple[float, ...]:
    """`value` as a sum of floats: part k keeps bits[k] significant bits, the last ones are rounded to the dtype."""
    result = []
    for width in bits:
        exponent = mp.floor(mp.log(abs(value), 2))
        unit = mp.mpf(2) ** (exponent - width + 1)
        result.append(rounded(mp.nint(value / unit) * unit, dtype))
        value -= mp.mpf(result[-1])
    return tuple(result)


def emit_constants() -> None:
    print("\n# Constants as sums of parts: a short head times a small integer is exact.")
    for name, value, f32, f64 in (
        ("LN2", mp.log(2), (15, 24, 24), (41, 53, 53)),
        ("LOG2E", 1 / mp.log(2), (24, 24), (53, 53)),
        ("LOG10E", 1 / mp.log(10), (24, 24), (53, 53)),
        ("LOG10_2", mp.log(2) / mp.log(10), (15, 24), (41, 53)),
        ("HALF_PI", mp.pi / 2, (24, 24, 24), (53, 53, 53)),
        ("PI", mp.pi, (24, 24), (53, 53)),
        ("TWO_OVER_PI", 2 / mp.pi, (24,), (53,)),
        ("HALF_LOG_2PI", mp.log(2 * mp.pi) / 2, (24, 24), (53, 53)),
        ("LOG_PI", mp.log(mp.pi), (24, 24), (53, 53)),
        ("SQRT_HALF", mp.sqrt(2) / 2, (24, 24), (53, 53)),
        ("TWO_OVER_SQRT_PI", 2 / mp.sqrt(mp.pi), (24, 24), (53, 53)),
        ("HALF_SQRT_PI", mp.sqrt(mp.pi) / 2, (24, 24), (53, 53)),
        ("DIGAMMA_ROOT", mp.findroot(mp.digamma, mp.mpf("1.4616")), (24, 24), (53, 53)),
    ):
        write_row(f"{name} f32", parts(value, "f32", *f32))
        write_row(f"{name} f64", parts(value, "f64", *f64))
    print("\n# (2/pi * 2**(32 k)) modulo 4 for k = -2, -1, ..., 30, each as a sum of four floats, a row for each part.")
    with mp.workdps(450):
        turns = [mp.fmod(2 / mp.pi * mp.mpf(2) ** (32 * k), 4) for k in range(-2, 31)]
        columns = list(zip(*[parts(turn, "f64", 53, 53, 53, 53) for turn in turns]))
    for k, column in enumerate(columns):
        write_row(f"TURNS part{k}", column)


def fit_elementary() -> None:
    root = mp.sqrt(2)
    emit("EXP", "(exp(r) - 1 - r) / r**2, |r| <= ln(2)/2", lambda r: (mp.expm1(r) - r) / r**2,
         "-0.3469", "0.3469", f32=5, f64=11, lite=8)
    emit("LOG", "(log1p(f) - f + f**2/2) / f**3, 1 + f between sqrt(1/2) and sqrt(2)",
         lambda f: (mp.log1p(f) - f + f * f / 2) / f**3, 1 / root - 1, root - 1, f32=9)
    emit("ATANH", "(2 atanh(s) - 2 s) / s**3 in z = s**2, 1 + f = (1 + s) / (1 - s)",
         lambda z: 2 * (mp.atanh(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, 0, "0.02945", f32=4, f64=8, lite=6)
    emit("ATANH_TAIL", "atanh(s) / s without 1 + z/3 + z**2/5, over z**3, in z = s**2",
         lambda z: (mp.atanh(mp.sqrt(z)) / mp.sqrt(z) - 1 - z / 3 - z * z / 5) / z**3, 0, "0.02945", f64=8)
    quarter = (mp.pi / 4 + mp.mpf("0.001")) ** 2
    emit("SIN", "(sin(r) - r) / r**3 in z = r**2, |r| <= pi/4", lambda z: (mp.sin(mp.sqrt(z)) / mp.sqrt(z) - 1) / z,
         0, quarter, f32=4, f64=7)
    emit("COS", "(cos(r) - 1 + r**2/2) / r**4 in z = r**2, |r| <= pi/4",
         lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2, 0, quarter, f32=4, f64=7)
    emit("ATAN", "(atan(t) - t) / t**3 in z = t**2, |t| <= tan(pi/8)",
         lambda z: (mp.atan(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, 0, "0.1717", f32=5, f64=12)
    emit("ASIN", "(asin(t) - t) / t**3 in z = t**2, |t| <= 1/2",
         lambda z: (mp.asin(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, 0, "0.2501", f32=6, f64=14)
    emit("TANH", "(tanh(t) - t) / t**3 in z = t**2, |t| <= 0.625",
         lambda z: (mp.tanh(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, 0, "0.391", f32=5, f64=11)
    emit("SINH", "(sinh(t) - t) / t**3 in z = t**2, |t| <= 1",
         lambda z: (mp.sinh(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, 0, "1.0", f32=4, f64=8)


def fit_error_function() -> None:
    emit("ERF", "erf(x) / x - 1 in z = x**2, |x| <= 1", lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1,
         0, "1.0", f32=7, f64=14)
    print("\n# log(erfc(x)), 0.9 <= x <= 4.1; in f64 to 6, where what is left of 1 falls as erfc does")

    def logarithm(x):
        return mp.log(mp.erfc(x))

    emit_row("ERFC_LOG f32", interpolate(logarithm, "0.9", "4.1", 9), logarithm, "0.9", "4.1",
             lambda x: 1 / logarithm(x), "relative")
    emit_row("ERFC_LOG f64", weighted(logarithm, 1, 6, 18, mp.erfc), logarithm, 1, 6, mp.erfc, "in 1 - erfc an")

    def scaled(q):
        x = 4 * (1 + q) / (1 - q)
        if x < 40:
            return (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x)
        terms = [mp.mpf(1)]
        for k in range(1, 40):
            terms.append(-terms[-1] * (2 * k - 1) / (2 * x * x))
        return (1 + 2 * x) / (x * mp.sqrt(mp.pi)) * mp.fsum(terms)

    emit("ERFCX", "(1 + 2 x) exp(x**2) erfc(x) in q = (x - 4) / (x + 4), x >= 0", scaled, -1, 1, f64=29, lite=16)


def inverse_error(w):
    """erfinv(x) / x with x = sqrt(1 - exp(-w)), by Newton from mpmath's erfinv or the tail's asymptotics."""
    x = mp.sqrt(-mp.expm1(-w))
    if w < 30:
        return mp.erfinv(x) / x
    rest = mp.exp(-w) / (1 + x)  # 1 - x without cancellation
    y = mp.sqrt(w - mp.log(mp.sqrt(mp.pi * w)))
    for _ in range(60):
        step = (mp.erfc(y) - rest) / (-2 / mp.sqrt(mp.pi) * mp.exp(-y * y))
        y -= step / (1 + step * y)
        if abs(step) < mp.mpf(10) ** -45:
            break
    return y / x


def fit_normal() -> None:
    emit("NORMAL_TAIL_LOG2", "log2 of the normal distribution beyond t, 0 <= t <= 4",
         lambda t: mp.log(mp.erfc(t / mp.sqrt(2)) / 2, 2), 0, 4, f32=11)
    emit("NORMAL_TAIL_FAR", "the same in t - 7.3, 0 <= t <= 14.6, for results rounded to f32",
         lambda u: mp.log(mp.erfc((u + mp.mpf("7.3")) / mp.sqrt(2)) / 2, 2), "-7.3", "7.3", lite=23)
    emit("EXP2", "(2**r - 1) / r, |r| <= 1/2", lambda r: (mp.mpf(2) ** r - 1) / r, "-0.5", "0.5", f32=6, lite=7)


def fit_quantiles() -> None:
    emit("ERFINV_SHORT", "erfinv(x) / x in w - 3.125, w = -log(1 - x**2) <= 6.25, for results rounded to f32",
         lambda u: inverse_error(max(u + mp.mpf("3.125"), mp.mpf(10) ** -18)), "-3.125", "3.125", lite=14)
    emit("ERFINV_SHORT_FAR", "erfinv(x) / x in sqrt(w) - 3.3, 6.25 <= w <= 16.81",
         lambda u: inverse_error((u + mp.mpf("3.3")) ** 2), "-0.8", "0.8", lite=10)
    emit("ERFINV_CENTRE", "(erfinv(x) / x - sqrt(pi)/2) / w in w - 0.5, w = -log(1 - x**2) <= 1",
         lambda u: (inverse_error(max(u + 0.5, mp.mpf(10) ** -18)) - mp.sqrt(mp.pi) / 2) / max(u + 0.5,
             mp.mpf(10) ** -18),
         "-0.5", "0.5", f64=16)
    emit("ERFINV_NEAR", "erfinv(x) / x in w - 3.625, 1 <= w <= 6.25",
         lambda u: inverse_error(u + mp.mpf("3.625")), "-2.625", "2.625", f64=24)
    emit("ERFINV_FAR", "erfinv(x) / x - sqrt(w) in sqrt(w) - 3.25, 6.25 <= w <= 16",
         lambda u: inverse_error((u + mp.mpf("3.25")) ** 2) - (u + mp.mpf("3.25")), "-0.75", "0.75",
         f64=20)
    emit("ERFINV_TAIL", "erfinv(x) / x - sqrt(w) in sqrt(w) - 6.5, 16 <= w <= 81",
         lambda u: inverse_error((u + mp.mpf("6.5")) ** 2) - (u + mp.mpf("6.5")), "-2.5", "2.5", f64=27)
    emit("ERFINV_DEEP", "erfinv(x) / x - sqrt(w) in sqrt(w) - 18, 81 <= w <= 756",
         lambda u: inverse_error((u + 18) ** 2) - (u + 18), "-9", "9.5", f64=26)


def fit_gamma() -> None:
    emit("LGAMMA", "lgamma(2 + d) / d, |d| <= 1/2", lambda d: mp.loggamma(2 + d) / d, "-0.5", "0.5", f64=21, lite=11)

    emit("INVERSE_GAMMA", "1 / gamma(1 + f) in f - 0.5, 0 <= f <= 1", lambda u: mp.rgamma(u + mp.mpf("1.5")),
         "-0.5", "0.5", f64=16)

    def stirling(z):
        x = 1 / mp.sqrt(max(z, mp.mpf(10) ** -8))
        return (mp.loggamma(x) - ((x - mp.mpf("0.5")) * mp.log(x) - x + mp.log(2 * mp.pi) / 2)) * x

    emit("STIRLING", "x times what Stirling's formula leaves of lgamma(x), in z = 1/x**2, x >= 8",
         stirling, 0, "0.015625", f64=9, lite=5)
    emit("LGAMMA_FAR", "the same for x >= 3", stirling, 0, mp.mpf(1) / 9, f64=14)
    root = mp.findroot(mp.digamma, mp.mpf("1.4616"))
    near = mp.mpf(10) ** -20
    emit("DIGAMMA", "digamma(x) / (x - root) in x - 1.5, 1 <= x <= 2",
         lambda u: mp.digamma(u + mp.mpf("1.5") + near) / (u + mp.mpf("1.5") + near - root),
         "-0.5", "0.5", f64=24, lite=13)

    def rest(z):
        x = 1 / mp.sqrt(max(z, mp.mpf(10) ** -8))
        return (mp.log(x) - 1 / (2 * x) - mp.digamma(x)) * x * x

    emit("DIGAMMA_FAR", "x**2 (log(x) - 1/(2 x) - digamma(x)) in z = 1/x**2, x >= 2",
         rest, 0, "0.25", f64=17, lite=7)

    def trigamma(z):
        x = 1 / mp.sqrt(max(z, mp.mpf(10) ** -8))
        return (mp.psi(1, x) - 1 / x - 1 / (2 * x * x)) * x**3

    emit("TRIGAMMA", "x**3 (trigamma(x) - 1/x - 1/(2 x**2)) in z = 1/x**2, x >= 2",
         trigamma, 0, "0.25", f64=19, lite=8)
    print("\n# Bernoulli numbers B(2j) / (2j)!, j = 1, 2, ...")
    write_row("BERNOULLI", (float(mp.bernoulli(2 * j) / mp.factorial(2 * j)) for j in range(1, 14)))


def fit_bessel() -> None:
    for order, name in ((0, "I0E"), (1, "I1E")):
        # The factor 1 + x levels both out: terms of mixed signs would cancel.
        def near(u, n=order):
            return mp.exp(-u - 4) * mp.besseli(n, u + 4) * (u + 5) / (u + 4) ** n if u > -4 else 1 / (1 + n)

        emit(f"{name}_NEAR", f"exp(-x) I{order}(x) (1 + x) / x**{order} in x - 4, 0 <= x <= 8", near,
             "-4", "4", f64=31, lite=22)
        emit(f"{name}_FAR", f"sqrt(x) exp(-x) I{order}(x) in 1/x - 1/16, x >= 8",
             lambda u, n=order: scaled_bessel(n, 1 / max(u + mp.mpf("0.0625"), mp.mpf(10) ** -6)),
             "-0.0625", "0.0625", f64=27, lite=12)


def scaled_bessel(order: int, x):
    return mp.sqrt(x) * mp.exp(-x) * mp.besseli(order, x)


def main() -> None:
    print("# Polynomial coefficients, lowest power first. Made by tools/fit_coefficients.py; do not edit.")
    emit_constants()
    fit_elementary()
    fit_error_function()
    fit_normal()
    fit_quantiles()
    fit_gamma()
    fit_bessel()


if __name__ == "__main__":
    main()
