"""Nests as text of C-like languages: how loops are written, and how work items share them.

Enters: a nest of either scheduler, a `Table`, how many work items a group has, and parameters whose values are known.
Leaves: `Printer.text()`, a whole program with one kernel, named like the nest. What a launch must know is beside it:

    sharing     "points" (elements along the first axis, rows along the second), "rows" or "threads", as nvptx/lower.py
                names them; "alone" where the language has no atomics for what the nest combines: one work item runs it
    arguments   in order: operands, parameters that are not known, begin, end

With `group` 1 every work item takes a run of neighbouring iterations, as processors like it; any number of items is
right. With more, neighbours are neighbouring items', and a row is a group's, which must have exactly `group` members.
Loops that are said to be independent are told so to the compiler; reductions keep several sums, one for each lane.

A language that is not C is a subclass: `statement` and what it calls write the loops, `one` a node of an expression.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...loops.expr import PART, Value, const, idiv, irem, replace_all, var, walk
from ...loops.math.expand import lower
from ...loops.nest import For, Nest, Reduce, Statement, Store, map_values, values_of
from ...loops.verify import verify
from ..nvptx.lower import POINTS, ROWS, shared_by_block, sharing
from ..text.primitives import SIZE
from .shared import Groups
from .tables import OPENCL, Table, type_lines
from .values import coefficient

ALONE = "alone"
LANES = 16


def strides_of(nest: Nest) -> dict[str, int]:
    """Parameters by which a vector loop goes along an operand, and what says that elements are neighbours: kernels with
    these known (as that, or as 0) are much faster."""
    found: dict[str, int] = {}

    def look(body: Sequence[Statement], loops: tuple[str, ...]) -> None:
        for s in body:
            inner = (*loops, s.var) if isinstance(s, (For, Reduce)) and s.vector else loops
            for value in walk(values_of(s)):
                places = [(value.args[0], 1)] if value.op == "load" else []
                if value.op == "arg":
                    places = [(nest.point[value.attr], SIZE[value.dtype])]
                for place, unit in places:
                    note(place, unit, inner)
            if isinstance(s, Store):
                if s.index is None:
                    note(nest.point[s.operand], SIZE[nest.operands[s.operand].code], inner)
                else:
                    note(s.index, 1, inner)
            for part in ("body", "then", "otherwise"):
                look(getattr(s, part, ()), inner)

    def note(place: Value, unit: int, loops: tuple[str, ...]) -> None:
        for name in loops:
            step = coefficient(place, name)
            if isinstance(step, Value) and step.op == "var" and step.attr in nest.params:
                found[step.attr] = unit

    look((nest.loop,), ())
    return found


def with_dims(nest: Nest, dims: int) -> Nest:
    """A pointwise nest along so many dims, more than two: its outer loop numbers the rows of all but the first. Behind
    its parameters come, for each dim from the third on, the size of the one before and the byte strides of all
    operands."""
    row, rest = nest.loop.var, var(nest.loop.var)
    place, further = [], []
    for d in range(2, dims):
        place.append(irem(rest, var(f"n{d - 1}")))
        rest = idiv(rest, var(f"n{d - 1}"))
        further += [f"n{d - 1}", *[f"s{d}.{k}" for k in range(len(nest.operands))]]
    place.append(rest)
    point = []
    for k, offset in enumerate(nest.point):
        total = replace_all([offset], {var(row): place[0]})[0]
        for d in range(2, dims):
            total = total + place[d - 1] * var(f"s{d}.{k}")
        point.append(total if offset.op != "const" else offset)
    return nest.but(params=(*nest.params, *further), point=tuple(point))


class Printer(Groups):
    """The text of one nest."""

    def __init__(
        self, nest: Nest, table: Table = OPENCL, group: int = 1, known: Mapping[str, int] | None = None,
        lanes: int = LANES,
    ) -> None:
        super().__init__()
        self.table, self.group, self.lanes = table, group, lanes
        self.nest = known_nest(verify(nest), known or {})
        self.point = self.nest.point
        self.params = [name for name in nest.params if name not in (known or {})]
        self.plain.update(self.params)
        self.combines = [s for s in all_statements((self.nest.loop,)) if isinstance(s, Store) and s.combine != "set"]
        self.sharing = ALONE if table.items and not self.can_combine() else sharing(self.nest)
        self.atomic = bool(table.items) and self.sharing != ALONE
        self.shared = shared_by_block(self.nest.loop.body) if group > 1 and self.sharing == ROWS else []
        self.kernel()

    @property
    def name(self) -> str:
        """The kernel's name."""
        return "".join(c if c.isalnum() else "_" for c in self.nest.name) + "_kernel"

    def text(self) -> str:
        """The program."""
        memory = self.table.memory
        parts = [self.table.head, *type_lines(self.table),
                 f"#define AT(type, p, offset) (*({memory}type *)(({memory}u8 *)(p) + (offset)))",
                 *self.tables_of_numbers(), *self.functions.values(), *self.lines]
        return "\n".join([part for part in parts if part]) + "\n"

    def tables_of_numbers(self) -> list[str]:
        return [
            f"{self.table.constant} {code} {name}[{len(numbers)}] = "
            f"{{{', '.join([self.literal(n, code) for n in numbers])}}};"
            for (code, numbers), name in self.number_tables.items()
        ]

    # The kernel

    def kernel(self) -> None:
        """The function: its arguments, its own memory, and the outermost loop."""
        operands = [(k, o) for k, o in enumerate(self.nest.operands) if not o.stack]
        types = {k: PART.get(o.code, o.code) for k, o in enumerate(self.nest.operands)}
        names = [self.spell(p) for p in self.params]
        self.depth = 0
        if self.table.items:
            given = [*[f"{self.table.memory}{types[k]} *p{k}" for k, _ in operands],
                     *[f"const i64 {n}" for n in names], "const i64 begin", "const i64 end"]
            self.emit(f"{self.table.kernel} {self.name}({', '.join(given)}) {{")
        else:
            self.emit(f"{self.table.kernel} {self.name}(char **ptrs, const i64 *params, i64 begin, i64 end) {{")
        self.depth = 1
        if not self.table.items:
            for k, _ in operands:
                self.emit(f"{types[k]} *p{k} = ({types[k]} *)ptrs[{k}];")
            places = {name: k for k, name in enumerate(self.nest.params)}
            for param, name in zip(self.params, names, strict=True):
                self.emit(f"const i64 {name} = params[{places[param]}];")
        for k, operand in enumerate(self.nest.operands):
            if operand.stack:
                count = operand.stack * (2 if operand.code in PART else 1)
                self.emit(f"{types[k]} p{k}[{count}] __attribute__((aligned(64)));")
        before = len(self.lines)
        self.outermost(self.nest.loop)
        self.lines[before:before] = [f"  {line}" for line in self.arrays.values()]
        self.depth = 0
        self.emit("}")

    def outermost(self, s: For) -> None:
        """The loop over [begin, end), of which each work item has a share."""
        if self.sharing == ALONE:
            self.emit(f"/* one work item: {self.table.name} has no atomics for what is combined here */")
        if not self.table.items or self.sharing == ALONE:
            self.statement(s)
        elif self.group > 1:
            self.outermost_of_groups(s)
        elif self.sharing == POINTS:
            inner = s.body[0]
            assert isinstance(inner, For)
            first, last = self.share("begin", "end", 1, 1)
            low, high = self.share(self.value(inner.start), self.value(inner.stop), 0, 64)
            inner = For(inner.var, var(low), var(high), inner.body, inner.vector)
            self.statement(For(s.var, var(first), var(last), (inner,), s.vector))
        else:
            first, last = self.share("begin", "end", 0, 1)
            self.names.update(begin=first, end=last)
            self.statement(For(s.var, var("begin"), var("end"), s.body, s.vector))

    def share(self, start: str, stop: str, axis: int, multiple: int) -> tuple[str, str]:
        """First and last iteration of this work item along an axis: a run of them, in whole multiples."""
        each, first, last = self.fresh("each"), self.fresh("first"), self.fresh("last")
        item, items = self.table.items[axis]
        whole = "" if multiple == 1 else f" + {multiple - 1}) / {multiple} * {multiple}"
        count = f"({stop} - {start} + (i64){items} - 1) / (i64){items}"
        self.emit(f"const i64 {each} = {'(' if whole else ''}{count}{whole};")
        self.emit(f"const i64 {first} = {start} + (i64){item} * {each};")
        self.emit(f"const i64 {last} = {first} + {each} < {stop} ? {first} + {each} : {stop};")
        for name in (first, last):
            self.names[name] = name
            self.plain.add(name)
        return first, last


def known_nest(nest: Nest, known: Mapping[str, int]) -> Nest:
    """A nest whose named functions are primitives, and some of whose parameters are numbers."""
    values = values_of(nest)
    changed = lower(values) if any(v.op == "call" for v in walk(values)) else values
    if known:
        changed = replace_all(changed, {var(name): const(number, "i64") for name, number in known.items()})
    if changed is values:
        return nest
    result = map_values(nest, dict(zip(values, changed, strict=True)))
    assert isinstance(result, Nest)
    return result


def all_statements(body: Sequence[Statement]) -> list[Statement]:
    """Statements, and those inside them."""
    found: list[Statement] = []
    for s in body:
        found.append(s)
        for part in ("body", "then", "otherwise"):
            found += all_statements(getattr(s, part, ()))
    return found


__all__ = ["ALONE", "Printer", "strides_of", "with_dims"]
