"""Transforms: inverses, volume changes, shapes, caches, and PyTorch's numbers."""

from __future__ import annotations

import copy
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import rushlight as rl

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))
from examples import gauss, numbers, vector  # noqa: E402


def T(t):
    return t.distributions.transforms


# name -> (transform of a package, shape of an input it takes)
TRANSFORMS = {
    "abs": (lambda t: T(t).AbsTransform(), (4,)),
    "affine": (lambda t: T(t).AffineTransform(vector(t, 1, -2, 3), vector(t, 2.0, -0.5, 1.5)), (2, 3)),
    "affine numbers": (lambda t: T(t).AffineTransform(1, -2.5), (2, 3)),
    "affine events": (lambda t: T(t).AffineTransform(vector(t, 1, -2, 3), numbers(t, 3), event_dim=1), (2, 3)),
    "affine matrices": (lambda t: T(t).AffineTransform(0.0, numbers(t, 2, 3), event_dim=2), (4, 2, 3)),
    "cat": (lambda t: T(t).CatTransform([T(t).ExpTransform(), T(t).SigmoidTransform()], dim=-1, lengths=[2, 3]),
            (2, 5)),
    "cat front": (lambda t: T(t).CatTransform([T(t).ExpTransform(), T(t).AffineTransform(1, 2)], dim=0, lengths=[1, 3]),
                  (4, 2)),
    "compose": (lambda t: T(t).ComposeTransform([T(t).ExpTransform(), T(t).AffineTransform(1, 2),
                                                 T(t).PowerTransform(vector(t, 2.0))]), (3,)),
    "compose mixed": (lambda t: T(t).ComposeTransform([T(t).AffineTransform(1.0, 2.0), T(t).StickBreakingTransform()]),
                      (2, 3)),
    "corr_cholesky": (lambda t: T(t).CorrCholeskyTransform(), (2, 6)),
    "cdf": (lambda t: T(t).CumulativeDistributionTransform(t.distributions.Normal(vector(t, 0.0), vector(t, 1.5))),
            (3,)),
    "exp": (lambda t: T(t).ExpTransform(), (3,)),
    "exp inverse": (lambda t: T(t).SoftplusTransform().inv.inv, (3,)),
    "identity": (lambda t: T(t).identity_transform, (3,)),
    "independent": (lambda t: T(t).IndependentTransform(T(t).TanhTransform(), 1), (2, 3)),
    "lower_cholesky": (lambda t: T(t).LowerCholeskyTransform(), (2, 3, 3)),
    "positive_definite": (lambda t: T(t).PositiveDefiniteTransform(), (3, 3)),
    "power": (lambda t: T(t).ComposeTransform([T(t).ExpTransform(), T(t).PowerTransform(vector(t, 2.0, -0.5, 3.0))]),
              (2, 3)),
    "reshape": (lambda t: T(t).ReshapeTransform((2, 3), (6,)), (4, 2, 3)),
    "sigmoid": (lambda t: T(t).SigmoidTransform(), (5,)),
    "softmax": (lambda t: T(t).SoftmaxTransform(), (2, 4)),
    "softplus": (lambda t: T(t).SoftplusTransform(), (5,)),
    "stack": (lambda t: T(t).StackTransform([T(t).ExpTransform(), T(t).SigmoidTransform(), T(t).AffineTransform(1, 2)],
                                            dim=1), (2, 3)),
    "stick_breaking": (lambda t: T(t).StickBreakingTransform(), (2, 4)),
    "tanh": (lambda t: T(t).TanhTransform(), (5,)),
}
each = pytest.mark.parametrize("name", TRANSFORMS)


def near(ours, theirs, rtol=1e-8):
    assert tuple(ours.shape) == tuple(theirs.shape)
    np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=rtol, atol=1e-10)


@each
def test_pytorchs_numbers(name):
    make, shape = TRANSFORMS[name]
    ours, theirs = make(rl), make(torch)
    x, y = gauss(rl, *shape), gauss(torch, *shape)
    a, b = ours(x), theirs(y)
    near(a, b)
    near(ours.inv(a), theirs.inv(b), rtol=1e-6)
    assert repr(ours).replace("rushlight.", "torch.") == repr(theirs)
    assert ours.bijective == theirs.bijective
    assert ours.domain.event_dim == theirs.domain.event_dim and ours.codomain.event_dim == theirs.codomain.event_dim
    assert repr(ours.codomain).replace("rushlight.", "torch.") == repr(theirs.codomain)
    assert tuple(ours.forward_shape(rl.Size(shape))) == tuple(theirs.forward_shape(torch.Size(shape))) == tuple(a.shape)
    assert tuple(ours.inverse_shape(a.shape)) == tuple(theirs.inverse_shape(b.shape))
    assert ours.codomain.check(a).all()
    try:
        want = theirs.log_abs_det_jacobian(y, b)
    except NotImplementedError:
        with pytest.raises(NotImplementedError):
            ours.log_abs_det_jacobian(x, a)
        return
    near(ours.log_abs_det_jacobian(x, a), want)
    near(ours.inv.log_abs_det_jacobian(a, x), -want)


@each
def test_sign(name):
    make, _ = TRANSFORMS[name]
    results = []
    for t in (rl, torch):
        try:
            sign = make(t).sign
            results.append(sign.tolist() if isinstance(sign, t.Tensor) else sign)
        except NotImplementedError:
            results.append(NotImplementedError)
    assert results[0] == results[1]


@pytest.mark.parametrize(
    "name",
    [
        "affine events",
        "corr_cholesky",
        "stick_breaking",
        "tanh",
        "sigmoid",
        "softplus",
        "power",
        "compose mixed",
        "cat",
    ],
)
def test_volume_change_is_the_jacobians(name):
    make, shape = TRANSFORMS[name]
    transform = make(rl)
    dims = transform.domain.event_dim
    x = gauss(rl, *shape, seed=4)
    x = x.reshape(-1, *shape[len(shape) - dims :])[0] if dims else x
    y = transform(x)
    flat = {"stick_breaking": lambda v: v[..., :-1], "compose mixed": lambda v: v[..., :-1]}.get(name, lambda v: v)
    if name == "corr_cholesky":
        flat = lambda v: rl.distributions.utils.tril_matrix_to_vec(v, diag=-1)  # noqa: E731
    jacobian = rl.func.jacrev(lambda v: flat(transform(v)).reshape(-1))(x).reshape(-1, x.numel())
    want = rl.linalg.slogdet(jacobian)[1]
    got = transform.log_abs_det_jacobian(x, y).sum()
    assert got.item() == pytest.approx(want.item(), rel=1e-6, abs=1e-8)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.floats(-8, 8), min_size=3, max_size=3),
    st.sampled_from(["exp", "sigmoid", "tanh", "softplus", "affine", "stick_breaking", "corr_cholesky", "power"]),
)
def test_round_trip(values, name):
    transform = TRANSFORMS[name][0](rl)
    x = rl.tensor(values, dtype=rl.float64) / 3
    y = transform(x)
    np.testing.assert_allclose(transform.inv(y).numpy(), x.numpy(), rtol=1e-6, atol=1e-7)
    assert transform.codomain.check(y).all()


def test_cache_returns_what_it_was_given():
    for make, shape in TRANSFORMS.values():
        transform = make(rl)
        try:
            cached = transform.with_cache()
        except NotImplementedError:
            continue
        x = gauss(rl, *shape)
        y = cached(x)
        if cached.inv._cache_size and type(cached).__name__ not in (
            "ComposeTransform",
            "CatTransform",
            "StackTransform",
        ):
            assert cached.inv(y) is x and cached(x) is y
        assert cached.with_cache(1) is cached and cached.with_cache(0)._cache_size == 0
    t = T(rl).TanhTransform(cache_size=1)
    far = rl.tensor([30.0])
    assert t.inv(t(far)) is far and not rl.isfinite(T(rl).TanhTransform().inv(t(far))).all()
    with pytest.raises(ValueError, match="cache_size"):
        T(rl).ExpTransform(cache_size=2)


def test_equality():
    t = T(rl)
    assert t.ExpTransform() == t.ExpTransform() and t.ExpTransform() != t.TanhTransform()
    assert t.AffineTransform(0, 1) == t.AffineTransform(0, 1) and t.AffineTransform(0, 1) != t.AffineTransform(0, 2)
    assert t.AffineTransform(rl.ones(2), 1) == t.AffineTransform(rl.ones(2), 1)
    assert t.ComposeTransform([t.ExpTransform(), t.AffineTransform(1, 2)]) == t.ComposeTransform(
        [t.ExpTransform(), t.AffineTransform(1, 2)]
    )
    assert t.PowerTransform(2.0) == t.PowerTransform(2.0) and t.PowerTransform(2.0) != t.PowerTransform(3.0)
    assert t.ExpTransform().inv == t.ExpTransform().inv and t.ExpTransform().inv != t.ExpTransform()
    exp = t.ExpTransform()
    assert exp.inv.inv is exp


@each
def test_copies(name):
    make, shape = TRANSFORMS[name]
    transform = make(rl)
    x = gauss(rl, *shape)
    y = transform(x)
    for twin in (
        pickle.loads(pickle.dumps(transform)),
        copy.deepcopy(transform),
        pickle.loads(pickle.dumps(transform.inv)).inv,
    ):
        near(twin(x), y)
        near(twin.inv(y), transform.inv(y))


def test_wrong_shapes_are_refused():
    t = T(rl)
    with pytest.raises(ValueError, match="different numbers"):
        t.ReshapeTransform((2, 3), (5,))
    with pytest.raises(ValueError, match="Shape mismatch"):
        t.ReshapeTransform((2, 3), (6,)).forward_shape((3, 2))
    with pytest.raises(ValueError, match="Too few"):
        t.StickBreakingTransform().forward_shape(())
    with pytest.raises(ValueError, match="Too few"):
        t.IndependentTransform(t.ExpTransform(), 2)(rl.zeros(3))
    with pytest.raises(ValueError, match="lower-diagonal"):
        t.CorrCholeskyTransform().forward_shape((4,))
    with pytest.raises(ValueError, match="square"):
        t.CorrCholeskyTransform().inverse_shape((3, 4))
    with pytest.raises(AssertionError):
        t.StackTransform([t.ExpTransform()], dim=0)(rl.zeros(3))
    with pytest.raises(AssertionError):
        t.CatTransform([t.ExpTransform()], dim=0, lengths=[2])(rl.zeros(3))
    with pytest.raises(ValueError, match="event_dim"):
        t.ReshapeTransform((2, 3), (6,)).event_dim  # noqa: B018
    with pytest.raises(ValueError, match="at least"):
        rl.distributions.TransformedDistribution(rl.distributions.Normal(0.0, 1.0), t.StickBreakingTransform())
    for wrong in (3, [3]):
        with pytest.raises(ValueError, match="transforms must be"):
            rl.distributions.TransformedDistribution(rl.distributions.Normal(0.0, 1.0), wrong)
