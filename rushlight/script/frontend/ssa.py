"""Single assignment: loads and stores of variables become plain uses of values.

Enters: a graph of the emitter. Leaves: the same without loads and stores; branches and loops hand variables that they
set out as results, loops take them in as parameters, and the condition of a loop is asked before it and at the end of
every turn.
"""

from __future__ import annotations

from .. import types as t
from ..constants import insert_constant
from ..ir import Block, Graph, Node, Value

Types = dict[str, t.Type]


def to_single_assignment(graph: Graph) -> None:
    """The whole way, exits apart."""
    _pass_variables(graph, graph.block, [])
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
        elif node.kind_ == "prim::Load":
            known = _find(frames, node.attributes["name"])
            if known is not None:
                node.outputs_[0].type_ = known
        elif node.kind_ == "prim::If":
            _pass_if(graph, node, frames)
        elif node.kind_ == "prim::Loop":
            _pass_loop(graph, node, frames)
        elif node.kind_ == "prim::With":
            frames[-1].update(_pass_variables(graph, node.blocks_[0], frames))
    return frames[-1]


def _load(graph: Graph, at: Node | Block, name: str, type: t.Type) -> Value:
    with graph.inserting(at), graph.at_range(None):
        return graph.insert("prim::Load", (), type).set("s", "name", name).outputs_[0].set_debug_name(name)


def _store(graph: Graph, at: Node, name: str, value: Value) -> None:
    with graph.inserting(at), graph.at_range(None):
        graph.insert("prim::Store", [value], outputs=0).set("s", "name", name)


def _pass_if(graph: Graph, node: Node, frames: list[Types]) -> None:
    inside = [_pass_variables(graph, block, frames) for block in node.blocks_]
    for name in sorted({name for found in inside for name in found}):
        types = [found.get(name) or _find(frames, name) for found in inside]
        if None in types:
            continue
        both = t.unify(types[0], types[1], hint=_find(frames, name))  # type: ignore[arg-type]
        if both is None:
            continue
        for block, type in zip(node.blocks_, types, strict=True):
            block.register_output(_load(graph, block, name, type))  # type: ignore[arg-type]
        output = node.add_output(both).set_debug_name(name)
        _store(graph, node.next_, name, output)  # type: ignore[arg-type]
        frames[-1][name] = both


def _pass_loop(graph: Graph, node: Node, frames: list[Types]) -> None:
    body, asked = node.blocks_
    _pass_variables(graph, asked, frames)
    inside = _pass_variables(graph, body, frames)
    for name in sorted(inside):
        outer = _find(frames, name)
        if outer is None:
            continue
        both = t.unify(outer, inside[name], hint=outer) or outer
        node.add_input(_load(graph, node, name, outer))
        parameter = body.add_input(name, both)
        _store(graph, body.params.next_, name, parameter)  # type: ignore[arg-type]
        body.register_output(_load(graph, body, name, inside[name]))
        output = node.add_output(both).set_debug_name(name)
        _store(graph, node.next_, name, output)  # type: ignore[arg-type]
        frames[-1][name] = both


# --- conditions of loops ----------------------------------------------------------------------------------------------


def _spread_conditions(graph: Graph, block: Block) -> None:
    """Ask a loop's condition before it, at the end of its turns and at every `continue`; `break` answers no."""
    for node in list(block.nodes()):
        for inner in node.blocks_:
            _spread_conditions(graph, inner)
        if node.kind_ != "prim::Loop":
            continue
        body, asked = node.blocks_
        carried = list(body.return_node.inputs_)
        names = [value.node_.attributes["name"] for value in carried]
        _spread_exits(graph, body, asked, names)
        first = _cloned(graph, asked, node)
        node.insert_input(1, first)
        answer = asked.return_node.inputs_[0]
        for inner in list(asked.nodes()):
            inner.move_before(body.return_node)
        loads = [value.node_ for value in carried]
        for load in loads:                  # variables are read after the condition, which may refine them
            load.move_before(body.return_node)
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


def _spread_exits(graph: Graph, block: Block, asked: Block, names: list[str]) -> None:
    """Turn breaks and continues of one loop into exits with the values the loop carries on."""
    for node in list(block.nodes()):
        if node.kind_ in ("prim::BreakStmt", "prim::ContinueStmt"):
            with graph.inserting(node), graph.at_range(None):
                if node.kind_ == "prim::BreakStmt":
                    answer = insert_constant(graph, False)
                else:
                    answer = _cloned(graph, asked, node)
                values = [_load(graph, node, name, t.TENSOR) for name in names]
                graph.insert("prim::LoopContinuation", [answer, *values], outputs=0)
            node.destroy()
        elif node.kind_ != "prim::Loop":
            for inner in node.blocks_:
                _spread_exits(graph, inner, asked, names)


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
        elif node.kind_ == "prim::With":
            frames[-1].update(_drop_with(node, frames))
        else:
            for inner in node.blocks_:
                _drop_variables(inner, frames)


def _drop_with(node: Node, frames: list[dict[str, Value]]) -> dict[str, Value]:
    """The block of a `with` is part of the block around it: it is entered always."""
    block = node.blocks_[0]
    graph = node.graph
    with graph.inserting(node), graph.at_range(None):
        for value in node.inputs_:
            graph.insert("prim::Enter", [value], t.NoneType())
    for inner in list(block.nodes()):
        inner.move_before(node)
    with graph.inserting(node), graph.at_range(None):
        for value in reversed(node.inputs_):
            graph.insert("prim::Exit", [value], t.TENSOR)
    node.destroy()
    return {}
