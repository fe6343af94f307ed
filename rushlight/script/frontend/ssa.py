"""Single assignment: loads and stores of variables become plain uses of values.

Enters: a graph of the emitter. Leaves: the same without loads and stores; branches and loops hand variables that they
set out as results, loops take them in as parameters, and the condition of a loop is asked before it and at the end of
every turn. What a comprehension sets stays inside it.
"""

from __future__ import annotations

from .. import types as t
from ..constants import insert_constant
from ..ir import Block, Graph, Node, Value
from .environment import is_telling

Types = dict[str, t.Type]
SCOPE = "prim::ComprehensionScope"


def to_single_assignment(graph: Graph) -> None:
    """The whole way, exits apart."""
    _pass_variables(graph, graph.block, [])
    _Continuations(graph).block(graph.block, None)
    _spread_conditions(graph, graph.block)
    _drop_variables(graph.block, [])


# --- variables through branches and loops -----------------------------------------------------------------------------


def _find(frames: list[Types], name: str) -> t.Type | None:
    return next((frame[name] for frame in reversed(frames) if name in frame), None)


def _pass_variables(graph: Graph, block: Block, outer: list[Types]) -> Types:
    """Give the control flow of a block parameters and results for the variables it sets; those set in the block."""
    frames = [*outer, {}]
    for node in list(block.nodes()):
        if node.kind_ == "prim::Store":
            frames[-1][node.attributes["name"]] = node.inputs_[0].type_
        elif node.kind_ == "prim::If":
            _pass_if(graph, node, frames)
        elif node.kind_ == "prim::Loop":
            _pass_loop(graph, node, frames)
        elif node.kind_ == SCOPE:
            _pass_variables(graph, node.blocks_[0], frames)
    return frames[-1]


def _load(graph: Graph, at: Node | Block, name: str, type: t.Type) -> Value:
    with graph.inserting(at), graph.at_range(None):
        return graph.insert("prim::Load", (), type).set("s", "name", name).outputs_[0].set_debug_name(name)


def _named(value: Value, name: str) -> Value:
    """A result under the name of its variable, where that says more than a number."""
    return value.set_debug_name(name) if is_telling(name) else value


def _store(graph: Graph, at: Node, name: str, value: Value) -> None:
    with graph.inserting(at), graph.at_range(None):
        graph.insert("prim::Store", [value], outputs=0).set("s", "name", name)


def _pass_if(graph: Graph, node: Node, frames: list[Types]) -> None:
    inside = [_pass_variables(graph, block, frames) for block in node.blocks_]
    for name in sorted({name for found in inside for name in found}):
        types = [found.get(name) or _find(frames, name) for found in inside]
        if types[0] is None or types[1] is None:
            continue
        both = t.unify(types[0], types[1], to_union=True)
        if both is None:
            continue
        for block, type in zip(node.blocks_, types, strict=True):
            block.register_output(_load(graph, block, name, type))  # type: ignore[arg-type]
        output = _named(node.add_output(both), name)
        _store(graph, node.next_, name, output)  # type: ignore[arg-type]
        frames[-1][name] = both


def _pass_loop(graph: Graph, node: Node, frames: list[Types]) -> None:
    """A loop may have no turns: what it carries keeps the type it had before."""
    body = node.blocks_[0]
    for name in sorted(_pass_variables(graph, body, frames)):
        outer = _find(frames, name)
        if outer is None:
            continue
        node.add_input(_load(graph, node, name, outer))
        parameter = body.add_input(name, outer)
        _store(graph, body.params.next_, name, parameter)  # type: ignore[arg-type]
        body.register_output(_load(graph, body, name, outer))
        output = _named(node.add_output(outer), name)
        _store(graph, node.next_, name, output)  # type: ignore[arg-type]
        frames[-1][name] = outer


# --- breaks, continues and conditions of loops ------------------------------------------------------------------------


class _Continuations:
    """Breaks and continues become exits with whether the loop goes on and the values that it carries."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        with graph.inserting(graph.block.params.next_), graph.at_range(None):  # type: ignore[arg-type]
            self.false = insert_constant(graph, False)

    def block(self, block: Block, loop: Node | None) -> None:
        for node in list(block.nodes()):
            if node.kind_ == "prim::Loop":
                self.block(node.blocks_[0], node)
            elif node.kind_ in ("prim::BreakStmt", "prim::ContinueStmt"):
                self._exit(node, loop)  # type: ignore[arg-type]
            else:
                for inner in node.blocks_:
                    self.block(inner, loop)

    def _exit(self, node: Node, loop: Node) -> None:
        body, asked = loop.blocks_
        answer = self.false
        if node.kind_ == "prim::ContinueStmt":
            answer = _cloned(self.graph, asked, node)
        loads = [value.node_ for value in body.return_node.inputs_]
        values = [_load(self.graph, node, load.attributes["name"], load.outputs_[0].type_) for load in loads]
        with self.graph.inserting(node), self.graph.at_range(None):
            self.graph.insert("prim::LoopContinuation", [answer, *values], outputs=0)
        node.destroy()


def _spread_conditions(graph: Graph, block: Block) -> None:
    """Ask a loop's condition before it and at the end of its turns."""
    for node in list(block.nodes()):
        for inner in node.blocks_:
            _spread_conditions(graph, inner)
        if node.kind_ != "prim::Loop":
            continue
        body, asked = node.blocks_
        node.insert_input(1, _cloned(graph, asked, node))
        answer = asked.return_node.inputs_[0]
        for inner_node in list(asked.nodes()):
            inner_node.move_before(body.return_node)
        body.return_node.insert_input(0, answer)
        asked.return_node.remove_all_inputs()
        node.erase_block(1)


def _cloned(graph: Graph, asked: Block, at: Node) -> Value:
    values: dict[Value, Value] = {}
    with graph.inserting(at):
        for inner in asked.nodes():
            graph.insert_node(graph.create_clone(inner, values))
    answer = asked.return_node.inputs_[0]
    return values.get(answer, answer)


# --- away with loads and stores ---------------------------------------------------------------------------------------


def _drop_variables(block: Block, outer: list[dict[str, Value]]) -> None:
    frames = [*outer, {}]
    for node in list(block.nodes()):
        if node.kind_ == "prim::Store":
            frames[-1][node.attributes["name"]] = node.inputs_[0]
            node.destroy()
        elif node.kind_ == "prim::Load":
            name = node.attributes["name"]
            value = next(frame[name] for frame in reversed(frames) if name in frame)
            node.outputs_[0].replace_all_uses_with(value)
            node.destroy()
        else:
            for inner in node.blocks_:
                _drop_variables(inner, frames)
            if node.kind_ == SCOPE:
                for inner_node in list(node.blocks_[0].nodes()):
                    inner_node.move_before(node)
                node.destroy()
