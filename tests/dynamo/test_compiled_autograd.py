"""backward() of tapes that were recorded op by op, as one compiled graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import rushlight as torch
from rushlight import nn
from rushlight._dynamo import compiled_autograd


class Compiler:
    """Counts the graphs that it is given."""

    def __init__(self, backend: str = "eager") -> None:
        self.backend, self.graphs = backend, []

    def __call__(self, graph: Any) -> Callable:
        self.graphs.append(graph)
        return torch.compile(graph, backend=self.backend)


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 3))


def grads(m: nn.Module) -> list:
    return [None if p.grad is None else p.grad.clone() for p in m.parameters()]


def loss_of(m: nn.Module, n: int = 5) -> Any:
    torch.manual_seed(n)
    return nn.functional.cross_entropy(m(torch.randn(n, 6)), torch.randint(0, 3, (n,)))


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_one_graph_for_tapes_of_one_shape(backend: str) -> None:
    m, reference, compiler = model(), model(), Compiler(backend)
    for i in range(3):
        with compiled_autograd._enable(compiler):
            loss_of(m).backward()
        loss_of(reference).backward()      # both accumulate
        torch.testing.assert_close(grads(m), grads(reference), msg=f"run {i}")
    assert len(compiler.graphs) == 1


def test_other_sizes_are_another_graph() -> None:
    m, reference, compiler = model(), model(), Compiler()
    for n in (5, 7, 5, 7):
        with compiled_autograd._enable(compiler):
            loss_of(m, n).backward()
        loss_of(reference, n).backward()
    torch.testing.assert_close(grads(m), grads(reference))
    assert len(compiler.graphs) == 2


def test_numbers_that_ops_kept_are_part_of_the_graph() -> None:
    compiler = Compiler()
    for scale in (2.0, 3.0, 2.0):
        x = torch.ones(3, requires_grad=True)
        with compiled_autograd._enable(compiler):
            (x * scale).sum().backward()
        assert x.grad.tolist() == [scale] * 3
    assert len(compiler.graphs) == 2


def test_a_tensor_kept_twice_and_two_tensors_are_told_apart() -> None:
    compiler = Compiler()
    for same in (True, False, True, False):
        x = torch.full((3,), 2.0, requires_grad=True)
        y = x if same else torch.full((3,), 5.0, requires_grad=True)
        with compiled_autograd._enable(compiler):
            (x * y).sum().backward()
        assert x.grad.tolist() == ([4.0] * 3 if same else [5.0] * 3)


def test_the_tape_is_freed_or_kept_as_asked() -> None:
    m, compiler = model(), Compiler()
    with compiled_autograd._enable(compiler):
        loss = loss_of(m)
        loss.backward(retain_graph=True)
        loss.backward()
        with pytest.raises(RuntimeError, match="second time"):
            loss.backward()
    reference = model()
    for _ in range(2):
        loss_of(reference).backward()
    torch.testing.assert_close(grads(m), grads(reference))


def test_hooks() -> None:
    seen = []
    m, reference, compiler = model(), model(), Compiler()
    for one in (m, reference):
        one[0].weight.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.abs().sum().item()))
    with compiled_autograd._enable(compiler):
        loss_of(m).backward()
    loss_of(reference).backward()
    assert len(compiler.graphs) == 1 and len(seen) == 2 and seen[0] == pytest.approx(seen[1])
    x = torch.ones(3, requires_grad=True)
    with compiled_autograd._enable(compiler):      # hooks between: the engine runs it
        y = x * 2
        y.register_hook(lambda g: g * 10)
        y.sum().backward()
    assert x.grad.tolist() == [20.0] * 3 and len(compiler.graphs) == 1


def test_custom_functions_run_on_the_engine() -> None:
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    x, compiler = torch.ones(3, requires_grad=True), Compiler()
    with compiled_autograd._enable(compiler):
        Twice.apply(x).sum().backward()
    assert x.grad.tolist() == [2.0] * 3 and not compiler.graphs


def test_enabled_in_blocks() -> None:
    assert not compiled_autograd.compiled_autograd_enabled
    compiler = Compiler()
    with compiled_autograd._enable(compiler):
        assert compiled_autograd.compiled_autograd_enabled
        with compiled_autograd._disable():
            assert not compiled_autograd.compiled_autograd_enabled
            loss_of(model()).backward()
    assert not compiled_autograd.compiled_autograd_enabled and not compiler.graphs
    with pytest.raises(TypeError, match="compiles a graph"), compiled_autograd._enable(3):
        pass


def test_by_configuration() -> None:
    graphs = []

    def backend(graph: Any, inputs: list) -> Callable:
        graphs.append(graph)
        return graph.forward

    @torch.compiler.disable
    def outside(m: nn.Module) -> None:
        loss_of(m).backward()

    def train(m: nn.Module) -> None:
        outside(m)

    m, reference = model(), model()
    with torch._dynamo.config.patch(compiled_autograd=True):
        compiled = torch.compile(train, backend=backend)
    for _ in range(2):
        compiled(m)
        loss_of(reference).backward()
    torch.testing.assert_close(grads(m), grads(reference))
    assert len(graphs) == 1


def test_with_an_optimizer() -> None:
    m, reference, compiler = model(), model(), Compiler("inductor")
    for one, enabled in ((m, True), (reference, False)):
        optimizer = torch.optim.AdamW(one.parameters())
        for _ in range(3):
            optimizer.zero_grad()
            with compiled_autograd._enable(compiler) if enabled else compiled_autograd._disable():
                loss_of(one).backward()
            optimizer.step()
    torch.testing.assert_close(list(m.parameters()), list(reference.parameters()))
    assert len(compiler.graphs) == 1
