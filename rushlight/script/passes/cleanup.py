"""What every compiled function goes through before anybody sees it.

Tuples that are only made to be taken apart go, what the compiler can compute of plain numbers and words is computed,
equal constants become one at the head, results of branches and loops stand in the order in which they are used, and
loops that only break leave through their condition.
"""

from __future__ import annotations

from typing import Any

from .. import types as t
from ..constants import constant_of, insert_constant
from ..ir import Block, Graph, Node
from .dead_code import drop_dead
from .pooling import pool_constants
from .propagation import propagate_constants
from .tuples import lower_simple_tuples


def clean(graph: Graph) -> None:
    """All of it."""
    lower_simple_tuples(graph.block)
    if not propagate_constants(graph, with_aliases=False):
        drop_dead(graph)
    pool_constants(graph)
    order_outputs(graph.block)


# --- order ------------------------------------------------------------------------------------------------------------


def order_outputs(block: Block) -> None:
    """Results of branches and loops in the order of their first use, from the last node on: an order follows from what
    comes after."""
    for node in list(block.reversed_nodes()):
        if node.kind_ == "prim::If":
            _reorder(node, 0, 0)
        elif node.kind_ == "prim::Loop":
            _reorder(node, 2, 1)
        for inner in node.blocks_:
            order_outputs(inner)


def _reorder(node: Node, inputs: int, block_outputs: int) -> None:
    """Sort a node's results by first use; `inputs` come before those it carries, likewise in its block."""
    def first_use(at: int) -> tuple[int, Any, int]:
        uses = node.outputs_[at].uses_
        if not uses:
            return (1, 0, at)
        best = uses[0]
        for use in uses[1:]:
            if (use.user is best.user and use.offset < best.offset) or use.user.is_before(best.user):
                best = use
        return (0, _Place(best.user, best.offset), at)

    order = sorted(range(len(node.outputs_)), key=first_use)
    if order == list(range(len(order))):
        return
    node.outputs_ = [node.outputs_[at] for at in order]
    node.number_outputs()
    for block in node.blocks_:
        results = block.outputs()
        block.return_node.remove_all_inputs()
        for value in [*results[:block_outputs], *(results[block_outputs + at] for at in order)]:
            block.register_output(value)
    if node.kind_ == "prim::Loop":
        given, body = node.inputs(), node.blocks_[0]
        node.remove_all_inputs()
        for value in [*given[:inputs], *(given[inputs + at] for at in order)]:
            node.add_input(value)
        params = body.params.outputs_
        body.params.outputs_ = [params[0], *(params[1 + at] for at in order)]
        body.params.number_outputs()


class _Place:
    """A use, compared by where it stands."""

    def __init__(self, node: Node, offset: int) -> None:
        self.node, self.offset = node, offset

    def __lt__(self, other: _Place) -> bool:
        if self.node is other.node:
            return self.offset < other.offset
        return self.node.is_before(other.node)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Place) and self.node is other.node and self.offset == other.offset


def canonicalize_loops(graph: Graph, block: Block) -> None:
    """A counted loop whose turns may end it becomes a plain while: its own counter, one condition."""
    for node in list(block.nodes()):
        for inner in node.blocks_:
            canonicalize_loops(graph, inner)
        if node.kind_ == "prim::Loop" and _is_modified(node):
            _as_while(graph, node)


def _is_modified(node: Node) -> bool:
    """A counted loop with a condition that changes."""
    counted = constant_of(node.inputs_[0], None) != 2**63 - 1
    return counted and constant_of(node.blocks_[0].return_node.inputs_[0], None) is not True


def _as_while(graph: Graph, node: Node) -> None:
    body, count = node.blocks_[0], node.inputs_[0]
    with graph.inserting(node), graph.at_range(None):
        zero, one = insert_constant(graph, 0), insert_constant(graph, 1)
        any_left = graph.insert("aten::gt", [count, zero], t.BoolType()).outputs_[0]
        started = any_left
        if constant_of(node.inputs_[1], None) is not True:
            started = graph.insert("aten::__and__", [any_left, node.inputs_[1]], t.BoolType()).outputs_[0]
        forever = insert_constant(graph, 2**63 - 1)
    node.replace_input(0, forever)
    node.replace_input(1, started)
    node.add_input(zero)
    index = body.add_input("", t.IntType())
    counter = body.params.outputs_[0]
    counter.replace_all_uses_with(index)
    if counter.has_name():
        name = counter.name
        counter.set_debug_name("")
        index.set_debug_name(name)
    with graph.inserting(body), graph.at_range(None):
        following = graph.insert("aten::add", [index, one], t.IntType()).outputs_[0]
        left = graph.insert("aten::lt", [following, count], t.BoolType()).outputs_[0]
        goes_on = graph.insert("aten::__and__", [left, body.return_node.inputs_[0]], t.BoolType()).outputs_[0]
    body.return_node.replace_input(0, goes_on)
    body.register_output(following)
    node.add_output(t.IntType())
