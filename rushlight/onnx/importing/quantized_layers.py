"""Layers between DequantizeLinear and QuantizeLinear as the operators that compute them in integers.

Enters: a graph of a file. Leaves: the graph, in which a Conv, MatMul or Gemm of dequantized numbers whose result is
quantized again is a QLinearConv, QLinearMatMul or QGemm: runtimes compute such patterns so, and their sums are exact.
Refuses nothing: what is no such pattern, is read elsewhere too, or has scales that nothing here takes stays.

No gradient is lost by it: none passes integers.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Any

from ..model import Graph, Node, used_names
from .stored import Stored

SIGNED, UNSIGNED, WORDS = 3, 2, 6              # types of elements, by ONNX's numbers
LEAST = {SIGNED: -128, UNSIGNED: 0}
BIAS = {"Conv": 2, "Gemm": 2}                  # the input that is one


def with_integers(graph: Graph, opset: int) -> Graph:
    """A graph of a version of the standard, with such layers as one node each."""
    if opset < 10 or not any(n.op == "QuantizeLinear" for n in graph.nodes):
        return graph
    found = _Layers(graph)
    replaced = {id(n): layer for n in graph.nodes if (layer := found.layer(n)) is not None}
    if not replaced:
        return graph
    # Nodes in front of them may now be read by nothing: they are dropped with what else is dead.
    return dataclasses.replace(graph, nodes=[replaced.get(id(n), n) for n in graph.nodes if id(n) not in found.gone])


class _Layers:
    """What makes and reads each value."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.makers = {name: n for n in graph.nodes for name in n.outputs if name}
        self.readers = Counter(name for n in graph.nodes for name in n.inputs)
        self.readers.update(v.name for v in graph.outputs)
        for n in graph.nodes:
            for value in n.attributes.values():
                for inner in value if isinstance(value, list) else [value]:
                    if isinstance(inner, Graph):
                        self.readers.update(used_names(inner.nodes))
        self.gone: set[int] = set()

    def layer(self, node: Node) -> Node | None:
        """What a QuantizeLinear ends, as one node."""
        if node.op != "QuantizeLinear" or node.domain or len(node.inputs) < 3 or set(node.attributes) - {"axis"}:
            return None
        y_scale, y_zero = node.inputs[1:3]
        kind = self.kind(y_zero)
        between = self.alone(node.inputs[0])
        relu = None
        if between is not None and between.op == "Relu" and not between.domain:
            relu, between = between, self.alone(between.inputs[0])
        if kind not in LEAST or not self.is_one(y_scale) or between is None or between.domain:
            return None
        if relu is not None and self.number(y_zero) != LEAST[kind]:       # else the type's limit is the rectifier
            return None
        make = {"Conv": self.conv, "MatMul": self.matmul, "Gemm": self.gemm}.get(between.op)
        made = None if make is None else make(between, y_scale, y_zero)
        if made is None:
            return None
        self.gone |= {id(n) for n in (between, relu) if n is not None}
        return dataclasses.replace(made, outputs=node.outputs, name=between.name or node.name)

    def conv(self, node: Node, y_scale: str, y_zero: str) -> Node | None:
        x, w = self.rows(node.inputs[0]), self.weights(node.inputs[1], 0)
        bias = None if x is None or w is None else self.bias(node, x[1], w[1])
        if x is None or w is None or bias is None:
            return None
        return Node("QLinearConv", (*x, *w, y_scale, y_zero, *bias), (), dict(node.attributes))

    def matmul(self, node: Node, y_scale: str, y_zero: str) -> Node | None:
        x, w = self.rows(node.inputs[0]), self.weights(node.inputs[1], 1) or self.rows(node.inputs[1])
        if x is None or w is None:
            return None
        return Node("QLinearMatMul", (*x, *w, y_scale, y_zero), (), {})

    def gemm(self, node: Node, y_scale: str, y_zero: str) -> Node | None:
        settings = dict(node.attributes)
        turned = settings.get("transB", 0)
        x, w = self.rows(node.inputs[0]), self.weights(node.inputs[1], 0 if turned else 1)
        bias = None if x is None or w is None else self.bias(node, x[1], w[1])
        if x is None or w is None or bias is None or settings.pop("beta", 1.0) != 1.0:
            return None
        return Node("QGemm", (*x, *w, *(bias or ("",)), y_scale, y_zero), (), settings, domain="com.microsoft")

    # --- operands -----------------------------------------------------------------------------------------------------

    def alone(self, name: str) -> Node | None:
        """The node that makes a value which nothing else reads."""
        return self.makers.get(name) if self.readers[name] == 1 else None

    def dequantized(self, name: str) -> Node | None:
        node = self.makers.get(name)
        is_one = node is not None and node.op == "DequantizeLinear" and not node.domain and len(node.inputs) == 3
        return node if is_one and not set(node.attributes) - {"axis"} else None  # type: ignore[union-attr]

    def rows(self, name: str) -> tuple[str, ...] | None:
        """Bytes with one scale and one zero point."""
        node = self.dequantized(name)
        if node is None or self.kind(node.inputs[2]) not in LEAST or not self.is_one(node.inputs[1]):
            return None
        return node.inputs if self.is_one(node.inputs[2]) else None

    def weights(self, name: str, axis: int | None) -> tuple[str, ...] | None:
        """Bytes that the file holds, with scales of the whole or along an axis."""
        node = self.dequantized(name)
        if node is None or self.kind(node.inputs[0]) not in LEAST or self.kind(node.inputs[2]) not in LEAST:
            return None
        if self.is_one(node.inputs[1]):
            return node.inputs if self.is_one(node.inputs[2]) else None
        held, own = (self.graph.tensors.get(n) for n in node.inputs[:2])
        is_along = isinstance(held, Stored) and axis == node.attributes.get("axis", 1) % max(len(held.shape), 1)
        return node.inputs if is_along and own is not None and (axis == 0 or len(held.shape) == 2) else None

    def bias(self, node: Node, *scales: str) -> tuple[str, ...] | None:
        """The integers of a bias whose scale is the product's; none where there is no bias, None where it is no such
        one."""
        name = node.inputs[BIAS[node.op]] if len(node.inputs) > BIAS[node.op] else ""
        if not name:
            return ()
        made = self.makers.get(name)
        if made is None or made.op != "DequantizeLinear" or self.kind(made.inputs[0]) != WORDS:
            return None
        zero = made.inputs[2] if len(made.inputs) > 2 else ""
        held = [self.graph.tensors.get(n) for n in (made.inputs[1], *scales)]
        if not all(isinstance(t, Stored) for t in held):
            return None
        own, x, w = [t.load().double() for t in held]  # type: ignore[union-attr]
        if not bool(((own - x * w).abs() <= own.abs() * 1e-5).all()):
            return None
        return made.inputs[:1] if not zero or self.number(zero) == 0 else None

    def kind(self, name: str) -> int:
        held = self.graph.tensors.get(name)
        return held.element.number if isinstance(held, Stored) else 0

    def is_one(self, name: str) -> bool:
        """Whether the file holds one number by this name."""
        held = self.graph.tensors.get(name)
        return isinstance(held, Stored) and held.numel() == 1

    def number(self, name: str) -> Any:
        """The one number that a tensor of the file has everywhere, or None."""
        held = self.graph.tensors.get(name)
        values = set(held.load().reshape(-1).tolist()) if isinstance(held, Stored) else set()
        return values.pop() if len(values) == 1 else None
