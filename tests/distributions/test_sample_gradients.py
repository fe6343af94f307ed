"""Gradients through draws: against exact derivatives, finite differences at a fixed seed, and PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as rl

special = pytest.importorskip("scipy.special")


def exact_slope(cdf, density, a, x):
    """-(dF/da) / p by a fourth-order difference of the distribution function."""
    h = 1e-3 * a
    slope = (8 * (cdf(a + h, x) - cdf(a - h, x)) - (cdf(a + 2 * h, x) - cdf(a - 2 * h, x))) / (12 * h)
    return -slope / density(a, x)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_gamma_slope_is_exact(dtype):
    a = np.array([0.05, 0.3, 0.9, 1.0, 2.5, 8.0, 30.0, 200.0])[:, None]
    x = special.gammaincinv(a, np.array([0.02, 0.3, 0.5, 0.8, 0.99]))
    want = exact_slope(special.gammainc, lambda a, x: np.exp((a - 1) * np.log(x) - x - special.gammaln(a)), a, x)
    got = rl._standard_gamma_grad(*(rl.tensor(v.tolist(), dtype=getattr(rl, dtype)) for v in (a, x)))
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-6 if dtype == "float64" else 1e-4)


def test_beta_slope_is_exact():
    a, b = np.meshgrid([0.1, 0.9, 1.0, 3.0, 40.0], [0.2, 1.0, 5.0, 90.0])
    for quantile in (0.05, 0.5, 0.95):
        x = special.betaincinv(a, b, quantile)
        inside = (x > 1e-12) & (x < 1 - 1e-9)
        slope = exact_slope(
            lambda a, x: special.betainc(a, b, x),
            lambda a, x: np.exp((a - 1) * np.log(x) + (b - 1) * np.log1p(-x) - special.betaln(a, b)),
            a,
            x,
        )
        got = rl._dirichlet_grad(*(rl.tensor(v.tolist(), dtype=rl.float64) for v in (x, a, a + b))).numpy()
        np.testing.assert_allclose(got[inside], (slope / (1 - x))[inside], rtol=1e-6)


def test_float32_follows_float64():
    """Over many orders of magnitude, and as far out as draws come."""
    rng = np.random.default_rng(0)
    a, b = np.exp(rng.uniform(np.log(0.02), np.log(3e3), (2, 4000)))
    quantile = rng.uniform(1e-4, 1 - 1e-4, 4000)
    x = special.gammaincinv(a, quantile).astype(np.float32).clip(1e-37)
    near = [
        rl._standard_gamma_grad(rl.tensor(a.astype(dt)), rl.tensor(x.astype(dt))).numpy()
        for dt in (np.float32, np.float64)
    ]
    inside = x > 1e-30
    np.testing.assert_allclose(near[0][inside], near[1][inside], rtol=1e-4)
    share = special.betaincinv(a, b, quantile).astype(np.float32)
    inside = (share > 1e-30) & (share < 1 - 1e-4)
    near = [
        rl._dirichlet_grad(*(rl.tensor(v[inside].astype(dt)) for v in (share, a, a + b))).numpy()
        for dt in (np.float32, np.float64)
    ]
    np.testing.assert_allclose(near[0], near[1], rtol=2e-3)  # b is the difference of two rounded numbers


def test_against_pytorch():
    torch = pytest.importorskip("torch")
    a = np.geomspace(0.01, 1e4, 60)
    x = special.gammaincinv(a, np.linspace(0.01, 0.99, 60))
    args = [[t.tensor(v) for v in (a, x)] for t in (rl, torch)]
    np.testing.assert_allclose(
        rl._standard_gamma_grad(*args[0]).numpy(), torch._standard_gamma_grad(*args[1]).numpy(), rtol=2e-3
    )
    b = a[::-1].copy()
    share = special.betaincinv(a, b, np.linspace(0.05, 0.95, 60)).clip(1e-12, 1 - 1e-12)
    args = [[t.tensor(v) for v in (share, a, a + b)] for t in (rl, torch)]
    np.testing.assert_allclose(rl._dirichlet_grad(*args[0]).numpy(), torch._dirichlet_grad(*args[1]).numpy(), rtol=3e-3)


def test_shapes_and_refusals():
    assert rl._standard_gamma_grad(rl.ones(0), rl.ones(0)).shape == (0,)
    assert rl._standard_gamma_grad(rl.ones(3, 1), rl.ones(4)).shape == (3, 4)
    assert rl._dirichlet_grad(rl.full((2,), 0.5), rl.ones(2), rl.full((2,), 2.0)).dtype is rl.float32
    assert rl._standard_gamma_grad(rl.ones(9000), rl.ones(9000)).unique().numel() == 1  # more than one block
    with pytest.raises(NotImplementedError):
        rl._standard_gamma_grad(rl.ones(2, dtype=rl.half), rl.ones(2, dtype=rl.half))


def test_mean_of_draws_follows_the_parameters():
    """The gradient of the average draw is the gradient of the mean."""
    rl.manual_seed(0)
    for make in (
        lambda a: rl.distributions.Gamma(a, 2.0),
        lambda a: rl.distributions.Beta(a, 3.0),
        lambda a: rl.distributions.StudentT(a + 4, a),
    ):
        a = rl.tensor(1.7, dtype=rl.float64, requires_grad=True)
        make(a).rsample((20000,)).mean().backward()
        b = rl.tensor(1.7, dtype=rl.float64, requires_grad=True)
        make(b).mean.backward()
        assert abs(a.grad.item() - b.grad.item()) < 0.05


def test_wishart_draws_differentiate():
    factor = rl.tensor([[1.0, 0.0], [0.5, 2.0]], dtype=rl.float64, requires_grad=True)

    def total(factor):
        rl.manual_seed(4)
        return rl.distributions.Wishart(rl.tensor(5.0, dtype=rl.float64), scale_tril=factor).rsample((3,)).sum()

    total(factor).backward()
    step = rl.zeros(2, 2, dtype=rl.float64)
    step[1, 0] = 1e-6
    with rl.no_grad():
        slope = (total(factor + step) - total(factor - step)).item() / 2e-6
    assert abs(slope - factor.grad[1, 0].item()) < 1e-5 * abs(slope)


def test_straight_through_passes_the_gradient_on():
    logits = rl.zeros(3, requires_grad=True)
    d = rl.distributions.OneHotCategoricalStraightThrough(logits=logits)
    x = d.rsample()
    assert x.sum().item() == pytest.approx(1)
    (x * rl.tensor([1.0, 2.0, 4.0])).sum().backward()
    assert logits.grad.abs().sum() > 0
