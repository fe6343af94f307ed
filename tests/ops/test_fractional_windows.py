"""Fractional pools read inside their input, whatever sizes and samples are given."""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight.nn import functional as F


@pytest.mark.parametrize("size", [0, -1, -32768])
def test_fractional_windows_have_elements(size):
    for pool, dims in ((F.fractional_max_pool2d, 2), (F.fractional_max_pool3d, 3)):
        with pytest.raises(RuntimeError, match=f"at least 1, got {size}"):
            pool(rl.ones(1, 2, *[6] * dims), size, output_ratio=(0.5,) * dims)


@pytest.mark.parametrize("sample", [-1e6, -0.5, 1.0, 1e6, float("inf"), float("nan")])
def test_fractional_windows_stay_inside(sample):
    x = rl.arange(36.0).reshape(1, 1, 6, 6)
    _, where = F.fractional_max_pool2d(
        x, 2, output_size=3, return_indices=True, _random_samples=rl.full((1, 1, 2), sample)
    )
    assert where.min() >= 0 and where.max() < 36
