"""igamma and igammac against mpmath, over both methods of the kernel and the quadrature for large a."""

from __future__ import annotations

import math

import numpy as np
import pytest

import rushlight as rl

mp = pytest.importorskip("mpmath")

REGIONS = {   # a, x from and to, and the relative error allowed (of P, and of Q where it is not 1 - P)
    "usual": ((0.3, 6.0), (0.05, 12.0), 4e-15),
    "middle": ((6.0, 60.0), (2.0, 90.0), 4e-15),
    "wide": ((60.0, 1000.0), (40.0, 1100.0), 1e-14),
    "tail": ((0.3, 30.0), (30.0, 400.0), 4e-15),
}


def exact(a: np.ndarray, x: np.ndarray) -> tuple[list, list]:
    with mp.workdps(40):
        points = [(mp.mpf(u), mp.mpf(v)) for u, v in zip(a.tolist(), x.tolist(), strict=True)]
        lower = [mp.gammainc(u, 0, v, regularized=True) for u, v in points]
        return lower, [mp.gammainc(u, v, mp.inf, regularized=True) for u, v in points]


@pytest.mark.parametrize("region", REGIONS)
def test_float64_is_near_the_exact_value(region):
    (a0, a1), (x0, x1), allowed = REGIONS[region]
    rng = np.random.default_rng(3)
    a, x = rng.uniform(a0, a1, 60), rng.uniform(x0, x1, 60)
    lower, upper = exact(a, x)
    p, q = (f(rl.tensor(a), rl.tensor(x)).tolist() for f in (rl.igamma, rl.igammac))
    for got, want, other in [*zip(p, lower, upper, strict=True), *zip(q, upper, lower, strict=True)]:
        # where the other one was computed, 1 - it has its absolute error
        assert abs(got - float(want)) <= allowed * float(max(want, other if other > want else 0)) + 1e-290
    assert all(0 <= v <= 1 for v in p + q)


def test_float32_is_rounded_once():
    rng = np.random.default_rng(4)
    a, x = rng.uniform(0.1, 90, 500).astype(np.float32), rng.uniform(0.01, 120, 500).astype(np.float32)
    for f in (rl.igamma, rl.igammac):
        wide = f(rl.tensor(a).double(), rl.tensor(x).double())
        narrow = f(rl.tensor(a), rl.tensor(x))
        assert narrow.dtype == rl.float32
        rl.testing.assert_close(narrow.double(), wide, rtol=2e-7, atol=1e-8)


def test_results_do_not_depend_on_neighbours():
    """A lane that is done early must not be moved by the others' further terms."""
    rng = np.random.default_rng(5)
    a, x = rl.tensor(rng.uniform(0.1, 900, 67)), rl.tensor(rng.uniform(0.01, 1000, 67))
    together = rl.igamma(a, x)
    alone = rl.stack([rl.igamma(a[k], x[k]) for k in range(67)])
    rl.testing.assert_close(rl.igamma(a.roll(1), x.roll(1)).roll(-1), together, rtol=0, atol=0)
    rl.testing.assert_close(together, alone, rtol=0, atol=0)


def test_broadcasting_strides_and_types():
    a, x = rl.linspace(0.5, 4, 6).reshape(2, 3).t(), rl.linspace(0.1, 5, 4)
    got = rl.igamma(a.unsqueeze(-1), x)
    assert got.shape == (3, 2, 4)
    rl.testing.assert_close(got[2, 1, 3], rl.igamma(a[2, 1], x[3]))
    assert rl.igamma(a.double(), a.double()).dtype == rl.float64
    assert rl.igamma(rl.ones(0), rl.ones(0)).shape == (0,)


def test_limits_and_large_a():
    inf, nan = math.inf, math.nan
    a = rl.tensor([0.0, 0.0, 1.0, 1.0, inf, -1.0, nan, 2000.0, 1e-300])
    x = rl.tensor([0.0, 1.0, 0.0, inf, 1.0, 1.0, 1.0, 2000.0, 1.0])
    want = rl.tensor([nan, 1.0, 0.0, 1.0, 0.0, nan, nan, 0.5029735, 1.0])
    rl.testing.assert_close(rl.igamma(a, x), want, equal_nan=True)
    rl.testing.assert_close(rl.igammac(a, x), 1 - want, equal_nan=True)
