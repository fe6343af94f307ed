"""What `onnx.load` gives: a module with the file's weights under their names, for all sizes, that trains and
travels."""

from __future__ import annotations

import copy
import io
import os
import pickle

import pytest

import rushlight as torch
from rushlight import fx, nn
from rushlight.onnx.model import Node
from tests.export.models import Call

from .files import BOOL, I64, model, node, value


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2))
        self.proj, self.norm, self.head = nn.Linear(8, 16), nn.LayerNorm(16), nn.Linear(16, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.proj(self.features(x).flatten(2).transpose(1, 2))
        return self.head(self.norm(nn.functional.gelu(x)).mean(1))


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    torch.manual_seed(0)
    net = Net().eval()
    path = str(tmp_path_factory.mktemp("onnx") / "net.onnx")
    x = torch.randn(2, 3, 8, 8)
    torch.onnx.export(net, (x,), path, input_names=["images"], dynamic_shapes=({0: "batch"},))
    return net, path, x


def test_weights_have_the_names_of_the_module_they_came_from(pair):
    net, path, _ = pair
    loaded = torch.onnx.load(path)
    assert isinstance(loaded, fx.GraphModule) and not loaded.training
    names = {n for n, _ in net.named_parameters()}
    assert names <= {n for n, _ in loaded.named_parameters()}
    assert {"features.1.running_mean", "features.1.running_var"} <= {n for n, _ in loaded.named_buffers()}
    assert not any(n.startswith("features.1.running") for n, _ in loaded.named_parameters())
    missing = loaded.load_state_dict(net.state_dict(), strict=False)
    assert missing.unexpected_keys == ["features.1.num_batches_tracked"]


def test_it_computes_the_same_for_every_batch_and_by_name(pair):
    net, path, x = pair
    loaded = torch.onnx.load(path)
    for batch in (1, 2, 5):
        many = torch.randn(batch, 3, 8, 8)
        torch.testing.assert_close(loaded(many), net(many), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(loaded(images=x), loaded(x), rtol=0, atol=0)


def test_gradients_are_those_of_the_module_it_came_from(pair):
    net, path, x = pair
    loaded = torch.onnx.load(path)
    net.zero_grad()
    net(x).square().sum().backward()
    loaded(x).square().sum().backward()
    own = dict(loaded.named_parameters())
    for name, p in net.named_parameters():
        torch.testing.assert_close(own[name].grad, p.grad, rtol=1e-4, atol=1e-5)


def test_training_obeys_train_and_eval(pair):
    _, path, x = pair
    loaded = torch.onnx.load(path)
    before = loaded.get_buffer("features.1.running_mean").clone()
    loaded.train()(x)
    assert not torch.equal(before, loaded.get_buffer("features.1.running_mean"))


@pytest.mark.parametrize("how", ["deepcopy", "pickle", "save"])
def test_copies_are_whole(pair, how):
    _, path, x = pair
    loaded = torch.onnx.load(path)
    if how == "deepcopy":
        other = copy.deepcopy(loaded)
    elif how == "pickle":
        other = pickle.loads(pickle.dumps(loaded))
    else:
        file = io.BytesIO()
        torch.save(loaded, file)
        file.seek(0)
        other = torch.load(file, weights_only=False)
    torch.testing.assert_close(other(images=x), loaded(x), rtol=0, atol=0)
    assert set(other.state_dict()) == set(loaded.state_dict())
    with pytest.raises(TypeError, match="'images' is missing"):
        other()


def test_types_and_devices_change_with_it(pair):
    _, path, x = pair
    loaded = torch.onnx.load(path, dtype=torch.float64)
    assert loaded(x.double()).dtype is torch.float64
    assert torch.onnx.load(path).double()(x.double()).dtype is torch.float64


def test_it_compiles_exports_and_is_written_again(pair):
    net, path, x = pair
    loaded = torch.onnx.load(path)
    with torch.no_grad():
        compiled = torch.compile(loaded, fullgraph=True, dynamic=True)
        torch.testing.assert_close(compiled(x), net(x), rtol=1e-4, atol=1e-5)
    program = torch.export.export(loaded, (x,), dynamic_shapes=({0: torch.export.Dim("b")},))
    assert all("onnx" not in str(n.target) for n in program.graph.nodes if n.op == "call_function")
    wide = torch.randn(7, 3, 8, 8)
    torch.testing.assert_close(program.module()(wide), net(wide), rtol=1e-5, atol=1e-6)
    again = torch.onnx.export(loaded, (x,), dynamic_shapes=({0: "batch"},))
    twice = torch.onnx.load(again.serialize())
    torch.testing.assert_close(twice(wide), net(wide), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("args", "kwargs", "error", "text"), [
    ((), {}, TypeError, "'images' is missing; it should be float"),
    ((1, 2), {}, TypeError, "takes 1 inputs"),
    ((3.0,), {}, TypeError, "'images' should be a tensor"),
    (("double",), {}, TypeError, "'images' should have elements of"),
    (("flat",), {}, ValueError, "'images' should have 4 dims"),
    (("thin",), {}, ValueError, "should have 3 elements in dim 1"),
    ((), {"pictures": 1}, TypeError, "no input 'pictures'; it takes images"),
    (("x",), {"images": "x"}, TypeError, "given twice"),
])
def test_arguments_that_do_not_fit_are_named(pair, args, kwargs, error, text):
    _, path, x = pair
    loaded = torch.onnx.load(path)
    kinds = {"double": x.double(), "flat": x[0], "thin": x[:, :2], "x": x}
    with pytest.raises(error, match=text):
        loaded(*[kinds.get(a, a) for a in args], **{k: kinds.get(v, v) for k, v in kwargs.items()})


def test_one_size_has_one_value():
    data = model([node("Concat", "a b", "y", axis=1)], [value("a", "n", 2), value("b", "n", 2)], [value("y", "n", 4)])
    with pytest.raises(ValueError, match="'n', which input 'a' has as 3"):
        torch.onnx.load(data)(torch.ones(3, 2), torch.ones(4, 2))


def test_sizes_stay_symbols():
    """Shape, Gather, Concat, Reshape: what exporters write for a view never becomes a number."""
    nodes = [node("Shape", "x", "s"), node("Gather", "s i", "n", axis=0), node("Unsqueeze", "n axes", "n1"),
             node("Concat", "n1 rest", "target", axis=0), node("Reshape", "x target", "y")]
    data = model(nodes, [value("x", "n", "m", 4)], [value("y", None, None)],
                 {"i": torch.tensor(0), "axes": torch.tensor([0]), "rest": torch.tensor([-1])})
    loaded = torch.onnx.load(data)
    for n, m in ((2, 3), (5, 1), (1, 7)):
        assert loaded(torch.ones(n, m, 4)).shape == (n, m * 4)
    dims = {0: torch.export.Dim("n"), 1: torch.export.Dim("m")}
    program = torch.export.export(loaded, (torch.ones(2, 3, 4),), dynamic_shapes=(dims,))
    assert program.module()(torch.ones(6, 5, 4)).shape == (6, 20)


def test_inputs_with_initializers_are_no_arguments():
    data = model([node("MatMul", "x w", "y")], [value("x", 1, 2), value("w", 2, 2)], [value("y", 1, 2)],
                 {"w": torch.eye(2)})
    loaded = torch.onnx.load(data)
    x = torch.tensor([[1.0, 2.0]])
    assert loaded(x).tolist() == [[1.0, 2.0]]
    assert loaded(x, w=2 * torch.eye(2)).tolist() == [[2.0, 4.0]]
    assert loaded(x).tolist() == [[1.0, 2.0]]


def test_names_that_python_cannot_have():
    data = model([node("Add", "in:0 a/b.w", "out:0")], [value("in:0", 2)], [value("out:0", 2)],
                 {"a/b.w": torch.ones(2)})
    loaded = torch.onnx.load(data)
    assert list(loaded.state_dict()) == ["a/b.w"]
    assert loaded(**{"in:0": torch.ones(2)}).tolist() == [2.0, 2.0] == loaded(torch.ones(2)).tolist()


def test_floats_that_no_gradient_reaches_are_buffers():
    nodes = [node("Less", "x bound", "small"), node("Where", "small x top", "y")]
    data = model(nodes, [value("x", 3)], [value("y", 3)], {"bound": torch.ones(1), "top": torch.full((1,), 9.0)})
    loaded = torch.onnx.load(data)
    assert [n for n, _ in loaded.named_parameters()] == ["top"]
    assert "bound" in dict(loaded.named_buffers())


def test_own_functions_stand_for_operators():
    data = model([node("Twice", "x", "y", domain="mine", by=3)], [value("x", 2)], [value("y", 2)], opsets={"mine": 1})
    with pytest.raises(torch.onnx.errors.UnsupportedOperatorError, match="Twice of mine"):
        torch.onnx.load(data)
    loaded = torch.onnx.load(data, custom_ops={("mine", "Twice"): scaled})
    assert loaded(torch.ones(2)).tolist() == [3.0, 3.0]
    other = model([node("Relu", "x", "y")], [value("x", 2)], [value("y", 2)])
    assert torch.onnx.load(other, custom_ops={("ai.onnx", "Relu"): torch.neg})(torch.ones(2)).tolist() == [-1, -1]


def scaled(x: torch.Tensor, *, by: int) -> torch.Tensor:
    return x * by


def test_everything_that_is_missing_is_named_at_once():
    nodes = [node("Nowhere", "x", "a"), node("Nowhere", "a", "b"), node("Gelu", "b", "c"), node("Odd", "c", "y", "far")]
    data = model(nodes, [value("x", 1)], [value("y", 1)], opset=13, opsets={"far": 2})
    with pytest.raises(torch.onnx.errors.UnsupportedOperatorError) as error:
        torch.onnx.load(data)
    text = str(error.value)
    assert "Nowhere of ai.onnx version 13" in text and "and 1 more" in text and "Odd of far version 2" in text
    assert "Gelu of ai.onnx version 13" in text and "from version 20 on" in text


def test_optional_inputs_may_be_left_out_and_results_may_be_many():
    nodes = [node("Clip", "x - high", "y"), node("Identity", "x", "z")]
    data = model(nodes, [value("x", 3)], [value("y", 3), value("z", 3)], {"high": torch.tensor(1.0)})
    y, z = torch.onnx.load(data)(torch.tensor([0.0, 1.0, 2.0]))
    assert y.tolist() == [0.0, 1.0, 1.0] and z.tolist() == [0.0, 1.0, 2.0]


def test_run_takes_lists_and_names(tmp_path):
    data = model([node("Sub", "a b", "y")], [value("a", 2, dtype=I64), value("b", 2, dtype=I64)], [value("y", 2,
                                                                                                         dtype=I64)])
    path = tmp_path / "m.onnx"
    path.write_bytes(data)
    for given in (data, path, str(path), io.BytesIO(data)):
        (y,) = torch.onnx.run(given, [torch.tensor([5, 5]), torch.tensor([1, 2])])
        assert y.tolist() == [4, 3]
    (y,) = torch.onnx.run(path, {"b": torch.tensor([1, 2]), "a": torch.tensor([5, 5])})
    assert y.tolist() == [4, 3]
    with pytest.raises(TypeError, match="list of inputs or a dict"):
        torch.onnx.run(path, torch.ones(2))


def test_weights_are_mapped_not_copied(tmp_path):
    path = str(tmp_path / "m.onnx")
    net = nn.Linear(64, 64)
    torch.onnx.export(net, (torch.ones(1, 64),), path, external_data=True)
    assert os.path.exists(path + ".data")
    loaded = torch.onnx.load(path)
    with torch.no_grad():
        loaded.weight.add_(1)            # stays in memory: the file is what it was
    torch.testing.assert_close(torch.onnx.load(path).weight, net.weight, rtol=0, atol=0)


def test_older_operators_keep_their_meaning():
    old = model([node("Softmax", "x", "y")], [value("x", 2, 2, 2)], [value("y", 2, 2, 2)], opset=11)
    new = model([node("Softmax", "x", "y")], [value("x", 2, 2, 2)], [value("y", 2, 2, 2)], opset=13)
    x = torch.randn(2, 2, 2)
    torch.testing.assert_close(torch.onnx.load(old)(x), x.flatten(1).softmax(1).reshape(2, 2, 2))
    torch.testing.assert_close(torch.onnx.load(new)(x), x.softmax(-1))
    add = Node("Add", ("x", "b"), ("y",), {"axis": 0, "broadcast": 1})
    data = model([add], [value("x", 2, 3), value("b", 2)], [value("y", 2, 3)], opset=6)
    assert torch.onnx.load(data)(torch.zeros(2, 3), torch.tensor([1.0, 2.0])).tolist() == [[1.0] * 3, [2.0] * 3]


def test_a_function_of_constants_is_computed_once():
    nodes = [node("Add", "i j", "k"), node("Gather", "x k", "y")]
    data = model(nodes, [value("x", 5)], [value("y", 1)], {"i": torch.tensor([1]), "j": torch.tensor([2])})
    loaded = torch.onnx.load(data)
    assert not {"i", "j"} & {n.target for n in loaded.graph.nodes if n.op == "get_attr"}
    assert loaded(torch.arange(5.0)).tolist() == [3.0]


def test_booleans_of_sizes():
    nodes = [node("Size", "x", "n"), node("Equal", "n two", "same"), node("Not", "same", "y")]
    data = model(nodes, [value("x", "n")], [value("y", dtype=BOOL)], {"two": torch.tensor(2)})
    loaded = torch.onnx.load(data)
    assert loaded(torch.ones(2)).item() is False and loaded(torch.ones(3)).item() is True


def test_weights_that_are_nodes_are_parameters_and_any_name_is_written_again():
    """Some exporters write weights as Constant nodes, under names that Python cannot have."""
    nodes = [node("Constant", "", "w@1", value=torch.eye(2)), node("Constant", "", "half", value=torch.tensor(0.5)),
             node("MatMul", "x w@1", "h"), node("Mul", "h half", "y")]
    loaded = torch.onnx.load(model(nodes, [value("x", "n", 2)], [value("y", "n", 2)]))
    assert [n for n, _ in loaded.named_parameters()] == ["w@1"]
    again = torch.onnx.export(loaded, (torch.ones(3, 2),), dynamic_shapes=({0: "n"},))
    assert torch.onnx.load(again.serialize())(torch.ones(1, 2)).tolist() == [[0.5, 0.5]]


class Scaled(nn.Module):
    """Parameters of one element and of several, a buffer, and numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.c_proj, self.scale = nn.Linear(3, 3), nn.Parameter(torch.tensor(2.0))
        self.register_buffer("shift", torch.randn(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.c_proj(x) * 1.5 + self.scale / 3).sin() * self.shift + torch.tensor([1.0, 2, 3])


def test_numbers_and_buffers_of_a_program_are_no_weights():
    net, x = Scaled().eval(), torch.randn(2, 3)
    program = torch.onnx.export(net, (x,), dynamic_shapes=({0: "rows"},))
    loaded = torch.onnx.load(program.serialize())
    assert {n for n, _ in loaded.named_parameters()} == {n for n, _ in net.named_parameters()}
    assert "shift" in loaded.state_dict()
    again = torch.onnx.load(torch.onnx.export(loaded, (x,)).serialize())
    assert {n for n, _ in again.named_parameters()} == {n for n, _ in net.named_parameters()}
    plain = torch.onnx.load(torch.onnx.export(Call(lambda x: x.sin() * 2 + 1), (x,)).serialize())
    assert not list(plain.parameters())
    for a in (loaded, again):
        torch.testing.assert_close(a(x), net(x))


def test_a_file_without_weights_takes_all_of_them_and_keeps_its_numbers(tmp_path):
    net, x = Scaled().eval(), torch.randn(2, 3)
    torch.onnx.export(net, (x,), tmp_path / "bare.onnx", export_params=False)
    loaded = torch.onnx.load(tmp_path / "bare.onnx")
    state = net.state_dict()
    names = loaded.arguments.names
    assert set(names[1:]) == set(state)
    torch.testing.assert_close(loaded(x, **{n: state[n] for n in names[1:]}), net(x))


@pytest.mark.parametrize("roles, names", [
    ({"w": "PARAMETER", "b": "BUFFER"}, ["w", "more"]),
    ({"w": "CONSTANT_TENSOR"}, ["b", "more"]),
    ({}, ["w", "b", "more"]),
])
def test_tensors_are_what_the_file_says_they_are(roles, names):
    t = {n: torch.ones(3) for n in ("w", "b", "more", "val_0", "val_1_2", "scalar_tensor_default")}
    chain = [node("Mul", "x w", "y0")]
    chain += [node("Add", f"y{k} {n}", f"y{k + 1}") for k, n in enumerate(list(t)[1:])]
    given = model(chain, [value("x", "n", 3)], [value("y5", "n", 3)], t, producer=("pytorch", "2.13"), roles=roles)
    assert [n for n, _ in torch.onnx.load(given).named_parameters()] == names
