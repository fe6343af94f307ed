"""The graph of a loaded file: ATen calls for tensors of all sizes; passes, tracers and copies take it like any."""

from __future__ import annotations

import copy
import pickle

import pytest

import rushlight as torch
from rushlight import fx, nn

from .files import model, node, value

aten = torch.ops.aten


def targets(module: fx.GraphModule) -> list:
    return [n.target for n in module.graph.nodes if n.op in ("call_function", "call_module")]


def are_aten(module: fx.GraphModule) -> bool:
    return all("importing" not in getattr(t, "__module__", "") and not isinstance(t, str) for t in targets(module))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.drop = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Dropout(0.5)
        self.head = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.conv(x)).relu().flatten(2).mean(-1)
        return self.head(self.drop(x))


@pytest.fixture(scope="module")
def pair():
    torch.manual_seed(0)
    net, x = Net().eval(), torch.randn(2, 3, 6, 6)
    program = torch.onnx.export(net, (x,), input_names=["images"], dynamic_shapes=({0: "batch", 2: "h", 3: "w"},))
    return net, program.serialize(), x


def loaded(pair) -> fx.GraphModule:
    found = torch.onnx.load(pair[1])
    assert are_aten(found)
    return found


def test_the_graph_holds_aten_calls_for_all_sizes(pair):
    net, data, x = pair
    module = loaded(pair)
    assert {aten.batch_norm.default, aten.relu.default, aten.linear.default} <= set(targets(module))
    for shape in ((1, 3, 6, 6), (5, 3, 4, 9), (2, 3, 1, 1)):
        many = torch.randn(shape)
        torch.testing.assert_close(module(many), net(many), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(module(x), torch.onnx.load(data)(x), rtol=0, atol=0)
    assert set(module.state_dict()) == set(torch.onnx.load(data).state_dict())
    assert "aten.batch_norm" in module.code and "importing" not in module.code


def test_gradients_are_those_of_the_module_it_came_from(pair):
    net, _, x = pair
    module = loaded(pair)
    net.zero_grad()
    net(x).square().sum().backward()
    module(x).square().sum().backward()
    own = dict(module.named_parameters())
    for name, p in net.named_parameters():
        torch.testing.assert_close(own[name].grad, p.grad, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("first", ["train", "graph"])
def test_training_and_evaluation_reach_the_calls(first):
    nodes = [node("BatchNormalization", "x s b m v", "h"), node("Dropout", "h ratio", "y")]
    data = model(nodes, [value("x", "n", 2)], [value("y", "n", 2)], {
        "s": torch.ones(2), "b": torch.zeros(2), "m": torch.zeros(2), "v": torch.ones(2), "ratio": torch.tensor(0.5)})
    module = torch.onnx.load(data)
    if first == "train":
        module.train()
        assert are_aten(module)
    else:
        assert are_aten(module)
        module.train()
    assert aten.dropout.default in targets(module)
    x = torch.randn(200, 2) + 3
    y = module(x)
    assert (y == 0).sum() > 50 and module.m[0] > 0.1 and abs(y[y != 0].mean().item()) < 0.5
    module.eval()
    assert (module(x) == module(x)).all() and (module(x) == 0).sum() == 0


@pytest.mark.parametrize("how", ["deepcopy", "pickle"])
@pytest.mark.parametrize("looked", [True, False])
def test_copies_are_whole_before_and_after_the_graph_is_looked_at(pair, how, looked):
    net, data, x = pair
    module = loaded(pair) if looked else torch.onnx.load(data)
    other = copy.deepcopy(module) if how == "deepcopy" else pickle.loads(pickle.dumps(module))
    torch.testing.assert_close(other(images=x), module(x), rtol=0, atol=0)
    assert are_aten(other) and set(other.state_dict()) == set(module.state_dict())
    torch.testing.assert_close(other(x), net(x), rtol=1e-4, atol=1e-5)
    assert module.double()(x.double()).dtype is torch.float64


def test_passes_change_what_it_computes(pair):
    module, x = loaded(pair), pair[2]
    before = module(x)
    for n in module.graph.nodes:
        if n.target is aten.relu.default:
            n.target = aten.tanh.default
    module.recompile()
    assert not torch.allclose(module(x), before)


def test_tracers_and_interpreters_take_it(pair):
    net, data, x = pair
    for module in (loaded(pair), torch.onnx.load(data)):
        for found in (fx.symbolic_trace(module), fx.Interpreter(module).run, fx.experimental.proxy_tensor.make_fx(
                module)(x)):
            torch.testing.assert_close(found(x), net(x), rtol=1e-4, atol=1e-5)


def test_it_compiles_and_exports_as_it_is(pair):
    net, _, x = pair
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(loaded(pair), fullgraph=True)(x), net(x), rtol=1e-4, atol=1e-5)
    program = torch.onnx.export(loaded(pair), (x,), dynamic_shapes=({0: "batch"},))
    many = torch.randn(7, 3, 6, 6)
    torch.testing.assert_close(torch.onnx.load(program.serialize())(many), net(many), rtol=1e-4, atol=1e-5)


def view(*sizes: object) -> bytes:
    """What exporters write for x.view(x.size(0), x.size(1) * 2, -1)."""
    nodes = [node("Shape", "x", "s"), node("Gather", "s i", "n", axis=0), node("Gather", "s j", "m", axis=0),
             node("Mul", "m two", "m2"), node("Unsqueeze", "n zero", "n1"), node("Unsqueeze", "m2 zero", "m1"),
             node("Concat", "n1 m1 rest", "target", axis=0), node("Reshape", "x target", "y")]
    return model(nodes, [value("x", *sizes)], [value("y", None, None, None)],
                 {"i": torch.tensor(0), "j": torch.tensor(1), "two": torch.tensor(2), "zero": torch.tensor([0]),
                  "rest": torch.tensor([-1])})


def test_sizes_that_inputs_decide_are_read_from_tensors():
    module = torch.onnx.load(view("n", "m", 4))
    assert are_aten(module) and any("sym_size" in str(t) for t in targets(module))
    for n, m in ((2, 3), (1, 1), (7, 1)):
        assert module(torch.ones(n, m, 4)).shape == (n, 2 * m, 2)


def test_inputs_of_unknown_rank_leave_the_rules_calls():
    data = model([node("Relu", "x", "h"), node("Neg", "h", "y")], [value("x")], [value("y")])
    module = torch.onnx.load(data)
    module.graph.lint()
    assert module(torch.tensor(-1.0)).item() == 0


def test_what_hangs_on_equal_sizes_stays_a_call_of_its_rule():
    """Squeeze without axes: how many dims are left is known when it runs."""
    data = model([node("Squeeze", "x", "h"), node("Neg", "h", "y")], [value("x", "n", "m")], [value("y", None)])
    module = torch.onnx.load(data)
    module.graph.lint()
    assert module(torch.ones(1, 3)).shape == (3,) and module(torch.ones(2, 1)).shape == (2,)
    assert module(torch.ones(2, 3)).shape == (2, 3) and module(torch.ones(1, 1)).shape == ()


def test_a_dim_of_varying_size_is_squeezed_when_it_has_one_element():
    data = model([node("Squeeze", "x axes", "h"), node("Neg", "h", "y")], [value("x", "n", "m")], [value("y", None)],
                 {"axes": torch.tensor([1])})
    module = torch.onnx.load(data)
    module.graph.lint()
    assert module(torch.ones(3, 1)).shape == (3,)
    with pytest.raises((RuntimeError, ValueError)):
        module(torch.ones(3, 2))


def test_broadcasting_of_two_sizes_is_not_guessed():
    """x has one row or as many as y: sizes of the sum are those of the sum."""
    nodes = [node("Add", "x y", "h"), node("Shape", "h", "s"), node("ConstantOfShape", "s", "o"),
             node("Add", "h o", "z")]
    data = model(nodes, [value("x", "n", 2), value("y", "m", 2)], [value("z", None, 2)])
    module = torch.onnx.load(data)
    assert are_aten(module)
    for n, m in ((1, 4), (4, 1), (3, 3)):
        assert module(torch.ones(n, 2), torch.ones(m, 2)).shape == (max(n, m), 2)


def test_sizes_as_reals_make_ranges():
    """The grids of detectors: arange(float(size)) + 0.5."""
    nodes = [node("Shape", "x", "s"), node("Gather", "s i", "n", axis=0), node("Cast", "n", "f", to=1),
             node("Div", "f two", "half"), node("Floor", "half", "whole"), node("Range", "start whole step", "r"),
             node("Mul", "r r", "y")]
    data = model(nodes, [value("x", "n", 2)], [value("y", None)],
                 {"i": torch.tensor(0), "start": torch.tensor(0.0), "step": torch.tensor(1.0),
                  "two": torch.tensor(2.0)})
    for look in (False, True):
        module = torch.onnx.load(data)
        assert not look or are_aten(module)
        for n in (1, 5, 8):
            assert module(torch.ones(n, 2)).tolist() == [float(k * k) for k in range(n // 2)]
    program = torch.export.export(module, (torch.ones(4, 2),), dynamic_shapes=({0: torch.export.Dim("n")},))
    assert program.module()(torch.ones(9, 2)).tolist() == [0, 1, 4, 9]


def test_own_operators_become_their_ops():
    data = model([node("Twice", "x", "y", domain="mine")], [value("x", "n")], [value("y", "n")], opsets={"mine": 1})
    module = torch.onnx.load(data, custom_ops={("mine", "Twice"): lambda x: x + x})
    assert targets(module) == [aten.add.Tensor] and module(torch.ones(3)).tolist() == [2.0] * 3


def boxes(most: int = 3) -> bytes:
    nodes = [node("NonMaxSuppression", "b s most iou", "k"), node("Cast", "k", "y", to=1)]
    return model(nodes, [value("b", 1, "n", 4), value("s", 1, 1, "n")], [value("y", None, 3)],
                 {"most": torch.tensor([most]), "iou": torch.tensor([0.5])})


def test_non_max_suppression_is_one_op_of_graphs():
    b = torch.tensor([[[0.0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 2, 1, 3], [0, 4, 1, 5]]])
    s = torch.tensor([[[0.9, 0.8, 0.7, 0.1]]])
    want = [[0, 0, 0], [0, 0, 2], [0, 0, 3]]
    module = torch.onnx.load(boxes())
    assert module(b, s).tolist() == want and are_aten(module) and module(b, s).tolist() == want
    dims = {1: torch.export.Dim("n")}, {2: torch.export.Dim("n")}
    program = torch.export.export(module, (b, s), dynamic_shapes=dims)
    assert program.module()(b, s).tolist() == want and program.module()(b[:, :2], s[..., :2]).tolist() == want[:1]
    again = torch.onnx.export(module, (b, s), dynamic_shapes=dims)
    assert "NonMaxSuppression" in [n.op for n in again.model.graph.nodes]
    assert torch.onnx.load(again.serialize())(b, s).tolist() == want
