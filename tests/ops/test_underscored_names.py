"""Ops that libraries call by an underscore, against PyTorch: values, gradients, and which errors they raise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rushlight

torch = pytest.importorskip("torch")


def both(make: Any) -> tuple[Any, Any]:
    """What `make` gives, or which error it raises, with PyTorch and with Rushlight."""
    answers = []
    for library in (torch, rushlight):
        try:
            answers.append(make(library))
        except Exception as error:
            answers.append(type(error))
    return answers[0], answers[1]


def test_norms_of_all_but_one_dim() -> None:
    numbers = np.random.default_rng(0).standard_normal((3, 4, 5)).astype("float32")
    for dim in (0, 1, 2, -1, -2, 5):
        want, got = both(lambda m, dim=dim: m.norm_except_dim(m.tensor(numbers), 2, dim).numpy())
        np.testing.assert_equal(want, got) if isinstance(want, type) else np.testing.assert_allclose(got, want, 1e-6)
    assert rushlight.norm_except_dim(rushlight.tensor([3.0, -4.0])).tolist() == [3.0, 4.0]
    want, got = both(lambda m: m.frobenius_norm(m.tensor(numbers), [0, 1, 2]))
    assert want is got is RuntimeError


@pytest.mark.parametrize("dim", [0, 1, 2, -1])
def test_weight_norm_and_its_gradients(dim: int) -> None:
    numbers = np.random.default_rng(1).standard_normal((3, 4, 5))

    def gradients(m: Any) -> list[Any]:
        v = m.tensor(numbers, requires_grad=True)
        g = (m.norm_except_dim(v.detach(), 2, dim) * 3).requires_grad_()
        w = m._weight_norm(v, g, dim)
        (w * w * m.tensor(numbers[::-1].copy())).sum().backward()
        return [t.detach().numpy() for t in (w, v.grad, g.grad)]

    for want, got in zip(*both(gradients), strict=True):
        np.testing.assert_allclose(got, want, 1e-10, 1e-12)


def test_weight_norm_with_its_norms() -> None:
    numbers = np.random.default_rng(2).standard_normal((3, 4, 5)).astype("float32")
    for dim, lengths in ((0, (3, 1, 1)), (2, (1, 1, 5))):
        want, got = both(
            lambda m, dim=dim, lengths=lengths: m.ops.aten._weight_norm_interface(
                m.tensor(numbers), m.ones(lengths), dim
            )
        )
        for w, g in zip(want, got, strict=True):
            np.testing.assert_allclose(g.numpy(), w.numpy(), 1e-5)
    want, got = both(lambda m: m.ops.aten._weight_norm_interface(m.tensor(numbers), m.ones(3, 1, 1), 1))
    assert want is got is RuntimeError


def test_softmax_of_rows_without_scores() -> None:
    rows = [[1.0, 2.0, -np.inf], [-np.inf] * 3, [np.nan, 0.0, 1.0]]
    for dim in (0, 1):
        want, got = both(lambda m, dim=dim: m._safe_softmax(m.tensor(rows), dim).numpy())
        np.testing.assert_allclose(got, want, 1e-6)
    want, got = both(lambda m: m._safe_softmax(m.tensor(rows), 1, m.float64).numpy())
    assert want.dtype == got.dtype
    np.testing.assert_allclose(got, want, 1e-12)


FLOAT8_CALLS = {
    "rows": lambda m, a, b, one: m._scaled_mm(a, b, m.ones(16, 1), m.ones(1, 48), out_dtype=m.float32),
    "a scale of rows and one number": lambda m, a, b, one: m._scaled_mm(a, b, m.ones(16, 1), one),
    "three scales": lambda m, a, b, one: m._scaled_mm(a, b, m.ones(3), one),
    "plain numbers": lambda m, a, b, one: m._scaled_mm(m.ones(16, 32), b, one, one),
    "a scale of the result": lambda m, a, b, one: m._scaled_mm(a, b, one, one, scale_result=one).float(),
    "a bias": lambda m, a, b, one: m._scaled_mm(a, b, one, one, m.ones(48), out_dtype=m.float32),
    "an unknown recipe": lambda m, a, b, one: m._scaled_mm_v2(a, b, [one], [3], [0], [one], [0], [0], None, m.float32),
    "swizzled": lambda m, a, b, one: m._scaled_mm_v2(a, b, [one], [0], [1], [one], [0], [0], None, m.float32),
    "recipes": lambda m, a, b, one: m._scaled_mm_v2(a, b, [one], [0], [0], [one], [0], [0], None, m.float32),
}


def test_scales_of_float8_are_of_float32() -> None:
    """PyTorch looks at them on some processors only."""
    a, b = (rushlight.ones(*sizes).to(rushlight.float8_e4m3fn) for sizes in ((16, 32), (48, 32)))
    with pytest.raises(ValueError, match="float32 scales"):
        rushlight._scaled_mm(a, b.t(), rushlight.tensor(2.0).double(), rushlight.tensor(2.0))


@pytest.mark.parametrize("name", FLOAT8_CALLS)
def test_products_of_scaled_float8(name: str) -> None:
    def call(m: Any) -> Any:
        a, b = (m.ones(16, 32) * 0.5).to(m.float8_e4m3fn), (m.ones(48, 32) * 1.5).to(m.float8_e4m3fn).t()
        return FLOAT8_CALLS[name](m, a, b, m.tensor(2.0)).numpy()

    want, got = both(call)
    assert isinstance(want, type) == isinstance(got, type)
    assert want is got if isinstance(want, type) else np.array_equal(want, got)
