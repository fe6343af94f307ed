"""How gamma and Dirichlet samples move with their parameters: `_standard_gamma_grad`, `_dirichlet_grad`.

Enters: samples and the concentrations they were drawn with. Leaves: the derivative of the sample in its concentration at
a fixed quantile, dx/da = -(dF/da) / p for distribution function F and density p, to about 1e-9 in float64 (PyTorch's is good
to 1e-3). Refuses: dtypes the samplers do not exist for.

Under the integral, dF/da is the integral of p(t) * dlog p(t)/da from an end of the support to x. Either end will do, since
the whole integral vanishes; the one on the side of the shorter tail is taken. With the distance from x in logarithms,
s = |log t/x|, the integrand falls smoothly from s = 0 over scales that differ by many orders of magnitude, which the
double-exponential rule below handles with one set of nodes: they are spread evenly in log s.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from .. import _C
from ..op import Composite, find_op
from .random import refuse_dtype

BLOCK = 1 << 12  # elements at a time, each of which takes a row of nodes
SUPPORTED = (_C.float32, _C.float64)


@lru_cache(maxsize=2)
def rule(dtype: Any) -> tuple[list[float], list[float]]:
    """Nodes and weights: the finer step is good to 1e-9, the coarser to 1e-6."""
    step = 0.1 if dtype is _C.float64 else 0.15
    grid = [step * k for k in range(round(-4.4 / step), round(4.4 / step) + 1)]
    nodes = [math.exp(t - math.exp(-t)) for t in grid]
    return nodes, [step * u * (1 + math.exp(-t)) for t, u in zip(grid, nodes, strict=True)]


def integrate(integrand: Callable[[Any], Any], rate: Any, dtype: Any) -> Any:
    """The integral over s from 0 to infinity of a function that falls at about exp(-rate s), per row."""
    nodes, weights = (rate.new_tensor(values) for values in rule(dtype))
    return (integrand(nodes / rate) * weights).sum(-1, keepdim=True) / rate


def choose(condition: Any, yes: Any, no: Any) -> Any:
    return find_op("where")(condition, yes, no)


def gamma_slope(dtype: Any, a: Any, x: Any) -> Any:
    """dx/da for x of Gamma(a, 1); columns of float64."""
    below = x <= a.clamp(min=1)
    rate = choose(below & (a < 1), a, choose(below, (a - x).clamp(min=0), x - a) + x.sqrt())
    offset = choose(below, (a + 1).digamma() - x.log(), x.log() - a.digamma())
    sign = choose(below, -1.0, 1.0).double()

    def integrand(s: Any) -> Any:
        # Below x, the terms of order 1/a in s + digamma(a) are taken out by parts: they would cancel for small a.
        s = sign * s
        grown = s.expm1()
        return (a * s - x * grown).exp() * (offset + s * choose(below, -x / a * (grown + 1), 1.0))

    return x * integrate(integrand, rate, dtype)


def beta_slope(dtype: Any, a: Any, b: Any, x: Any) -> Any:
    """dx/da / (1 - x) for x of Beta(a, b); columns of float64."""
    rest = 1 - x
    below = x * b <= a * rest
    toward_zero = (a - (b - 1).clamp(min=0) * x / rest).clamp(min=0) + a.sqrt()
    toward_one = (b - (a - 1).clamp(min=0) * rest / x).clamp(min=0) + b.sqrt()
    rate = choose(below, choose(a < 1, a, toward_zero), choose(b < 1, b, toward_one))
    whole = (a + b).digamma()
    offset = choose(below, (a + 1).digamma() - whole - x.log(), x.log() + whole - a.digamma())
    # Seen from the far end, x and 1 - x change places, and so do the exponents.
    near, far = choose(below, x, rest), choose(below, rest, x)
    first, second = choose(below, a, b), choose(below, b, a)

    def integrand(s: Any) -> Any:
        fallen = (-s).expm1()
        growth = (-near / far * fallen).log1p()
        share = near * (fallen + 1)
        lower = (b - 1) / a * s * share / (1 - share)
        return (second * growth - growth - first * s).exp() * (offset + choose(below, lower, growth))

    return choose(below, x / rest, 1.0) * integrate(integrand, rate, dtype)


def by_blocks(name: str, slope: Callable[..., Any], *inputs: Any) -> Any:
    """`slope` of the inputs, broadcast, in float64 and some thousand elements at a time."""
    dtype = inputs[0].dtype
    if any(t.dtype not in SUPPORTED for t in inputs):
        refuse_dtype(name, next(t.dtype for t in inputs if t.dtype not in SUPPORTED))
    result = sum(t.detach() for t in inputs)
    if result.is_meta or not result.numel():
        return result.to(dtype)
    shape = result.shape
    columns = [t.detach().expand(shape).reshape(-1, 1).double().split(BLOCK) for t in inputs]
    return find_op("cat")([slope(dtype, *block) for block in zip(*columns, strict=True)]).reshape(shape).to(dtype)


class StandardGammaGrad(Composite):
    """The derivative in `input` of `output`, a sample of the gamma distribution with that concentration."""

    schema = "_standard_gamma_grad(Tensor input, Tensor output) -> Tensor"
    batch = "pointwise"
    method = False
    body = False
    differentiable = False

    def compute(self, input, output):
        return by_blocks("_standard_gamma_grad", gamma_slope, input, output)


class DirichletGrad(Composite):
    """The derivative in `alpha` of `x` over 1 - x, for a sample x of the beta distribution (alpha, total - alpha)."""

    schema = "_dirichlet_grad(Tensor x, Tensor alpha, Tensor total) -> Tensor"
    batch = "pointwise"
    method = False
    body = False
    differentiable = False

    def compute(self, x, alpha, total):
        return by_blocks("_dirichlet_grad", lambda dtype, x, a, whole: beta_slope(dtype, a, whole - a, x), x, alpha, total)
