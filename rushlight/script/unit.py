"""Compiled functions and who holds them.

Enters: Python functions, text. Leaves: `Function`s: name, graph, signature, compiled when first needed. Refuses:
recursion.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from .._jit_internal import _get_fn_overloads, _qualified_name, boolean_dispatched, is_ignored_fn
from ..base import late
from .classes import ClassType
from .execute import Program, told
from .frontend.annotations import qualified_name
from .frontend.emitter import Emitter
from .frontend.errors import CompileError, compiling
from .frontend.exits import transform_exits
from .frontend.namespaces import Names
from .frontend.overloads import Dispatched, Overloaded, variant
from .frontend.parsing import Definition, definition_of
from .frontend.python_calls import PythonCall
from .frontend.ssa import to_single_assignment
from .frontend.sugared import FunctionValue, Sugared
from .functional import script_named, script_of
from .functional.language import Namespace
from .ir import Graph, Value
from .passes.cleanup import canonicalize_loops, clean
from .schemas import Schema
from .source import Range
from .types import Type
from .values import Refused, bound, entrance, leaving


class Function:
    """One compiled function."""

    _leaving: Callable[[Any], Any] | None = None      # how results go back to Python, where that is work

    _enter: Callable[..., Any] | None = None
    _places = -1                 # how many values come by place where all do; -1 where some go by name alone
    last: Function | None = None         # that Python called

    def __init__(self, unit: Unit, name: str, definition: Definition, owner: ClassType | None = None,
                 make_self: Callable[[Value], Sugared] | None = None) -> None:
        self.unit, self.qualified_name, self.definition = unit, name, definition
        self.owner, self.make_self = owner, make_self      # of a method
        self.name = definition.name
        self._graph: Graph | None = None
        self._schema: Schema | None = None
        self._is_compiling = False
        self._program: Program | None = None

    def ensure(self, called_from: Range | None = None) -> Function:
        """Compile it, if that has not happened yet."""
        if self._graph is not None:
            return self
        if self._is_compiling:
            kind = "function" if self.owner is None else "method"
            raise CompileError(f"{kind} '{self.name}' is called recursively: a compiled function cannot reach itself",
                               called_from)
        self._is_compiling = True
        try:
            with compiling(self.name, called_from):
                self._graph, self._schema = compile_definition(self.unit, self.definition, self.owner,
                                                               self.make_self)
                self._leaving = leaving(self._schema.return_type())
        finally:
            self._is_compiling = False
        return self

    def runner(self) -> Callable[..., Any]:
        """The function as Python calls it, with values for all its parameters."""
        if self._program is None:
            self._program = Program(self.graph)
        return self._program.run

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it as a program does: parameters by place and name, defaults, types checked."""
        enter: Callable[..., Any] = self._enter or self._open()
        if kwargs or len(args) != self._places:
            args, enter = bound(self.schema, args, kwargs), self._program.run  # type: ignore[assignment, union-attr]
        Function.last = self
        try:
            result = enter(*args)
        except Refused:
            bound(self.schema, args, kwargs)        # refuses with all there is to say
            raise
        except Exception as error:
            raise told(error) from error
        return result if self._leaving is None else self._leaving(result)

    def _open(self) -> Callable[..., Any]:
        """The way in for values that are all given by place."""
        schema = self.schema
        self._enter = entrance(schema, self.runner())
        self._places = -1 if any(argument.kwarg_only for argument in schema.arguments) else len(schema.arguments)
        return self._enter

    @property
    def graph(self) -> Graph:
        return self.ensure()._graph  # type: ignore[return-value]

    @property
    def schema(self) -> Schema:
        return self.ensure()._schema  # type: ignore[return-value]


def compile_definition(unit: Unit, definition: Definition, owner: ClassType | None = None,
                       make_self: Callable[[Value], Sugared] | None = None) -> tuple[Graph, Schema]:
    """A definition's graph and signature."""
    emitter = Emitter(unit, definition, owner, make_self)
    schema = emitter.emit()
    graph = emitter.graph
    to_single_assignment(graph)
    transform_exits(graph, schema.returns[0].type)
    canonicalize_loops(graph, graph.block)
    clean(graph)
    return graph, schema


class Unit:
    """All functions compiled together: one for each Python function."""

    def __init__(self) -> None:
        self.functions: dict[Any, Function] = {}
        self.overloads: dict[Any, list[Function]] = {}
        self.names: set[str] = set()
        self.mangled = 0

    def take_name(self, name: str) -> str:
        """A name that nothing else here has: the one given, or it with a number inside."""
        while name in self.names:
            path, _, last = name.rpartition(".")
            path = path.rpartition(".___torch_mangle_")[0] if "___torch_mangle_" in path.rpartition(".")[2] else path
            name = f"{path}.___torch_mangle_{self.mangled}.{last}"
            self.mangled += 1
        self.names.add(name)
        return name

    def add_method(self, owner: ClassType, name: str, function: Any,
                   make_self: Callable[[Value], Sugared] | None) -> Function:
        """A method, from Python's; `make_self` says what its object means inside."""
        return self.add_definition(owner, name, definition_of(function, name), make_self)

    def add_definition(self, owner: ClassType, name: str, definition: Definition,
                       make_self: Callable[[Value], Sugared] | None) -> Function:
        owner.methods[name] = Function(self, f"{owner.name_}.{name}", definition, owner, make_self)
        return owner.methods[name]

    def meaning_of(self, found: Any, at: Range | None = None) -> Sugared | None:
        """What an object means that has a script of ours: functions of `nn.functional`, and names in those scripts."""
        if isinstance(found, Namespace):
            return Names(script_named if found.name == "F" else lambda name: None)
        body = script_of(found) if callable(found) else None
        return self.function_of(body, at) if body is not None else None

    def function_of(self, found: Any, at: Range | None = None) -> Sugared | None:
        """What calling a Python function means: the function compiled; None for things that are no functions."""
        held = getattr(found, "__script_function__", None)
        if held is not None:
            return FunctionValue(held)
        if not (inspect.isfunction(found) or inspect.ismethod(found)):
            return None
        if found in boolean_dispatched:
            return Dispatched(self, boolean_dispatched[found])
        if is_ignored_fn(found):
            return PythonCall(found)
        variants = self.variants_of(found)
        return Overloaded(variants) if variants else FunctionValue(self.compile(found))

    def variants_of(self, function: Any) -> list[Function]:
        """The signatures of an overloaded function, compiled; none for others."""
        declared = getattr(function, "__script_overloads__", None) or (
            _get_fn_overloads(_qualified_name(function)) if hasattr(function, "__name__") else None)
        if not declared:
            return []
        if function in declared:
            raise RuntimeError(f"overloaded function {function.__name__} has signatures and no implementation")
        if function not in self.overloads:
            name = qualified_name(function)
            self.overloads[function] = [
                Function(self, self.take_name(name), variant(each, function, function.__name__)) for each in declared]
        return self.overloads[function]

    def compile(self, function: Any) -> Function:
        inner = inspect.unwrap(function)
        if _get_fn_overloads(_qualified_name(inner)):
            raise RuntimeError(f"Function {qualified_name(inner)} cannot be directly compiled because it is overloaded:"
                               " only a call tells by its arguments which signature is meant")
        if inner not in self.functions:
            definition = definition_of(inner)
            self.functions[inner] = Function(self, self.take_name(qualified_name(inner)), definition)
        return self.functions[inner]

    def class_type(self, python_class: type, at: Range | None = None) -> Type | None:
        """The type of a Python class, compiled now if need be; None for classes that scripts cannot have."""
        return late.provided("script classes")(python_class, at)


PYTHON = Unit()          # what Python's functions, classes and modules compile into
