"""Factorisations made of panels of reflections: as exact as one reflection after another, with LAPACK's signs."""

from __future__ import annotations

import pytest

import rushlight as rl

SHAPES = [(48, 48), (64, 49), (50, 120), (130, 97), (2, 3, 70, 64)]
EPS = {rl.float32: 2.0**-23, rl.float64: 2.0**-52}


def made(shape, dtype, seed=0):
    return rl.randn(*shape, dtype=rl.float64, generator=rl.Generator().manual_seed(seed)).to(dtype)


def check_qr(A, Q, R, scale=1.0):
    """Orthonormal columns, and every column of A within some eps of its length."""
    eps, exact, q, r = EPS[A.dtype], A.double() * scale, Q.double(), R.double() * scale
    eye = rl.eye(Q.shape[-1], dtype=rl.float64)
    assert (q.mT @ q - eye).abs().max() < 20 * eps
    lengths = exact.pow(2).sum(-2).sqrt()
    assert ((q @ r - exact).pow(2).sum(-2).sqrt() <= 30 * eps * lengths).all()
    assert (R.tril(-1) == 0).all()


@pytest.mark.parametrize("dtype", EPS)
@pytest.mark.parametrize("shape", SHAPES)
def test_qr_is_exact_and_its_signs_are_lapacks(shape, dtype):
    A = made(shape, dtype)
    Q, R = rl.linalg.qr(A)
    check_qr(A, Q, R)
    # The first number of each column becomes minus its length times its sign: here R[0, 0].
    assert (R[..., 0, 0].sign() == -A[..., 0, 0].sign()).all()
    factors, tau = rl.geqrf(A)
    assert rl.equal(factors.triu()[..., : R.shape[-2], :], R)
    assert ((tau >= 0) & (tau <= 2)).all()


@pytest.mark.parametrize("dtype", EPS)
def test_qr_of_columns_of_many_sizes(dtype):
    reach = 30 if dtype is rl.float32 else 280
    sizes = 10.0 ** -(rl.arange(90, dtype=rl.float64) / 90 * reach)
    A = (made((100, 90), rl.float64) * sizes).to(dtype)
    check_qr(A, *rl.linalg.qr(A), scale=2.0**60)


@pytest.mark.parametrize("dtype", EPS)
@pytest.mark.parametrize("size", ["smallest", "largest"])
def test_qr_at_the_ends_of_the_range(dtype, size):
    info = rl.finfo(dtype)
    factor = 2.0**4 * info.tiny * info.eps if size == "smallest" else info.max / 2.0**9
    A = (made((64, 60), rl.float64) * factor).to(dtype)
    Q, R = rl.linalg.qr(A)
    q = Q.double()
    assert (q.mT @ q - rl.eye(60, dtype=rl.float64)).abs().max() < 20 * EPS[dtype]
    assert R.isfinite().all()


def test_qr_of_zeros_and_of_triangles_reflects_nothing():
    Q, R = rl.linalg.qr(rl.zeros(64, 64))
    assert rl.equal(Q, rl.eye(64)) and rl.equal(R, rl.zeros(64, 64))
    T = made((64, 64), rl.float32).triu()
    Q, R = rl.linalg.qr(T)
    assert rl.equal(Q, rl.eye(64)) and rl.equal(R, T)


def test_qr_complete_and_nan():
    A = made((120, 60), rl.float64)
    Q, R = rl.linalg.qr(A, mode="complete")
    assert Q.shape == (120, 120) and R.shape == (120, 60)
    check_qr(A, Q, R)
    A[3, 2] = float("nan")
    assert rl.linalg.qr(A)[1].isnan().any()


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("transpose", [True, False])
def test_ormqr_multiplies_by_all_of_q(left, transpose):
    A = made((2, 90, 75), rl.float64)
    factors, tau = rl.geqrf(A)
    Q = rl.linalg.qr(A, mode="complete")[0]
    C = made((2, 90, 31) if left else (2, 31, 90), rl.float64, 1)
    op = Q.mT if transpose else Q
    expected = op @ C if left else C @ op
    assert (rl.ormqr(factors, tau, C, left, transpose) - expected).abs().max() < 1e-12
    assert (rl.linalg.householder_product(factors, tau) - Q[..., :75]).abs().max() < 1e-13


@pytest.mark.parametrize("driver", ["gels", "gelsy"])
@pytest.mark.parametrize("shape", [(64, 64), (3, 150, 70)])
@pytest.mark.parametrize("count", [1, 40])
def test_least_squares_of_full_rank(driver, shape, count):
    A, B = made(shape, rl.float64), made((*shape[:-1], count), rl.float64, 1)
    X, residuals, rank, _ = rl.linalg.lstsq(A, B, driver=driver)
    rest = A @ X - B
    assert (A.mT @ rest).abs().max() < 1e-11
    if driver == "gels" and shape[-2] > shape[-1]:
        assert rl.allclose(residuals, (rest * rest).sum(-2))
    if driver == "gelsy":
        assert (rank == shape[-1]).all()


@pytest.mark.parametrize("kind", ["one column twice", "small singular value", "zero"])
def test_least_squares_of_lower_rank_has_the_shortest_solution(kind):
    A = made((100, 70), rl.float64)
    if kind == "one column twice":
        A[:, 13] = A[:, 60]
    elif kind == "zero":
        A[:, 5] = 0
    else:
        U, S, Vh = rl.linalg.svd(A, full_matrices=False)
        S[-1] = S[0] * 1e-15
        A = (U * S) @ Vh
    B = made((100, 3), rl.float64, 1)
    X, _, rank, _ = rl.linalg.lstsq(A, B, driver="gelsy")
    assert rank == 69
    assert rl.allclose(X, rl.linalg.pinv(A, rtol=1e-13) @ B, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("factor", [1e-300, 1e300])
def test_least_squares_at_the_ends_of_the_range(factor):
    A, B = made((80, 64), rl.float64), made((80, 2), rl.float64, 1)
    X = rl.linalg.lstsq(A, B).solution
    assert rl.allclose(rl.linalg.lstsq(A, B * factor).solution / factor, X)
    assert rl.allclose(rl.linalg.lstsq(A * factor, B * factor).solution, X)


def test_gels_refuses_a_singular_triangle():
    A = made((80, 64), rl.float64)
    A[:, 7] = 0
    with pytest.raises(RuntimeError):
        rl.linalg.lstsq(A, made((80, 2), rl.float64), driver="gels")
