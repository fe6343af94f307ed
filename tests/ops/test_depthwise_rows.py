"""Convolutions of single channels over narrow images: rows of one to five vectors, alone and several at once."""

from __future__ import annotations

import pytest

import rushlight as rl

np = pytest.importorskip("numpy")


def expected(x, w, bias, stride: int, padding: int):
    """Tap by tap, in float64."""
    padded = np.pad(x.astype("f8"), ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    size = w.shape[-1]
    high, wide = ((n + 2 * padding - size) // stride + 1 for n in x.shape[2:])
    total = np.broadcast_to(bias[None, :, None, None].astype("f8"), (*x.shape[:2], high, wide)).copy()
    for i in range(size):
        for j in range(size):
            part = padded[:, :, i : i + high * stride : stride, j : j + wide * stride : stride][:, :, :high, :wide]
            total += part * w[None, :, 0, i, j, None, None]
    return total


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("width", [1, 3, 4, 5, 7, 8, 11, 14, 16, 17, 21])
def test_narrow_images(width: int, dtype: str) -> None:
    random = np.random.default_rng(width)
    for high, size, stride in ((1, 3, 1), (7, 5, 1), (9, 3, 1), (13, 3, 2), (18, 5, 2)):
        x = random.standard_normal((2, 5, high, width)).astype(dtype)
        w, bias = random.standard_normal((5, 1, size, size)).astype(dtype), random.standard_normal(5).astype(dtype)
        given = [rl.from_numpy(t) for t in (x, w, bias)]
        want = expected(x, w, bias, stride, size // 2)
        for memory in (rl.contiguous_format, rl.channels_last):
            result = rl.nn.functional.conv2d(
                given[0].contiguous(memory_format=memory), given[1], given[2], stride, size // 2, 1, 5
            )
            assert np.abs(result.numpy() - want).max() < (1e-4 if dtype == "float32" else 1e-12), (high, size, stride)
