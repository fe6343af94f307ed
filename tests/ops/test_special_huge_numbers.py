"""Special functions of enormous orders, degrees and arguments: answered at once,
and as PyTorch answers where it does."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

import rushlight as rl

POINTS = [-3.2, 0.5, 2.5, 1e5]


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64"])
@pytest.mark.parametrize("p", [1, 3, 1001, 20000])
def test_mvlgamma_sums_any_number_of_terms(p: int, dtype: str) -> None:
    torch = pytest.importorskip("torch")
    points = [5.0, 3.0] if dtype == "float16" else [12.0, 60000.0] if dtype == "int64" else POINTS
    if dtype == "float16" and p > 3:
        return   # PyTorch counts to p in float16
    expected = torch.tensor(points, dtype=getattr(torch, dtype)).mvlgamma(p)
    got = rl.tensor(points, dtype=getattr(rl, dtype)).mvlgamma(p)
    assert str(got.dtype).split(".")[-1] == str(expected.dtype).split(".")[-1]
    torch.testing.assert_close(
        torch.tensor(got.tolist(), dtype=torch.float64),
        expected.double(),
        rtol=1e-3 if dtype == "float16" else 1e-5,
        atol=1e-5,
    )


def test_mvlgamma_in_steps_has_a_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    from rushlight.definitions.pointwise import special

    x = rl.tensor([[30.0, 41.5], [35.0, 77.0]], dtype=rl.float64, requires_grad=True)
    whole = x.mvlgamma(50)
    (expected,) = rl.autograd.grad(whole.sum(), x)
    monkeypatch.setattr(special, "TERMS", 28)   # seven of the fifty at a time
    parts = x.mvlgamma(50)
    (got,) = rl.autograd.grad(parts.sum(), x)
    rl.testing.assert_close(parts, whole)
    rl.testing.assert_close(got, expected)


def test_mvlgamma_refuses_more_terms_than_memory_holds() -> None:
    with pytest.raises(RuntimeError):
        rl.ones(4).mvlgamma(2**50)
    assert rl.ones(4, device="meta").mvlgamma(2**50).shape == (4,)


def test_mvlgamma_in_place() -> None:
    x = rl.tensor([4.0, 5.0])
    expected = x.mvlgamma(3)
    assert x.mvlgamma_(3) is x
    assert x.tolist() == expected.tolist()
    with pytest.raises(RuntimeError):
        rl.tensor([4, 5]).mvlgamma_(3)
    with pytest.raises(RuntimeError):
        x.mvlgamma(0)


@pytest.mark.parametrize("n", [171, 172, 1001])
def test_polygamma_of_orders_without_a_finite_factor(n: int) -> None:
    torch = pytest.importorskip("torch")
    points = [0.0, 0.3, 1.0, 1.5, 2.0, 400.0, 1e6, -0.5, -3.0, -3.2, -2.7, math.nan]
    expected = torch.polygamma(n, torch.tensor(points, dtype=torch.float64))
    torch.testing.assert_close(
        torch.tensor(rl.polygamma(n, rl.tensor(points, dtype=rl.float64)).tolist(), dtype=torch.float64),
        expected,
        equal_nan=True,
    )


@pytest.mark.parametrize("n", [2**31, 2**40 + 1, 2**62])
def test_polygamma_of_enormous_order(n: int) -> None:
    sign = 1 if n % 2 else -1
    assert rl.polygamma(n, rl.tensor([0.5, 1.0])).tolist() == [sign * math.inf] * 2


FAMILIES = ["laguerre_polynomial_l", "legendre_polynomial_p"]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", FAMILIES)
def test_polynomials_of_high_degree(name: str, dtype: str) -> None:
    torch = pytest.importorskip("torch")
    points = [-1.5, -1.0, -0.9999, -0.5, 0.0, 0.25, 0.7, 0.999, 1.0, 1.5, 3.0, 30.0, 1e6, math.nan, math.inf, -math.inf]
    for degree in (65537, 100000):
        expected = getattr(torch.special, name)(torch.tensor(points, dtype=getattr(torch, dtype)).double(), degree)
        got = getattr(rl.special, name)(rl.tensor(points, dtype=getattr(rl, dtype)), degree)
        shown = torch.tensor(got.tolist(), dtype=torch.float64)
        if dtype == "float32":   # what float32 cannot hold is NaN
            expected = expected.where(expected.abs() < 3e38, math.nan)
        torch.testing.assert_close(shown, expected, rtol=1e-6, atol=1e-9, equal_nan=True)


@pytest.mark.parametrize("name", [*FAMILIES, "hermite_polynomial_h", "chebyshev_polynomial_t"])
@pytest.mark.parametrize("degree", [2**31, 2**40, 2**62])
def test_polynomials_of_enormous_degree_are_answered(name: str, degree: int) -> None:
    x = rl.tensor([-0.5, 0.0, 0.3])
    mixed = getattr(rl.special, name)(x, rl.tensor([degree, 2, 3]))
    assert getattr(rl.special, name)(x, degree).shape == (3,)
    assert mixed[1:].tolist() == getattr(rl.special, name)(x, rl.tensor([0, 2, 3]))[1:].tolist()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", ["i0", "i1", "modified_bessel_i0", "modified_bessel_i1"])
def test_modified_bessel_functions_overflow_to_infinity(name: str, dtype: str) -> None:
    result = getattr(rl.special, name)(rl.tensor([717.0, 1e4, 1e6, 1e30], dtype=getattr(rl, dtype)))
    assert result.tolist() == [math.inf] * 4


@pytest.mark.parametrize("call", [lambda v: v.mvlgamma(3), lambda v: rl.special.legendre_polynomial_p(v * 0.1, 3)])
def test_transforms_see_the_same_gradients_as_backward(call: Callable[[Any], Any]) -> None:
    x = rl.tensor([[5.0, 6.0], [7.0, 8.0]], dtype=rl.float64, requires_grad=True)
    (expected,) = rl.autograd.grad(call(x).sum(), x)
    x = x.detach()
    rl.testing.assert_close(rl.func.grad(lambda v: call(v).sum())(x), expected)
    rl.testing.assert_close(rl.func.jvp(call, (x,), (rl.ones_like(x),))[1], expected)
    rl.testing.assert_close(rl.func.vmap(call, in_dims=1, out_dims=1)(x), call(x))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_zeta_of_starts_far_left_of_0(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    starts = [
        -1e-3,
        -0.25,
        -1.5,
        -8.5,
        -9.25,
        -9.5,
        -9.75,
        -10.25,
        -10.5,
        -19.5,
        -20.5,
        -21.75,
        -100.5,
        -1000.25,
        -100000.5,
        -25.0,
        0.0,
        0.5,
        12.0,
    ]
    for power in (1.5, 2.0, 3.0, 8.0):
        expected = torch.special.zeta(
            torch.tensor(power, dtype=getattr(torch, dtype)), torch.tensor(starts, dtype=getattr(torch, dtype))
        ).double()
        got = torch.tensor(
            rl.special.zeta(
                rl.tensor(power, dtype=getattr(rl, dtype)), rl.tensor(starts, dtype=getattr(rl, dtype))
            ).tolist(),
            dtype=torch.float64,
        )
        # The terms beside the pole decide what is lost where the sum is smaller than they are.
        size = (
            torch.tensor([max(abs(q - round(q)), 0.5 if q == round(q) else 0.0) for q in starts], dtype=torch.float64)
            ** -power
        )
        bound = (1e-5 if dtype == "float32" else 1e-13) * (size + 1)
        assert torch.equal(got.isfinite(), expected.isfinite()) and torch.equal(got.isnan(), expected.isnan())
        assert bool(((got - expected).abs() <= bound)[expected.isfinite()].all()), (
            power,
            got.tolist(),
            expected.tolist(),
        )
