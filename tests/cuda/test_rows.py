"""Rows and columns of many lengths on a CUDA device against double precision on the CPU: every way in which threads
share them. Skipped where there is no device."""

from __future__ import annotations

import pytest

import rushlight as rl

F = rl.nn.functional
pytestmark = pytest.mark.skipif(not rl.cuda.is_available(), reason="needs a CUDA device")
NEAR = {rl.float32: 2e-6, rl.bfloat16: 6e-3, rl.float16: 1e-3, rl.float64: 1e-12}


def check(got, expected, most):
    got, expected = got.cpu().double(), expected.double()
    assert ((got - expected).norm() / (expected.norm() + 1e-30)).item() < most


@pytest.mark.parametrize("dtype", NEAR)
@pytest.mark.parametrize("rows", [1, 7, 300, 1500])
@pytest.mark.parametrize("cols", [8, 24, 96, 256, 768, 1000, 1096, 2048, 4096, 5000, 20000])
def test_rows_and_columns(dtype, rows, cols):
    rl.manual_seed(0)
    near = NEAR[dtype]
    x, g = (rl.randn(rows, cols).to(dtype) for _ in range(2))
    w, b = (rl.randn(cols).to(dtype) for _ in range(2))
    y, wide = x.cuda(), x.double()
    check(F.softmax(y, -1), F.softmax(wide, -1), near)
    check(F.log_softmax(y, -1), F.log_softmax(wide, -1), near)
    for d in (0, 1):
        check(y.sum(d), wide.sum(d), near * 4)
        check(y.var(d, correction=0), wide.var(d, correction=0), near * 4)
        assert (y.amax(d).cpu() == x.amax(d)).all() and (y.argmax(d).cpu() == x.argmax(d)).all()

    def gradients(x, g, w, b):
        tensors = [t.detach().clone().requires_grad_() for t in (x, w, b)]
        made = F.layer_norm(tensors[0], (cols,), *tensors[1:])
        made.backward(g)
        return made.detach(), *[t.grad for t in tensors]

    both = gradients(y, *[t.cuda() for t in (g, w, b)]), gradients(wide, *[t.double() for t in (g, w, b)])
    for got, expected in zip(*both, strict=True):
        check(got, expected, near * 8)


@pytest.mark.parametrize("dtype", [rl.float16, rl.bfloat16])
def test_short_functions(dtype):
    x = (rl.randn(20000) * 3).clamp(-9, 9).to(dtype)
    for f in (F.gelu, rl.sigmoid, rl.tanh, F.silu, rl.exp, F.elu, F.softplus, F.mish,
              lambda x: F.gelu(x, approximate="tanh"), lambda x: x / (x * x + 1)):
        check(f(x.cuda()), f(x.double()), NEAR[dtype])


def test_quotients_at_the_ends_of_the_range():
    a = rl.tensor([3e38, 1e-38, 1.0, 0.0, 5.0, float("inf"), 1e30, -7.0, 1e-30]).bfloat16()
    b = rl.tensor([3e38, 1e-38, 0.0, 0.0, float("inf"), 2.0, 1e-30, 2e38, 1e30]).bfloat16()
    rl.testing.assert_close((a.cuda() / b.cuda()).cpu(), a / b, equal_nan=True)


@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize("dtype", NEAR)
@pytest.mark.parametrize(("m", "n", "k"), [(64, 128, 64), (33, 10, 128), (512, 2304, 768), (17, 24, 40)])
def test_products_with_a_bias(m, n, k, dtype, offset):
    rl.manual_seed(0)
    a, w, b = rl.randn(m, k).to(dtype), (rl.randn(n, k) / k**0.5).to(dtype), rl.randn(n + offset).to(dtype)
    bias, expected = b.cuda()[offset:], F.linear(a.double(), w.double(), b.double()[offset:])
    check(F.linear(a.cuda(), w.cuda(), bias), expected, NEAR[dtype] * 3)
    check(rl.addmm(bias, a.cuda(), w.cuda().t()), expected, NEAR[dtype] * 3)
