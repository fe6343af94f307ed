"""One plan for many sizes of a graph: results are eager mode's, for sizes that the compiler never saw."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.aot.graphs import backend as graph_backend
from rushlight.compiler import driver
from rushlight.fx.experimental.proxy_tensor import make_fx
from rushlight.inductor.compile_fx import compile_graph
from rushlight.inductor.sized import Sized

F = nn.functional


def sized(function: Callable, *args: Any) -> Sized:
    """The function's graph with symbolic sizes, compiled."""
    graph = make_fx(function, tracing_mode="symbolic", _own_ops=True)(*args)
    examples = [node.meta.get("val") for node in graph.graph.find_nodes(op="placeholder")]
    made = compile_graph(graph, examples)
    assert isinstance(made, Sized)
    return made


def check(made: Sized, function: Callable, *args: Any) -> None:
    expected = function(*args)
    expected = expected if isinstance(expected, (tuple, list)) else [expected]
    for a, b in zip(made(list(args)), expected, strict=True):
        if isinstance(b, rl.Tensor):
            assert (a.dtype, a.shape, a.stride()) == (b.dtype, b.shape, b.stride())
            rl.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)
        else:
            assert a == b


def rows(count: int, width: int = 24) -> rl.Tensor:
    return rl.randn(count, width)


def softmax_of_a_sum(x: rl.Tensor) -> rl.Tensor:
    return (x.relu() + x.mean(-1, keepdim=True)).softmax(-1)


def mean_by_hand(x: rl.Tensor) -> rl.Tensor:
    return x.sum(0) / x.shape[0]


def joined_heads(x: rl.Tensor) -> rl.Tensor:
    return x.view(x.shape[0], 4, 6).transpose(0, 1).reshape(x.shape[0] * 4, 6).exp()


def halves(x: rl.Tensor) -> rl.Tensor:
    return rl.cat([x[: x.shape[0] // 2], x[x.shape[0] // 2 :]], 0).cumsum(0)


def shape_as_result(x: rl.Tensor) -> tuple:
    return x * 2, x.shape[0] * 3


def made_inside(x: rl.Tensor) -> rl.Tensor:
    return rl.arange(x.shape[0]).unsqueeze(1) + x.tril()


def softmax_by_count(x: rl.Tensor) -> rl.Tensor:
    return (x / x.shape[0]).softmax(-1)


FUNCTIONS = [softmax_by_count, softmax_of_a_sum, mean_by_hand, joined_heads, halves, shape_as_result, made_inside]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_other_sizes_need_no_other_plan(function: Callable) -> None:
    made = sized(function, rows(6))
    for count in (6, 10, 34, 8, 50, 6, 12):
        check(made, function, rows(count))
    assert made.compilations <= 2


def test_a_size_that_equals_another_by_chance_is_a_condition() -> None:
    made = sized(softmax_of_a_sum, rows(6))
    check(made, softmax_of_a_sum, rows(24))
    for count in (7, 9):
        check(made, softmax_of_a_sum, rows(count))


def test_sizes_that_tracing_took_for_one_are_refused() -> None:
    made = sized(softmax_of_a_sum, rows(24))
    check(made, softmax_of_a_sum, rows(24))
    with pytest.raises(RuntimeError, match="size 1 of input 0 of 7, as other sizes .* got 24"):
        made([rows(7)])


def test_strides_of_other_calls_are_looked_at() -> None:
    made = sized(softmax_of_a_sum, rows(6))
    check(made, softmax_of_a_sum, rows(9))
    check(made, softmax_of_a_sum, rl.randn(24, 9).t())
    check(made, softmax_of_a_sum, rl.randn(9, 48)[:, ::2])


def test_one_row_and_no_row() -> None:
    made = sized(softmax_of_a_sum, rows(6))
    check(made, softmax_of_a_sum, rows(1))
    check(made, softmax_of_a_sum, rows(0))
    check(made, softmax_of_a_sum, rows(5))


def test_numbers_are_inputs_too() -> None:
    def scaled(x: rl.Tensor, times: int) -> rl.Tensor:
        return x.repeat(times, 1) * times

    made = sized(scaled, rows(4), 3)
    for count, times in ((4, 3), (5, 2), (6, 7)):
        check(made, scaled, rows(count), times)


def test_a_bad_index_is_named_for_every_size() -> None:
    table = rl.randn(10, 4)

    def look(index: rl.Tensor) -> rl.Tensor:
        return F.embedding(index, table) * 2

    made = sized(look, rl.randint(0, 10, (6,)))
    check(made, look, rl.randint(0, 10, (8,)))
    with pytest.raises(IndexError):
        made([rl.tensor([1, 2, 30, 4, 5])])


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.norm = nn.Embedding(30, 16), nn.LayerNorm(16)
        self.mix, self.out = nn.MultiheadAttention(16, 4, batch_first=True), nn.Linear(16, 30)

    def forward(self, tokens: rl.Tensor) -> rl.Tensor:
        x = self.embed(tokens)
        mixed, _ = self.mix(x, x, x, need_weights=False)
        return self.out(F.dropout(self.norm(x + mixed), 0.1, self.training))


def gradients(model: nn.Module, call: Callable, tokens: rl.Tensor) -> Sequence[rl.Tensor]:
    rl.manual_seed(7)
    model.zero_grad()
    F.cross_entropy(call(tokens).flatten(0, 1), tokens.flatten()).backward()
    return [p.grad.clone() for p in model.parameters()]


def test_training_captures_once_for_all_batches_and_lengths() -> None:
    rl.manual_seed(0)
    model = Block()
    compiled = rl.compile(model, dynamic=True, fullgraph=True)
    for batch, length in ((4, 8), (3, 8), (5, 6), (2, 11), (7, 9), (6, 20)):
        tokens = rl.randint(0, 30, (batch, length))
        for a, b in zip(gradients(model, compiled, tokens), gradients(model, model, tokens), strict=True):
            rl.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
    assert len(compiled._run[0].__func__.entries()) == 1


def test_inference_prepares_weights_once_for_all_sizes() -> None:
    rl.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8)).eval()
    compiled = rl.compile(model, dynamic=True)
    with rl.no_grad():
        for count in (32, 48, 5):
            x = rl.randn(count, 64)
            rl.testing.assert_close(compiled(x), model(x), rtol=1e-5, atol=1e-5)
        model[0].weight.mul_(2)
        x = rl.randn(40, 64)
        rl.testing.assert_close(compiled(x), model(x), rtol=1e-5, atol=1e-5)


def test_a_graph_with_symbols_is_captured_once() -> None:
    def loss(x: rl.Tensor, w: rl.Tensor, times: int) -> tuple:
        return ((x @ w).relu().sum(0) * times / x.shape[0],)

    graph = make_fx(loss, tracing_mode="symbolic")(rl.randn(6, 8), rl.randn(8, 5), 3)
    for node in graph.graph.find_nodes(op="placeholder"):
        node.meta["example_value"] = node.meta.get("val")
    example = [rl.randn(6, 8, requires_grad=True), rl.randn(8, 5, requires_grad=True), 3]
    made = graph_backend.compile_with(driver.config_of("inductor", None))(graph, example)
    for count, times in ((6, 3), (9, 2), (4, 7), (30, 4)):
        x, w = rl.randn(count, 8, requires_grad=True), rl.randn(8, 5, requires_grad=True)
        got, expected = made([x, w, times]), loss(x, w, times)
        rl.testing.assert_close(got[0], expected[0])
        for a, b in zip(*[rl.autograd.grad(r[0].sum(), (x, w)) for r in (got, expected)], strict=True):
            rl.testing.assert_close(a, b)
    assert len(made.compiled.general) == 1


FACTORED = {"qr": lambda x: rl.linalg.qr(x)[1], "svd": rl.linalg.svdvals, "inv": rl.linalg.inv}


@pytest.mark.parametrize("function", FACTORED.values(), ids=FACTORED)
def test_matrices_of_other_sizes_are_factored_as_they_are(function: Callable) -> None:
    made = sized(function, rl.randn(2, 4, 4))
    for count, size in ((2, 4), (3, 4), (3, 6), (2, 40)):
        check(made, function, rl.randn(count, size, size) + 3 * rl.eye(size))
