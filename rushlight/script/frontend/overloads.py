"""Functions and methods with several signatures: `_overload`, `_overload_method`, `boolean_dispatch`.

Enters: a function, a module's class. Leaves: the names under which variants are compiled (`forward__0`) and their
definitions: the signature of one declaration, the body of the last definition; calls of them take the first that fits.
Refuses: flags that are not known when the program is compiled.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..._jit_internal import _overloaded_methods, _qualified_name
from ..constants import constant_of
from ..ir import Value
from ..matching import _undo, match_any, refusal
from ..source import Range
from .errors import CompileError
from .parsing import Definition, definition_of
from .sugared import FunctionValue, Sugared

if TYPE_CHECKING:
    from .emitter import Emitter


def overloaded_methods(module: Any) -> dict[str, list[tuple[str, Definition]]]:
    """Variants of a module's overloaded methods."""
    found: dict[str, list[tuple[str, Definition]]] = {}
    for name in dict.fromkeys(known.rpartition(".")[2] for known in _overloaded_methods):
        held = getattr(type(module), name, None)
        if not hasattr(held, "__qualname__") or not hasattr(held, "__module__"):
            continue
        rows = _overloaded_methods.get(_qualified_name(held), {}).get(held.__qualname__.rpartition(".")[0])
        if rows:
            if held in rows:
                raise RuntimeError(f"overloaded method {name} has signatures and no implementation")
            found[name] = [(f"{name}__{i}", variant(declared, held, f"{name}__{i}")) for i, declared in
                           enumerate(rows)]
    return found


def variant(declared: Any, body: Any, name: str) -> Definition:
    """The definition of one overload."""
    signature, made = definition_of(declared), definition_of(body, name)
    given, whole = signature.tree, made.tree
    if len(given.args.args) != len(whole.args.args):
        raise CompileError("an overload and its implementation differ in how many parameters they take:\n"
                           f"  {ast.unparse(given.args)}\n  {ast.unparse(whole.args)}", made.range(whole))
    tree = copy.copy(whole)
    tree.args = copy.copy(whole.args)
    tree.args.args = [_annotated(mine, theirs) for mine, theirs in zip(whole.args.args, given.args.args, strict=True)]
    tree.returns = _moved(given.returns, whole) if given.returns is not None else whole.returns
    made.tree = tree
    return made


def _annotated(mine: ast.arg, theirs: ast.arg) -> ast.arg:
    if mine.arg != theirs.arg:
        raise CompileError(f"Overload parameters must have the names of the definition: '{theirs.arg}' is not"
                           f" '{mine.arg}'")
    made = copy.copy(mine)
    made.annotation = _moved(theirs.annotation, mine) if theirs.annotation is not None else mine.annotation
    return made


def _moved(annotation: ast.expr, place: ast.AST) -> ast.expr:
    """The same annotation at a place of the body's source."""
    made = copy.deepcopy(annotation)
    for node in ast.walk(made):
        ast.copy_location(node, place)
    return made


class Overloaded(Sugared):
    """A function with several signatures: the first that fits a call."""

    def __init__(self, functions: Sequence[Any]) -> None:
        self.functions = functions

    def kind(self) -> str:
        return "overloaded function"

    def call(self, e: Emitter, at: Range, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Sugared:
        schemas = [function.ensure(at).schema for function in self.functions]
        mark = e.graph.insert_at.prev_
        matched, reasons = match_any(e.graph, schemas, args, kwargs)
        if matched is None:
            raise CompileError(refusal(schemas[0].name, reasons), at)
        _undo(e.graph, mark)  # type: ignore[arg-type]
        chosen = next(f for f, schema in zip(self.functions, schemas, strict=True) if schema is matched.schema)
        return FunctionValue(chosen).call(e, at, args, kwargs)


class Dispatched(Sugared):
    """One of two functions, by a flag."""

    def __init__(self, unit: Any, row: dict[str, Any]) -> None:
        self.unit, self.row = unit, row

    def kind(self) -> str:
        return "boolean dispatch"

    def call(self, e: Emitter, at: Range, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Sugared:
        name, index = self.row["arg_name"], self.row["index"]
        given = kwargs[name] if name in kwargs else args[index] if index < len(args) else None
        flag = self.row["default"] if given is None else constant_of(given, None)
        if not isinstance(flag, bool):
            raise CompileError(f"value for boolean dispatch '{name}' must be a constant", at)
        return FunctionValue(self.unit.compile(self.row["if_true" if flag else "if_false"])).call(e, at, args, kwargs)
