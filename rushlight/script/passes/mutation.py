"""Writes to memory that nobody has seen yet become values.

`remove_list_mutation`: a list that is made and then grown is made whole. `remove_tensor_mutation`: `y = x + 1`,
`y.add_(2)` becomes `y2 = y.add(2)`. Both only where nothing between the making and the writing can tell.
Enters: a graph. Leaves: whether something changed.
"""

from __future__ import annotations

from .. import types as t
from ..constants import constant_of, insert_constant
from ..ir import Block, Graph, Node, Value
from ..schemas import Schema, schemas_of
from .aliases import Aliases, meet, schema_of


def remove_mutation(graph: Graph) -> bool:
    """Lists first, then tensors; whether writes to tensors went."""
    remove_list_mutation(graph)
    return remove_tensor_mutation(graph)


def remove_list_mutation(graph: Graph) -> bool:
    return _each(graph, graph.block, _write_list)


def remove_tensor_mutation(graph: Graph) -> bool:
    return _each(graph, graph.block, _write_tensor)


def _each(graph: Graph, block: Block, change) -> bool:  # noqa: ANN001 - one of the two below
    changed = False
    for node in list(block.nodes()):
        for inner in node.blocks_:
            changed |= _each(graph, inner, change)
        if node.block is block and node.inputs_:
            changed |= change(graph, node)
    return changed


def is_unseen(aliases: Aliases, value: Value, node: Node) -> bool:
    """Whether a value is new memory that nothing has read, and whose ingredients nothing has written, until a node."""
    maker = value.node_
    if maker.block is not node.block or not _is_new(aliases, value):
        return False
    memory = aliases.memory(value)
    read = aliases.may_read(maker)
    between = maker.next_
    while between is not None and between is not node:
        if meet(aliases.may_read(between), memory) or meet(aliases.written(between), read):
            return False
        between = between.next_
    return True


def _is_new(aliases: Aliases, value: Value) -> bool:
    """Whether a value is memory that its node made, or that of whichever branch was taken, which nobody else reads."""
    maker = value.node_
    if maker.kind_ == "prim::If":
        chosen = [block.return_node.inputs_[value.offset_] for block in maker.blocks_]
        return all(inner.node_.block in maker.blocks_ and len(inner.uses_) == 1 and _is_new(aliases, inner)
                   for inner in chosen)
    if maker.kind_ in ("prim::Param", "prim::Constant", "prim::Loop"):
        return False
    return aliases.memory(value) == {aliases.spot(value)}


def _write_list(graph: Graph, node: Node) -> bool:
    made = node.inputs_[0].node_
    if made.kind_ != "prim::ListConstruct" or node.kind_ not in ("aten::append", "aten::_set_item", "aten::insert"):
        return False
    if not is_unseen(Aliases(graph), node.inputs_[0], node):
        return False
    if node.kind_ == "aten::append":
        added = len(made.inputs_), node.inputs_[1]
    else:
        at, size = constant_of(node.inputs_[1], None), len(made.inputs_)
        if not isinstance(at, int) or not -size <= at < size:
            return False
        added = at % size, node.inputs_[2]
    if added[1].node_.is_after(made):
        made.move_before(node)
    if node.kind_ == "aten::_set_item":
        made.replace_input(*added)
    else:
        made.insert_input(*added)
    for output in node.outputs_:
        output.replace_all_uses_with(made.outputs_[0])
    node.destroy()
    return True


_MADE_LIKE = {"aten::zero_": "aten::zeros_like", "aten::fill_": "aten::full_like"}


def functional_form(node: Node) -> Schema | None:
    """The signature of the op that computes what a node writes; None where there is none."""
    schema = schema_of(node) if node.kind_.endswith("_") and not node.kind_.endswith("__") else None
    if schema is None or not schema.is_mutable or len(schema.returns) != 1:
        return None
    wanted = [argument.type for argument in schema.arguments]
    for found in schemas_of(node.kind_[:-1]):
        if [argument.type for argument in found.arguments] == wanted and not found.is_mutable and (
                len(found.returns) == 1 and found.returns[0].alias is None):
            return found
    return None


def _write_tensor(graph: Graph, node: Node) -> bool:
    special = _MADE_LIKE.get(node.kind_)
    if special is None and functional_form(node) is None:
        return False
    value = node.inputs_[0]
    if not is_unseen(Aliases(graph), value, node):
        return False
    with graph.inserting(node), graph.at_range(node.range):
        given = node.inputs()
        if special == "aten::full_like":
            given.append(graph.insert("prim::dtype", [value], t.IntType()).outputs_[0])
        if special is not None:
            given += [insert_constant(graph, None) for _ in range(4 if special == "aten::full_like" else 5)]
        made = graph.insert(special or node.kind_[:-1], given, node.outputs_[0].type_)
    made.scope = node.scope
    node.outputs_[0].replace_all_uses_with(made.outputs_[0])
    value.replace_uses_after(node, made.outputs_[0])
    node.destroy()
    return True


def remove_inplace_ops(graph: Graph) -> None:
    """Every op that writes as the one that computes, wherever it stands. The caller answers for aliases."""
    for node in list(graph.all_nodes()):
        if functional_form(node) is None:
            continue
        with graph.inserting(node), graph.at_range(node.range):
            made = graph.insert(node.kind_[:-1], node.inputs_, node.outputs_[0].type_)
        value = node.inputs_[0]
        node.outputs_[0].replace_all_uses_with(made.outputs_[0])
        value.replace_uses_after(node, made.outputs_[0])
        node.destroy()
