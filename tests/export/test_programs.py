"""Exported programs: the graph PyTorch would make, the same numbers, and refusals in the user's words."""

from __future__ import annotations

import copy
import dataclasses

import pytest

import rushlight as rl
from rushlight import export as ex, nn
from rushlight._dynamo.exc import UserError
from rushlight.export import Dim, export
from rushlight.export.graph_signature import InputKind, OutputKind
from rushlight.fx.experimental.symbolic_shapes import ConstraintViolationError, GuardOnDataDependentSymNode
from tests.export.models import MODELS, Call, arguments, make, torch_arguments


def targets(graph) -> list[str]:
    return [str(n.target) for n in graph.nodes if n.op == "call_function" and "getitem" not in str(n.target)]


def close(a, b) -> None:
    for x, y in zip(rl.utils._pytree.tree_leaves(a), rl.utils._pytree.tree_leaves(b), strict=True):
        rl.testing.assert_close(x, y)


@pytest.mark.parametrize("name", [m for m in MODELS if m != "others"])
def test_graphs_name_what_pytorch_names(name):
    torch = pytest.importorskip("torch")
    ours, theirs = export(make(rl, name), arguments(rl, name)), torch.export.export(*torch_arguments(name))
    # PyTorch broadcasts losses in Python; its attention leaves results laid out otherwise, so that it copies less
    apart = ("aten.broadcast_tensors.default", "aten.contiguous.default")
    assert [t for t in targets(ours.graph) if t not in apart] == [t for t in targets(theirs.graph) if t not in apart]
    assert [n.name for n in ours.graph.find_nodes(op="placeholder")] == [
        n.name for n in theirs.graph.nodes if n.op == "placeholder"
    ]
    assert [(s.kind.name, s.target) for s in ours.graph_signature.input_specs] == [
        (s.kind.name, s.target) for s in theirs.graph_signature.input_specs
    ]


@pytest.mark.parametrize("name", MODELS)
def test_module_and_decompositions_compute_the_same(name):
    model, args = make(rl, name), arguments(rl, name)
    program = export(model, args)
    expected = copy.deepcopy(model)(*args)
    close(copy.deepcopy(program).module()(*args), expected)
    close(program.run_decompositions().module()(*args), expected)
    close(ex.unflatten(program)(*args), expected)


def test_targets_are_what_the_namespace_has():
    class Plain(nn.Module):
        def forward(self, x):
            return (x + x) * 2 - 1

    graph = export(Plain(), (rl.ones(3),)).graph
    aten = rl.ops.aten
    found = [n.target for n in graph.nodes if n.op == "call_function"]
    assert found == [aten.add.Tensor, aten.mul.Tensor, aten.sub.Tensor]
    assert found[0] != aten.add.Scalar and found[0] in {aten.add.Tensor}
    assert str(found[0]) == "aten.add.Tensor" and "torch.ops.aten.add.Tensor(x, x)" in graph.python_code("self").src


class Stateful(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3)
        self.register_buffer("seen", rl.zeros(4, 3))
        self.register_buffer("hidden", rl.ones(3), persistent=False)
        self.table = rl.tensor([1.0, 2.0, 3.0])

    def forward(self, x):
        self.seen[1] = x[0]
        self.seen[:, 2].add_(1)
        transposed = self.seen.t()
        transposed.mul_(2)
        y = x.clone()
        y[:, 0] = 5
        flat = y.view(-1)
        flat[2:4] = flat[2:4] + self.table[0]
        x.add_(1)
        return self.lin(self.seen.sum(0)) * self.hidden + y + transposed.sum(), flat


def test_state_is_in_the_signature_and_writes_are_values_once_decomposed():
    model = Stateful()
    program = export(copy.deepcopy(model), (rl.randn(2, 3),))
    s = program.graph_signature
    assert s.parameters == ("lin.weight", "lin.bias") and s.buffers == ("seen", "hidden")
    assert s.non_persistent_buffers == ("hidden",) and "table" in s.lifted_tensor_constants
    assert "hidden" not in program.state_dict and "hidden" in program.constants
    done = program.run_decompositions()
    kinds = [spec.kind for spec in done.graph_signature.output_specs]
    assert kinds == [OutputKind.BUFFER_MUTATION, OutputKind.USER_INPUT_MUTATION, *[OutputKind.USER_OUTPUT] * 2]
    assert not any(getattr(n.target, "inplace", False) for n in done.graph.nodes)
    a = rl.randn(2, 3)
    b, c = a.clone(), a.clone()
    expected, result = model(a), done.module()(b)
    close(result, expected)
    close(b, a)
    close(done.state_dict["seen"], model.seen)
    again = export(copy.deepcopy(Stateful()), (c.clone(),))
    assert again.dialect == "TRAINING" and done.dialect == "ATEN"


def first_elements(x, at):
    n = at[0].item()
    rl._check(n >= 0)
    rl._check(n <= 8)
    return x.narrow(0, 0, n) * 2


@pytest.mark.parametrize("function", [first_elements, rl.tensor_split])
def test_programs_that_read_elements_decompose(function):
    x, at = rl.randn(8), rl.tensor([2, 5])
    program = export(Call(function), (x, at))
    nodes = list(program.graph.nodes)
    done = program.run_decompositions()
    assert list(program.graph.nodes) == nodes and not done.graph_signature.lifted_tensor_constants
    for positions in (at, rl.tensor([1, 8]), rl.tensor([0, 0])):
        for one in (program, done):
            close(one.module()(x, positions), function(x, positions))
    with pytest.raises(RuntimeError, match="required|exceeds"):
        done.module()(x, rl.tensor([9, 9]))


@pytest.mark.parametrize("name", ["zeros_like", "ones_like", "full_like"])
def test_tensors_alike_on_a_named_device_are_one_node(name):
    def function(x):
        return getattr(rl, name)(x, *([2.0] if name == "full_like" else []), device="cpu", dtype=rl.float64)

    program = export(Call(function), (rl.randn(3),))
    (node,) = [n for n in program.graph.nodes if n.op == "call_function"]
    assert str(node.target) == f"aten.{name}.default" and node.kwargs["device"] == rl.device("cpu")
    for one in (program, program.run_decompositions()):
        close(one.module()(rl.randn(3)), function(rl.randn(3)))


def test_decomposition_tables_are_followed():
    class Two(nn.Module):
        def forward(self, x):
            return nn.functional.gelu(x).softmax(-1)

    program = export(Two(), (rl.randn(3),))
    table = ex.default_decompositions()
    table[rl.ops.aten.gelu.default] = lambda x: x * rl.sigmoid(1.702 * x)
    assert targets(program.run_decompositions(table).graph) == [
        "aten.mul.Tensor", "aten.sigmoid.default", "aten.mul.Tensor", "aten._softmax.default"]
    del table[rl.ops.aten.softmax.int]
    assert targets(program.run_decompositions(table).graph)[-1] == "aten.softmax.int"
    assert targets(program.run_decompositions({}).graph) == ["aten.gelu.default", "aten.softmax.int"]


# --- sizes ------------------------------------------------------------------------------------------------------------


class Pair(nn.Module):
    def forward(self, x, y):
        return x + y, x.reshape(x.shape[0] * 2, -1)


def test_dims_that_vary():
    batch = Dim("batch", min=2, max=16)
    program = export(Pair(), (rl.randn(4, 6), rl.randn(4, 6)), dynamic_shapes={"x": {0: batch}, "y": {0: batch}})
    assert [str(r) for r in program.range_constraints.values()] == ["VR[2, 16]"]
    run = program.module()
    assert run(rl.ones(9, 6), rl.ones(9, 6))[1].shape == (18, 3)
    for args, words in (
        ((rl.ones(17, 6), rl.ones(17, 6)), r"x\.size\(0\) must be at least 2 and at most 16, got 17"),
        ((rl.ones(4, 6), rl.ones(5, 6)), r"y\.size\(0\) must be x\.size\(0\) = 4, got 5"),
        ((rl.ones(4, 7), rl.ones(4, 7)), r"x\.size\(1\) must be 6.*got 7"),
        ((rl.ones(4, 6), rl.ones(4, 6, dtype=rl.float64)), r"y must be .*float32.*got .*float64"),
        ((rl.ones(4, 6, 1), rl.ones(4, 6)), "x must have 2 dims"),
    ):
        with pytest.raises(AssertionError, match=words):
            run(*args)
    with pytest.raises(ValueError, match="structure|arguments by place"):
        run(rl.ones(4, 6))


def test_derived_dims_and_integers():
    half = Dim("half")

    class Halves(nn.Module):
        def forward(self, x, y, n):
            return x[: y.shape[0]] + y * n

    program = export(Halves(), (rl.randn(8), rl.randn(4), 3),
                     dynamic_shapes={"x": {0: 2 * half}, "y": {0: half}, "n": Dim.DYNAMIC})
    rl.testing.assert_close(program.module()(rl.ones(6), rl.ones(3), 7), rl.full((3,), 8.0))
    with pytest.raises(AssertionError, match="size"):
        program.module()(rl.ones(7), rl.ones(3), 7)


@pytest.mark.parametrize(("shapes", "words", "fix"), [
    ({"x": {0: Dim("a")}, "y": {0: Dim("b")}}, "Dims 'b' and 'a' must be equal", "b = a"),
    ({"x": {0: Dim("a")}, "y": None}, "works for 8 only", "a = 8"),
    ({"x": {0: Dim.DYNAMIC}, "y": None}, "fixes it to 8", "Dim.AUTO"),
])
def test_dims_that_do_not_vary_are_refused_with_a_fix(shapes, words, fix):
    with pytest.raises(UserError) as error:
        export(Pair(), (rl.randn(8, 6), rl.randn(8, 6)), dynamic_shapes=shapes)
    assert words in str(error.value) and fix in str(error.value).partition("Suggested fixes:")[2]
    assert "test_programs.py" in str(error.value)


def test_bounds_and_multiples_are_refused_with_a_fix():
    class Bounded(nn.Module):
        def forward(self, x):
            return x + 1 if x.shape[0] > 5 else x

    class Even(nn.Module):
        def forward(self, x):
            return x.view(-1, 4)

    with pytest.raises(UserError, match=r"(?s)VR\[6, int_oo\].*a = Dim\('a', min=6\)"):
        export(Bounded(), (rl.randn(8),), dynamic_shapes=({0: Dim("a")},))
    with pytest.raises(UserError, match=r"(?s)multiple of 4.*a = 4\*_a"):
        export(Even(), (rl.randn(8),), dynamic_shapes=({0: Dim("a")},))
    program = ex.draft_export(Bounded(), (rl.randn(8),), dynamic_shapes=({0: Dim("a")},))
    assert not program._report.successful() and "VR[6" in str(program._report)
    assert program.module()(rl.zeros(9)).sum() == 9


def test_collections_of_shapes_and_more_examples():
    class Nested(nn.Module):
        def forward(self, pair, *, scale):
            return pair["a"][0] * scale + pair["b"]

    a, b, scale = rl.randn(4, 3), rl.randn(4, 3), rl.ones(3)
    shapes, batch = ex.ShapesCollection(), Dim("batch")
    shapes[a], shapes[b] = {0: batch}, {0: batch}
    program = export(Nested(), ({"a": [a], "b": b},), {"scale": scale}, dynamic_shapes=shapes)
    assert program.module()({"a": [rl.ones(7, 3)], "b": rl.ones(7, 3)}, scale=scale).shape == (7, 3)
    assert [n.name for n in program.graph.find_nodes(op="placeholder")] == ["pair_a_0", "pair_b", "scale"]
    more = ex.AdditionalInputs()
    more.add(({"a": [rl.ones(9, 3)], "b": rl.ones(9, 3)},), {"scale": scale})
    program = export(Nested(), ({"a": [a], "b": b},), {"scale": scale}, dynamic_shapes=more)
    more.verify(program)
    shapes[rl.ones(2)] = {0: batch}
    with pytest.raises(ValueError, match="no arguments"):
        export(Nested(), ({"a": [a], "b": b},), {"scale": scale}, dynamic_shapes=shapes)


@pytest.mark.parametrize(("shapes", "words"), [
    ({"x": {5: Dim("a")}, "y": None}, "has 2 dims"), (({0: Dim("a")},), "one entry for each argument"),
    ({"z": None}, "entries for the arguments"), ({"x": {0: "a"}, "y": None}, "expected a Dim"),
    ({"x": {0: Dim("a", max=4)}, "y": None}, "does not admit"), ({"x": {0: 5}, "y": None}, "declared to be 5"),
    (3, "expected a dict"),
])
def test_descriptions_that_do_not_fit_are_refused(shapes, words):
    kinds = {"has 2 dims": IndexError, "does not admit": ConstraintViolationError}
    with pytest.raises(kinds.get(words, UserError), match=words):
        export(Pair(), (rl.randn(8, 6), rl.randn(8, 6)), dynamic_shapes=shapes)


# --- refusals ---------------------------------------------------------------------------------------------------------


class Looks(nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x


class Keeps(nn.Module):
    def forward(self, x):
        self.kept = x
        return x


def test_programs_that_are_no_graph_are_refused():
    x = rl.ones(3)
    words = r"elements of a tensor.*test_programs\.py:\d+: return x if x\.sum"
    with pytest.raises(GuardOnDataDependentSymNode, match=words):
        export(Looks(), (x,))
    keeps = Keeps()
    with pytest.warns(UserWarning, match=r"changes Keeps\.kept"):
        export(keeps, (x,))
    assert not hasattr(keeps, "kept")
    with pytest.raises(UserError, match="tuple"):
        export(Pair(), x)
    with pytest.raises(TypeError, match="do not fit"):
        export(Pair(), (x,))
    with pytest.raises(ValueError, match="expected a Module"):
        export(lambda x: x, (x,))
    program = export(Pair(), (rl.ones(2, 2), rl.ones(2, 2)))
    with pytest.raises(RuntimeError, match=r"module\(\)"):
        program(x, x)
    with pytest.raises(NotImplementedError, match="mode it was exported in"):
        program.module().train()


def test_fixed_arguments_are_checked():
    class Flagged(nn.Module):
        def forward(self, x, flag, name=None):
            return x * 2 if flag else x

    run = export(Flagged(), (rl.ones(2), True)).module()
    assert run(rl.ones(2), True).sum() == 4
    with pytest.raises(AssertionError, match="flag was True"):
        run(rl.ones(2), False)


def test_dataclasses_are_containers():
    @dataclasses.dataclass
    class Point:
        x: rl.Tensor
        y: rl.Tensor

    class Moves(nn.Module):
        def forward(self, p):
            return Point(p.x + 1, p.y * 2)

    with pytest.raises(ValueError, match="register"):
        export(Moves(), (Point(rl.ones(2), rl.ones(2)),))
    ex.register_dataclass(Point, serialized_type_name="tests.Point")
    result = export(Moves(), (Point(rl.ones(2), rl.ones(2)),)).module()(Point(rl.ones(2), rl.ones(2)))
    assert isinstance(result, Point) and result.x.sum() == 4 and result.y.sum() == 4


def test_unflatten_keeps_modules_and_shared_calls():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.lin, self.norm = nn.Linear(4, 4), nn.LayerNorm(4)

        def forward(self, x):
            return self.norm(self.lin(x).relu()) + x

    class Stack(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList([Block(), Block()])

        def forward(self, x):
            for block in self.blocks:
                x = block(x)
            return self.blocks[0](x)

    model, x = Stack(), rl.randn(3, 4)
    tree = ex.unflatten(export(model, (x,)))
    close(tree(x), model(x))
    assert {n for n, _ in tree.named_modules()} == {n for n, _ in model.named_modules()}
    assert list(model.state_dict()) == list(tree.state_dict())


def test_inputs_have_kinds():
    program = export(Stateful(), (rl.randn(2, 3),))
    kinds = {s.target or s.arg.name: s.kind for s in program.graph_signature.input_specs}
    assert kinds["lin.weight"] is InputKind.PARAMETER and kinds["seen"] is InputKind.BUFFER
    assert kinds["table"] is InputKind.CONSTANT_TENSOR and kinds["x"] is InputKind.USER_INPUT
    assert dict(program.named_parameters())["lin.bias"] is program.state_dict["lin.bias"]
    assert [n for n, _ in program.named_buffers()] == ["seen", "hidden"]


class Switched(nn.Module):
    """Python decides, by arguments that are no tensors; running statistics are written to."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(3)

    def forward(self, x, scale=2.0, *, flag=True):
        y = self.norm(x * scale)
        return {"y": y.relu() if flag else y}


def test_strict_gives_the_same_graph_and_changes_nothing():
    model, x = Switched(), rl.randn(4, 3)
    before = model.norm.running_mean.clone()
    program = export(model, (x,), {"flag": True}, strict=True)
    assert program.graph_module.code == export(model, (x,), {"flag": True}).graph_module.code
    assert rl.equal(model.norm.running_mean, before) and int(model.norm.num_batches_tracked) == 0


def test_strict_names_the_line_that_cannot_be_captured():
    match = r"export\(strict=True\): .*(?s:.)*test_programs\.py:\d+ in Looks.forward"
    with pytest.raises(rl._dynamo.exc.Unsupported, match=match):
        export(Looks(), (rl.ones(2),), strict=True)
