"""Singular values of matrices that are reduced by our own loops: vectors are orthonormal, products exact, whatever the
sizes of the numbers."""

from __future__ import annotations

import pytest

import rushlight as rl

EPS = {rl.float32: 2.0**-23, rl.float64: 2.0**-52}


def made(shape, dtype, seed=0):
    return rl.randn(*shape, dtype=rl.float64, generator=rl.Generator().manual_seed(seed)).to(dtype)


def check(A, full=False, scale=1.0):
    U, S, Vh = rl.linalg.svd(A, full_matrices=full)
    eps, k = EPS[A.dtype], S.shape[-1]
    u, s, vh, exact = U.double(), S.double() * scale, Vh.double(), A.double() * scale
    for q in (u, vh.mT):
        assert (q.mT @ q - rl.eye(q.shape[-1], dtype=rl.float64)).abs().max() < 60 * eps
    top = s[..., :1].amax().clamp(min=1e-300)
    assert ((u[..., :k] * s.unsqueeze(-2)) @ vh[..., :k, :] - exact).abs().max() <= 60 * eps * top
    assert (S.diff(dim=-1) <= 0).all() and (S >= 0).all()
    assert (rl.linalg.svdvals(A).double() * scale - s).abs().max() <= 60 * eps * top
    return U, S, Vh


@pytest.mark.parametrize("dtype", EPS)
@pytest.mark.parametrize("shape", [(96, 96), (131, 127), (100, 150), (2, 3, 110, 100), (99, 98)])
@pytest.mark.parametrize("full", [False, True])
def test_singular_values_and_vectors(shape, dtype, full):
    U, _, Vh = check(made(shape, dtype), full)
    m, n, k = *shape[-2:], min(shape[-2:])
    assert U.shape[-2:] == (m, m if full else k) and Vh.shape[-2:] == (n if full else k, n)


@pytest.mark.parametrize("dtype", EPS)
@pytest.mark.parametrize("kind", ["columns", "rows", "both", "backwards"])
def test_graded_matrices(dtype, kind):
    steps = 10.0 ** -(rl.arange(120, dtype=rl.float64) / 4)
    A = made((120, 120), rl.float64)
    A = {"columns": A * steps, "rows": A * steps[:, None], "both": A * steps * steps[:, None], "backwards":
         A * steps.flip(0)}[kind]
    check(A.to(dtype))


@pytest.mark.parametrize("dtype", EPS)
def test_matrices_of_low_rank_and_of_few_numbers(dtype):
    low = made((128, 3), dtype) @ made((3, 100), dtype, 1)
    S = check(low)[1]
    assert (S[3:] < 100 * EPS[dtype] * S[0]).all()
    for A in (rl.zeros(100, 100, dtype=dtype), rl.eye(110, 100, dtype=dtype), made((100, 100), dtype).triu(),
              made((100, 100), dtype).tril(), rl.ones(100, 100, dtype=dtype)):
        check(A)


@pytest.mark.parametrize("dtype", EPS)
def test_the_ends_of_the_range(dtype):
    info = rl.finfo(dtype)
    for factor in (info.tiny * 8, info.max / 2**12):
        A = (made((120, 100), rl.float64) * factor).to(dtype)
        check(A, scale=2.0**100 if factor < 1 else 2.0**-100)
    # Below, numbers have few digits, but vectors all of theirs.
    U = rl.linalg.svd((made((120, 100), rl.float64) * info.tiny * 2.0**-10).to(dtype), full_matrices=False)[0].double()
    assert (U.mT @ U - rl.eye(100, dtype=rl.float64)).abs().max() < 60 * EPS[dtype]


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("batch", [(), (3,)])
def test_what_is_not_finite_is_refused(bad, batch):
    A = made((*batch, 100, 100), rl.float32)
    A[(*[-1 for _ in batch], 40, 70)] = bad
    where = "Batch element 2" if batch else "non-finite"
    for function in (rl.linalg.svd, rl.linalg.svdvals):
        with pytest.raises(rl.linalg.LinAlgError, match=where):
            function(A)


def test_results_do_not_depend_on_threads():
    A, before = made((150, 150), rl.float32), rl.get_num_threads()
    results = []
    for count in (1, 4):
        rl.set_num_threads(count)
        results.append([*rl.linalg.svd(A), *rl.linalg.qr(A)])
    rl.set_num_threads(before)
    assert all(rl.equal(x, y) for x, y in zip(*results, strict=True))
