"""Parametrizations, weight norm and spectral norm against PyTorch's."""

from __future__ import annotations

import copy
import pickle
import warnings

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")


def both(program):
    result = []
    for t in (torch, rl):
        t.manual_seed(5)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result.append([x.detach().numpy() if hasattr(x, "detach") else x for x in program(t, t.nn.utils)])
    for theirs, ours in zip(*result, strict=True):
        if isinstance(theirs, np.ndarray):
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=2e-6)
        else:
            assert ours == theirs


def positive(t):
    class Exp(t.nn.Module):
        def forward(self, x):
            return t.exp(x)

        def right_inverse(self, y):
            return t.log(y)

    return Exp()


def test_a_parameter_computed_by_a_module():
    def program(t, utils):
        p = utils.parametrize
        m = t.nn.Linear(3, 2)
        m.weight.data.abs_()
        p.register_parametrization(m, "weight", positive(t))
        log = [
            type(m).__name__,
            list(m.state_dict()),
            m.weight,
            m.parametrizations.weight.original,
            p.is_parametrized(m, "weight"),
            p.is_parametrized(m, "bias"),
        ]
        m(t.ones(1, 3)).sum().backward()
        log.append(m.parametrizations.weight.original.grad)
        m.weight = t.full((2, 3), 2.0)
        other = copy.deepcopy(m)
        with p.cached():
            log.append(other.weight is other.weight)
        log += [m.weight, other.weight is other.weight, other(t.ones(1, 3)), p.type_before_parametrizations(m).__name__]
        p.remove_parametrizations(m, "weight")
        return [*log, type(m).__name__, m.weight, m.weight.is_leaf, list(m.state_dict())]

    both(program)


def test_refusals():
    for t in (torch, rl):
        m = t.nn.utils.parametrize.register_parametrization(t.nn.Linear(2, 2), "bias", positive(t))
        with pytest.raises(RuntimeError, match="state_dict"):
            pickle.dumps(m)
        with pytest.raises(ValueError, match="does not have|has no parameter"):
            t.nn.utils.parametrize.register_parametrization(m, "nothing", positive(t))
        with pytest.raises(ValueError, match="shape"):
            t.nn.utils.parametrize.register_parametrization(t.nn.Linear(2, 3), "weight", t.nn.Flatten(0))


def test_weight_norm_both_ways():
    def program(t, utils):
        new = utils.parametrizations.weight_norm(t.nn.Conv1d(3, 4, 2))
        new(t.ones(1, 3, 5)).sum().backward()
        log = [
            list(new.state_dict()),
            new.weight,
            new.parametrizations.weight.original0.grad,
            new.parametrizations.weight.original1.grad,
        ]
        old = utils.weight_norm(t.nn.Linear(3, 4), dim=None)
        old(t.ones(1, 3)).sum().backward()
        log += [list(old.state_dict()), old.weight_g, old.weight_v.grad, old.weight]
        return [*log, list(utils.remove_weight_norm(old).state_dict()), old.weight]

    both(program)


def test_spectral_norm_both_ways():
    def program(t, utils):
        new = utils.parametrizations.spectral_norm(t.nn.ConvTranspose1d(3, 4, 2))
        for _ in range(2):
            out = new(t.ones(1, 3, 5))
        out.sum().backward()
        log = [
            list(new.state_dict()),
            new.eval().weight,
            new.parametrizations.weight.original.grad,
            new.parametrizations.weight[0]._u,
        ]
        old = utils.spectral_norm(t.nn.Linear(3, 4))
        old(t.ones(1, 3)).sum().backward()
        log += [sorted(old.state_dict()), old.weight, old.weight_orig.grad, old.weight_u]
        return [*log, list(utils.remove_spectral_norm(old).state_dict()), old.weight]

    both(program)
