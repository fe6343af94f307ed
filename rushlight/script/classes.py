"""Classes of scripts: what an object holds and can do, and the objects themselves.

Enters: slots (attributes that each object has a value for), constants, compiled methods. Leaves: `ClassType`, whose
identity is the object itself (two classes of one name are two types), `InterfaceType`, which compares by what it asks
for, and `Object`, a running instance. Modules are classes whose slots may be parameters, buffers and other modules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from . import types as t
from .schemas import Schema


class Slot(NamedTuple):
    """An attribute of all objects of a class."""

    name: str
    type: t.Type
    is_parameter: bool = False
    is_buffer: bool = False


class Property(NamedTuple):
    """An attribute that is computed: its methods."""

    getter: Any            # a Function
    setter: Any | None = None


class ClassType(t.Type):
    """One class: slots in their order, and what is shared by all objects."""

    __slots__ = ("name_", "slots", "index", "constants", "methods", "static_methods", "properties", "hooks",
                 "pre_hooks", "is_module_", "python_class", "unit", "doc", "concrete", "is_compiled", "__weakref__")

    def __init__(self, name: str, *, is_module: bool = False, python_class: type | None = None, unit: Any = None,
                 doc: str = "") -> None:
        self.name_, self.is_module_, self.python_class, self.unit, self.doc = name, is_module, python_class, unit, doc
        self.slots: list[Slot] = []
        self.index: dict[str, int] = {}
        self.constants: dict[str, Any] = {}
        self.methods: dict[str, Any] = {}                # Functions whose first parameter is the object
        self.static_methods: dict[str, Any] = {}
        self.properties: dict[str, Property] = {}
        self.concrete: Any = None                        # of a module: what is known of the Python one
        self.is_compiled = False
        self.hooks: list[Any] = []
        self.pre_hooks: list[Any] = []

    # --- what it holds
    def add_slot(self, name: str, type: t.Type, *, is_parameter: bool = False, is_buffer: bool = False) -> int:
        """A further attribute; its place. Refuses a name that is taken."""
        if name in self.index or name in self.constants:
            raise RuntimeError(f"{self.name_}: {'parameter' if is_parameter else 'attribute'} '{name}' cannot be added,"
                               " the class has an attribute of that name")
        self.index[name] = len(self.slots)
        self.slots.append(Slot(name, type, is_parameter, is_buffer))
        return self.index[name]

    def set_slot_type(self, name: str, type: t.Type) -> None:
        self.slots[self.index[name]] = self.slots[self.index[name]]._replace(type=type)

    def slot_type(self, name: str) -> t.Type | None:
        """The type of an attribute; None where there is none."""
        return self.slots[self.index[name]].type if name in self.index else None

    def find_method(self, name: str) -> Any | None:
        return self.methods.get(name)

    def qualified_name(self) -> str:
        return self.name_

    def name(self) -> str:
        """The last part of its name."""
        return self.name_.rpartition(".")[2]

    def is_module(self) -> bool:
        return self.is_module_

    # --- as a type
    @property
    def annotation_str(self) -> str:
        return self.name_

    def is_subtype_of(self, other: t.Type) -> bool:
        if isinstance(other, t.AnyClassType):
            return True
        if isinstance(other, InterfaceType):
            return not other.missing_in(self)
        return super().is_subtype_of(other)

    def why_not(self, other: t.Type) -> str:
        return other.missing_in(self) if isinstance(other, InterfaceType) else ""

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__


class InterfaceType(t.Type):
    """Methods that an object must have: any class that has them will do."""

    __slots__ = ("name_", "methods", "is_module_", "python_class")

    def __init__(self, name: str, *, is_module: bool = False, python_class: type | None = None) -> None:
        self.name_, self.is_module_, self.python_class = name, is_module, python_class
        self.methods: dict[str, Schema] = {}             # without the object itself

    @property
    def annotation_str(self) -> str:
        return self.name_

    @property
    def ir_text(self) -> str:
        return f"InterfaceType<{self.name_.rpartition('.')[2]}>"

    def is_interface_type(self) -> bool:
        return True

    def is_module(self) -> bool:
        return self.is_module_

    def missing_in(self, type: ClassType) -> str:
        """What keeps a class from serving, in words; empty where nothing does."""
        if self.is_module_ and not type.is_module_:
            return f"{type} is no module, as interface '{self.name_}' asks"
        for name, wanted in self.methods.items():
            method = type.find_method(name)
            if method is None:
                return f"Class '{type}' does not have method '{name}', which '{self.name_}' asks for"
            if not _serves(method.schema, wanted):
                return (f"a method of class '{type}' is not compatible with interface '{self.name_}': it is\n"
                        f"  {method.schema}\nand should be\n  {wanted}")
        return ""

    def is_subtype_of(self, other: t.Type) -> bool:
        if isinstance(other, InterfaceType) and self.is_module_ == other.is_module_:
            return all(name in self.methods and _fits(self.methods[name], wanted)
                       for name, wanted in other.methods.items())
        return super().is_subtype_of(other)

    def why_not(self, other: t.Type) -> str:
        if not isinstance(other, InterfaceType):
            return ""
        missing = [name for name in other.methods if name not in self.methods]
        if missing:
            return f"Interface '{self.name_}' does not have method '{missing[0]}', which interface '{other.name_}' has"
        return f"the methods of interface '{self.name_}' do not fit those of '{other.name_}'"

    def _key(self) -> tuple[Any, ...]:
        return (self.name_, self.is_module_)


def _serves(method: Schema, wanted: Schema) -> bool:
    """Whether a method, its object left out, may be called as `wanted` is."""
    return _fits(method._replace(arguments=method.arguments[1:]), wanted)


def _fits(method: Schema, wanted: Schema) -> bool:
    extra = method.arguments[len(wanted.arguments):]
    if len(method.arguments) < len(wanted.arguments) or any(not argument.has_default for argument in extra):
        return False
    taken = all(mine.name == theirs.name and theirs.type.is_subtype_of(mine.type)
                for mine, theirs in zip(method.arguments, wanted.arguments, strict=False))
    return taken and method.return_type().is_subtype_of(wanted.return_type())


class Object:
    """An instance while programs run: a value for each slot of its class. Modules are such objects too."""

    __slots__ = ("type", "slots", "__weakref__")

    def __init__(self, type: ClassType, slots: list[Any] | None = None) -> None:
        self.type = type
        self.slots: list[Any] = [None] * len(type.slots) if slots is None else slots

    def get(self, name: str) -> Any:
        return self.slots[self.type.index[name]]

    def set(self, name: str, value: Any) -> None:
        at = self.type.index[name]
        if at >= len(self.slots):        # the class got attributes after this object was made
            self.slots += [None] * (len(self.type.slots) - len(self.slots))
        self.slots[at] = value

    def has(self, name: str) -> bool:
        return name in self.type.index

    def items(self) -> Iterator[tuple[Slot, Any]]:
        """Slots and what they hold."""
        return zip(self.type.slots, self.slots, strict=True)

    def method(self, name: str) -> Callable[..., Any]:
        """A method as programs run it: bound, with values for all parameters."""
        run = self.type.methods[name].runner()
        return lambda *args: run(self, *args)

    def __lt__(self, other: Object) -> bool:
        method = self.type.methods.get("__lt__")
        if method is None:
            raise RuntimeError(f"a list of {self.type} cannot be sorted: the class has no __lt__ method")
        return method.runner()(self, other)

    def __repr__(self) -> str:
        return f"<{self.type.name_} object at {id(self):#x}>"
