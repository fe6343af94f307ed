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


def test_short_forms_round_to_bfloat16_as_exact_values_do():
    """Every bfloat16 from -4 to 9: within a unit in the last place, and mostly the nearest."""
    import rushlight as rl

    every = rl.arange(1 << 16, dtype=rl.int32).to(rl.int16).view(rl.bfloat16)
    x = every[(every > -4) & (every < 9) & (every.abs() > 1e-30)].requires_grad_()
    pairs = [[float(v) for v in exact(at)] for at in x.tolist()]
    y = rl.nn.functional.gelu(x)
    (slope,) = rl.autograd.grad(y, x, rl.ones_like(y))
    for got, want, near in zip((y, slope), zip(*pairs, strict=True), (0.999, 0.999), strict=True):
        nearest = rl.tensor(want, dtype=rl.float64).to(rl.bfloat16)
        apart = (got.detach().view(rl.int16).int() - nearest.view(rl.int16).int()).abs()
        sensible = nearest.abs() > 1e-3            # the slope crosses 0, where no relative error is small
        assert apart[sensible].max() <= 1 and (apart[sensible] == 0).double().mean() > near
