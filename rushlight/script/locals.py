"""Which values of a graph share a local when it runs, and which need none.

Enters: a graph in single assignment. Leaves: a name for each value, such that a variable of the program that a loop
carries or a branch sets is one local again, as its author wrote it; and the nodes whose expression is written where
it is used. Two values share a local only where the one is never read after the other is written.
"""

from __future__ import annotations

from collections.abc import Callable

from .constants import constant_of
from .ir import Block, Graph, Node, Value
from .types import BoolType, FloatType, IntType

_SAFE = frozenset(f"aten::{name}" for name in (
    "add", "sub", "mul", "neg", "lt", "gt", "le", "ge", "eq", "ne", "__not__", "__and__", "__or__", "__xor__"))
_SAFE_BY_CONSTANT = frozenset(("aten::remainder", "aten::floordiv"))      # by a constant that is not zero
_NUMBERS = (IntType, FloatType, BoolType)


class Locals:
    """The locals of one graph."""

    def __init__(self, graph: Graph, has_text: Callable[[Node], bool]) -> None:
        self.inlined: set[Node] = set()
        self._choose_inlined(graph.block, has_text)
        self._root: dict[Value, Value] = {}
        self._members: dict[Value, list[Value]] = {}
        self._place: dict[Node, int] = {}
        self._end: dict[Node, int] = {}
        self._number(graph.block, 0)
        self._share(graph.block)

    def name(self, value: Value) -> str:
        return f"v{self._find(value).unique_}"

    # --- expressions written where they are used
    def _choose_inlined(self, block: Block, has_text: Callable[[Node], bool]) -> None:
        for node in [block.return_node, *block.reversed_nodes()]:
            if node in self.inlined:
                continue
            for inner in node.blocks_:
                self._choose_inlined(inner, has_text)
            self._take_operands(node, _before(node), has_text)

    def _take_operands(self, node: Node, point: Node | None, has_text: Callable[[Node], bool]) -> Node | None:
        """Inline operands of a node that stand right before it, from the last to the first; what stands before them."""
        operands = node.inputs_[:2] if node.kind_ == "prim::Loop" else node.inputs_
        for value in reversed(operands):
            maker = value.node_
            if maker is point and has_text(maker) and _is_harmless(maker):
                self.inlined.add(maker)
                point = self._take_operands(maker, _before(maker), has_text)
        return point

    # --- places: the order in which statements run, leaving loops aside
    def _number(self, block: Block, place: int) -> int:
        for node in block.nodes():
            place += 1
            self._place[node] = place
            for inner in node.blocks_:
                place = self._number(inner, place)
            self._end[node] = place
        place += 1
        self._place[block.return_node] = self._end[block.return_node] = place
        return place

    # --- sharing
    def _find(self, value: Value) -> Value:
        while value in self._root:
            value = self._root[value]
        return value

    def _join(self, first: Value, second: Value) -> None:
        first, second = self._find(first), self._find(second)
        if first is not second:
            self._root[second] = first
            self._members.setdefault(first, [first]).extend(self._members.pop(second, [second]))

    def _share(self, block: Block) -> None:
        for node in block.nodes():
            for inner in node.blocks_:
                self._share(inner)
            if node.kind_ == "prim::If":
                self._share_branches(node)
            elif node.kind_ == "prim::Loop":
                self._share_loop(node)

    def _share_branches(self, node: Node) -> None:
        for block in node.blocks_:
            taken: set[Value] = set()
            for output, result in zip(node.outputs_, block.return_node.inputs_, strict=True):
                if self._is_made_in(result, block) and self._find(result) not in taken:
                    self._join(output, result)
                    taken.add(self._find(result))

    def _share_loop(self, node: Node) -> None:
        body = node.blocks_[0]
        carried = body.params.outputs_[1:]
        for output, inside in zip(node.outputs_, carried, strict=True):
            self._join(inside, output)
        for inside, result in zip(carried, body.return_node.inputs_[1:], strict=True):
            others = {self._find(other) for other in carried if other is not inside}     # one value, handed on twice
            if self._is_made_in(result, body) and self._find(result) not in others and not self._meet(inside, result):
                self._join(inside, result)

    def _is_made_in(self, value: Value, block: Block) -> bool:
        node = value.node_
        return node.block is block and node is not block.params and node.kind_ != "prim::Constant" and (
            node not in self.inlined)

    def _meet(self, carried: Value, result: Value) -> bool:
        """Whether a loop's variable may still be read, in the same turn, after its next value is written."""
        reads = [self._read(use.user) for use in carried.uses_]
        for member in self._members.get(self._find(result), [result]):
            for writer, place in self._writes(member):
                if any(at > place and not _apart(writer, reader) for reader, at in reads):
                    return True
        return False

    def _read(self, user: Node) -> tuple[Node, int]:
        """The statement that a use happens in, and its place."""
        while user in self.inlined:
            user = user.outputs_[0].uses_[0].user
        return user, self._place[user]

    def _writes(self, value: Value) -> list[tuple[Node, int]]:
        """Where a value's local is written on its own account."""
        node = value.node_
        if node.kind_ == "prim::If":
            at = node.outputs_.index(value)
            results = [(block.return_node, block.return_node.inputs_[at]) for block in node.blocks_]
            return [(end, self._place[end]) for end, result in results if self._find(result) is not self._find(value)]
        if node.kind_ == "prim::Param" and node.block.owner is not None:
            loop = node.block.owner
            end = node.block.return_node
            return [(loop, self._place[loop]), (end, self._place[end])]
        if node.kind_ == "prim::Loop":
            return [(node, self._end[node])]
        return [(node, self._place[node])]


def _before(node: Node) -> Node | None:
    before = node.prev_
    while before is not None and before.kind_ == "prim::Constant":
        before = before.prev_
    return before


def _is_harmless(node: Node) -> bool:
    """Whether a node computes a number from numbers and cannot fail; its result read once."""
    if len(node.outputs_) != 1 or len(node.outputs_[0].uses_) != 1 or node.blocks_:
        return False
    if not all(isinstance(value.type_, _NUMBERS) for value in (*node.inputs_, *node.outputs_)):
        return False
    if node.kind_ in _SAFE_BY_CONSTANT:
        return isinstance(node.inputs_[0].type_, IntType) and bool(constant_of(node.inputs_[1], 0))
    return node.kind_ in _SAFE


def _apart(first: Node, second: Node) -> bool:
    """Whether two nodes stand in different branches of one `if`."""
    above = {}
    block = first.block
    while block is not None and block.owner is not None:
        above[block.owner] = block
        block = block.owner.block
    block = second.block
    while block is not None and block.owner is not None:
        if block.owner in above:
            return above[block.owner] is not block and block.owner.kind_ == "prim::If"
        block = block.owner.block
    return False
