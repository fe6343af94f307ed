"""Calls of compiled functions and methods become what they compute.

Enters: a graph. Leaves: it without `prim::CallFunction` and `prim::CallMethod` (of classes; an interface's method is
not known before it runs). Each node keeps its own place in the text and remembers the call it came through.
"""

from __future__ import annotations

from typing import Any

from ..ir import Block, Graph, Node, Value
from ..source import Range
from .peephole import peephole
from .pooling import pool_constants
from .propagation import propagate_constants


def inline(graph: Graph) -> None:
    """All calls, those within what was called included."""
    _in_block(graph.block)


def inlined(graph: Graph) -> Graph:
    """A copy without calls."""
    made = graph.copy()
    inline(made)
    return made


def _in_block(block: Block) -> None:
    for node in list(block.nodes()):
        for inner in node.blocks_:
            _in_block(inner)
        for name, kind in node.attribute_kinds.items():
            if kind == "g" and node.kind_ in ("prim::fork", "prim::awaitable", "prim::Closure"):
                inline(node.attributes[name])
        called = function_of(node)
        if called is not None:
            inline_call(node, called)


def function_of(node: Node) -> Any | None:
    """The compiled function that a node calls; None where it calls none, or one that is not known."""
    if node.kind_ == "prim::CallFunction":
        return node.inputs_[0].node_.pyobj
    if node.kind_ == "prim::CallMethod" and not node.inputs_[0].type_.is_interface_type():
        find = getattr(node.inputs_[0].type_, "find_method", None)
        return find(node.attributes["name"]) if find is not None else None
    return None


def inline_call(node: Node, called: Any) -> list[Value]:
    """Put a function's nodes in the place of a call; the values that stand for its results."""
    source = prepared(called.graph)
    for inner in source.all_nodes():
        inner.range = _through(inner.range, node.range)
        if node.scope:
            inner.scope = f"{node.scope}/{inner.scope}" if inner.scope else node.scope
    skipped = 1 if node.kind_ == "prim::CallFunction" else 0
    results = insert_before(node, source, node.inputs_[skipped:])
    for output, value in zip(node.outputs(), results, strict=True):
        output.replace_all_uses_with(value)
        if output.has_name():
            name = output.name
            output.set_debug_name("")
            value.set_debug_name(name)
        if value.node_.kind_ != "prim::Param":
            value.type_ = output.type_ if output.type_.is_subtype_of(value.type_) else value.type_
    node.destroy()
    return results


def prepared(graph: Graph) -> Graph:
    """A function's graph as it comes into others: its own calls inlined, easy questions answered, constants pooled."""
    made = graph.copy()
    inline(made)
    peephole(made, with_shapes=False, is_exact=True)
    propagate_constants(made, with_aliases=False)
    pool_constants(made)
    return made


def insert_before(node: Node, source: Graph, inputs: list[Value]) -> list[Value]:
    """Copies of a graph's nodes in front of a node; what stands for its results."""
    graph = node.graph
    values = dict(zip(source.inputs(), inputs, strict=True))
    for inner in source.nodes():
        graph.create_clone(inner, values).insert_before(node)
    return [values[output] for output in source.outputs()]


def _through(place: Range | None, call: Range | None) -> Range | None:
    """A place as it is reached through a call."""
    if place is None or call is None:
        return place
    return place._replace(called_from=_through(place.called_from, call) if place.called_from is not None else call)
