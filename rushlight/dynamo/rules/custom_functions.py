"""Custom autograd Functions in a graph: one node each, whose forward and backward run as they are.

Enters: a class made of `autograd.Function` and the arguments of its `apply`. Leaves: a node that calls it. What its
methods read from around them is relied upon by guards; tensors that they close over become inputs of the node, which
then calls a class of the same name whose methods close over these. A class that the frame itself made is always called
so: what its methods close over are values of this capture. Refuses (breaks the graph): methods that close over objects
with a state, or over lists and dicts that they change, and globals that are no plain values.
"""

from __future__ import annotations

import dis
import enum
import inspect
import types
from collections.abc import Callable, Sequence
from typing import Any

from ..._C import Tensor
from ...autograd.function import Function
from ...base.homes import is_ours
from ..record.breaks import GraphBreak, shown
from ..record.hidden import is_hidden
from ..record.machine import Machine
from ..record.recorder import as_target
from ..values.attributes import MISSING
from ..values.floats import SYMBOLS, as_numbers
from ..values.guards import Kind
from ..values.outside import CONSTANTS, ITSELF
from ..values.sources import Item
from .natives import special

_METHODS = ("forward", "backward", "setup_context", "vjp", "jvp", "vmap")
_CHANGES = frozenset("append extend insert pop popitem remove clear update setdefault add discard sort reverse".split())
_WRITES = frozenset(("STORE_SUBSCR", "DELETE_SUBSCR", "STORE_DEREF", "DELETE_DEREF"))
_Make = Callable[[Sequence[Any], Any], Any]      # from the tensors that are lifted, and the class, to a value


@special(Function.apply.__func__)
def _apply(m: Machine, f: Any, args: tuple, kwargs: dict) -> Any:
    kind, *rest = args
    around = Surrounded(m, kind)
    methods = {}
    for name in _METHODS:
        method = inspect.getattr_static(kind, name, None)
        function = around.itself(getattr(method, "__func__", method))
        if isinstance(function, types.FunctionType) and not _is_ours(function):
            methods[name] = type(method), around.function(function)
    given = [around.contents(value, "an argument") if isinstance(value, types.FunctionType) else None for value in rest]
    if not (around.lifted or any(given) or id(kind) in m.own_classes):
        return m.record(as_target(kind.__name__, kind.apply), tuple(rest), kwargs)
    count = len(around.lifted)

    def call(*values: Any, **named: Any) -> Any:
        lifted, inner = values[:count], list(values[count:])
        again = type(kind)(kind.__name__, (kind,), {"__module__": kind.__module__, "__qualname__": kind.__qualname__})
        for name, (wrapper, make) in methods.items():
            function = make(lifted, again)
            setattr(again, name, wrapper(function) if wrapper in (staticmethod, classmethod) else function)
        for i, make in enumerate(given):
            inner[i] = inner[i] if make is None else make(lifted, again)
        return again.apply(*inner, **named)

    held = [None if make is not None else value for make, value in zip(given, rest, strict=True)]
    return m.record(as_target(kind.__name__, call), (*around.lifted, *held), kwargs)


class Surrounded:
    """What the methods of one class find around them."""

    def __init__(self, m: Machine, kind: type) -> None:
        self.m, self.kind = m, kind
        self.lifted: list[Tensor] = []
        self.open: set[int] = set()
        self.seen: set[int] = set()      # functions of modules

    def itself(self, value: Any) -> Any:
        """The function behind one that built-in functions were given, as decorators are."""
        return value.function if getattr(value, "machine", None) is self.m else value

    def function(self, function: types.FunctionType) -> _Make:
        """A function of the program, or one of the same code that closes over what is lifted."""
        if not is_ours(function.__globals__.get("__name__")):
            self.called(guard_globals(self.m, function))
        cells = self.m.closure_of(function)
        if not cells:
            return lambda lifted, kind: function
        if id(function) in self.open:
            raise GraphBreak("not modelled", f"{shown(function)} closes over itself")
        self.open.add(id(function))
        before = len(self.lifted)
        makes = [self.of_cell(function, name, cell)
                 for name, cell in zip(function.__code__.co_freevars, cells, strict=True)]
        self.open.discard(id(function))
        if len(self.lifted) == before and id(function) not in self.m.own:
            return lambda lifted, kind: function

        def make(lifted: Sequence[Any], kind: Any) -> types.FunctionType:
            closure = tuple(types.CellType(one(lifted, kind)) for one in makes)
            result = types.FunctionType(function.__code__, function.__globals__, function.__name__,
                                        function.__defaults__, closure)
            result.__kwdefaults__ = function.__kwdefaults__
            return result

        return make

    def called(self, functions: Sequence[types.FunctionType]) -> None:
        """Rely on what functions read that a method finds in its module; they are called as they are."""
        for function in functions:
            if id(function) in self.seen or _is_ours(function):
                continue
            self.seen.add(id(function))
            before = len(self.lifted)
            self.function(function)
            if len(self.lifted) > before:
                raise GraphBreak("not modelled", f"{shown(function)} closes over a tensor")

    def of_cell(self, function: types.FunctionType, name: str, cell: types.CellType) -> _Make:
        try:
            value = cell.cell_contents
        except ValueError:
            raise GraphBreak("not modelled", f"{shown(function)} closes over {name}, which has no value yet") from None
        if isinstance(value, (list, dict, set)) and _may_change(function.__code__):
            raise GraphBreak("mutation", f"{shown(function)} closes over {name}, and may change it")
        return self.contents(value, f"{shown(function)} closes over {name}")

    def contents(self, value: Any, said: str) -> _Make:
        """What stands for a value of the capture when the node is called."""
        value = self.itself(value)
        if isinstance(value, Tensor):
            self.lifted.append(value)
            at = len(self.lifted) - 1
            return lambda lifted, kind: lifted[at]
        if isinstance(value, SYMBOLS) or is_hidden(value):
            value = as_numbers(value)
        if value is self.kind:
            return lambda lifted, kind: kind
        if type(value) in CONSTANTS or isinstance(value, (*ITSELF, enum.Enum)):
            return lambda lifted, kind: value
        if isinstance(value, types.FunctionType):
            return (lambda lifted, kind: value) if _is_ours(value) else self.function(value)
        if type(value) in (list, tuple, set):
            members = [self.contents(one, said) for one in value]
            return lambda lifted, kind: type(value)(make(lifted, kind) for make in members)
        if type(value) is dict and all(type(key) in CONSTANTS for key in value):
            pairs = [(key, self.contents(one, said)) for key, one in value.items()]
            return lambda lifted, kind: {key: make(lifted, kind) for key, make in pairs}
        raise GraphBreak("not modelled", f"{said}, {shown(value)}")


def _is_ours(function: types.FunctionType) -> bool:
    """Whether a function is one of this framework, and none that it made around one of the program's."""
    return is_ours(function.__globals__.get("__name__")) and not function.__closure__


def guard_globals(m: Machine, function: types.FunctionType) -> list[types.FunctionType]:
    """Guard the plain values that a function reads from its module; the functions that it finds there."""
    functions = []
    for name in {i.argval for i in dis.get_instructions(function.__code__) if i.opname == "LOAD_GLOBAL"}:
        value = function.__globals__.get(name, MISSING)
        if isinstance(value, (int, float, str, bool, type(None))):
            m.outside.guard(Kind.EQUALS, Item(m.scope_source(function.__globals__), name), value)
        elif isinstance(value, (Tensor, list, dict, set)):
            raise GraphBreak("not modelled", f"{shown(function)} reads the global {name}")
        elif isinstance(value, types.FunctionType):
            functions.append(value)
    return functions


def _may_change(code: types.CodeType) -> bool:
    """Whether code has anything that changes lists, dicts or variables around it."""
    return bool(_CHANGES.intersection(code.co_names)) or any(i.opname in _WRITES for i in dis.get_instructions(code))
