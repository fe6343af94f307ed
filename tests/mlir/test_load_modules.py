"""`mlir.load`: whole modules: functions, resources, sizes that vary, gradients, compilation, random programs."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as torch
from rushlight import mlir

DYNAMIC = """func.func @main(%x: tensor<?x3xf32>, %b: tensor<3xf32>) -> (tensor<?x3xf32>, tensor<?xf32>,
  tensor<?xf32>) {
  %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x3xf32>) -> tensor<i32>
  %n1 = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
  %three = stablehlo.constant dense<3> : tensor<1xi32>
  %shape = stablehlo.concatenate %n1, %three, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %bb = stablehlo.dynamic_broadcast_in_dim %b, %shape, dims = [1] : (tensor<3xf32>, tensor<2xi32>) -> tensor<?x3xf32>
  %y = stablehlo.add %x, %bb : tensor<?x3xf32>
  %total = stablehlo.multiply %n1, %three : tensor<1xi32>
  %flat = stablehlo.dynamic_reshape %y, %total : (tensor<?x3xf32>, tensor<1xi32>) -> tensor<?xf32>
  %i = stablehlo.dynamic_iota %n1, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %s = stablehlo.reduce(%y init: %z) applies stablehlo.add across dimensions = [1] : (tensor<?x3xf32>, tensor<f32>)
    -> tensor<?xf32>
  %r = stablehlo.add %s, %i : tensor<?xf32>
  return %y, %flat, %r : tensor<?x3xf32>, tensor<?xf32>, tensor<?xf32>
}"""


@pytest.mark.parametrize("count", [1, 2, 5])
def test_sizes_that_vary(count):
    module = mlir.load(DYNAMIC)
    x, b = torch.randn(count, 3), torch.randn(3)
    y, flat, r = module(x, b)
    torch.testing.assert_close(y, x + b)
    torch.testing.assert_close(flat, (x + b).reshape(-1))
    torch.testing.assert_close(r, (x + b).sum(1) + torch.arange(count))
    assert not any("local_scalar" in str(n.target) for n in module.graph_module.graph.nodes)


def test_sizes_that_vary_are_compiled():
    module = torch.compile(mlir.load(DYNAMIC), dynamic=True)
    for count in (2, 5, 7):
        x, b = torch.randn(count, 3), torch.randn(3)
        torch.testing.assert_close(module(x, b)[1], (x + b).reshape(-1))


def test_slices_and_paddings_with_sizes_as_operands():
    text = """func.func @main(%x: tensor<?x?xf32>, %v: tensor<f32>, %a: tensor<2xi64>, %b: tensor<2xi64>, %c:
      tensor<2xi64>)
     -> (tensor<?x?xf32>, tensor<?x?xf32>) {
      %s = stablehlo.real_dynamic_slice %x, %a, %b, %c : (tensor<?x?xf32>, tensor<2xi64>, tensor<2xi64>,
        tensor<2xi64>) -> tensor<?x?xf32>
      %p = stablehlo.dynamic_pad %x, %v, %a, %b, %c : (tensor<?x?xf32>, tensor<f32>, tensor<2xi64>, tensor<2xi64>,
        tensor<2xi64>) -> tensor<?x?xf32>
      return %s, %p : tensor<?x?xf32>, tensor<?x?xf32> }"""
    x = torch.arange(20.0).reshape(4, 5)
    cut, padded = mlir.load(text)(x, torch.tensor(9.0), *[torch.tensor(v) for v in ([1, 0], [3, 5], [1, 2])])
    torch.testing.assert_close(cut, x[1:3, 0:5:2])
    wanted = torch.full((4 + 3 + 4, 5 + 8 + 5), 9.0)
    wanted[1:8:2, 0:13:3] = x
    torch.testing.assert_close(padded, wanted)


def test_a_gather_whose_window_is_an_operand():
    text = """func.func @main(%x: tensor<6x5xf32>, %i: tensor<3x2xi32>) -> tensor<3x2x4xf32> {
      %n = stablehlo.constant dense<[2, 4]> : tensor<2xi32>
      %r = "stablehlo.dynamic_gather"(%x, %i, %n) <{dimension_numbers = #stablehlo.gather<offset_dims = [1, 2],
        start_index_map = [0, 1], index_vector_dim = 1>}> : (tensor<6x5xf32>, tensor<3x2xi32>, tensor<2xi32>) ->
          tensor<3x2x4xf32>
      return %r : tensor<3x2x4xf32> }"""
    x = torch.randn(6, 5)
    found = mlir.load(text)(x, torch.tensor([[0, 0], [9, -4], [3, 1]], dtype=torch.int32))
    torch.testing.assert_close(found, torch.stack([x[0:2, 0:4], x[4:6, 0:4], x[3:5, 1:5]]))


def test_resources_and_aliases():
    text = """#shape = dense<[2, 1]> : tensor<2xi64>
!mine = tensor<2x1xf32>
func.func @main() -> (!mine, tensor<3xi16>, tensor<2xi1>) {
  %a = stablehlo.constant dense_resource<weight> : !mine
  %b = stablehlo.constant dense<"0x0100FFFF0780"> : tensor<3xi16>
  %c = stablehlo.constant dense<[true, false]> : tensor<2xi1>
  return %a, %b, %c : !mine, tensor<3xi16>, tensor<2xi1>
}
{-#
  dialect_resources: { builtin: { weight: "0x040000000000803F00000040" } }
#-}"""
    a, b, c = mlir.load(text)()
    assert (a.tolist(), b.tolist(), c.tolist()) == ([[1.0], [2.0]], [1, -1, -32761], [True, False])


def test_constants_of_every_type_and_spelling():
    kinds = {"bf16": "[1.5, 0x7F80, -2.0e0]", "f8E4M3FN": "[0.5, 0x7F, 448.0]", "f64": "[0x7FF8000000000000, 1.0e300,"
        " -0.0]",
             "ui64": "[18446744073709551615, 0, 0xFF]", "i8": "[255, -128, 127]", "complex<f32>": "[(1.0, -2.0),"
                 " (0.0, 3.0), (0x7F800000, 1.0)]",
             "i1": "[true, false, true]"}
    for kind, values in kinds.items():
        text = (f"func.func @main() -> tensor<3x{kind}> {{\n%c = stablehlo.constant dense<{values}> :"
                f" tensor<3x{kind}>\nreturn %c : tensor<3x{kind}>\n}}")
        found = mlir.load(text)()
        assert found.shape == (3,)
        if kind == "i8":
            assert found.tolist() == [-1, -128, 127]
        if kind == "ui64":
            assert found.tolist() == [2**64 - 1, 0, 255]
        if kind == "bf16":
            assert found.tolist() == [1.5, float("inf"), -2.0]
        if kind.startswith("complex"):
            assert found[0].item() == 1 - 2j


def test_tuples_go_in_and_out():
    text = """func.func @main(%t: tuple<tensor<2xf32>, tuple<tensor<i32>>>) -> tuple<tensor<2xf32>, tensor<i32>> {
      %a = stablehlo.get_tuple_element %t[0] : (tuple<tensor<2xf32>, tuple<tensor<i32>>>) -> tensor<2xf32>
      %b = stablehlo.get_tuple_element %t[1] : (tuple<tensor<2xf32>, tuple<tensor<i32>>>) -> tuple<tensor<i32>>
      %c = stablehlo.get_tuple_element %b[0] : (tuple<tensor<i32>>) -> tensor<i32>
      %r = stablehlo.tuple %a, %c : tuple<tensor<2xf32>, tensor<i32>>
      return %r : tuple<tensor<2xf32>, tensor<i32>> }"""
    a, c = mlir.load(text)((torch.ones(2), (torch.tensor(3, dtype=torch.int32),)))
    assert (a.tolist(), c.item()) == ([1.0, 1.0], 3)


TRAINED = """func.func @main(%w: tensor<3x4xf32>, %x: tensor<5x3xf32>, %n: tensor<i32>) -> tensor<f32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<5x3xf32>, tensor<3x4xf32>) ->
    tensor<5x4xf32>
  %l:2 = stablehlo.while(%i = %zero, %v = %y) : tensor<i32>, tensor<5x4xf32> cond {
    %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1> } do {
    %j = stablehlo.add %i, %one : tensor<i32>
    %t = stablehlo.tanh %v : tensor<5x4xf32>
    stablehlo.return %j, %t : tensor<i32>, tensor<5x4xf32> }
  %q = stablehlo.compare GT, %n, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %c = "stablehlo.if"(%q) ({ %e = stablehlo.multiply %l#1, %l#1 : tensor<5x4xf32>
    stablehlo.return %e : tensor<5x4xf32> }, { stablehlo.return %y : tensor<5x4xf32> }) : (tensor<i1>) ->
      tensor<5x4xf32>
  %s = stablehlo.reduce(%c init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<5x4xf32>,
    tensor<f32>) -> tensor<f32>
  return %s : tensor<f32> }"""


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("steps", [0, 3])
def test_gradients_go_through_loops_and_branches(steps, compiled):
    module = mlir.load(TRAINED)
    call = torch.compile(module) if compiled else module
    w, x = torch.randn(3, 4, requires_grad=True), torch.randn(5, 3)
    y = x @ w
    for _ in range(steps):
        y = y.tanh()
    wanted, = torch.autograd.grad((y * y if steps > 1 else x @ w).sum(), w)
    got, = torch.autograd.grad(call(w, x, torch.tensor(steps, dtype=torch.int32)), w)
    torch.testing.assert_close(got, wanted)


def test_the_graph_is_one_of_aten_calls():
    module = mlir.load(TRAINED)
    targets = [str(n.target) for n in module.graph_module.graph.nodes if n.op == "call_function"]
    assert any("mm" in t for t in targets) and any("while_loop" in t for t in targets)
    assert all("aten" in t or "higher_order" in t or "getitem" in t for t in targets)
    assert "main" in repr(module)


def test_a_random_number_lies_between_its_bounds():
    text = """func.func @main(%a: tensor<f32>, %b: tensor<f32>) -> tensor<100xf32> {
      %n = stablehlo.constant dense<100> : tensor<1xi64>
      %r = stablehlo.rng %a, %b, %n, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<1xi64>) ->
        tensor<100xf32>
      return %r : tensor<100xf32> }"""
    found = mlir.load(text)(torch.tensor(2.0), torch.tensor(3.0))
    assert 2 <= found.min() < found.max() <= 3


# --- random programs --------------------------------------------------------------------------------------------------

BINARY = ("add", "subtract", "multiply", "maximum", "minimum")
UNARY = ("negate", "abs", "tanh", "sign", "floor", "logistic")
SHAPES = ((), (1,), (3,), (2, 3), (3, 2), (2, 1, 3))


def program(rng: np.random.Generator) -> tuple[str, list[np.ndarray]]:
    """A random program over f32, and arguments for it."""
    from tests.mlir import loading

    values = [(f"%a{i}", SHAPES[rng.integers(len(SHAPES))]) for i in range(3)]
    arrays = [loading.array(shape, "f32", int(rng.integers(1000))) for _, shape in values]
    lines = ["%zero = stablehlo.constant dense<0.0> : tensor<f32>",
             "%low = stablehlo.constant dense<0xFF800000> : tensor<f32>"]

    def kind(shape: tuple[int, ...], element: str = "f32") -> str:
        return "tensor<" + "".join(f"{n}x" for n in shape) + element + ">"

    for i in range(int(rng.integers(4, 12))):
        x, shape = values[rng.integers(len(values))]
        same = [v for v, s in values if s == shape]
        y, what, t, name = same[rng.integers(len(same))], int(rng.integers(9)), kind(shape), f"%v{i}"
        if what == 0:
            line, new = f"stablehlo.{UNARY[rng.integers(len(UNARY))]} {x} : {t}", shape
        elif what <= 2:
            line, new = f"stablehlo.{BINARY[rng.integers(len(BINARY))]} {x}, {y} : {t}", shape
        elif what == 3 and shape:
            dims = [int(d) for d in rng.permutation(len(shape))]
            new = tuple(shape[d] for d in dims)
            line = f"stablehlo.transpose {x}, dims = {dims} : ({t}) -> {kind(new)}"
        elif what == 4:
            new = (int(rng.integers(1, 3)), *shape)
            line = (f"stablehlo.broadcast_in_dim {x}, dims = {[d + 1 for d in range(len(shape))]} : ({t}) ->"
                f" {kind(new)}")
        elif what == 5 and shape:
            dim = int(rng.integers(len(shape)))
            new = shape[:dim] + shape[dim + 1:]
            init, how = (("%zero", "add"), ("%low", "maximum"))[rng.integers(2)]
            line = (f"stablehlo.reduce({x} init: {init}) applies stablehlo.{how} across"
                    f" dimensions = [{dim}] : ({t}, tensor<f32>) -> {kind(new)}")
        elif what == 6 and shape:
            low, high, inner = (rng.integers(0, 2, len(shape)) for _ in range(3))
            new = tuple(int(n + a + b + (n - 1) * c) for n, a, b, c in zip(shape, low, high, inner, strict=True))
            line = (f"stablehlo.pad {x}, %zero, low = {low.tolist()}, high = {high.tolist()}, interior ="
                f" {inner.tolist()} :"
                    f" ({t}, tensor<f32>) -> {kind(new)}")
        elif what == 7 and shape:
            dim = int(rng.integers(len(shape)))
            new = (*shape[:dim], shape[dim] * 2, *shape[dim + 1:])
            line = f"stablehlo.concatenate {x}, {y}, dim = {dim} : ({t}, {t}) -> {kind(new)}"
        else:
            lines.append(f"%p{i} = stablehlo.compare GT, {x}, {y} : ({t}, {t}) -> {kind(shape, 'i1')}")
            line, new = f"stablehlo.select %p{i}, {y}, {x} : {kind(shape, 'i1')}, {t}", shape
        if int(np.prod(new)) > 200:
            continue
        lines.append(f"{name} = {line}")
        values.append((name, new))
    results = values[-3:]
    given = ", ".join(f"%a{i}: {kind(a.shape)}" for i, a in enumerate(arrays))
    kinds = ", ".join(kind(s) for _, s in results)
    text = (f"func.func @main({given}) -> ({kinds}) {{\n" + "\n".join(lines)
            + f"\nreturn {', '.join(v for v, _ in results)} : {kinds}\n}}")
    return text, arrays


@pytest.mark.parametrize("count", [4, pytest.param(30, marks=pytest.mark.slow)])
def test_random_programs_give_what_xla_gives(count):
    hypothesis = pytest.importorskip("hypothesis")
    pytest.importorskip("jaxlib")
    pytest.importorskip("torch_mlir")
    from tests.mlir import loading

    @hypothesis.settings(max_examples=count, deadline=None, derandomize=True, database=None)
    @hypothesis.given(hypothesis.strategies.integers(0, 2**32 - 1))
    def agree(seed: int) -> None:
        loading.compare(*program(np.random.default_rng(seed)))

    agree()
