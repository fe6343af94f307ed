"""What the words of an archive's code mean: `torch.add`, `ops.prim.NumToTensor`, `CONSTANTS.c0`, `__torch__.a.B`, and
the forms that only such code has (`uninitialized`, `unchecked_cast`, `fork` of a closure).

Enters: a name. Leaves: something `Sugared`. Refuses: names of classes, functions and constants that the archive lacks.
"""

from __future__ import annotations

import ast
import math
from typing import TYPE_CHECKING, Any

from .. import types as t
from ..classes import ClassType, InterfaceType
from ..constants import insert_constant
from ..frontend.errors import CompileError
from ..frontend.forking import emit_fork
from ..frontend.objects import ClassValue
from ..frontend.parsing import NOT_FOUND
from ..frontend.sugared import Builtin, Form, FunctionValue, NamedTupleClass, Simple, Special, Sugared
from ..ir import Graph, Value
from ..source import Range

if TYPE_CHECKING:
    from ..frontend.emitter import Emitter
    from .imports import ArchivedDefinition, Importer

_SPECIAL = ("print", "isinstance", "hasattr", "range", "enumerate", "zip", "list", "dict", "tuple", "int", "float",
            "bool", "str", "complex", "annotate", "reversed")
_OPS = {"len": "aten::len", "sorted": "aten::sorted", "ord": "aten::ord", "abs": "prim::abs", "min": "prim::min",
        "max": "prim::max", "round": "aten::round"}
_NUMBERS = {"inf": math.inf, "nan": math.nan, "infj": complex(0, math.inf), "nanj": complex(0, math.nan)}


class Names:
    """The names that code of one archive can use."""

    def __init__(self, importer: Importer) -> None:
        self._importer = importer
        self._fixed: dict[str, Any] = {
            "torch": Ops("aten", importer), "ops": Namespaces(importer),
            "CONSTANTS": Constants(importer), "__torch__": Prefix(importer, "__torch__"),
            "uninitialized": Form("uninitialized", _uninitialized),
            "unchecked_cast": Form("unchecked_cast", _unchecked_cast), "getattr": Form("getattr", _getattr),
        }

    def __call__(self, name: str) -> Any:
        found = self._fixed.get(name)
        if found is None:
            found = self._fixed[name] = self._word(name)
        return found

    def _word(self, name: str) -> Any:
        if name in _SPECIAL:
            return Special(name)
        if name in _OPS:
            return Builtin(_OPS[name])
        if name in _NUMBERS:
            return Number(_NUMBERS[name])
        return Form("fork", _fork) if name == "fork" else NOT_FOUND


class Number(Sugared):
    """A number that has a word instead of digits."""

    def __init__(self, held: complex) -> None:
        self.held = held

    def kind(self) -> str:
        return "number"

    def value(self, e: Emitter, at: Range) -> Value:
        return insert_constant(e.graph, self.held)


class Ops(Sugared):
    """The ops of one namespace, as programs of the archive's version mean them."""

    def __init__(self, space: str, importer: Importer) -> None:
        self.space, self.importer = space, importer

    def kind(self) -> str:
        return f"namespace '{self.space}'"

    def attribute(self, e: Emitter, at: Range, name: str) -> Sugared:
        kind = f"{self.space}::{name}"
        old = self.importer.upgraded(kind, self.importer.version) if self.importer.upgraded is not None else None
        return old or Builtin(kind)


class Namespaces(Sugared):
    """`ops`: every namespace there is."""

    def __init__(self, importer: Importer) -> None:
        self.importer = importer

    def kind(self) -> str:
        return "ops"

    def attribute(self, e: Emitter, at: Range, name: str) -> Sugared:
        return Ops(name, self.importer)


class Constants(Sugared):
    """`CONSTANTS`: what the archive keeps beside its code."""

    def __init__(self, importer: Importer) -> None:
        self.importer = importer

    def kind(self) -> str:
        return "table of constants"

    def attribute(self, e: Emitter, at: Range, name: str) -> Sugared:
        held = self.importer.constants()
        if not name.startswith("c") or not name[1:].isdigit() or int(name[1:]) >= len(held):
            raise CompileError(f"the archive has no constant '{name}', it has {len(held)}", at)
        return Simple(insert_constant(e.graph, held[int(name[1:])]))


class Prefix(Sugared):
    """`__torch__.a.b`: the beginning of a name."""

    def __init__(self, importer: Importer, name: str) -> None:
        self.importer, self.name = importer, name

    def kind(self) -> str:
        return f"name '{self.name}'"

    def attribute(self, e: Emitter, at: Range, name: str) -> Sugared:
        full = f"{self.name}.{name}"
        type = self.importer.type(full)
        if isinstance(type, ClassType):
            return ArchivedClass(type)
        if isinstance(type, t.EnumType):
            return EnumClass(type)
        if isinstance(type, t.TupleType):
            return NamedTupleClass(type)
        if isinstance(type, InterfaceType):
            raise CompileError(f"interface '{full}' cannot be used as a value", at)
        function = self.importer.function(full)
        return FunctionValue(function) if function is not None else Prefix(self.importer, full)

    def call(self, e: Emitter, at: Range, args: Any, kwargs: Any) -> Sugared:
        raise CompileError(f"the archive has no class or function '{self.name}'", at)


class ArchivedClass(ClassValue):
    """A class by its name; `__new__` makes an object that is not initialised yet."""

    def attribute(self, e: Emitter, at: Range, name: str) -> Sugared:
        return Form("__new__", self._new) if name == "__new__" else super().attribute(e, at, name)

    def _new(self, e: Emitter, tree: ast.Call, at: Range) -> Sugared:
        return Simple(e.graph.insert("prim::CreateObject", [], self.type).outputs_[0])


class Closure(Sugared):
    """A function inside another; it reads the variables around it."""

    def __init__(self, definition: ArchivedDefinition, tree: ast.FunctionDef) -> None:
        self.definition, self.tree = definition, tree

    def kind(self) -> str:
        return "closure"

    def compiled(self, e: Emitter) -> tuple[Graph, t.Type, list[Value]]:
        """Its graph, what it returns, and the values around it that it takes."""
        from ..unit import compile_definition

        read = dict.fromkeys(node.id for part in self.tree.body for node in ast.walk(part)
                             if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load))
        values = {name: value for name in read if (value := e.frame.load(name)) is not None}
        types = [value.type_ for value in values.values()]
        definition = self.definition.with_parameters(self.tree, list(values), types)
        graph, schema = compile_definition(e.unit, definition)
        return graph, schema.return_type(), list(values.values())


class EnumClass(Sugared):
    """An enum by its name: its members are constants."""

    def __init__(self, type: t.EnumType) -> None:
        self.type = type

    def kind(self) -> str:
        return "enum"

    def attribute(self, e: Emitter, at: Range, name: str) -> Sugared:
        members = self.type.python_class.__members__  # type: ignore[union-attr]
        if name not in members:
            raise CompileError(f"enum '{self.type}' has no member '{name}'", at)
        return Simple(insert_constant(e.graph, members[name], self.type))


# --- forms ------------------------------------------------------------------------------------------------------------


def _given(tree: ast.Call, count: int, name: str, at: Range) -> list[ast.expr]:
    if len(tree.args) != count or tree.keywords:
        raise CompileError(f"{name} takes {count} values, got {len(tree.args) + len(tree.keywords)}", at)
    return tree.args


def _uninitialized(e: Emitter, tree: ast.Call, at: Range) -> Sugared:
    """A value that no path of the program reads."""
    type = e.definition.annotation(_given(tree, 1, "uninitialized", at)[0])
    return Simple(e.graph.insert("prim::Uninitialized", (), type).outputs_[0])


def _unchecked_cast(e: Emitter, tree: ast.Call, at: Range) -> Sugared:
    """A value as the type that a condition has shown it to have."""
    kind, held = _given(tree, 2, "unchecked_cast", at)
    value = e.value(held)
    return Simple(e.graph.insert("prim::unchecked_cast", [value], e.definition.annotation(kind)).outputs_[0])


def _fork(e: Emitter, tree: ast.Call, at: Range) -> Sugared:
    """A closure that runs beside the rest; any other call as scripts have it."""
    called = e.expression(tree.args[0]) if tree.args else None
    if not isinstance(called, Closure):
        return Simple(emit_fork(e, tree, at))
    graph, result, values = called.compiled(e)
    node = e.graph.insert("prim::fork", values, t.FutureType(result)).set("g", "Subgraph", graph)
    return Simple(node.outputs_[0])


def _getattr(e: Emitter, tree: ast.Call, at: Range) -> Sugared:
    """`getattr(self, "0")`: attributes whose names are no words."""
    held, name = _given(tree, 2, "getattr", at)
    if not isinstance(name, ast.Constant) or not isinstance(name.value, str):
        raise CompileError("getattr's second argument must be a string literal", at)
    return e.expression(held).attribute(e, at, name.value)
