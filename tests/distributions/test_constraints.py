"""Constraints: who belongs, what they say of themselves, and the transforms that lead into them."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")


def C(t):
    return t.distributions.constraints


INF, NAN = float("inf"), float("nan")
# name -> (constraint of a package, values)
CHECKS = {
    "boolean": (lambda c, t: c.boolean, [0.0, 1.0, 0.5, NAN, 2.0]),
    "one_hot": (lambda c, t: c.one_hot, [[0.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.5, 0.5, 0.0]]),
    "integer_interval": (lambda c, t: c.integer_interval(1, 3), [0.0, 1.0, 2.5, 3.0, 4.0]),
    "integer_interval tensor": (lambda c, t: c.integer_interval(0, t.tensor([1.0, 2.0, 3.0])), [1.0, 3.0, 3.0]),
    "nonnegative_integer": (lambda c, t: c.nonnegative_integer, [-1.0, 0.0, 0.5, 7.0]),
    "positive_integer": (lambda c, t: c.positive_integer, [-1.0, 0.0, 1.0, 1.5]),
    "integer_less_than": (lambda c, t: c._IntegerLessThan(3), [2.0, 3.0, 4.0, 0.5]),
    "real": (lambda c, t: c.real, [0.0, INF, -INF, NAN]),
    "real_vector": (lambda c, t: c.real_vector, [[0.0, 1.0], [NAN, 1.0]]),
    "positive": (lambda c, t: c.positive, [-1.0, 0.0, 1.0, INF, NAN]),
    "nonnegative": (lambda c, t: c.nonnegative, [-1.0, 0.0, 1.0, NAN]),
    "greater_than": (lambda c, t: c.greater_than(-0.5), [-1.0, -0.5, 1.0]),
    "greater_than_eq": (lambda c, t: c.greater_than_eq(t.tensor([0.0, 1.0, 2.0])), [-1.0, 1.0, 3.0]),
    "less_than": (lambda c, t: c.less_than(2.0), [1.0, 2.0, 3.0]),
    "multinomial": (lambda c, t: c.multinomial(3), [[1.0, 2.0], [2.0, 2.0], [-1.0, 2.0]]),
    "unit_interval": (lambda c, t: c.unit_interval, [-0.1, 0.0, 0.5, 1.0, 1.1, NAN]),
    "interval": (lambda c, t: c.interval(-1, 2), [-2.0, -1.0, 2.0, 3.0]),
    "half_open_interval": (lambda c, t: c.half_open_interval(-1, 2), [-2.0, -1.0, 2.0, 1.0]),
    "simplex": (lambda c, t: c.simplex, [[0.5, 0.5], [0.4, 0.5], [-0.5, 1.5], [1.0, 0.0]]),
    "lower_triangular": (lambda c, t: c.lower_triangular, [[[1.0, 0.0], [2.0, 0.0]], [[1.0, 1.0], [2.0, 3.0]]]),
    "lower_cholesky": (lambda c, t: c.lower_cholesky,
                       [[[1.0, 0.0], [2.0, 0.0]], [[1.0, 0.0], [2.0, 3.0]], [[1.0, 1.0], [2.0, 3.0]]]),
    "corr_cholesky": (lambda c, t: c.corr_cholesky,
                      [[[1.0, 0.0], [0.6, 0.8]], [[1.0, 0.0], [0.6, 0.9]], [[1.0, 0.1], [0.6, 0.8]]]),
    "square": (lambda c, t: c.square, [[[1.0, 2.0], [3.0, 4.0]]]),
    "not square": (lambda c, t: c.square, [[[1.0, 2.0]]]),
    "symmetric": (lambda c, t: c.symmetric, [[[1.0, 2.0], [2.0, 4.0]], [[1.0, 2.0], [2.1, 4.0]]]),
    "not symmetric": (lambda c, t: c.positive_definite, [[[1.0, 2.0, 3.0], [3.0, 4.0, 5.0]]]),
    "positive_semidefinite": (lambda c, t: c.positive_semidefinite,
                              [[[1.0, 0.0], [0.0, 0.0]], [[1.0, 0.0], [0.0, -1.0]]]),
    "positive_definite": (lambda c, t: c.positive_definite, [[[1.0, 0.5], [0.5, 1.0]], [[1.0, 2.0], [2.0, 1.0]]]),
    "independent": (lambda c, t: c.independent(c.positive, 1), [[1.0, 2.0], [1.0, -2.0]]),
    "cat": (lambda c, t: c.cat([c.positive, c.unit_interval], dim=-1, lengths=[1, 2]),
            [[1.0, 0.5, 0.2], [-1.0, 0.5, 2.0]]),
    "stack": (lambda c, t: c.stack([c.positive, c.boolean], dim=-1), [[1.0, 0.5], [1.0, 1.0]]),
    "mixture": (lambda c, t: c.MixtureSameFamilyConstraint(c.greater_than(t.tensor([0.0, 1.0]))), [0.5, 2.0, -1.0]),
}


@pytest.mark.parametrize("name", CHECKS)
def test_members(name):
    make, values = CHECKS[name]
    ours, theirs = make(C(rl), rl), make(C(torch), torch)
    a, b = ours.check(rl.tensor(values)), theirs.check(torch.tensor(values))
    assert tuple(a.shape) == tuple(b.shape) and a.dtype is rl.bool
    np.testing.assert_array_equal(a.numpy(), b.numpy())
    assert ours.is_discrete == theirs.is_discrete and ours.event_dim == theirs.event_dim
    assert repr(ours) == repr(theirs).replace("torch.", "rushlight.")


def test_names():
    assert sorted(C(rl).__all__) == sorted(C(torch).__all__)
    for module in (
        "distributions",
        "distributions.transforms",
        "distributions.utils",
        "distributions.constraint_registry",
        "distributions.kl",
    ):
        ours, theirs = rl, torch
        for part in module.split("."):
            ours, theirs = getattr(ours, part), getattr(theirs, part)
        assert set(theirs.__all__) == set(ours.__all__)


def test_dependent_constraints():
    c = C(rl)
    assert c.is_dependent(c.dependent) and not c.is_dependent(c.real)
    assert c.dependent(is_discrete=True, event_dim=1).event_dim == 1
    with pytest.raises(NotImplementedError):
        c.dependent.event_dim  # noqa: B018
    with pytest.raises(NotImplementedError):
        c.dependent.is_discrete  # noqa: B018
    with pytest.raises(ValueError):
        c.dependent.check(rl.zeros(1))
    assert c.is_dependent(rl.distributions.Uniform.support) and rl.distributions.Uniform.support.event_dim == 0


def test_parts_are_checked():
    c = C(rl)
    for wrong in (lambda: c.independent(3, 1), lambda: c.independent(c.real, 1.5), lambda: c.independent(c.real, -1),
                  lambda: c.cat([1]), lambda: c.stack([c.real, 1]), lambda: c.cat([c.real], lengths=[1, 2]),
                  lambda: c.cat([c.real], dim=3).check(rl.zeros(2)),
                  lambda: c.MixtureSameFamilyConstraint(1)):
        with pytest.raises(AssertionError):
            wrong()
    with pytest.raises(ValueError, match="Expected value.dim"):
        c.independent(c.real, 2).check(rl.zeros(3))


@pytest.mark.parametrize("registry", ["biject_to", "transform_to"])
@pytest.mark.parametrize("name", [name for name in CHECKS if not name.startswith("not ")])
def test_transforms_lead_into_the_constraint(name, registry):
    results = []
    for t in (rl, torch):
        constraint = CHECKS[name][0](C(t), t)
        try:
            transform = getattr(t.distributions, registry)(constraint)
        except NotImplementedError:
            results.append(None)
            continue
        torch.manual_seed(0)
        shape = transform.inverse_shape(t.tensor(CHECKS[name][1]).shape)
        x = torch.randn(tuple(shape), dtype=torch.float64) / 2
        y = transform(x if t is torch else rl.tensor(x.numpy()))
        assert constraint.check(y).all()
        results.append(y.numpy())
    assert (results[0] is None) == (results[1] is None)
    if results[0] is not None:
        np.testing.assert_allclose(results[0], results[1], rtol=1e-7, atol=1e-9)


def test_registration():
    registry = rl.distributions.constraint_registry.ConstraintRegistry()

    class Odd(rl.distributions.constraints.Constraint):
        pass

    with pytest.raises(NotImplementedError, match="Cannot transform Odd"):
        registry(Odd())

    @registry.register(Odd)
    def make(constraint):
        return "made"

    assert registry(Odd()) == "made"
    registry.register(Odd(), lambda constraint: "again")
    assert registry(Odd()) == "again"
    with pytest.raises(TypeError, match="Constraint"):
        registry.register(int, make)
