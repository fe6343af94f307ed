"""Graphs as `torch._C` hands them out: read, walked, changed, and made functions again."""

from __future__ import annotations

import subprocess
import sys

import pytest

import rushlight as rl

C = rl._C
TEXT = """graph(%x : Tensor, %n : int):
  %one : int = prim::Constant[value=1]()
  %a : Tensor = aten::add(%x, %n, %one)
  %go : bool = aten::gt(%n, %one)
  %b : Tensor = prim::If(%go)
    block0():
      %c : Tensor = aten::mul(%a, %n)
      -> (%c)
    block1():
      -> (%a)
  return (%b)
"""


def test_a_graph_is_walked() -> None:
    graph = C.parse_ir(TEXT)
    assert [value.debugName() for value in graph.inputs()] == ["x", "n"]
    add = graph.findNode("aten::add")
    assert add.kind() == "aten::add" and add.inputsSize() == 3 and add.inputsAt(2).toIValue() == 1
    assert add.schema().startswith("aten::add.Scalar(Tensor self") and add.namedInput("alpha").toIValue() == 1
    assert add.matches("aten::add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor")
    assert graph.findNode("aten::mul", recurse=False) is None
    mul, = graph.findAllNodes("aten::mul")
    choice = graph.findNode("prim::If")
    assert mul.owningBlock().owningNode() is choice and [len(list(b.nodes())) for b in choice.blocks()] == [1, 0]
    assert add.isBefore(mul) and choice.isAfter(add) and graph.block() is add.owningBlock()
    assert {use.user.kind() for use in add.output().uses()} == {"aten::mul", "prim::Return"}
    assert graph.return_node().inputsAt(0).node() is choice and graph.param_node().outputsSize() == 2
    constant = graph.findNode("prim::Constant")
    assert constant.attributeNames() == ["value"] and constant.kindOf("value") == "i" and constant.i("value") == 1
    with pytest.raises(IndexError, match="nothing"):
        constant.i("nothing")
    with pytest.raises(RuntimeError, match="kind 'i'"):
        constant.s("value")


def test_a_graph_is_changed_and_runs() -> None:
    graph = C.parse_ir(TEXT)
    add = graph.findNode("aten::add")
    with graph.insert_point_guard(add):
        two = graph.insertConstant(2)
    add.replaceInput(2, two)
    relu = graph.create("aten::relu", [graph.return_node().inputsAt(0)], 1)
    graph.appendNode(relu)
    graph.eraseOutput(0)
    graph.registerOutput(relu.output().setDebugName("rectified"))
    graph.lint()
    made = C._create_function_from_graph("forward", graph)
    assert rl.equal(made(rl.tensor([-9.0, 1.0]), 3), rl.tensor([0.0, 21.0]))
    assert [a.name for a in made.schema.arguments] == ["x", "n"] and "torch.relu" in made.code
    copy = graph.copy()
    relu.output().replaceAllUsesWith(add.output())
    relu.destroy()
    assert "aten::relu" in str(copy) and "aten::relu" not in str(graph)
    with pytest.raises(RuntimeError):
        add.destroy()
    assert rl.equal(made(rl.tensor([-9.0, 1.0]), 3), rl.tensor([0.0, 21.0]))       # it has a graph of its own


def test_nodes_have_attributes_of_every_kind() -> None:
    graph = C.Graph()
    node = graph.create("my::op", 2).i_("i", 1).f_("f", 0.5).s_("s", "word").ss_("ss", ["a"]).t_("t", rl.ones(1))
    getattr(node, "is_")("is", [1, 2])
    node.g_("g", C.Graph()).ty_("ty", C.IntType.get()).tys_("tys", [C.ListType.ofInts()])
    assert node.outputsSize() == 2 and getattr(node, "is")("is") == [1, 2] and node.ty("ty").kind() == "IntType"
    assert node.removeAttribute("f").hasAttribute("f") is False and node.hasAttributes()
    other = graph.create("my::other", []).copyAttributes(node)
    assert other.s("s") == "word" and other.attributeNames() == node.attributeNames()
    made = graph.addInput("x").setType(C.TensorType.get())
    made.inferTypeFrom(rl.ones(2, 3))
    assert made.isCompleteTensor() and made.type().sizes() == [2, 3] and not made.requires_grad()
    graph.makeMultiOutputIntoTuple()
    assert str(graph.outputs()[0].type()) == "NoneType" if len(graph.outputs()) == 1 else True


def test_shapes_from_examples() -> None:
    graph = C.parse_ir("""graph(%x : Tensor, %w : Tensor):
  %one : int = prim::Constant[value=1]()
  %y : Tensor = aten::mm(%x, %w)
  %z : Tensor = aten::add(%y, %one, %one)
  return (%z)""")
    C._jit_pass_complete_shape_analysis(graph, (rl.ones(2, 3), rl.ones(3, 5)), False)
    assert "Float(2, 5, strides=[5, 1], device=cpu) = aten::add" in str(graph)
    C._jit_pass_erase_shape_information(graph)
    assert "Float" not in str(graph)
    with pytest.raises(RuntimeError, match="expected 2 example inputs"):
        C._jit_pass_complete_shape_analysis(graph, (rl.ones(2),), False)


def test_memory_is_told() -> None:
    graph = C.parse_ir("""graph(%x : Tensor):
  %one : int = prim::Constant[value=1]()
  %y : Tensor = aten::relu(%x)
  %v : Tensor = aten::t(%y)
  %w : Tensor = aten::add_(%v, %one, %one)
  %z : Tensor = aten::tanh(%x)
  return (%z)""")
    y, v, z = (graph.findNode(kind).output() for kind in ("aten::relu", "aten::t", "aten::tanh"))
    known = graph.alias_db()
    assert known.may_contain_alias(y, v) and not known.may_contain_alias(y, z)
    assert known.has_writers(y) and not known.has_writers(z)
    assert known.move_before_topologically_valid(z.node(), y.node())
    assert not known.move_before_topologically_valid(graph.findNode("aten::add_"), v.node())


def test_signatures_are_listed() -> None:
    found = C._jit_get_schemas_for_operator("aten::add_")
    assert {schema.overload_name for schema in found} >= {"Tensor", "Scalar"} and found[0].is_mutable
    schema = C.parse_schema("my::op(Tensor(a!) x, int[2] k=1, *, str? s=None) -> (Tensor, int)")
    x, k, s = schema.arguments
    assert x.is_write and k.N == 2 and k.default_value == [1, 1] and s.kwarg_only and s.has_default_value()
    assert str(s.type) == "Optional[str]" and len(schema.returns) == 2


def test_importing_the_package_loads_no_script() -> None:
    code = "import rushlight, sys; print([m for m in sys.modules if m.startswith('rushlight.script')])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
