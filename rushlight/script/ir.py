"""The intermediate form of a script: a graph of nodes in blocks, in single assignment.

Enters: nodes, made by the frontend, a trace, a parser or a program. Leaves: a structure to walk and change. A `Value`
is defined once, by a node or a block's parameters; a `Node` has a kind (`aten::add`), inputs, outputs, attributes and
blocks of its own (`prim::If`, `prim::Loop`); a `Block` is a row of nodes between its parameters and what it returns.
Refuses: to destroy what is still used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from ..base import late
from .faces import BlockFace, GraphFace, NodeFace, ValueFace
from .source import Range
from .types import TENSOR, NoneType, Type

GRAPH, VALUES = "g", "ival"


class Use(NamedTuple):
    """One place where a value is an input."""

    user: Node
    offset: int

    def isAfter(self, other: Use) -> bool:  # noqa: N802 - the name programs call
        return self.user.is_after(other.user) if self.user is not other.user else self.offset > other.offset


class Value(ValueFace):
    """What a node or a block defines."""

    __slots__ = ("node_", "offset_", "unique_", "name", "type_", "uses_")

    def __init__(self, node: Node, offset: int) -> None:
        self.node_, self.offset_ = node, offset
        self.unique_ = node.graph.next_unique()
        self.name = ""
        self.type_: Type = TENSOR
        self.uses_: list[Use] = []

    def node(self) -> Node:
        return self.node_

    def type(self) -> Type:
        return self.type_

    def unique(self) -> int:
        return self.unique_

    def offset(self) -> int:
        """Which of its node's outputs it is."""
        return self.offset_

    def uses(self) -> list[Use]:
        return list(self.uses_)

    def has_name(self) -> bool:
        """Whether it is called something better than its number."""
        return bool(self.name)

    def debug_name(self) -> str:
        """What it is printed as, without the percent sign."""
        return self.name or str(self.unique_)

    def set_type(self, type: Type) -> Value:
        self.type_ = type
        return self

    def set_debug_name(self, name: str) -> Value:
        """Give it a name. Another value of the graph that has it gets a number behind it."""
        names = self.node_.graph.names
        if name and not is_valid_name(name):
            raise RuntimeError(f"Invalid name: '{name}'")
        if self.name:
            del names[self.name]
        self.name = ""
        if not name:
            return self
        before = names.get(name)
        if before is not None:
            base, number = _split_name(name)
            number = max(number, self.node_.graph.name_numbers.get(base, 0) + 1)
            while f"{base}.{number}" in names:
                number += 1
            self.node_.graph.name_numbers[base] = number
            before.set_debug_name(f"{base}.{number}")
        names[name] = self
        self.name = name
        return self

    def copy_metadata(self, other: Value) -> Value:
        """The other's type and, where it has one, its name."""
        self.type_ = other.type_
        if other.name:
            self.set_debug_name(other.name)
        return self

    def must_be_none(self) -> bool:
        return isinstance(self.type_, NoneType)

    def replace_all_uses_with(self, other: Value) -> None:
        """Whoever reads this value reads the other instead."""
        for user, offset in self.uses_:
            user.inputs_[offset] = other
            other.uses_.append(Use(user, offset))
        self.uses_ = []

    def replace_uses_after(self, node: Node, other: Value) -> None:
        """As above, for those that come after a node."""
        for user, offset in self.uses():
            if user.is_after(node):
                user.replace_input(offset, other)

    def is_before(self, other: Value) -> bool:
        return self.node_.is_before(other.node_) if self.node_ is not other.node_ else self.offset_ < other.offset_

    def __repr__(self) -> str:
        return f"{self.debug_name()} defined in ({str(self.node_).strip()})"


def is_valid_name(name: str) -> bool:
    """Whether a value may be called so: no number, no space."""
    return not name.isdigit() and not any(c.isspace() for c in name)


def _split_name(name: str) -> tuple[str, int]:
    base, dot, number = name.rpartition(".")
    return (base, int(number)) if dot and base and number.isdigit() else (name, 1)


class Node(NodeFace):
    """One step: its kind, what it reads, what it defines."""

    __slots__ = ("graph", "kind_", "inputs_", "outputs_", "attributes", "attribute_kinds", "blocks_", "block", "prev_",
                 "next_", "range", "scope", "place", "pyobj")

    def __init__(self, graph: Graph, kind: str) -> None:
        self.graph, self.kind_ = graph, kind
        self.inputs_: list[Value] = []
        self.outputs_: list[Value] = []
        self.attributes: dict[str, Any] = {}
        self.attribute_kinds: dict[str, str] = {}
        self.blocks_: list[Block] = []
        self.block: Block | None = None
        self.prev_: Node | None = None
        self.next_: Node | None = None
        self.range: Range | None = graph.current_range
        self.scope: str = graph.current_scope
        self.place = 0
        self.pyobj: Any = None

    # --- reading
    def kind(self) -> str:
        return self.kind_

    def inputs(self) -> list[Value]:
        return list(self.inputs_)

    def outputs(self) -> list[Value]:
        return list(self.outputs_)

    def blocks(self) -> list[Block]:
        return list(self.blocks_)

    def input(self, at: int | None = None) -> Value:
        """The only input, or the one at a place."""
        if at is None and len(self.inputs_) != 1:
            raise RuntimeError(f"expected {self.kind_} to have one input, it has {len(self.inputs_)}")
        return self.inputs_[at or 0]

    def output(self) -> Value:
        """The only output."""
        if len(self.outputs_) != 1:
            raise RuntimeError(f"expected {self.kind_} to have one output, it has {len(self.outputs_)}")
        return self.outputs_[0]

    def has_uses(self) -> bool:
        return any(output.uses_ for output in self.outputs_)

    def attribute(self, name: str, default: Any = None) -> Any:
        return self.attributes.get(name, default)

    def must_be_none(self) -> bool:
        """Whether what it defines can be nothing but None."""
        return (self.kind_ == "prim::AutogradZero" or
                (len(self.outputs_) == 1 and isinstance(self.outputs_[0].type_, NoneType)) or
                (self.kind_ == "prim::Constant" and not self.attributes and len(self.outputs_) == 1 and
                 NoneType().is_subtype_of(self.outputs_[0].type_)))

    # --- building
    def set(self, kind: str, name: str, value: Any) -> Node:
        """Give it an attribute; `kind` is one of the letters of programs (i, f, s, t, g, ty, ival, or rows)."""
        self.attributes[name] = value
        self.attribute_kinds[name] = kind
        return self

    def add_input(self, value: Value) -> Value:
        if value.node_.graph is not self.graph:
            raise RuntimeError(f"{self.kind_}: the value %{value.debug_name()} belongs to another graph")
        value.uses_.append(Use(self, len(self.inputs_)))
        self.inputs_.append(value)
        return value

    def insert_input(self, at: int, value: Value) -> Value:
        """An input in front of those from `at` on."""
        rest = self.inputs_[at:]
        for _ in rest:
            self.remove_input(len(self.inputs_) - 1)
        for each in (value, *rest):
            self.add_input(each)
        return value

    def remove_input(self, at: int) -> None:
        self._forget_use(at)
        for later in range(at + 1, len(self.inputs_)):
            uses = self.inputs_[later].uses_
            uses[uses.index(Use(self, later))] = Use(self, later - 1)
        del self.inputs_[at]

    def remove_all_inputs(self) -> None:
        for at in range(len(self.inputs_)):
            self._forget_use(at)
        self.inputs_ = []

    def replace_input(self, at: int, value: Value) -> Value:
        """Read another value at a place; the one before."""
        before = self.inputs_[at]
        self._forget_use(at)
        self.inputs_[at] = value
        value.uses_.append(Use(self, at))
        return before

    def replace_input_with(self, before: Value, value: Value) -> None:
        for at, given in enumerate(self.inputs_):
            if given is before:
                self.replace_input(at, value)

    def _forget_use(self, at: int) -> None:
        uses = self.inputs_[at].uses_
        for i, use in enumerate(uses):
            if use.user is self and use.offset == at:
                del uses[i]
                return

    def add_output(self, type: Type | None = None) -> Value:
        value = Value(self, len(self.outputs_))
        if type is not None:
            value.type_ = type
        self.outputs_.append(value)
        return value

    def insert_output(self, at: int) -> Value:
        value = Value(self, at)
        self.outputs_.insert(at, value)
        self.number_outputs()
        return value

    def number_outputs(self) -> None:
        """Tell its outputs their places."""
        for offset, output in enumerate(self.outputs_):
            output.offset_ = offset

    def erase_output(self, at: int) -> None:
        value = self.outputs_[at]
        if value.uses_:
            raise RuntimeError(f"cannot erase %{value.debug_name()}: {len(value.uses_)} nodes read it")
        value.set_debug_name("")
        del self.outputs_[at]
        self.number_outputs()

    def add_block(self) -> Block:
        block = Block(self.graph, self)
        self.blocks_.append(block)
        return block

    def erase_block(self, at: int) -> None:
        self.blocks_[at].destroy()
        del self.blocks_[at]

    def copy_attributes(self, other: Node) -> Node:
        self.attributes, self.attribute_kinds = dict(other.attributes), dict(other.attribute_kinds)
        return self

    def copy_metadata(self, other: Node) -> Node:
        """Where it comes from in the program's text."""
        self.range, self.scope = other.range, other.scope
        return self

    # --- its place
    def insert_before(self, other: Node) -> Node:
        if other.prev_ is None:
            raise RuntimeError(f"cannot insert {self.kind_} before a node that is in no block")
        return self.insert_after(other.prev_)

    def insert_after(self, other: Node) -> Node:
        """Put it behind a node, which may be the parameters of a block."""
        if self.block is not None or other.block is None:
            raise RuntimeError(f"cannot insert {self.kind_}: it is in a block already, or its neighbour in none")
        self.block = other.block
        self.prev_, self.next_ = other, other.next_
        other.next_.prev_ = self  # type: ignore[union-attr]
        other.next_ = self
        self._take_place()
        return self

    def _take_place(self) -> None:
        """A number between its neighbours', so that order is one comparison; all anew where there is no room."""
        before, after = self.prev_.place, self.next_.place  # type: ignore[union-attr]
        if self.next_.kind_ == "prim::Return" and self.next_ is self.block.return_node:  # type: ignore[union-attr]
            self.place = before + 1_000_000
            self.next_.place = self.place + 1_000_000  # type: ignore[union-attr]
            return
        self.place = (before + after) // 2
        if self.place <= before:
            self.block.number()  # type: ignore[union-attr]

    def move_after(self, other: Node) -> None:
        self.unlink()
        self.insert_after(other)

    def move_before(self, other: Node) -> None:
        self.unlink()
        self.insert_before(other)

    def unlink(self) -> None:
        """Out of its block; it keeps its inputs."""
        self.prev_.next_, self.next_.prev_ = self.next_, self.prev_  # type: ignore[union-attr]
        self.prev_ = self.next_ = self.block = None

    def destroy(self) -> None:
        """Away with it, its blocks and outputs, which nobody may use."""
        while self.outputs_:
            self.erase_output(len(self.outputs_) - 1)
        while self.blocks_:
            self.erase_block(len(self.blocks_) - 1)
        self.remove_all_inputs()
        if self.block is not None and self.prev_ is not None:
            self.unlink()

    def owner(self) -> Node | None:
        """The node whose block it is in."""
        return self.block.owner if self.block is not None else None

    def is_before(self, other: Node) -> bool:
        """Whether it comes first; of nodes in different blocks, those that hold them in a common one are asked."""
        if self is other:
            return False
        mine, theirs = _chain(self), _chain(other)
        for a, b in zip(mine, theirs, strict=False):
            if a is not b:
                if a.block is b.block:
                    return a.place < b.place
                return a.owner().blocks_.index(a.block) < b.owner().blocks_.index(b.block)  # type: ignore
        return len(mine) < len(theirs)

    def is_after(self, other: Node) -> bool:
        return self is not other and not self.is_before(other)

    def replace_all_uses_with(self, other: Node) -> None:
        if len(self.outputs_) != len(other.outputs_):
            raise RuntimeError(f"{self.kind_} has {len(self.outputs_)} outputs, {other.kind_} {len(other.outputs_)}")
        for mine, theirs in zip(self.outputs_, other.outputs_, strict=True):
            mine.replace_all_uses_with(theirs)

    def is_dominated_by(self, dominator: Node) -> bool:
        """Whether whenever it runs the other has run."""
        node: Node | None = self
        while node is not None:
            if node.block is dominator.block:
                return dominator.is_before(node)
            node = node.owner()
        return False

    def find_all(self, kind: str, recurse: bool = True) -> list[Node]:
        return [found for block in self.blocks_ for found in block.find_all(kind, recurse)]

    def __str__(self) -> str:
        return late.provided("script text").node_text(self)

    __repr__ = __str__


def _chain(node: Node) -> list[Node]:
    """The nodes that hold a node, outermost first, itself last."""
    chain = [node]
    while (above := chain[-1].owner()) is not None:
        chain.append(above)
    return chain[::-1]


class Block(BlockFace):
    """A row of nodes between its parameters and what it returns."""

    __slots__ = ("graph", "owner", "params", "return_node")

    def __init__(self, graph: Graph, owner: Node | None) -> None:
        self.graph, self.owner = graph, owner
        self.params, self.return_node = Node(graph, "prim::Param"), Node(graph, "prim::Return")
        self.params.next_ = self.params.prev_ = self.return_node
        self.return_node.next_ = self.return_node.prev_ = self.params
        self.params.block = self.return_node.block = self
        self.return_node.place = 1_000_000

    def inputs(self) -> list[Value]:
        return list(self.params.outputs_)

    def outputs(self) -> list[Value]:
        return list(self.return_node.inputs_)

    def nodes(self) -> Iterator[Node]:
        """Its nodes in order. Nodes may be inserted and destroyed meanwhile, but not the next one."""
        node = self.params.next_
        while node is not self.return_node:
            following = node.next_  # type: ignore[union-attr]
            yield node  # type: ignore[misc]
            node = node.next_ if node.next_ is not None else following  # type: ignore[union-attr]

    def reversed_nodes(self) -> Iterator[Node]:
        node = self.return_node.prev_
        while node is not self.params:
            before = node.prev_  # type: ignore[union-attr]
            yield node  # type: ignore[misc]
            node = before

    def add_input(self, name: str = "", type: Type | None = None) -> Value:
        value = self.params.add_output(type)
        return value.set_debug_name(name) if name else value

    def register_output(self, value: Value) -> int:
        self.return_node.add_input(value)
        return len(self.return_node.inputs_) - 1

    def append(self, node: Node) -> Node:
        return node.insert_before(self.return_node)

    def prepend(self, node: Node) -> Node:
        return node.insert_after(self.params)

    def number(self) -> None:
        """Give every node its place anew."""
        place = 0
        for node in (*self.nodes(), self.return_node):
            place += 1_000_000
            node.place = place

    def destroy(self) -> None:
        """Away with all it holds."""
        self.return_node.remove_all_inputs()
        for node in list(self.reversed_nodes()):
            node.destroy()
        while self.params.outputs_:
            self.params.erase_output(len(self.params.outputs_) - 1)

    def find_all(self, kind: str, recurse: bool = True) -> list[Node]:
        found: list[Node] = []
        for node in self.nodes():
            if node.kind_ == kind:
                found.append(node)
            if recurse:
                found += node.find_all(kind)
        return found

    def all_nodes(self) -> Iterator[Node]:
        """Its nodes and those of the blocks within, outer ones first."""
        for node in self.nodes():
            yield node
            for block in node.blocks_:
                yield from block.all_nodes()

    def clone_from(self, source: Block, values: dict[Value, Value]) -> None:
        """Copy parameters, nodes and results of another block here; `values` says what stands for what and grows."""
        for given in source.params.outputs_:
            values[given] = self.add_input().copy_metadata(given)
            self.graph.stage(values[given], given)
        for node in source.nodes():
            self.append(self.graph.create_clone(node, values))
        for output in source.return_node.inputs_:
            self.register_output(values.get(output, output))


class Graph(GraphFace):
    """A whole program: its one outer block, the names of its values, and where new nodes go."""

    def __init__(self) -> None:
        self.names: dict[str, Value] = {}
        self.name_numbers: dict[str, int] = {}
        self.uniques = 0
        self.current_range: Range | None = None
        self.current_scope = ""
        self.block = Block(self, None)
        self.insert_at: Node = self.block.return_node

    def next_unique(self) -> int:
        self.uniques += 1
        return self.uniques - 1

    # --- reading
    def inputs(self) -> list[Value]:
        return self.block.inputs()

    def outputs(self) -> list[Value]:
        return self.block.outputs()

    def nodes(self) -> Iterator[Node]:
        return self.block.nodes()

    def all_nodes(self) -> Iterator[Node]:
        return self.block.all_nodes()

    # --- building
    def add_input(self, name: str = "", type: Type | None = None) -> Value:
        return self.block.add_input(name, type)

    def register_output(self, value: Value) -> int:
        return self.block.register_output(value)

    def create(self, kind: str, inputs: Iterable[Value] | int = (), outputs: int = 1) -> Node:
        """A node that is in no block yet; a number in place of the inputs is that of outputs."""
        if isinstance(inputs, int):
            inputs, outputs = (), inputs
        node = Node(self, kind)
        for value in inputs:
            node.add_input(value)
        for _ in range(outputs):
            node.add_output()
        return node

    def insert_node(self, node: Node) -> Node:
        return node.insert_before(self.insert_at)

    def insert(self, kind: str, inputs: Iterable[Value] = (), type: Type | None = None, outputs: int = 1) -> Node:
        """Create a node where nodes go now; `type` is its first output's."""
        node = self.insert_node(self.create(kind, inputs, outputs))
        if type is not None:
            node.outputs_[0].type_ = type
        return node

    @contextmanager
    def inserting(self, at: Node | Block) -> Iterator[None]:
        """Within, nodes go before a node or to the end of a block."""
        before = self.insert_at
        self.insert_at = at.return_node if isinstance(at, Block) else at
        try:
            yield
        finally:
            self.insert_at = before

    @contextmanager
    def at_range(self, place: Range | None) -> Iterator[None]:
        """Within, new nodes come from this part of the program's text."""
        before, self.current_range = self.current_range, place
        try:
            yield
        finally:
            self.current_range = before

    @staticmethod
    def stage(copy: Value, source: Value) -> None:
        """A copy keeps the type of its source."""
        copy.type_ = source.type_

    def create_clone(self, node: Node, values: dict[Value, Value]) -> Node:
        """A copy of a node, of this or another graph, with its blocks; `values` maps what it reads and grows."""
        copy = Node(self, node.kind_).copy_attributes(node)
        copy.range, copy.scope, copy.pyobj = node.range, node.scope, node.pyobj
        for name, kind in copy.attribute_kinds.items():
            if kind == GRAPH:
                copy.attributes[name] = copy.attributes[name].copy()
        for value in node.inputs_:
            copy.add_input(values.get(value, value))
        for output in node.outputs_:
            values[output] = copy.add_output().copy_metadata(output)
        for block in node.blocks_:
            copy.add_block().clone_from(block, values)
        return copy

    def copy(self) -> Graph:
        """The same program apart from this one."""
        other = Graph()
        other.block.clone_from(self.block, {})
        return other

    def __str__(self) -> str:
        return late.provided("script text").graph_text(self)

    __repr__ = __str__


def insert_graph(target: Graph, source: Graph, inputs: Iterable[Value]) -> list[Value]:
    """Copy the nodes of a graph to where nodes go in another, reading `inputs` for its parameters; its results."""
    values = dict(zip(source.inputs(), inputs, strict=True))
    for node in source.nodes():
        target.insert_node(target.create_clone(node, values))
    return [values[output] for output in source.outputs()]
