"""What scripted classes, containers and texts are in Python.

Enters: an instance of a class, a list, a dict, source text. Leaves: `RecursiveScriptClass`, `ScriptList` and
`ScriptDict`, which share their content with the scripts they are given to, and `CompilationUnit`, the functions of a
text. Refuses: values whose type cannot be told, text that is no function.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, MutableMapping, MutableSequence
from typing import Any

from ..base import late
from ..script import types as t
from ..script.classes import ClassType, Object
from ..script.frontend.parsing import NOT_FOUND, definitions_in
from ..script.modules.inference import NoType, inferred
from ..script.unit import Function, Unit
from ..script.user_classes import script_class, type_of_class
from ..script.values import Refused, converted, outward
from ._script import ScriptFunction

# The operators of Python that an object passes on to its class.
_MAGIC = tuple(f"__{word}__" for word in (
    "call enter exit bool int float str len iter contains getitem setitem eq ne lt le gt ge"
    " neg add sub mul truediv mod pow and or xor"
).split())


# --- objects ----------------------------------------------------------------------------------------------------------


class RecursiveScriptClass:
    """An object of a script class for Python: its attributes are those of the object, its methods run compiled."""

    def __init__(self, held: Object) -> None:
        self.__dict__["__script_object__"] = held

    def __getattr__(self, name: str) -> Any:
        held = self.__dict__["__script_object__"]
        type = held.type
        if type.slot_type(name) is not None:
            return outward(held.get(name))
        if name in type.properties:
            return _called(type.properties[name].getter, held)()
        if name in type.methods:
            return _called(type.methods[name], held)
        raise AttributeError(f"'{type}' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        held = self.__dict__["__script_object__"]
        if name in held.type.properties:
            setter = held.type.properties[name].setter
            if setter is None:
                raise AttributeError(f"'{held.type}' object: property '{name}' has no setter")
            _called(setter, held)(value)
            return
        wanted = held.type.slot_type(name)
        if wanted is None:
            raise RuntimeError(f"{held.type} does not have an attribute with name '{name}'")
        try:
            held.set(name, converted(value, wanted))
        except Refused as refused:
            raise RuntimeError(f"Could not cast attribute '{name}' to type {wanted}: {refused}") from None

    def forward_magic_method(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Call a special method of the class. Refuses those that it does not have."""
        held = self.__dict__["__script_object__"]
        if name not in held.type.methods:
            raise TypeError(f"'{held.type}' object has no method {name}")
        return _called(held.type.methods[name], held)(*args, **kwargs)

    def __hash__(self) -> int:
        return id(self.__dict__["__script_object__"])

    def __repr__(self) -> str:
        return f"<torch.jit.RecursiveScriptClass of {self.__dict__['__script_object__']!r}>"


def _special(name: str) -> Callable[..., Any]:
    def call(self: RecursiveScriptClass, *args: Any, **kwargs: Any) -> Any:
        held = self.__dict__["__script_object__"]
        if name in ("__eq__", "__ne__") and name not in held.type.methods:
            return NotImplemented
        if name in ("__bool__", "__str__") and name not in held.type.methods:
            return True if name == "__bool__" else repr(self)
        return self.forward_magic_method(name, *args, **kwargs)

    call.__name__ = name
    return call


for _name in _MAGIC:
    setattr(RecursiveScriptClass, _name, _special(_name))


def _called(method: Function, held: Object) -> Callable[..., Any]:
    """A method as Python calls it."""
    return lambda *args, **kwargs: method(held, *args, **kwargs)


def face(held: Object) -> Any:
    """Python's side of an object that is no instance of a Python class."""
    return late.provided("script module")(held) if held.type.is_module_ else RecursiveScriptClass(held)


def script_value(obj: Any) -> Any:
    """What `jit.script` makes of what is no function, class or module."""
    if isinstance(obj, (RecursiveScriptClass, ScriptList, ScriptDict, CompilationUnit)):
        return obj
    if isinstance(obj, list):
        return ScriptList(obj)
    if isinstance(obj, dict):
        return ScriptDict(obj)
    if obj.__class__.__module__ == "builtins":
        raise TypeError(f"jit.script: expected a function, a class, a module or an instance of a class, got"
                        f" {obj!r:.80}: {obj.__class__} is a built-in class")
    script_class(obj.__class__)
    type = type_of_class(obj.__class__)
    assert isinstance(type, ClassType), "script_class compiles or refuses"
    try:
        return RecursiveScriptClass(converted(obj, type))
    except Refused as refused:
        raise RuntimeError(str(refused)) from None


# --- containers -------------------------------------------------------------------------------------------------------


def _type_of(obj: Any, type: t.Type | None) -> Any:
    try:
        return type or inferred(obj)
    except NoType as reason:
        raise RuntimeError(f"jit.script: the type of {obj!r:.80} cannot be inferred: {reason}") from None


def _taken(value: Any, type: t.Type) -> Any:
    try:
        return converted(value, type)
    except Refused as refused:
        raise TypeError(f"expected a value of type {type}, got {value!r:.80}: {refused}") from None


class ScriptList(MutableSequence):
    """A list that scripts are given without a copy."""

    def __init__(self, held: Any, type: t.Type | None = None) -> None:
        self._type = _type_of(held, type)
        self.__script_value__: list[Any] = _taken(list(held), self._type)

    def __getitem__(self, at: Any) -> Any:
        return outward(self.__script_value__[at])

    def __setitem__(self, at: Any, value: Any) -> None:
        kind = self._type if isinstance(at, slice) else self._type.element
        self.__script_value__[at] = _taken(value, kind)

    def __delitem__(self, at: Any) -> None:
        del self.__script_value__[at]

    def __len__(self) -> int:
        return len(self.__script_value__)

    def insert(self, index: int, value: Any) -> None:
        self.__script_value__.insert(index, _taken(value, self._type.element))

    def sort(self, reverse: bool = False) -> None:
        self.__script_value__.sort(reverse=reverse)

    def copy(self) -> ScriptList:
        return ScriptList(self, self._type)

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, (list, ScriptList)) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(list(self))


class ScriptDict(MutableMapping):
    """A dict that scripts are given without a copy."""

    def __init__(self, held: Any, type: t.Type | None = None) -> None:
        self._type = _type_of(held, type)
        self.__script_value__: dict[Any, Any] = _taken(dict(held), self._type)

    def __getitem__(self, key: Any) -> Any:
        return outward(self.__script_value__[key])

    def __setitem__(self, key: Any, value: Any) -> None:
        self.__script_value__[_taken(key, self._type.key)] = _taken(value, self._type.value)

    def __delitem__(self, key: Any) -> None:
        del self.__script_value__[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.__script_value__)

    def __len__(self) -> int:
        return len(self.__script_value__)

    def __repr__(self) -> str:
        return f"{{{', '.join(f'{key}: {value}' for key, value in self.items())}}}"


# --- text -------------------------------------------------------------------------------------------------------------


class CompilationUnit:
    """The functions that texts define; each is an attribute."""

    def __init__(self, lang: str | None = None, _frames_up: int = 0) -> None:
        self._c = Handle(Unit())
        if lang is not None:
            self.define(lang, _frames_up=_frames_up + 1)

    def define(self, lang: str, rcb: Callable[[str], Any] | None = None, _frames_up: int = 0) -> None:
        """Add the functions of a text. They see each other and what the caller's frame sees. Refuses: text that cannot
        be read, names that are taken."""
        usual = rcb or names_at(sys._getframe(_frames_up + 1))
        made: dict[str, Function] = {}

        def lookup(name: str) -> Any:
            return ScriptFunction(made[name]) if name in made else usual(name)

        try:
            definitions = definitions_in(lang, lookup)
        except SyntaxError as error:
            raise RuntimeError(f"expected functions in the text, at line {error.lineno}: {error.msg}\n"
                               f"{error.text}") from None
        for definition in definitions:
            if definition.name in made or definition.name in self._c.functions:
                raise RuntimeError(f"method '{definition.name}' already defined.")
            made[definition.name] = Function(self._c.unit, definition.name, definition)
        for function in made.values():
            function.ensure()
        self._c.functions.update(made)

    def __getattr__(self, name: str) -> Any:
        found = self.__dict__["_c"].find_function(name) if "_c" in self.__dict__ else None
        if found is None:
            raise AttributeError(f"'CompilationUnit' has no attribute '{name}'")
        return found


class Handle:
    """What a unit offers below the surface, under PyTorch's names."""

    def __init__(self, unit: Unit) -> None:
        self.unit = unit
        self.functions: dict[str, Function] = {}

    def find_function(self, name: str) -> ScriptFunction | None:
        return ScriptFunction(self.functions[name]) if name in self.functions else None

    def get_functions(self) -> list[ScriptFunction]:
        return [ScriptFunction(function) for function in self.functions.values()]


def names_at(frame: Any) -> Callable[[str], Any]:
    """What names mean where a frame stands, and for texts that import nothing, the words they may use."""
    import builtins

    spaces = (frame.f_locals, frame.f_globals)

    def lookup(name: str) -> Any:
        for space in spaces:
            if name in space:
                return space[name]
        if name in ("torch", "math"):
            return late.provided("package") if name == "torch" else sys.modules["math"]
        return getattr(builtins, name, NOT_FOUND)

    return lookup

