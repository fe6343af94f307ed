"""Floats that differ from call to call: two graphs serve them all, and give what the program gives, to the last bit."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import pytest

import rushlight as torch


def step(p: Any, g: Any, lr: float) -> Any:
    return p - lr * g


def arithmetic(p: Any, g: Any, lr: float) -> Any:
    return p * lr + g / lr - lr, (lr * 0.5 + 1.0) * p, lr / p, (1 - lr) * g, (2.0 / lr) * p, -lr * p


def in_place(p: Any, g: Any, lr: float) -> Any:
    q = p.clone()
    q.mul_(lr)
    q += lr
    q.sub_(lr * g)
    q.add_(g, alpha=-lr)
    return torch.add(q, g, alpha=lr)


def kinds(p: Any, g: Any, lr: float) -> Any:
    whole = torch.arange(5)
    single = torch.tensor(3.0) * lr, p.sum() * lr
    return whole * lr, whole + lr, single, p.bfloat16() * lr, lr - p.half(), p.double() / lr


def numbers(p: Any, g: Any, lr: float) -> Any:
    return p * lr, lr, lr * 2 + 1, [lr / 3], isinstance(lr, float), type(lr)


def moved(p: Any, g: Any, lr: float) -> Any:
    return torch.where(g > 0, p, g) * lr, math.pi * lr * p


def same(a: Any, b: Any) -> bool:
    if isinstance(b, (tuple, list)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(b, torch.Tensor):
        return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a, b)
    return type(a) is type(b) and a == b


def graphs() -> int:
    return torch._dynamo.utils.counters["stats"]["unique_graphs"]


def run(function: Callable, count: int, backend: str) -> int:
    """How many graphs calls with many floats take; each result is compared."""
    torch.compiler.reset()
    torch._dynamo.utils.counters.clear()
    compiled = torch.compile(function, backend=backend, fullgraph=True)
    rates = random.Random(0)
    torch.manual_seed(0)
    p, g = torch.randn(300), torch.randn(300)
    for _ in range(count):
        lr = rates.random() * 10 ** rates.randint(-6, 1)
        assert same(compiled(p, g, lr), function(p, g, lr)), lr
    return graphs()


@pytest.mark.parametrize("backend", ["eager", "inductor"])
@pytest.mark.parametrize("function", [step, arithmetic, in_place, kinds, numbers, moved], ids=lambda f: f.__name__)
def test_many_floats_take_two_graphs(function: Callable, backend: str) -> None:
    assert run(function, 64, backend) == 2


def test_gradients_through_a_float() -> None:
    def f(x, w):
        return (x * w).sin().sum() / w

    compiled = torch.compile(f)
    for w in (0.5, 0.25, 3.0, 1.7):
        x, y = (torch.linspace(0, 1, 7).requires_grad_() for _ in range(2))
        compiled(x, w).backward()
        f(y, w).backward()
        torch.testing.assert_close(x.grad, y.grad)


def test_branches_on_a_float_are_guarded() -> None:
    def f(p, g, lr):
        return p * lr if lr > 0.5 else p + lr

    torch.compiler.reset()
    torch._dynamo.utils.counters.clear()
    compiled = torch.compile(f, backend="eager", fullgraph=True)
    p = torch.ones(3)
    for lr in (0.6, 0.7, 0.1, 0.9, 0.2, 0.5, 0.51):
        assert same(compiled(p, p, lr), f(p, p, lr))
    assert graphs() == 3


def test_other_uses_make_it_the_number_that_it_is() -> None:
    def f(p, g, lr):
        return p.clamp(max=lr), f"{lr:.2f} {lr}", {lr: 1}, math.floor(lr), lr ** 2 * p, torch.full((2,), lr)

    compiled = torch.compile(f, backend="eager", fullgraph=True)
    p = torch.linspace(0, 3, 5)
    for lr in (0.6, 1.7, 2.5, 0.6):
        now, expected = compiled(p, p, lr), f(p, p, lr)
        assert same(now[0], expected[0]) and now[1:4] == expected[1:4] and same(now[4:], expected[4:])


def test_division_by_a_float_that_is_zero_is_an_error() -> None:
    def f(p, lr):
        return p * (1.0 / lr)

    compiled = torch.compile(f, backend="eager")
    for lr in (0.5, 0.25, 2.0):
        assert same(compiled(torch.ones(2), lr), f(torch.ones(2), lr))
    with pytest.raises(ZeroDivisionError):
        compiled(torch.ones(2), 0.0)


def test_odd_floats() -> None:
    def f(p, lr):
        return p * lr, p / lr, lr

    compiled = torch.compile(f, backend="eager")
    for lr in (0.5, 0.25, math.inf, -0.0, 0.0, -math.inf, 1e-320, 1.0):
        now, expected = compiled(torch.ones(2), lr), f(torch.ones(2), lr)
        assert all(torch.equal(a.nan_to_num(7), b.nan_to_num(7)) for a, b in zip(now[:2], expected[:2], strict=True))
        assert math.copysign(1, now[2]) == math.copysign(1, expected[2]) and now[2] == expected[2]
    assert math.isnan(compiled(torch.ones(2), math.nan)[2])


def test_effects_that_hold_a_float() -> None:
    class State:
        rate = 0.5

    def f(p, state):
        state.rate = state.rate * 0.5
        return p * state.rate

    torch.compiler.reset()
    torch._dynamo.utils.counters.clear()
    one, other = State(), State()
    one.rate = other.rate = 0.7
    compiled = torch.compile(f, backend="eager", fullgraph=True)
    for _ in range(8):
        assert same(compiled(torch.ones(2), one), f(torch.ones(2), other)) and one.rate == other.rate
    assert graphs() == 2


def test_settings_say_otherwise() -> None:
    torch._dynamo.config.specialize_float = True
    try:
        assert run(step, 4, "eager") == 4
    finally:
        torch._dynamo.config.specialize_float = False
    torch.compiler.reset()
    torch._dynamo.utils.counters.clear()
    compiled = torch.compile(step, backend="eager", dynamic=True)
    for lr in (0.1, 0.2, 0.3):
        compiled(torch.ones(2), torch.ones(2), lr)
    assert graphs() == 1


def test_texts_of_symbolic_numbers() -> None:
    def f(x, n):
        percent = "%s" % n, "%s %d" % (x.shape[0], n)      # noqa: UP031 - as programs have it
        return x * n, f"{n}", str(n), percent, "{}".format(n), f"{x.shape}", repr((n, [n]))      # noqa: UP032

    compiled = torch.compile(f, backend="eager", fullgraph=True)
    for n in (2, 3, 4, 5):
        x = torch.ones(n + 3)
        assert compiled(x, n)[1:] == f(x, n)[1:]


def test_numbers_in_tuples_vary() -> None:
    def scaled(x: Any, factors: tuple) -> Any:
        return x * factors[0] + factors[1]

    compiled = torch.compile(scaled, backend="eager", fullgraph=True)
    x = torch.randn(3)
    for i in range(2, 12):
        torch.testing.assert_close(compiled(x, (0.1 * i, i)), scaled(x, (0.1 * i, i)))
    assert len(compiled.entries()) == 2
