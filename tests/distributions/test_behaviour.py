"""What a user of distributions meets besides numbers: refusals, subclasses, defaults, helpers."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")
D = rl.distributions

BAD = {
    "scale": lambda t: t.distributions.Normal(0.0, -1.0),
    "scale tensor": lambda t: t.distributions.Normal(t.zeros(2), t.tensor([1.0, -1.0])),
    "nan": lambda t: t.distributions.Normal(float("nan"), 1.0),
    "probs": lambda t: t.distributions.Bernoulli(1.5),
    "both": lambda t: t.distributions.Bernoulli(0.5, 0.0),
    "neither": lambda t: t.distributions.Categorical(),
    "scalar probs": lambda t: t.distributions.Categorical(t.tensor(0.5)),
    "negative probs": lambda t: t.distributions.Categorical(t.tensor([0.5, -0.5, 1.0])),
    "uniform": lambda t: t.distributions.Uniform(1.0, 0.0),
    "count": lambda t: t.distributions.Binomial(-1, t.tensor(0.5)),
    "geometric": lambda t: t.distributions.Geometric(0.0),
    "negative binomial": lambda t: t.distributions.NegativeBinomial(2, t.tensor(1.0)),
    "concentration": lambda t: t.distributions.Dirichlet(t.tensor(1.0)),
    "covariance": lambda t: t.distributions.MultivariateNormal(t.zeros(2), t.tensor([[1.0, 2.0], [2.0, 1.0]])),
    "asymmetric": lambda t: t.distributions.MultivariateNormal(t.zeros(2), t.tensor([[2.0, 1.0], [0.0, 1.0]])),
    "two matrices": lambda t: t.distributions.MultivariateNormal(t.zeros(2), t.eye(2), t.eye(2)),
    "scalar loc": lambda t: t.distributions.MultivariateNormal(t.tensor(0.0), t.eye(2)),
    "vector covariance": lambda t: t.distributions.MultivariateNormal(t.zeros(2), t.ones(2)),
    "low rank": lambda t: t.distributions.LowRankMultivariateNormal(t.zeros(3), t.ones(2, 1), t.ones(3)),
    "low rank batch": lambda t: t.distributions.LowRankMultivariateNormal(t.zeros(5, 3), t.ones(4, 3, 1), t.ones(3)),
    "wishart": lambda t: t.distributions.Wishart(t.tensor(0.5), t.eye(2)),
    "lkj": lambda t: t.distributions.LKJCholesky(1),
    "mixture": lambda t: t.distributions.MixtureSameFamily(t.distributions.Normal(0.0, 1.0),
                                                           t.distributions.Normal(t.zeros(2), 1.0)),
    "mixture sizes": lambda t: t.distributions.MixtureSameFamily(t.distributions.Categorical(t.ones(3)),
                                                                 t.distributions.Normal(t.zeros(2), 1.0)),
    "independent": lambda t: t.distributions.Independent(t.distributions.Normal(0.0, 1.0), 1),
    "no number": lambda t: t.distributions.Normal("a", 1.0),
    "poisson": lambda t: t.distributions.Poisson(-1.0),
    "continuous": lambda t: t.distributions.ContinuousBernoulli(1.5, validate_args=True),
}


@pytest.mark.parametrize("name", BAD)
def test_parameters_are_refused(name):
    for t in (rl, torch):
        with pytest.raises(ValueError) as error:
            BAD[name](t)
        assert str(error.value)


@pytest.mark.parametrize("make", [
    lambda t: t.distributions.Multinomial(t.tensor(3), t.ones(2)),
    lambda t: t.distributions.Binomial(t.tensor([3.0, 4.0]), t.tensor([0.5, 0.5])).entropy(),
    lambda t: t.distributions.Binomial(t.tensor([3.0, 4.0]), t.tensor([0.5, 0.5])).enumerate_support(),
    lambda t: t.distributions.Independent(t.distributions.Bernoulli(t.tensor([0.5])), 1).enumerate_support(),
    lambda t: t.distributions.Poisson(1.0).entropy(),
    lambda t: t.distributions.Distribution().sample(),
])
def test_what_is_not_implemented_says_so(make):
    for t in (rl, torch):
        with pytest.raises(NotImplementedError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            make(t)


def test_validation_can_be_switched_off():
    D.Normal(0.0, -1.0, validate_args=False)
    assert D.Normal(0.0, 1.0, validate_args=False).expand((2,))._validate_args is False
    try:
        D.Distribution.set_default_validate_args(False)
        D.Normal(0.0, -1.0)
        with pytest.raises(ValueError):
            D.Normal(0.0, -1.0, validate_args=True)
    finally:
        D.Distribution.set_default_validate_args(True)
    with pytest.raises(ValueError):
        D.Distribution.set_default_validate_args(None)


def test_values_must_fit():
    d = D.Normal(rl.zeros(3), 1.0)
    with pytest.raises(ValueError, match="must be a Tensor"):
        d.log_prob(0.5)
    with pytest.raises(ValueError, match="not broadcastable"):
        d.log_prob(rl.zeros(2))
    with pytest.raises(ValueError, match="event_shape"):
        D.Dirichlet(rl.ones(3)).log_prob(rl.full((2,), 0.5))
    with pytest.raises(ValueError, match="within the support"):
        D.Beta(1.0, 1.0).log_prob(rl.tensor(1.5))
    assert d.log_prob(rl.zeros(5, 3)).shape == (5, 3)


def test_subclasses_expand_as_in_pytorch():
    class Plain(D.Normal):
        pass

    class Custom(D.Normal):
        def __init__(self, loc):
            super().__init__(loc, 1.0)

    class Complete(Custom):
        def expand(self, batch_shape, _instance=None):
            new = self._get_checked_instance(Complete, _instance)
            return super().expand(batch_shape, _instance=new)

    assert type(Plain(0.0, 1.0).expand((2,))) is Plain
    assert type(Complete(0.0).expand((2,))) is Complete and Complete(0.0).expand((2,)).loc.shape == (2,)
    with pytest.raises(NotImplementedError, match="custom .expand"):
        Custom(0.0).expand((2,))

    class Nothing(D.Distribution):
        arg_constraints = {}

    with pytest.raises(NotImplementedError):
        Nothing().expand((2,))


def test_subclass_in_pytorchs_style():
    """A distribution written against PyTorch's documentation: own parameters, own expand."""

    class Shifted(D.Distribution):
        arg_constraints = {"shift": D.constraints.real}
        support = D.constraints.real
        has_rsample = True

        def __init__(self, shift, validate_args=None):
            (self.shift,) = D.utils.broadcast_all(shift)
            super().__init__(self.shift.size(), validate_args=validate_args)

        def expand(self, batch_shape, _instance=None):
            new = self._get_checked_instance(Shifted, _instance)
            new.shift = self.shift.expand(batch_shape)
            super(Shifted, new).__init__(batch_shape, validate_args=False)
            new._validate_args = self._validate_args
            return new

        def rsample(self, sample_shape=()):
            return self.shift + rl.rand(self._extended_shape(sample_shape))

    d = Shifted(rl.zeros(2)).expand((3, 2))
    assert d.sample((4,)).shape == (4, 3, 2) and repr(d) == "Shifted(shift: rushlight.Size([3, 2]))"
    assert D.Independent(d, 1).sample().shape == (3, 2)


def test_missing_constraints_warn():
    class Bare(D.Distribution):
        def log_prob(self, value):
            self._validate_sample(value)
            return value

    with pytest.warns(UserWarning, match="arg_constraints"):
        bare = Bare()
    with pytest.warns(UserWarning, match="support"):
        bare.log_prob(rl.zeros(()))


def test_sample_n_is_deprecated():
    with pytest.warns(FutureWarning):
        assert D.Normal(0.0, 1.0).sample_n(3).shape == (3,)


def test_parameters_keep_their_graph_and_dtype():
    probs = rl.tensor([0.2, 0.8], requires_grad=True)
    with rl.no_grad():
        logits = D.Bernoulli(probs).logits  # the property records all the same
    assert logits.requires_grad
    assert D.Normal(rl.zeros(2, dtype=rl.float64), 1).scale.dtype is rl.float64
    assert D.Normal(0, 1).loc.dtype is rl.float32
    assert D.Categorical(rl.ones(3)).sample().dtype is rl.int64


def test_policy_gradient_step():
    """The pattern of reinforcement learning: the score function of draws."""
    values = []
    for t in (rl, torch):
        t.manual_seed(0)
        logits = t.zeros(5, 3, requires_grad=True)
        policy = t.distributions.Categorical(logits=logits)
        action = policy.sample()
        loss = (-policy.log_prob(action) * t.arange(5.0)).sum() - 0.01 * policy.entropy().sum()
        loss.backward()
        values.append((action.tolist(), logits.grad.numpy()))
    assert values[0][0] == values[1][0]
    np.testing.assert_allclose(values[0][1], values[1][1], rtol=1e-5, atol=1e-6)


def test_function_transforms_pass_through():
    x = rl.linspace(-1.0, 1.0, 5)
    score = lambda v: D.Normal(0.5, 2.0, validate_args=False).log_prob(v)  # noqa: E731
    np.testing.assert_allclose(rl.func.vmap(score)(x).numpy(), score(x).numpy(), rtol=1e-6)
    np.testing.assert_allclose(
        rl.func.vmap(rl.func.grad(score))(x).numpy(), (-(x - 0.5) / 4).numpy(), rtol=1e-5, atol=1e-7
    )
    batched = rl.func.vmap(
        lambda a, b: D.kl_divergence(D.Gamma(a, 1.0, validate_args=False), D.Gamma(b, 2.0, validate_args=False))
    )
    a, b = rl.rand(4) + 0.5, rl.rand(4) + 0.5
    np.testing.assert_allclose(
        batched(a, b).numpy(), D.kl_divergence(D.Gamma(a, 1.0), D.Gamma(b, 2.0)).numpy(), rtol=1e-4, atol=1e-6
    )
    hessian = rl.func.hessian(lambda v: D.MultivariateNormal(rl.zeros(2), rl.eye(2), validate_args=False).log_prob(v))(
        rl.ones(2)
    )
    np.testing.assert_allclose(hessian.numpy(), -np.eye(2), atol=1e-6)


def test_helpers():
    u = D.utils
    for diag in (-1, 0, 1):
        for t in (rl, torch):
            m = t.arange(18.0).view(2, 3, 3)
            v = t.distributions.utils.tril_matrix_to_vec(m, diag)
            back = t.distributions.utils.vec_to_tril_matrix(v, diag)
            found = (v.tolist(), back.tolist())
            if t is rl:
                ours = found
        assert ours == found
    with pytest.raises(ValueError, match="outside"):
        u.tril_matrix_to_vec(rl.eye(2), 5)
    with pytest.raises(ValueError, match="lower triangular part"):
        u.vec_to_tril_matrix(rl.ones(4))
    _, b = u.broadcast_all(rl.zeros(2, 1, dtype=rl.float64), 3)
    assert b.shape == (2, 1) and b.dtype is rl.float64
    assert u.probs_to_logits(rl.tensor([0.0, 1.0]), is_binary=True).isfinite().all()
    assert (
        u.clamp_probs(rl.tensor([0.0, 1.0])).tolist()
        == torch.distributions.utils.clamp_probs(torch.tensor([0.0, 1.0])).tolist()
    )


def test_kumaraswamy_mode_is_where_the_density_is_highest():
    d = D.Kumaraswamy(rl.tensor([2.0, 3.0]), rl.tensor([3.0, 1.5]))
    grid = rl.linspace(0.001, 0.999, 999).unsqueeze(-1)
    best = grid[d.log_prob(grid).argmax(0), 0]
    np.testing.assert_allclose(d.mode.numpy(), best.numpy(), atol=2e-3)


def test_expanded_multinomial_has_an_entropy():
    d = D.Multinomial(3, rl.tensor([0.2, 0.8]))
    np.testing.assert_allclose(d.expand((2,)).entropy().numpy(), np.repeat(d.entropy().item(), 2), rtol=1e-6)


def test_chi_squared_goodness_of_fit():
    """Draws fall as often as the distribution says."""
    rl.manual_seed(0)
    for d in (D.Poisson(4.0), D.Binomial(10, rl.tensor(0.3)), D.Geometric(0.3), D.NegativeBinomial(5, rl.tensor(0.4))):
        x = d.sample((20000,))
        values = rl.arange(0.0, 8)
        expected = d.log_prob(values).exp().numpy() * 20000
        counts = np.array([(x == v).sum().item() for v in values])
        assert (((counts - expected) ** 2 / expected).sum()) < 30
    for d in (D.Gamma(2.0, 1.0), D.Weibull(1.0, 1.5), D.Gumbel(0.0, 1.0), D.Laplace(0.0, 1.0), D.StudentT(5.0)):
        x = d.sample((20000,))
        assert abs(x.mean().item() - d.mean.item()) < 0.05
        assert abs(x.var().item() / d.variance.item() - 1) < 0.15
