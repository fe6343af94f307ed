"""Modules frozen: attributes become constants of their methods' graphs.

Enters: an object that is a module, and the names of attributes and methods to keep. Leaves: a new object of a new class
that has `forward` (and the methods to keep) with all calls inlined, and only those attributes that are to be kept, that
some kept method writes, or that are no constants. The object it came from stays as it is; its tensors are shared.
Refuses: names that the module has not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from ... import _C
from .. import types as t
from ..classes import ClassType, Object
from ..constants import set_constant, type_of
from ..ir import Graph, Node, Value
from .aliases import Aliases
from .dead_code import drop_dead
from .inline import inline
from .optimize import optimize
from .tuples import lower_simple_tuples

_MODULE_READERS = ("prim::GetAttr", "prim::SetAttr")
MakeMethod = Callable[[ClassType, str, Graph, Any], Any]


class Place(NamedTuple):
    """An attribute of one object of the tree."""

    held: int              # id of the object
    name: str


def freeze(module: Object, preserved: Iterable[str], make_method: MakeMethod, *,
           preserve_parameters: bool = False) -> Object:
    """A frozen copy of a module. `make_method(class, name, graph, source)` makes a method of a class from its graph."""
    return _Freezing(module, list(preserved), preserve_parameters).run(make_method)


class _Freezing:
    def __init__(self, module: Object, preserved: list[str], preserve_parameters: bool) -> None:
        self.module, self.preserve_parameters = module, preserve_parameters
        for name in preserved:
            if not module.has(name) and name not in module.type.methods and name not in module.type.constants:
                raise RuntimeError(f"Unknown name: {name}")
        self.attributes = [name for name in preserved if module.has(name)]
        names = ["forward"] if "forward" in module.type.methods else []
        self.methods = [*names, *(name for name in preserved if name in module.type.methods and name != "forward")]
        self.graphs: dict[str, Graph] = {}
        self.kept: set[Place] = set()
        self.whole: set[int] = set()                 # objects that stay as they are
        self.paths: dict[Value, tuple[Object, str]] = {}

    def run(self, make_method: MakeMethod) -> Object:
        for name in self.methods:
            graph = self.module.type.methods[name].graph.copy()
            inline(graph)
            optimize(graph)
            lower_simple_tuples(graph.block)
            self.graphs[name] = graph
        self._keep_asked()
        for graph in self.graphs.values():
            self._find_objects(graph)
            self._find_written(graph)
        self._keep_sharing()
        for graph in self.graphs.values():
            self._fold(graph)
            drop_dead(graph)
            optimize(graph)
            lower_simple_tuples(graph.block)
            drop_dead(graph)
        return self._rebuilt(make_method)

    # --- what stays
    def _keep_asked(self) -> None:
        for name in self.attributes:
            self._keep(self.module, name)
        if self.preserve_parameters:
            for held in walk(self.module):
                for slot in held.type.slots:
                    if slot.is_parameter:
                        self.kept.add(Place(id(held), slot.name))

    def _keep(self, held: Object, name: str) -> None:
        self.kept.add(Place(id(held), name))
        value = held.get(name)
        if isinstance(value, Object):
            self.whole.update(id(each) for each in walk(value))

    def _find_objects(self, graph: Graph) -> None:
        """Which object each value of a module's type is; those that escape stay whole."""
        self.paths[graph.inputs()[0]] = (self.module, "self")
        for node in graph.all_nodes():
            if node.kind_ == "prim::GetAttr" and node.inputs_[0] in self.paths:
                held, path = self.paths[node.inputs_[0]]
                inner = held.get(node.attributes["name"])
                if isinstance(inner, Object):
                    self.paths[node.outputs_[0]] = (inner, f"{path}.{node.attributes['name']}")
        for value, (held, _) in list(self.paths.items()):
            for user, offset in value.uses_:
                if user.kind_ not in _MODULE_READERS or offset != 0:
                    self.whole.update(id(each) for each in walk(held))

    def _find_written(self, graph: Graph) -> None:
        aliases = Aliases(graph, is_frozen=True)
        for node in graph.all_nodes():
            if node.kind_ not in _MODULE_READERS:
                continue
            found = self.paths.get(node.inputs_[0])
            if found is None:
                continue
            name = node.attributes["name"]
            if node.kind_ == "prim::SetAttr" or (
                    not isinstance(found[0].get(name), Object) and aliases.has_writers(node.outputs_[0])):
                self.kept.add(Place(id(found[0]), name))

    def _keep_sharing(self) -> None:
        """What shares memory with a tensor that is written is written as well."""
        held = {id(each): each for each in walk(self.module)}
        written = {memory for place in self.kept for memory in memory_of(held[place.held].get(place.name))
                   if place.held in held}
        for each in held.values():
            for slot, value in each.items():
                if written & memory_of(value):
                    self.kept.add(Place(id(each), slot.name))

    # --- constants
    def _fold(self, graph: Graph) -> None:
        made: dict[Place, Value] = {}
        head = graph.block.params.next_
        for node in list(graph.all_nodes()):
            if node.kind_ != "prim::GetAttr" or node.inputs_[0] not in self.paths:
                continue
            held, path = self.paths[node.inputs_[0]]
            place = Place(id(held), node.attributes["name"])
            if place in self.kept or id(held) in self.whole:
                continue
            if place not in made:
                constant = _constant(graph, node, held, f"{path}.{place.name}", head)
                if constant is None:
                    continue
                made[place] = constant
            node.outputs_[0].replace_all_uses_with(made[place])
            if node is head:
                head = node.next_
            node.destroy()

    # --- the new object
    def _rebuilt(self, make_method: MakeMethod) -> Object:
        needed: dict[int, dict[str, None]] = {id(each): {} for each in walk(self.module)}
        for name in self.attributes:
            needed[id(self.module)][name] = None
        for place in self.kept if self.preserve_parameters else ():
            needed[place.held][place.name] = None
        for graph in self.graphs.values():
            for node in graph.all_nodes():
                if node.kind_ in (*_MODULE_READERS, "prim::CallMethod") and node.inputs_[0] in self.paths and (
                        node.kind_ != "prim::CallMethod"):
                    needed[id(self.paths[node.inputs_[0]][0])][node.attributes["name"]] = None
        objects: dict[int, Object] = {}
        frozen = self._copy(self.module, needed, objects)
        for name, graph in self.graphs.items():
            for value, (held, _) in self.paths.items():
                if value.node_.graph is graph and id(held) in objects:
                    value.type_ = objects[id(held)].type
            frozen.type.methods[name] = make_method(frozen.type, name, graph, self.module.type.methods[name])
        return frozen

    def _copy(self, held: Object, needed: dict[int, dict[str, None]], objects: dict[int, Object]) -> Object:
        """An object with the attributes that are needed, of a class of its own."""
        if id(held) in objects:
            return objects[id(held)]
        if id(held) in self.whole and held is not self.module:
            objects[id(held)] = held
            return held
        source = held.type
        name = source.unit.take_name(source.name_) if source.unit is not None else source.name_
        type = ClassType(name, is_module=source.is_module_, python_class=source.python_class, unit=source.unit,
                         doc=source.doc)
        type.constants = dict(source.constants)
        made = objects[id(held)] = Object(type)
        for slot, value in held.items():
            is_module = isinstance(value, Object) and value.type.is_module_
            if slot.name not in needed[id(held)] and not (is_module and self._holds(value, needed)):
                continue
            inner = self._copy(value, needed, objects) if is_module else value
            kind = inner.type if is_module and isinstance(slot.type, ClassType) else slot.type
            type.add_slot(slot.name, kind, is_parameter=slot.is_parameter, is_buffer=slot.is_buffer)
            made.set(slot.name, inner)
        return made

    def _holds(self, held: Object, needed: dict[int, dict[str, None]]) -> bool:
        return any(needed[id(each)] for each in walk(held))


def _constant(graph: Graph, node: Node, held: Object, name: str, before: Any) -> Value | None:
    """An attribute as a constant at the head of the graph; None where it cannot be one."""
    value = held.get(node.attributes["name"])
    if isinstance(value, _C.Tensor):
        value = value.detach()
    made = graph.create("prim::Constant")
    kind = None if isinstance(value, _C.Tensor) or value is None else node.outputs_[0].type_
    if isinstance(value, Object) or (kind is None and type_of(value) is None) or not set_constant(
            made, value, t.without_none(kind) if kind is not None else None):
        return None
    made.insert_before(before)
    return made.outputs_[0].set_debug_name(name)


def walk(held: Object) -> Iterator[Object]:
    """An object and all modules in it, each once."""
    seen: dict[int, Object] = {}
    todo = [held]
    while todo:
        each = todo.pop()
        if id(each) in seen:
            continue
        seen[id(each)] = each
        todo += [value for _, value in each.items() if isinstance(value, Object)]
    yield from seen.values()


def memory_of(value: Any) -> set[Any]:
    """What tells the memory of tensors apart, for a tensor or a container of such; objects by themselves."""
    if isinstance(value, _C.Tensor):
        return {("tensor", value.untyped_storage().data_ptr())} if value.numel() else set()
    if isinstance(value, (list, tuple)):
        own = {("list", id(value))} if isinstance(value, list) else set()
        return own.union(*map(memory_of, value))
    if isinstance(value, dict):
        return {("dict", id(value))}.union(*map(memory_of, value.values()))
    return set()
