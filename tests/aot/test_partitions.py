"""Partitions: what is saved, what is computed again, and that gradients do not depend on the choice.
AOTAutograd's public names."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight import nn
from rushlight._decomp import (
    core_aten_decompositions,
    get_decompositions,
    register_decomposition,
    remove_decompositions,
)
from rushlight._functorch import config
from rushlight.aot.capture import Captured, capture
from rushlight.aot.compile_graph import AotConfig, compile_captured
from rushlight.aot.max_flow import INFINITE, Network
from rushlight.aot.min_cut import min_cut_rematerialization_partition as min_cut
from rushlight.aot.partition import default_partition
from rushlight.functorch import compile as fc
from rushlight.fx.experimental.proxy_tensor import make_fx


def names(graph: Any) -> list[str]:
    return [str(n.target) for n in graph.graph.nodes if n.op == "call_function"]


def captured(f: Any, *tensors: Any) -> Captured:
    return capture(lambda values: [f(*values)], tensors, wants_grad=True)


def chain(x: Any, w: Any) -> Any:
    return (x @ w).sin().atan().sinh().cos() @ w


def arguments() -> tuple[Any, Any]:
    rl.manual_seed(0)
    return rl.randn(8, 8, requires_grad=True), rl.randn(8, 8, requires_grad=True)


def test_min_cut_against_all_cuts() -> None:
    chooser = random.Random(0)
    for _ in range(30):
        nodes = ["s", "a", "b", "c", "d", "t"]
        edges = [
            (p, q, chooser.randint(1, 9))
            for p, q in itertools.permutations(nodes, 2)
            if q != "s" and p != "t" and chooser.random() < 0.5
        ]
        network = Network()
        network.number("s"), network.number("t")
        for edge in edges:
            network.add(*edge)
        amount, near = network.min_cut("s", "t")
        best = min(sum(c for p, q, c in edges if p in side and q not in side)
                   for k in range(5) for chosen in itertools.combinations(nodes[1:-1],
                       k) for side in [{"s", *chosen}])
        assert amount == best == sum(c for p, q, c in edges if p in near and q not in near)


def test_flow_that_must_be_led_another_way() -> None:
    network = Network()
    # s-a-d-t comes first, and only without it do two paths fit
    for a, b in ("sa", "sc", "ad", "ab", "cd", "bt", "dt"):
        network.add(a, b, 1)
    assert network.min_cut("s", "t")[0] == 2


def test_a_network_that_cannot_be_cut() -> None:
    network = Network()
    network.add("s", "t", INFINITE)
    assert network.min_cut("s", "t")[0] >= INFINITE


def test_min_cut_saves_less_and_computes_pointwise_ops_again() -> None:
    x, w = arguments()
    it = captured(chain, x, w)
    plain, least = default_partition(it.graph, 1), min_cut(it.graph, 1)
    assert plain.saved_bytes == 5 * 8 * 8 * 4 and least.saved_bytes == 8 * 8 * 4
    assert names(least.forward).count("aten.matmul.default") == 2
    assert {"aten.sin.default", "aten.atan.default"} <= set(names(least.backward)) and "aten.sin.default" not in names(
        plain.backward
    )


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_processors_save_results_that_are_slow_to_compute_again(device: str) -> None:
    x, w = (t.detach().to(device).requires_grad_() for t in arguments())

    def f(x: Any, w: Any) -> Any:
        y = x @ w
        return y.tanh().sin() * y.sin()

    result = min_cut(captured(f, x, w).graph, 1)
    assert ("aten.tanh.default" in names(result.backward)) is (device == "meta")
    assert "aten.sin.default" in names(result.backward)
    assert result.saved_bytes == (1 if device == "meta" else 2) * 8 * 8 * 4


def test_gradients_are_equal_whatever_is_saved() -> None:
    x, w = arguments()
    expected = rl.autograd.grad(chain(x, w).sum(), (x, w))
    it = captured(chain, x, w)
    saved = []
    for budget in (None, 1, 0.6, 0.3, 0):
        options = {} if budget is None else {"memory_budget": budget}
        config_ = AotConfig(
            fc.nop, fc.nop, partition=default_partition if budget is None else min_cut, partition_options=options
        )
        region = compile_captured(it, config_)
        got = rl.autograd.grad(region([x, w])[0].sum(), (x, w))
        for a, b in zip(expected, got, strict=True):
            rl.testing.assert_close(b, a)
        saved.append(region.partition.saved_bytes)
    assert saved == sorted(saved, reverse=True) and saved[-1] == 0 < saved[1] < saved[0]
    with pytest.raises(ValueError, match="memory_budget"):
        min_cut(it.graph, 1, memory_budget=2)


def test_random_numbers_are_drawn_once() -> None:
    x = rl.ones(64, requires_grad=True)
    it = captured(lambda x: F.dropout(x.sin().exp(), 0.5).sin(), x)
    for budget in (1, 0):
        result = min_cut(it.graph, it.meta.num_results, memory_budget=budget)
        assert "aten.bernoulli_.default" in names(result.forward) and "aten.bernoulli_.default" not in names(
            result.backward
        )


def test_computed_again_just_before_it_is_used() -> None:
    def f(x: Any) -> Any:
        for _ in range(3):
            x = (x @ x).sin().atan()
        return x

    result = min_cut(captured(f, arguments()[0]).graph, 1)
    order = names(result.backward)
    first_product = order.index("aten.matmul.default")
    assert order[:first_product].count("aten.sin.default") < order.count("aten.sin.default")


def test_views_and_inputs_are_not_saved_again() -> None:
    x, w = arguments()
    result = default_partition(captured(lambda x, w: x @ w.t(), x, w).graph, 1)
    assert (
        result.saved_bytes == 0
        and {s.place for s in result.saved} == {"input"}
        and len(result.forward.graph.output_node().args[0]) == 1
    )


# --- PyTorch's names --------------------------------------------------------------------------------------------------


def test_aot_function_hands_both_graphs_out() -> None:
    graphs: list[Any] = []

    def compiler(gm: Any, inputs: Any) -> Any:
        assert len(inputs) == len(gm.graph.find_nodes(op="placeholder"))
        graphs.append(gm)
        return fc.make_boxed_func(gm.forward)

    x, w = arguments()
    for partition in (fc.default_partition, fc.min_cut_rematerialization_partition, _own_partition):
        graphs.clear()
        f = fc.aot_function(chain, compiler, compiler, partition_fn=partition)
        out = f(x, w)
        assert len(graphs) == 1      # the backward is compiled when it is needed
        for a, b in zip(rl.autograd.grad(out.sum(), (x, w)), rl.autograd.grad(chain(x, w).sum(), (x, w)), strict=True):
            rl.testing.assert_close(a, b)
        assert len(graphs) == 2


def _own_partition(joint: Any, inputs: Any, *, num_fwd_outputs: int) -> Any:
    forward, backward = fc.default_partition(joint, inputs, num_fwd_outputs=num_fwd_outputs)
    saved = len(forward.graph.output_node().args[0]) - num_fwd_outputs
    assert saved == len([n for n in backward.graph.find_nodes(op="placeholder") if "tangents" not in n.name])
    return forward, backward


def test_memory_budget_is_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    x, w = arguments()
    it = captured(chain, x, w)
    monkeypatch.setattr(config, "activation_memory_budget", 0.0)
    forward, _ = fc.min_cut_rematerialization_partition(it.graph, (), num_fwd_outputs=1)
    assert [n.op for n in forward.graph.output_node().args[0][1:]] == ["placeholder", "placeholder"]
    kept: list[int] = []
    run = rl.compile(chain, fullgraph=True, backend="aot_eager_decomp_partition")
    with rl.autograd.graph.saved_tensors_hooks(lambda t: (kept.append(t.data_ptr()), t)[1], lambda t: t):
        run(x, w)
    assert set(kept) == {x.data_ptr(), w.data_ptr()}


def test_aot_module_and_simplified() -> None:
    net = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    twin = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    twin.load_state_dict(net.state_dict())
    x = rl.randn(4, 3)
    result = fc.aot_module(net, fc.nop)
    expected = twin(x)
    assert rl.equal(result(x), expected) and set(dict(result.named_parameters())) == {
        f"orig_module.{n}" for n, _ in net.named_parameters()
    }
    assert rl.equal(net[1].running_mean, twin[1].running_mean)
    run = fc.aot_module_simplified(twin.eval(), (x,), fc.nop)
    assert rl.equal(run(x), twin(x))
    assert rl.equal(fc.memory_efficient_fusion(twin)(x), twin(x))
    with pytest.raises(NotImplementedError, match="functionalized"):
        fc.aot_function(chain, fc.nop, disable_functionalization=True)


def test_exported_forward() -> None:
    net = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    x = rl.randn(4, 3)
    graph, signature = fc.aot_export_module(net, (x,), trace_joint=False)
    assert (
        signature.parameters == ["0.weight", "0.bias", "1.weight", "1.bias"]
        and signature.buffers[0] == "1.running_mean"
    )
    assert set(signature.buffers_to_mutate.values()) == {"1.running_mean", "1.running_var", "1.num_batches_tracked"}
    with rl.no_grad():
        results = graph(*net.parameters(), *net.buffers(), x)
        assert len(results) == 4 and rl.allclose(results[-1], net(x))
    with pytest.raises(NotImplementedError, match="trace_joint"):
        fc.aot_export_module(net, (x,), trace_joint=True, output_loss_index=0)


def test_a_graph_as_text(tmp_path: Any) -> None:
    fc.draw_graph(make_fx(lambda x: x.sin())(rl.ones(2)), str(tmp_path / "graph.dot"))
    assert "sin" in (tmp_path / "graph.dot").read_text()
    with pytest.raises(ValueError, match=r"dot, svg"):
        fc.draw_graph(make_fx(lambda x: x.sin())(rl.ones(2)), str(tmp_path / "graph.jpeg2000"))


# --- decompositions ---------------------------------------------------------------------------------------------------


def test_decomposition_tables() -> None:
    table = get_decompositions([rl.ops.aten.linear, rl.ops.aten.softmax])
    x, w = rl.randn(2, 3), rl.randn(4, 3)
    f = make_fx(lambda x, w: F.linear(x, w).softmax(-1), decomposition_table=table)(x, w)
    assert not {"aten.linear.default", "aten.softmax.default"} & set(names(f))
    assert rl.allclose(f(x, w), F.linear(x, w).softmax(-1))
    core = core_aten_decompositions()
    assert set(table) <= set(core)
    remove_decompositions(core, [rl.ops.aten.linear])
    assert rl.ops.aten.linear.default not in core


def test_registered_decompositions() -> None:
    own: dict[Any, Any] = {}

    @register_decomposition(rl.ops.aten.sin, own)
    def sin(x: Any) -> Any:
        return x * 2

    with pytest.raises(RuntimeError, match="already"):
        register_decomposition(rl.ops.aten.sin.default, own)(sin)
    x = rl.ones(2, requires_grad=True)
    f = fc.aot_function(lambda x: x.sin() + x, fc.nop, decompositions=own)
    assert f(x).tolist() == [3.0, 3.0]
    with pytest.raises(TypeError, match="an op"):
        register_decomposition(3, own)(sin)


# --- sizes as symbols -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["aot_eager", "aot_eager_decomp_partition"])
def test_one_graph_for_many_sizes(backend: str) -> None:
    net = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 2))

    def f(x: Any) -> Any:
        y = net(x)
        return y.view(-1), y.sum(0) / x.shape[0], x[1:]

    run = rl.compile(f, fullgraph=True, dynamic=True, backend=backend)
    for n in (3, 5, 9):
        x = rl.randn(n, 4, requires_grad=True)
        got = run(x)
        for a, b in zip(f(x), got, strict=True):
            rl.testing.assert_close(b, a)
        expected = rl.autograd.grad(sum(t.sum() for t in f(x)), (x, *net.parameters()))
        for a, b in zip(expected, rl.autograd.grad(sum(t.sum() for t in got), (x, *net.parameters())), strict=True):
            rl.testing.assert_close(b, a)
    assert len(run.entries()) == 1


def test_of_equal_cuts_the_one_next_to_the_backward_is_taken():
    from rushlight.aot.max_flow import Network

    network = Network()
    for start, end in (("given", "a"), ("a", "b"), ("b", "c"), ("c", "backward")):
        network.add(start, end, 5 if start != "given" else 9)
    assert network.min_cut("given", "backward") == (5, {"given", "a", "b", "c"})
