"""An If that a whole number decides, compiled: one graph for the number, not two pieces around a question."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight.compiler import reset

from .files import I64, graph, model, node, value

RATE = {"rate": torch.tensor(16000), "w": torch.tensor([[2.0], [3.0]]), "short": torch.tensor([-1, 2])}


def rated(shape: tuple = (), dtype=I64) -> bytes:
    """x * 2 where `sr` is the rate; else a product that fits other sizes alone."""
    then = graph([node("Add", "x x", "a")], [], [value("a", "n", 4)])
    other = graph([node("Reshape", "x short", "s"), node("MatMul", "s w", "b")], [], [value("b", "n", 1)])
    nodes = [node("Equal", "sr rate", "is_high"), node("If", "is_high", "y", then_branch=then, else_branch=other)]
    tensors = {**RATE, "rate": RATE["rate"].to(dtype)}
    return model(nodes, [value("x", "n", 4), value("sr", *shape, dtype=dtype)], [value("y", "n", "m")], tensors)


@pytest.fixture(autouse=True)
def fresh():
    reset()
    yield
    reset()


def counted() -> tuple[list, object]:
    graphs: list = []

    def backend(gm, inputs):
        graphs.append(gm)
        return gm.forward

    return graphs, backend


@pytest.mark.parametrize("shape", [(), (1,)])
def test_a_number_decides_and_one_graph_is_made_for_it(shape):
    loaded = torch.onnx.load(rated(shape))
    graphs, backend = counted()
    compiled = torch.compile(loaded, backend=backend, fullgraph=True)
    x = torch.arange(8.0).reshape(2, 4)
    for _ in range(2):
        for rate in (16000, 8000):
            given = torch.full(shape, rate)
            torch.testing.assert_close(compiled(x, given), loaded(x, given))
    assert len(graphs) == 2
    used = [n.name for gm in graphs for n in gm.graph.nodes if n.op == "call_function"]
    assert not any("cond" in name for name in used)


def test_the_rate_it_is_compared_with_is_guarded_too():
    loaded = torch.onnx.load(rated())
    compiled = torch.compile(loaded, backend="eager", fullgraph=True)
    x, rate = torch.ones(1, 4), torch.tensor(16000)
    assert compiled(x, rate).shape == (1, 4)
    with torch.no_grad():
        loaded.rate.fill_(1)
    assert compiled(x, rate).shape == (2, 1)


def test_numbers_that_vary_do_not_make_graphs_without_end():
    loaded = torch.onnx.load(rated())
    graphs, backend = counted()
    compiled = torch.compile(loaded, backend=backend)
    x = torch.ones(1, 4)
    for rate in (16000, *range(40), 16000):
        given = torch.tensor(rate)
        torch.testing.assert_close(compiled(x, given), loaded(x, given))
    assert len(graphs) <= 8


def test_a_float_does_not_decide():
    loaded = torch.onnx.load(rated(dtype=torch.float32))
    _graphs, backend = counted()
    compiled = torch.compile(loaded, backend=backend)
    x = torch.ones(1, 4)
    for rate in (16000.0, 1.0):
        assert torch.equal(compiled(x, torch.tensor(rate)), loaded(x, torch.tensor(rate)))


def test_a_number_that_was_written_to_does_not_decide():
    loaded = torch.onnx.load(rated())

    def step(x, rate):
        rate.add_(1)
        return loaded(x, rate)

    compiled = torch.compile(step, backend="eager")
    x = torch.ones(1, 4)
    for start in (15999, 16000, 15999):
        expected = step(x, torch.tensor(start))
        torch.testing.assert_close(compiled(x, torch.tensor(start)), expected)
