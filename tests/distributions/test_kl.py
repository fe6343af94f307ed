"""KL divergences: every pair PyTorch knows, Monte Carlo for some, dispatch."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))
from examples import factor, gauss, numbers, spd, vector  # noqa: E402

# Distributions per name, all of batch shape (2,) so that any two meet; a seed makes them differ.
MAKERS = {
    "Bernoulli": lambda t, s: t.distributions.Bernoulli(numbers(t, 2, low=0.1, high=0.9, seed=s)),
    "Beta": lambda t, s: t.distributions.Beta(numbers(t, 2, seed=s), numbers(t, 2, seed=s + 1)),
    "Binomial": lambda t, s: t.distributions.Binomial(7, numbers(t, 2, low=0.1, high=0.9, seed=s)),
    "Categorical": lambda t, s: t.distributions.Categorical(numbers(t, 2, 4, seed=s)),
    "Cauchy": lambda t, s: t.distributions.Cauchy(gauss(t, 2, seed=s), numbers(t, 2, seed=s)),
    "Chi2": lambda t, s: t.distributions.Chi2(numbers(t, 2, seed=s)),
    "ContinuousBernoulli": lambda t, s: t.distributions.ContinuousBernoulli(numbers(t, 2, low=0.1, high=0.9, seed=s)),
    "Dirichlet": lambda t, s: t.distributions.Dirichlet(numbers(t, 2, 3, seed=s)),
    "Exponential": lambda t, s: t.distributions.Exponential(numbers(t, 2, seed=s)),
    "Gamma": lambda t, s: t.distributions.Gamma(numbers(t, 2, seed=s), numbers(t, 2, seed=s + 1)),
    "Geometric": lambda t, s: t.distributions.Geometric(numbers(t, 2, low=0.1, high=0.9, seed=s)),
    "Gumbel": lambda t, s: t.distributions.Gumbel(gauss(t, 2, seed=s), numbers(t, 2, seed=s)),
    "HalfNormal": lambda t, s: t.distributions.HalfNormal(numbers(t, 2, seed=s)),
    "Independent": lambda t, s: t.distributions.Independent(
        t.distributions.Normal(gauss(t, 2, 3, seed=s), numbers(t, 2, 3, seed=s)), 1
    ),
    "Laplace": lambda t, s: t.distributions.Laplace(gauss(t, 2, seed=s), numbers(t, 2, seed=s)),
    "LogNormal": lambda t, s: t.distributions.LogNormal(gauss(t, 2, seed=s), numbers(t, 2, seed=s)),
    "LowRankMultivariateNormal": lambda t, s: t.distributions.LowRankMultivariateNormal(
        gauss(t, 2, 3, seed=s), gauss(t, 3, 2, seed=s), numbers(t, 3, seed=s)
    ),
    "MultivariateNormal": lambda t, s: t.distributions.MultivariateNormal(gauss(t, 2, 3, seed=s), spd(t, 2, seed=s)),
    "Normal": lambda t, s: t.distributions.Normal(gauss(t, 2, seed=s), numbers(t, 2, seed=s)),
    "OneHotCategorical": lambda t, s: t.distributions.OneHotCategorical(numbers(t, 2, 4, seed=s)),
    "Pareto": lambda t, s: t.distributions.Pareto(numbers(t, 2, seed=s), numbers(t, 2, low=0.9, high=5, seed=s + 1)),
    "Poisson": lambda t, s: t.distributions.Poisson(numbers(t, 2, high=5, seed=s)),
    "Uniform": lambda t, s: t.distributions.Uniform(vector(t, 0.2, -0.5) + 0.1 * s, vector(t, 0.8, 0.9) + 0.1 * s),
    "Wishart": lambda t, s: t.distributions.Wishart(vector(t, 5.0 + s, 6.0), scale_tril=factor(t, seed=s)),
}
REGISTERED = sorted((p.__name__, q.__name__) for p, q in torch.distributions.kl._KL_REGISTRY)


def divergence(t, p, q, seeds=(0, 3)):
    return t.distributions.kl_divergence(MAKERS[p](t, seeds[0]), MAKERS[q](t, seeds[1]))


def test_registry_is_pytorchs():
    ours = sorted((p.__name__, q.__name__) for p, q in rl.distributions.kl._KL_REGISTRY)
    assert ours == REGISTERED


@pytest.mark.parametrize("p", MAKERS)
def test_every_pair(p):
    for q in MAKERS:
        for seeds in ((0, 3), (5, 5)):
            try:
                want = divergence(torch, p, q, seeds)
            except NotImplementedError:
                with pytest.raises(NotImplementedError):
                    divergence(rl, p, q, seeds)
                continue
            np.testing.assert_allclose(
                divergence(rl, p, q, seeds).detach().numpy(),
                want.detach().numpy(),
                rtol=1e-6,
                atol=1e-10,
                err_msg=f"{p} {q}",
            )


def test_inside_and_outside_the_support():
    for low, high in ((0.0, 1.0), (0.1, 0.9), (-0.1, 0.5), (0.5, 1.5), (0.0, 0.5)):
        for q in ("Beta", "ContinuousBernoulli", "Exponential", "Gamma", "Pareto", "Uniform"):
            values = []
            for t in (rl, torch):
                uniform = t.distributions.Uniform(vector(t, low, low), vector(t, high, high))
                other = (
                    t.distributions.Uniform(vector(t, 0.0, 0.1), vector(t, 1.0, 0.9))
                    if q == "Uniform"
                    else MAKERS[q](t, 2)
                )
                values.append(t.distributions.kl_divergence(uniform, other).numpy())
                values.append(t.distributions.kl_divergence(MAKERS[q](t, 2), uniform).numpy())
            np.testing.assert_allclose(values[0], values[2], rtol=1e-6)
            np.testing.assert_allclose(values[1], values[3], rtol=1e-6)


@pytest.mark.parametrize("pair",
    [("Normal", "Laplace"), ("Exponential", "Gumbel"), ("Gamma", "Gumbel"), ("Beta", "Normal"), ("Uniform", "Gumbel"),
     ("MultivariateNormal", "LowRankMultivariateNormal"), ("Dirichlet", "Dirichlet"),
     ("Gumbel", "Gumbel")])
def test_monte_carlo(pair):
    rl.manual_seed(0)
    p, q = MAKERS[pair[0]](rl, 0), MAKERS[pair[1]](rl, 3)
    x = p.sample((40000,))
    gain = p.log_prob(x) - q.log_prob(x)
    spread = (gain.std(0) / 200).numpy()
    assert (np.abs(gain.mean(0).numpy() - rl.distributions.kl_divergence(p, q).numpy()) < 5 * spread + 1e-6).all()


def test_edges_of_discrete_distributions():
    for t in (rl, torch):
        d, values = t.distributions, []
        for p, q in ((0.0, 1.0), (1.0, 0.0), (0.0, 0.0), (1.0, 1.0), (0.5, 1.0), (0.0, 0.5)):
            values.append(d.kl_divergence(d.Bernoulli(t.tensor([p])), d.Bernoulli(t.tensor([q]))).item())
        values.append(d.kl_divergence(d.Categorical(t.tensor([0.0, 1.0])), d.Categorical(t.tensor([0.5, 0.5]))).item())
        values.append(d.kl_divergence(d.Categorical(t.tensor([0.5, 0.5])), d.Categorical(t.tensor([0.0, 1.0]))).item())
        values.append(
            d.kl_divergence(
                d.Binomial(t.tensor([5.0]), t.tensor([0.5])), d.Binomial(t.tensor([3.0]), t.tensor([0.5]))
            ).item()
        )
        if t is rl:
            ours = values
    np.testing.assert_allclose(ours, values, rtol=1e-5, atol=1e-6)
    with pytest.raises(NotImplementedError, match="total_count"):
        rl.distributions.kl_divergence(
            rl.distributions.Binomial(3, rl.tensor([0.5])), rl.distributions.Binomial(5, rl.tensor([0.5]))
        )


def test_batches_broadcast():
    d = rl.distributions
    p, q = d.Bernoulli(rl.rand(3, 1)), d.Bernoulli(rl.rand(4))
    assert d.kl_divergence(p, q).shape == (3, 4)
    p, q = d.MultivariateNormal(rl.zeros(2), rl.eye(2)), d.MultivariateNormal(rl.ones(5, 2), rl.eye(2).expand(5, 2, 2))
    assert d.kl_divergence(p, q).shape == (5,) and (d.kl_divergence(q, p) > 0).all()


def test_gradients_reach_both_sides():
    loc = rl.tensor([0.3], requires_grad=True)
    scale = rl.tensor([1.2], requires_grad=True)
    d = rl.distributions
    d.kl_divergence(d.Normal(loc, 1.0), d.Normal(0.0, scale)).sum().backward()
    assert loc.grad.item() == pytest.approx(0.3 / 1.44, rel=1e-5)
    assert scale.grad.item() == pytest.approx(1 / 1.2 - 1.09 / 1.2**3, rel=1e-5)


def test_most_specific_rule_wins_and_ambiguity_warns():
    d = rl.distributions

    class A(d.Normal):
        pass

    class B(A):
        pass

    kept = dict(d.kl._KL_REGISTRY)
    try:
        d.register_kl(A, d.Normal)(lambda p, q: "A Normal")
        assert d.kl_divergence(B(0.0, 1.0), d.Normal(0.0, 1.0)) == "A Normal"
        d.register_kl(d.Normal, B)(lambda p, q: "Normal B")
        with pytest.warns(RuntimeWarning, match="Ambiguous"):
            assert d.kl_divergence(B(0.0, 1.0), B(0.0, 1.0)) == "A Normal"
        d.register_kl(A, B)(lambda p, q: "A B")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert d.kl_divergence(B(0.0, 1.0), B(0.0, 1.0)) == "A B"
    finally:
        d.kl._KL_REGISTRY.clear()
        d.kl._KL_REGISTRY.update(kept)
        d.kl._KL_MEMOIZE.clear()
    with pytest.raises(NotImplementedError, match="Cauchy and q type Normal"):
        d.kl_divergence(d.Cauchy(0.0, 1.0), d.Normal(0.0, 1.0))
    with pytest.raises(TypeError):
        d.register_kl("Normal", d.Normal)
