"""Graphs in graphs: If, Loop, Scan, SequenceMap, functions of a model, and Gradient, with derivatives through them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

import rushlight as torch
from rushlight import fx
from rushlight.onnx.wire import Message

from .files import BOOL, I64, graph, model, node, value

ONE = torch.tensor(1)


def chosen() -> bytes:
    """y = x * w where the sum of x is positive, else -x; the weight is read from around the graph."""
    then = graph([node("Mul", "x w", "t")], [], [value("t", 2)])
    other = graph([node("Neg", "x", "e")], [], [value("e", 2)])
    nodes = [node("ReduceSum", "x", "s", keepdims=0), node("Greater", "s zero", "c"),
             node("If", "c", "y", then_branch=then, else_branch=other)]
    return model(nodes, [value("x", 2)], [value("y", 2)], {"w": torch.tensor([2.0, 3.0]), "zero": torch.tensor(0.0)})


def test_if_takes_one_branch_with_gradients_to_what_it_captures():
    loaded = torch.onnx.load(chosen())
    assert loaded(torch.tensor([1.0, 1.0])).tolist() == [2.0, 3.0]
    assert loaded(torch.tensor([-1.0, -1.0])).tolist() == [1.0, 1.0]
    loaded(torch.tensor([1.0, 4.0])).sum().backward()
    assert loaded.w.grad.tolist() == [1.0, 4.0]


def test_if_of_a_size_is_decided_when_it_is_traced():
    then, other = [graph([node(op, "x", "t")], [], [value("t", None)]) for op in ("Neg", "Abs")]
    nodes = [node("Size", "x", "n"), node("Equal", "n two", "c"),
             node("If", "c", "y", then_branch=then, else_branch=other)]
    loaded = torch.onnx.load(model(nodes, [value("x", "n")], [value("y", "n")], {"two": torch.tensor(2)}))
    assert loaded(torch.ones(2)).tolist() == [-1, -1] and loaded(torch.ones(3)).tolist() == [1, 1, 1]


def power(scanned: bool = True) -> bytes:
    """x w w w ..., n times, and every product on the way."""
    outputs = [value("go", dtype=BOOL), value("now", 2), *([value("row", 2)] if scanned else [])]
    body = graph([node("Mul", "was w", "now"), node("Identity", "keep", "go"), node("Identity", "now", "row")],
                 [value("i", dtype=I64), value("keep", dtype=BOOL), value("was", 2)], outputs)
    nodes = [node("Loop", "n - x", "y rows", body=body)]
    return model(nodes, [value("x", 2), value("n", dtype=I64)], [value("y", 2), value("rows", "n", 2)],
                 {"w": torch.tensor([2.0, 3.0])})


def test_loop_runs_as_often_as_it_is_told_with_gradients():
    loaded = torch.onnx.load(power())
    y, rows = loaded(torch.ones(2), torch.tensor(3))
    assert y.tolist() == [8.0, 27.0] and rows.tolist() == [[2, 3], [4, 9], [8, 27]]
    y.sum().backward()
    assert loaded.w.grad.tolist() == [12.0, 27.0]


def test_scan_runs_over_slices_backwards_too():
    body = graph([node("Add", "total x", "next"), node("Identity", "next", "row")], [value("total", 2), value("x", 2)],
                 [value("next", 2), value("row", 2)])
    for back, expected in ((0, [[1, 1], [3, 3], [6, 6]]), (1, [[6, 6], [5, 5], [3, 3]])):
        nodes = [node("Scan", "start xs", "last rows", body=body, num_scan_inputs=1, scan_input_directions=[back],
                      scan_output_directions=[back])]
        loaded = torch.onnx.load(model(nodes, [value("start", 2), value("xs", "t", 2)],
                                       [value("last", 2), value("rows", "t", 2)]))
        xs = torch.tensor([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]], requires_grad=True)
        last, rows = loaded(torch.zeros(2), xs)
        assert rows.tolist() == expected and last.tolist() == [6, 6]
        rows.sum().backward()
        assert xs.grad.sum().item() == 12


def test_nested_graphs_read_from_all_that_is_around_them():
    inner = graph([node("Add", "x w", "a"), node("Mul", "a was", "b")], [], [value("b", 1)])
    other = graph([node("Identity", "was", "b")], [], [value("b", 1)])
    body = graph([node("If", "keep", "now", then_branch=inner, else_branch=other), node("Identity", "keep", "go")],
                 [value("i", dtype=I64), value("keep", dtype=BOOL), value("was", 1)],
                 [value("go", dtype=BOOL), value("now", 1)])
    loaded = torch.onnx.load(model([node("Loop", "n yes x", "y", body=body)], [value("x", 1), value("n", dtype=I64)],
                                   [value("y", 1)], {"w": torch.ones(1), "yes": torch.tensor(True)}))
    assert loaded(torch.tensor([2.0]), torch.tensor(2)).item() == 2 * 3 * 3


def functions(*defined: Message) -> bytes:
    data = model([node("Twice", "x", "h", "mine", by=3.0), node("Twice", "h", "y", "mine")], [value("x", 2)],
                 [value("y", 2)], opsets={"mine": 1})
    whole = Message()
    whole.put(data)
    for f in defined:
        whole.message(25, f)
    return bytes(whole)


def twice(calls: str = "Mul") -> Message:
    """by * x, by being 2 unless the call says otherwise."""
    constant = Message().text(2, "c").text(4, "Constant").message(
        5, Message().text(1, "value_float").text(21, "by").integer(20, 1))
    product = Message().text(1, "x").text(1, "c").text(2, "y").text(4, calls)
    found = Message().text(1, "Twice").text(4, "x").text(5, "y").message(7, constant).message(7, product)
    opset = Message().text(1, "").integer(2, 20)
    return found.message(9, opset).text(10, "mine").message(11, Message().text(1, "by").real(2, 2.0).integer(20, 1))


def test_functions_of_a_model_are_their_bodies():
    loaded = torch.onnx.load(functions(twice()))
    assert loaded(torch.ones(2)).tolist() == [6.0, 6.0]
    with pytest.raises(torch.onnx.errors.UnsupportedOperatorError, match="Twice of mine"):
        torch.onnx.load(functions())


def test_functions_that_call_themselves_are_refused():
    loop = Message().text(1, "x").text(2, "y").text(4, "Twice").text(7, "mine")
    found = Message().text(1, "Twice").text(4, "x").text(5, "y").message(7, loop).text(10, "mine")
    with pytest.raises(ValueError, match="calls itself"):
        torch.onnx.load(functions(found))


def test_gradient_differentiates_the_graph_it_is_in():
    nodes = [node("Mul", "x x", "xx"), node("Mul", "xx w", "y"),
             node("Gradient", "x w", "dx dw", "ai.onnx.preview.training", xs=["x", "w"], y="y"),
             node("Gradient", "x w", "ddx ddw", "ai.onnx.preview.training", xs=["x", "w"], y="dx")]
    inputs = [value("x", 2), value("w", 2)]
    loaded = torch.onnx.load(model(nodes, inputs, [value(n, 2) for n in ("dx", "dw", "ddx", "ddw")],
                                   opsets={"ai.onnx.preview.training": 1}))
    dx, dw, ddx, ddw = loaded(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]))
    assert dx.tolist() == [6, 16] and dw.tolist() == [1, 4] and ddx.tolist() == [6, 8] and ddw.tolist() == [2, 4]


def test_sequences_are_lists_and_are_mapped_over():
    body = graph([node("Mul", "e f", "r")], [value("e", None), value("f", 1)], [value("r", None)])
    nodes = [node("SequenceConstruct", "x x2", "s"), node("SequenceMap", "s k", "m", body=body),
             node("SequenceLength", "m", "n"), node("SequenceAt", "m one", "last")]
    loaded = torch.onnx.load(model(nodes, [value("x", 2), value("x2", 3)], [value("m", None), value("n", dtype=I64),
                                                                         value("last", None)],
                                   {"k": torch.tensor([2.0]), "one": ONE}))
    many, count, last = loaded(torch.ones(2), torch.ones(3))
    assert isinstance(many, list) and [len(v) for v in many] == [2, 3] and count.item() == 2
    assert last.tolist() == [2.0] * 3
    last.sum().backward()
    assert loaded.k.grad.tolist() == [3.0]


@pytest.mark.parametrize("op", ["If", "Loop", "Scan"])
def test_a_node_without_its_graph_is_refused(op):
    inputs = [value("x", 2), value("c", dtype=BOOL)]
    names = {"If": "c", "Loop": "- c x", "Scan": "x"}[op]
    with pytest.raises(ValueError, match="has no graph|scans"):
        torch.onnx.load(model([node(op, names, "y")], inputs, [value("y", 2)]))


# --- in graphs that are made of them ----------------------------------------------------------------------------------


def stopping(yields: bool) -> bytes:
    """x times w, nine times at most, until the sum is 100; and every product on the way."""
    outputs = [value("go", dtype=BOOL), value("now", 2), *([value("row", 2)] if yields else [])]
    body = graph([node("Mul", "was w", "now"), node("ReduceSum", "now", "s", keepdims=0), node("Less", "s bound", "go"),
                  node("Identity", "now", "row")],
                 [value("i", dtype=I64), value("keep", dtype=BOOL), value("was", 2)], outputs)
    nodes = [node("Loop", "n yes x", "y rows" if yields else "y", body=body)]
    return model(nodes, [value("x", 2)], [value("y", 2), *([value("rows", None, 2)] if yields else [])],
                 {"w": torch.full((2,), 2.0), "n": torch.tensor(9), "bound": torch.tensor(100.0),
                  "yes": torch.tensor(True)})


def growing() -> bytes:
    """x with three more ones: its size changes at every step."""
    body = graph([node("Concat", "was one", "now", axis=0), node("Identity", "keep", "go")],
                 [value("i", dtype=I64), value("keep", dtype=BOOL), value("was", None)],
                 [value("go", dtype=BOOL), value("now", None)])
    return model([node("Loop", "n - x", "y", body=body)], [value("x", 2)], [value("y", None)],
                 {"one": torch.ones(1), "n": torch.tensor(3)})


def running(back: int) -> bytes:
    body = graph([node("Add", "total x", "next"), node("Mul", "next w", "row")], [value("total", 2), value("x", 2)],
                 [value("next", 2), value("row", 2)])
    nodes = [node("Scan", "start xs", "last rows", body=body, num_scan_inputs=1, scan_input_directions=[back],
                  scan_output_directions=[back])]
    return model(nodes, [value("start", 2), value("xs", "t", 2)], [value("last", 2), value("rows", "t", 2)],
                 {"w": torch.full((2,), 3.0)})


X = torch.tensor([1.0, 2.0])
PROGRAMS = {
    "cond": (chosen(), [(X,), (-X,)]),
    "scan of steps": (power(), [(X, torch.tensor(n)) for n in (3, 5, 1, 0)]),
    "while_loop": (stopping(False), [(X,), (30 * X,), (X / 100,)]),
    "while_loop with rows": (stopping(True), [(X,), (30 * X,), (X / 100,)]),
    "none": (growing(), [(X,), (-X,)]),
    "scan": (running(0), [(X, torch.randn(3, 2)), (-X, torch.randn(3, 2))]),
    "scan backwards": (running(1), [(X, torch.randn(3, 2)), (-X, torch.randn(3, 2))]),
}


def parts(result: object) -> list:
    return list(result) if isinstance(result, (tuple, list)) else [result]


def gradients(function: Callable, args: Sequence[torch.Tensor], weights: Sequence[torch.Tensor]) -> list:
    given = [a.clone().requires_grad_() if a.is_floating_point() else a for a in args]
    total = sum(r.square().sum() for r in parts(function(*given)))
    return torch.autograd.grad(total, [*(a for a in given if a.requires_grad), *weights], allow_unused=True)


def check(function: Callable, loaded: fx.GraphModule, inputs: Sequence, differentiates: bool = True) -> None:
    for args in inputs:
        torch.testing.assert_close(parts(function(*args)), parts(loaded(*args)))
    if differentiates:
        weights = [p for n, p in loaded.named_parameters() if n == "w"]
        own = [p for n, p in getattr(function, "__self__", function).named_parameters() if n.endswith("w")]
        torch.testing.assert_close(gradients(function, inputs[0], own), gradients(loaded, inputs[0], weights))


@pytest.mark.parametrize("name", PROGRAMS)
def test_graphs_in_graphs_are_compiled_whole(name):
    data, inputs = PROGRAMS[name]
    loaded = torch.onnx.load(data)
    check(torch.compile(loaded, fullgraph=True), loaded, inputs)


@pytest.mark.parametrize("name", PROGRAMS)
def test_graphs_in_graphs_are_ops_over_functions_when_exported(name):
    data, inputs = PROGRAMS[name]
    loaded = torch.onnx.load(data)
    program = torch.export.export(loaded, inputs[0])
    ops = [n.target.name for n in program.graph.nodes if "higher_order" in str(n.target)]
    assert ops == ([] if name == "none" else [name.split()[0]])
    check(program.module(), loaded, inputs)


@pytest.mark.parametrize("name", PROGRAMS)
def test_graphs_in_graphs_are_written_again(name):
    data, inputs = PROGRAMS[name]
    loaded = torch.onnx.load(data)
    again = torch.onnx.load(torch.onnx.export(loaded, inputs[0]).serialize())
    check(again, loaded, inputs, differentiates=False)


@pytest.mark.parametrize("name", PROGRAMS)
def test_graphs_in_graphs_stay_what_they_are_when_the_graph_is_looked_at(name):
    data, inputs = PROGRAMS[name]
    looked = torch.onnx.load(data)
    looked.graph.lint()
    if name in ("cond", "while_loop", "scan"):
        assert [n.target.name for n in looked.graph.nodes if "higher_order" in str(n.target)] == [name]
    check(looked, torch.onnx.load(data), inputs)


def test_an_if_of_which_one_graph_fits_is_that_one_and_checks():
    then = graph([node("MatMul", "x w", "t")], [], [value("t", None)])
    other = graph([node("MatMul", "w x", "e")], [], [value("e", None)])
    nodes = [node("If", "c", "y", then_branch=then, else_branch=other)]
    data = model(nodes, [value("x", 2, 3), value("c", dtype=BOOL)], [value("y", None)], {"w": torch.ones(3, 4)})
    loaded, x = torch.onnx.load(data), torch.randn(2, 3)
    with pytest.warns(UserWarning, match="only one graph of an If, that for True"):
        program = torch.export.export(loaded, (x, torch.tensor(True))).module()
    torch.testing.assert_close(program(x, torch.tensor(True)), loaded(x, torch.tensor(True)))
    with pytest.raises(RuntimeError, match="required"):
        program(x, torch.tensor(False))


def test_rows_of_a_loop_without_a_bound_are_refused_by_graphs():
    body = graph([node("Add", "was was", "now"), node("ReduceSum", "now", "s", keepdims=0), node("Less", "s top", "go"),
                  node("Identity", "now", "row")], [value("i", dtype=I64), value("keep", dtype=BOOL), value("was", 2)],
                 [value("go", dtype=BOOL), value("now", 2), value("row", 2)])
    data = model([node("Loop", "- yes x", "y rows", body=body)], [value("x", 2)], [value("rows", None, 2)],
                 {"top": torch.tensor(9.0), "yes": torch.tensor(True)})
    loaded = torch.onnx.load(data)
    assert loaded(torch.ones(2)).tolist() == [[2, 2], [4, 4], [8, 8]]
    with pytest.raises(NotImplementedError, match="a row at each step"):
        torch.export.export(loaded, (torch.ones(2),))


def test_decisions_by_sizes_are_made_in_python():
    """If(Cast(Not(Equal(Size(Shape(x)), 2)))): how exporters of traced recurrent layers ask for the number of dims."""
    nodes = [node("Shape", "x", "s"), node("Size", "s", "rank"), node("Equal", "rank two", "e"), node("Not", "e", "n"),
             node("Cast", "n", "c", to=9), node("And", "c yes", "d"),
             node("If", "d", "y", then_branch=graph([node("Unsqueeze", "x zero", "t")], [], [value("t", None)]),
                  else_branch=graph([node("Identity", "x", "e")], [], [value("e", None)]))]
    data = model(nodes, [value("x", "n", 4)], [value("y", None)],
                 {"two": torch.tensor(2), "zero": torch.tensor([0]), "yes": torch.tensor(True)})
    loaded = torch.onnx.load(data)
    program = torch.export.export(loaded, (torch.ones(3, 4),), dynamic_shapes=({0: torch.export.Dim("n")},))
    assert program.module()(torch.ones(5, 4)).shape == (5, 4) and loaded(torch.ones(5, 4)).shape == (5, 4)
