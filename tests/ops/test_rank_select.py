"""One element by its rank: against a stable sort, for every dtype, short and long rows, NaN, equals and strides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.op import find_op

DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64")


def sample(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray:
    """Numbers of all sizes, many of them equal, zeros of both signs among them."""
    random = np.random.default_rng(seed)
    if dtype.startswith("float"):
        x = (random.standard_normal(shape) * 2.0 ** random.integers(-6, 6, shape)).astype(dtype)
        x[random.random(shape) < 0.2] = 1.5
        x[random.random(shape) < 0.1] = -0.0
        x[random.random(shape) < 0.1] = 0.0
        x[random.random(shape) < 0.02] = np.inf
        return x
    low, high = (0, 2) if dtype == "bool" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    x = random.integers(low, high, shape, dtype="int64" if dtype == "bool" else dtype)
    x[random.random(shape) < 0.3] = 1
    return x.astype(dtype)


def in_order(x: np.ndarray, dim: int, position: int) -> np.ndarray:
    return np.take(np.argsort(x, axis=dim, kind="stable"), [position], axis=dim)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 17, 64, 511, 512, 5000])
def test_position_is_that_of_a_stable_sort(dtype: str, n: int) -> None:
    x = sample((3, n), dtype, n)
    for position in {0, n // 3, (n - 1) // 2, n - 1}:
        values, where = find_op("_ranked_element")(rl.from_numpy(x), position, "kept", 1)
        wanted = in_order(x, 1, position)
        assert np.array_equal(where.numpy(), wanted)
        assert values.numpy().tobytes() == np.take_along_axis(x, wanted, 1).tobytes()      # zeros keep their signs


@pytest.mark.parametrize("n", [20, 700])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_what_is_missing(n: int, dtype: str) -> None:
    x = sample((5, n), dtype)
    x[1, n // 2] = x[1, 3] = np.nan
    x[2, :-1] = np.nan
    x[3] = np.nan
    t = rl.from_numpy(x)
    values, where = t.median(1)
    assert where.tolist()[1:4] == [3, 0, 0] and np.isnan(values.numpy()[1:4]).all()
    values, where = t.nanmedian(1)
    for row in (0, 1, 2, 4):
        numbers = np.sort(x[row][~np.isnan(x[row])])
        assert values[row].item() == numbers[(len(numbers) - 1) // 2] == x[row, where[row].item()]
    assert np.isnan(values[3].item())
    assert np.array_equal(t.kthvalue(n, 1)[1].numpy(), in_order(x, 1, n - 1)[:, 0])


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_strides_and_gradients(dim: int) -> None:
    x = rl.randn(40, 33, 27, dtype=rl.float64).transpose(0, 2)[:, ::2].requires_grad_()
    values, where = x.kthvalue(5, dim)
    wanted = in_order(x.detach().numpy(), dim, 4)
    assert np.array_equal(where.unsqueeze(dim).numpy(), wanted)
    (values * 2).sum().backward()
    expected = np.zeros(x.shape)
    np.put_along_axis(expected, wanted, 2.0, dim)
    assert np.array_equal(x.grad.numpy(), expected)


def test_whole_tensors_and_threads() -> None:
    x = sample((300, 4000), "float32")
    want = np.sort(x, axis=None)[(x.size - 1) // 2]
    found: list[Any] = []
    threads = rl.get_num_threads()
    try:
        for count in (1, 2):
            rl.set_num_threads(count)
            found.append((rl.from_numpy(x).median().item(), rl.from_numpy(x).median(1)[1].tolist()))
    finally:
        rl.set_num_threads(threads)
    assert found[0] == found[1] and found[0][0] == want
    constant = rl.full((2000,), 7.0)
    assert constant.median(0)[1].item() == 999 and constant.kthvalue(3)[1].item() == 2
