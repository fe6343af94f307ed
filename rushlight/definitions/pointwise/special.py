"""Special functions: error functions, the gamma family, the normal distribution, entropy.

Enters: real tensors; integers become the default float. Leaves: a floating dtype. Refuses: complex numbers.
"""

from __future__ import annotations

import math

from rushlight._C import float32
from rushlight.base.promotion import to_float
from rushlight.definitions.pointwise.checks import is_bool
from rushlight.op import Composite, Pointwise, Promote, find_op
from rushlight.op.memory import check_memory
from rushlight.rules.out import overwrite

TERMS = 1 << 22   # of mvlgamma's sums, computed at a time
INF = float("inf")
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


class Erfcx(Pointwise):
    """exp(input**2) * erfc(input)."""

    schema = "erfcx(Tensor input) -> Tensor"
    namespace = "special"
    method = inplace = False
    promote = Promote.TO_FLOAT
    refuse = ("complex", "half")

    def expr(self, s, x):
        return s.erfcx(x)

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
        return s.ndtr(x)

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
        return s.log_ndtr(x)

    def vjp(self, s, g, input):
        return {"input": g / s.erfcx(-input * ROOT_HALF) * math.sqrt(2 / math.pi)}


class Ndtri(Pointwise):
    """Quantile of the normal distribution."""

    schema = "ndtri(Tensor input) -> Tensor"
    namespace = "special"
    method = inplace = False
    promote = Promote.TO_FLOAT
    refuse = ("complex", "half")

    def expr(self, s, x):
        return s.ndtri(x)

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


class Zeta(Pointwise):
    """Hurwitz zeta function: the sum of (other + k) ** -input over k = 0, 1, ..."""

    schema = "zeta(Tensor|Scalar input, Tensor|Scalar other) -> Tensor"
    needs_tensor = True
    namespace = "special"
    method = inplace = False
    promote = Promote.TO_FLOAT
    refuse = ("complex", "half")
    no_derivative = ("input",)

    def expr(self, s, power, start):
        return s.zeta(power, start)

    def vjp(self, s, g, input, other):
        return {"other": -g * input * s.zeta(input + 1, other)}


class Polygamma(Pointwise):
    """The n-th derivative of digamma."""

    schema = "polygamma(int n, Tensor input) -> Tensor"
    aliases = ("special.polygamma",)
    method_self = "input"
    inplace = False
    promote = Promote.TO_FLOAT
    refuse = ("complex",)

    def check(self, n):
        if n < 0:
            raise RuntimeError(f"polygamma: n must not be negative, got {n}")

    def expr(self, s, n, x):
        return s.polygamma(n, x)

    def vjp(self, s, g, n, input):
        return {"input": g * s.polygamma(n + 1, input)}


class PolygammaInplace(Composite):
    """polygamma written over its input."""

    schema = "polygamma_(Tensor input, int n) -> Tensor"
    function = False

    def compute(self, input, n):
        return overwrite("polygamma_", input, input.polygamma(n))


class Mvlgamma(Composite):
    """log of the multivariate gamma function of dimension p: a sum over p values of lgamma."""

    schema = "mvlgamma(Tensor input, int p) -> Tensor"
    aliases = ("special.multigammaln",)

    def compute(self, input, p):
        if is_bool(input):
            raise RuntimeError("mvlgamma: the input tensor may not be a boolean tensor.")
        if input.dtype.is_complex:
            raise NotImplementedError(f'"mvlgamma" not implemented for \'{input.dtype.name}\'')
        if p < 1:
            raise RuntimeError(f"mvlgamma: p must be at least 1, got {p}")
        result = to_float(input.dtype)
        wide = float32 if result.itemsize < 4 else result   # half types are rounded once, at the end
        check_memory((*input.shape, p), wide, input.device)
        x, total = input.to(wide).unsqueeze(-1), p * (p - 1) / 4 * math.log(math.pi)
        count = input.numel()
        step = max(1, TERMS // max(1, count)) if type(count) is int and not input.is_meta else p
        for start in range(0, p, step):   # in steps between which an interrupt is heard
            halves = find_op("arange")(start, min(p, start + step), dtype=wide, device=input.device) * 0.5
            total = (x - halves).lgamma().sum(-1) + total
        return total.to(result)


class MvlgammaInplace(Composite):
    """mvlgamma written over its input."""

    schema = "mvlgamma_(Tensor input, int p) -> Tensor"
    function = False

    def compute(self, input, p):
        return overwrite("mvlgamma_", input, input.mvlgamma(p))


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
        return {"input": g * (-s.log(input) - 1)}
