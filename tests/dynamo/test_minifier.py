"""Graphs that fail, made small: as graphs, and as scripts that a backend's failure leaves."""

from __future__ import annotations

import runpy
from typing import Any

import pytest

import rushlight as torch
from rushlight._functorch.fx_minifier import minifier
from rushlight.fx.experimental.proxy_tensor import make_fx


def long_program(x: Any, w: Any) -> Any:
    a = (x @ w).sin() + 1
    for _ in range(5):
        a = a * 2 + x
    b = a.relu().cumsum(0)
    c = b.cos() * 3
    for _ in range(5):
        c = c - a
    return c.sum(), a.mean()


def has(graph: Any, name: str) -> bool:
    return any(name in str(node.target) for node in graph.graph.nodes)


def size(graph: Any) -> int:
    return sum(node.op == "call_function" for node in graph.graph.nodes)


def test_one_node_is_left() -> None:
    x = torch.randn(4, 4)
    graph = make_fx(long_program)(x, x)
    small, inputs = minifier(graph, [x, x], lambda g, i: has(g, "cumsum"))
    assert size(small) == 1 and len(inputs) == 1
    assert small(*inputs)[0].shape == (4, 4)


def test_two_nodes_that_need_each_other_are_left() -> None:
    x = torch.randn(4, 4)
    graph = make_fx(long_program)(x, x)
    small, _ = minifier(graph, [x, x], lambda g, i: has(g, "cumsum") and has(g, "sin."))
    assert 2 <= size(small) <= 18 < size(graph)


def test_failure_by_value_is_kept() -> None:
    x = torch.full((3, 3), 2.0)
    graph = make_fx(lambda x: (x * 3 - x.exp(), (x - 2).log() + 1))(x)
    small, inputs = minifier(graph, [x], lambda g, i: any(bool(r.isinf().any()) for r in g(*i)))
    assert size(small) == 1 and has(small, "log")
    assert bool(small(*inputs)[0].isinf().any())


def test_what_does_not_fail_is_refused() -> None:
    x = torch.ones(2)
    with pytest.raises(ValueError, match="does not fail"):
        minifier(make_fx(lambda x: x + 1)(x), [x], lambda g, i: False)


def failing(graph: Any, examples: Any) -> Any:
    if has(graph, "cumsum"):
        raise NotImplementedError("no cumsum here")
    return graph.forward


def wrong(graph: Any, examples: Any) -> Any:
    def run(*inputs: Any) -> Any:
        made = graph(*inputs)
        return tuple(r + 1 for r in made) if has(graph, "cumsum") else made

    return run


def test_a_failing_backend_leaves_a_script(tmp_path: Any) -> None:
    x = torch.randn(4, 4)
    with torch._dynamo.config.patch(repro_after="dynamo", debug_dir_root=str(tmp_path)):
        with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="fewer ops"):
            torch.compile(long_program, backend=failing)(x, x)
    (path,) = tmp_path.glob("repro_*.py")
    text = path.read_text()
    assert "cumsum" in text and ".sin(" not in text and "no cumsum here" in text
    torch._dynamo.register_backend(failing, name="failing")
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="no cumsum here"):
        runpy.run_path(str(path))


def test_wrong_results_leave_a_script(tmp_path: Any) -> None:
    x = torch.randn(4, 4)
    with torch._dynamo.config.patch(repro_after="dynamo", repro_level=4, debug_dir_root=str(tmp_path)):
        with pytest.raises(RuntimeError, match="op by op"):
            torch.compile(long_program, backend=wrong)(x, x)
        assert torch.compile(lambda x: x + 1, backend=wrong)(torch.ones(1)).item() == 2
    (path,) = tmp_path.glob("repro_*.py")
    assert "cumsum" in path.read_text()


def test_scripts_hold_inner_graphs() -> None:
    from rushlight.aot.repro import script

    graph = make_fx(lambda x: torch.cond(x.sum() > 0, lambda a: a.sin(), lambda a: a.cos(), (x,)))(torch.ones(3))
    text = script(graph, [torch.ones(3)], "inductor", "why")
    scope: dict[str, Any] = {"__name__": "repro"}
    exec(compile(text, "repro.py", "exec"), scope)      # compiles, runs and compares
    assert "Repro_true_graph_0" in scope
