"""Recurrent layers in compiled graphs: one op for each layer and direction, and one for its gradients."""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight.aot.capture import capture
from rushlight.fx.experimental.proxy_tensor import make_fx

KINDS = {"lstm": rl.nn.LSTM, "gru": rl.nn.GRU, "rnn": rl.nn.RNN}


def names(graph) -> list[str]:
    return [node.target.name.split(".")[0] for node in graph.graph.nodes if node.op == "call_function"
            and hasattr(node.target, "name")]


@pytest.mark.parametrize("kind", KINDS)
def test_a_layer_is_one_op_of_a_graph_that_keeps_layers(kind):
    network, x = KINDS[kind](4, 6, 2), rl.randn(5, 3, 4)
    parameters = list(network.parameters())

    def function(given):
        return [rl.func.functional_call(network, dict(zip(by_name, given[1:], strict=True)), (given[0],))[0]]

    by_name = [name for name, _ in network.named_parameters()]
    kept = names(capture(function, [x, *parameters], wants_grad=True, keeps_layers=True).graph)
    assert kept.count(f"_{kind}_layer") == kept.count(f"_{kind}_layer_backward") == 2
    other = names(capture(function, [x, *parameters], wants_grad=True).graph)
    assert f"_{kind}_layer" not in other and len(other) > 3 * len(kept)


def test_traces_for_others_have_ordinary_ops():
    network = rl.nn.LSTM(4, 6).requires_grad_(False)
    graph = make_fx(lambda x: network(x)[0], tracing_mode="fake")(rl.randn(5, 3, 4))
    assert "_lstm_layer" not in graph.code


@pytest.mark.parametrize("width", [6, 16, 64])
@pytest.mark.parametrize("kind", KINDS)
def test_compiled_layers_equal_eager_ones(kind, width):
    network = KINDS[kind](4, width, 2, bidirectional=True)
    x, first = rl.randn(5, 3, 4).requires_grad_(), rl.randn(4, 3, width).requires_grad_()
    states = (first, first.detach() * 2) if kind == "lstm" else first
    found = []
    for run in (network, rl.compile(network, fullgraph=True)):
        out, last = run(x, states)
        total = out.sin().sum() + (last[1] if kind == "lstm" else last).sum()
        found.append([out, *rl.autograd.grad(total, [x, first, *network.parameters()])])
    for eager, compiled in zip(*found, strict=True):
        rl.testing.assert_close(compiled, eager)
