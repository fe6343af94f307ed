"""Results do not depend on how many threads compute them, to the last bit: layers, scatters, scans, products,
transforms."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import rushlight as rl

F = rl.nn.functional


@pytest.fixture(autouse=True)
def threads_put_back() -> Iterator[None]:
    before = rl.get_num_threads()
    yield
    rl.set_num_threads(before)


def agree(call: Callable[[], Any]) -> None:
    results = []
    for count in (1, 2, 3):
        rl.set_num_threads(count)
        result = call()
        results.append([result] if isinstance(result, rl.Tensor) else list(result))
    for other in results[1:]:
        assert all(rl.equal(a, b) for a, b in zip(results[0], other, strict=True))


def with_gradients(function: Callable, *tensors: Any) -> Callable[[], list]:
    """The result and the gradient of every tensor."""

    def call() -> list:
        leaves = [t.detach().requires_grad_() for t in tensors]
        result = function(*leaves)
        return [result.detach(), *rl.autograd.grad(result.square().sum(), leaves)]

    return call


@pytest.mark.parametrize(
    "batch, channels, outs, size, kernel, stride, groups",
    [(1, 3, 64, 40, 7, 2, 1), (2, 32, 32, 28, 3, 1, 1), (1, 128, 256, 7, 3, 1, 1), (3, 32, 64, 28, 3, 2, 1),
     (2, 64, 128, 28, 1, 1, 1), (2, 128, 256, 7, 1, 2, 1), (2, 128, 96, 26, 1, 2, 1), (4, 100, 96, 26, 1, 1, 1),
     (2, 48, 48, 28, 5, 1, 48)],
)
def test_convolutions(batch: int, channels: int, outs: int, size: int, kernel: int, stride: int, groups: int) -> None:
    rl.manual_seed(0)
    x, w, b = rl.randn(batch, channels, size, size), rl.randn(outs, channels // groups, kernel, kernel), rl.randn(outs)
    agree(with_gradients(lambda x, w, b: F.conv2d(x, w, b, stride, kernel // 2, 1, groups), x, w, b))


@pytest.mark.parametrize("heads, length, causal", [(4, 128, True), (2, 197, False), (1, 500, True)])
def test_attention(heads: int, length: int, causal: bool) -> None:
    rl.manual_seed(0)
    q, k, v = (rl.randn(2, heads, length, 64) for _ in range(3))
    agree(with_gradients(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal), q, k, v))


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_recurrent_layers(kind: str) -> None:
    rl.manual_seed(0)
    layer, x = getattr(rl.nn, kind)(64, 128, 2), rl.randn(20, 9, 64)

    def call() -> list:
        result = layer(x)[0]
        return [result.detach(), *rl.autograd.grad(result.square().sum(), list(layer.parameters()))]

    agree(call)


def test_scatters() -> None:
    rl.manual_seed(0)
    places, x = rl.randint(0, 1000, (200000,)), rl.randn(200000)
    agree(lambda: rl.zeros(1000).scatter_add(0, places, x))
    places, x = rl.randint(0, 300, (300, 400)), rl.randn(300, 400)
    agree(lambda: [rl.zeros(300, 400).scatter_add(dim, places, x) for dim in (0, 1)])
    rows, x, table = rl.randint(0, 100, (20000,)), rl.randn(20000, 64), rl.randn(100, 64)
    agree(lambda: rl.zeros(100, 64).index_add(0, rows, x))
    agree(with_gradients(lambda table: F.embedding(rows, table), table))


@pytest.mark.parametrize("shape", [(1000000,), (3, 300000), (500, 700)])
def test_scans_and_sums(shape: tuple[int, ...]) -> None:
    rl.manual_seed(0)
    x = rl.randn(*shape)
    for dim in range(len(shape)):
        agree(lambda dim=dim: [x.cumsum(dim), rl.logcumsumexp(x, dim), *rl.cummax(x, dim)])
        agree(lambda dim=dim: [x.sum(dim), x.var(dim), x.softmax(dim)])
    agree(lambda: [x.sum(), x.mean(), x.norm()])


@pytest.mark.parametrize("m, k, n", [(37, 200, 77), (4, 768, 3072), (65, 2048, 384), (3, 100000, 5)])
def test_products(m: int, k: int, n: int) -> None:
    rl.manual_seed(0)
    x, w = rl.randn(m, k), rl.randn(n, k)
    agree(with_gradients(F.linear, x, w))
    agree(lambda: x.bfloat16() @ w.bfloat16().t())


@pytest.mark.parametrize("n", [257, 263, 1000, 9999])
def test_transforms(n: int) -> None:
    rl.manual_seed(0)
    for count in (1, 3, 33):
        x = rl.randn(count, n)
        agree(lambda x=x: [rl.fft.rfft(x), rl.fft.fft(x.to(rl.complex64))])
