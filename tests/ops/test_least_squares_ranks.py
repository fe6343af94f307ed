"""lstsq of matrices that are large enough to try their columns in order: ranks and solutions are those of gelsd."""

import pytest

import rushlight as rl


def of_rank(batch, m, n, rank):
    if rank == min(m, n):
        return rl.randn(*batch, m, n, dtype=rl.float64)
    A = rl.randn(*batch, m, rank, dtype=rl.float64) @ rl.randn(*batch, rank, n, dtype=rl.float64)
    A[..., 1] = A[..., 0]      # columns in their order would stop here
    return A


@pytest.mark.parametrize(
    ("m", "n", "rank"), [(100, 80, 80), (100, 80, 50), (80, 100, 80), (80, 100, 40), (70, 300, 69)]
)
@pytest.mark.parametrize("batch", [(), (3,)])
def test_ranks_are_found(m, n, rank, batch):
    rl.manual_seed(0)
    A, B = of_rank(batch, m, n, rank), rl.randn(*batch, m, 3, dtype=rl.float64)
    found, exact = rl.linalg.lstsq(A, B), rl.linalg.lstsq(A, B, driver="gelsd")
    assert (found.rank == rank).all()
    assert rl.allclose(found.solution, exact.solution, atol=1e-10)


def test_one_matrix_of_a_batch_lacks_rank():
    rl.manual_seed(0)
    A, B = rl.randn(3, 70, 66, dtype=rl.float64), rl.randn(3, 70, 2, dtype=rl.float64)
    A[1] = A[1] @ rl.ones(66, 66, dtype=rl.float64)
    found, exact = rl.linalg.lstsq(A, B), rl.linalg.lstsq(A, B, driver="gelsd")
    assert found.rank.tolist() == [66, 1, 66]
    assert rl.allclose(found.solution, exact.solution, atol=1e-10)
