"""Sizes and numbers that become symbols: what is then relied upon, and what is not."""

from __future__ import annotations

import functools
from typing import Any

import pytest

import rushlight as torch


@pytest.fixture(autouse=True)
def fresh() -> Any:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def test_a_size_of_one_among_open_sizes_is_a_number() -> None:
    def lengths(x: Any) -> Any:
        return torch.zeros(x.shape[1]) + x.shape[1], x * 2

    compiled = torch.compile(lengths, backend="eager", fullgraph=True)
    for shape in ((2, 2), (2, 3), (3, 4), (4, 1), (4, 2), (5, 1), (1, 5), (6, 0), (6, 3)):
        x = torch.randn(shape)
        for found, expected in zip(compiled(x), lengths(x), strict=True):
            torch.testing.assert_close(found, expected)


def test_an_attribute_that_is_a_number_and_then_a_tensor() -> None:
    class Holder:
        held: Any = None

    def added(holder: Holder, x: Any) -> Any:
        return x + holder.held

    holder, compiled = Holder(), torch.compile(added, backend="eager", fullgraph=True)
    for held in (3, 4, torch.ones(2), torch.ones(5), torch.ones(6), 5, 7):
        holder.held = held
        x = torch.ones(held.shape if isinstance(held, torch.Tensor) else 2)
        torch.testing.assert_close(compiled(holder, x), added(holder, x))


def test_a_number_equal_to_a_size_that_is_fixed() -> None:
    def scaled(x: Any, n: int) -> Any:
        return x * n if x.shape[0] == 5 else x + n

    compiled = torch.compile(scaled, backend="eager", fullgraph=True)
    for size, n in ((3, 3), (4, 4), (5, 5), (6, 7), (5, 6), (5, 5), (7, 5)):
        torch.testing.assert_close(compiled(torch.ones(size), n), scaled(torch.ones(size), n))


def test_a_class_among_the_arguments_of_an_op() -> None:
    def filled(x: Any) -> Any:
        return x.to(int) + torch.tensor([-1], dtype=int)

    for backend in ("eager", "aot_eager"):
        found = torch.compile(filled, backend=backend, fullgraph=True)(torch.ones(2))
        assert torch.equal(found, torch.tensor([0, 0]))


class Kept(torch.nn.Module):
    """A cache of rows, filled up to a place that is an attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", torch.zeros(64, 4))
        self.count = 0

    def forward(self, x: Any) -> Any:
        end = self.count + x.shape[0]
        self.rows[self.count : end] = x
        self.count = end
        return self.rows[:end].cumsum(0)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("wants_grad", [False, True])
def test_writes_at_a_place_that_is_an_attribute(backend: str, wants_grad: bool) -> None:
    plain, cached = Kept(), Kept()
    compiled = torch.compile(cached, backend=backend)
    with torch.set_grad_enabled(wants_grad):
        for n in (5, 1, 1, 1, 3, 2, 1, 7, 1, 1, 4):
            x = torch.randn(n, 4)
            torch.testing.assert_close(compiled(x), plain(x))
            assert cached.count == plain.count and torch.equal(cached.rows, plain.rows)


@pytest.mark.parametrize("name", ("linspace", "logspace"))
def test_bounds_that_are_tensors(name: str) -> None:
    make = getattr(torch, name)
    low, high = torch.tensor(1.0), torch.tensor(3.0)
    for a, b in ((low, high), (low, 4), (0, high)):
        def between(x: Any, y: Any) -> Any:
            return make(x, y, 5) * 2

        compiled = torch.compile(between, backend="eager", fullgraph=True)
        for sign in (1, -1):
            torch.testing.assert_close(compiled(sign * a, b), between(sign * a, b), rtol=0, atol=0)


@functools.lru_cache
def falling(n: int) -> Any:
    return torch.hann_window(n, dtype=torch.float64)


def test_what_a_cached_function_keeps_is_for_every_caller() -> None:
    falling.cache_clear()
    x = torch.ones(8, dtype=torch.float64)

    def windowed(x: Any) -> Any:
        return x * falling(8)

    compiled = torch.compile(windowed, backend="eager", fullgraph=True)
    assert compiled(x).tolist() == torch.hann_window(8, dtype=torch.float64).tolist()
    assert type(falling(8)) is torch.Tensor
    assert falling(8).tolist() == compiled(x).tolist() and falling.cache_info().misses == 1


def test_a_transform_of_rows_of_any_length() -> None:
    def spectrum(x: Any) -> Any:
        return torch.fft.irfft(torch.fft.rfft(x) * 2, n=x.shape[-1])

    compiled = torch.compile(spectrum, dynamic=True, fullgraph=True)
    for n in (8, 30, 12):
        x = torch.randn(3, n)
        torch.testing.assert_close(compiled(x), 2 * x)
