"""Linear algebra on batches, empty matrices, strides and meta tensors: what the op records do not look at."""

import pytest

import rushlight as rl

L = rl.linalg


def matrices(*shape, dtype=rl.float64, seed=0):
    return rl.randn(*shape, dtype=dtype, generator=rl.Generator().manual_seed(seed))


def close(a, b):
    return rl.allclose(a, b, rtol=1e-8, atol=1e-8)


def test_a_batch_equals_its_matrices():
    A = matrices(40, 5, 5)
    for call in (
        L.inv,
        L.det,
        L.svdvals,
        L.matrix_exp,
        lambda a: L.qr(a)[1],
        lambda a: L.lu(a)[0],
        lambda a: L.eigvalsh(a + a.mT),
    ):
        assert close(call(A), rl.stack([call(a) for a in A]))


@pytest.mark.parametrize("dtype", [rl.float32, rl.float64, rl.complex64, rl.complex128])
def test_factors_multiply_back(dtype):
    A = matrices(3, 4, 4, dtype=dtype)
    H = A @ A.mH + 4 * rl.eye(4, dtype=dtype)
    tolerance = 1e-4 if dtype in (rl.float32, rl.complex64) else 1e-10
    C = L.cholesky(H)
    P, low, up = L.lu(A)
    Q, R = L.qr(A)
    U, S, Vh = L.svd(A)
    E, V = L.eigh(H)
    w, X = L.eig(A)
    for result, wanted in (
        (C @ C.mH, H), (P @ low @ up, A), (Q @ R, A), ((U * S.to(dtype).unsqueeze(-2)) @ Vh, A),
        ((V * E.to(dtype).unsqueeze(-2)) @ V.mH, H), (X * w.unsqueeze(-2), A.to(X.dtype) @ X),
        (L.inv(A) @ A, rl.eye(4, dtype=dtype).expand(3, 4, 4)), (L.pinv(A) @ A, rl.eye(4, dtype=dtype).expand(3, 4, 4)),
    ):
        assert (result - wanted).abs().max().item() < tolerance * 50


def test_batches_broadcast_in_solvers():
    A, B = matrices(4, 1, 3, 3), matrices(5, 3, 2, seed=1)
    X = L.solve(A, B)
    assert X.shape == (4, 5, 3, 2) and close(A @ X, B.expand(4, 5, 3, 2))
    T = A.triu() + 3 * rl.eye(3, dtype=rl.float64)
    assert close(T @ L.solve_triangular(T, B, upper=True), B.expand(4, 5, 3, 2))
    LU, pivots = L.lu_factor(A)
    assert close(L.lu_solve(LU, pivots, B), X)


def test_batches_without_one_stride():
    A = matrices(3, 4, 5, 5).transpose(0, 1)
    assert close(L.inv(A) @ A, rl.eye(5, dtype=rl.float64).expand(4, 3, 5, 5))
    spread = matrices(4, 8, 8)[:, ::2, 1::2]
    assert close(L.inv(spread), L.inv(spread.contiguous()))


def test_results_are_column_major_where_lapack_leaves_them_so():
    A = matrices(2, 4, 3)
    assert L.inv(A[:, :3]).stride() == (9, 1, 3)
    assert L.qr(A)[0].stride() == (12, 1, 4)
    assert L.svd(A)[2].stride() == (9, 1, 3)
    assert L.solve(A[:, :3], A[:, :2].mT.contiguous(), left=True).stride() == (6, 1, 3)


def test_empty_matrices():
    empty = rl.zeros(2, 0, 0)
    assert L.inv(empty).shape == (2, 0, 0)
    assert L.det(empty).tolist() == [1.0, 1.0]
    assert [x.tolist() for x in L.slogdet(empty)] == [[1.0, 1.0], [0.0, 0.0]]
    U, S, Vh = L.svd(rl.zeros(3, 0))
    assert close(U, rl.eye(3)) and S.shape == (0,) and Vh.shape == (0, 0)
    assert close(L.qr(rl.zeros(3, 0), mode="complete")[0], rl.eye(3))
    assert L.inv(rl.zeros(0, 3, 3)).shape == (0, 3, 3)
    assert L.matrix_rank(rl.zeros(2, 0, 3)).tolist() == [0, 0]
    assert L.lstsq(rl.zeros(0, 3), rl.zeros(0, 2)).solution.tolist() == [[0.0, 0.0]] * 3


def test_meta_results_have_the_shapes_strides_and_dtypes_of_real_ones():
    A = matrices(2, 4, 4, dtype=rl.float32)
    for call in (
        L.inv, L.lu, L.lu_factor_ex, L.cholesky_ex, L.svd, L.qr, L.eig, L.eigh, L.slogdet, L.det, L.pinv, L.matrix_exp,
        L.ldl_factor, lambda a: L.solve(a, a[0]), lambda a: L.lstsq(a, a), L.cond, lambda a: L.matrix_norm(a, "nuc"),
        rl.geqrf, L.matrix_rank,
    ):
        real, meta = call(A @ A.mT if call is L.cholesky_ex else A), call(A.to("meta"))
        for r, m in zip(*(x if isinstance(x, tuple) else (x,) for x in (real, meta)), strict=True):
            assert (r.shape, r.stride(), r.dtype) == (m.shape, m.stride(), m.dtype), call


def test_results_have_named_parts():
    result = L.svd(matrices(3, 2))
    assert result._fields == ("U", "S", "Vh") and result.S is result[1]
    assert L.lu_factor_ex(rl.eye(2))._fields == ("LU", "pivots", "info")
    assert L.lstsq(rl.eye(2), rl.eye(2))._fields == ("solution", "residuals", "rank", "singular_values")
    assert rl.triangular_solve(rl.eye(2), rl.eye(2))._fields == ("solution", "cloned_coefficient")


def test_out_forms():
    A = matrices(3, 3)
    target = rl.empty(0, dtype=rl.float64)
    assert L.inv(A, out=target) is target and close(target @ A, rl.eye(3, dtype=rl.float64))
    parts = tuple(rl.empty(0, dtype=rl.float64) for _ in range(3))
    U, S, Vh = L.svd(A, out=parts)
    assert U is parts[0] and close((U * S) @ Vh, A)


def test_large_single_matrix_uses_the_same_answer_on_any_thread_count():
    A = matrices(200, 200)
    before = rl.get_num_threads()
    try:
        result = []
        for count in (1, 2):
            rl.set_num_threads(count)
            result.append(L.inv(A))
    finally:
        rl.set_num_threads(before)
    assert close(*result) and (result[0] @ A - rl.eye(200, dtype=rl.float64)).abs().max().item() < 1e-8


def test_gradients_of_a_singular_determinant():
    A = rl.tensor([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [0.0, 1.0, 1.0]], dtype=rl.float64, requires_grad=True)
    L.det(A).backward()
    cofactors = rl.tensor([[-2.0, -2.0, 2.0], [1.0, 1.0, -1.0], [0.0, 0.0, 0.0]], dtype=rl.float64)
    assert close(A.grad, cofactors)
    assert rl.autograd.gradcheck(L.det, (A.detach().requires_grad_(),))
    # Nearby matrices are only nearly singular, and lose digits in the other formula.
    assert rl.autograd.gradgradcheck(L.det, (A.detach().requires_grad_(),), atol=1e-2)


@pytest.mark.parametrize("dtype", [rl.float64, rl.complex128])
def test_second_derivatives(dtype):
    A = matrices(3, 3, dtype=dtype).requires_grad_()
    B = matrices(3, 2, dtype=dtype, seed=1).requires_grad_()
    for call, args in (
        (L.inv, (A,)), (L.solve, (A, B)), (lambda a: tuple(L.qr(a)), (A,)),
        (lambda a: L.cholesky(a @ a.mH + rl.eye(3, dtype=dtype)), (A,)),
        (L.svdvals, (A,)), (L.pinv, (B,)), (L.matrix_exp, (A,)), (L.slogdet, (A,)), (lambda a: L.lu(a)[1:], (A,)),
        (L.eigvals, (A,)),
    ):
        assert rl.autograd.gradcheck(call, args)
        assert rl.autograd.gradgradcheck(call, args)


def test_lobpcg_finds_the_ends_of_the_spectrum():
    A = matrices(40, 40)
    A = A @ A.mT
    E = L.eigvalsh(A)
    top, X = rl.lobpcg(A, k=3)
    assert rl.allclose(top, E[-3:].flip(0), rtol=1e-6) and (A @ X - X * top).abs().max().item() < 1e-3
    bottom, _ = rl.lobpcg(A, k=2, largest=False, niter=500)
    assert rl.allclose(bottom, E[:2], rtol=1e-4, atol=1e-6)


def test_low_rank_approximations_recover_low_rank_matrices():
    A = matrices(30, 3) @ matrices(3, 20, seed=1)
    U, S, V = rl.svd_lowrank(A, q=5)
    assert close((U * S) @ V.mT, A)
    U, S, V = rl.pca_lowrank(A, q=4)
    assert close((U * S) @ V.mT, A - A.mean(0, keepdim=True))


def test_vmap_and_forward_mode():
    A = matrices(2, 3, 3, 3)
    assert close(rl.func.vmap(rl.func.vmap(L.inv))(A), L.inv(A))
    assert close(rl.func.vmap(rl.func.vmap(lambda a: a.tril()))(A), A.tril())
    gradients = rl.func.vmap(rl.func.grad(L.det))(A[0])
    assert close(gradients, L.det(A[0]).unsqueeze(-1).unsqueeze(-1) * L.inv(A[0]).mT)
    X, dX = rl.func.jvp(L.inv, (A,), (A.cos(),))
    assert close(dX, -(X @ A.cos() @ X))
    _, dS = rl.func.jvp(L.svdvals, (A,), (A,))
    assert close(dS, L.svdvals(A))
