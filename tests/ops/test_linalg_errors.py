"""Linear algebra refuses what has no answer, and says which matrix of a batch it was."""

import pytest

import rushlight as rl
from rushlight.linalg import LinAlgError

SINGULAR = [[1.0, 2.0], [2.0, 4.0]]


def batch_with(bad, at=1, count=3):
    return rl.stack([rl.tensor(bad) if i == at else rl.eye(2) for i in range(count)])


def test_linalg_error_is_a_runtime_error():
    assert issubclass(LinAlgError, RuntimeError)


@pytest.mark.parametrize(
    "call",
    [
        rl.linalg.inv,
        rl.inverse,
        rl.linalg.lu_factor,
        lambda a: rl.linalg.solve(a, rl.ones(2)),
        lambda a: rl.linalg.inv_ex(a, check_errors=True),
    ],
    ids=["inv", "inverse", "lu_factor", "solve", "inv_ex"],
)
def test_singular_matrices_raise(call):
    with pytest.raises(LinAlgError, match="zero|singular"):
        call(rl.tensor(SINGULAR))


def test_the_first_failing_matrix_of_a_batch_is_named():
    bad = rl.stack([rl.eye(2), rl.tensor(SINGULAR), rl.zeros(2, 2)])
    with pytest.raises(LinAlgError, match=r"Batch element 1\).*diagonal element 2"):
        rl.linalg.inv(bad)
    with pytest.raises(LinAlgError, match=r"Batch element 2\)"):
        rl.linalg.cholesky(batch_with([[1.0, 2.0], [2.0, 1.0]], at=2))


def test_not_positive_definite():
    with pytest.raises(LinAlgError, match="leading minor of order 2"):
        rl.linalg.cholesky(rl.tensor([[1.0, 2.0], [2.0, 1.0]]))
    with pytest.raises(LinAlgError):
        rl.cholesky(-rl.eye(3))


def test_ex_forms_report_instead_of_raising():
    L, info = rl.linalg.cholesky_ex(batch_with([[1.0, 2.0], [2.0, 1.0]]))
    assert L.shape == (3, 2, 2) and info.dtype is rl.int32 and info.tolist() == [0, 2, 0]
    assert rl.linalg.inv_ex(batch_with(SINGULAR)).info.tolist() == [0, 2, 0]
    assert rl.linalg.solve_ex(rl.zeros(2, 2), rl.ones(2)).info.item() == 1
    assert rl.linalg.lu_factor_ex(rl.zeros(2, 2)).info.item() == 1
    assert rl.linalg.ldl_factor_ex(rl.zeros(2, 2)).info.item() == 1


def test_nan_input():
    bad = rl.full((3, 3), float("nan"))
    with pytest.raises(LinAlgError, match="non-finite"):
        rl.linalg.svd(bad)
    with pytest.raises(LinAlgError):
        rl.linalg.eigh(bad)
    with pytest.raises(RuntimeError, match="infs or NaNs"):
        rl.linalg.eig(bad)
    assert rl.linalg.det(bad).isnan().item()


@pytest.mark.parametrize("dtype", [rl.float16, rl.bfloat16, rl.int64, rl.bool])
def test_dtypes_lapack_does_not_have(dtype):
    with pytest.raises(RuntimeError, match="Low precision|floating point"):
        rl.linalg.inv(rl.ones(2, 2).to(dtype))


def test_shapes_are_checked():
    with pytest.raises(RuntimeError, match="square"):
        rl.linalg.inv(rl.ones(2, 3))
    with pytest.raises(RuntimeError, match="at least 2 dimensions"):
        rl.linalg.qr(rl.ones(3))
    with pytest.raises(RuntimeError, match="Incompatible shapes"):
        rl.linalg.solve(rl.eye(3), rl.ones(2, 2))
    with pytest.raises(RuntimeError, match="UPLO"):
        rl.linalg.eigh(rl.eye(2), UPLO="X")
    with pytest.raises(RuntimeError, match="mode"):
        rl.linalg.qr(rl.eye(2), mode="full")
    with pytest.raises(RuntimeError, match="driver"):
        rl.linalg.lstsq(rl.eye(2), rl.eye(2), driver="gesv")
    with pytest.raises(RuntimeError, match="Order 3"):
        rl.linalg.matrix_norm(rl.eye(2), 3)


def test_losses_that_depend_on_the_phase_of_vectors_are_refused():
    A = rl.randn(3, 3, dtype=rl.complex128, generator=rl.Generator().manual_seed(0)).requires_grad_()
    for vectors in (lambda: rl.linalg.svd(A)[0], lambda: rl.linalg.eigh(A + A.mH)[1], lambda: rl.linalg.eig(A)[1]):
        with pytest.raises(RuntimeError, match="ill-defined"):
            vectors().sum().abs().backward()


def test_qr_without_q_has_no_derivative():
    A = rl.randn(3, 2, requires_grad=True)
    with pytest.raises(RuntimeError, match="mode='r'"):
        rl.linalg.qr(A, mode="r")[1].sum().backward()
    with pytest.raises(RuntimeError, match="complete"):
        rl.linalg.qr(A, mode="complete")[1].sum().backward()


@pytest.mark.parametrize("bad", [0, -2, 4])
def test_pivots_that_name_no_row_are_refused(bad):
    LU, pivots = rl.linalg.lu_factor(rl.randn(3, 3))
    pivots[1] = bad
    with pytest.raises(RuntimeError, match="between 1 and 3"):
        rl.linalg.lu_solve(LU, pivots, rl.ones(3, 1))
    with pytest.raises(RuntimeError, match="between 1 and 3"):
        rl.lu_unpack(LU, pivots)


def test_pivots_of_ldl_are_pairs_where_they_are_negative():
    LD, pivots = rl.linalg.ldl_factor(rl.tensor([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]))
    assert pivots.tolist() == [-2, -2, 3]
    assert rl.linalg.ldl_solve(LD, pivots, rl.ones(3, 1)).flatten().tolist() == [1.0, 1.0, 1.0]
    for bad in ([1, 2, -3], [-2, 2, 3], [0, 1, 2], [-4, -4, 3]):
        with pytest.raises(RuntimeError, match="between 1 and 3"):
            rl.linalg.ldl_solve(LD, rl.tensor(bad, dtype=rl.int32), rl.ones(3, 1))


def test_more_pivots_than_rows_are_refused() -> None:
    for rows, pivots in ((6, 7), (6, 23), (1, 2)):
        with pytest.raises(RuntimeError, match=f"{rows} rows of LU_data, got {pivots}"):
            rl.lu_unpack(rl.ones(3, rows, 5), rl.ones(3, pivots, dtype=rl.int32))
