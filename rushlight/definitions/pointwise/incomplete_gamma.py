"""The regularised incomplete gamma functions.

Enters: real tensors a and x that broadcast. Leaves: P(a, x) or Q(a, x) = 1 - P, computed in float64 and rounded to the
common dtype. Refuses: integers and complex numbers, and gradients with respect to a, like PyTorch.

Up to a = 40 a power series serves x below a + 1 and a continued fraction the rest; beyond, the tail of the integrand,
which is then nearly normal, is integrated by Gauss-Legendre quadrature. The iterations stop when no element moves.
"""

from __future__ import annotations

from typing import Any

from rushlight.base.promotion import result_type_of
from rushlight.definitions.pointwise.checks import is_complex, is_integral
from rushlight.op import Composite
from rushlight.op.levels import shape_is_enough
from rushlight.op.out import overwrite

EPSILON = 1e-16
# Nodes in (0, 1) and weights of the 30-point rule on [-1, 1]; the others are their mirror images.
NODES = (
    (0.051471842555317696, 0.10285265289355884), (0.15386991360858355, 0.1017623897484055),
    (0.25463692616788985, 0.099593420586795267), (0.35270472553087811, 0.09636873717464426),
    (0.44703376953808918, 0.092122522237786129), (0.5366241481420199, 0.08689978720108298),
    (0.62052618298924286, 0.080755895229420215), (0.6978504947933158, 0.073755974737705206),
    (0.76777743210482619, 0.065974229882180495), (0.8295657623827684, 0.057493156217619066),
    (0.88256053579205268, 0.048402672830594053), (0.92620004742927433, 0.03879919256962705),
    (0.96002186496830751, 0.028784707883323369), (0.98366812327974721, 0.018466468311090959),
    (0.99689348407464954, 0.0079681924961666056),
)  # fmt: skip


def series(a: Any, x: Any) -> Any:
    """P(a, x) over x**a exp(-x) / gamma(a), for x below a + 1."""
    term = 1 / a
    total = term
    for k in range(1, 200):
        term = term * x / (a + k)
        total = total + term
        if k % 20 == 0 and not bool((term > total * EPSILON).any()):
            break
    return total


def fraction(a: Any, x: Any) -> Any:
    """Q(a, x) over x**a exp(-x) / gamma(a), for x above a + 1, by Lentz's method."""
    b = x + 1 - a
    c = x.new_full((), 1e300)
    d = 1 / b
    value = d
    for k in range(1, 200):
        numerator = k * (a - k)
        b = b + 2
        d = 1 / (numerator * d + b)
        c = b + numerator / c
        step = c * d
        value = value * step
        if k % 20 == 0 and not bool(((step - 1).abs() > EPSILON * 4).any()):
            break
    return value


def quadrature(a: Any, x: Any) -> tuple[Any, Any]:
    """(P, Q) for a above 40: the smaller tail by quadrature over some ten standard deviations, the other from it."""
    peak = a - 1
    log_peak, width = peak.log(), peak.sqrt()
    upper = x > peak
    far_up = (peak + 11.5 * width).maximum(x + 6 * width)
    far_down = (peak - 7.5 * width).minimum(x - 5 * width).clamp_min(0)
    end = far_up.where(upper, far_down)
    middle, half = (x + end) / 2, (end - x) / 2
    total = 0
    for node, weight in NODES:
        for t in (middle + half * node, middle - half * node):
            total = total + weight * (peak * (t.log() - log_peak) - (t - peak)).exp()
    tail = (total * half * (peak * (log_peak - 1) - a.lgamma()).exp()).abs()
    return (1 - tail).where(upper, tail), tail.where(upper, 1 - tail)


def lower_and_upper(a: Any, x: Any) -> tuple[Any, Any]:
    """P and Q for float64 tensors, limits included."""
    inside = (a > 0) & (x > 0) & a.isfinite() & x.isfinite()
    safe_a, safe_x = a.where(inside, 1.0), x.where(inside, 1.0)
    small_a = safe_a.clamp_max(40.0)
    near, far = safe_x.minimum(small_a + 1), safe_x.maximum(small_a + 1)
    below = safe_x <= small_a + 1
    scale = (small_a * safe_x.log() - safe_x - small_a.lgamma()).exp()
    p, q = scale * series(small_a, near), scale * fraction(small_a, far)
    p, q = p.where(below, 1 - q), (1 - p).where(below, q)
    if bool((safe_a > 40).any()):
        large_p, large_q = quadrature(safe_a.clamp_min(40.0), safe_x)
        p, q = p.where(safe_a <= 40, large_p), q.where(safe_a <= 40, large_q)
    # Limits: all of the mass lies below x = inf and above x = 0; a = 0 is a point mass at 0.
    one = (x == float("inf")) & (a >= 0) & a.isfinite() | ((a == 0) & (x > 0))
    zero = ((x == 0) & (a > 0)) | ((a == float("inf")) & (x >= 0) & x.isfinite())
    outside = (1.0 * one).where(one | zero, float("nan"))
    return p.where(inside, outside), q.where(inside, 1 - outside)


def regularized(name: str, input: Any, other: Any, which: int) -> Any:
    """One of the two functions, in the common dtype."""
    if (is_integral(input) and is_integral(other)) or is_complex(input) or is_complex(other):
        raise NotImplementedError(f"\"{name}\" not implemented for '{input.dtype.name}'")
    dtype = result_type_of((input, other))
    if shape_is_enough(name, input) or shape_is_enough(name, other):   # nothing to choose methods by
        return (input + other).to(dtype)
    return lower_and_upper(input.double(), other.double())[which].to(dtype)


def density(name: str, input: Any, other: Any) -> Any:
    """The derivative of P in x; refuses one in a."""
    if input.requires_grad:
        raise NotImplementedError(f"the derivative for '{name}: input' is not implemented. Detach it.")
    return (-other + (input - 1) * other.log() - input.lgamma()).exp()


class Igamma(Composite):
    """The lower regularised incomplete gamma function P(input, other)."""

    schema = "igamma(Tensor input, Tensor other) -> Tensor"
    aliases = ("special.gammainc",)
    batch = "pointwise"

    def compute(self, input, other):
        return regularized("igamma", input, other, 0)

    def vjp(self, g, input, other):
        return {"other": g * density("igamma", input, other)}


class Igammac(Composite):
    """The upper regularised incomplete gamma function Q(input, other)."""

    schema = "igammac(Tensor input, Tensor other) -> Tensor"
    aliases = ("special.gammaincc",)
    batch = "pointwise"

    def compute(self, input, other):
        return regularized("igammac", input, other, 1)

    def vjp(self, g, input, other):
        return {"other": -g * density("igammac", input, other)}


class IgammaInplace(Composite):
    """igamma written over its input."""

    schema = "igamma_(Tensor input, Tensor other) -> Tensor"
    function = False

    def compute(self, input, other):
        return overwrite("igamma_", input, input.igamma(other))


class IgammacInplace(Composite):
    """igammac written over its input."""

    schema = "igammac_(Tensor input, Tensor other) -> Tensor"
    function = False

    def compute(self, input, other):
        return overwrite("igammac_", input, input.igammac(other))
