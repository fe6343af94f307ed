"""Returns, breaks and continues anywhere become plain control flow.

Enters: a graph in single assignment with `prim::ReturnStmt` and `prim::LoopContinuation` nodes. Leaves: one exit at the
end of each block: where a block might have been left, what follows is guarded by an If, and values that an untaken path
would have given are `prim::Uninitialized`. The body of a `with` (what stands between `prim::Enter` and `prim::Exit`) is
a block of its own meanwhile, so that it is left through its end on every path.
"""

from __future__ import annotations

from typing import NamedTuple

from .. import types as t
from ..constants import constant_of, insert_constant
from ..ir import Block, Graph, Node, Value

RETURN, TURN = "prim::ReturnStmt", "prim::LoopContinuation"
WILL, MIGHT, WONT, THROWS = "will", "might", "wont", "throws"


class Exit(NamedTuple):
    """Whether a block was left, and with which values."""

    left: Value                          # a bool of the graph
    values: tuple[Value, ...] = ()


def transform_exits(graph: Graph, result: t.Type) -> None:
    """All breaks and continues, then all returns; `result` is what the function gives."""
    _fold_withs(graph, graph.block)
    for kind in (TURN, RETURN):
        transformer = _Transformer(graph, kind)
        transformer.block(graph.block)
    if not graph.block.outputs():        # it raises on every path: nobody reads what a caller's text names
        graph.block.register_output(transformer.blank(result))
    _inline_consecutive_ifs(graph.block)
    _unfold_withs(graph.block)


class _Transformer:
    """One kind of exit."""

    def __init__(self, graph: Graph, kind: str) -> None:
        self.graph, self.kind = graph, kind
        with graph.inserting(graph.block.params.next_), graph.at_range(None):  # type: ignore[arg-type]
            self.true, self.false = insert_constant(graph, True), insert_constant(graph, False)
        self.blanks: dict[t.Type, Value] = {}
        self.throws = self.blank(t.BoolType())
        self.target: Block | None = None

    def blank(self, type: t.Type) -> Value:
        """The one value of a type that is never read."""
        if type not in self.blanks:
            made = self.graph.create("prim::Uninitialized")
            made.range = None
            self.blanks[type] = made.insert_after(self.graph.block.params).outputs_[0].set_type(type)
        return self.blanks[type]

    def blanks_for(self, values: tuple[Value, ...] | list[Value]) -> tuple[Value, ...]:
        return tuple(self.blank(value.type_) for value in values)

    def status(self, found: Exit) -> str:
        return {self.true: WILL, self.false: WONT, self.throws: THROWS}.get(found.left, MIGHT)

    # --- blocks
    def block(self, block: Block) -> Exit:
        """Transform a block; how it is left, seen from the block around it."""
        outer = self.target
        if (self.kind == RETURN and block.owner is None) or (
                self.kind == TURN and block.owner is not None and block.owner.kind_ == "prim::Loop"):
            self.target = block
        found = Exit(self.false)
        node = block.params.next_
        while node is not block.return_node:
            following: Node = node.next_  # type: ignore[union-attr,assignment]
            step = self._step(node)  # type: ignore[arg-type]
            found = found if step is None else step
            status = self.status(found)
            if status in (WILL, THROWS):
                self._cut(block, following)
                break
            if status == MIGHT:
                if following is not block.return_node:
                    found = self._guard(block, found, following)
                break
            node = following
        if self.target is block:
            self._reached(block, found)
            found = Exit(self.false)
        self.target = outer
        return found

    def _step(self, node: Node) -> Exit | None:
        if node.kind_ == "prim::RaiseException":
            return Exit(self.throws)
        if node.kind_ == self.kind:
            found = Exit(self.true, tuple(node.inputs_))
            node.destroy()
            return found
        if node.kind_ == "prim::If":
            return self._branch(node)
        if node.kind_ == "prim::Loop":
            return self._loop(node)
        return self.block(node.blocks_[0]) if node.kind_ == "prim::With" else None

    def _reached(self, block: Block, found: Exit) -> None:
        """The block that the exits lead to: its results are theirs."""
        status = self.status(found)
        if status == MIGHT:
            with self.graph.inserting(block), self.graph.at_range(None):
                node = self.graph.insert("prim::If", [found.left], outputs=0)
            node.add_block(), node.add_block()
            self._outputs(node, found.values, block.outputs())
            _replace_outputs(block, node.outputs_)
        elif status == WILL:
            _replace_outputs(block, list(found.values))

    def _cut(self, block: Block, first: Node) -> None:
        """Nothing behind an exit runs; what it would have given is never read."""
        behind = []
        while first is not block.return_node:
            behind.append(first)
            first = first.next_  # type: ignore[assignment]
        for node in reversed(behind):
            for output in node.outputs_:
                if output.uses_:
                    output.replace_all_uses_with(self.blank(output.type_))
            node.destroy()

    def _outputs(self, node: Node, true: tuple[Value, ...], false: tuple[Value, ...] | list[Value]) -> list[Value]:
        """More results for an If."""
        made = []
        for a, b in zip(true, false, strict=True):
            node.blocks_[0].register_output(a)
            node.blocks_[1].register_output(b)
            made.append(node.add_output(t.unify(a.type_, b.type_, to_union=True)))
        return made

    def _branch(self, node: Node) -> Exit:
        first, second = map(self.block, node.blocks_)
        statuses = [self.status(found) for found in (first, second)]
        decided = [status for status in statuses if status != THROWS]
        if not decided:
            return Exit(self.throws)
        if set(decided) == {WONT}:
            return Exit(self.false)
        if statuses[0] in (WONT, THROWS):
            first = Exit(first.left, self.blanks_for(second.values))
        elif statuses[1] in (WONT, THROWS):
            second = Exit(second.left, self.blanks_for(first.values))
        left = self.true
        if set(decided) != {WILL}:
            left = self._outputs(node, (first.left,), (second.left,))[0]
        return Exit(left, tuple(self._outputs(node, first.values, second.values)))

    def _guard(self, block: Block, found: Exit, first: Node) -> Exit:
        """What follows a node that might have left the block runs only where it did not."""
        with self.graph.inserting(first), self.graph.at_range(None):
            node = self.graph.insert("prim::If", [found.left], outputs=0)
        left, rest = node.add_block(), node.add_block()
        while first is not block.return_node:
            following = first.next_
            first.move_before(rest.return_node)
            first = following  # type: ignore[assignment]
        outputs = block.outputs()
        block.return_node.remove_all_inputs()
        for value, blank in zip(outputs, self.blanks_for(outputs), strict=True):
            left.register_output(blank)
            rest.register_output(value)
            block.register_output(node.add_output(value.type_))
        with self.graph.inserting(left), self.graph.at_range(None):
            self.graph.insert(self.kind, found.values, outputs=0)
        return self._branch(node)

    def _loop(self, node: Node) -> Exit:
        """A loop that is left from within ends its turns, and hands on that it was left, and with what."""
        body = node.blocks_[0]
        found = self.block(body)
        if self.status(found) in (WONT, THROWS):      # it may have no turns
            return Exit(self.false)
        with self.graph.inserting(body), self.graph.at_range(None):
            stops = self.graph.insert("prim::If", [found.left], outputs=0)
        stops.add_block(), stops.add_block()
        answer = self._outputs(stops, (self.false,), (body.return_node.inputs_[0],))[0]
        body.return_node.replace_input(0, answer)
        made = []
        for first, later in ((self.false, found.left), *zip(self.blanks_for(found.values), found.values, strict=True)):
            node.add_input(first)
            body.add_input("", later.type_)
            body.register_output(later)
            made.append(node.add_output(later.type_))
        return Exit(made[0], tuple(made[1:]))


def _replace_outputs(block: Block, values: list[Value]) -> None:
    block.return_node.remove_all_inputs()
    for value in values:
        block.register_output(value)


# --- with -------------------------------------------------------------------------------------------------------------


def _fold_withs(graph: Graph, block: Block) -> None:
    """Put what stands between an Enter and its Exit into a block of its own, innermost first."""
    open_: list[Node] = []
    for node in list(block.nodes()):
        for inner in node.blocks_:
            _fold_withs(graph, inner)
        if node.kind_ == "prim::Enter":
            open_.append(node)
        elif node.kind_ == "prim::Exit" and open_:
            _fold_with(graph, open_.pop(), node)


def _fold_with(graph: Graph, enter: Node, leave: Node) -> None:
    with graph.inserting(leave), graph.at_range(None):
        node = graph.insert("prim::With", outputs=0)
    body, ends = node.add_block(), node.add_block()
    inner = enter.next_
    while inner is not node:
        following = inner.next_  # type: ignore[union-attr]
        inner.move_before(body.return_node)  # type: ignore[union-attr]
        inner = following
    leave.move_before(ends.return_node)
    enter.move_before(node)


def _unfold_withs(block: Block) -> None:
    for node in list(block.nodes()):
        for inner in node.blocks_:
            _unfold_withs(inner)
        if node.kind_ == "prim::With":
            for part in node.blocks_:
                for inner_node in list(part.nodes()):
                    inner_node.move_before(node)
            node.destroy()


# --- tidying ----------------------------------------------------------------------------------------------------------


def _inline_consecutive_ifs(block: Block) -> None:
    """Where an If only asks which way the If before it went, its blocks belong into the other's."""
    node = block.params.next_
    while node is not block.return_node:
        for inner in node.blocks_:  # type: ignore[union-attr]
            _inline_consecutive_ifs(inner)
        if not _inline_next(node):  # type: ignore[arg-type]
            node = node.next_  # type: ignore[union-attr]


def _inline_next(node: Node) -> bool:
    after = node.next_
    if node.kind_ != "prim::If" or after is None or after.kind_ != "prim::If" or after.inputs_[0].node_ is not node:
        return False
    at = after.inputs_[0].offset_
    answers = [constant_of(block.return_node.inputs_[at], None) for block in node.blocks_]
    if not all(isinstance(answer, bool) for answer in answers) or answers[0] == answers[1]:
        return False
    for block, answer in zip(node.blocks_, answers, strict=True):
        values: dict[Value, Value] = dict(zip(node.outputs_, block.return_node.inputs_, strict=True))
        block.clone_from(after.blocks_[0 if answer else 1], values)
    for before in after.outputs():
        before.replace_all_uses_with(node.add_output().copy_metadata(before))
    after.destroy()
    return True
