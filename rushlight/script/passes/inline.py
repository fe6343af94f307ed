"""Calls of compiled functions and methods replaced by what they do.

Enters: a graph. Leaves: for `inlined` a copy without calls, for `inline` the graph itself. What is inlined has been
cleaned first: branches that its constants decide are gone.
"""

from __future__ import annotations

from typing import Any

from ..classes import ClassType
from ..ir import Block, Graph, Node, insert_graph
from .cleanup import drop_dead, fold_constants, pool_constants


def inlined(graph: Graph) -> Graph:
    """A copy with every call taken apart."""
    made = graph.copy()
    inline(made)
    return made


def inline(graph: Graph) -> None:
    """Take every call of a graph apart."""
    _inline_block(graph.block)


def callee_of(node: Node) -> Any | None:
    """The function that a call runs; None for calls of interfaces and other nodes."""
    if node.kind_ == "prim::CallFunction":
        return node.inputs_[0].node_.pyobj
    if node.kind_ == "prim::CallMethod" and isinstance(node.inputs_[0].type_, ClassType):
        return node.inputs_[0].type_.find_method(node.attributes["name"])
    return None


def _inline_block(block: Block) -> None:
    for node in list(block.nodes()):
        for inner in node.blocks_:
            _inline_block(inner)
        function = callee_of(node)
        if function is not None:
            _replace(node, function)


def _replace(node: Node, function: Any) -> None:
    graph, called = node.graph, node.inputs_[0].node_ if node.kind_ == "prim::CallFunction" else None
    inputs = node.inputs_[1:] if called is not None else node.inputs_
    with graph.inserting(node):
        results = insert_graph(graph, prepared(function), inputs)
    for output, result in zip(node.outputs_, results, strict=True):
        if output.has_name() and not result.has_name():
            name = output.name
            output.set_debug_name("")
            result.set_debug_name(name)
        output.replace_all_uses_with(result)
    node.destroy()
    if called is not None and not called.has_uses():
        called.destroy()


def prepared(function: Any) -> Graph:
    """A function's graph as callers take it in: its own calls inlined, constants folded. Made once."""
    graph = function.graph
    held = getattr(function, "prepared", None)
    if held is None or held[0] is not graph:
        made = inlined(graph)
        fold_constants(made)
        drop_dead(made)
        pool_constants(made)
        function.prepared = held = (graph, made)
    return held[1]
