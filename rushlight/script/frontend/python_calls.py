"""Python functions that stay Python: `@torch.jit.ignore`, and `@torch.jit.unused`, which raises instead of a call.

Enters: a function and, for a method, its module. Leaves: a `prim::PythonOp` node that calls it, or an exception.
Refuses: calls that do not fit its annotations (what has none is a Tensor).
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ..._jit_internal import should_drop
from .. import types as t
from ..constants import insert_constant
from ..ir import Value
from ..matching import Mismatch, match
from ..schemas import REQUIRED, Argument, Schema
from ..source import Range
from .annotations import type_of_annotation
from .errors import CompileError
from .parsing import names_of
from .sugared import Simple, Sugared

if TYPE_CHECKING:
    from .emitter import Emitter

_DROPPED = "This Python function is annotated to be ignored and cannot be run"


class PythonCall(Sugared):
    """A Python function, or a method of a module."""

    def __init__(self, function: Callable, held: Value | None = None) -> None:
        self.function, self.held = function, held

    def kind(self) -> str:
        return f"python value of type '{type(self.function).__name__}'"

    def call(self, e: Emitter, at: Range, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Sugared:
        schema = python_schema(self.function, at, self.held is not None, len(args) + len(kwargs))
        try:
            matched = match(e.graph, schema, args, kwargs, convert=True)
        except Mismatch as mismatch:
            raise CompileError(f"\n{schema}:\n{mismatch}\n", at) from None
        result = schema.return_type()
        if should_drop(self.function):
            message = insert_constant(e.graph, _DROPPED)
            none = insert_constant(e.graph, None)
            e.graph.insert("prim::RaiseException", [message, none], outputs=0)
            with e.graph.at_range(None):
                return Simple(e.graph.insert("prim::Uninitialized", (), result).outputs_[0])
        given = matched.inputs if self.held is None else [self.held, *matched.inputs]
        node = e.graph.insert("prim::PythonOp", given, result)
        node.set("s", "name", self.function.__name__)
        node.pyobj = self.function          # a method gets the module as Python has it: all objects go out as such
        return Simple(node.outputs_[0])


def python_schema(function: Callable, at: Range, is_method: bool, given: int) -> Schema:
    """A Python function's signature by its annotations."""
    signature = inspect.signature(function)
    try:
        hints = typing.get_type_hints(function)
    except Exception:  # noqa: BLE001 - annotations with names that are not there: as they are written
        hints = dict(getattr(function, "__annotations__", {}))
    lookup = names_of(function)
    parameters = list(signature.parameters.values())[1 if is_method else 0 :]
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters):
        arguments = tuple(Argument(str(i), t.TENSOR) for i in range(given))
    else:
        arguments = tuple(
            Argument(p.name, type_of_annotation(hints[p.name], at, lookup) if p.name in hints else t.TENSOR,
                     REQUIRED if p.default is p.empty else p.default) for p in parameters)
    result = type_of_annotation(hints["return"], at, lookup) if "return" in hints else t.TENSOR
    return Schema(function.__name__, "", arguments, (Argument("", result),))
