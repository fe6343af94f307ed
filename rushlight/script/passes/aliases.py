"""Which values of a graph may share memory, and which nodes write to it.

Enters: a graph. Leaves: `Aliases`, to be asked. Each value that can be written to, or that holds such values, has a
`Spot`: the spots it may be (`targets`; without any it is memory of its own) and those it may hold (`inside`).
What nobody can follow (parameters of the graph, what is put into lists and objects and taken out again) is one spot for
all values of a type, a *wildcard*. Ops are followed by the marks of their signatures (`Tensor(a!)`); what has no
signature is taken to write all that it reads. Every doubt makes more values alike, never fewer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .. import types as t
from ..ir import Block, Graph, Node, Value
from ..schemas import Argument, Schema, overload_of
from .effects import PURE

_MUTABLE = (t.TensorType, t.ListType, t.DictType, t.AnyType, t.FutureType, t.AwaitType, t.RRefType, t.AnyListType,
            t.AnyTupleType, t.AnyClassType, t.PyObjectType, t.StreamObjType, t.GeneratorType, t.VarType)
_UNKNOWABLE = (t.AnyType, t.AnyListType, t.AnyTupleType, t.AnyClassType, t.PyObjectType, t.VarType)
_ALIKE = frozenset(("prim::unchecked_cast", "prim::unchecked_unwrap_optional", "aten::_unwrap_optional",
                    "prim::profile", "prim::Load", "prim::Store", "prim::annotate"))
_FRESH = frozenset(("prim::Constant", "prim::Uninitialized", "prim::AutogradZero", "prim::AutogradAllZero",
                    "prim::CreateObject", "prim::isinstance", "prim::TypeCheck", "prim::FusionGroup"))
_NO_MEMORY = frozenset(("prim::Print", "prim::RaiseException", "prim::Exit", "prim::device", "prim::dtype",
                        "prim::Return", "prim::Param"))
_BUILDERS = frozenset(("prim::ListConstruct", "prim::DictConstruct", "prim::TupleConstruct"))
_TAKERS = frozenset(("prim::TupleUnpack", "prim::TupleIndex", "prim::TupleSlice", "prim::ListUnpack", "prim::DictIndex",
                     "prim::GetAttr", "prim::Enter", "aten::__getitem__", "prim::EnumValue"))
_READS_LISTS = frozenset(("aten::cat", "aten::stack", "aten::vstack", "aten::hstack", "aten::dstack", "aten::concat",
                          "aten::concatenate", "aten::column_stack", "aten::row_stack"))


class Spot:
    """A piece of memory, or a name for one of several."""

    __slots__ = ("targets", "inside", "is_wild", "key")

    def __init__(self, key: Any = None, is_wild: bool = False) -> None:
        self.targets: set[Spot] = set()
        self.inside: set[Spot] = set()
        self.key, self.is_wild = key, is_wild


def may_change(type: t.Type) -> bool:
    """Whether values of a type can be written to, or hold such."""
    if isinstance(type, _MUTABLE) or is_object(type):
        return True
    return isinstance(type, (t.TupleType, t.UnionType)) and any(map(may_change, type.contained()))


def is_object(type: t.Type) -> bool:
    """Whether values of a type are objects with attributes: of classes and interfaces."""
    return type.kind() in ("ClassType", "InterfaceType")


class Aliases:
    """What is known of a graph's memory. It holds for the graph as it was: ask for a new one after larger changes."""

    def __init__(self, graph: Graph, is_frozen: bool = False) -> None:
        self.graph, self.is_frozen = graph, is_frozen
        self.spots: dict[Value, Spot] = {}
        self.wild: dict[Any, Spot] = {}
        self.writes: dict[Node, set[Spot]] = {}          # as named; followed when asked
        self.deep_writes: dict[Node, set[Spot]] = {}     # what is held is written as well
        self._own: dict[Spot, frozenset[Spot]] = {}
        self._all_written: frozenset[Spot] | None = None
        for value in graph.inputs():
            self.make_wild(value)
        self._block(graph.block)

    # --- building ---------------------------------------------------------------------------------------------------

    def spot(self, value: Value) -> Spot | None:
        """The value's spot; None for values that cannot be written to."""
        found = self.spots.get(value)
        if found is None and may_change(value.type_):
            found = self.spots[value] = Spot()
            self._own.clear()
        return found

    def wildcard(self, type: t.Type) -> list[Spot]:
        """The spots of all values of a type that are not followed."""
        if isinstance(type, t.UnionType):
            return [spot for member in type.members() for spot in self.wildcard(member)]
        if not may_change(type):
            return []
        type = t.plain(type)
        key: Any = "any" if isinstance(type, _UNKNOWABLE) or type.is_interface_type() else type
        if key not in self.wild:
            made = self.wild[key] = Spot(key, is_wild=True)
            for part in held_types(type):
                made.inside.update(self.wildcard(part))
            self._own.clear()
        return [self.wild[key]]

    def make_wild(self, value: Value) -> list[Spot]:
        """A value is lost sight of."""
        spot = self.spot(value)
        if spot is None:
            return []
        found = self.wildcard(value.type_)
        spot.targets.update(found)
        self._own.clear()
        return found

    def make_fresh(self, value: Value, holds_wild: bool = True) -> None:
        """A value is new memory; what it holds, if it can, is not followed."""
        spot = self.spot(value)
        if spot is not None and holds_wild:
            for part in held_types(value.type_):
                spot.inside.update(self.wildcard(part))

    def point(self, value: Value, at: Value) -> None:
        """A value may be another."""
        mine, theirs = self.spot(value), self.spot(at)
        if mine is None or theirs is None:
            if mine is not None:          # an immutable value read as one that is not: Any of an int
                self.make_wild(value)
            return
        if mine is not theirs:
            mine.targets.add(theirs)
            self._own.clear()

    def write(self, value: Value, node: Node, deep: bool = False) -> None:
        spot = self.spot(value)
        if spot is not None:
            self.writes.setdefault(node, set()).add(spot)
            if deep:
                self.deep_writes.setdefault(node, set()).add(spot)

    # --- following --------------------------------------------------------------------------------------------------

    def _block(self, block: Block) -> None:
        for node in block.nodes():
            self._node(node)

    def _node(self, node: Node) -> None:
        kind = node.kind_
        if kind == "prim::If":
            for block in node.blocks_:
                self._block(block)
                for output, value in zip(node.outputs_, block.return_node.inputs_, strict=True):
                    self.point(output, value)
        elif kind == "prim::Loop":
            self._loop(node)
        elif kind in _BUILDERS:
            self._build(node)
        elif kind in _ALIKE and node.outputs_ and node.inputs_:
            self.point(node.outputs_[0], node.inputs_[0])
        elif kind in _FRESH:
            for output in node.outputs_:
                self.make_fresh(output)
        elif kind == "prim::SetAttr":
            self.write(node.inputs_[0], node)
            self.make_wild(node.inputs_[1])
        elif kind in _TAKERS:
            self._take(node)
        elif kind in ("prim::fork", "prim::awaitable"):
            self._lose(node)
        elif kind in ("aten::wait", "prim::awaitable_wait"):
            self._wait(node)
        elif kind in _NO_MEMORY:
            return
        else:
            self._op(node)

    def _loop(self, node: Node) -> None:
        """What is carried may be what came in or what any turn left."""
        body = node.blocks_[0]
        carried = body.params.outputs_[1:]
        for inside, given in zip(carried, node.inputs_[2:], strict=True):
            self.point(inside, given)
        self._block(body)
        for inside, left, output in zip(carried, body.return_node.inputs_[1:], node.outputs_, strict=True):
            self.point(inside, left)
            self.point(output, inside)

    def _build(self, node: Node) -> None:
        """What is put into a container is lost sight of, unless an op alone reads it, or it leaves the graph."""
        made = node.outputs_[0]
        if not may_change(made.type_):
            return
        is_read_once = len(made.uses_) == 1 and _only_reads(made.uses_[0].user)
        self.make_fresh(made, holds_wild=False)
        spot = self.spot(made)
        for value in node.inputs_:
            inner = self.spot(value)
            if inner is None:
                continue
            spot.inside.update({inner} if is_read_once else self.make_wild(value))  # type: ignore[union-attr]

    def _take(self, node: Node) -> None:
        if node.kind_ == "prim::GetAttr" and self.is_frozen and not is_object(node.outputs_[0].type_):
            self.make_fresh(node.outputs_[0])
            return
        for output in node.outputs_:
            self.make_wild(output)
            if node.inputs_[0].type_.kind() == "TupleType":     # a tuple's parts are not lost where it is followed
                held = self.spot(node.inputs_[0])
                spot = self.spot(output)
                if held is not None and spot is not None:
                    spot.targets.update(inner for inner in self._reach(held) if inner is not held)

    def _lose(self, node: Node) -> None:
        """Read and perhaps written by what runs beside, and by whoever waits for it."""
        for value in (*node.inputs_, *node.outputs_):
            self.make_wild(value)

    def _wait(self, node: Node) -> None:
        """What ran beside may have written whatever is not followed."""
        for output in node.outputs_:
            self.make_wild(output)
        self.writes.setdefault(node, set()).update(self.wildcard(t.TENSOR), self.wild.values())

    def unknown(self, node: Node) -> None:
        """A node of which nothing is known: it writes all that it reads and keeps it."""
        for value in node.inputs_:
            self.write(value, node, deep=True)
            self.make_wild(value)
        for output in node.outputs_:
            self.make_wild(output)
        for block in node.blocks_:
            self._block(block)
            for value in block.inputs():
                self.make_wild(value)

    def _op(self, node: Node) -> None:
        schema = None if node.blocks_ else schema_of(node)
        if schema is None:
            if node.kind_ in PURE:
                for output in node.outputs_:
                    self.make_fresh(output)
            else:
                self.unknown(node)
            return
        named: dict[str, list[Value]] = {}
        for argument, value in zip(schema.arguments, node.inputs_, strict=False):
            self._argument(node, argument, value, named)
        for value in node.inputs_[len(schema.arguments):]:
            self.make_wild(value)
        self._results(node, schema, named)

    def _argument(self, node: Node, argument: Argument, value: Value, named: dict[str, list[Value]]) -> None:
        alias = argument.alias
        if alias is None:
            return
        for name in alias.sets:
            named.setdefault(name, []).append(value)
        if "*" in alias.sets:
            self.make_wild(value)
        if alias.is_write:
            self.write(value, node, deep=isinstance(argument.type, t.ListType) and _has_tensor(argument.type))
        if "*" in alias.after:
            self.make_wild(value)

    def _results(self, node: Node, schema: Schema, named: dict[str, list[Value]]) -> None:
        for at, output in enumerate(node.outputs_):
            given = schema.returns[at] if at < len(schema.returns) else None
            alias = given.alias if given is not None else None
            if alias is None:
                self.make_fresh(output)
                continue
            if "*" in alias.sets or "*" in alias.after:
                self.make_wild(output)
                continue
            sources = [value for name in alias.sets for value in named.get(name, [])]
            self.make_fresh(output)
            for source in sources:
                if isinstance(output.type_, t.ListType) and not isinstance(source.type_, t.ListType):
                    spot, inner = self.spot(output), self.spot(source)     # Tensor(a)[]: views in a list
                    spot.inside.add(inner)  # type: ignore[union-attr, arg-type]
                else:
                    self.point(output, source)

    # --- asking -----------------------------------------------------------------------------------------------------

    def _follow(self, spot: Spot) -> frozenset[Spot]:
        """The memory that a spot may be."""
        known = self._own.get(spot)
        if known is None:
            seen, todo = {spot}, [spot]
            while todo:
                for target in todo.pop().targets:
                    if target not in seen:
                        seen.add(target)
                        todo.append(target)
            known = self._own[spot] = frozenset(each for each in seen if not each.targets or each.is_wild)
        return known

    def _reach(self, spot: Spot) -> set[Spot]:
        """The memory that a spot may be or hold, however deep."""
        seen: set[Spot] = set()
        todo = [*self._around(spot)]
        while todo:
            each = todo.pop()
            if each not in seen:
                seen.add(each)
                for inner in each.inside:
                    todo += self._around(inner)
        return {each for each in seen if not each.targets or each.is_wild}

    @staticmethod
    def _around(spot: Spot) -> set[Spot]:
        """A spot and all that it may be, names in between included: each may hold something."""
        seen, todo = {spot}, [spot]
        while todo:
            for target in todo.pop().targets - seen:
                seen.add(target)
                todo.append(target)
        return seen

    def memory(self, value: Value) -> frozenset[Spot]:
        """The memory that a value may be."""
        spot = self.spots.get(value)
        return self._follow(spot) if spot is not None else frozenset()

    def contents(self, value: Value) -> set[Spot]:
        """The memory that a value may be or hold."""
        spot = self.spots.get(value)
        return self._reach(spot) if spot is not None else set()

    def may_alias(self, a: Value, b: Value) -> bool:
        """Whether two values may be the same memory."""
        return meet(self.memory(a), self.memory(b))

    def may_contain_alias(self, a: Iterable[Value], b: Iterable[Value]) -> bool:
        """Whether something in or of the first may be in or of the second."""
        return meet(self._union(a), self._union(b))

    def _union(self, values: Iterable[Value]) -> set[Spot]:
        return {spot for value in values for spot in self.contents(value)}

    def written(self, node: Node) -> set[Spot]:
        """The memory that a node, or one in its blocks, may write."""
        found = {spot for named in self.writes.get(node, ()) for spot in self._follow(named)}
        for named in self.deep_writes.get(node, ()):
            found |= self._reach(named)
        for block in node.blocks_:
            for inner in block.nodes():
                found |= self.written(inner)
        return found

    def all_written(self) -> frozenset[Spot]:
        if self._all_written is None:
            self._all_written = frozenset(
                spot for node in {*self.writes, *self.deep_writes} for spot in self.written(node))
        return self._all_written

    def has_writers(self, value: Value, deep: bool = True) -> bool:
        """Whether some node may write the value, or what it holds."""
        return meet(self.contents(value) if deep else self.memory(value), self.all_written())

    def node_has_writers(self, node: Node) -> bool:
        """Whether anything that a node reads or makes may be written somewhere."""
        return any(self.has_writers(value) for value in (*node.inputs_, *node.outputs_))

    def is_wild(self, value: Value) -> bool:
        """Whether it, or something it holds, may be memory that is not followed."""
        return any(spot.is_wild for spot in self.contents(value))

    def writes_wild(self, node: Node) -> bool:
        """Whether a node may write memory that is not followed: the caller's, or an object's."""
        return any(spot.is_wild for spot in self.written(node))

    def escapes(self, values: Iterable[Value]) -> bool:
        """Whether somebody outside of the graph may come to hold one of the values."""
        kept = list(values)
        return any(self.is_wild(value) for value in kept) or self.may_contain_alias(kept, self.graph.outputs())

    def may_exchange(self, a: Iterable[Value], b: Iterable[Value]) -> bool:
        """Whether one may stand for the other: nobody writes them, and not both are seen from outside."""
        first, second = list(a), list(b)
        if any(self.has_writers(value) for value in (*first, *second)):
            return False
        return not (self.escapes(first) and self.escapes(second))

    def may_read(self, node: Node) -> set[Spot]:
        """The memory that a node, or one in its blocks, reads."""
        found = self._union(node.inputs_)
        for block in node.blocks_:
            for inner in (*block.nodes(), block.return_node):
                found |= self.may_read(inner)
        return found

    def replace(self, before: Value, after: Value) -> None:
        """A new value stands for one that was looked at."""
        if before in self.spots:
            self.spots[after] = self.spots[before]


def meet(a: Iterable[Spot], b: Iterable[Spot]) -> bool:
    """Whether two pieces of memory may be the same; what may be anything meets all that is not followed."""
    first, second = set(a), set(b)
    if first & second:
        return True
    for some, others in ((first, second), (second, first)):
        if any(spot.key == "any" for spot in some) and any(spot.is_wild for spot in others):
            return True
    return False


def held_types(type: t.Type) -> tuple[t.Type, ...]:
    """The types of what a value may hold."""
    if is_object(type):
        return tuple(slot.type for slot in getattr(type, "slots", ()))
    if isinstance(type, _UNKNOWABLE):
        return (t.TENSOR,)
    return type.contained()


def _has_tensor(type: t.Type) -> bool:
    return isinstance(type, t.TensorType) or any(map(_has_tensor, type.contained()))


def _only_reads(user: Node) -> bool:
    """Whether a container given to this node stays out of everybody's sight: an op that joins, or the graph's end."""
    if user.kind_ in _READS_LISTS:
        return True
    return user.kind_ == "prim::Return" and user.block is not None and user.block.owner is None


def schema_of(node: Node) -> Schema | None:
    """The signature a node was made by; None for those of the language itself and unknown ones."""
    return overload_of(node.kind_, [value.type_ for value in node.inputs_])
