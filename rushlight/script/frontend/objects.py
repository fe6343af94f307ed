"""Objects of classes in programs: attributes, methods, construction.

Enters: a value whose type is a class or an interface. Leaves: `prim::GetAttr`, `prim::SetAttr`, `prim::CallMethod` and
`prim::CreateObject` nodes. Refuses: attributes that the class does not have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from .. import types as t
from ..classes import ClassType, InterfaceType
from ..constants import insert_constant
from ..ir import Value
from ..matching import Mismatch, match
from ..schemas import Schema
from ..source import Range
from .errors import CompileError
from .sugared import FunctionValue, Simple, Sugared, sugared_of

if TYPE_CHECKING:
    from .emitter import Emitter


def get_attribute(e: Emitter, held: Value, name: str, type: t.Type) -> Value:
    """An attribute that the object is known to have."""
    with e.graph.at_range(None):
        found = e.graph.insert("prim::GetAttr", [held], type).set("s", "name", name).outputs_[0]
    return found.set_debug_name(f"_{name}" if name.isdigit() else name.replace(".", "_"))


def attribute_of(e: Emitter, at: Range, held: Value, name: str) -> Sugared | None:
    """What `object.name` means; None where the class has no such thing."""
    type = held.type_
    if isinstance(type, InterfaceType):
        return Method(held, name) if name in type.methods else None
    assert isinstance(type, ClassType)
    if name in type.methods:
        return Method(held, name)
    slot = type.slot_type(name)
    if slot is not None:
        return Simple(get_attribute(e, held, name, slot))
    if name in type.properties:
        return Method(held, type.properties[name].getter.name).call(e, at, [], {})
    if name in type.static_methods:
        return FunctionValue(type.static_methods[name])
    if name in type.constants:
        return Simple(insert_constant(e.graph, type.constants[name]))
    return None


def set_attribute(e: Emitter, at: Range, held: Value, name: str, value: Value) -> None:
    """`object.name = value`. In `__init__` of the class itself the first writing of a name makes the attribute."""
    type = held.type_
    if not isinstance(type, ClassType):
        raise CompileError(f"Tried to set an attribute: {name} on a non-class: {type}", at)
    if name in type.properties:
        setter = type.properties[name].setter
        if setter is None:
            raise CompileError(f"Tried to set read-only attribute: {name}", at)
        Method(held, setter.name).call(e, at, [value], {})
        return
    wanted = type.slot_type(name)
    if wanted is None:
        if name in type.constants:
            raise CompileError(f"Can't set constant '{name}' which has type: {t.plain(value.type_)}", at)
        if e.owner is not type or e.definition.name != "__init__" or type.is_module_:
            raise CompileError(f"Tried to set nonexistent attribute: {name}. Attributes are made in __init__", at)
        check_no_cycle(type, name, value.type_, at)
        if e.frame.block is not e.graph.block:
            raise CompileError(f"First assignment cannot be in a control-flow block: let __init__ set '{name}' outside"
                               " of one before", at)
        type.add_slot(name, t.plain(value.type_))
    else:
        value = e.as_slot(value, wanted, name, at)
    e.graph.insert("prim::SetAttr", [held, value], outputs=0).set("s", "name", name)


def check_no_cycle(type: ClassType, name: str, held: t.Type, at: Range) -> None:
    """Refuse an attribute whose type holds the class itself."""
    if held is type or any(_holds(part, type) for part in held.contained()):
        raise CompileError(f"attribute '{name}' would hold its own class '{type}', and classes that recursively contain"
                           " instances of themselves cannot be compiled", at)


def _holds(held: t.Type, type: ClassType) -> bool:
    return held is type or any(_holds(part, type) for part in held.contained())


def why_missing(type: t.Type, name: str) -> str:
    """What may be wrong where a class does not have an attribute."""
    if not isinstance(type, ClassType):
        return ""
    if type.python_class is not None and name in vars(type.python_class) and not type.is_module_:
        return (f" '{name}' is defined as a class attribute, which compiled programs do not see: let __init__ set it"
                " on the object.")
    return " Its attributes are those that its __init__ sets."


def check_context(held: Value, at: Range) -> t.Type:
    """The type that entering an object gives. Refuses values that `with` cannot enter."""
    type = held.type_
    if not isinstance(type, ClassType):
        raise CompileError(f"what stands after `with` must return an object of a script class, found {type}", at)
    if "__enter__" not in type.methods or "__exit__" not in type.methods:
        raise CompileError(f"`with` over a {type}: the class does not define __enter__ and __exit__", at)
    enter, leave = type.methods["__enter__"].ensure(at).schema, type.methods["__exit__"].ensure(at).schema
    if len(enter.arguments) != 1:
        raise CompileError(f"__enter__ must have one argument, self; it has {len(enter.arguments)}", at)
    if len(leave.arguments) != 4:
        raise CompileError(f"__exit__ must have four arguments, has {len(leave.arguments)}", at)
    for place, argument in enumerate(leave.arguments[1:], 1):
        if not isinstance(argument.type, t.AnyType):
            raise CompileError(f"argument {place} of __exit__ must have Any type: what stands for the exception is"
                               " always None in a script", at)
    return enter.return_type()


class Method(Sugared):
    """A method with the object it is called on."""

    def __init__(self, held: Value, name: str) -> None:
        self.held, self.name = held, name

    def kind(self) -> str:
        return "method"

    def _schema(self, at: Range) -> Schema:
        type = self.held.type_
        if isinstance(type, InterfaceType):
            return type.methods[self.name]
        schema = type.methods[self.name].ensure(at).schema  # type: ignore[attr-defined]
        return schema._replace(arguments=schema.arguments[1:], text="")

    def call(self, e: Emitter, at: Range, args: Sequence[Value], kwargs: Mapping[str, Value], *,
             convert: bool = True) -> Sugared:
        schema = self._schema(at)
        try:
            matched = match(e.graph, schema, args, kwargs, convert=convert)
        except Mismatch as mismatch:
            raise CompileError(f"\n{schema}:\n{mismatch}\n", at) from None
        node = e.graph.insert("prim::CallMethod", [self.held, *matched.inputs], schema.return_type())
        return Simple(node.set("s", "name", self.name).outputs_[0])


class ClassValue(Sugared):
    """A class by its name: calling it makes an object."""

    def __init__(self, type: ClassType) -> None:
        self.type = type

    def kind(self) -> str:
        return "class"

    def call(self, e: Emitter, at: Range, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Sugared:
        if "__init__" not in self.type.methods:
            raise CompileError(f"Class {self.type.name()} does not have an __init__ that could make an object", at)
        made = e.graph.insert("prim::CreateObject", [], self.type).outputs_[0]
        Method(made, "__init__").call(e, at, args, kwargs)
        return Simple(made)

    def attribute(self, e: Emitter, at: Range, name: str) -> Sugared:
        if name in self.type.static_methods:
            return FunctionValue(self.type.static_methods[name])
        if name in self.type.constants:
            return Simple(insert_constant(e.graph, self.type.constants[name]))
        found = getattr(self.type.python_class, name, None)
        if found is not None:
            return sugared_of(found, at, e)
        raise CompileError(f"class {self.type} has no attribute {name}", at)
