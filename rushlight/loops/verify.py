"""Legality of nests: the tables a nest must satisfy before code is made from it.

Enters: a `Nest`. Leaves: nothing, or `IllegalNest` naming the nest, the statement and what was expected.
Refuses: undefined or repeated names, operands that do not exist, dtypes that disagree, loops marked vector that
carry a local from one iteration to the next, and primitives on dtypes they have no meaning for.
It does not prove indices in range or iterations independent: those are the author's promises.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import NoReturn

from .expr import FLOATS, INTS, PART, PRIMITIVES, Value, is_const, walk
from .nest import (
    COMBINES,
    THERE,
    Assign,
    Check,
    Fetch,
    For,
    If,
    Local,
    Multiply,
    Nest,
    Pack,
    Reduce,
    Statement,
    Store,
    values_of,
)
from .show import show_statements

ANY = FLOATS | INTS | {"b1"} | PART.keys()
REAL = FLOATS | INTS | {"b1"}
BITS = INTS | {"b1"}
TILED = frozenset(("f32", "f64"))

# Primitive -> (number of arguments, dtypes of the data arguments, whether the result has their dtype).
TABLE: dict[str, tuple[int, AbstractSet[str], bool]] = {
    "add": (2, REAL, True), "sub": (2, REAL, True), "mul": (2, REAL, True), "div": (2, FLOATS, True),
    "idiv": (2, INTS, True), "irem": (2, INTS, True), "neg": (1, FLOATS | INTS, True), "abs": (1, FLOATS | INTS, True),
    "fma": (3, FLOATS, True), "min": (2, REAL, True), "max": (2, REAL, True), "sqrt": (1, FLOATS, True),
    "floor": (1, FLOATS, True), "ceil": (1, FLOATS, True), "trunc": (1, FLOATS, True), "rint": (1, FLOATS, True),
    "copysign": (2, FLOATS, True), "and": (2, BITS, True), "or": (2, BITS, True), "xor": (2, BITS, True),
    "not": (1, BITS, True), "shl": (2, INTS, True), "shr": (2, INTS, True), "lt": (2, REAL, False),
    "le": (2, REAL, False), "gt": (2, REAL, False), "ge": (2, REAL, False), "eq": (2, REAL, False),
    "ne": (2, REAL, False), "cast": (1, REAL, False), "bitcast": (1, REAL, False), "real": (1, PART.keys(), False),
    "imag": (1, PART.keys(), False), "complex": (2, {"f16", "f32", "f64"}, False), "table": (1, INTS, False),
}
COMPARISONS = frozenset(("lt", "le", "gt", "ge", "eq", "ne"))


class IllegalNest(ValueError):
    """A nest that no kernel can be made from."""


def verify(nest: Nest) -> Nest:
    """`nest` itself, if every table holds."""
    _Checker(nest).run()
    return nest


class _Checker:
    def __init__(self, nest: Nest) -> None:
        self.nest = nest
        self.names: dict[str, str] = {"begin": "i64", "end": "i64"}
        self.loop_names: set[str] = set()
        self.checked: set[Value] = set()

    def run(self) -> None:
        nest = self.nest
        if not nest.name.replace("_", "a").replace(".", "a").isalnum() or nest.name[0].isdigit():
            self.fail("the name must be usable as a symbol", nest.name)
        for name in nest.params:
            self.declare(name, "i64", None)
        if nest.point and len(nest.point) != len(nest.operands):
            self.fail("a point needs an offset per operand", f"{len(nest.point)} for {len(nest.operands)} operands")
        for operand in nest.operands:
            if operand.code not in ANY:
                raise NotImplementedError(f"{nest.name!r} is not implemented for elements of type {operand.code!r}")
        self.statement(nest.loop)

    def fail(self, expectation: str, got: str, at: Statement | None = None) -> NoReturn:
        where = "" if at is None else f" in `{show_statements((at,), '')[0]}`"
        raise IllegalNest(f"{self.nest.name}: {expectation}, got {got}{where}.")

    def declare(self, name: str, code: str, at: Statement | None) -> None:
        if name in self.names:
            self.fail("a name is declared once", f"{name} again", at)
        self.names[name] = code

    # Values

    def value(self, value: Value, at: Statement, wanted: str | None = None) -> None:
        for node in walk((value,)):
            if node.op in ("var", "arg", "load") or node not in self.checked:
                self.node(node, at)
                self.checked.add(node)
        if wanted is not None and value.dtype != wanted:
            self.fail(f"the value must be {wanted}", value.dtype, at)

    def node(self, node: Value, at: Statement) -> None:
        op = node.op
        if op == "var":
            if self.names.get(node.attr) != node.dtype:
                known = self.names.get(node.attr)
                self.fail(f"{node.attr} must be declared as {node.dtype}", known or "no such name here", at)
        elif op in ("arg", "load"):
            self.operand(node.attr, at, node.dtype)
            if op == "load" and node.args[0].dtype != "i64":
                self.fail("an index is i64", node.args[0].dtype, at)
            if op == "arg":
                if not self.nest.point:
                    self.fail("arg needs a nest with a point", "none", at)
                self.value(self.nest.point[node.attr], at, "i64")
        elif op == "select":
            if node.args[0].dtype != "b1" or node.args[1].dtype != node.dtype or node.args[2].dtype != node.dtype:
                self.fail("select takes b1 and two values of its dtype", ", ".join(a.dtype for a in node.args), at)
        elif op in TABLE:
            self.primitive(node, at)
        elif op not in ("const", "call"):
            self.fail("a primitive or a named call", f"{op} (known: {', '.join(sorted(PRIMITIVES))})", at)

    def primitive(self, node: Value, at: Statement) -> None:
        count, codes, keeps = TABLE[node.op]
        found = [a.dtype for a in node.args]
        if len(found) != count:
            self.fail(f"{node.op} takes {count} values", str(len(found)), at)
        if found[0] not in codes or any(code != found[0] for code in found):
            self.fail(f"{node.op} has no meaning on these dtypes", ", ".join(found), at)
        if (keeps and node.dtype != found[0]) or (node.op in COMPARISONS and node.dtype != "b1"):
            self.fail(f"the result of {node.op} on {found[0]} has another dtype", node.dtype, at)

    def operand(self, index: object, at: Statement, code: str) -> None:
        if not isinstance(index, int) or not 0 <= index < len(self.nest.operands):
            self.fail(f"operands are numbered 0..{len(self.nest.operands) - 1}", str(index), at)
        if self.nest.operands[index].code != code:
            self.fail(f"operand {index} holds {self.nest.operands[index].code}", code, at)

    # Statements

    def block(self, body: tuple[Statement, ...], keep: bool = False) -> None:
        before = dict(self.names)
        for statement in body:
            self.statement(statement)
        if not keep:
            self.names = before

    def statement(self, s: Statement) -> None:
        if isinstance(s, (For, Reduce)):
            self.loop(s)
        elif isinstance(s, Local):
            self.value(s.value, s)
            self.declare(s.name, s.value.dtype, s)
        elif isinstance(s, Assign):
            if s.name not in self.names or s.name in self.loop_names or s.name in self.nest.params:
                self.fail("only a Local can be assigned", s.name, s)
            self.value(s.value, s, self.names[s.name])
        elif isinstance(s, Store):
            self.store(s)
        elif isinstance(s, If):
            self.value(s.condition, s, "b1")
            self.block(s.then)
            self.block(s.otherwise)
        elif isinstance(s, Check):
            self.value(s.condition, s, "b1")
            self.value(s.value, s, "i64")
            self.operand(s.cell, s, "i64")
        elif isinstance(s, Fetch):
            self.value(s.index, s, "i64")
            self.operand(s.operand, s, self.nest.operands[s.operand].code)
        elif isinstance(s, (Pack, Multiply)):
            self.tile(s)
        else:
            raise IllegalNest(f"{self.nest.name}: a statement was expected, got {type(s).__name__}.")

    def tile(self, s: Pack | Multiply) -> None:
        """Matrices of one type that products are made of; places and sizes are i64."""
        matrices = (s.source, s.target) if isinstance(s, Pack) else (s.a, s.b, s.c, *(s.keep or ())[::2])
        code = self.nest.operands[matrices[0]].code
        if code not in TILED:
            self.fail(f"matrices of {', '.join(sorted(TILED))} are multiplied in tiles", code, s)
        for operand in matrices:
            self.operand(operand, s, code)
        for value in values_of(s):
            self.value(value, s, "b1" if isinstance(s, Multiply) and value is s.add else "i64")
        if isinstance(s, Pack) and s.pairs and (s.width % 2 or not is_const(s.line, 1)):
            self.fail("parts of complex numbers are neighbours", f"{s.width} lines, {s.line} apart", s)
        if isinstance(s, Multiply) and not (0 < s.height and 0 < s.vectors):
            self.fail("a tile has rows and vectors", f"{s.height} x {s.vectors}", s)
        if isinstance(s, Multiply) and s.line is not None and (s.pitch, s.keep) != (None, None):
            self.fail("rows that are not packed have no pitch, and are not kept", str(s.pitch), s)
        if isinstance(s, Multiply) and s.keep and (s.pitch is None or s.ahead is not None):
            self.fail("a tile that keeps what it reads has a pitch, and nothing ahead", f"{s.pitch}, {s.ahead}", s)

    def store(self, s: Store) -> None:
        before = dict(self.names)
        if s.combine == "swap":
            self.declare(THERE, s.value.dtype, s)
        self.value(s.value, s)
        self.names = before
        self.operand(s.operand, s, s.value.dtype)
        if s.index is not None:
            self.value(s.index, s, "i64")
        elif not self.nest.point:
            self.fail("Store without an index needs a nest with a point", "none", s)
        if s.combine not in COMBINES:
            self.fail(f"combine is one of {', '.join(COMBINES)}", s.combine, s)
        if s.combine in ("min", "max") and s.value.dtype in PART:
            self.fail("complex numbers have no order", s.combine, s)

    def loop(self, s: For | Reduce) -> None:
        self.value(s.start, s, "i64")
        self.value(s.stop, s, "i64")
        before = dict(self.names)
        if isinstance(s, Reduce):
            self.accumulators(s)
        self.declare(s.var, "i64", s)
        self.loop_names.add(s.var)
        carried = {name for name in _assigned(s.body) if name in before}
        if s.vector and carried:
            self.fail("a vector loop carries nothing between iterations", f"Assign to {', '.join(sorted(carried))}", s)
        if isinstance(s, Reduce) and any(isinstance(inner, Check) for inner in s.body):
            self.fail("a Reduce cannot skip part of a step", "Check", s)
        self.block(s.body, keep=True)
        if isinstance(s, For) and s.going is not None:
            if s.vector:
                self.fail("a vector loop runs to its end", "a condition to go on", s)
            self.value(s.going, s, "b1")
        if isinstance(s, Reduce):
            for acc, value in zip(s.accs, s.step, strict=True):
                self.value(value, s, self.names[acc])
            self.names = before | {acc: first.dtype for acc, first in zip(s.accs, s.init, strict=True)}
        else:
            self.names = before
        self.loop_names.discard(s.var)

    def accumulators(self, s: Reduce) -> None:
        if not len(s.accs) == len(s.init) == len(s.step) == len(s.merge) or not s.accs:
            self.fail("one init, step and merge per accumulator", f"{len(s.init)}, {len(s.step)}, {len(s.merge)}", s)
        for first in s.init:
            self.value(first, s)
        before = dict(self.names)
        for acc, first in zip(s.accs, s.init, strict=True):
            self.declare(acc + ".a", first.dtype, s)
            self.declare(acc + ".b", first.dtype, s)
        for first, merged in zip(s.init, s.merge, strict=True):
            self.value(merged, s, first.dtype)
        self.names = before
        for acc, first in zip(s.accs, s.init, strict=True):
            self.declare(acc, first.dtype, s)


def _assigned(body: tuple[Statement, ...]) -> set[str]:
    names: set[str] = set()
    for s in body:
        if isinstance(s, Assign):
            names.add(s.name)
        elif isinstance(s, (For, Reduce)):
            names |= _assigned(s.body)
        elif isinstance(s, If):
            names |= _assigned(s.then) | _assigned(s.otherwise)
    return names
