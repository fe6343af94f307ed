"""Moments, norms and normalisations at both ends of the range of their types.

What is inside (squares, sums) must not overflow or vanish where the result is a number of the type: PyTorch takes
moments of single precision in double, and what belongs to half types in single. Where PyTorch overflows, so do we.
The answers are NumPy's in double precision, or PyTorch's, written down.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import rushlight as rl

F = rl.nn.functional
SCALES = {"float32": (1e20, 1e30, 1e-20, 1e-30, 1e-42), "bfloat16": (1e20, 1e-30), "float64": (1e150, 1e-150)}
CASES = [(dtype, scale) for dtype, scales in SCALES.items() for scale in scales]
SHAPES = [
    ((2,), None), ((5, 40), 1), ((40, 5), 0), ((3, 700), 0), ((700, 3), 1), ((70, 300), None), ((2, 3, 50), (0, 2))
]


def made(shape: tuple[int, ...], dtype: str, scale: float, layout: str = "dense") -> tuple[rl.Tensor, np.ndarray]:
    """A tensor whose numbers are about `scale`, and the same numbers in double precision."""
    values = np.random.default_rng(3).uniform(-1, 1, shape) * scale
    t = rl.tensor(values).to(getattr(rl, dtype))
    if layout == "turned":
        order = tuple(range(t.ndim))[::-1]
        t = t.permute(order).contiguous().permute(order)
    elif layout == "spread":
        t = rl.stack([t, t * 0], -1)[..., 0]
    return t, t.to(rl.float64).numpy()


def close(got: rl.Tensor, want: np.ndarray, dtype: str) -> bool:
    """Same to the digits of the type; the smallest numbers have few."""
    digits = {"float32": 2e-5, "bfloat16": 1e-2, "float64": 1e-12}[dtype]
    least = {"float32": 3e-45, "bfloat16": 2e-40, "float64": 1e-320}[dtype]
    return bool(np.allclose(got.to(rl.float64).numpy(), want, rtol=digits, atol=least))


@pytest.mark.parametrize(("dtype", "scale"), CASES)
@pytest.mark.parametrize("layout", ["dense", "turned", "spread"])
def test_deviations(dtype: str, scale: float, layout: str) -> None:
    for shape, dim in SHAPES:
        t, values = made(shape, dtype, scale, layout)
        want = (values / scale).std(axis=dim, ddof=1) * scale
        std, mean = rl.std_mean(t, dim)
        assert close(t.std(dim), want, dtype), (shape, dim)
        assert close(std, want, dtype) and close(mean, values.mean(axis=dim), dtype)


@pytest.mark.parametrize("scale", [1e20, 1e-30])
def test_compiled_deviations(scale: float) -> None:
    t, values = made((4, 33), "float32", scale)
    assert close(rl.compile(lambda x: x.std(1) * 2)(t), values.std(axis=1, ddof=1) * 2, "float32")
    assert close(rl.compile(lambda x: x.std(0))(t), values.std(axis=0, ddof=1), "float32")


@pytest.mark.parametrize("scale", [1e20, 1e-30])
def test_gradients_of_deviations(scale: float) -> None:
    t, values = made((6, 9), "float32", scale)
    t.requires_grad_()
    t.std(1).sum().backward()
    centred = values - values.mean(1, keepdims=True)
    assert close(t.grad, centred / (8 * values.std(axis=1, ddof=1, keepdims=True)), "float32")


def test_variances_that_leave_the_range() -> None:
    big = rl.tensor([1e20, 2e20])
    assert big.var() == math.inf                                      # as PyTorch's: it is no float32
    assert rl.tensor([1e300, -1e300], dtype=rl.float64).var() == math.inf
    assert rl.tensor([[1e300, -1e300]] * 3, dtype=rl.float64).var(1).tolist() == [math.inf] * 3
    assert rl.tensor([1.0, math.inf]).std().isnan()
    assert rl.tensor([[1.0, math.inf, 2.0], [1.0, 2.0, 3.0]]).std(1).tolist()[1] == 1.0
    assert rl.zeros(100).std() == 0 and rl.full((3, 40), 7.0).var(0).tolist() == [0.0] * 40
    assert math.isclose(float(rl.std_mean(rl.tensor([3e38, 3e38, -3e38]))[1]), 1e38, rel_tol=1e-6)


def test_one_run_among_others() -> None:
    """Of many rows or columns some are out of range: the others are what they would be alone."""
    t, _ = made((50, 20), "float32", 1.0)
    t[7] *= 1e25
    t[9] *= 1e-25
    t[11, 3] = math.nan
    rows, columns = t.std(1), t.t().contiguous().std(0)
    assert rl.equal(rows.isnan(), columns.isnan()) and int(rows.isnan().sum()) == 1
    kept = ~rows.isnan()
    want = t[kept].double().std(1)
    for found in (rows, columns):
        assert rl.allclose(found[kept].double(), want, rtol=1e-5)


def test_norms_of_half_types() -> None:
    half = rl.tensor([[60000.0, 30000.0], [100.0, 65504.0]], dtype=rl.float16)
    lengths = half.double().norm(2, 1, True)
    assert rl.allclose(rl.renorm(half, 2, 0, 1.0).double(), half.double() / lengths, atol=2e-3)
    scaled = rl._weight_norm(half, rl.ones(2, 1, dtype=rl.float16), 0)
    assert rl.allclose(scaled.double(), half.double() / lengths, atol=1e-3)
    small = rl.tensor([[1e-4, 2e-4]], dtype=rl.float16)      # the eps of single precision, not of the half type
    assert rl.allclose(F.rms_norm(small, (2,)).double(), rl.tensor([[0.265, 0.53]], dtype=rl.float64), atol=4e-3)


def test_negative_orders() -> None:
    t = rl.tensor([1e20, 3e20])
    want = ((1e20) ** -2.0 + (3e20) ** -2.0) ** -0.5
    assert math.isclose(float(rl.linalg.vector_norm(t, -2)), want, rel_tol=1e-2)      # through denormal numbers
    assert math.isclose(float(rl.linalg.vector_norm(t.double() * 1e140, -2)), want * 1e140, rel_tol=1e-3)


def test_answers_of_pytorch() -> None:
    torch = pytest.importorskip("torch")
    for scale in (1e20, 3e37, 1e-30, 1e-42):
        t, _ = made((5, 30), "float32", scale)
        theirs = torch.tensor(t.numpy())
        for dim in (0, 1):
            for name in ("std", "var"):
                got, want = getattr(t, name)(dim), getattr(theirs, name)(dim)
                assert np.allclose(got.numpy(), want.numpy(), rtol=2e-5, atol=3e-45), (name, scale, dim)
