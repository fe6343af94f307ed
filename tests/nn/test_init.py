"""nn.init draws PyTorch's numbers for PyTorch's seeds."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")

SCHEMES = {
    "uniform_": {"a": -1, "b": 2}, "normal_": {"mean": 1, "std": 2}, "trunc_normal_": {}, "constant_": {"val": 3},
    "ones_": {}, "zeros_": {}, "eye_": {}, "xavier_uniform_": {"gain": 2}, "xavier_normal_": {},
    "kaiming_uniform_": {"a": 5**0.5}, "kaiming_normal_": {"mode": "fan_out", "nonlinearity": "relu"},
    "orthogonal_": {"gain": 2}, "sparse_": {"sparsity": 0.3},
}


def pair(shape, scheme, **kwargs):
    result = []
    for t in (torch, rl):
        t.manual_seed(3)
        x = t.empty(*shape, requires_grad=True)
        assert getattr(t.nn.init, scheme)(x, **kwargs) is x
        result.append(x.detach().numpy())
    return result


@pytest.mark.parametrize("scheme", SCHEMES)
def test_numbers(scheme):
    for shape in ((5, 4), (3, 20)):
        theirs, ours = pair(shape, scheme, **SCHEMES[scheme])
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("kwargs", [{"a": 2.0, "b": 3.0}, {"std": 0.02}, {"mean": 1, "std": 3, "a": -1, "b": 1}])
def test_truncated_normal(kwargs):
    theirs, ours = pair((50,), "trunc_normal_", **kwargs)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [(6, 4, 3), (4, 2, 3, 2), (2, 2, 1, 2, 3)])
def test_dirac(shape):
    for groups in (1, 2):
        theirs, ours = pair(shape, "dirac_", groups=groups)
        np.testing.assert_array_equal(ours, theirs)


def test_gains_and_errors():
    for name in ("linear", "sigmoid", "tanh", "relu", "selu", "leaky_relu", "conv2d"):
        assert rl.nn.init.calculate_gain(name) == torch.nn.init.calculate_gain(name)
    for call in (lambda i, t: i.calculate_gain("nope"), lambda i, t: i.xavier_normal_(t.empty(3)),
                 lambda i, t: i.eye_(t.empty(3)), lambda i, t: i.dirac_(t.empty(3, 3)),
                 lambda i, t: i.orthogonal_(t.empty(3)),
                 lambda i, t: i.sparse_(t.empty(3), 0.1),
                 lambda i, t: i.kaiming_normal_(t.empty(3, 3), mode="fan_side")):
        for t in (torch, rl):
            with pytest.raises(ValueError):
                call(t.nn.init, t)


def test_nothing_to_initialize_warns():
    with pytest.warns(UserWarning, match="nothing to initialise"):
        rl.nn.init.kaiming_uniform_(rl.empty(0, 3))
    with pytest.warns(FutureWarning, match="deprecated"):
        rl.nn.init.xavier_normal(rl.empty(2, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rl.nn.init.orthogonal_(rl.empty(0, 3))
