"""One table of distributions for all tests: constructors by name,
each a function of the package (`torch` or `rushlight`).

Parameters are float64 unless a case is about something else, so that both packages agree to many digits.
"""

from __future__ import annotations

import numpy as np


def vector(t, *values, grad=False):
    return t.tensor(values, dtype=t.float64, requires_grad=grad)


def numbers(t, *shape, low=0.2, high=2.0, seed=0):
    """The same numbers in both packages, between the bounds."""
    drawn = np.random.default_rng(seed).uniform(low, high, shape)
    return t.tensor(drawn.tolist(), dtype=t.float64)


def spd(t, *batch, n=3, seed=0):
    """Positive-definite matrices."""
    a = np.random.default_rng(seed).normal(size=(*batch, n, n))
    return t.tensor((a @ a.swapaxes(-1, -2) + n * np.eye(n)).tolist(), dtype=t.float64)


def factor(t, *batch, n=3, seed=0):
    return t.linalg.cholesky(spd(t, *batch, n=n, seed=seed))


def gauss(t, *shape, seed=0):
    return t.tensor(np.random.default_rng(seed).normal(size=shape).tolist(), dtype=t.float64)


# name -> constructors; each is called with the package and returns a distribution of its `distributions`.
EXAMPLES = {
    "Bernoulli": [
        lambda t: t.distributions.Bernoulli(vector(t, 0.7, 0.2, 0.4)),
        lambda t: t.distributions.Bernoulli(0.3),
        lambda t: t.distributions.Bernoulli(logits=gauss(t, 2, 3)),
    ],
    "Beta": [
        lambda t: t.distributions.Beta(numbers(t, 2, 3), numbers(t, 2, 3, seed=1)),
        lambda t: t.distributions.Beta(1.5, 0.5),
        lambda t: t.distributions.Beta(numbers(t, 4, 1, high=20), numbers(t, 3, seed=1)),
    ],
    "Binomial": [
        lambda t: t.distributions.Binomial(10, numbers(t, 2, 3, low=0.1, high=0.9)),
        lambda t: t.distributions.Binomial(vector(t, 3, 50, 200), logits=gauss(t, 3)),
        lambda t: t.distributions.Binomial(4, vector(t, 0.0, 0.5, 1.0)),
    ],
    "Categorical": [
        lambda t: t.distributions.Categorical(numbers(t, 2, 4)),
        lambda t: t.distributions.Categorical(logits=gauss(t, 3)),
        lambda t: t.distributions.Categorical(vector(t, 0.0, 1.0, 3.0)),
    ],
    "Cauchy": [
        lambda t: t.distributions.Cauchy(gauss(t, 3), numbers(t, 3)),
        lambda t: t.distributions.Cauchy(0.0, 1.0),
    ],
    "Chi2": [lambda t: t.distributions.Chi2(numbers(t, 2, 3, high=9)), lambda t: t.distributions.Chi2(3.0)],
    "ContinuousBernoulli": [
        lambda t: t.distributions.ContinuousBernoulli(vector(t, 0.1, 0.5, 0.4995, 0.9)),
        lambda t: t.distributions.ContinuousBernoulli(0.3),
        lambda t: t.distributions.ContinuousBernoulli(logits=gauss(t, 2, 3)),
    ],
    "Dirichlet": [
        lambda t: t.distributions.Dirichlet(numbers(t, 2, 3)),
        lambda t: t.distributions.Dirichlet(vector(t, 0.1, 10.0, 3.0, 1.0)),
    ],
    "Exponential": [lambda t: t.distributions.Exponential(numbers(t, 2, 3)),
                    lambda t: t.distributions.Exponential(1.5)],
    "FisherSnedecor": [
        lambda t: t.distributions.FisherSnedecor(numbers(t, 3, high=8), numbers(t, 3, low=1, high=9, seed=1)),
        lambda t: t.distributions.FisherSnedecor(3.0, 7.0),
    ],
    "Gamma": [
        lambda t: t.distributions.Gamma(numbers(t, 2, 3), numbers(t, 2, 3, seed=1)),
        lambda t: t.distributions.Gamma(vector(t, 0.01, 1.0, 9.0, 500.0), 2.0),
        lambda t: t.distributions.Gamma(2.0, 3.0),
    ],
    "GeneralizedPareto": [
        lambda t: t.distributions.GeneralizedPareto(t.tensor([0.5, 1.0, -1.0, 2.0]), 1.5,
                                                    t.tensor([0.0, 0.3, -0.4, 0.9])),
        lambda t: t.distributions.GeneralizedPareto(1.0, 2.0, 0.2),
    ],
    "Geometric": [
        lambda t: t.distributions.Geometric(vector(t, 0.2, 0.7, 1.0)),
        lambda t: t.distributions.Geometric(logits=gauss(t, 2, 2)),
        lambda t: t.distributions.Geometric(0.3),
    ],
    "Gumbel": [lambda t: t.distributions.Gumbel(gauss(t, 2, 3), numbers(t, 2, 3)),
               lambda t: t.distributions.Gumbel(1.0, 2.0)],
    "HalfCauchy": [lambda t: t.distributions.HalfCauchy(numbers(t, 2, 3)), lambda t: t.distributions.HalfCauchy(1.0)],
    "HalfNormal": [lambda t: t.distributions.HalfNormal(numbers(t, 2, 3)), lambda t: t.distributions.HalfNormal(1.0)],
    "Independent": [
        lambda t: t.distributions.Independent(t.distributions.Normal(gauss(t, 2, 3), numbers(t, 2, 3)), 1),
        lambda t: t.distributions.Independent(t.distributions.Normal(gauss(t, 2, 3), numbers(t, 2, 3)), 0),
        lambda t: t.distributions.Independent(t.distributions.Bernoulli(numbers(t, 3, 5, 2, high=0.9)), 2),
    ],
    "InverseGamma": [
        lambda t: t.distributions.InverseGamma(numbers(t, 2, 3, high=5), numbers(t, 2, 3, seed=1)),
        lambda t: t.distributions.InverseGamma(3.0, 1.0),
    ],
    "Kumaraswamy": [
        lambda t: t.distributions.Kumaraswamy(numbers(t, 2, 3), numbers(t, 2, 3, seed=1)),
        lambda t: t.distributions.Kumaraswamy(1.5, 0.5),
    ],
    "LKJCholesky": [
        lambda t: t.distributions.LKJCholesky(3, vector(t, 0.5, 1.0, 5.0)),
        lambda t: t.distributions.LKJCholesky(2, 0.7),
        lambda t: t.distributions.LKJCholesky(5, numbers(t, 2, 1)),
    ],
    "Laplace": [lambda t: t.distributions.Laplace(gauss(t, 2, 3), numbers(t, 2, 3)),
                lambda t: t.distributions.Laplace(0.0, 2.0)],
    "LogNormal": [lambda t: t.distributions.LogNormal(gauss(t, 2, 3), numbers(t, 2, 3)),
                  lambda t: t.distributions.LogNormal(0.5, 0.3)],
    "LogisticNormal": [
        lambda t: t.distributions.LogisticNormal(gauss(t, 2, 3), numbers(t, 2, 3)),
        lambda t: t.distributions.LogisticNormal(0.5, 0.3),
    ],
    "LowRankMultivariateNormal": [
        lambda t: t.distributions.LowRankMultivariateNormal(gauss(t, 5, 2), gauss(t, 5, 2, 1, seed=1),
                                                            numbers(t, 5, 2)),
        lambda t: t.distributions.LowRankMultivariateNormal(gauss(t, 2, 4), gauss(t, 4, 2, seed=1), numbers(t, 4)),
    ],
    "MixtureSameFamily": [
        lambda t: t.distributions.MixtureSameFamily(t.distributions.Categorical(numbers(t, 5)),
                                                    t.distributions.Normal(gauss(t, 5), numbers(t, 5))),
        lambda t: t.distributions.MixtureSameFamily(
            t.distributions.Categorical(numbers(t, 3, 5)),
            t.distributions.MultivariateNormal(gauss(t, 3, 5, 2), scale_tril=factor(t, 3, 5, n=2))
        ),
    ],
    "Multinomial": [
        lambda t: t.distributions.Multinomial(5, numbers(t, 2, 3)),
        lambda t: t.distributions.Multinomial(10, logits=gauss(t, 4)),
        lambda t: t.distributions.Multinomial(3, vector(t, 0.0, 1.0, 2.0)),
    ],
    "MultivariateNormal": [
        lambda t: t.distributions.MultivariateNormal(gauss(t, 3), spd(t)),
        lambda t: t.distributions.MultivariateNormal(gauss(t, 5, 3), scale_tril=factor(t)),
        lambda t: t.distributions.MultivariateNormal(gauss(t, 3), precision_matrix=spd(t, 2)),
        lambda t: t.distributions.MultivariateNormal(gauss(t, 4, 2, 3), spd(t, 2)),
    ],
    "NegativeBinomial": [
        lambda t: t.distributions.NegativeBinomial(vector(t, 1.5, 4, 0.0), numbers(t, 3, low=0.1, high=0.9)),
        lambda t: t.distributions.NegativeBinomial(10, logits=gauss(t, 2, 3)),
    ],
    "Normal": [
        lambda t: t.distributions.Normal(gauss(t, 2, 3), numbers(t, 2, 3)),
        lambda t: t.distributions.Normal(0.5, 2.0),
        lambda t: t.distributions.Normal(t.tensor([1.0, 2.0]), 1e-3),
        lambda t: t.distributions.Normal(gauss(t, 4, 1), numbers(t, 5)),
    ],
    "OneHotCategorical": [
        lambda t: t.distributions.OneHotCategorical(numbers(t, 2, 4)),
        lambda t: t.distributions.OneHotCategorical(logits=gauss(t, 3)),
    ],
    "OneHotCategoricalStraightThrough": [
        lambda t: t.distributions.OneHotCategoricalStraightThrough(numbers(t, 2, 4)),
        lambda t: t.distributions.OneHotCategoricalStraightThrough(logits=gauss(t, 3)),
    ],
    "Pareto": [
        lambda t: t.distributions.Pareto(numbers(t, 2, 3), numbers(t, 2, 3, high=4, seed=1)),
        lambda t: t.distributions.Pareto(1.0, 3.0),
    ],
    "Poisson": [lambda t: t.distributions.Poisson(numbers(t, 2, 3, high=30)), lambda t: t.distributions.Poisson(0.3)],
    "RelaxedBernoulli": [
        lambda t: t.distributions.RelaxedBernoulli(vector(t, 2.0), numbers(t, 2, 3, high=0.9)),
        lambda t: t.distributions.RelaxedBernoulli(t.tensor(0.5), logits=0.3),
    ],
    "RelaxedOneHotCategorical": [
        lambda t: t.distributions.RelaxedOneHotCategorical(t.tensor(0.7, dtype=t.float64), numbers(t, 2, 4)),
        lambda t: t.distributions.RelaxedOneHotCategorical(t.tensor(2.0, dtype=t.float64), logits=gauss(t, 3)),
    ],
    "StudentT": [
        lambda t: t.distributions.StudentT(vector(t, 0.5, 1.5, 3.0), gauss(t, 3), numbers(t, 3)),
        lambda t: t.distributions.StudentT(4.0),
    ],
    "TransformedDistribution": [
        lambda t: t.distributions.TransformedDistribution(t.distributions.Normal(gauss(t, 2, 3), numbers(t, 2, 3)), []),
        lambda t: t.distributions.TransformedDistribution(
            t.distributions.Normal(gauss(t, 2, 3), numbers(t, 2, 3)),
            [t.distributions.transforms.AffineTransform(gauss(t, 2, 1), numbers(t, 3)),
             t.distributions.transforms.TanhTransform()],
        ),
        lambda t: t.distributions.TransformedDistribution(
            t.distributions.Normal(gauss(t, 2, 6), numbers(t, 2, 6)),
            t.distributions.transforms.ReshapeTransform((6,), (3, 2))
        ),
    ],
    "Uniform": [lambda t: t.distributions.Uniform(vector(t, 0, -1, 2), vector(t, 1, 3, 2.5)),
                lambda t: t.distributions.Uniform(0.0, 2.0)],
    "VonMises": [
        lambda t: t.distributions.VonMises(gauss(t, 3), vector(t, 1e-7, 1.0, 30.0)),
        lambda t: t.distributions.VonMises(t.tensor(0.5), t.tensor(2.0)),
    ],
    "Weibull": [lambda t: t.distributions.Weibull(numbers(t, 2, 3), numbers(t, 2, 3, seed=1)),
                lambda t: t.distributions.Weibull(1.0, 2.0)],
    "Wishart": [
        lambda t: t.distributions.Wishart(vector(t, 5.0, 9.0), spd(t)),
        lambda t: t.distributions.Wishart(4.0, scale_tril=factor(t)),
        lambda t: t.distributions.Wishart(vector(t, 6.0), precision_matrix=spd(t)),
    ],
}
CASES = [(name, index) for name, makers in EXAMPLES.items() for index in range(len(makers))]
