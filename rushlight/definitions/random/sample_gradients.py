"""How gamma and Dirichlet samples move with their parameters: `_standard_gamma_grad`, `_dirichlet_grad`.

Enters: samples and the concentrations they were drawn with. Leaves: the derivative of the sample in its concentration
at a fixed quantile, dx/da = -(dF/da) / p for distribution function F and density p, to about 1e-9 in float64 and 1e-5
in float32 (PyTorch's is good to 1e-3). Refuses: dtypes the samplers do not exist for.

Under the integral, dF/da is the integral of p(t) * dlog p(t)/da from an end of the support to x. Either end will do,
since the whole integral vanishes; the one on the side of the shorter tail is taken. With s for the distance of t from
x, the integrand falls smoothly from s = 0 over scales that differ by many orders of magnitude, which the
double-exponential rule below handles with one set of nodes: they are spread evenly in log s.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from ... import _C
from ...op import Composite, find_op
from .fills import refuse_dtype

BLOCK = 1 << 12  # elements at a time, each of which takes a row of nodes
SUPPORTED = (_C.float32, _C.float64)


@lru_cache(maxsize=2)
def rule(dtype: Any) -> tuple[list[float], list[float]]:
    """Nodes and weights, to what the dtype can hold: s = exp(t - exp(-t)) for t in even steps."""
    step, first, last = (0.1, -36, 40) if dtype is _C.float64 else (0.2, -14, 17)
    grid = [step * k for k in range(first, last + 1)]
    nodes = [math.exp(t - math.exp(-t)) for t in grid]
    return nodes, [step * u * (1 + math.exp(-t)) for t, u in zip(grid, nodes, strict=True)]


def integrate(integrand: Callable[..., Any], rate: Any, dtype: Any, *parameters: Any) -> Any:
    """The integral over s from 0 to infinity of a function that falls at about exp(-rate s), per row.

    The integrand is called with s and the parameters in `dtype`: what needs more digits is in the parameters already.
    """
    nodes, weights = (rate.new_tensor(values, dtype=dtype) for values in rule(dtype))
    values = integrand(nodes / rate.to(dtype), *(p.to(dtype) for p in parameters))
    return (values * weights).sum(-1, keepdim=True).double() / rate


def choose(condition: Any, yes: Any, no: Any) -> Any:
    return find_op("where")(condition, yes, no)


def by_side(
    below: Any, sides: tuple[Callable[..., Any], Callable[..., Any]], rate: Any, dtype: Any, *parameters: Any
) -> Any:
    """The integral of the first integrand for rows where `below` holds, and of the second for the others."""
    result = find_op("empty_like")(rate)
    for side, integrand in zip((below, ~below), sides, strict=True):
        place = side.squeeze(-1).nonzero().squeeze(-1)
        own = [t.index_select(0, place) for t in (rate, *parameters)]
        result.index_copy_(0, place, integrate(integrand, own[0], dtype, *own[1:]))
    return result


def below_gamma(s: Any, a: Any, x: Any, offset: Any) -> Any:
    """t = x exp(-s). Terms of order 1/a in s + digamma(a) are taken out by parts: they would cancel for small a."""
    lost = -(-s).expm1()
    return (x * lost - a * s).exp() * (offset + x / a * s * (1 - lost))


def above_gamma(s: Any, a: Any, x: Any, offset: Any) -> Any:
    """t = x (1 + s)."""
    growth = s.log1p()
    return ((a - 1) * growth - x * s).exp() * (offset + growth)


def gamma_slope(dtype: Any, a: Any, x: Any) -> Any:
    """dx/da for x of Gamma(a, 1); columns of float64."""
    below = x <= a.clamp(min=0.5)
    rate = choose(below & (a < 1), a, choose(below, (a - x).clamp(min=0), x - a) + x.sqrt())
    offset = choose(below, (a + 1).digamma() - x.log(), x.log() - a.digamma())
    return x * by_side(below, (below_gamma, above_gamma), rate, dtype, a, x, offset)


def below_beta(s: Any, a: Any, b: Any, x: Any, rest: Any, offset: Any) -> Any:
    """t = x exp(-s), by parts like `below_gamma`."""
    lost = -(-s).expm1()
    share = x * (1 - lost)
    return ((b - 1) * (x / rest * lost).log1p() - a * s).exp() * (offset + (b - 1) / a * s * share / (1 - share))


def above_beta(s: Any, a: Any, b: Any, x: Any, rest: Any, offset: Any) -> Any:
    """1 - t = (1 - x) exp(-s)."""
    growth = (-rest / x * (-s).expm1()).log1p()
    return ((a - 1) * growth - b * s).exp() * (offset + growth)


def beta_slope(dtype: Any, a: Any, b: Any, x: Any) -> Any:
    """dx/da / (1 - x) for x of Beta(a, b); columns of float64."""
    rest = 1 - x
    below = x * b <= a * rest
    toward_zero = (a - (b - 1).clamp(min=0) * x / rest).clamp(min=0) + a.sqrt()
    toward_one = (b - (a - 1).clamp(min=0) * rest / x).clamp(min=0) + b.sqrt()
    rate = choose(below, choose(a < 1, a, toward_zero), choose(b < 1, b, toward_one))
    whole = (a + b).digamma()
    offset = choose(below, (a + 1).digamma() - whole - x.log(), x.log() + whole - a.digamma())
    return choose(below, x / rest, 1.0) * by_side(below, (below_beta, above_beta), rate, dtype, a, b, x, rest, offset)


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
        return by_blocks(
            "_dirichlet_grad", lambda dtype, x, a, whole: beta_slope(dtype, a, whole - a, x), x, alpha, total
        )
