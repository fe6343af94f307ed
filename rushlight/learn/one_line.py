"""The rule of the tensor puzzles: one function, one `return`, and few words.

Enters: the syntax tree of an answer. Leaves: None, or two sentences that say what is not allowed and what is.
Refuses: every call but those of `arange`, `where` and earlier puzzles, every attribute but `shape`, and every name
but arguments; the text is read before any of it runs.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

CALLS = ("arange", "where")
PLAIN = (
    ast.BinOp, ast.UnaryOp, ast.Compare, ast.Subscript, ast.Slice, ast.Tuple, ast.Load,
    ast.operator, ast.unaryop, ast.cmpop,
)  # fmt: skip


def one_line(tree: ast.Module, entry: str, earlier: tuple[str, ...]) -> str | None:
    """Why an answer breaks the rule; None where it keeps it."""
    allowed = (*CALLS, *earlier)
    advice = f"Use arithmetic, comparisons, @, indexing, .shape and the functions {', '.join(allowed)}."
    for line, what in broken(tree, entry, allowed):
        return f"Line {line} has {what}, which this puzzle does not allow. {advice}"
    return None


def broken(tree: ast.Module, entry: str, allowed: tuple[str, ...]) -> Iterator[tuple[int, str]]:
    """Lines that break the rule, and what is on them."""
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef) or node.name != entry or len(tree.body) > 1:
            yield node.lineno, f"something beside the one function {entry}"
            return
        body = node.body[1:] if ast.get_docstring(node) is not None else node.body
        more = (node.args.defaults, node.args.kw_defaults, node.args.vararg, node.args.kwarg, node.args.kwonlyargs)
        plain = not (node.decorator_list or any(more))
        if len(body) != 1 or not isinstance(body[0], ast.Return) or body[0].value is None or not plain:
            yield (body[0] if body else node).lineno, "more, or less, than one return of a plain function"
            return
        names = {argument.arg for argument in (*node.args.posonlyargs, *node.args.args)}
        if clash := sorted(names & set(allowed)):
            yield node.lineno, f"an argument called {clash[0]}"
        yield from expressions(body[0].value, names, allowed)


def expressions(top: ast.expr, names: set[str], allowed: tuple[str, ...]) -> Iterator[tuple[int, str]]:
    """What in an expression is not allowed."""
    waiting: list[ast.AST] = [top]
    while waiting:
        node = waiting.pop()
        line = getattr(node, "lineno", top.lineno)
        if isinstance(node, ast.Call):
            if not isinstance(node.func, ast.Name) or node.func.id not in allowed:
                yield line, f"a call of {ast.unparse(node.func)[:40]}"
            elif node.keywords:
                yield line, "an argument by its name"
            else:
                waiting.extend(node.args)
        elif isinstance(node, ast.Name):
            if node.id not in names:
                yield line, f"the name {node.id[:40]}"
        elif isinstance(node, ast.Attribute):
            if node.attr != "shape":
                yield line, f"the attribute .{node.attr[:40]}"
            waiting.append(node.value)
        elif isinstance(node, ast.Constant):
            if node.value is not None and type(node.value) not in (int, float, bool):
                yield line, f"the constant {node.value!r:.40}"
        elif isinstance(node, PLAIN):
            waiting.extend(ast.iter_child_nodes(node))
        else:
            yield line, f"a {type(node).__name__}"
