"""Graphs as text: what `print(scripted.graph)` shows.

Enters: a graph or a node. Leaves: its text, which `graph_reader` reads back. Values are printed by name, constants by
value; a tensor of more than ten elements as `<Tensor>`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..ir import Block, Graph, Node, Value
from ..types import Type
from .values import quoted, shown, shown_float, shown_tensor

INDENT = "  "


class _Writer:
    """Lines of one graph; graphs that are attributes are put off to the end."""

    def __init__(self, with_ranges: bool = True) -> None:
        self.with_ranges = with_ranges
        self.groups: list[tuple[str, Graph]] = []

    def block(self, block: Block, depth: int) -> Iterator[str]:
        for node in block.nodes():
            yield from self.node(node, depth)

    def node(self, node: Node, depth: int) -> Iterator[str]:
        yield INDENT * depth + self.head(node)
        for number, block in enumerate(node.blocks_):
            params = ", ".join(map(typed, block.params.outputs_))
            yield f"{INDENT * (depth + 1)}block{number}({params}):"
            yield from self.block(block, depth + 2)
            yield f"{INDENT * (depth + 2)}-> ({named(block.return_node.inputs_)})"

    def head(self, node: Node) -> str:
        outputs = ", ".join(map(typed, node.outputs_))
        text = f"{outputs} = {self.callee(node)}({named(node.inputs_)})"
        if node.scope and self.with_ranges:
            text += f", scope: {node.scope}"
        if node.range is not None and self.with_ranges and str(node.range):
            text += f" # {node.range}"
        return text

    def callee(self, node: Node) -> str:
        if node.kind_ == "prim::PythonOp":
            scalars = ", ".join(shown(value) for value in node.attribute("scalar_args", ()))
            others = self.attributes(node, {"name", "scalar_args"}) or "[]"
            return f"^{node.attribute('name', 'Python')}{others}({scalars})"
        graphs = [name for name, kind in node.attribute_kinds.items() if kind == "g"]
        if graphs:
            label = f"{node.kind_}_{len(self.groups)}"
            self.groups.append((label, node.attributes[graphs[0]]))
            return label + self.attributes(node, set(graphs))
        return node.kind_ + self.attributes(node, set())

    def attributes(self, node: Node, left_out: set[str]) -> str:
        parts = [f"{name}={attribute_text(value, node.attribute_kinds[name])}"
                 for name, value in node.attributes.items() if name not in left_out]
        return f"[{', '.join(parts)}]" if parts else ""


def attribute_text(value: Any, kind: str) -> str:
    """An attribute as a node prints it, by the letter of its kind."""
    if kind == "t":
        return shown_tensor(value)
    if kind == "s":
        return quoted(value)
    if kind == "f":
        return shown_float(value)
    if kind == "i":
        return str(int(value))
    if kind in ("is", "fs", "ss"):
        return f"[{', '.join(attribute_text(v, kind[0]) for v in value)}]"
    if kind == "ts":
        return f"[{', '.join('<Tensor>' for _ in value)}]"
    if kind == "ty":
        return value.ir_text
    if kind == "tys":
        return f"[{', '.join(t.ir_text for t in value)}]"
    return shown(value)


def typed(value: Value) -> str:
    """`%x : int`."""
    return f"%{value.debug_name()} : {value.type_.ir_text}"


def named(values: list[Value]) -> str:
    return ", ".join(f"%{value.debug_name()}" for value in values)


def graph_text(graph: Graph, with_ranges: bool = True) -> str:
    """A whole graph, and after it those that its nodes hold."""
    writer = _Writer(with_ranges)
    params = ",\n      ".join(map(typed, graph.inputs()))
    lines = [f"graph({params}):", *writer.block(graph.block, 1), f"  return ({named(graph.outputs())})"]
    for label, group in writer.groups:
        inner = graph_text(group, with_ranges)
        lines.append(f"with {label} = {inner}".rstrip("\n"))
    return "\n".join(lines) + "\n"


def node_text(node: Node) -> str:
    """One node, with its blocks."""
    return "\n".join(_Writer().node(node, 0)) + "\n"


def type_text(type: Type) -> str:
    """A type as graphs print it."""
    return type.ir_text
