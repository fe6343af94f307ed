"""From a trace with blocks for modules to methods that call each other.

Enters: a graph whose `prim::TracedModuleForward` nodes hold the calls of modules, and whose parameters are
`prim::TracedAttr` nodes at its head. Leaves: flat graphs: each block a method of its module's class, parameters read by
`prim::GetAttr` where they are used, values of other modules handed in and out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import types as t
from ..classes import ClassType
from ..ir import Block, Graph, Node, Value

FORWARD, ATTRIBUTE = "prim::TracedModuleForward", "prim::TracedAttr"


def to_methods(graph: Graph, clean: Callable[[Graph], None], add_method: Callable[[ClassType, Graph], str]) -> None:
    """Rewrite the trace of a module; `add_method` gives a class a method and says its name."""
    _Attributes(graph).run()
    _lift_results(graph)
    results_as_tuples(graph.block)
    _blocks_as_graphs(graph.block)
    _calls(graph, clean, add_method)
    clean(graph)


def to_flat(graph: Graph, clean: Callable[[Graph], None]) -> None:
    """Rewrite the trace of a function: what modules it called are part of it."""
    _lift_results(graph)
    results_as_tuples(graph.block)
    _inline_blocks(graph.block)
    clean(graph)


class _Attributes:
    """Parameters, buffers and modules: read from `self` in each block that uses them."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.by_path = {node.attributes["scope"]: node.outputs_[0] for node in graph.nodes() if node.kind_ == ATTRIBUTE}

    def run(self) -> None:
        self._add_self(self.graph.block)
        self._convert(self.graph.block, "__module", self.graph.block.params.outputs_[0])
        for node in list(self.graph.nodes()):
            if node.kind_ == ATTRIBUTE:
                node.destroy()

    def _add_self(self, block: Block) -> None:
        for node in block.nodes():
            if node.kind_ == FORWARD:
                held = node.add_input(self.by_path[node.attributes["scope"]])
                node.blocks_[0].add_input("self", held.type_)
                self._add_self(node.blocks_[0])

    def _convert(self, block: Block, prefix: str, owner: Value) -> list[Value]:
        """Read in a block what lies below `prefix`; the rest is handed in, and returned."""
        foreign: list[Value] = []
        remaps: dict[Value, Value] = {}
        for node in list(block.nodes()):
            if node.kind_ == FORWARD:
                inner = node.blocks_[0]
                for value in self._convert(inner, node.attributes["scope"], inner.params.outputs_[0]):
                    node.add_input(value)
            self._inputs(node, block, prefix, owner, remaps, foreign)
        self._inputs(block.return_node, block, prefix, owner, remaps, foreign)
        return foreign

    def _inputs(self, node: Node, block: Block, prefix: str, owner: Value, remaps: dict[Value, Value],
                foreign: list[Value]) -> None:
        for at, value in enumerate(node.inputs()):
            if value not in remaps:
                if value.node_.kind_ != ATTRIBUTE:
                    continue
                path: str = value.node_.attributes["scope"]
                if path.startswith(prefix + "."):
                    remaps[value] = self._read(block, owner, path[len(prefix) + 1:].split("."), value)
                else:
                    remaps[value] = block.add_input("", value.type_)
                    foreign.append(value)
            node.replace_input(at, remaps[value])

    def _read(self, block: Block, owner: Value, path: list[str], value: Value) -> Value:
        held = owner
        graph = self.graph
        scope, graph.current_scope = graph.current_scope, ""
        with graph.inserting(block.params.next_), graph.at_range(None):  # type: ignore[arg-type]
            for name in path:
                type = held.type_.slot_type(name)  # type: ignore[attr-defined]
                node = graph.insert("prim::GetAttr", [held], type).set("s", "name", name)
                held = node.outputs_[0].set_debug_name(f"_{name}" if name.isdigit() else name)
        graph.current_scope = scope
        return held


def _lift_results(graph: Graph) -> None:
    """Values of inner blocks that are used outside become results of those blocks."""
    remaps: dict[Value, Value] = {}

    def inputs_of(node: Node, block: Block) -> None:
        for at, value in enumerate(node.inputs()):
            if value.node_.block is block:
                continue
            if value in remaps:
                node.replace_input(at, remaps[value])
                value = remaps[value]
                if value.node_.block is block:
                    continue
            lifted, inside = value, value.node_.block
            common = _common_block(node, value.node_)
            while inside is not common:
                inside.register_output(lifted)  # type: ignore[union-attr]
                lifted = inside.owner.add_output(lifted.type_)  # type: ignore[union-attr]
                inside = inside.owner.block  # type: ignore[union-attr]
            if lifted is not value:
                remaps[value] = lifted
                node.replace_input(at, lifted)

    def block_of(block: Block) -> None:
        inputs_of(block.return_node, block)
        for node in list(block.nodes()):
            inputs_of(node, block)
            if node.kind_ == FORWARD:
                block_of(node.blocks_[0])

    block_of(graph.block)


def _blocks(node: Node) -> list[Block]:
    found: list[Block] = []
    block = node.block
    while block is not None:
        found.append(block)
        block = block.owner.block if block.owner is not None else None
    return found


def _common_block(a: Node, b: Node) -> Block:
    around = _blocks(b)
    return next(block for block in _blocks(a) if any(block is other for other in around))


def results_as_tuples(block: Block) -> None:
    """Blocks with several results get one: a tuple, taken apart outside."""
    graph = block.graph
    for node in list(block.nodes()):
        if node.kind_ != FORWARD:
            continue
        inner = node.blocks_[0]
        results_as_tuples(inner)
        outputs = inner.outputs()
        if len(outputs) == 1:
            continue
        with graph.inserting(inner), graph.at_range(None):
            if outputs:
                made: Any = t.TupleType([value.type_ for value in outputs])
                packed = graph.insert("prim::TupleConstruct", outputs, made).outputs_[0]
            else:
                made = t.NoneType()
                packed = graph.insert("prim::Constant", (), made).outputs_[0]
        inner.return_node.remove_all_inputs()
        inner.register_output(packed)
        whole = node.add_output(made)
        if not outputs:
            continue
        with graph.inserting(node.next_), graph.at_range(None):  # type: ignore[arg-type]
            unpack = graph.insert("prim::TupleUnpack", [whole], outputs=len(outputs))
        for before, after in zip(node.outputs_[:-1], unpack.outputs_, strict=True):
            after.type_ = before.type_
            before.replace_all_uses_with(after)
        for _ in unpack.outputs_:
            node.erase_output(0)


def _blocks_as_graphs(block: Block) -> None:
    """Each block becomes a graph of its own, with further inputs for values it takes from outside."""
    for node in list(block.nodes()):
        if node.kind_ != FORWARD:
            continue
        inner = node.blocks_[0]
        _blocks_as_graphs(inner)
        graph = Graph()
        values = _Lifting(graph, node)
        for given in inner.params.outputs_:
            values[given] = graph.add_input().copy_metadata(given)
        for each in inner.nodes():
            graph.block.append(_cloned(graph, each, values))
        for output in inner.return_node.inputs_:
            graph.register_output(values[output])
        node.erase_block(0)
        node.set("g", "Subgraph", graph)


class _Lifting(dict[Value, Value]):
    """Values of a block in its graph; one from outside becomes an input there, and of the node."""

    def __init__(self, graph: Graph, node: Node) -> None:
        super().__init__()
        self.graph, self.node = graph, node

    def __missing__(self, value: Value) -> Value:
        self[value] = made = self.graph.add_input().copy_metadata(value)
        self.node.add_input(value)
        return made

    def get(self, key: Value, default: Any = None) -> Value:  # type: ignore[override]
        return self[key]


def _cloned(graph: Graph, node: Node, values: _Lifting) -> Node:
    held = node.attributes.get("Subgraph")
    copy = graph.create_clone(node, values)
    if held is not None:
        copy.attributes["Subgraph"] = held
    return copy


def _calls(graph: Graph, clean: Callable[[Graph], None], add_method: Callable[[ClassType, Graph], str]) -> None:
    for node in list(graph.nodes()):
        if node.kind_ != FORWARD:
            continue
        inner: Graph = node.attributes["Subgraph"]
        _calls(inner, clean, add_method)
        owner: ClassType = node.inputs_[0].type_  # type: ignore[assignment]
        clean(inner)
        name = add_method(owner, inner)
        result = inner.outputs()[0].type_
        scope, graph.current_scope = graph.current_scope, ""
        with graph.inserting(node), graph.at_range(None):
            made = graph.insert("prim::CallMethod", node.inputs_, t.plain(result)).set("s", "name", name)
        graph.current_scope = scope
        node.outputs_[0].replace_all_uses_with(made.outputs_[0])
        node.destroy()


def _inline_blocks(block: Block) -> None:
    for node in list(block.nodes()):
        if node.kind_ != FORWARD:
            continue
        inner = node.blocks_[0]
        _inline_blocks(inner)
        for each in list(inner.nodes()):
            each.move_before(node)
        for output, value in zip(node.outputs_, inner.outputs(), strict=True):
            output.replace_all_uses_with(value)
        node.destroy()
