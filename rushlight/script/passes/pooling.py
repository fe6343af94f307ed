"""Equal constants become one, and all of them stand at the head of the graph."""

from __future__ import annotations

import enum
from typing import Any

from ..ir import Block, Graph, Node, Value
from .aliases import Aliases, may_change
from .cse import attribute_key


def pool_constants(graph: Graph) -> None:
    """Equal constants become one where nobody can tell: constants that are written, or seen from outside, stay."""
    _Pool(graph).block(graph.block)


class _Pool:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.known: dict[Any, Value] = {}
        self._aliases: Aliases | None = None

    def block(self, block: Block) -> None:
        for node in list(block.nodes()):
            for inner in node.blocks_:
                self.block(inner)
            if node.kind_ == "prim::Constant":
                self.constant(node)

    def constant(self, node: Node) -> None:
        key, output = _key(node), node.outputs_[0]
        if key in self.known:
            if not self.may_be(output, self.known[key]):
                return
            if output.has_name() and not self.known[key].has_name():
                name = output.name
                output.set_debug_name("")
                self.known[key].set_debug_name(name)
            output.replace_all_uses_with(self.known[key])
            node.destroy()
            return
        self.known[key] = output
        first = self.graph.block.params.next_
        if node is not first:
            node.move_before(first)  # type: ignore[arg-type]

    def may_be(self, a: Value, b: Value) -> bool:
        if not may_change(a.type_):
            return True
        if self._aliases is None:
            self._aliases = Aliases(self.graph)
        return self._aliases.may_exchange([a], [b])


def _key(node: Node) -> Any:
    if node.pyobj is not None:
        return ("function", id(node.pyobj))
    if isinstance(node.attributes.get("value"), enum.Enum):       # members stay apart, as the printed graphs have them
        return ("member", node)
    names = sorted(node.attributes)
    return (node.outputs_[0].type_, tuple((name, node.attribute_kinds[name], attribute_key(node.attributes[name]))
                                          for name in names))
