"""Graphs for operator sets older than those that rules write for: 7 to 17.

Enters: a builder whose graph is whole, written for opset 18, and the version that is wanted. Leaves: the same graph,
with what is younger written otherwise: inputs that were attributes, operators made of others. Refuses operators that
the version cannot say, with the first that can.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from .. import _C
from .building import Builder
from .errors import UnsupportedOperatorError
from .model import Graph, Node, Value

# Operators by the first set of operators that has them, where that is none of the oldest.
FIRST = {
    "Bernoulli": 15, "BitShift": 11, "BitwiseAnd": 18, "BitwiseNot": 18, "BitwiseOr": 18, "BitwiseXor": 18, "Celu": 12,
    "Col2Im": 18, "Compress": 9, "ConstantOfShape": 9, "CumSum": 11, "DFT": 17, "Erf": 9, "Expand": 8, "EyeLike": 9,
    "GatherElements": 11, "GatherND": 11, "GridSample": 16, "IsInf": 10, "IsNaN": 9, "Mod": 10, "NonZero": 9,
    "OneHot": 9, "Range": 11, "Resize": 11, "Round": 11, "STFT": 17, "Scan": 9, "ScatterElements": 11, "ScatterND": 11,
    "Unique": 11, "Where": 9, "QuantizeLinear": 10, "DequantizeLinear": 10, "QLinearMatMul": 10,
    "DynamicQuantizeLinear": 11, "Sinh": 9, "Cosh": 9, "Asinh": 9, "Acosh": 9, "Atanh": 9, "Sign": 9, "Det": 11,
    "Tan": 7, "Asin": 7, "Acos": 7, "Atan": 7, "Sin": 7, "Cos": 7, "SequenceMap": 17,
}
# And those that took integers later.
INTEGERS = {"Max": 12, "Min": 12, "Pow": 12, "Clip": 12, "Relu": 14, "Greater": 9, "Less": 9, "MatMul": 9, "Gemm": 9,
            "Expand": 8, "TopK": 11, "Sign": 9}
FLOATS = {"Equal": 11}
REDUCTIONS = frozenset("ReduceMax ReduceMin ReduceMean ReduceProd ReduceL1 ReduceL2 ReduceLogSumExp ReduceSum".split())
INT64, TRUTH = _C.int64, _C.bool


class _Lowering:
    """One run: nodes are put one after the other into a builder of the same graph."""

    def __init__(self, g: Builder, wanted: int) -> None:
        self.g, self.wanted = g, wanted

    def graph(self, g: Builder) -> None:
        nodes, g.graph.nodes = g.graph.nodes, []
        outer, self.g = self.g, g
        for node in nodes:
            for name, value in node.attributes.items():
                if isinstance(value, Graph):
                    node.attributes = {**node.attributes, name: self.inner(value)}
            self.one(node)
        self.g = outer

    def inner(self, graph: Graph) -> Graph:
        inside = self.g.within(graph.name)
        inside.graph = graph
        self.graph(inside)
        return graph

    def one(self, node: Node) -> None:
        if node.domain:
            self.g.graph.nodes.append(node)
            return
        first = FIRST.get(node.op, 1)
        kinds = [v.dtype for n in node.inputs if (v := self.g.facts.get(n)) is not None]
        if kinds and kinds[0].is_floating_point:
            first = max(first, FLOATS.get(node.op, 1))
        elif kinds:
            first = max(first, INTEGERS.get(node.op, 1))
        if self.wanted < first:
            self.refuse(node, first)
        below, rule = _RULES.get(node.op, (0, None))
        if node.op in REDUCTIONS:
            below, rule = (13 if node.op == "ReduceSum" else 18), _reduction
        if rule is None or self.wanted >= below:
            self.g.graph.nodes.append(node)
        else:
            rule(self, node)

    # --- what rules are written with ----------------------------------------------------------------------------------

    def refuse(self, node: Node, first: int, why: str = "") -> None:
        what = f"{node.op}{f' {why}' if why else ''}"
        raise UnsupportedOperatorError(
            f"onnx: opset_version={self.wanted}: {what} (node {node.name}) exists since opset {first}. Export to that."
        )

    def value(self, name: str) -> Value:
        return self.g.facts.get(name) or Value(name, _C.float32)

    def rank(self, node: Node, index: int = 0) -> int:
        shape = self.value(node.inputs[index]).shape
        if shape is None:
            self.refuse(node, 13, "of a tensor whose rank is not known")
        return len(shape or ())

    def numbers(self, node: Node, index: int, first: int) -> list[Any]:
        """The elements of an input, which has to be a constant."""
        held = self.g.root().graph.tensors.get(node.inputs[index])
        if held is None:
            self.refuse(node, first, f"with an input {index} that is computed")
        return held.reshape(-1).tolist()

    def put(self, node: Node, inputs: int | None = None, without: tuple[str, ...] = (), **attributes: Any) -> None:
        """The node again, with its first inputs alone and other attributes."""
        kept = {k: v for k, v in node.attributes.items() if k not in without}
        given = node.inputs[:inputs]
        while given and not given[-1]:
            given = given[:-1]
        self.g.graph.nodes.append(dataclasses.replace(node, inputs=given, attributes={**kept, **attributes}))

    def become(self, node: Node, value: Value, index: int = 0) -> None:
        """A value takes the place of a node's result."""
        self.g.graph.nodes.append(Node("Identity", (value.name,), (node.outputs[index],), {}, f"{node.name}/same",
                                       origin=node.origin))


def _axes(low: _Lowering, node: Node, index: int, first: int) -> list[int]:
    axes = [int(n) for n in low.numbers(node, index, first)]
    if low.wanted < 11 and any(a < 0 for a in axes):
        rank = low.rank(node) + (len(axes) if node.op == "Unsqueeze" else 0)
        axes = [a % rank for a in axes]
    return axes


def _reduction(low: _Lowering, node: Node) -> None:
    if len(node.inputs) < 2 or not node.inputs[1]:
        low.put(node, 1)
    else:
        low.put(node, 1, axes=_axes(low, node, 1, 18))


def _squeeze(low: _Lowering, node: Node) -> None:
    low.put(node, 1, **({"axes": _axes(low, node, 1, 13)} if len(node.inputs) > 1 else {}))


def _split(low: _Lowering, node: Node) -> None:
    if low.wanted >= 13 or len(node.inputs) < 2:
        low.put(node, without=("num_outputs",))
        return
    low.put(node, 1, split=[int(n) for n in low.numbers(node, 1, 13)])


def _clip(low: _Lowering, node: Node) -> None:
    bounds = {}
    for i, name in ((1, "min"), (2, "max")):
        if len(node.inputs) > i and node.inputs[i]:
            bounds[name] = float(low.numbers(node, i, 11)[0])
    low.put(node, 1, **bounds)


def _slice(low: _Lowering, node: Node) -> None:
    given = [[int(n) for n in low.numbers(node, i, 10)] for i in range(1, len(node.inputs))]
    if len(given) > 3 and any(n != 1 for n in given[3]):
        low.refuse(node, 10, "with steps")
    rank = low.rank(node)
    axes = [a % rank for a in given[2]] if len(given) > 2 else list(range(len(given[0])))
    low.put(node, 1, starts=given[0], ends=given[1], axes=axes)


def _top_k(low: _Lowering, node: Node) -> None:
    if not node.attributes.get("largest", 1):
        low.refuse(node, 11, "of the smallest")
    without = ("largest", "sorted")
    if low.wanted == 10:
        low.put(node, without=without)
    else:
        low.put(node, 1, without, k=int(low.numbers(node, 1, 10)[0]))


def _pad(low: _Lowering, node: Node) -> None:
    if node.attributes.get("mode") == "wrap":
        low.refuse(node, 19, "by going round")
    if low.wanted >= 11:
        low.put(node)
        return
    value = float(low.numbers(node, 2, 11)[0]) if len(node.inputs) > 2 and node.inputs[2] else 0.0
    low.put(node, 1, pads=[int(n) for n in low.numbers(node, 1, 11)], value=value)


def _resize(low: _Lowering, node: Node) -> None:
    if node.attributes.get("antialias"):
        low.refuse(node, 18, "with antialias")
    if low.wanted >= 13:
        low.put(node, without=("antialias",))
        return
    empty = low.g.constant([], _C.float32).name      # the region, which only cropping looks at; or no scales
    given = [*node.inputs, *[""] * (4 - len(node.inputs))]
    inputs = (given[0], given[1] or empty, given[2] or empty, *([given[3]] if given[3] else []))
    kept = {k: v for k, v in node.attributes.items() if k != "antialias"}
    low.g.graph.nodes.append(dataclasses.replace(node, inputs=inputs, attributes=kept))


def _dropout(low: _Lowering, node: Node) -> None:
    low.refuse(node, 12, "while training")


def _scatter(low: _Lowering, node: Node) -> None:
    how = node.attributes.get("reduction")
    if how in ("add", "mul") and low.wanted < 16:
        low.refuse(node, 16, f"with reduction={how!r}")
    if how in ("max", "min"):
        low.refuse(node, 18, f"with reduction={how!r}")
    low.put(node)


def _shape(low: _Lowering, node: Node) -> None:
    if "start" not in node.attributes and "end" not in node.attributes:
        low.put(node)
        return
    x, g = low.value(node.inputs[0]), low.g
    inner = _Lowered(low)
    whole = inner.node("Shape", x, dtype=INT64, shape=(len(x.shape or ()),))
    start, end = node.attributes.get("start", 0), node.attributes.get("end", 2**63 - 1)
    low.become(node, inner.node("Slice", whole, g.ints([start]), g.ints([end]), g.ints([0])))


class _Lowered:
    """Nodes that rules add are written for the old version themselves."""

    def __init__(self, low: _Lowering) -> None:
        self.low = low

    def node(self, op: str, *inputs: Value | None, dtype: Any = None, shape: Any = None, **attributes: Any) -> Value:
        g = self.low.g
        shares, g.shares = g.shares, False
        found = g.node(op, *inputs, dtype=dtype, shape=shape, **attributes)
        g.shares = shares
        self.low.one(g.graph.nodes.pop())
        return found


def _triangle(low: _Lowering, node: Node) -> None:
    """Rows and columns compared, where there is no operator for triangles."""
    if low.wanted < 11:
        low.refuse(node, 11)
    x, g = low.value(node.inputs[0]), low.g
    inner, rank = _Lowered(low), low.rank(node)
    sizes = inner.node("Shape", x, dtype=INT64, shape=(rank,))
    every = []
    for axis in (rank - 2, rank - 1):
        size = inner.node("Gather", sizes, g.constant(axis, INT64), axis=0, shape=())
        every.append(inner.node("Range", g.constant(0, INT64), size, g.constant(1, INT64), shape=(None,)))
    k = low.value(node.inputs[1]) if len(node.inputs) > 1 and node.inputs[1] else g.constant(0, INT64)
    rows = inner.node("Add", inner.node("Unsqueeze", every[0], g.ints([1]), shape=(None, 1)), k)
    op = "GreaterOrEqual" if node.attributes.get("upper", 1) else "LessOrEqual"
    kept = inner.node(op, every[1], rows, dtype=TRUTH)
    low.become(node, inner.node("Where", kept, x, g.constant(0, x.dtype), dtype=x.dtype))


def _at_most(strict: str) -> Callable[[_Lowering, Node], None]:
    def rule(low: _Lowering, node: Node) -> None:
        a, b = (low.value(n) for n in node.inputs)
        g = _Lowered(low)
        either = [g.node(strict, a, b, dtype=TRUTH), g.node("Equal", a, b, dtype=TRUTH)]
        low.become(node, g.node("Or", *either))

    return rule


def _softmax(low: _Lowering, node: Node) -> None:
    """Before 13 all dims from one on were one: by hand, along a single dim."""
    x, g = low.value(node.inputs[0]), _Lowered(low)
    axis = low.g.ints([node.attributes.get("axis", -1)])
    apart = g.node("Sub", x, g.node("ReduceMax", x, axis, keepdims=1, shape=x.shape), shape=x.shape)
    powers = g.node("Exp", apart, shape=x.shape)
    total = g.node("ReduceSum", powers, axis, keepdims=1)
    if node.op == "Softmax":
        low.become(node, g.node("Div", powers, total))
    else:
        low.become(node, g.node("Sub", apart, g.node("Log", total)))


def _layer_norm(low: _Lowering, node: Node) -> None:
    x, g = low.value(node.inputs[0]), _Lowered(low)
    axes = low.g.ints(range(node.attributes.get("axis", -1), 0))
    apart = g.node("Sub", x, g.node("ReduceMean", x, axes, keepdims=1, shape=x.shape), shape=x.shape)
    square = g.node("ReduceMean", g.node("Mul", apart, apart, shape=x.shape), axes, keepdims=1)
    limit = low.g.constant(float(node.attributes.get("epsilon", 1e-5)), x.dtype)
    found = g.node("Div", apart, g.node("Sqrt", g.node("Add", square, limit)))
    found = g.node("Mul", found, low.value(node.inputs[1]))
    if len(node.inputs) > 2 and node.inputs[2]:
        found = g.node("Add", found, low.value(node.inputs[2]))
    low.become(node, found)


def _hard_swish(low: _Lowering, node: Node) -> None:
    x, g = low.value(node.inputs[0]), _Lowered(low)
    low.become(node, g.node("Mul", x, g.node("HardSigmoid", x, alpha=1 / 6, beta=0.5)))


def _mish(low: _Lowering, node: Node) -> None:
    x, g = low.value(node.inputs[0]), _Lowered(low)
    low.become(node, g.node("Mul", x, g.node("Tanh", g.node("Softplus", x))))


def _celu(low: _Lowering, node: Node) -> None:
    x, g = low.value(node.inputs[0]), _Lowered(low)
    alpha = low.g.constant(float(node.attributes.get("alpha", 1.0)), x.dtype)
    scaled = g.node("Elu", g.node("Div", x, alpha), alpha=1.0)
    above = g.node("Relu", x)
    below = g.node("Sub", scaled, g.node("Relu", scaled))
    low.become(node, g.node("Add", above, g.node("Mul", alpha, below)))


def _gemm(low: _Lowering, node: Node) -> None:
    if len(node.inputs) < 3 or not node.inputs[2]:
        zero = low.g.constant([0.0], low.value(node.inputs[0]).dtype)
        node = dataclasses.replace(node, inputs=(*node.inputs[:2], zero.name))
    low.put(node)


def _reshape(low: _Lowering, node: Node) -> None:
    """Before 14 a size of 0 means the input's own; where none of the sizes is the number 0, nothing is lost."""
    if node.attributes.get("allowzero"):
        held = low.g.root().graph.tensors.get(node.inputs[1])
        if held is not None and 0 in held.reshape(-1).tolist():
            low.refuse(node, 14, "to sizes of 0")
    low.put(node, without=("allowzero",))


def _axis_from_front(low: _Lowering, node: Node) -> None:
    axis = node.attributes.get("axis", 0)
    low.put(node, axis=axis % low.rank(node)) if axis < 0 else low.put(node)


def _pool(low: _Lowering, node: Node) -> None:
    if node.attributes.get("ceil_mode"):
        low.refuse(node, 10, "with ceil_mode")
    if any(n != 1 for n in node.attributes.get("dilations", ())):
        low.refuse(node, 10, "with dilations")
    low.put(node, without=("ceil_mode", "dilations"))


def _depth_to_space(low: _Lowering, node: Node) -> None:
    if node.attributes.get("mode", "DCR") != "DCR":
        low.refuse(node, 11, "in the order of columns")
    low.put(node, without=("mode",))


def _recurrent(low: _Lowering, node: Node) -> None:
    low.put(node, without=("layout",))


# For each operator: below which version its nodes are written otherwise, and how.
_RULES: dict[str, tuple[int, Callable[[_Lowering, Node], None]]] = {
    "Squeeze": (13, _squeeze), "Unsqueeze": (13, _squeeze), "Split": (18, _split), "Clip": (11, _clip),
    "Slice": (10, _slice), "TopK": (11, _top_k), "Pad": (19, _pad), "Resize": (18, _resize), "Dropout": (12, _dropout),
    "ScatterElements": (18, _scatter), "ScatterND": (18, _scatter), "Shape": (15, _shape),
    "GreaterOrEqual": (12, _at_most("Greater")), "LessOrEqual": (12, _at_most("Less")), "Softmax": (13, _softmax),
    "LogSoftmax": (13, _softmax), "LayerNormalization": (17, _layer_norm), "HardSwish": (14, _hard_swish),
    "Mish": (18, _mish), "Trilu": (14, _triangle), "Celu": (12, _celu), "Gemm": (11, _gemm), "Reshape": (14, _reshape),
    "Concat": (11, _axis_from_front), "Gather": (11, _axis_from_front), "ArgMax": (11, _axis_from_front),
    "ArgMin": (11, _axis_from_front), "MaxPool": (10, _pool), "AveragePool": (10, _pool),
    "DepthToSpace": (11, _depth_to_space), "LSTM": (14, _recurrent), "GRU": (14, _recurrent), "RNN": (14, _recurrent),
}


def lowered(g: Builder, wanted: int) -> None:
    """Write the graph for an older set of operators."""
    assert g.outer is None, "the outermost graph"
    _Lowering(g, wanted).graph(g)
