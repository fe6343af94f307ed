"""Scans along rows that are walked side by side, a lane to each, around the sizes of a square;
folds of strided elements."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as rl


@pytest.mark.parametrize("shape", [(16, 32), (17, 33), (40, 100), (5, 8, 64), (33, 31), (8, 47)])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i8", "i4", "f2"])
def test_scans_of_many_rows(shape: tuple[int, ...], dtype: str) -> None:
    a = (np.random.default_rng(len(shape) + shape[-1]).standard_normal(shape) * 4).astype(dtype)
    x = rl.from_numpy(a.copy())
    wide = a.astype("f8")
    assert np.allclose(
        x.cumsum(-1).numpy(),
        np.cumsum(wide, -1),
        rtol=1e-3 if dtype == "f2" else 1e-5,
        atol=0.1 if dtype == "f2" else 1e-4,
    )
    assert np.array_equal(x.cummax(-1)[0].numpy(), np.maximum.accumulate(a, -1))
    values, where = x.cummin(-1)
    assert np.array_equal(values.numpy(), np.minimum.accumulate(a, -1))
    assert rl.equal(x.gather(-1, where), values)
    if dtype in ("f4", "f8"):
        exact = np.logaddexp.accumulate(wide, -1)
        assert np.allclose(x.logcumsumexp(-1).numpy(), exact, rtol=1e-5, atol=1e-5)


def test_scans_read_strided_rows_and_give_nan_its_place() -> None:
    x = rl.randn(64, 100)[:, :60]
    assert rl.allclose(x.cumsum(1), x.contiguous().cumsum(1))
    x = rl.randn(20, 80)
    x[3, 40] = float("nan")
    values, where = x.cummax(1)
    assert values[3, 40:].isnan().all() and not values[3, :40].isnan().any() and where[3, 79] == 40
    assert rl.equal(values[0], x[0].cummax(0)[0])   # a row alone is walked on its own


@pytest.mark.parametrize("dtype", [rl.float32, rl.float64, rl.float16, rl.int32])
def test_running_extremes_keep_signs_nan_and_the_last_of_equals(dtype: rl.dtype) -> None:
    rows = [[1.0, 1.0, 0.0, 2.0, 2.0, -3.0, 2.0], [-1.0, -2.0, -2.0, -1.0, 5.0, 5.0, 4.0]] * 10
    x = rl.tensor(rows, dtype=dtype).repeat(1, 6)
    for found, sign in ((x.cummax(1), 1), (x.cummin(1), -1)):
        for r in range(2):
            best, at = None, -1
            for j, v in enumerate(x[r].tolist()):
                if best is None or sign * v >= sign * best:
                    best, at = v, j
                assert found[0][r, j].item() == best and found[1][r, j].item() == at
    if not dtype.is_floating_point:
        return
    inf, nan = float("inf"), float("nan")
    x = rl.tensor([0.0, -0.0, -inf, 0.0, -0.0, -1.0, nan, 7.0, nan, inf], dtype=dtype)
    values, where = x.cummax(0)
    assert where.tolist() == [0, 1, 1, 3, 4, 4, 6, 6, 8, 8]
    assert values.signbit().tolist()[:6] == [False, True, True, False, True, True] and values[6:].isnan().all()
    values, where = rl.tensor([inf, inf, nan, 0.0], dtype=dtype).cummin(0)
    assert where.tolist() == [0, 1, 2, 2] and values[:2].tolist() == [inf, inf] and values[2:].isnan().all()
    assert rl.tensor([-inf, -inf], dtype=dtype).cummax(0)[1].tolist() == [0, 1]


def test_scans_do_not_depend_on_threads() -> None:
    threads, x = rl.get_num_threads(), rl.randn(100, 4000)
    try:
        rl.set_num_threads(1)
        one = x.cumsum(1)
        rl.set_num_threads(2)
        assert rl.equal(x.cumsum(1), one)
    finally:
        rl.set_num_threads(threads)


@pytest.mark.parametrize("shape", [(262144,), (262144 + 77,), (2, 300001), (40001,)])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_long_rows_in_chunks_do_not_depend_on_threads(shape: tuple[int, ...], dtype: str) -> None:
    a = np.random.default_rng(shape[-1]).standard_normal(shape).astype(dtype)
    threads, x, wide = rl.get_num_threads(), rl.from_numpy(a.copy()), a.astype("f8")
    found = []
    try:
        for count in (1, 2):
            rl.set_num_threads(count)
            found.append((x.cumsum(-1), x.logcumsumexp(-1)))
    finally:
        rl.set_num_threads(threads)
    assert rl.equal(found[0][0], found[1][0]) and rl.equal(found[0][1], found[1][1])
    rounding = 2e-7 if dtype == "f4" else 1e-12    # that of sums one by one, in double precision
    assert np.allclose(found[0][0].numpy(), np.cumsum(wide, -1), rtol=rounding, atol=rounding * 100)
    assert np.allclose(found[0][1].numpy(), np.logaddexp.accumulate(wide, -1), rtol=rounding, atol=rounding)


@pytest.mark.parametrize("n", [9, 40960])
@pytest.mark.parametrize("dtype", ["f4", "f8", "f2"])
def test_logarithms_of_sums_with_infinities_and_nan(n: int, dtype: str) -> None:
    inf, nan = np.inf, np.nan
    for row in ([-inf, -inf, 1.0, 2.0, -inf, inf, 3.0, inf, -inf], [inf, -inf, 0.0], [1.0, nan, 3.0, inf], [-inf],
                [1000.0, -1000.0, 1000.0], [-inf, nan, 1.0]):
        a = np.full(n, -inf, dtype)
        a[: len(row)] = row
        with np.errstate(invalid="ignore"):
            exact = np.logaddexp.accumulate(a.astype("f8"))
        assert np.allclose(rl.from_numpy(a).logcumsumexp(0).numpy(), exact, rtol=1e-3, equal_nan=True)


@pytest.mark.parametrize("n", [1, 5, 31, 100, 1000, 100003])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i8", "i4"])
def test_folds_of_strided_elements(n: int, dtype: str) -> None:
    for step in (2, 3, 7):
        a = (np.random.default_rng(n).standard_normal(n * step) * 9).astype(dtype)
        x, kept = rl.from_numpy(a)[::step], a[::step]
        assert np.allclose(
            x.sum().numpy(), kept.sum(dtype="f8" if dtype[0] == "f" else "i8"), rtol=1e-5, atol=1e-3 * n**0.5
        )
        assert x.max().item() == kept.max() and x.argmax().item() == kept.argmax()
