"""nn.utils.parametrizations.orthogonal: orthogonal weights, PyTorch's numbers, assignment and training."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")
SHAPES = [(4, 4), (6, 3), (3, 6), (2, 5, 3)]
MAPS = ["matrix_exp", "cayley", "householder", None]


def holder(t, shape, dtype):
    """A module with a weight of the given shape, the same in both packages."""
    values = np.random.default_rng(1).normal(size=(*shape, 2))
    values = values[..., 0] + 1j * values[..., 1] if dtype.startswith("complex") else values[..., 0]
    module = t.nn.Module()
    module.weight = t.nn.Parameter(t.tensor(values.tolist(), dtype=getattr(t, dtype)))
    return module


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("orthogonal_map", MAPS)
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("use_trivialization", [True, False])
def test_weights_and_gradients(shape, orthogonal_map, dtype, use_trivialization):
    results = []
    for t in (rl, torch):
        t.manual_seed(3)
        try:
            module = t.nn.utils.parametrizations.orthogonal(
                holder(t, shape, dtype), orthogonal_map=orthogonal_map, use_trivialization=use_trivialization
            )
        except (ValueError, NotImplementedError) as error:
            results.append((type(error), None))
            continue
        # away from the starting point
        with t.no_grad():
            module.parametrizations.weight.original.add_(
                0.1 * t.ones_like(module.parametrizations.weight.original).tril(-1)
            )
        weight = module.weight
        scale = t.arange(weight.numel(), dtype=t.float64).cos().view(weight.shape)
        (weight * scale).abs().sum().backward()
        grad = module.parametrizations.weight.original.grad
        results.append((weight.detach().numpy(), grad.numpy(), sorted(module.state_dict())))
    if isinstance(results[1][0], type):
        assert results[0] == results[1]
        return
    np.testing.assert_allclose(results[0][0], results[1][0], rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(results[0][1], results[1][1], rtol=1e-6, atol=1e-8)
    assert results[0][2] == results[1][2]
    Q = results[0][0] if shape[-2] >= shape[-1] else results[0][0].swapaxes(-1, -2)
    np.testing.assert_allclose(
        Q.conj().swapaxes(-1, -2) @ Q,
        np.broadcast_to(np.eye(Q.shape[-1]), (*Q.shape[:-2], Q.shape[-1], Q.shape[-1])),
        atol=1e-9,
    )


@pytest.mark.parametrize("orthogonal_map", MAPS[:3])
def test_assignment(orthogonal_map):
    for shape in SHAPES:
        module = rl.nn.utils.parametrizations.orthogonal(holder(rl, shape, "float64"), orthogonal_map=orthogonal_map)
        wanted = rl.nn.init.orthogonal_(rl.empty(shape[-2:], dtype=rl.float64)).expand(shape).clone()
        module.weight = wanted
        np.testing.assert_allclose(module.weight.detach().numpy(), wanted.numpy(), atol=1e-9)
    with pytest.raises(ValueError, match="expected matrices"):
        module.parametrizations.weight[0].right_inverse(rl.ones(2, 2))


def test_householder_assignment_without_trivialization():
    linear = rl.nn.utils.parametrizations.orthogonal(rl.nn.Linear(3, 5).double(), use_trivialization=False)
    wanted = rl.nn.init.orthogonal_(rl.empty(5, 3, dtype=rl.float64))
    linear.weight = wanted
    np.testing.assert_allclose(linear.weight.detach().numpy(), wanted.numpy(), atol=1e-9)
    linear.weight = -rl.eye(5, 3, dtype=rl.float64)  # where LAPACK leaves reflections out
    np.testing.assert_allclose(linear.weight.detach().numpy(), -np.eye(5, 3), atol=1e-9)


def test_training_stays_orthogonal_and_states_load_both_ways():
    linears = []
    for t in (rl, torch):
        t.manual_seed(0)
        linear = t.nn.utils.parametrizations.orthogonal(t.nn.Linear(4, 4))
        x = t.arange(12.0).view(3, 4) / 10
        for _ in range(5):
            linear(x).square().sum().backward()
            with t.no_grad():
                for p in linear.parameters():
                    p -= 0.01 * p.grad
                    p.grad = None
        linears.append(linear)
    ours, theirs = linears
    np.testing.assert_allclose(ours.weight.detach().numpy(), theirs.weight.detach().numpy(), atol=1e-5)
    np.testing.assert_allclose((ours.weight.T @ ours.weight).detach().numpy(), np.eye(4), atol=1e-5)
    ours.load_state_dict({k: rl.tensor(v.numpy()) for k, v in theirs.state_dict().items()})
    np.testing.assert_allclose(ours.weight.detach().numpy(), theirs.weight.detach().numpy(), atol=1e-6)
    rl.nn.utils.parametrize.remove_parametrizations(ours, "weight")
    assert type(ours) is rl.nn.Linear


def test_refusals():
    orthogonal = rl.nn.utils.parametrizations.orthogonal
    with pytest.raises(ValueError, match="no parameter"):
        orthogonal(rl.nn.Linear(2, 2), "nothing")
    with pytest.raises(ValueError, match="expected matrices"):
        orthogonal(rl.nn.Linear(2, 2), "bias")
    with pytest.raises(ValueError, match="orthogonal_map: expected"):
        orthogonal(rl.nn.Linear(2, 2), orthogonal_map="other")
