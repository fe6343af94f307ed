"""Sobol's sequence: the points of PyTorch, plain and scrambled, however they are drawn."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")
pytest.importorskip("scipy")


def drawn(t, dimension: int, **options) -> list:
    engine = t.quasirandom.SobolEngine(dimension, **options)
    points = [engine.draw(), engine.draw(5), engine.draw(2, dtype=t.float64)]
    points += [
        engine.fast_forward(7).draw(3),
        engine.reset().draw(4),
        engine.reset().fast_forward(3).draw(2),
        engine.reset().draw_base2(3),
    ]
    return [np.asarray(p) for p in points] + [
        np.asarray(engine.quasi),
        np.asarray(engine.shift),
        np.asarray(engine.sobolstate),
    ]


@pytest.mark.parametrize("options", [{}, {"scramble": True, "seed": 12}], ids=["plain", "scrambled"])
@pytest.mark.parametrize("dimension", [1, 3, 40, 1200])
def test_points_are_those_of_pytorch(dimension: int, options: dict) -> None:
    for ours, theirs in zip(drawn(rl, dimension, **options), drawn(torch, dimension, **options), strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)


def test_an_unseeded_engine_follows_the_seed_of_the_program() -> None:
    rl.manual_seed(5)
    torch.manual_seed(5)
    ours, theirs = (t.quasirandom.SobolEngine(4, scramble=True) for t in (rl, torch))
    np.testing.assert_array_equal(np.asarray(ours.draw(6)), np.asarray(theirs.draw(6)))
    assert repr(ours) == repr(theirs)


@pytest.mark.parametrize("use", [
    lambda t: t.quasirandom.SobolEngine(0), lambda t: t.quasirandom.SobolEngine(21202),
    lambda t: t.quasirandom.SobolEngine(2).fast_forward(1).draw_base2(2),
])
def test_refusals(use) -> None:
    with pytest.raises(ValueError):
        use(torch)
    with pytest.raises(ValueError, match="dimension|power of 2"):
        use(rl)


def test_out_receives_the_points() -> None:
    out = rl.empty(0)
    points = rl.quasirandom.SobolEngine(2).draw(4, out=out)
    assert points is out and out.shape == (4, 2)
