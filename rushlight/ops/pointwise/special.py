"""Special functions: error functions, the gamma family, the normal distribution, entropy.

Enters: real tensors; integers become the default float. Leaves: a floating dtype. Refuses: complex numbers.
"""

from __future__ import annotations

import math

from rushlight.op import Pointwise, Promote
from rushlight.ops.pointwise import fits
from rushlight.ops.pointwise.bessel import chebyshev

NAN, INF = float("nan"), float("inf")
ROOT_HALF = math.sqrt(0.5)


class Erf(Pointwise):
    """Error function."""

    schema = "erf(Tensor input) -> Tensor"
    aliases = ("special.erf",)
    promote = Promote.TO_FLOAT
    refuse = ("complex",)
    onnx = "Erf"

    def expr(self, s, x):
        return s.erf(x)


class Erfc(Pointwise):
    """1 - erf(input), accurate where erf is near 1."""

    schema = "erfc(Tensor input) -> Tensor"
    aliases = ("special.erfc",)
    promote = Promote.TO_FLOAT
    refuse = ("complex",)

    def expr(self, s, x):
        return s.erfc(x)


class Erfinv(Pointwise):
    """Inverse of erf on (-1, 1)."""

    schema = "erfinv(Tensor input) -> Tensor"
    aliases = ("special.erfinv",)
    promote = Promote.TO_FLOAT
    refuse = ("complex",)

    def expr(self, s, x):
        return s.erfinv(x)

    def vjp(self, s, g, result):
        return {"input": g * (0.5 * math.sqrt(math.pi)) * s.exp(result * result)}


def erfcx(s, x):
    """exp(x * x) erfc(x)."""
    size = s.abs(x)
    tail = chebyshev(s, 8 / (4 + size) - 1, fits.ERFCX) / (size + 0.5)
    return s.where(x < 0, 2 * s.exp(x * x) - tail, tail)


class Erfcx(Pointwise):
    """exp(input**2) * erfc(input)."""

    schema = "erfcx(Tensor input) -> Tensor"
    namespace = "special"
    method = inplace = False
    promote = Promote.TO_FLOAT
    refuse = ("complex", "half")

    def expr(self, s, x):
        return erfcx(s, x)

    def vjp(self, s, g, input, result):
        return {"input": g * (2 * input * result - 2 / math.sqrt(math.pi))}


class Ndtr(Pointwise):
    """The normal distribution function."""

    schema = "ndtr(Tensor input) -> Tensor"
    namespace = "special"
    method = inplace = False
    promote = Promote.TO_FLOAT
    refuse = ("complex",)

    def expr(self, s, x):
        return 0.5 * s.erfc(-x * ROOT_HALF)

    def vjp(self, s, g, input):
        return {"input": g * s.exp(-0.5 * input * input) * (1 / math.sqrt(2 * math.pi))}


class LogNdtr(Pointwise):
    """log of the normal distribution function, accurate in the lower tail."""

    schema = "log_ndtr(Tensor input) -> Tensor"
    namespace = "special"
    method = inplace = False
    promote = Promote.TO_FLOAT
    refuse = ("complex", "half")

    def expr(self, s, x):
        low, high = s.minimum(x, -1), s.maximum(x, -1)
        tail = s.log(erfcx(s, -low * ROOT_HALF) * 0.5) - 0.5 * low * low
        return s.where(x < -1, tail, s.log1p(-0.5 * s.erfc(high * ROOT_HALF)))

    def vjp(self, s, g, input):
        return {"input": g / erfcx(s, -input * ROOT_HALF) * math.sqrt(2 / math.pi)}


def normal_tail_quantile(s, p):
    """x > 0 with upper normal tail p, for p below 1/5: an estimate, then Newton steps on log p."""
    log_p = s.log(p)
    t = s.sqrt(-2 * log_p)
    x = t - (2.515517 + t * (0.802853 + t * 0.010328)) / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)))
    for _ in range(3):
        scaled = erfcx(s, x * ROOT_HALF)
        excess = s.log(scaled * 0.5) - 0.5 * x * x - log_p
        x = x + excess * scaled * math.sqrt(math.pi / 2)
    return x


class Ndtri(Pointwise):
    """Quantile of the normal distribution."""

    schema = "ndtri(Tensor input) -> Tensor"
    namespace = "special"
    method = inplace = False
    promote = Promote.TO_FLOAT
    refuse = ("complex", "half")

    def expr(self, s, x):
        upper = 1 - x
        tail = s.minimum(x, upper)
        in_tail = (tail < 0.2) & (tail > 0)
        far = normal_tail_quantile(s, s.where(in_tail, tail, 0.1))
        middle = math.sqrt(2) * s.erfinv(s.where(in_tail, 0, 2 * x - 1))
        return s.where(in_tail, s.where(x < 0.5, -far, far), middle)

    def vjp(self, s, g, result):
        return {"input": g * math.sqrt(2 * math.pi) * s.exp(0.5 * result * result)}


class Lgamma(Pointwise):
    """log |gamma(input)|."""

    schema = "lgamma(Tensor input) -> Tensor"
    aliases = ("special.gammaln",)
    promote = Promote.TO_FLOAT
    refuse = ("complex",)

    def expr(self, s, x):
        return s.lgamma(x)


class Digamma(Pointwise):
    """Derivative of lgamma."""

    schema = "digamma(Tensor input) -> Tensor"
    aliases = ("special.digamma", "special.psi")
    promote = Promote.TO_FLOAT
    refuse = ("complex",)

    def expr(self, s, x):
        return s.digamma(x)

    def vjp(self, s, g, input):
        return {"input": g * trigamma(s, input)}


# Bernoulli numbers B2, B4, ... of the Euler-Maclaurin tails below.
BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798, -174611 / 330)


def trigamma(s, x):
    """Derivative of digamma: a shifted sum and its tail; the reflection formula below 1/2."""
    low = x < 0.5
    y = s.where(low, 1 - x, x)
    total = s.const(0, x.dtype)
    for k in range(8):
        total = total + 1 / ((y + k) * (y + k))
    z = y + 8
    inverse = 1 / (z * z)
    tail = s.const(BERNOULLI[7], x.dtype)
    for b in reversed(BERNOULLI[:7]):
        tail = tail * inverse + b
    total = total + (1 / z + 0.5 * inverse + tail * inverse / z)
    # sin(pi x) from the distance to the nearest integer: exact zeros at the poles.
    sine = s.sin(math.pi * (x - s.rint(x)))
    return s.where(low, math.pi * math.pi / (sine * sine) - total, total)


def zeta(s, power, start):
    """Sum of (start + k) ** -power over k >= 0, by ten terms and the Euler-Maclaurin tail."""
    total = s.const(0, start.dtype)
    for k in range(10):
        total = total + s.pow(start + k, -power)
    z = start + 10
    last = s.pow(z, -power)
    tail = last * z / (power - 1) + 0.5 * last
    term, inverse = last / z, 1 / (z * z)
    factor = power
    for k, b in enumerate(BERNOULLI[:9]):
        tail = tail + term * factor * (b / math.factorial(2 * k + 2))
        factor = factor * (power + (2 * k + 1)) * (power + (2 * k + 2))
        term = term * inverse
    return total + tail


class Zeta(Pointwise):
    """Hurwitz zeta function: the sum of (other + k) ** -input over k = 0, 1, ..."""

    schema = "zeta(Tensor|Scalar input, Tensor|Scalar other) -> Tensor"
    namespace = "special"
    method = inplace = False
    promote = Promote.TO_FLOAT
    refuse = ("complex", "half")

    def expr(self, s, power, start):
        whole = s.eq(start, s.floor(start))
        at_pole = (start <= 0) & whole
        undefined = (power < 1) | ((start <= 0) & s.ne(power, s.floor(power)) & ~whole)
        safe = s.where(power > 1, power, 2)
        value = zeta(s, safe, s.where(at_pole, 1, start))
        return s.where(s.eq(power, 1), INF, s.where(undefined, NAN, s.where(at_pole, INF, value)))

    def vjp(self, s, g, input, other):
        return {"other": -g * input * zeta(s, input + 1, other)}


class Polygamma(Pointwise):
    """The n-th derivative of digamma."""

    schema = "polygamma(int n, Tensor input) -> Tensor"
    aliases = ("special.polygamma",)
    method_self = "input"
    promote = Promote.TO_FLOAT
    refuse = ("complex",)

    def check(self, n):
        if n < 0:
            raise RuntimeError(f"polygamma: n must not be negative, got {n}")

    def expr(self, s, n, x):
        return polygamma(s, n, x)

    def vjp(self, s, g, n, input):
        return {"input": g * polygamma(s, n + 1, input)}


def polygamma(s, n: int, x):
    """The n-th derivative of digamma at x."""
    if n == 0:
        return s.digamma(x)
    if n == 1:
        return trigamma(s, x)
    sign = 1.0 if n % 2 else -1.0
    return sign * math.factorial(n) * zeta(s, s.const(n + 1, x.dtype), x)


class Mvlgamma(Pointwise):
    """log of the multivariate gamma function of dimension p."""

    schema = "mvlgamma(Tensor input, int p) -> Tensor"
    aliases = ("special.multigammaln",)
    promote = Promote.TO_FLOAT
    refuse = ("complex",)

    def check(self, p):
        if p < 1:
            raise RuntimeError(f"mvlgamma: p must be at least 1, got {p}")

    def expr(self, s, x, p):
        total = s.lgamma(x)
        for j in range(1, p):
            total = total + s.lgamma(x - j / 2)
        return total + p * (p - 1) / 4 * math.log(math.pi)


class Entr(Pointwise):
    """-x log x; 0 at 0, -inf below."""

    schema = "entr(Tensor input) -> Tensor"
    namespace = "special"
    method = inplace = False
    promote = Promote.TO_FLOAT
    refuse = ("complex",)

    def expr(self, s, x):
        safe = s.where(x > 0, x, 1)
        return s.where(x > 0, -x * s.log(safe), s.where(s.eq(x, 0), 0, s.where(x < 0, -INF, x)))

    def vjp(self, s, g, input):
        # Below zero the value is -inf, and so is every slope; at zero it is +inf.
        return {"input": s.where(input < 0, -INF * g, g * (-s.log(s.abs(input)) - 1))}
