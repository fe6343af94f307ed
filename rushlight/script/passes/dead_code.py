"""Nodes that nobody needs.

Enters: a graph. Leaves: it without nodes whose results nobody reads, which write nothing that lives on and do nothing
else; without results of branches and values of loops that nobody reads.
"""

from __future__ import annotations

from ..ir import Block, Graph, Node, Value
from .aliases import Aliases, Spot, meet, schema_of
from .effects import has_side_effects

_MAY_WRITE = frozenset(("prim::SetAttr", "prim::fork", "aten::wait", "prim::awaitable", "prim::awaitable_wait"))
_CONTAINERS = frozenset(("prim::If", "prim::GradOf"))


def drop_dead(graph: Graph, *, keep_effects: bool = True, with_aliases: bool = True) -> None:
    """All of it. Without `keep_effects` prints, raises and the like go as well where nobody reads their results;
    without `with_aliases` every write stays."""
    sweeper = _Sweeper(graph.block, Aliases(graph) if with_aliases else None, keep_effects)
    sweeper.mark(graph.block.return_node)
    sweeper.mark_block(graph.block)
    sweeper.sweep(graph.block)


class _Sweeper:
    def __init__(self, block: Block, aliases: Aliases | None, keep_effects: bool) -> None:
        self.block, self.aliases, self.keep_effects = block, aliases, keep_effects
        self.marked: set[Node] = set()
        self.live: set[Value] = set()
        self.memory: set[Spot] = set()

    # --- what is needed
    def need(self, value: Value) -> None:
        if value not in self.live:
            self.live.add(value)
            if self.aliases is not None:
                self.memory |= self.aliases.contents(value)

    def mark(self, node: Node) -> bool:
        """A node stays, and so do those that hold it and what all of them read."""
        if node in self.marked:
            return False
        self.marked.add(node)
        owner = node.owner()
        if owner is not None:
            self.mark(owner)
        for value in node.inputs_:
            self.need(value)
        return True

    def mark_block(self, block: Block) -> bool:
        changed = False
        for node in block.nodes():
            if self.has_effect(node):
                changed |= self.mark(node)
        changed |= self.mark_results(block)
        for node in block.reversed_nodes():
            if node.kind_ == "prim::Loop":
                changed |= self.mark_loop(node)
            else:
                for inner in node.blocks_:
                    changed |= self.mark_block(inner)
            if self.is_live(node):
                changed |= self.mark(node)
        return changed

    def mark_results(self, block: Block) -> bool:
        """Of a block's results those whose counterparts outside are read."""
        owner, before = block.owner, len(self.live)
        if owner is None:
            return False
        results, skipped = block.return_node.inputs_, 0
        if owner.kind_ == "prim::Loop":
            self.need(results[0])
            skipped = 1
        carried = block.params.outputs_[1:] if skipped else []
        for at, output in enumerate(owner.outputs_):
            if output in self.live or (skipped and carried[at] in self.live):
                self.need(results[skipped + at])
        self.marked.add(block.return_node)
        return len(self.live) != before

    def mark_loop(self, node: Node) -> bool:
        """A turn may need what another one left, so as often as there is something new."""
        changed = False
        while self.mark_block(node.blocks_[0]):
            changed = True
        return changed

    def has_effect(self, node: Node) -> bool:
        if self.keep_effects and has_side_effects(node):
            return True
        if self.aliases is not None:
            return self.aliases.writes_wild(node) or self._writes_constant(node)
        schema = schema_of(node)
        return node.kind_ in _MAY_WRITE or (schema is not None and schema.is_mutable)

    def _writes_constant(self, node: Node) -> bool:
        """A constant lives longer than a call."""
        written = self.aliases.written(node)  # type: ignore[union-attr]
        return bool(written) and any(meet(written, self.aliases.contents(each))  # type: ignore[union-attr]
                                     for each in self._constants())

    def _constants(self) -> list[Value]:
        return [node.outputs_[0] for node in self.block.all_nodes() if node.kind_ == "prim::Constant" and node.outputs_]

    def is_live(self, node: Node) -> bool:
        if any(output in self.live for output in node.outputs_):
            return True
        return self.aliases is not None and meet(self.aliases.written(node), self.memory)

    # --- what is not
    def sweep(self, block: Block) -> None:
        for node in block.reversed_nodes():
            drop_unread_results(node)
            for inner in node.blocks_:
                self.sweep(inner)
            if node not in self.marked and not node.has_uses():
                node.destroy()


def drop_unread_results(node: Node) -> None:
    """Results of branches, and values of loops, that nobody reads."""
    if node.kind_ in _CONTAINERS:
        for at in reversed(range(len(node.outputs_))):
            if not node.outputs_[at].uses_:
                node.erase_output(at)
                for block in node.blocks_:
                    block.return_node.remove_input(at)
    elif node.kind_ == "prim::Loop":
        body = node.blocks_[0]
        for at in reversed(range(len(node.outputs_))):
            if not node.outputs_[at].uses_ and not body.params.outputs_[1 + at].uses_:
                node.erase_output(at)
                body.return_node.remove_input(1 + at)
                body.params.erase_output(1 + at)
                node.remove_input(2 + at)
