"""Modules in expressions: `self`, its submodules, what is read from them and called.

Enters: a value whose type is a module's class. Leaves: attributes, submodules as further `ModuleValue`s, methods
compiled when they are first named, calls with the hooks around them. Refuses: attributes the module does not have,
with the reason where Python has one.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..._jit_internal import get_static_fn, is_ignored_fn, is_static_fn
from .. import types as t
from ..classes import ClassType, InterfaceType
from ..constants import constant_of, insert_constant
from ..frontend.errors import CompileError
from ..frontend.objects import Method, attribute_of, get_attribute, set_attribute
from ..frontend.python_calls import PythonCall
from ..frontend.sugared import Builtin, FunctionValue, Simple, Sugared, Walk, sugared_of
from ..functional import method_of
from ..ir import Value
from ..matching import unpacked
from ..source import Range
from .concrete import Concrete
from .containers import LISTINGS, Entries, ModuleRow, OverloadedMethod, constant_value

if TYPE_CHECKING:
    from ..frontend.emitter import Emitter


class ModuleValue(Sugared):
    """A module."""

    is_kept = True

    def __init__(self, held: Value) -> None:
        self.held = held

    @property
    def concrete(self) -> Concrete | None:
        """What is known of the Python module; None for modules that came from a file."""
        return self.held.type_.concrete if isinstance(self.held.type_, ClassType) else None

    def kind(self) -> str:
        return "module"

    def value(self, e: Emitter, at: Range) -> Value:
        return self.held

    # --- attributes
    def attribute(self, e: Emitter, at: Range, name: str) -> Sugared:
        found = self.find(e, at, name)
        if found is not None:
            return found
        known = self.concrete
        hint = ""
        if known is not None:
            hint = known.failed.get(name, "")
            if name in known.ignored:
                hint = "(it is among what the module says to ignore)"
        type: Any = self.held.type_
        short = type.name() if isinstance(type, ClassType) else type.annotation_str
        raise CompileError(f"Module '{short}' has no attribute '{name}' {hint}", at)

    def find(self, e: Emitter, at: Range, name: str) -> Sugared | None:
        """What `module.name` means; None where it means nothing."""
        type = self.held.type_
        if isinstance(type, InterfaceType):
            return attribute_of(e, at, self.held, name)
        assert isinstance(type, ClassType)
        slot = type.slot_type(name)
        if isinstance(slot, (ClassType, InterfaceType)) and slot.is_module():
            return ModuleValue(get_attribute(e, self.held, name, slot))
        if slot is not None or name in type.methods or name in type.properties:
            return attribute_of(e, at, self.held, name)
        if name in type.constants:
            return constant_value(e, type.constants[name])
        known = self.concrete
        if known is None:
            return None
        return self._of_python(e, at, name, known)

    def _of_python(self, e: Emitter, at: Range, name: str, known: Concrete) -> Sugared | None:
        """What the Python module knows beyond the class: walks, overloads, functions, methods not compiled yet."""
        if name in LISTINGS and not (name in ("keys", "values", "items") and known.kind not in (
                "dict", "parameter dict")):
            return Entries(self, name)
        if name in known.overloads:
            return OverloadedMethod(self.held, known.overloads[name])
        if name in known.functions:
            return FunctionValue(known.functions[name])
        if name in known.builtins:
            return Builtin(known.builtins[name])
        unbound = method_of(known.python_class, name)
        if not inspect.isfunction(unbound):
            return None
        if is_static_fn(known.python_class, name):
            return sugared_of(get_static_fn(known.python_class, name).__func__, at, e)
        if is_ignored_fn(unbound):
            return PythonCall(unbound, self.held)
        e.unit.add_method(self.held.type_, name, unbound, ModuleValue)
        return Method(self.held, name)

    def set_attribute(self, e: Emitter, at: Range, name: str, value: Value) -> None:
        set_attribute(e, at, self.held, name, value)

    # --- calls
    def call(self, e: Emitter, at: Range, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Sugared:
        type = self.held.type_
        if not isinstance(type, ClassType) or not (type.hooks or type.pre_hooks):
            return self.attribute(e, at, "forward").call(e, at, args, kwargs)
        with e.graph.at_range(None):
            given = e.graph.insert("prim::TupleConstruct", args, t.TupleType([v.type_ for v in args])).outputs_[0]
        for hook in type.pre_hooks:
            given = self._changed(e, at, hook, given)
        if type.pre_hooks:
            args = unpacked(e.graph, given)
        result = self.attribute(e, at, "forward").call(e, at, args, kwargs).value(e, at)
        for hook in type.hooks:
            answer = FunctionValue(hook).call(e, at, [self.held, given, result], {}).value(e, at)
            result = result if isinstance(answer.type_, t.NoneType) else answer
        return Simple(result)

    def _changed(self, e: Emitter, at: Range, hook: Any, given: Value) -> Value:
        """The arguments of forward after a pre-hook."""
        answer = FunctionValue(hook).call(e, at, [self.held, given], {}).value(e, at)
        if isinstance(answer.type_, t.NoneType):
            return given
        if isinstance(answer.type_, t.TupleType):
            return answer
        with e.graph.at_range(None):
            return e.graph.insert("prim::TupleConstruct", [answer], t.TupleType([answer.type_])).outputs_[0]

    # --- containers
    def entries(self, e: Emitter, at: Range) -> list[tuple[str, Sugared]]:
        """The submodules, or of containers of parameters these, by name; read here and now."""
        type: ClassType = self.held.type_  # type: ignore[assignment]
        of_parameters = self._kind().startswith("parameter")
        found: list[tuple[str, Sugared]] = []
        for slot in type.slots:
            if of_parameters and slot.is_parameter:
                found.append((slot.name, Simple(get_attribute(e, self.held, slot.name, slot.type))))
            elif not of_parameters and isinstance(slot.type, (ClassType, InterfaceType)) and slot.type.is_module():
                found.append((slot.name, ModuleValue(get_attribute(e, self.held, slot.name, slot.type))))
        return found

    def _kind(self) -> str:
        return self.concrete.kind if self.concrete is not None else ""

    def iterate(self, e: Emitter, at: Range) -> Walk:
        kind = self._kind()
        if not kind:
            raise CompileError("of modules, only the containers (Sequential, ModuleList, ModuleDict, ParameterList) can"
                               " be walked over", at)
        if kind.endswith("dict"):
            return Entries(self, "keys").row(e, at).iterate(e, at)
        return self.row(e, at).iterate(e, at)

    def row(self, e: Emitter, at: Range) -> ModuleRow:
        return ModuleRow([part for _, part in self.entries(e, at)])

    def tuple(self, e: Emitter, at: Range, count: int | None = None) -> list[Sugared]:
        if self._kind() not in ("list", "parameter list"):
            raise CompileError("of modules, only ModuleList, Sequential and ParameterList can be taken apart as a"
                               " tuple", at)
        return self.row(e, at).parts

    def item(self, e: Emitter, at: Range, index: Value) -> Sugared:
        kind = self._kind()
        if kind in ("list", "parameter list"):
            return self.row(e, at).item(e, at, index)
        if kind in ("dict", "parameter dict"):
            return self._named(e, at, index)
        raise CompileError("of modules, only the containers (Sequential, ModuleList, ModuleDict, ParameterList,"
                           " ParameterDict) are subscriptable", at)

    def _named(self, e: Emitter, at: Range, index: Value) -> Sugared:
        key = constant_of(index, None)
        if not isinstance(key, str):
            raise CompileError("Expected string literal for index: which module of a ModuleDict is meant must be known"
                               " before the program runs. A loop, as in 'for name, layer in self.layers.items()',"
                               " reaches them all", at)
        found = dict(self.entries(e, at))
        if key not in found:
            raise CompileError(f"Key Error, {key}", at)
        return found[key]

    def slice(self, e: Emitter, at: Range, where: slice) -> Sugared:
        if self._kind() not in ("list", "parameter list"):
            raise CompileError("of modules, only ModuleList, Sequential and ParameterList can be sliced", at)
        return ModuleRow(self.row(e, at).parts[where])

    def length(self, e: Emitter, at: Range) -> Value:
        type = self.held.type_
        if isinstance(type, ClassType) and "__len__" in type.methods:
            return Method(self.held, "__len__").call(e, at, [], {}).value(e, at)
        if self._kind():
            return insert_constant(e.graph, len(self.entries(e, at)))
        found = self.find(e, at, "__len__")
        if found is None:
            raise CompileError("a module has no length", at)
        return found.call(e, at, [], {}).value(e, at)
