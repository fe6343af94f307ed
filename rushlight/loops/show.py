"""Readable listings of nests.

Enters: a `Nest` or statements. Leaves: indented pseudo-code, one statement a line, operands spelled x0, x1, ...
in calling order as `expr.spell` does. Refuses: nothing; an expression too long for a line is shown as named steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .text import show, spell

if TYPE_CHECKING:
    from .expr import Value
    from .nest import Check, Fetch, For, If, Multiply, Nest, Pack, Reduce, Statement, Store

WIDTH = 110
_SIGN = {"set": "=", "add": "+=", "mul": "*=", "min": "min=", "max": "max="}


def show_nest(nest: Nest) -> str:
    """The whole kernel: signature, byte offsets of the current point if it has one, then the loops."""
    arrays = ", ".join(f"x{k}: {operand.code}" for k, operand in enumerate(nest.operands))
    lines = [f"nest {nest.name}({arrays}; {', '.join(nest.params)})"]
    lines += [f"  x{k}[.] is byte {spell(offset)}" for k, offset in enumerate(nest.point)]
    return "\n".join(lines + show_statements((nest.loop,), "  "))


def show_statements(body: tuple[Statement, ...], indent: str) -> list[str]:
    """Lines for a block."""
    lines: list[str] = []
    for statement in body:
        lines += _LINES[type(statement).__name__](statement, indent)
    return lines


def _assign(head: str, value: Value, indent: str) -> list[str]:
    text = spell(value)
    if len(text) + len(head) <= WIDTH and not text.startswith("<"):
        return [f"{indent}{head} {text}"]
    *steps, last = show((value,)).splitlines()
    return [f"{indent}{step}" for step in steps] + [f"{indent}{head} {last.split(' = ', 1)[1]}"]


def _for(s: For, indent: str) -> list[str]:
    mark = " vector" if s.vector else "" if s.going is None else f" while {spell(s.going)}"
    head = f"{indent}for {s.var} in {spell(s.start)} .. {spell(s.stop)}{mark}:"
    return [head, *show_statements(s.body, indent + "  ")]


def _reduce(s: Reduce, indent: str) -> list[str]:
    start = ", ".join(f"{acc} = {spell(first)}" for acc, first in zip(s.accs, s.init, strict=True))
    mark = (" blocked" if s.blocked else "") + (" vector" if s.vector else "")
    lines = [f"{indent}reduce {s.var} in {spell(s.start)} .. {spell(s.stop)} from {start}{mark}:"]
    lines += show_statements(s.body, indent + "  ")
    for acc, value in zip(s.accs, s.step, strict=True):
        lines += _assign(f"{acc} <-", value, indent + "  ")
    for acc, value in zip(s.accs, s.merge, strict=True):
        lines += _assign(f"{acc} merges", value, indent + "  ")
    return lines


def _store(s: Store, indent: str) -> list[str]:
    where = "." if s.index is None else spell(s.index)
    return _assign(f"x{s.operand}[{where}] {_SIGN.get(s.combine, s.combine)}", s.value, indent)


def _if(s: If, indent: str) -> list[str]:
    lines = [f"{indent}if {spell(s.condition)}:", *show_statements(s.then, indent + "  ")]
    return lines + ([f"{indent}else:", *show_statements(s.otherwise, indent + "  ")] if s.otherwise else [])


def _check(s: Check, indent: str) -> list[str]:
    return [f"{indent}check {spell(s.condition)} else x{s.cell}[0] = {spell(s.value)}"]


def _fetch(s: Fetch, indent: str) -> list[str]:
    return [f"{indent}fetch x{s.operand}[{spell(s.index)}]"]


def _pack(s: Pack, indent: str) -> list[str]:
    source = f"x{s.source}[{spell(s.start)} + (p * {s.width} + r) * {spell(s.line)} + k * {spell(s.step)}]"
    target = f"x{s.target}[{spell(s.at)} + p * {spell(s.apart)} + k * pitch + r]"
    ranges = f"p < {spell(s.count)}, r < {s.width} of {spell(s.lines)} in all, k < {spell(s.length)}"
    return [f"{indent}pack {target} = {source} for {ranges}{' of complex numbers' if s.pairs else ''}"]


def _multiply(s: Multiply, indent: str) -> list[str]:
    lies = f"packed {s.height}" if s.line is None else f"{spell(s.line)} for {s.height}"
    a, b = f"x{s.a}[{spell(s.a_at)}: {lies}]", f"x{s.b}[{spell(s.b_at)}: {spell(s.b_step)}]"
    size = f"{spell(s.rows)} x {spell(s.columns)} x {spell(s.depth)}"
    sums = f"x{s.c}[{spell(s.c_at)}: {spell(s.c_step)}]"
    kept = "" if s.keep is None else f", kept in x{s.keep[0]}[{spell(s.keep[1])}], x{s.keep[2]}[{spell(s.keep[3])}]"
    return [f"{indent}multiply {size}: {sums} = ({sums} if {spell(s.add)}) + {a} @ {b} in {s.vectors} vectors{kept}"]


# by the names of `nest`'s classes, which can print themselves: that file may import this one
_LINES: dict[str, Callable[[Any, str], list[str]]] = {
    "For": _for,
    "Reduce": _reduce,
    "Local": lambda s, indent: _assign(f"{s.name}: {s.value.dtype} =", s.value, indent),
    "Assign": lambda s, indent: _assign(f"{s.name} <-", s.value, indent),
    "Store": _store,
    "If": _if,
    "Check": _check,
    "Fetch": _fetch,
    "Pack": _pack,
    "Multiply": _multiply,
}
