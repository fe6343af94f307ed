"""The source of a Python function: its syntax tree, where each part stands, and what its names mean.

Enters: a function, or text. Leaves: a `Definition`. Refuses: functions without source, and syntax that scripts do not
have in a signature (`*args`, `**kwargs`, keyword-only parameters with defaults).
"""

from __future__ import annotations

import ast
import builtins
import inspect
import re
import textwrap
from collections.abc import Callable
from typing import Any

from ..source import Range, Source
from ..types import Type
from .annotations import NOT_FOUND, is_whole, object_of, type_of_annotation
from .errors import CompileError, NotSupportedError

_COMMENT = "# type:"
_IGNORED = re.compile(r"# type: ignore\b")
_NO_SUCH_PARAMETER = "a compiled function has no variable number of arguments, and no keyword-only ones with defaults"


class Definition:
    """One function to compile."""

    def __init__(self, name: str, tree: ast.FunctionDef, source: Source, lookup: Callable[[str], Any],
                 indent: int = 0, function: Any = None) -> None:
        self.name, self.tree, self.source, self.lookup = name, tree, source, lookup
        self.indent, self.function = indent, function

    def range(self, node: ast.AST) -> Range:
        """Where a part of the tree stands."""
        start = self.source.offset_of(node.lineno - 1, node.col_offset + self.indent)  # type: ignore[attr-defined]
        last = getattr(node, "end_lineno", None) or node.lineno  # type: ignore[attr-defined]
        end = self.source.offset_of(last - 1, (node.end_col_offset or 0) + self.indent)  # type: ignore[attr-defined]
        return Range(self.source, start, max(end, start + 1))


    def annotation(self, tree: ast.expr) -> Type:
        """The type that an annotation of the function means."""
        try:
            found = object_of(tree, self.lookup)
        except CompileError as unknown:
            found = self._evaluated(tree)
            if found is None:
                raise CompileError(unknown.msg, self.range(tree)) from None
        return type_of_annotation(found, self.range(tree), self.lookup)

    def _evaluated(self, tree: ast.expr) -> Any:
        """What Python made of a parameter's annotation: it may name what only lived where the function was written."""
        args = self.tree.args
        names = {arg.arg: arg.annotation for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs)}
        names["return"] = self.tree.returns
        try:
            evaluated = getattr(inspect.unwrap(self.function), "__annotations__", {}) if self.function else {}
        except NameError:        # evaluated when asked for, and not all names are bound
            return None
        found = next((evaluated.get(name) for name, given in names.items() if given is tree), None)
        return found if found is not None and is_whole(found) else None

    def closure(self, tree: ast.FunctionDef) -> Any:
        """What a function inside this one means; None: scripts have none."""
        return None

    def default(self, tree: ast.expr) -> Any:
        """The value of a parameter's default: the one that the function itself holds. Refuses those that calls could
        change."""
        if self.function is None:
            return ast.literal_eval(tree)
        args = self.tree.args
        at = args.defaults.index(tree)
        found = (self.function.__defaults__ or ())[at]
        if isinstance(found, (list, dict)):
            name = [*args.posonlyargs, *args.args][at - len(args.defaults)].arg
            raise CompileError(f"Mutable default parameters are not supported: parameter {name} has a {type(found)},"
                               " which all calls would share. Let its default be None, and make the value in the"
                               " body", self.range(self.tree))
        return found


def definition_of(function: Any, name: str | None = None) -> Definition:
    """The definition of a Python function, with its names looked up where it was written."""
    try:
        lines, first = inspect.getsourcelines(function)
        filename = inspect.getsourcefile(function)
    except (OSError, TypeError) as error:
        raise OSError(
            f"Can't get source for {function}: a function is compiled from the text of its .py file, and there is none"
        ) from error
    text = "".join(lines)
    dedented = textwrap.dedent(text)
    indent = len(text.split("\n", 1)[0]) - len(dedented.split("\n", 1)[0])
    tree = ast.parse(dedented).body
    if len(tree) != 1 or not isinstance(tree[0], ast.FunctionDef):
        raise RuntimeError(f"Expected a single top-level function at {filename}:{first} (lambdas and several statements"
                           " on a line are not compiled)")
    source = Source(text, filename, first, name or function.__name__)
    found = Definition(name or function.__name__, tree[0], source, names_of(function), indent, function)
    _check_signature(found)
    _apply_type_comment(found)
    return found


def type_line(text: str) -> str | None:
    """The comment that gives a function's types: one line, or one for each parameter and `(...) -> T`, joined."""
    marked = [line for line in text.split("\n") if _COMMENT in line and not _IGNORED.search(line)]
    if len(marked) < 2:
        return marked[0].strip() if marked else None
    types = []
    for line in marked:
        if "# type: (...) -> " in line:
            return line.strip().replace("...", ", ".join(types))
        types.append(line.partition(_COMMENT)[2].strip())
    raise RuntimeError("type comments of several lines end with '# type: (...) -> result', which these"
                       " lack:\n" + "\n".join(marked))


def _apply_type_comment(definition: Definition, text: str | None = None) -> None:
    """Put the types of a type comment, in a function's own text, where annotations stand."""
    line = type_line(definition.source.text if text is None else text)
    if line is None:
        return
    given, arrow, result = line.partition(_COMMENT)[2].strip().rpartition("->")
    try:
        types = ast.parse(given.strip().removeprefix("(").removesuffix(")").join("[]"), mode="eval").body
        made = ast.parse(result.strip(), mode="eval").body
    except SyntaxError:
        types = None  # type: ignore[assignment]
    if not arrow or not isinstance(types, ast.List):
        raise RuntimeError(f"expected a type comment of the form '# type: (A, B) -> C', found {line!r}")
    tree = definition.tree
    listed = [*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs]
    if listed and listed[0].arg == "self" and len(listed) == len(types.elts) + 1:
        listed = listed[1:]
    if len(listed) != len(types.elts):
        raise RuntimeError(f"the type comment names {len(types.elts)} types, and the function has {len(listed)}"
                           " parameters")
    for arg, type in zip(listed, types.elts, strict=True):
        arg.annotation = _placed(type, arg)
    tree.returns = _placed(made, tree)


def _placed(type: ast.expr, where: ast.AST) -> ast.expr:
    for part in ast.walk(type):
        ast.copy_location(part, where)
    return type


def definitions_in(text: str, lookup: Callable[[str], Any]) -> list[Definition]:
    """The functions that a text defines."""
    dedented = textwrap.dedent(text)
    source = Source(dedented, "<string>", 1)
    found = []
    for node in ast.parse(dedented).body:
        if not isinstance(node, ast.FunctionDef):
            raise RuntimeError("expected the text to define functions and nothing else")
        found.append(Definition(node.name, node, source, lookup))
        _apply_type_comment(found[-1], "\n".join(dedented.split("\n")[node.lineno - 1 : node.end_lineno]))
        _check_signature(found[-1])
    return found


def _check_signature(definition: Definition) -> None:
    args = definition.tree.args
    if args.vararg is not None or args.kwarg is not None:
        odd = args.vararg or args.kwarg
        raise NotSupportedError(definition.range(odd), _NO_SUCH_PARAMETER)  # type: ignore
    for default in args.kw_defaults:
        if default is not None:
            raise NotSupportedError(definition.range(default), _NO_SUCH_PARAMETER)


def names_of(function: Any) -> Callable[[str], Any]:
    """What the free names of a function mean: its closure, its module, Python's builtins."""
    inner = inspect.unwrap(function)
    captured: dict[str, Any] = {}
    code = getattr(inner, "__code__", None)
    if code is not None and inner.__closure__:
        for name, cell in zip(code.co_freevars, inner.__closure__, strict=True):
            try:
                captured[name] = cell.cell_contents
            except ValueError:      # not bound yet: a function that names itself
                continue
    globals_ = getattr(inner, "__globals__", {})

    def lookup(name: str) -> Any:
        if name in captured:
            return captured[name]
        if name in globals_:
            return globals_[name]
        return getattr(builtins, name, NOT_FOUND)

    return lookup
