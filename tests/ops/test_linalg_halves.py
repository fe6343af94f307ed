"""Triangular systems cut in halves, as processors with wide vectors solve them, here on all: against products."""

from __future__ import annotations

import itertools

import pytest

import rushlight as rl
from rushlight.op import factor_panels

BOUND = {"float32": 1e-4, "float64": 1e-12, "complex64": 1e-4}


@pytest.fixture(autouse=True)
def halved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans of these sizes are written here first, so that they are cut."""
    monkeypatch.setattr(factor_panels, "HALVED", 8)


def sample(batch: tuple[int, ...], n: int, count: int, kind: str) -> tuple[rl.Tensor, rl.Tensor]:
    rl.manual_seed(n + count)
    dtype = getattr(rl, kind)
    near_one = rl.randn(*batch, n, n, dtype=dtype) / (4 * n**0.5) + rl.eye(n, dtype=dtype)
    return near_one, rl.randn(*batch, n, count, dtype=dtype)


def distance(a: rl.Tensor, b: rl.Tensor) -> float:
    return ((a - b).abs().max() / b.abs().max()).item()


@pytest.mark.parametrize("kind", BOUND)
@pytest.mark.parametrize("batch, n, count", [((), 47, 37), ((3,), 35, 21), ((), 211, 281), ((), 33, 3)])
def test_triangular_systems(batch: tuple[int, ...], n: int, count: int, kind: str) -> None:
    a, b = sample(batch, n, count, kind)
    for upper, left, unit, across in itertools.product((False, True), repeat=4):
        matrix, right = (a.mT if across else a), (b if left else b.mT.contiguous())
        triangle = matrix.triu() if upper else matrix.tril()
        if unit:
            triangle = triangle - rl.diag_embed(triangle.diagonal(dim1=-2, dim2=-1)) + rl.eye(n, dtype=a.dtype)
        x = rl.linalg.solve_triangular(matrix, right, upper=upper, left=left, unitriangular=unit)
        assert distance(triangle @ x if left else x @ triangle, right) < BOUND[kind], (upper, left, unit, across)


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
