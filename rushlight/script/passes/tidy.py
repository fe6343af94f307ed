"""The form of a graph: its shapes forgotten, its values numbered anew, its structure checked."""

from __future__ import annotations

from .. import types as t
from ..ir import Block, Graph, Node, Use, Value


def erase_shapes(graph: Graph) -> None:
    """Forget what types say of tensors beyond being tensors, in graphs of nodes as well."""
    _erase_in(graph.block)


def _erase_in(block: Block) -> None:
    for value in block.params.outputs_:
        value.type_ = t.plain(value.type_)
    for node in block.nodes():
        for value in node.outputs_:
            value.type_ = t.plain(value.type_)
        for name, kind in node.attribute_kinds.items():
            if kind == "g":
                erase_shapes(node.attributes[name])
        for inner in node.blocks_:
            _erase_in(inner)


def canonicalize(graph: Graph, keep_unique_names: bool = True) -> Graph:
    """A copy whose values are numbered in the order in which they are defined; named ones by a number too, unless
    their names are kept."""
    made = graph.copy()
    values = [*made.inputs(), *(value for node in made.all_nodes() for value in _defined(node))]
    for value in values:
        if not keep_unique_names:
            value.set_debug_name("")
    for number, value in enumerate(_in_order(made)):
        value.unique_ = number
    made.uniques = len(values)
    return made


def _defined(node: Node) -> list[Value]:
    return [*node.outputs_, *(value for block in node.blocks_ for value in block.params.outputs_)]


def _in_order(graph: Graph) -> list[Value]:
    found = graph.inputs()
    for node in graph.all_nodes():
        found += _defined(node)
    return found


def lint(graph: Graph) -> None:
    """Check a graph's structure: values are read where they are known, uses noted once, blocks fit.
    Refuses with a RuntimeError that names the value or node."""
    _lint_block(graph, graph.block, set())
    if graph.insert_at.block is None:
        raise RuntimeError("lint: nodes go to a place that is in no block")


def _lint_block(graph: Graph, block: Block, above: set[Value]) -> None:
    known = set(above) | set(block.params.outputs_)
    for node in (*block.nodes(), block.return_node):
        _lint_node(graph, node, known, block)
        known |= set(node.outputs_)


def _lint_node(graph: Graph, node: Node, known: set[Value], block: Block) -> None:
    if node.graph is not graph or node.block is not block:
        raise RuntimeError(f"lint: {node.kind_} belongs to another graph or block")
    for at, value in enumerate(node.inputs_):
        if value not in known:
            raise RuntimeError(f"lint: {node.kind_} reads %{value.debug_name()}, which is not defined there")
        if value.uses_.count(Use(node, at)) != 1:
            raise RuntimeError(f"lint: %{value.debug_name()} does not note that {node.kind_} reads it")
    for at, value in enumerate(node.outputs_):
        if value.node_ is not node or value.offset_ != at:
            raise RuntimeError(f"lint: %{value.debug_name()} is not output {at} of {node.kind_}")
        for user, offset in value.uses_:
            if offset >= len(user.inputs_) or user.inputs_[offset] is not value:
                raise RuntimeError(f"lint: %{value.debug_name()} notes a use that is none")
    for inner in node.blocks_:
        _lint_block(graph, inner, known)
    _lint_control(node)


def _lint_control(node: Node) -> None:
    if node.kind_ == "prim::If":
        fits = len(node.blocks_) == 2 and all(
            len(inner.return_node.inputs_) == len(node.outputs_) and not inner.params.outputs_
            for inner in node.blocks_)
    elif node.kind_ == "prim::Loop":
        counts = {len(node.inputs_) - 2, len(node.outputs_)} | {
            count for inner in node.blocks_
            for count in (len(inner.params.outputs_) - 1, len(inner.return_node.inputs_) - 1)}
        fits = len(node.blocks_) == 1 and len(counts) == 1
    else:
        return
    if not fits:
        raise RuntimeError(f"lint: the blocks of {node.kind_} do not fit its inputs and outputs")
