"""What programs tell capture: marks on functions, blocks in which breaks are errors, stances."""

from __future__ import annotations

from typing import Any

import pytest

import rushlight as torch
from rushlight._dynamo.exc import RecompileError, Unsupported
from rushlight.dynamo.record import marks


@pytest.fixture(autouse=True)
def fresh() -> Any:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def counting() -> tuple[list[Any], Any]:
    graphs: list[Any] = []

    def backend(graph: Any, examples: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    return graphs, backend


def test_graph_break_ends_the_graph() -> None:
    def f(x: Any) -> Any:
        y = x + 1
        torch._dynamo.graph_break("here")
        return y * 2

    graphs, backend = counting()
    x = torch.ones(3)
    torch.testing.assert_close(torch.compile(f, backend=backend)(x), f(x))
    assert len(graphs) == 2
    with pytest.raises(Unsupported, match="here"):
        torch.compile(f, backend=backend, fullgraph=True)(x)


def test_skip_frame_runs_the_caller_as_it_is() -> None:
    def inner(x: Any) -> Any:
        return x.sin()

    def f(x: Any) -> Any:
        y = x + 1
        torch._dynamo.skip_frame()
        return inner(y) * 2

    graphs, backend = counting()
    torch.testing.assert_close(torch.compile(f, backend=backend)(torch.ones(3)), f(torch.ones(3)))
    assert len(graphs) == (1 if torch._C.has_frame_hook else 0)      # of inner


hidden = torch.arange(3.0)
calls: list[int] = []


@torch._dynamo.allow_in_graph
def opaque(x: Any, scale: float = 1.0) -> Any:
    calls.append(1)
    return x.sin() * scale, x + hidden


@torch._dynamo.nonstrict_trace
def nested(data: dict[str, Any]) -> dict[str, Any]:
    return {"y": data["x"] * hidden, "n": 3}


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_calls_that_are_one_node(backend: str) -> None:
    def f(x: Any) -> Any:
        a, b = opaque(x, scale=2.0)
        c = nested({"x": a})
        return a + b, c["y"] * c["n"]

    found = []
    for run in (f, torch.compile(f, backend=backend, fullgraph=True)):
        x = torch.linspace(0, 1, 3).requires_grad_()
        y = run(x)
        (y[0].sum() + y[1].sum()).backward()
        found.append((y, x.grad))
    torch.testing.assert_close(found[1], found[0])
    graphs, counts = counting()
    torch.compile(f, backend=counts)(torch.ones(3))
    assert sum("opaque" in str(node.target) for node in graphs[0].graph.nodes) == 1


size = {"n": 2}


@torch._dynamo.assume_constant_result
def configured() -> int:
    return size["n"]


def test_constant_results() -> None:
    run = torch.compile(lambda x: x * configured(), backend="eager", fullgraph=True)
    assert run(torch.ones(1)).item() == 2
    size["n"] = 5
    try:
        assert run(torch.ones(1)).item() == 2      # what was promised
    finally:
        size["n"] = 2


def test_forbidden_and_disallowed_calls() -> None:
    def bad(x: Any) -> Any:
        return x

    def apart(x: Any) -> Any:
        return x * 3

    torch._dynamo.forbid_in_graph(bad)
    torch._dynamo.disallow_in_graph(apart)
    with pytest.raises(Unsupported, match="must not be called"):
        torch.compile(lambda x: bad(x + 1), backend="eager")(torch.ones(1))
    graphs, backend = counting()
    assert torch.compile(lambda x: apart(x + 1) + 1, backend=backend)(torch.ones(1)).item() == 7
    assert len(graphs) >= 2


def test_substitutes() -> None:
    def mystery(x: Any, /) -> Any:
        raise AssertionError("the substitute is captured")

    @torch._dynamo.substitute_in_graph(mystery)
    def known(x: Any, /) -> Any:
        return x + 10

    assert torch.compile(lambda x: mystery(x), backend="eager", fullgraph=True)(torch.ones(1)).item() == 11
    with pytest.raises(TypeError, match="signature"):
        torch._dynamo.substitute_in_graph(opaque)(lambda q: q)


def test_error_on_graph_break_in_a_block() -> None:
    def f(x: Any, strict: bool) -> Any:
        torch._dynamo.graph_break()
        with torch._dynamo.error_on_graph_break(strict):
            y = x + 1
            torch._dynamo.graph_break()
            y = y * 2
        return y + 1

    run = torch.compile(f, backend="eager")
    torch.testing.assert_close(run(torch.ones(2), False), f(torch.ones(2), False))
    with pytest.raises(Unsupported):
        run(torch.ones(2), True)
    assert marks.here.error_on_break is None


def test_error_on_graph_break_on_a_function() -> None:
    @torch._dynamo.error_on_graph_break(True)
    def inner(x: Any) -> Any:
        if x.sum() > 0:
            return x
        return -x

    with pytest.raises(Unsupported):
        torch.compile(lambda x: inner(x + 1), backend="eager")(torch.ones(2))
    assert inner(torch.ones(1)).item() == 1


def test_stances() -> None:
    graphs, backend = counting()
    run = torch.compile(lambda x: x * 2, backend=backend)
    with torch.compiler.set_stance("eager_then_compile"):
        run(torch.ones(4))
        assert not graphs
        run(torch.ones(6))
        assert len(graphs) == 1      # and its size is a symbol, since it differed
        run(torch.ones(9))
        assert len(graphs) == 1
    torch._dynamo.reset()
    graphs.clear()
    with torch.compiler.set_stance("aot_eager_then_compile"):
        torch.testing.assert_close(run(torch.ones(4)), torch.full((4,), 2.0))
        assert not graphs
        run(torch.ones(4))
        assert len(graphs) == 1
    with torch.compiler.set_stance("fail_on_recompile"), pytest.raises(RecompileError):
        run(torch.ones(4, dtype=torch.float64))
    with torch.compiler.set_stance("eager_on_recompile"):
        run(torch.ones(4, dtype=torch.float64))
    assert len(graphs) == 1


def test_stance_without_guards() -> None:
    run = torch.compile(lambda x, n: x * n, backend="eager")
    assert run(torch.ones(1), 3).item() == 3
    with torch.compiler.set_stance("default", skip_guard_eval_unsafe=True):
        assert run(torch.ones(1), 4).item() == 3      # unsafe, as its name says
    assert run(torch.ones(1), 4).item() == 4
    with torch.compiler.set_stance("default", skip_guard_eval_unsafe=True):      # compiled twice: told apart
        assert run(torch.ones(1), 3).item() == 3
        assert run(torch.ones(1), 4).item() == 4


def test_run_compiles_nothing_new() -> None:
    graphs, backend = counting()
    run = torch.compile(lambda x: x * 2, backend=backend)
    with torch._dynamo.run():
        run(torch.ones(2))
    assert not graphs
    torch._dynamo.run(run)(torch.ones(2))
    assert not graphs
    run(torch.ones(2))
    assert len(graphs) == 1


def test_specialize_on() -> None:
    graphs, backend = counting()
    run = torch.compile(lambda x: x.sum(0) + x.shape[0], backend=backend)

    def call(n: int) -> None:
        x = torch.ones(n, 2)
        torch._dynamo.mark_dynamic(x, 0, specialize_on=[lambda s: s == 8, lambda s: s % 16 == 0])
        torch.testing.assert_close(run(x), x.sum(0) + n)

    for n in (5, 7, 8, 9, 16, 32, 48, 11):
        call(n)
    assert len(graphs) == 3      # others, 8, multiples of 16
    with pytest.raises(TypeError, match="specialize_on"):
        torch._dynamo.mark_dynamic(torch.ones(2), 0, specialize_on=3)


def test_counters_name_breaks_and_count_graphs() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        y = x.sin().cos()
        torch._dynamo.graph_break()
        return y + 1

    counters = torch._dynamo.utils.counters
    counters.clear()
    compiled = torch.compile(f, backend="eager")
    for _ in range(3):      # what is compiled already is not counted again
        compiled(torch.ones(3))
    (reason,) = counters["graph_break"]
    assert "graph_break" in reason and "test_marks.py" in reason
    assert counters["stats"] == {"unique_graphs": 2, "calls_captured": 3}
    assert counters["frames"] == {"total": 2, "ok": 1}
