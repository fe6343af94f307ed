"""gelu and its slope against mpmath."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from test_math_accuracy import run


def exact(x: float) -> tuple[float, float]:
    x = mp.mpf(x)
    below = mp.erfc(-x / mp.sqrt(2)) / 2
    return x * below, below + x * mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi)


POINTS = np.concatenate([np.linspace(-9.5, 9.5, 1501), np.geomspace(1e-6, 1, 100), -np.geomspace(1e-6, 1, 100)])


@pytest.mark.parametrize("code", ["f32", "f64"])
def test_gelu_and_slope(code):
    x = POINTS.astype(np.float32 if code == "f32" else np.float64)
    value, slope = (np.array(part) for part in zip(*[[float(v) for v in exact(float(at))] for at in x], strict=True))
    step = np.spacing(np.abs(value).astype(x.dtype)).astype(np.float64)
    got = run("gelu", code, [x]).astype(np.float64)
    assert np.max(np.abs(got - value)[x > 0] / step[x > 0]) <= 2
    near = (x < 0) & (x > -4)
    if code == "f32":
        assert np.max(np.abs(got / value - 1)[near]) < 1.2e-6
    assert np.max(np.abs(got - value)[x < 0]) < 1e-7
    np.testing.assert_allclose(run("gelu_slope", code, [x]), slope, atol=2e-7 if code == "f32" else 1e-15)


def test_far_out_and_not_a_number():
    x = np.array([np.inf, 1e30, -1e30, 0.0, np.nan], np.float32)
    got = run("gelu", "f32", [x])
    np.testing.assert_allclose(got[:4], [np.inf, 1e30, 0, 0], atol=1e-15)
    assert np.isnan(got[4])
    np.testing.assert_allclose(run("gelu_slope", "f32", [x])[:4], [1, 1, 0, 0.5], atol=1e-15)
