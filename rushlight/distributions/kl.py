"""The Kullback-Leibler divergence between two distributions: `kl_divergence`, and `register_kl` to teach it pairs.

Enters: two distributions. Leaves: KL(p || q), one number per batch, infinite where q excludes what p allows. Refuses:
pairs of types nobody registered. The rule registered for the most specific pair of base classes is used.

Pairs of one family have closed formulas below. A pair of different continuous families on the line needs no formula of
its own: KL(p || q) = -H(p) - E_p[log q(x)], and log q is linear in a few functions of x (x, x^2, log x, log(1 - x),
exp(-t x)) whose expectations p knows. `_MOMENTS` lists them by p, `_EXPECTED_LOG` uses them by q.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from .._C import Tensor
from ..op import find_op
from ..tensors.plain_functions import broadcast_shapes
from .bernoulli import Bernoulli
from .beta import Beta
from .binomial import Binomial
from .categorical import Categorical
from .cauchy import Cauchy
from .continuous_bernoulli import ContinuousBernoulli
from .dirichlet import Dirichlet
from .distribution import Distribution
from .exp_family import ExponentialFamily, _with_means
from .exponential import Exponential
from .gamma import Gamma
from .geometric import Geometric
from .gumbel import Gumbel
from .half_normal import HalfNormal
from .independent import Independent
from .laplace import Laplace
from .lowrank_multivariate_normal import LowRankMultivariateNormal, _batch_lowrank_logdet, _batch_lowrank_mahalanobis
from .multivariate_normal import MultivariateNormal, _batch_mahalanobis, _half_log_det
from .normal import Normal
from .one_hot_categorical import OneHotCategorical
from .pareto import Pareto
from .poisson import Poisson
from .transformed_distribution import TransformedDistribution
from .uniform import Uniform
from .utils import _sum_rightmost, euler_constant

__all__ = ["register_kl", "kl_divergence"]

_KL_REGISTRY: dict[tuple[type, type], Callable] = {}
_KL_MEMOIZE: dict[tuple[type, type], Any] = {}
_full_like, _softplus, _solve, _where = (
    find_op("full_like"),
    find_op("softplus"),
    find_op("linalg_solve_triangular"),
    find_op("where"),
)


# --- the registry -----------------------------------------------------------------------------------------------------


def register_kl(type_p: type, type_q: type) -> Callable[[Callable], Callable]:
    """A decorator: use the function for KL(p || q) of these classes and their subclasses."""
    for name, kind in (("type_p", type_p), ("type_q", type_q)):
        if not isinstance(kind, type):  # any class will do: libraries have interfaces of their own above Distribution
            raise TypeError(f"{name}: expected a subclass of Distribution, got {kind}")

    def register(rule: Callable) -> Callable:
        _KL_REGISTRY[type_p, type_q] = rule
        _KL_MEMOIZE.clear()
        return rule

    return register


def _dispatch_kl(type_p: type, type_q: type) -> Any:
    """The rule for the most specific pair: nearest in p first, then in q; a warning if the other order disagrees."""
    matches = [pair for pair in _KL_REGISTRY if issubclass(type_p, pair[0]) and issubclass(type_q, pair[1])]
    if not matches:
        return NotImplemented

    def distance(pair: tuple[type, type]) -> tuple[int, ...]:
        """How many classes nearer than the registered one there are; virtual base classes come last."""
        orders = type_p.__mro__, type_q.__mro__
        return tuple(mro.index(kind) if kind in mro else len(mro) for kind, mro in zip(pair, orders, strict=True))

    left = min(matches, key=distance)
    right = min(matches, key=lambda pair: distance(pair)[::-1])
    if _KL_REGISTRY[left] is not _KL_REGISTRY[right]:
        warnings.warn(f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). "
                      f"Please register_kl({left[0].__name__}, {right[1].__name__})", RuntimeWarning,
                      stacklevel=3)
    return _KL_REGISTRY[left]


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """KL(p || q) = E_p[log p(x) - log q(x)], of the batch shape."""
    kinds = type(p), type(q)
    rule = _KL_MEMOIZE.get(kinds)
    if rule is None:
        rule = _KL_MEMOIZE[kinds] = _dispatch_kl(*kinds)
    if rule is NotImplemented:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}"
        )
    return rule(p, q)


def _infinite_where(condition: Tensor, value: Tensor) -> Tensor:
    return _where(condition, math.inf, value)


def _log_beta(a: Tensor, b: Tensor) -> Tensor:
    return a.lgamma() + b.lgamma() - (a + b).lgamma()


# --- discrete ---------------------------------------------------------------------------------------------------------


@register_kl(Bernoulli, Bernoulli)
def _kl_bernoulli_bernoulli(p: Any, q: Any) -> Tensor:
    ones = p.probs * (_softplus(-q.logits) - _softplus(-p.logits))
    zeros = (1 - p.probs) * (_softplus(q.logits) - _softplus(p.logits))
    ones = _where(p.probs == 0, 0.0, _infinite_where(q.probs == 0, ones))
    return ones + _where(p.probs == 1, 0.0, _infinite_where(q.probs == 1, zeros))


@register_kl(Binomial, Binomial)
def _kl_binomial_binomial(p: Any, q: Any) -> Tensor:
    if (p.total_count < q.total_count).any():
        raise NotImplementedError("kl_divergence: not implemented for Binomials with q.total_count > p.total_count")
    each = p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p()
    return _infinite_where(p.total_count > q.total_count, p.total_count * each)


@register_kl(Categorical, Categorical)
def _kl_categorical_categorical(p: Any, q: Any) -> Tensor:
    terms = p.probs * (p.logits - q.logits)
    return _where(p.probs == 0, 0.0, _infinite_where(q.probs == 0, terms)).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _kl_onehotcategorical_onehotcategorical(p: Any, q: Any) -> Tensor:
    return _kl_categorical_categorical(p._categorical, q._categorical)


@register_kl(Geometric, Geometric)
def _kl_geometric_geometric(p: Any, q: Any) -> Tensor:
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@register_kl(Poisson, Poisson)
def _kl_poisson_poisson(p: Any, q: Any) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Bernoulli, Poisson)
def _kl_bernoulli_poisson(p: Any, q: Any) -> Tensor:
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)


@register_kl(Poisson, Bernoulli)
@register_kl(Poisson, Binomial)
def _kl_poisson_infinity(p: Any, q: Any) -> Tensor:
    return _full_like(p.rate, math.inf)


# --- one continuous family --------------------------------------------------------------------------------------------


@register_kl(Beta, Beta)
def _kl_beta_beta(p: Any, q: Any) -> Tensor:
    a, b, c, d = p.concentration1, p.concentration0, q.concentration1, q.concentration0
    gained = (a - c) * a.digamma() + (b - d) * b.digamma() + (c + d - a - b) * (a + b).digamma()
    return _log_beta(c, d) - _log_beta(a, b) + gained


@register_kl(Cauchy, Cauchy)
def _kl_cauchy_cauchy(p: Any, q: Any) -> Tensor:
    return ((p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)).log() - (4 * p.scale * q.scale).log()


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _kl_continuous_bernoulli_continuous_bernoulli(p: Any, q: Any) -> Tensor:
    norms = [d._cont_bern_log_norm() + (-d.probs).log1p() for d in (p, q)]
    return p.mean * (p.logits - q.logits) + norms[0] - norms[1]


@register_kl(Dirichlet, Dirichlet)
def _kl_dirichlet_dirichlet(p: Any, q: Any) -> Tensor:
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    norms = total.lgamma() - b.sum(-1).lgamma() - (a.lgamma() - b.lgamma()).sum(-1)
    return norms + ((a - b) * (a.digamma() - total.digamma().unsqueeze(-1))).sum(-1)


@register_kl(Exponential, Exponential)
def _kl_exponential_exponential(p: Any, q: Any) -> Tensor:
    ratio = q.rate / p.rate
    return ratio - 1 - ratio.log()


@register_kl(ExponentialFamily, ExponentialFamily)
def _kl_expfamily_expfamily(p: Any, q: Any) -> Tensor:
    """The Bregman divergence of the log normaliser, for families without a closed rule."""
    if type(p) is not type(q):
        raise NotImplementedError(
            "kl_divergence: the Bregman form serves two distributions of one exponential family only"
        )
    theta, normalizer, means = _with_means(p)
    others = q._natural_params
    result = q._log_normalizer(*others) - normalizer
    for own, other, mean in zip(theta, others, means, strict=True):
        result = result - _sum_rightmost((other - own) * mean, len(q.event_shape))
    return result


@register_kl(Gamma, Gamma)
def _kl_gamma_gamma(p: Any, q: Any) -> Tensor:
    a, b = p.concentration, q.concentration
    return (
        b * (p.rate / q.rate).log() + b.lgamma() - a.lgamma() + (a - b) * a.digamma() + (q.rate - p.rate) * (a / p.rate)
    )


@register_kl(Gumbel, Gumbel)
def _kl_gumbel_gumbel(p: Any, q: Any) -> Tensor:
    ratio, shift = p.scale / q.scale, (p.loc - q.loc) / q.scale
    return -ratio.log() + shift + euler_constant * (ratio - 1) + ((1 + ratio).lgamma() - shift).exp() - 1


@register_kl(HalfNormal, HalfNormal)
def _kl_halfnormal_halfnormal(p: Any, q: Any) -> Tensor:
    return _kl_normal_normal(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _kl_laplace_laplace(p: Any, q: Any) -> Tensor:
    ratio, apart = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + apart / q.scale + ratio * (-apart / p.scale).exp() - 1


@register_kl(Normal, Normal)
def _kl_normal_normal(p: Any, q: Any) -> Tensor:
    ratio = (p.scale / q.scale).pow(2)
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).pow(2) - 1 - ratio.log())


@register_kl(Pareto, Pareto)
def _kl_pareto_pareto(p: Any, q: Any) -> Tensor:
    ratio = q.alpha / p.alpha
    return _infinite_where(p.scale < q.scale, q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1)


@register_kl(Uniform, Uniform)
def _kl_uniform_uniform(p: Any, q: Any) -> Tensor:
    return _infinite_where((q.low > p.low) | (q.high < p.high), ((q.high - q.low) / (p.high - p.low)).log())


# --- two continuous families on the line ------------------------------------------------------------------------------


def _spread(p: Any) -> dict[str, Tensor]:
    """E[x] and E[x^2]."""
    return {"x": p.mean, "square": p.variance + p.mean.pow(2)}


def _beta_moments(p: Any) -> dict[str, Any]:
    total = (p.concentration1 + p.concentration0).digamma()
    return {**_spread(p), "log": p.concentration1.digamma() - total, "log1m": p.concentration0.digamma() - total}


def _exponential_moments(p: Any) -> dict[str, Any]:
    return {**_spread(p), "log": -euler_constant - p.rate.log(), "exp_minus": lambda t: p.rate / (p.rate + t)}


def _gamma_moments(p: Any) -> dict[str, Any]:
    a = p.concentration
    return {**_spread(p), "log": a.digamma() - p.rate.log(), "exp_minus": lambda t: (1 + t / p.rate).pow(-a)}


def _normal_moments(p: Any) -> dict[str, Any]:
    def distance(centre: Tensor) -> Tensor:
        z = (p.loc - centre) / p.scale
        return (
            math.sqrt(2 / math.pi) * p.scale * (-0.5 * z.pow(2)).exp() + (p.loc - centre) * (math.sqrt(0.5) * z).erf()
        )

    return {**_spread(p), "distance": distance, "exp_minus": lambda t: (-t * p.loc + 0.5 * (t * p.scale).pow(2)).exp()}


def _pareto_moments(p: Any) -> dict[str, Any]:
    return {**_spread(p), "log": p.scale.log() + p.alpha.reciprocal()}


def _uniform_moments(p: Any) -> dict[str, Any]:
    low, high, width = p.low, p.high, p.high - p.low

    def mean_log(low: Tensor, high: Tensor) -> Tensor:
        return (high.xlogy(high) - low.xlogy(low)) / width - 1

    return {
        **_spread(p), "log": mean_log(low, high), "log1m": mean_log(1 - high, 1 - low),
        "exp_minus": lambda t: ((-t * low).exp() - (-t * high).exp()) / (t * width),
    }


_MOMENTS: dict[type, Callable[[Any], dict[str, Any]]] = {
    Beta: _beta_moments, ContinuousBernoulli: _spread, Exponential: _exponential_moments, Gamma: _gamma_moments,
    Gumbel: _spread, Laplace: _spread, Normal: _normal_moments, Pareto: _pareto_moments, Uniform: _uniform_moments,
}


def _log_gumbel(q: Any, m: Any) -> Tensor:
    return -q.scale.log() - (m.x - q.loc) / q.scale - (q.loc / q.scale).exp() * m.exp_minus(q.scale.reciprocal())


def _log_normal(q: Any, m: Any) -> Tensor:
    variance = q.scale.pow(2)
    return -0.5 * (2 * math.pi * variance).log() - 0.5 * (m.square - 2 * q.loc * m.x + q.loc.pow(2)) / variance


def _log_gamma(q: Any, m: Any) -> Tensor:
    return q.concentration * q.rate.log() - q.concentration.lgamma() + (q.concentration - 1) * m.log - q.rate * m.x


def _log_beta_density(q: Any, m: Any) -> Tensor:
    return (
        (q.concentration1 - 1) * m.log
        + (q.concentration0 - 1) * m.log1m
        - _log_beta(q.concentration1, q.concentration0)
    )


# E[log q(x)] given the moments `m` of p, inside q's support.
_EXPECTED_LOG: dict[type, Callable[[Any, Any], Tensor]] = {
    Beta: _log_beta_density,
    ContinuousBernoulli: lambda q, m: m.x * q.logits + (-q.probs).log1p() + q._cont_bern_log_norm(),
    Exponential: lambda q, m: q.rate.log() - q.rate * m.x,
    Gamma: _log_gamma,
    Gumbel: _log_gumbel,
    Laplace: lambda q, m: -(2 * q.scale).log() - m.distance(q.loc) / q.scale,
    Normal: _log_normal,
    Pareto: lambda q, m: q.alpha.log() + q.alpha * q.scale.log() - (q.alpha + 1) * m.log,
    Uniform: lambda q, m: -(q.high - q.low).log(),
}


def _below_zero(p: Any, q: Any) -> Tensor:
    return p.low < 0


# Where p allows what q excludes. At the ends 0 and 1 of the continuous Bernoulli's support PyTorch counts equality as
# exclusion, and so is it here.
_EXCLUDED: dict[tuple[type, type], Callable[[Any, Any], Tensor]] = {
    (Beta, Uniform): lambda p, q: (q.low > 0) | (q.high < 1),
    (ContinuousBernoulli, Uniform): lambda p, q: (q.low >= 0) | (q.high <= 1),
    (Uniform, Beta): lambda p, q: (p.high > 1) | (p.low < 0),
    (Uniform, ContinuousBernoulli): lambda p, q: (p.high >= 1) | (p.low <= 0),
    (Uniform, Exponential): _below_zero,
    (Uniform, Gamma): _below_zero,
    (Uniform, Pareto): lambda p, q: p.low < q.scale,
}
_FINITE = {
    Beta: (ContinuousBernoulli, Exponential, Gamma, Normal, Uniform),
    ContinuousBernoulli: (Exponential, Normal, Uniform),
    Exponential: (Gamma, Gumbel, Normal),
    Gamma: (Exponential, Gumbel, Normal),
    Gumbel: (Normal,),
    Laplace: (Normal,),
    Normal: (Gumbel, Laplace),
    Pareto: (Exponential, Gamma, Normal),
    Uniform: (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Normal, Pareto),
}
# Pairs where p always reaches beyond q's support, with a parameter of p that has its shape.
_INFINITE = {
    (Beta, "concentration1"): (Pareto,),
    (ContinuousBernoulli, "probs"): (Pareto,),
    (Exponential, "rate"): (Beta, ContinuousBernoulli, Pareto, Uniform),
    (Gamma, "concentration"): (Beta, ContinuousBernoulli, Pareto, Uniform),
    (Gumbel, "loc"): (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    (Laplace, "loc"): (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    (Normal, "loc"): (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    (Pareto, "scale"): (Beta, ContinuousBernoulli, Uniform),
}


def _register_finite(kind_p: type, kind_q: type) -> None:
    moments, expected_log, excluded = _MOMENTS[kind_p], _EXPECTED_LOG[kind_q], _EXCLUDED.get((kind_p, kind_q))

    @register_kl(kind_p, kind_q)
    def rule(p: Any, q: Any) -> Tensor:
        result = -p.entropy() - expected_log(q, SimpleNamespace(**moments(p)))
        return result if excluded is None else _infinite_where(excluded(p, q), result)


def _register_infinite(kind_p: type, parameter: str, kind_q: type) -> None:
    @register_kl(kind_p, kind_q)
    def rule(p: Any, q: Any) -> Tensor:
        return _full_like(getattr(p, parameter), math.inf)


for _p, _partners in _FINITE.items():
    for _q in _partners:
        _register_finite(_p, _q)
for (_p, _parameter), _partners in _INFINITE.items():
    for _q in _partners:
        _register_infinite(_p, _parameter, _q)


# --- vectors ----------------------------------------------------------------------------------------------------------


def _sum_of_squares(matrix: Tensor) -> Tensor:
    """The trace of X X^T."""
    return matrix.pow(2).sum((-2, -1))


def _check_events(p: Any, q: Any, kinds: str) -> None:
    if p.event_shape != q.event_shape:
        raise ValueError(f"kl_divergence: expected two {kinds} with one event shape")


def _whitened(q: Any, *factors: Tensor) -> list[Tensor]:
    """L^-1 X for q's Cholesky factor L, batches broadcast."""
    factor = q._unbroadcasted_scale_tril
    batch = broadcast_shapes(factor.shape[:-2], factors[0].shape[:-2])
    wide = [matrix.expand(batch + matrix.shape[-2:]) for matrix in (factor, *factors)]
    return [_solve(wide[0], matrix, upper=False) for matrix in wide[1:]]


def _lowrank_terms(q: Any, p: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Of a low-rank q: its log determinant, the distance of the means, and C^-1 W^T D^-1 for traces against it."""
    W, D, capacitance = q._unbroadcasted_cov_factor, q._unbroadcasted_cov_diag, q._capacitance_tril
    log_det = _batch_lowrank_logdet(W, D, capacitance)
    distance = _batch_lowrank_mahalanobis(W, D, q.loc - p.loc, capacitance)
    return log_det, distance, _solve(capacitance, W.mT / D.unsqueeze(-2), upper=False)


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _kl_lowrank_lowrank(p: Any, q: Any) -> Tensor:
    _check_events(p, q, "Low Rank Multivariate Normals")
    log_det, distance, inner = _lowrank_terms(q, p)
    W, D, other = p._unbroadcasted_cov_factor, p._unbroadcasted_cov_diag, q._unbroadcasted_cov_diag
    trace = (
        (D / other).sum(-1) + _sum_of_squares(W * other.rsqrt().unsqueeze(-1))
        - _sum_of_squares(inner * D.sqrt().unsqueeze(-2)) - _sum_of_squares(inner @ W)
    )
    return 0.5 * (log_det - _batch_lowrank_logdet(W, D, p._capacitance_tril) + trace + distance - p.event_shape[0])


@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def _kl_multivariatenormal_lowrank(p: Any, q: Any) -> Tensor:
    _check_events(p, q, "(Low Rank) Multivariate Normals")
    log_det, distance, inner = _lowrank_terms(q, p)
    factor = p._unbroadcasted_scale_tril
    trace = _sum_of_squares(factor * q._unbroadcasted_cov_diag.rsqrt().unsqueeze(-1)) - _sum_of_squares(inner @ factor)
    return 0.5 * (log_det - 2 * _half_log_det(factor) + trace + distance - p.event_shape[0])


@register_kl(LowRankMultivariateNormal, MultivariateNormal)
def _kl_lowrank_multivariatenormal(p: Any, q: Any) -> Tensor:
    _check_events(p, q, "(Low Rank) Multivariate Normals")
    W, D = p._unbroadcasted_cov_factor, p._unbroadcasted_cov_diag
    log_dets = 2 * _half_log_det(q._unbroadcasted_scale_tril) - _batch_lowrank_logdet(W, D, p._capacitance_tril)
    trace = sum(_sum_of_squares(x) for x in _whitened(q, W, D.sqrt().diag_embed()))
    distance = _batch_mahalanobis(q._unbroadcasted_scale_tril, q.loc - p.loc)
    return 0.5 * (log_dets + trace + distance - p.event_shape[0])


@register_kl(MultivariateNormal, MultivariateNormal)
def _kl_multivariatenormal_multivariatenormal(p: Any, q: Any) -> Tensor:
    _check_events(p, q, "Multivariate Normals")
    half_log_dets = _half_log_det(q._unbroadcasted_scale_tril) - _half_log_det(p._unbroadcasted_scale_tril)
    (white,) = _whitened(q, p._unbroadcasted_scale_tril)
    distance = _batch_mahalanobis(q._unbroadcasted_scale_tril, q.loc - p.loc)
    return half_log_dets + 0.5 * (_sum_of_squares(white) + distance - p.event_shape[0])


# --- distributions made of others -------------------------------------------------------------------------------------


@register_kl(Independent, Independent)
def _kl_independent_independent(p: Any, q: Any) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError(
            "KL of Independent distributions with different reinterpreted_batch_ndims is not implemented"
        )
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _kl_transformed_transformed(p: Any, q: Any) -> Tensor:
    """A shared invertible map changes nothing."""
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError(
            "KL of transformed distributions is implemented only for equal transforms and event shapes"
        )
    return kl_divergence(p.base_dist, q.base_dist)
