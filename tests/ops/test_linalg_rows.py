"""Triangular systems with right sides in rows: triangles of less, exactly and more than a loop solves for."""

from __future__ import annotations

import pytest
from linear_systems import check_triangular, distance, sample

import rushlight as rl
from rushlight.planners.factors import triangles

BOUND = {"float32": 2e-5, "float64": 1e-13}
SHAPES = [((), 32, 32), ((3,), 45, 41), ((), 64, 70), ((2,), 130, 70), ((), 193, 600), ((), 300, 300)]


@pytest.mark.parametrize("kind", BOUND)
@pytest.mark.parametrize("batch, n, count", SHAPES)
def test_triangular_systems(batch: tuple[int, ...], n: int, count: int, kind: str) -> None:
    check_triangular(*sample(batch, n, count, kind), BOUND[kind])


@pytest.mark.parametrize("kind", BOUND)
@pytest.mark.parametrize("batch, n, count", SHAPES)
def test_systems_inverses_and_factors(batch: tuple[int, ...], n: int, count: int, kind: str) -> None:
    a, b = sample(batch, n, count, kind)
    a = a.roll(1, -2)      # rows have to be exchanged
    assert distance(a @ rl.linalg.solve(a, b), b) < BOUND[kind]
    assert distance(rl.linalg.solve(a, b.mT, left=False) @ a, b.mT) < BOUND[kind]
    assert distance(a @ rl.linalg.inv(a), rl.eye(n, dtype=a.dtype).expand(a.shape)) < BOUND[kind]
    lu, pivots = rl.linalg.lu_factor(a)
    assert distance(a.mT @ rl.linalg.lu_solve(lu, pivots, b, adjoint=True), b) < BOUND[kind]
    square = a @ a.mT
    for upper in (False, True):
        factor = rl.linalg.cholesky(square, upper=upper)
        assert distance(factor.mT @ factor if upper else factor @ factor.mT, square) < BOUND[kind]
        assert distance(square @ rl.cholesky_solve(b, factor, upper), b) < BOUND[kind]


def test_threads_change_nothing() -> None:
    a, b = sample((), 300, 600, "float32")
    before, found = rl.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            rl.set_num_threads(threads)
            found.append((rl.linalg.solve(a, b), rl.linalg.inv(a), rl.linalg.cholesky(a @ a.mT)))
    finally:
        rl.set_num_threads(before)
    for other in found[1:]:
        assert all(rl.equal(x, y) for x, y in zip(found[0], other, strict=True))


def test_failures_are_counted_from_the_first_row() -> None:
    a, b = sample((), 300, 300, "float64")
    a[:, 170] = a[:, 171] = 0
    assert rl.linalg.lu_factor_ex(a).info == 171 == rl.linalg.inv_ex(a).info == rl.linalg.solve_ex(a, b).info
    with pytest.raises(rl.linalg.LinAlgError, match="diagonal element 171"):
        rl.linalg.inv(a)
    square = rl.eye(300, dtype=rl.float64)
    square[200, 200] = -1
    assert rl.linalg.cholesky_ex(square).info == 201


def test_few_right_sides_and_complex_numbers_are_the_librarys() -> None:
    class Anything:
        shares = True

    assert triangles.suits(Anything(), "f32", 64, 64)
    assert not triangles.suits(Anything(), "f32", 64, 8)
    assert not triangles.suits(Anything(), "c64", 64, 64)
