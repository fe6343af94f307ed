"""Every distribution against PyTorch's: draws for a seed, scores, moments, gradients, expansion, pickling."""

from __future__ import annotations

import copy
import pickle
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))
from examples import CASES, EXAMPLES  # noqa: E402

pytestmark = pytest.mark.share(2)   # of each test that has several cases

each = pytest.mark.parametrize(("name", "index"), CASES, ids=[f"{name}-{index}" for name, index in CASES])


@pytest.fixture(autouse=True)
def quiet():
    """PyTorch warns of every Wishart draw, and both of little degrees of freedom."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def both(name, index):
    return EXAMPLES[name][index](rl), EXAMPLES[name][index](torch)


def close(ours, theirs, rtol=1e-6, atol=1e-8):
    assert tuple(ours.shape) == tuple(theirs.shape)
    assert str(ours.dtype).split(".")[1] == str(theirs.dtype).split(".")[1]
    single = "float32" in str(ours.dtype)
    np.testing.assert_allclose(
        ours.detach().numpy(), theirs.detach().numpy(), rtol=max(rtol, 2e-5 * single), atol=max(atol, 1e-6 * single)
    )


def drawn(name, index, shape, method="sample"):
    """Both packages' draws for one seed."""
    values = []
    for t, d in zip((rl, torch), both(name, index), strict=True):
        t.manual_seed(7)
        values.append(getattr(d, method)(shape))
    return values


def over(value):
    """PyTorch's tensor as ours."""
    return rl.tensor(value.detach().numpy())


@each
def test_same_draws(name, index):
    for shape in ((), (4,), (2, 3)):
        close(*drawn(name, index, shape))
    # and both generators stand at the same place afterwards
    assert rl.rand(1).item() == torch.rand(1).item()


@pytest.mark.parametrize("name", EXAMPLES)
def test_many_draws(name):
    """Long runs take the samplers' vectorised paths."""
    close(*drawn(name, 0, (700,)), rtol=1e-5)


@each
def test_shapes_and_repr(name, index):
    ours, theirs = both(name, index)
    assert tuple(ours.batch_shape) == tuple(theirs.batch_shape) and tuple(ours.event_shape) == tuple(theirs.event_shape)
    assert repr(ours).replace("rushlight.", "torch.") == repr(theirs)
    for flag in ("has_rsample", "has_enumerate_support"):
        assert getattr(ours, flag) == getattr(theirs, flag)
    assert repr(ours.support).replace("rushlight.", "torch.") == repr(theirs.support)
    assert sorted(ours.arg_constraints) == sorted(theirs.arg_constraints)


@each
def test_log_prob_and_its_gradient(name, index):
    ours, theirs = both(name, index)
    torch.manual_seed(3)
    value = theirs.sample((3,))
    close(ours.log_prob(over(value)), theirs.log_prob(value), rtol=2e-6)
    discrete = not value.is_floating_point() or theirs.support.is_discrete
    if discrete or name == "VonMises":
        return
    x, y = over(value).requires_grad_(), value.clone().requires_grad_()
    scores = ours.log_prob(x).sum(), theirs.log_prob(y).sum()
    assert scores[0].requires_grad == scores[1].requires_grad
    if scores[0].requires_grad:
        scores[0].backward(), scores[1].backward()
        close(x.grad, y.grad, rtol=1e-5, atol=1e-7)


@each
def test_moments(name, index):
    for what in ("mean", "variance", "stddev", "mode", "entropy", "perplexity"):
        results = []
        for d in both(name, index):
            try:
                value = getattr(d, what)
                results.append(value() if callable(value) else value)
            except NotImplementedError:
                results.append(None)
        assert (results[0] is None) == (results[1] is None), what
        if results[0] is not None and (name, what) != ("Kumaraswamy", "mode"):  # NaN everywhere in PyTorch
            close(*results, rtol=1e-5 if name == "VonMises" else 1e-6)


@each
def test_cdf_and_icdf(name, index):
    ours, theirs = both(name, index)
    torch.manual_seed(5)
    value = theirs.sample((3,))
    try:
        want = theirs.cdf(value)
    except NotImplementedError:
        with pytest.raises(NotImplementedError):
            ours.cdf(over(value))
        return
    close(ours.cdf(over(value)), want)
    try:
        back = theirs.icdf(want)
    except NotImplementedError:
        return
    close(ours.icdf(over(want)), back, rtol=1e-5)


@each
def test_expand(name, index):
    ours, theirs = both(name, index)
    shape = (2, *ours.batch_shape) if ours.batch_shape else (3,)
    a, b = ours.expand(shape), theirs.expand(shape)
    assert (
        type(a) is type(ours)
        and tuple(a.batch_shape) == tuple(b.batch_shape)
        and tuple(a.event_shape) == tuple(b.event_shape)
    )
    rl.manual_seed(2), torch.manual_seed(2)
    x, y = a.sample((2,)), b.sample((2,))
    close(x, y)
    close(a.log_prob(over(y)), b.log_prob(y), rtol=2e-6)
    again = a.expand((4, *shape))
    assert tuple(again.sample().shape) == (4, *shape, *ours.event_shape)
    assert a._validate_args == b._validate_args


@each
def test_reparametrised_gradients(name, index):
    grads = []
    for t in (rl, torch):
        d, parameters = traced(t, EXAMPLES[name][index])
        if not d.has_rsample or not parameters or name == "Wishart":  # PyTorch cannot differentiate its Wishart draws
            return
        t.manual_seed(9)
        x = d.rsample((3,))
        weights = t.arange(x.numel(), dtype=x.dtype).view(x.shape).cos()
        grads.append(t.autograd.grad((x * weights).sum(), parameters, allow_unused=True))
    for mine, other in zip(*grads, strict=True):
        assert (mine is None) == (other is None)
        if mine is not None:
            # The derivatives of gamma and beta draws are PyTorch's weak spot: good to three digits.
            close(mine, other, rtol=5e-3 if name in IMPLICIT else 1e-6, atol=1e-4 if name in IMPLICIT else 1e-8)


IMPLICIT = {"Beta", "Chi2", "Dirichlet", "FisherSnedecor", "Gamma", "InverseGamma", "StudentT"}


def traced(t, build):
    """The distribution, made of parameters that record, and those parameters."""
    result = []

    class Recording:
        """The package, with tensors that require gradients."""

        def __getattr__(self, name):
            return getattr(t, name)

        def tensor(self, *args, **kwargs):
            result.append(t.tensor(*args, **kwargs).requires_grad_())
            return result[-1]

    return build(Recording()), result


@each
def test_enumerate_support(name, index):
    ours, theirs = both(name, index)
    for expand in (True, False):
        try:
            want = theirs.enumerate_support(expand)
        except NotImplementedError:
            with pytest.raises(NotImplementedError):
                ours.enumerate_support(expand)
            continue
        close(ours.enumerate_support(expand), want)


@each
def test_copies(name, index):
    ours, _ = both(name, index)
    for twin in (copy.deepcopy(ours), pickle.loads(pickle.dumps(ours)), copy.copy(ours)):
        rl.manual_seed(1)
        x = ours.sample((2,))
        rl.manual_seed(1)
        close(twin.sample((2,)), x)
        close(twin.log_prob(x), ours.log_prob(x))


@each
def test_bad_values_are_refused(name, index):
    ours, theirs = both(name, index)
    value = theirs.sample()
    ours.sample()  # what was computed on the way shows in the message
    bad = [value * float("nan") if value.is_floating_point() else value - 1000]
    if value.ndim:
        bad.append(value[..., :0])
    for wrong in bad:
        with pytest.raises(ValueError, match="support|event_shape|broadcastable"):
            theirs.log_prob(wrong)
        with pytest.raises(ValueError, match="support|event_shape|broadcastable"):
            ours.log_prob(over(wrong))
