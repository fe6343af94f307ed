"""Batches of small matrices, which are factored by generated loops: results,
exchanges and statuses as LAPACK has them."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import rushlight as rl


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 16, 17])
def test_factors_and_solutions(n: int, dtype: str) -> None:
    a = np.random.default_rng(n).standard_normal((9, n, n)).astype(dtype)
    b = np.random.default_rng(n + 1).standard_normal((9, n, 3)).astype(dtype)
    A, B = rl.from_numpy(a), rl.from_numpy(b)
    close = dict(rtol=2e-3, atol=2e-3) if dtype == "f4" else dict(rtol=1e-9, atol=1e-9)
    P, L, U = rl.linalg.lu(A)
    assert np.allclose((P @ L @ U).numpy(), a, **close)
    assert L.abs().max().item() <= 1 + 1e-6 and rl.equal(L.tril(), L) and rl.equal(U.triu(), U)
    wide = a.astype("f8")
    assert np.allclose(rl.linalg.det(A).numpy(), np.linalg.det(wide), **close)
    X = rl.linalg.solve(A, B)
    assert (
        np.allclose((A @ X).numpy(), b, rtol=0.02, atol=0.02)
        if dtype == "f4"
        else np.allclose(X.numpy(), np.linalg.solve(wide, b), rtol=1e-7)
    )
    Y = rl.linalg.solve(A, B.mT, left=False)
    assert np.allclose((Y @ A).numpy(), b.swapaxes(1, 2), rtol=0.02, atol=0.02)
    assert np.allclose((rl.linalg.inv(A) @ A).numpy(), np.broadcast_to(np.eye(n), a.shape), rtol=0.02, atol=0.02)
    LU, pivots = rl.linalg.lu_factor(A)
    adjoint = rl.linalg.lu_solve(LU, pivots, B, adjoint=True)
    assert np.allclose((A.mT @ adjoint).numpy(), b, rtol=0.02, atol=0.02)
    S = A @ A.mT + n * rl.eye(n, dtype=A.dtype)
    lower, upper = rl.linalg.cholesky(S), rl.linalg.cholesky(S, upper=True)
    assert rl.allclose(lower @ lower.mT, S, rtol=1e-4, atol=1e-4) and rl.allclose(upper, lower.mT, rtol=1e-5, atol=1e-5)
    assert rl.equal(lower.tril(), lower)


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (16, 2), (1, 4)])
def test_matrices_that_are_not_square(shape: tuple[int, int]) -> None:
    A = rl.randn(6, *shape, dtype=rl.float64)
    P, L, U = rl.linalg.lu(A)
    assert rl.allclose(P @ L @ U, A)


def test_statuses_name_the_first_that_failed() -> None:
    A = rl.eye(4).repeat(3, 1, 1)
    A[1, 2, 2] = 0
    assert rl.linalg.lu_factor_ex(A)[2].tolist() == [0, 3, 0]
    assert rl.linalg.inv_ex(A)[1].tolist() == [0, 3, 0]
    with pytest.raises(rl.linalg.LinAlgError, match="Batch element 1"):
        rl.linalg.solve(A, rl.ones(3, 4, 1))
    A[1, 2, 2], A[2, 1, 1] = 1, -1
    assert rl.linalg.cholesky_ex(A)[1].tolist() == [0, 0, 2]
    assert rl.linalg.det(rl.zeros(2, 3, 3)).tolist() == [0, 0]
    assert rl.linalg.det(rl.empty(0, 3, 3)).shape == (0,) and rl.linalg.inv(rl.empty(2, 0, 0)).shape == (2, 0, 0)


def test_the_first_of_equal_pivots_is_taken() -> None:
    A = rl.tensor([[1.0, 2.0, 0.0], [-1.0, 3.0, 1.0], [1.0, 0.0, 5.0]])
    assert rl.linalg.lu_factor(A)[1].tolist()[0] == 1


@pytest.mark.parametrize("dtype", [rl.float32, rl.float64])
@pytest.mark.parametrize("shape", [(40, 4, 4), (3, 1, 5), (7, 2), (2, 3, 8, 8), (2, 9, 3), (0, 4, 4)])
def test_small_triangular_systems(shape: tuple[int, ...], dtype: Any) -> None:
    """Either triangle, either side, with a diagonal of ones or its own; what is in the other triangle is not read."""
    rl.manual_seed(0)
    B = rl.randn(*shape, dtype=dtype)
    for left, upper, unit, transposed in itertools.product((True, False), repeat=4):
        order = shape[-2] if left else shape[-1]
        A = rl.randn(*shape[:-2], order, order, dtype=dtype) * 0.3 + 2 * rl.eye(order, dtype=dtype)
        A = A.mT if transposed else A
        triangle = A.triu(1) if upper else A.tril(-1)
        triangle = triangle + (rl.eye(order, dtype=dtype) if unit else rl.diag_embed(A.diagonal(dim1=-2, dim2=-1)))
        filled = rl.full_like(A, 7.0)
        dirty = triangle + (filled.tril(-1) if upper else filled.triu(1))
        X = rl.linalg.solve_triangular(dirty, B, upper=upper, left=left, unitriangular=unit)
        assert X.shape == B.shape
        assert rl.allclose(triangle @ X if left else X @ triangle, B, atol=1e-3 if dtype is rl.float32 else 1e-9)
