"""Random programs of ops, views and in-place writes on torch and on rushlight: same gradients, or an error on both."""

from __future__ import annotations

import random
import warnings
from typing import Any

import pytest

import rushlight

torch = pytest.importorskip("torch")

PROGRAMS = 150


def slice_of(t: Any, rng: random.Random) -> Any:
    d = rng.randrange(t.ndim)
    start = rng.randrange(t.shape[d])
    stop = rng.randrange(start + 1, t.shape[d] + 1)
    return t.narrow(d, start, stop - start)


def view_of(t: Any, rng: random.Random) -> Any:
    kind = rng.randrange(6)
    if kind == 0 and t.ndim:
        return slice_of(t, rng)
    if kind == 1 and t.ndim > 1:
        return t.transpose(0, 1)
    if kind == 2:
        return t.unsqueeze(rng.randrange(t.ndim + 1))
    if kind == 3 and t.ndim > 1:
        return t[rng.randrange(t.shape[0])]
    if kind == 4 and t.is_contiguous():
        return t.view(-1)
    return t.view_as(t)


def combine(a: Any, b: Any, rng: random.Random) -> Any:
    return [lambda: a * b, lambda: a + b, lambda: a - b, lambda: a * b.sin()][rng.randrange(4)]()


def smooth(t: Any, rng: random.Random) -> Any:
    return [
        lambda: t.sin(),
        lambda: t.tanh(),
        lambda: t * 0.5,
        lambda: t + 1.0,
        lambda: t.cos().exp(),
        lambda: t.sum(0, keepdim=True),
    ][rng.randrange(6)]()


def write(t: Any, other: Any, rng: random.Random) -> None:
    kind = rng.randrange(5)
    if kind == 0:
        t.mul_(0.5)
    elif kind == 1:
        t.add_(other)
    elif kind == 2:
        t.mul_(other)
    elif kind == 3:
        t.sin_()
    else:
        t.copy_(other.expand(t.shape))


def program(T: Any, seed: int) -> Any:
    """A random program. Both libraries take the same decisions, since shapes and errors decide them."""
    rng = random.Random(seed)
    values = random.Random(seed + 1000)
    leaves = [
        T.tensor([[values.uniform(-1, 1) for _ in range(3)] for _ in range(2)], dtype=T.float64).requires_grad_()
        for _ in range(3)
    ]
    pool = [t * 1.0 for t in leaves]
    for _ in range(rng.randrange(4, 14)):
        t, kind = rng.choice(pool), rng.randrange(10)
        if kind < 3:
            pool.append(view_of(t, rng))
        elif kind < 5 and t.ndim:
            pool.append(smooth(t, rng))
        elif kind < 7:
            same = [p for p in pool if tuple(p.shape) == tuple(t.shape)]
            pool.append(combine(t, rng.choice(same), rng))
        else:
            fits = [p for p in pool if tuple(p.shape) == tuple(t.shape)]
            write(t, rng.choice(fits) if rng.random() < 0.8 else fits[0].detach(), rng)
    loss = sum((p * p).sum() for p in pool)
    create = seed % 3 == 0
    grads = T.autograd.grad(loss, leaves, create_graph=create, allow_unused=True)
    if create:
        second = T.autograd.grad(sum((g * g).sum() for g in grads if g is not None), leaves, allow_unused=True)
        grads = (*grads, *second)
    return [None if g is None else g.detach().reshape(-1).tolist() for g in grads]


def outcome(T: Any, seed: int) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return program(T, seed)
        except RuntimeError as error:
            return error


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_random_program(seed: int) -> None:
    expected, got = outcome(torch, seed), outcome(rushlight, seed)
    if isinstance(expected, RuntimeError):
        assert isinstance(got, RuntimeError), f"torch: {expected}\nrushlight: {got}"
        return
    if isinstance(got, RuntimeError):
        raise got
    for a, b in zip(expected, got, strict=True):
        # No gradient and a gradient of zeros mean the same here: how far a zero is followed is not promised.
        size = len(a or b or ())
        assert (b or [0.0] * size) == pytest.approx(a or [0.0] * size, rel=1e-6, abs=1e-9)
