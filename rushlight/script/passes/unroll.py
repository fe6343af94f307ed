"""Loops written out.

`unroll_constant_loops`: counted loops of a known number of turns become their turns. `unroll_loops` does so with those
of few turns and takes the others apart: a loop of eight turns at once, and one for the rest.
Only counted loops (whose condition stays True) are taken, by the second only those with small bodies.
"""

from __future__ import annotations

from .. import types as t
from ..constants import constant_of, insert_constant
from ..ir import Block, Graph, Node, Value
from .dead_code import drop_dead

FACTOR = 8                # turns at once
LARGEST_BODY = 31         # nodes
MOST_TURNS = 64           # of a loop that disappears beside others that do not


def unroll_loops(graph: Graph) -> bool:
    """Constant loops, then the innermost others."""
    changed = _in_block(graph.block, constant_only=False)
    if changed:
        drop_dead(graph)
    return changed


def unroll_constant_loops(graph: Graph) -> bool:
    """Loops whose count is known."""
    changed = _in_block(graph.block, constant_only=True)
    if changed:
        drop_dead(graph)
    return changed


def _in_block(block: Block, constant_only: bool) -> bool:
    changed = False
    for node in list(block.nodes()):
        if node.block is not block:
            continue
        for inner in node.blocks_:
            changed |= _in_block(inner, constant_only)
        if node.kind_ == "prim::Loop":
            changed |= _constant_loop(node) if constant_only else _loop(node)
    return changed


def is_counted(node: Node) -> bool:
    """A `for` without `break`: it starts, and every turn goes on."""
    return constant_of(node.inputs_[1], None) is True and constant_of(
        node.blocks_[0].return_node.inputs_[0], None) is True


def _is_small(block: Block) -> bool:
    return sum(1 for _ in block.all_nodes()) <= LARGEST_BODY


def _constant_loop(node: Node) -> bool:
    """All turns of a loop whose count is known, in its place."""
    count = constant_of(node.inputs_[0], None)
    if not is_counted(node) or not isinstance(count, int) or count == 2**63 - 1:
        return False
    _own_counter(node)
    graph = node.graph
    with graph.inserting(node):
        carried, body = node.inputs_[2:], node.blocks_[0]
        for _ in range(max(count, 0)):
            carried = _turn(body, body.params.outputs_[0], carried)
    for output, value in zip(node.outputs(), carried, strict=True):
        output.replace_all_uses_with(value)
    node.destroy()
    return True


def _turn(body: Block, index: Value, carried: list[Value]) -> list[Value]:
    """The nodes of a turn where nodes go now; what it leaves."""
    graph = body.graph
    values: dict[Value, Value] = dict(zip(body.params.outputs_, [index, *carried], strict=True))
    for node in body.nodes():
        graph.insert_node(graph.create_clone(node, values))
    return [values.get(value, value) for value in body.return_node.inputs_[1:]]


def _loop(node: Node) -> bool:
    """`FACTOR` turns at once, and a second loop for those that are left."""
    held = constant_of(node.inputs_[0], None)
    if not is_counted(node) or not _is_small(node.blocks_[0]) or held == 2**63 - 1:
        return False
    if isinstance(held, int) and held < MOST_TURNS:
        return _constant_loop(node)
    graph, count = node.graph, node.inputs_[0]
    _own_counter(node)
    with graph.inserting(node):
        factor = insert_constant(graph, FACTOR)
        turns = graph.insert("aten::__round_to_zero_floordiv", [count, factor], t.IntType()).outputs_[0]
        done = graph.insert("aten::mul", [turns, insert_constant(graph, FACTOR)], t.IntType()).outputs_[0]
        left = graph.insert("aten::sub", [count, done], t.IntType()).outputs_[0]
    rest = graph.create_clone(node, {})
    rest.insert_after(node)
    for output, later in zip(node.outputs(), rest.outputs_, strict=True):
        output.replace_all_uses_with(later)
    for at, output in enumerate(node.outputs_):
        rest.replace_input(2 + at, output)
    rest.replace_input(0, left)
    node.replace_input(0, turns)
    _repeat(node)
    return True


def _own_counter(node: Node) -> None:
    """A loop whose turns read their number carries it as its first value."""
    body, graph = node.blocks_[0], node.graph
    counter = body.params.outputs_[0]
    if not counter.uses_:
        return
    with graph.inserting(node):
        node.insert_input(2, insert_constant(graph, 0))
    index = body.params.insert_output(1).set_type(t.IntType())
    counter.replace_all_uses_with(index)
    with graph.inserting(body):
        one = insert_constant(graph, 1)
        following = graph.insert("aten::add", [index, one], t.IntType()).outputs_[0]
    body.return_node.insert_input(1, following)
    node.insert_output(0).set_type(t.IntType())


def _repeat(node: Node) -> None:
    """The body several times in a row."""
    body = node.blocks_[0]
    graph = body.graph
    nodes, results = list(body.nodes()), body.return_node.inputs_[1:]
    with graph.inserting(body):
        carried = results
        for _ in range(FACTOR - 1):
            values: dict[Value, Value] = dict(zip(body.params.outputs_[1:], carried, strict=True))
            for inner in nodes:
                graph.insert_node(graph.create_clone(inner, values))
            carried = [values.get(value, value) for value in results]
    for at, value in enumerate(carried):
        body.return_node.replace_input(1 + at, value)
