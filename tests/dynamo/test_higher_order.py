"""Ops over functions: eager results are PyTorch's; make_fx, export and AOTAutograd record them, with gradients."""

from __future__ import annotations

from typing import Any

import pytest

import rushlight as torch
from rushlight import nn
from rushlight._higher_order_ops import NotRecordable, associative_scan, map as map_function, scan, while_loop
from rushlight.fx.experimental.proxy_tensor import make_fx

pytestmark = pytest.mark.share(2)   # of each test that has several cases

AROUND = torch.linspace(-1, 1, 5)


def data() -> torch.Tensor:
    return torch.randn(4, 5, generator=torch.Generator().manual_seed(1))


def branches(x: Any) -> Any:
    return torch.cond(x.sum() > 0, lambda a: a.sin() + AROUND, lambda a: {"y": a.cos()}["y"], (x,))


def loop(x: Any) -> Any:
    return while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * 2 + AROUND), (torch.zeros((), dtype=torch.int64), x))


def scanned(x: Any) -> Any:
    return scan(lambda c, r: (c + r * AROUND, (c * r,)), x[0] * 1, x)


def mapped(x: Any) -> Any:
    return map_function(lambda r, k: (r * k).sin() + AROUND, x, 2.0)


def prefixes(x: Any) -> Any:
    return associative_scan(lambda a, b: a + b, x, 1, combine_mode="generic")


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
@pytest.mark.parametrize("function", [branches, loop, scanned, mapped, prefixes])
def test_recorded_by_make_fx(function: Any, mode: str) -> None:
    graph = make_fx(function, tracing_mode=mode)(data())
    for x in (data().abs(), -data().abs()):
        torch.testing.assert_close(graph(x), function(x))


def gradients(x: Any) -> Any:
    w, v = x.detach().requires_grad_(), (x[0] * 2).detach().requires_grad_()
    y = torch.cond(x.sum() > 0, lambda a: (a * v).sin(), lambda a: a.cos() * 2 + v, (w,))
    carry, steps = scan(lambda c, r: (c * r + v, c + r), w[0] * 1.0, w)
    rows = map_function(lambda r, k: (r * k).sin() + v, w, v)
    loss = y.sum() + carry.sum() + (steps * steps).sum() + rows.sum()
    return torch.autograd.grad(loss, (w, v))


@pytest.mark.parametrize("mode", ["real", "fake"])
def test_gradients_are_recorded(mode: str) -> None:
    graph = make_fx(gradients, tracing_mode=mode)(data())
    for x in (data().abs(), -data().abs()):
        torch.testing.assert_close(graph(x), gradients(x))


def test_both_branches_are_in_the_graph() -> None:
    graph = make_fx(branches)(data())
    targets = [node.target for node in graph.graph.nodes]
    assert torch.ops.higher_order.cond in targets
    assert {"true_graph_0", "false_graph_0"} <= set(targets)


class Program(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(5, 5)

    def forward(self, x: Any) -> Any:
        y = torch.cond(x.sum() > 0, lambda a: self.linear(a) + torch.tensor(1.0), lambda a: a - 1, (x,))
        return y, loop(x), scanned(x), mapped(x)


def test_exported() -> None:
    module = Program()
    program = torch.export.export(module, (data(),))
    plain = program.run_decompositions()
    for x in (data().abs(), -data().abs()):
        torch.testing.assert_close(program.module()(x), module(x))
        torch.testing.assert_close(plain.module()(x), module(x))


@pytest.mark.parametrize("function", [branches, scanned, mapped])
def test_compiled_with_gradients(function: Any) -> None:
    compiled = torch.compile(function, fullgraph=True)
    for x in (data().abs(), -data().abs()):
        found = []
        for run in (function, compiled):
            leaf = x.clone().requires_grad_()
            sum(t.sum() for t in torch.utils._pytree.tree_leaves(run(leaf)) if t.requires_grad).backward()
            found.append(leaf.grad)
        torch.testing.assert_close(found[1], found[0])


def test_random_numbers_inside_are_drawn_once() -> None:
    """Gradients would draw others: the graph runs op by op, and says so under fullgraph."""
    def noisy(x: Any) -> Any:
        return torch.cond(x.sum() > 0, lambda a: nn.functional.dropout(a, 0.5), lambda a: a * 1, (x,))

    found = []
    for run in (noisy, torch.compile(noisy)):
        torch.manual_seed(3)
        leaf = data().abs().requires_grad_()
        y = run(leaf)
        y.sum().backward()
        found.append((y.detach(), leaf.grad))
    torch.testing.assert_close(found[1], found[0])
    with pytest.warns(UserWarning, match="op by op: .*random numbers"):
        torch.compile(noisy, fullgraph=True)(data().abs().requires_grad_())


def test_gradients_of_gradients_of_while_loop_run_op_by_op(capsys: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("RUSHLIGHT_SHOW", "breaks")

    def norm(x: Any) -> Any:
        (g,) = torch.autograd.grad((loop(x)[1] ** 3).sum(), x, create_graph=True)
        return (g * g).sum()

    found = []
    for run in (norm, torch.compile(norm)):
        x = data().requires_grad_()
        run(x).backward()
        found.append(x.grad)
    torch.testing.assert_close(*found)
    said = capsys.readouterr()
    assert "op by op" in said.err + said.out
    with pytest.raises(NotRecordable):
        make_fx(norm, tracing_mode="fake")(data().requires_grad_())


def test_vmap_over_a_predicate_chooses_by_example() -> None:
    p, x = torch.tensor([1.0, -1.0]), torch.ones(2, 3)
    y = torch.vmap(lambda p, x: torch.cond(p > 0, lambda a: a * 2, lambda a: -a, (x,)))(p, x)
    torch.testing.assert_close(y, torch.tensor([[2.0] * 3, [-1.0] * 3]))


@pytest.mark.parametrize("call", [
    lambda x: torch.cond(x, lambda: x, lambda: x),
    lambda x: torch.cond(x.sum(), lambda: x, lambda: x),
    lambda x: torch.cond(x.sum() > 0, None, lambda: x),
    lambda x: torch.cond(x.sum() > 0, lambda: x, lambda: x, x),
    lambda x: scan(lambda c, r: (c, r), x[0], x[:0]),
    lambda x: scan(lambda c, r: c, x[0], x),
    lambda x: scan(lambda c, r: (c[:2], r), x[0], x),
    lambda x: map_function(lambda r: r, (x, x[:2])),
    lambda x: associative_scan(torch.add, x, 0, combine_mode="other"),
    lambda x: while_loop(lambda a: a.sum() < 0, lambda a: (a, a), (-x.abs(),)),
])
def test_refused(call: Any) -> None:
    with pytest.raises((RuntimeError, ValueError)):
        call(data())


def test_against_pytorch() -> None:
    theirs = pytest.importorskip("torch")
    from torch._higher_order_ops.map import map as their_map
    from torch._higher_order_ops.scan import scan as their_scan

    if not hasattr(theirs._C, "_dispatch_keys"):
        pytest.skip("torch is this package")
    x = data()
    y = theirs.tensor(x.tolist())
    for dim in (0, 1):
        for reverse in (False, True):
            def step(c: Any, r: Any) -> Any:
                return c * 0.5 + r, c - r

            ours = scan(step, x.select(dim, 0), x, dim=dim, reverse=reverse)
            other = their_scan(step, y.select(dim, 0).clone(), y, dim=dim, reverse=reverse)
            for a, b in zip(ours, other, strict=True):
                torch.testing.assert_close(a, torch.tensor(b.tolist()))
    other = their_map(lambda r, k: r.sin() * k, y, theirs.arange(5.0))
    ours = map_function(lambda r, k: r.sin() * k, x, torch.arange(5.0))
    torch.testing.assert_close(ours, torch.tensor(other.tolist()))


@pytest.mark.parametrize("function", [branches, loop, scanned, mapped])
def test_recorded_graphs_are_compiled(function: Any) -> None:
    """Graphs call the ops themselves, with graphs as functions."""
    graph = make_fx(function)(data())
    compiled = torch.compile(graph, fullgraph=True)
    for x in (data().abs(), -data().abs()):
        torch.testing.assert_close(compiled(x), function(x))


def by_cond(lib: Any, x: Any) -> Any:
    return lib.cond(x.sum() > 100, lambda a: a.sin(), lambda a: a.cos() * 3, (x,))


def by_scan(lib: Any, x: Any) -> Any:
    from importlib import import_module

    return import_module(f"{lib.__name__}._higher_order_ops.scan").scan(
        lambda c, r: (c * 0.5 + r.sin(), c * r), x[0] * 1.0, x)[1]


def by_map(lib: Any, x: Any) -> Any:
    from importlib import import_module

    return import_module(f"{lib.__name__}._higher_order_ops.map").map(lambda r: r.sin() * r, x)


def by_associative_scan(lib: Any, x: Any) -> Any:
    from importlib import import_module

    scans = import_module(f"{lib.__name__}._higher_order_ops.associative_scan")
    return scans.associative_scan(lambda a, b: a + b + a * b, x * 0.3, 0, combine_mode="generic")


def by_flex_attention(lib: Any, x: Any) -> Any:
    from importlib import import_module

    q = x.reshape(1, 1, *x.shape)
    return import_module(f"{lib.__name__}.nn.attention.flex_attention").flex_attention(
        q, q * 0.5, q + 1, score_mod=lambda score, b, h, i, j: score + (i - j) * 0.25)


@pytest.mark.parametrize("function", [by_cond, by_scan, by_map, by_associative_scan, by_flex_attention])
def test_results_and_gradients_against_pytorch(function: Any) -> None:
    theirs = pytest.importorskip("torch")
    if not hasattr(theirs._C, "_dispatch_keys"):
        pytest.skip("torch is this package")
    other = theirs.tensor(data().tolist()).requires_grad_()
    if function is by_flex_attention:      # which has no gradients on PyTorch's CPU: those are of the formula
        with theirs.no_grad():
            shown = by_flex_attention(theirs, other.detach())
        place = theirs.arange(len(other))
        scores = other @ (other * 0.5).T / other.shape[1] ** 0.5 + (place[:, None] - place) * 0.25
        expected = (scores.softmax(-1) @ (other + 1))[None, None]
        theirs.testing.assert_close(shown, expected.detach())
    else:
        expected = function(theirs, other)
    expected.square().sum().backward()
    for run in (function, torch.compile(function, backend="aot_eager")):
        x = data().requires_grad_()
        result = run(torch, x)
        torch.testing.assert_close(result, torch.tensor(expected.tolist()))
        result.square().sum().backward()
        torch.testing.assert_close(x.grad, torch.tensor(other.grad.tolist()))
