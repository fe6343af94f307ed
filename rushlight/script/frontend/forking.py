"""`torch.jit.fork(call, ...)`: a call that runs beside the rest.

Enters: the call. Leaves: a `prim::fork` node whose graph makes the call; what it reads of the program around it is
handed over as the node's inputs. Refuses: a fork without something to call.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from .. import types as t
from ..ir import Block, Graph, Node, Value
from ..source import Range
from .errors import CompileError

if TYPE_CHECKING:
    from .emitter import Emitter


def emit_fork(e: Emitter, tree: ast.Call, at: Range) -> Value:
    """The future of a call."""
    if not tree.args:
        raise CompileError("Expected at least one argument to fork()", at)
    called = e.expression(tree.args[0])
    args = [e.value(arg) for arg in tree.args[1:]]
    kwargs = {keyword.arg: e.value(keyword.value) for keyword in tree.keywords if keyword.arg is not None}
    if len(kwargs) != len(tree.keywords):
        raise CompileError("fork() takes no **kwargs", at)
    node = e.graph.insert("prim::fork", ())
    inside = node.add_block()
    with e.graph.inserting(inside), e.graph.at_range(at):
        result = called.call(e, at, args, kwargs).value(e, at)
    inside.register_output(result)
    node.outputs_[0].type_ = t.FutureType(result.type_)
    return lift(node).outputs_[0]


def lift(node: Node) -> Node:
    """Make a node's block a graph of its own, an attribute of the node; values from outside become inputs."""
    inside, own = node.blocks_[0], Graph()
    values: dict[Value, Value] = {}
    for value in outer_values(inside):
        node.add_input(value)
        values[value] = own.add_input("", value.type_)
        if value.has_name():
            values[value].set_debug_name(value.name)
    for inner in inside.nodes():
        own.insert_node(own.create_clone(inner, values))
    for value in inside.return_node.inputs_:
        own.register_output(values[value])
    node.erase_block(0)
    return node.set("g", "Subgraph", own)


def outer_values(block: Block) -> list[Value]:
    """What the nodes of a block read from around it, in the order of reading."""
    made = set(block.params.outputs_)
    found: list[Value] = []
    for node in block.all_nodes():
        made.update(node.outputs_, *(inner.params.outputs_ for inner in node.blocks_))
        inner_ends = [value for inner in node.blocks_ for value in inner.return_node.inputs_]
        found += [value for value in (*node.inputs_, *inner_ends) if value not in made and value not in found]
    return found + [value for value in block.return_node.inputs_ if value not in made and value not in found]
