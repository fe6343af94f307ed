"""Masks as indices that need no reads of elements."""

from __future__ import annotations

import pytest

import rushlight as torch


def fills(x):
    y = x * 1
    y[y < 0] = 0.0
    y[(y > 2).any(1)] = -1
    return y


def fills_integers(x):
    y = x.long()
    y[y > 1] = True
    y[y < 0] = 0.75      # cut to 0, as a number that is written to integers is
    return y


def without_dimensions(x):
    total, norm = x.sum(), x.abs().sum()
    scores = torch.ones_like(total)
    ok = (total > 0) & (norm > 0)
    scores[ok] = 1 - total[ok] / norm[ok]
    scores[~ok & (norm > 1e9)] = 0.0
    return scores


def everything_or_nothing(x):
    y = x * 1
    y[x.sum() > 0] = 3.0
    return y


def with_gradients(x):
    y = x * 2
    y[x < 0] = 0.5
    return y.sum()


@pytest.mark.parametrize("backend", ["eager", "inductor"])
@pytest.mark.parametrize("function", [fills, fills_integers, without_dimensions, everything_or_nothing])
def test_as_uncompiled(function, backend):
    fast = torch.compile(function, backend=backend, fullgraph=function is not fills_integers)
    for seed in range(3):
        x = torch.randn(3, 4, generator=torch.Generator().manual_seed(seed)) * 3
        for given in (x, -x.abs()):
            want = function(given)
            torch.testing.assert_close(fast(given), want)
            assert fast(given).dtype == want.dtype


def test_gradients():
    fast = torch.compile(with_gradients, fullgraph=True)
    grads = []
    for function in (with_gradients, fast):
        x = torch.tensor([[1.0, -2.0], [-3.0, 4.0]], requires_grad=True)
        function(x).backward()
        grads.append(x.grad.tolist())
    assert grads[0] == grads[1] == [[2.0, 0.0], [0.0, 2.0]]


def test_shapes_that_do_not_fit():
    def f(x):
        x[torch.ones(5, dtype=torch.bool)] = 0.0
        return x

    with pytest.raises(IndexError):
        f(torch.ones(3))
    with pytest.raises(IndexError):
        torch.compile(f, backend="eager")(torch.ones(3))
