"""Sizes as the text that files have for them: `Symbol('s0', positive=True, integer=True)`, `Mul(Integer(2), ...)`.

Enters: an Expression, or text. Leaves: the other. Text is read as a tree and never run: names that are not listed here,
and everything but calls of them, are refused.
"""

from __future__ import annotations

import ast
from typing import Any

from ..symbols.expression import Atom, Expression, apply, number, of_atom, symbol
from ..symbols.real import Truth, truth

_FUNCTIONS = {"//": "FloorDiv", "%": "PythonMod", "max": "Max", "min": "Min"}
_READ = {"FloorDiv": "//", "CleanDiv": "//", "IntTrueDiv": "//", "PythonMod": "%", "Mod": "%", "Max": "max",
         "Min": "min"}


def size_text(e: Expression) -> str:
    """The text of an expression."""
    terms = [_term(monomial, coefficient) for monomial, coefficient in e.terms.items()]
    if not terms:
        return "Integer(0)"
    return terms[0] if len(terms) == 1 else f"Add({', '.join(terms)})"


def _term(monomial: Any, coefficient: int) -> str:
    factors = [f"Pow({_atom(a)}, Integer({power}))" if power > 1 else _atom(a) for a, power in monomial]
    if coefficient != 1 or not factors:
        factors.insert(0, f"Integer({coefficient})")
    return factors[0] if len(factors) == 1 else f"Mul({', '.join(factors)})"


def _atom(a: Atom) -> str:
    if not a.arguments:
        kind = "integer=True" if a.name.startswith("u") else "positive=True, integer=True"
        return f"Symbol('{a.name}', {kind})"
    if a.name not in _FUNCTIONS:
        raise NotImplementedError(f"save: a size is {of_atom(a)!r}, and files have no word for {a.name!r}")
    return f"{_FUNCTIONS[a.name]}({', '.join(size_text(x) for x in a.arguments)})"


RELATIONS = {"==": "Equality", "!=": "Unequality", "<": "StrictLessThan", "<=": "LessThan"}
_COMPARED = {**{name: relation for relation, name in RELATIONS.items()}, "Eq": "==", "Ne": "!="}
_EXCHANGED = {"StrictGreaterThan": "<", "GreaterThan": "<="}      # with the sides exchanged


def truth_text(t: Truth) -> str | None:
    """The text of a comparison of sizes; None for other truths."""
    if t.relation not in RELATIONS or t.difference is None:
        return None
    return f"{RELATIONS[t.relation]}({', '.join(map(size_text, t.arguments))})"


def read_truth(text: str) -> Truth | None:
    """The comparison that a text is; None for other truths."""
    try:
        node = ast.parse(text, mode="eval").body
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError(f"load: {text[:80]!r} is no comparison") from error
    name = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
    if len(getattr(node, "args", ())) != 2 or name not in {**_COMPARED, **_EXCHANGED}:
        return None
    left, right = map(_read, node.args)
    return truth(_COMPARED[name], left, right) if name in _COMPARED else truth(_EXCHANGED[name], right, left)


def read_size(text: str) -> Expression:
    """The expression of a text."""
    try:
        return _read(ast.parse(text, mode="eval").body)
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError(f"load: {text[:80]!r} is no size") from error


def _read(node: ast.AST) -> Expression:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return number(node.value)
    if isinstance(node, ast.Name) and node.id.isidentifier():
        return symbol(node.id)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_read(node.operand)
    if isinstance(node, ast.BinOp):
        return _binary(node)
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        raise ValueError(f"load: {ast.unparse(node)[:80]!r} is no size")
    name = node.func.id
    if name in ("Symbol", "Dummy"):
        known = node.args[0]
        if not isinstance(known, ast.Constant) or not str(known.value).isidentifier():
            raise ValueError(f"load: {ast.unparse(node)[:80]!r} names no symbol")
        return symbol(str(known.value))
    parts = [_read(a) for a in node.args]
    if name == "Integer" and len(parts) == 1:
        return parts[0]
    if name in ("Add", "Mul") and parts:
        result = parts[0]
        for part in parts[1:]:
            result = result + part if name == "Add" else result * part
        return result
    if name == "Pow" and len(parts) == 2 and parts[1].constant is not None and 0 <= parts[1].constant <= 8:
        result = number(1)
        for _ in range(parts[1].constant):
            result = result * parts[0]
        return result
    if name in _READ and len(parts) == 2:
        return apply(_READ[name], *parts)
    raise ValueError(f"load: sizes computed with {name} are not supported")


def _binary(node: ast.BinOp) -> Expression:
    left, right = _read(node.left), _read(node.right)
    if isinstance(node.op, ast.Add):
        return left + right
    if isinstance(node.op, ast.Sub):
        return left - right
    if isinstance(node.op, ast.Mult):
        return left * right
    if isinstance(node.op, ast.FloorDiv):
        return apply("//", left, right)
    if isinstance(node.op, ast.Mod):
        return apply("%", left, right)
    raise ValueError(f"load: {ast.unparse(node)[:80]!r} is no size")
