"""Graphs under the names that programs which walk and change them call: `findAllNodes`, `debugName`, `inputsAt`.

The classes of `ir` inherit these. Attributes of nodes are read and written by the letter of their kind:
`node.i("value")`, `node.i_("value", 1)`; `is` is a word of Python, so it is asked for with `getattr`.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..base import late
from .types import NoneType, TensorType, TupleType, Type

if TYPE_CHECKING:
    from .ir import Block, Graph, Node, Value

LETTERS = ("f", "fs", "c", "s", "ss", "i", "is", "g", "gs", "ival", "t", "ts", "ty", "tys", "z", "zs")
_SAME = {"z": "t", "zs": "ts"}


def _above() -> Any:
    """What answers questions of graphs and lies above them."""
    return late.provided("script core")


class ValueFace:
    """What programs call on values."""

    __slots__ = ()

    def debugName(self: Any) -> str:  # noqa: N802
        return self.debug_name()

    def setDebugName(self: Any, name: str) -> Value:  # noqa: N802
        return self.set_debug_name(name)

    def setType(self: Any, type: Type) -> Value:  # noqa: N802
        return self.set_type(type)

    def setTypeAs(self: Any, other: Value) -> Value:  # noqa: N802
        return self.set_type(other.type_)

    def inferTypeFrom(self: Any, example: Any) -> None:  # noqa: N802
        """Take the type of a tensor, or of a script object."""
        held = getattr(example, "type", None)
        self.type_ = TensorType.of(example) if hasattr(example, "dtype") else held

    def isCompleteTensor(self: Any) -> bool:  # noqa: N802
        type = self.type_
        return isinstance(type, TensorType) and type.sizes() is not None and type.dtype is not None and (
            type.strides() is not None and type.device_ is not None)

    def requires_grad(self: Any) -> bool:
        return isinstance(self.type_, TensorType) and self.type_.requires_grad()

    def requiresGrad(self: Any) -> bool:  # noqa: N802
        return self.requires_grad()

    def replaceAllUsesWith(self: Any, other: Value) -> None:  # noqa: N802
        self.replace_all_uses_with(other)

    def replaceAllUsesAfterNodeWith(self: Any, node: Node, other: Value) -> None:  # noqa: N802
        self.replace_uses_after(node, other)

    def copyMetadata(self: Any, other: Value) -> Value:  # noqa: N802
        return self.copy_metadata(other)

    def toIValue(self: Any) -> Any:  # noqa: N802
        """The value of a constant; None for what is none."""
        return _above().constant_of(self, None)


class NodeFace:
    """What programs call on nodes."""

    __slots__ = ()

    # --- reading
    def inputsAt(self: Any, at: int) -> Value:  # noqa: N802
        return self.inputs_[at]

    def outputsAt(self: Any, at: int) -> Value:  # noqa: N802
        return self.outputs_[at]

    def inputsSize(self: Any) -> int:  # noqa: N802
        return len(self.inputs_)

    def outputsSize(self: Any) -> int:  # noqa: N802
        return len(self.outputs_)

    def hasMultipleOutputs(self: Any) -> bool:  # noqa: N802
        return len(self.outputs_) > 1

    def hasUses(self: Any) -> bool:  # noqa: N802
        return self.has_uses()

    def namedInput(self: Any, name: str) -> Value:  # noqa: N802
        """The input for a parameter of the node's signature. Refuses names that it has not."""
        schema = self._schema()
        at = schema.index(name) if schema is not None else None
        if at is None:
            raise RuntimeError(f"{self.kind_} has no input called '{name}'")
        return self.inputs_[at]

    def _schema(self: Any) -> Any:
        return _above().overload_of(self.kind_, [value.type_ for value in self.inputs_])

    def schema(self: Any) -> str:
        """The signature it was made by, as text; `(no schema)` for what has none."""
        found = self._schema()
        return str(found) if found is not None else "(no schema)"

    def matches(self: Any, schema: str) -> bool:
        """Whether it was made by this signature."""
        found, wanted = self._schema(), _above().read_schema(schema)
        return found is not None and (found.name, found.overload) == (wanted.name, wanted.overload)

    def isNondeterministic(self: Any) -> bool:  # noqa: N802
        return _above().is_random(self)

    def mustBeNone(self: Any) -> bool:  # noqa: N802
        return self.must_be_none()

    def scopeName(self: Any) -> str:  # noqa: N802
        return self.scope

    def getModuleHierarchy(self: Any) -> str:  # noqa: N802
        """The modules whose methods it was inlined from, outermost first."""
        return self.scope.replace("/", ".")

    def sourceRange(self: Any) -> str:  # noqa: N802
        """The lines of the program it comes from."""
        return self.range.highlight() if self.range is not None else ""

    def owningBlock(self: Any) -> Block:  # noqa: N802
        return self.block

    def prev(self: Any) -> Node:
        return self.prev_

    def isBefore(self: Any, other: Node) -> bool:  # noqa: N802
        return self.is_before(other)

    def isAfter(self: Any, other: Node) -> bool:  # noqa: N802
        return self.is_after(other)

    def findNode(self: Any, kind: str, recurse: bool = True) -> Node | None:  # noqa: N802
        return next(iter(self.find_all(kind, recurse)), None)

    def findAllNodes(self: Any, kind: str, recurse: bool = True) -> list[Node]:  # noqa: N802
        return self.find_all(kind, recurse)

    # --- changing
    def addInput(self: Any, value: Value) -> Value:  # noqa: N802
        return self.add_input(value)

    def replaceInput(self: Any, at: int, value: Value) -> Value:  # noqa: N802
        return self.replace_input(at, value)

    def replaceInputWith(self: Any, before: Value, value: Value) -> None:  # noqa: N802
        self.replace_input_with(before, value)

    def removeInput(self: Any, at: int) -> None:  # noqa: N802
        self.remove_input(at)

    def removeAllInputs(self: Any) -> None:  # noqa: N802
        self.remove_all_inputs()

    def replaceAllUsesWith(self: Any, other: Node) -> None:  # noqa: N802
        self.replace_all_uses_with(other)

    def addOutput(self: Any) -> Value:  # noqa: N802
        return self.add_output()

    def eraseOutput(self: Any, at: int) -> None:  # noqa: N802
        self.erase_output(at)

    def addBlock(self: Any) -> Block:  # noqa: N802
        return self.add_block()

    def insertBefore(self: Any, other: Node) -> Node:  # noqa: N802
        return self.insert_before(other)

    def insertAfter(self: Any, other: Node) -> Node:  # noqa: N802
        return self.insert_after(other)

    def moveBefore(self: Any, other: Node) -> None:  # noqa: N802
        self.move_before(other)

    def moveAfter(self: Any, other: Node) -> None:  # noqa: N802
        self.move_after(other)

    def copyMetadata(self: Any, other: Node) -> Node:  # noqa: N802
        return self.copy_metadata(other)

    # --- attributes
    def hasAttribute(self: Any, name: str) -> bool:  # noqa: N802
        return name in self.attributes

    def hasAttributes(self: Any) -> bool:  # noqa: N802
        return bool(self.attributes)

    def attributeNames(self: Any) -> list[str]:  # noqa: N802
        return list(self.attributes)

    def kindOf(self: Any, name: str) -> str:  # noqa: N802
        return self.attribute_kinds[self._named(name)]

    def removeAttribute(self: Any, name: str) -> Node:  # noqa: N802
        del self.attributes[self._named(name)], self.attribute_kinds[name]
        return self

    def copyAttributes(self: Any, other: Node) -> Node:  # noqa: N802
        return self.copy_attributes(other)

    def _named(self: Any, name: str) -> str:
        if name not in self.attributes:
            raise IndexError(f"{self.kind_} does not have an attribute called '{name}'")
        return name

    def _read(self: Any, letter: str, name: str) -> Any:
        """An attribute of a kind. Refuses names that the node has not, and another kind than it was given with."""
        if self.attribute_kinds[self._named(name)] != letter:
            raise RuntimeError(f"{self.kind_}: attribute '{name}' is of kind '{self.attribute_kinds[name]}', not"
                               f" '{letter}'")
        return self.attributes[name]

    def pyname(self: Any) -> str:
        return self.attribute("name", "")

    def scalar_args(self: Any) -> list[Any]:
        return list(self.attribute("scalar_args", ()))


def _reader(letter: str) -> Any:
    def read(self: Any, name: str) -> Any:
        return self._read(_SAME.get(letter, letter), name)

    return read


def _writer(letter: str) -> Any:
    def write(self: Any, name: str, value: Any) -> Any:
        return self.set(_SAME.get(letter, letter), name, value)

    return write


for _letter in LETTERS:
    setattr(NodeFace, _letter, _reader(_letter))
    setattr(NodeFace, f"{_letter}_", _writer(_letter))


class BlockFace:
    """What programs call on blocks. A graph's block may be asked for as `graph.block()`."""

    __slots__ = ()

    def __call__(self: Any) -> Block:
        return self

    def owningNode(self: Any) -> Node | None:  # noqa: N802
        return self.owner

    def returnNode(self: Any) -> Node:  # noqa: N802
        return self.return_node

    def paramNode(self: Any) -> Node:  # noqa: N802
        return self.params

    def addInputToBlock(self: Any) -> Value:  # noqa: N802
        return self.add_input()

    def registerOutput(self: Any, value: Value) -> int:  # noqa: N802
        return self.register_output(value)

    def addNode(self: Any, kind: str, inputs: Iterable[Value]) -> Node:  # noqa: N802
        """A new node at the end."""
        return self.append(self.graph.create(kind, inputs))

    def findNode(self: Any, kind: str, recurse: bool = True) -> Node | None:  # noqa: N802
        return next(iter(self.find_all(kind, recurse)), None)

    def findAllNodes(self: Any, kind: str, recurse: bool = True) -> list[Node]:  # noqa: N802
        return self.find_all(kind, recurse)


class GraphFace:
    """What programs call on graphs."""

    def findNode(self: Any, kind: str, recurse: bool = True) -> Node | None:  # noqa: N802
        return next(iter(self.block.find_all(kind, recurse)), None)

    def findAllNodes(self: Any, kind: str, recurse: bool = True) -> list[Node]:  # noqa: N802
        return self.block.find_all(kind, recurse)

    def param_node(self: Any) -> Node:
        return self.block.params

    def return_node(self: Any) -> Node:
        return self.block.return_node

    def addInput(self: Any, name: str = "") -> Value:  # noqa: N802
        return self.add_input(name)

    def eraseInput(self: Any, at: int) -> None:  # noqa: N802
        self.block.params.erase_output(at)

    def registerOutput(self: Any, value: Value) -> int:  # noqa: N802
        return self.register_output(value)

    def eraseOutput(self: Any, at: int) -> None:  # noqa: N802
        self.block.return_node.remove_input(at)

    def permuteInputs(self: Any, order: list[int]) -> None:  # noqa: N802
        """Parameters in another order: the one at `order[i]` comes to place i."""
        params = self.block.params
        if sorted(order) != list(range(len(params.outputs_))):
            raise RuntimeError(f"permuteInputs: {order} is no order of {len(params.outputs_)} inputs")
        params.outputs_ = [params.outputs_[at] for at in order]
        params.number_outputs()

    def appendNode(self: Any, node: Node) -> Node:  # noqa: N802
        return self.block.append(node)

    def prependNode(self: Any, node: Node) -> Node:  # noqa: N802
        return self.block.prepend(node)

    def insertNode(self: Any, node: Node) -> Node:  # noqa: N802
        return self.insert_node(node)

    def insertConstant(self: Any, value: Any) -> Value:  # noqa: N802
        return _above().insert_constant(self, value)

    def insertGraph(self: Any, callee: Graph, inputs: list[Value]) -> list[Value]:  # noqa: N802
        return _above().insert_graph(self, callee, inputs)

    def createClone(self: Any, node: Node, change: Any) -> Node:  # noqa: N802
        """A copy of a node whose inputs are what `change` makes of the node's."""
        return self.create_clone(node, {value: change(value) for value in node.inputs_})

    def setInsertPoint(self: Any, at: Node | Block) -> None:  # noqa: N802
        """From now on, nodes go before a node or to the end of a block."""
        self.insert_at = getattr(at, "return_node", at)

    def insertPoint(self: Any) -> Node:  # noqa: N802
        return self.insert_at

    @contextmanager
    def insert_point_guard(self: Any, at: Node | Block) -> Any:
        with self.inserting(at):
            yield

    def makeMultiOutputIntoTuple(self: Any) -> None:  # noqa: N802
        """Several results become one tuple of them."""
        results = self.outputs()
        if len(results) == 1:
            return
        if not results:
            type: Type = NoneType()
            made = self.create("prim::Constant").insert_before(self.block.return_node)
        else:
            type = TupleType([value.type_ for value in results])
            made = self.create("prim::TupleConstruct", results).insert_before(self.block.return_node)
        made.outputs_[0].type_ = type
        self.block.return_node.remove_all_inputs()
        self.register_output(made.outputs_[0])

    def lint(self: Any) -> None:
        _above().lint(self)

    def str(self: Any, print_source_ranges: bool = True) -> str:
        return late.provided("script text").graph_text(self, print_source_ranges)

    def alias_db(self: Any, isFrozen: bool = False, descend_function_calls: bool = False) -> Any:  # noqa: N803
        return _above().AliasDb(self, isFrozen)

    def dump_alias_db(self: Any) -> None:
        self.alias_db().dump()
