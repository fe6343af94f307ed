"""Scalar expressions as readable text: one line (`spell`), or a listing that names shared parts (`show`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from rushlight.loops.walking import walk

if TYPE_CHECKING:
    from rushlight.loops.expr import Value

_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==",
          "ne": "!=", "and": "&", "or": "|", "xor": "^", "shl": "<<", "shr": ">>"}


def _line(value: Value, name: Callable[[Value], str]) -> str:
    op, parts = value.op, [name(a) for a in value.args]
    if op in ("const", "var"):
        return str(value.attr)
    if op in ("arg", "load"):
        return f"x{value.attr}" + (f"[{parts[0]}]" if parts else "")
    if op in _INFIX:
        return f"({parts[0]} {_INFIX[op]} {parts[1]})"
    if op == "call":
        return f"{value.attr}({', '.join(parts)})"
    if op in ("cast", "bitcast"):
        return f"{op}<{value.dtype}>({parts[0]})"
    if op == "table":
        return f"table<{len(value.attr)} x {value.dtype}>[{parts[0]}]"
    return f"{op}{'.rare' if value.attr == 'rare' else ''}({', '.join(parts)})"


def spell(value: Value, limit: int = 400) -> str:
    """One line of infix text; past `limit` nodes the count stands for the expression."""
    text: dict[Value, str] = {}
    for item in walk((value,)):
        text[item] = _line(item, text.__getitem__)
        if len(text[item]) > 10 * limit:
            return f"<{value.op} of {len(walk((value,)))} nodes>"
    return text[value]


def show(values: Iterable[Value]) -> str:
    """Readable listing: shared subexpressions are named once, then the results."""
    values = list(values)
    order = walk(values)
    uses: dict[Value, int] = {}
    for a in [a for item in order for a in item.args]:
        uses[a] = uses.get(a, 0) + 1
    text: dict[Value, str] = {}
    lines: list[str] = []
    for item in order:
        text[item] = _line(item, text.__getitem__)
        if item.args and (uses.get(item, 0) > 1 or len(text[item]) > 100):
            lines.append(f"t{len(lines)}: {item.dtype} = {text[item]}")
            text[item] = f"t{len(lines) - 1}"
    lines += [f"out{k}: {v.dtype} = {text[v]}" for k, v in enumerate(values)]
    return "\n".join(lines)
