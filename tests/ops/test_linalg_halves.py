"""Triangular systems cut in halves, as processors with wide vectors solve them, here on all: against products."""

from __future__ import annotations

import pytest
from linear_systems import check_triangular, distance, sample

import rushlight as rl
from rushlight.planners.factors import panels as factor_panels

BOUND = {"float32": 1e-4, "float64": 1e-12, "complex64": 1e-4}


@pytest.fixture(autouse=True)
def halved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans of these sizes are written here first, so that they are cut."""
    monkeypatch.setattr(factor_panels, "HALVED", 8)


@pytest.mark.parametrize("kind", BOUND)
@pytest.mark.parametrize("batch, n, count", [((), 47, 37), ((3,), 35, 21), ((), 211, 281), ((), 33, 3)])
def test_triangular_systems(batch: tuple[int, ...], n: int, count: int, kind: str) -> None:
    check_triangular(*sample(batch, n, count, kind), BOUND[kind])


@pytest.mark.parametrize("kind", BOUND)
@pytest.mark.parametrize("batch, n, count", [((), 45, 39), ((2,), 37, 19), ((), 223, 297)])
def test_general_systems_and_factors(batch: tuple[int, ...], n: int, count: int, kind: str) -> None:
    a, b = sample(batch, n, count, kind)
    a = a.roll(1, -2)      # rows have to be exchanged
    assert distance(a @ rl.linalg.solve(a, b), b) < BOUND[kind]
    assert distance(rl.linalg.solve(a, b.mT, left=False) @ a, b.mT) < BOUND[kind]
    p, lower, upper = rl.linalg.lu(a)
    assert distance(p @ lower @ upper, a) < BOUND[kind]
    square = a @ a.mH
    factor = rl.linalg.cholesky(square)
    assert distance(factor @ factor.mH, square) < BOUND[kind]
