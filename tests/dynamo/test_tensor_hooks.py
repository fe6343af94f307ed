"""Hooks of tensors that a compiled function computes: they see the whole gradient, in whole graphs; what a graph cannot
hold runs as it is."""

from __future__ import annotations

from typing import Any

import pytest

import rushlight as rl

factor = 3.0


def tripled(x: Any, w: Any) -> Any:
    y = x * 2
    y.register_hook(lambda g: g * factor)
    return y.sin() * w


def of_all_uses(x: Any, w: Any) -> Any:
    y = x * w
    before = y.cos()
    y.register_hook(lambda g: g * g)
    return y.sin() + before


def closing_over_a_tensor(x: Any, w: Any) -> Any:
    total, y = w.detach().sum(), x * w
    y.register_hook(lambda g: g * total)
    return y.exp()


def one_after_another(x: Any, w: Any) -> Any:
    y = x * w
    y.register_hook(lambda g: g + 1)
    y.register_hook(lambda g: None)
    y.register_hook(lambda g: g.clamp(-1, 1) if g.shape[0] > 2 else g)
    return y


def before_a_derivative(x: Any, w: Any) -> Any:
    y = x * w
    y.register_hook(lambda g: g * 3)
    (g,) = rl.autograd.grad((y * y).sum(), x, create_graph=True)
    return g * w


def removed(x: Any, w: Any) -> Any:
    y = x * w
    y.register_hook(lambda g: g * 3).remove()
    return y.sin()


def of_an_argument(x: Any, w: Any) -> Any:
    x.register_hook(lambda g: g * 3)
    return (x * w).sin()


def told_outside(x: Any, w: Any) -> Any:
    y, seen = x * w, []
    y.register_hook(seen.append)
    y.sum().backward(retain_graph=True)
    return y * len(seen)


def gradients(function: Any) -> list[Any]:
    x, w = rl.tensor([0.3, -0.5, 2.0], requires_grad=True), rl.tensor([1.5, 0.2, -1.0], requires_grad=True)
    result = function(x, w)
    result.sum().backward()
    return [result.detach(), x.grad, w.grad]


@pytest.mark.parametrize("backend", ("eager", "inductor"))
@pytest.mark.parametrize(
    "function", (tripled, of_all_uses, closing_over_a_tensor, one_after_another, before_a_derivative)
)
def test_hooks_are_in_the_graph(function: Any, backend: str) -> None:
    rl._dynamo.reset()
    compiled = rl.compile(function, backend=backend, fullgraph=True)
    for _ in range(2):
        rl.testing.assert_close(gradients(compiled), gradients(function))


def test_what_a_hook_reads_is_relied_upon(monkeypatch: pytest.MonkeyPatch) -> None:
    rl._dynamo.reset()
    compiled = rl.compile(tripled, backend="aot_eager", fullgraph=True)
    for value in (3.0, -2.0):
        monkeypatch.setitem(globals(), "factor", value)
        rl.testing.assert_close(gradients(compiled), gradients(tripled))


@pytest.mark.parametrize("function", (removed, of_an_argument, told_outside))
def test_what_a_graph_cannot_hold_runs_as_it_is(function: Any) -> None:
    rl._dynamo.reset()
    compiled = rl.compile(function, backend="eager")
    for _ in range(2):
        rl.testing.assert_close(gradients(compiled), gradients(function))
