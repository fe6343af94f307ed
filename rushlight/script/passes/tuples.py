"""Tuples taken apart.

`lower_simple_tuples` removes tuples that are only made to be taken apart again. `lower_all_tuples` removes all of them:
parameters and results of the graph, of branches and of loops become their parts. Refuses, in the second form, tuples
that an op reads or that lists hold.
"""

from __future__ import annotations

from .. import types as t
from ..constants import constant_of
from ..ir import Block, Graph, Node, Value
from .dead_code import drop_dead

_TRANSPARENT = frozenset(("prim::If", "prim::Loop", "prim::TupleUnpack", "prim::TupleConstruct", "prim::TupleIndex",
                          "prim::TupleSlice", "prim::Param", "prim::Return"))


def lower_simple_tuples(block: Block) -> None:
    """Take a tuple that was just made apart without making it."""
    for node in list(block.nodes()):
        for inner in node.blocks_:
            lower_simple_tuples(inner)
        _fold_tuple(node)


def _fold_tuple(node: Node) -> bool:
    """Whether a node that takes a tuple apart was replaced by the tuple's parts."""
    if not node.inputs_ or node.inputs_[0].node_.kind_ != "prim::TupleConstruct":
        return False
    made = node.inputs_[0].node_
    if node.kind_ == "prim::TupleUnpack":
        for output, value in zip(node.outputs(), made.inputs_, strict=True):
            output.replace_all_uses_with(value)
        node.destroy()
        return True
    if node.kind_ == "prim::TupleIndex":
        at = constant_of(node.inputs_[1], None)
        if not isinstance(at, int) or not -len(made.inputs_) <= at < len(made.inputs_):
            return False
        node.outputs_[0].replace_all_uses_with(made.inputs_[at])
        node.destroy()
        return True
    if node.kind_ == "prim::TupleSlice":
        _slice(node, made)
        return True
    return False


def _slice(node: Node, made: Node) -> None:
    begin, end = node.attributes["beg"], node.attributes["end"]
    with node.graph.inserting(node), node.graph.at_range(node.range):
        part = node.graph.insert("prim::TupleConstruct", made.inputs_[begin:end], node.outputs_[0].type_)
    node.outputs_[0].replace_all_uses_with(part.outputs_[0])
    node.destroy()


def lower_all_tuples(graph: Graph) -> None:
    """All tuples of a graph."""
    _flatten_parameters(graph, graph.block)
    _lower(graph, graph.block)
    _refuse_rest(graph.block)
    drop_dead(graph, with_aliases=False)


def _lower(graph: Graph, block: Block) -> None:
    """A block's nodes in order, then what it returns."""
    for node in list(block.nodes()):
        if node.block is block:
            _lower_node(graph, node)
    _spread_inputs(graph, block.return_node)


def _lower_node(graph: Graph, node: Node) -> None:
    if node.kind_ == "prim::Constant" and isinstance(node.outputs_[0].type_, t.TupleType):
        _spread_constant(graph, node)
        return
    if _fold_tuple(node):
        return
    if node.kind_ == "prim::TupleConstruct":
        return
    if node.kind_ not in _TRANSPARENT:
        for value in node.inputs_:
            if isinstance(value.type_, t.TupleType) and value.node_.kind_ == "prim::TupleConstruct":
                _spread_inputs(graph, node)
                break
        return
    if node.kind_ == "prim::Loop":
        _spread_inputs(graph, node)
        _flatten_parameters(graph, node.blocks_[0])
    for inner in node.blocks_:
        _lower(graph, inner)
    _flatten_outputs(graph, node)


def _spread_constant(graph: Graph, node: Node) -> None:
    from ..constants import insert_constant

    held, output = node.attributes["value"], node.outputs_[0]
    with graph.inserting(node), graph.at_range(node.range):
        parts = [insert_constant(graph, item, type)
                 for item, type in zip(held, output.type_.contained(), strict=True)]
        made = graph.insert("prim::TupleConstruct", parts, output.type_)
    output.replace_all_uses_with(made.outputs_[0])
    node.destroy()
    for part in parts:
        _lower_node(graph, part.node_)


def _spread_inputs(graph: Graph, node: Node) -> None:
    """Read the parts of tuples in place of them."""
    at = 0
    while at < len(node.inputs_):
        made = node.inputs_[at].node_
        if made.kind_ != "prim::TupleConstruct" or not isinstance(node.inputs_[at].type_, t.TupleType):
            at += 1
            continue
        node.remove_input(at)
        for offset, part in enumerate(made.inputs_):
            node.insert_input(at + offset, part)


def _flatten_parameters(graph: Graph, block: Block) -> None:
    """A parameter for each part of a tuple; the tuple is made where the block begins."""
    at = 0
    while at < len(block.params.outputs_):
        value = block.params.outputs_[at]
        if not isinstance(value.type_, t.TupleType):
            at += 1
            continue
        parts = [_new_output(block.params, at + 1 + offset, type) for offset, type in
                 enumerate(value.type_.elements_)]
        _rebuild(graph, value, parts, block.params.next_)  # type: ignore[arg-type]
        block.params.erase_output(at)


def _flatten_outputs(graph: Graph, node: Node) -> None:
    at = 0
    while at < len(node.outputs_):
        value = node.outputs_[at]
        if not isinstance(value.type_, t.TupleType) or node.kind_ not in ("prim::If", "prim::Loop"):
            at += 1
            continue
        parts = [_new_output(node, at + 1 + offset, type) for offset, type in enumerate(value.type_.elements_)]
        _rebuild(graph, value, parts, node.next_)  # type: ignore[arg-type]
        node.erase_output(at)


def _new_output(node: Node, at: int, type: t.Type) -> Value:
    return node.insert_output(at).set_type(type)


def _rebuild(graph: Graph, value: Value, parts: list[Value], before: Node) -> None:
    with graph.inserting(before):
        made = graph.insert("prim::TupleConstruct", parts, value.type_).outputs_[0]
    value.replace_all_uses_with(made)


def _refuse_rest(block: Block) -> None:
    for node in list(block.reversed_nodes()):
        for inner in node.blocks_:
            _refuse_rest(inner)
        if node.kind_ == "prim::TupleConstruct" and not node.has_uses():
            node.destroy()
            continue
        for value in (*node.inputs_, *node.outputs_):
            if isinstance(value.type_, t.TupleType):
                raise RuntimeError(f"lower_all_tuples: {node.kind_} uses a tuple (%{value.debug_name()} :"
                                   f" {value.type_}) that cannot be taken apart")
