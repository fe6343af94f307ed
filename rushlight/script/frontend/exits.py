"""Returns, breaks and continues anywhere become plain control flow.

Enters: a graph in single assignment with `prim::ReturnStmt` and `prim::LoopContinuation` nodes. Leaves: one exit at the
end of each block: where a block might have been left, what follows is guarded by an If, and values that an untaken path
would have given are `prim::Uninitialized`.
"""

from __future__ import annotations

from typing import NamedTuple

from .. import types as t
from ..constants import constant_of, insert_constant
from ..ir import Block, Graph, Node, Value

WILL, MIGHT, WONT, THROWS = "will", "might", "wont", "throws"


class Exit(NamedTuple):
    """Whether a block was left, and with which values."""

    status: str
    left: Value | None = None            # a bool of the graph where the status is MIGHT
    values: tuple[Value, ...] = ()


def transform_exits(graph: Graph) -> None:
    """All returns, then all breaks and continues."""
    for kind in ("prim::ReturnStmt", "prim::LoopContinuation"):
        if any(node.kind_ == kind for node in graph.all_nodes()) or kind == "prim::ReturnStmt":
            _Transformer(graph, kind).run()
    _inline_consecutive_ifs(graph.block)


class _Transformer:
    def __init__(self, graph: Graph, kind: str) -> None:
        self.graph, self.kind = graph, kind
        with graph.inserting(self._head()), graph.at_range(None):
            self.fixed = {value: insert_constant(graph, value) for value in (True, False)}
        self.blanks: dict[t.Type, Value] = {}

    def run(self) -> None:
        self.block(self.graph.block, is_target=self.kind == "prim::ReturnStmt")

    # --- constants at the head of the graph
    def _head(self) -> Node:
        return self.graph.block.params.next_  # type: ignore[return-value]

    def boolean(self, value: bool) -> Value:
        return self.fixed[value]

    def blank(self, type: t.Type) -> Value:
        if type not in self.blanks:
            with self.graph.inserting(self._head()), self.graph.at_range(None):
                self.blanks[type] = self.graph.insert("prim::Uninitialized", (), type).outputs_[0]
        return self.blanks[type]

    def blanks_for(self, values: tuple[Value, ...] | list[Value]) -> list[Value]:
        return [self.blank(value.type_) for value in values]

    # --- blocks
    def block(self, block: Block, is_target: bool) -> Exit:
        found = Exit(WONT)
        for node in list(block.nodes()):
            if node.block is not block:
                continue
            if node.kind_ == "prim::RaiseException":
                found = Exit(THROWS)
            elif node.kind_ == self.kind:
                found = Exit(WILL, None, tuple(node.inputs_))
                before = node.prev_
                node.destroy()
                self._cut(block, before)  # type: ignore[arg-type]
                break
            elif node.kind_ == "prim::If":
                found = self.branch(node)
            elif node.kind_ == "prim::Loop":
                found = self.loop(node)
            if found.status in (WILL, THROWS):
                self._cut(block, node)
                break
            if found.status == MIGHT:
                if node.next_ is not block.return_node:
                    found = self.guard(block, found, node)
                break
        return self._reached(block, found) if is_target else found

    def _reached(self, block: Block, found: Exit) -> Exit:
        """The block that the exits lead to: its results are theirs."""
        if found.status == MIGHT:
            with self.graph.inserting(block), self.graph.at_range(None):
                node = self.graph.insert("prim::If", [found.left], outputs=0)  # type: ignore[list-item]
            left, stayed = node.add_block(), node.add_block()
            self._outputs(node, list(found.values), block.outputs())
            del left, stayed
            self._replace_outputs(block, node.outputs_)
        elif found.status == WILL:
            self._replace_outputs(block, list(found.values))
        elif found.status == THROWS and not block.return_node.inputs_ and self.kind == "prim::ReturnStmt":
            pass
        return Exit(WONT)

    def _replace_outputs(self, block: Block, values: list[Value]) -> None:
        block.return_node.remove_all_inputs()
        for value in values:
            block.register_output(value)

    def _cut(self, block: Block, after: Node) -> None:
        """Nothing behind an exit runs; the block's results are never read."""
        outputs = self.blanks_for(block.outputs())
        self._replace_outputs(block, outputs)
        for node in list(block.reversed_nodes()):
            if node is after:
                break
            node.destroy()

    def _outputs(self, node: Node, true: list[Value], false: list[Value]) -> list[Value]:
        made = []
        for a, b in zip(true, false, strict=True):
            node.blocks_[0].register_output(a)
            node.blocks_[1].register_output(b)
            both = t.unify(a.type_, b.type_, to_union=True)
            made.append(node.add_output(both))
        return made

    def branch(self, node: Node) -> Exit:
        first, second = (self.block(block, is_target=False) for block in node.blocks_)
        statuses = {first.status, second.status}
        if statuses == {WONT} or statuses == {WONT, THROWS}:
            return Exit(WONT)
        if statuses == {THROWS}:
            return Exit(THROWS)
        if THROWS in statuses:       # the other branch decides
            other = second if first.status == THROWS else first
            blank = self.blanks_for(other.values)
            return self._merged(node, other._replace(values=tuple(blank), left=self.boolean(False))
                                if first.status == THROWS else first,
                                other._replace(values=tuple(blank), left=self.boolean(False))
                                if second.status == THROWS else second, other.status)
        values = first.values or second.values
        if first.status == WONT:
            first = Exit(WONT, None, tuple(self.blanks_for(values)))
        if second.status == WONT:
            second = Exit(WONT, None, tuple(self.blanks_for(values)))
        return self._merged(node, first, second, WILL if statuses == {WILL} else MIGHT)

    def _flag(self, found: Exit) -> Value:
        if found.status == MIGHT:
            return found.left  # type: ignore[return-value]
        return self.boolean(found.status == WILL)

    def _merged(self, node: Node, first: Exit, second: Exit, status: str) -> Exit:
        left = None
        if status == MIGHT:
            left = self._outputs(node, [self._flag(first)], [self._flag(second)])[0]
        made = self._outputs(node, list(first.values), list(second.values))
        return Exit(status, left, tuple(made))

    def guard(self, block: Block, found: Exit, after: Node) -> Exit:
        """What follows a node that might have left the block runs only where it did not."""
        with self.graph.inserting(after.next_), self.graph.at_range(None):  # type: ignore[arg-type]
            node = self.graph.insert("prim::If", [found.left], outputs=0)  # type: ignore[list-item]
        node.range = None
        left, rest = node.add_block(), node.add_block()
        for following in list(block.nodes()):
            if following.is_after(node):
                following.move_before(rest.return_node)
        outputs = block.outputs()
        block.return_node.remove_all_inputs()
        for made in self._outputs(node, self.blanks_for(outputs), outputs):
            block.register_output(made)
        del left
        later = self.block(rest, is_target=False)
        if later.status in (WONT, THROWS):
            later = Exit(WONT, None, tuple(self.blanks_for(found.values)))
            status = MIGHT
        else:
            status = WILL if later.status == WILL else MIGHT
        return self._merged(node, Exit(WILL, None, found.values), later, status)

    # --- loops
    def loop(self, node: Node) -> Exit:
        body = node.blocks_[0]
        if self.kind == "prim::LoopContinuation":
            self.block(body, is_target=True)
            return Exit(WONT)
        found = self.block(body, is_target=False)
        if found.status in (WONT, THROWS):
            return Exit(WONT)
        flag = self._flag(found)
        carried = self._carry(node, [(self.boolean(False), flag)] + [
            (self.blank(value.type_), value) for value in found.values])
        goes_on = body.return_node.inputs_[0]
        with self.graph.inserting(body), self.graph.at_range(None):
            stops = self.graph.insert("prim::If", [flag], outputs=0)
        stops.add_block(), stops.add_block()
        answer = self._outputs(stops, [self.boolean(False)], [goes_on])[0]
        body.return_node.replace_input(0, answer)
        return Exit(MIGHT, carried[0], tuple(carried[1:]))

    def _carry(self, node: Node, pairs: list[tuple[Value, Value]]) -> list[Value]:
        """More variables for a loop to carry: what each begins as, and what a turn makes of it."""
        body, made = node.blocks_[0], []
        for first, later in pairs:
            node.add_input(first)
            body.add_input("", later.type_)
            body.register_output(later)
            made.append(node.add_output(later.type_))
        return made


# --- tidying ----------------------------------------------------------------------------------------------------------


def _inline_consecutive_ifs(block: Block) -> None:
    """Where an If only asks which way the If before it went, its blocks belong into the other's."""
    for node in list(block.nodes()):
        for inner in node.blocks_:
            _inline_consecutive_ifs(inner)
    for node in list(block.nodes()):
        while node.block is block and node.kind_ == "prim::If" and _inline_next(node):
            pass


def _inline_next(node: Node) -> bool:
    after = node.next_
    if after is None or after.kind_ != "prim::If" or after.inputs_[0].node_ is not node:
        return False
    at = after.inputs_[0].offset
    answers = [constant_of(block.return_node.inputs_[at], None) for block in node.blocks_]
    if not all(isinstance(answer, bool) for answer in answers):
        return False
    graph = node.graph
    outputs = [node.add_output().copy_metadata(output) for output in after.outputs_]
    for block, answer in zip(node.blocks_, answers, strict=True):
        chosen = after.blocks_[0 if answer else 1]
        values: dict[Value, Value] = dict(zip(node.outputs_, block.return_node.inputs_, strict=False))
        for inner in chosen.nodes():
            block.append(graph.create_clone(inner, values))
        for output in chosen.return_node.inputs_:
            block.register_output(values.get(output, output))
    for before, made in zip(after.outputs(), outputs, strict=True):
        before.replace_all_uses_with(made)
    after.destroy()
    _inline_consecutive_ifs(node.blocks_[0])
    _inline_consecutive_ifs(node.blocks_[1])
    return True
