"""Nests as text of C-like languages: how loops are written, and how work items share them.

Enters: a nest of either scheduler, a `Table`, how many work items a group has, and parameters whose values are known.
Leaves: `Printer.text()`, a whole program with one kernel, named like the nest. What a launch must know is beside it:

    sharing     "points" (elements along the first axis, rows along the second), "rows" or "threads", as nvptx/lower.py
                names them; "alone" where the language has no atomics for what the nest combines: one work item runs it
    arguments   in order: operands, parameters that are not known, begin, end

With `group` 1 every work item takes a run of neighbouring iterations, as processors like it; any number of work items
is right. With more, neighbours are neighbouring items', and a row is a group's, which must have exactly `group` members.
Loops that are said to be independent are told so to the compiler; reductions keep several sums, one for each of `lanes`.

A language that is not C is a subclass: `statement` and what it calls write the loops, `one` a node of an expression.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ...loops.expr import BUILD, PART, Value, arg, const, idiv, irem, load, replace_all, rewrite, var, walk
from ...loops.math.expand import lower
from ...loops.nest import (
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
    map_values,
    values_of,
)
from ...loops.verify import verify
from ..llvm.lower import assigned_names, declared_names
from ..nvptx.lower import POINTS, ROWS, shared_by_block, sharing
from ..text.primitives import SIZE
from .shared import Groups
from .tables import OPENCL, Table, type_lines
from .tiles import Tiles
from .values import Text, coefficient

ALONE = "alone"
BLOCK = 8192             # elements of a long sum that are added up before they join the others
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


class Printer(Tiles, Groups):
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
        self.in_lanes = self.is_inside = False
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

    # Statements

    def statements(self, body: Sequence[Statement]) -> None:
        index = 0
        while index < len(body):
            s = body[index]
            if isinstance(s, Store):
                group = self.store_group(body, index)
                self.stores(group)
                index += len(group)
                continue
            if isinstance(s, Check):
                self.check(s, body[index + 1 :])
                return
            self.statement(s)
            index += 1

    def statement(self, s: Statement) -> None:
        if isinstance(s, Local):
            self.local(s)
        elif isinstance(s, Assign):
            self.in_each_lane(lambda: self.assign(s.name, s.value))
        elif isinstance(s, For):
            self.loop(s)
        elif isinstance(s, Reduce):
            self.reduce(s)
        elif isinstance(s, If):
            self.branch(s)
        elif isinstance(s, Pack):
            self.pack(s)
        elif isinstance(s, Multiply):
            self.multiply(s)
        else:
            assert isinstance(s, Fetch), s      # which changes nothing

    def block(self, head: str, body: Sequence[Statement]) -> None:
        """Statements in braces; names that are declared there end with them."""
        self.emit(f"{head} {{")
        self.inside(lambda: self.statements(body))
        self.close_block(body)
        self.emit("}")

    def inside(self, write: Callable[[], None]) -> None:
        self.depth += 1
        write()
        self.depth -= 1

    def in_each_lane(self, write: Callable[[], None]) -> None:
        """Statements of every lane, where several iterations go together."""
        if not self.in_lanes:
            write()
            return
        self.emit(f"for (int lane_ = 0; lane_ < {self.lanes}; lane_++) {{")
        self.inside(write)
        self.emit("}")

    def declare(self, name: str, code: str, texts: Text | None = None) -> None:
        """A variable, or one for each lane."""
        known, size = self.spell(name), f"[{self.lanes}]" if self.in_lanes else ""
        if self.in_lanes:
            self.lane_names.add(name)
        parts = [(f"{known}_re", 0), (f"{known}_im", 1)] if code in PART else [(known, None)]
        for variable, half in parts:
            text = "" if texts is None else f" = {texts if half is None else texts[half]}"
            self.emit(f"{PART.get(code, code)} {variable}{size}{text};")

    def local(self, s: Local) -> None:
        if not self.in_lanes:
            text = self.evaluate([s.value])[0]
            (self.plain.add if self.is_place(s.value) else self.plain.discard)(s.name)
            self.declare(s.name, s.value.dtype, text)
            return
        self.plain.discard(s.name)
        self.declare(s.name, s.value.dtype)
        self.in_each_lane(lambda: self.assign(s.name, s.value))

    def assign(self, name: str, value: Value) -> None:
        self.plain.discard(name)
        self.set_name(name, value.dtype, self.evaluate([value], keep=value.dtype in PART)[0])

    def set_name(self, name: str, code: str, text: Text) -> None:
        target = self.read_name(name, code)
        if isinstance(target, tuple):
            self.emit(f"{target[0]} = {text[0]}; {target[1]} = {text[1]};")
        else:
            self.emit(f"{target} = {text};")

    def branch(self, s: If) -> None:
        self.block(f"if ({self.value(s.condition)})", s.then)
        if s.otherwise:
            self.lines.pop()
            self.block("} else", s.otherwise)

    def check(self, s: Check, rest: Sequence[Statement]) -> None:
        """What fails is written down, and the rest of the block left out."""
        self.emit(f"if (!({self.value(s.condition)})) {{")
        self.inside(lambda: self.emit(f"p{s.cell}[0] = {self.value(s.value)};"))
        self.block("} else", rest)

    # Memory

    def read(self, operand: int, index: Text | None) -> Text:
        code = self.nest.operands[operand].code
        if code in PART:
            return self.element(operand, index, 0), self.element(operand, index, 1)
        text = self.element(operand, index, 0)
        return f"({text} != 0)" if code == "b1" else text

    def element(self, operand: int, index: Text | None, part: int) -> str:
        """The memory of an element, or of a part of a complex one."""
        code = self.nest.operands[operand].code
        if index is None:
            offset = self.value(self.point[operand])
            type_ = PART.get(code, code)
            return f"AT({type_}, p{operand}, {offset}{f' + {SIZE[type_]}' if part else ''})"
        if code in PART:
            return f"p{operand}[2 * {index} + {part}]"
        return f"p{operand}[{index}]"

    def store_group(self, body: Sequence[Statement], index: int) -> list[Store]:
        """Consecutive stores of which none reads what an earlier one wrote: all values are computed first."""
        group: list[Store] = []
        written: set[int] = set()
        for s in body[index:]:
            if not isinstance(s, Store):
                break
            reads = {v.attr for v in walk(values_of(s)) if v.op in ("load", "arg")}
            if s.combine != "set":
                reads.add(s.operand)
            if reads & written:
                break
            group.append(s)
            written.add(s.operand)
        return group

    def stores(self, group: list[Store]) -> None:
        def write() -> None:
            plain = [s for s in group if s.combine == "set" or not self.atomic]
            values = [self.combined(s) for s in plain]
            indices = [s.index for s in plain if s.index is not None]
            texts = self.evaluate([*values, *indices], keep=len(group) > 1 or any(v.dtype in PART for v in values))
            places = iter(texts[len(values) :])
            for s, text in zip(plain, texts, strict=False):
                self.write(s.operand, next(places) if s.index is not None else None, text)
            for s in group:
                if s.combine != "set" and self.atomic:
                    self.combine(s)

        if self.group > 1 and self.sharing == ROWS and not self.is_inside:
            self.emit("if (member_ == 0) {")      # what is a row's, its first member stores
            self.inside(write)
            self.emit("}")
            self.meet()
        else:
            self.in_each_lane(write)

    def combined(self, s: Store) -> Value:
        """What a store writes, where nobody else writes meanwhile."""
        if s.combine == "set":
            return s.value
        code = s.value.dtype
        old = arg(s.operand, code) if s.index is None else load(s.operand, s.index, code)
        if s.combine == "swap":
            return rewrite([s.value], lambda v: old if v.op == "var" and v.attr == THERE else None)[0]
        return BUILD[s.combine](old, s.value)

    def write(self, operand: int, index: Text | None, text: Text) -> None:
        if isinstance(text, tuple):
            self.emit(f"{self.element(operand, index, 0)} = {text[0]};")
            self.emit(f"{self.element(operand, index, 1)} = {text[1]};")
        else:
            self.emit(f"{self.element(operand, index, 0)} = {text};")

    # Loops

    def loop(self, s: For) -> None:
        if self.group > 1 and self.is_shared(s):
            self.shared_loop(s)
            return
        if s.vector and not self.in_lanes and s.going is None and self.fits_lanes(s):
            self.loop_in_lanes(s)
            return
        start, stop = self.value(s.start), self.value(s.stop)
        if s.vector and not self.in_lanes and is_simple(s.body) and self.table.independent:
            self.emit(self.table.independent)
        self.serial(s, start, stop)

    def serial(self, s: For, start: str, stop: str, step: str = "1") -> None:
        """A loop, iteration by iteration."""
        name = self.open_variable(s.var)
        counted = f"{name}++" if step == "1" else f"{name} += {step}"
        self.emit(f"for (i64 {name} = {start}; {name} < {stop}; {counted}) {{")

        def write() -> None:
            self.statements(s.body)
            if s.going is not None:
                self.emit(f"if (!({self.value(s.going)})) break;")

        self.inside(write)
        self.close_block(s.body)
        self.forget(s.var)
        self.emit("}")

    def open_variable(self, name: str) -> str:
        self.plain.add(name)
        return self.spell(name)

    def close_block(self, body: Sequence[Statement]) -> None:
        for name in declared_names(body):
            self.lane_names.discard(name)
            self.forget(name)

    def fits_lanes(self, s: For) -> bool:
        """Whether iterations may go several at a time through loops inside: all have the same bounds, and what the
        iterations read there are neighbours, or the same."""
        inner = [one for one in s.body if isinstance(one, (For, Reduce))]
        if not inner or not lanes_can_do(s.body, declared_names(s.body) | {s.var}):
            return False
        places = [v.args[0] for v in walk(values_of(tuple(inner))) if v.op == "load"]
        steps = [coefficient(place, s.var) for place in places]
        own = declared_names(s.body)
        return 1 in steps and all(step in (0, 1) for step in steps) and not any(
            v.op == "var" and v.attr in own and v.dtype == "i64" for v in walk(places))

    def loop_in_lanes(self, s: For) -> None:
        """Several iterations together, then those that are left."""
        start, stop, base = self.value(s.start), self.value(s.stop), self.fresh("at")
        self.emit(f"i64 {base} = {start};")
        self.emit(f"for (; {base} + {self.lanes} <= {stop}; {base} += {self.lanes}) {{")
        self.in_lanes = True
        self.plain.add(s.var)
        self.names[s.var] = f"({base} + lane_)"
        self.inside(lambda: self.statements(s.body))
        self.close_block(s.body)
        del self.names[s.var]
        self.in_lanes = False
        self.emit("}")
        self.serial(s, base, stop)

    def reduce(self, s: Reduce) -> None:
        if self.group > 1 and self.is_shared(s):
            self.shared_reduce(s)
            return
        for acc, first in zip(s.accs, s.init, strict=True):
            self.local(Local(acc, first))
            self.plain.discard(acc)
        start, stop = self.value(s.start), self.value(s.stop)
        if s.vector and not self.in_lanes and is_simple(s.body) and not assigned_names(s.body):
            start = self.reduce_in_lanes(s, start, stop)
        self.steps(s, start, stop)

    def steps(self, s: Reduce, start: str, stop: str, step: str = "1") -> None:
        """One element after another into the accumulators."""
        name = self.open_variable(s.var)
        counted = f"{name}++" if step == "1" else f"{name} += {step}"
        self.emit(f"for (i64 {name} = {start}; {name} < {stop}; {counted}) {{")
        self.inside(lambda: self.one_step(s))
        self.close_block(s.body)
        self.forget(s.var)
        self.emit("}")

    def one_step(self, s: Reduce) -> None:
        self.statements(s.body)

        def write() -> None:
            texts = self.evaluate(s.step, keep=len(s.step) > 1 or s.step[0].dtype in PART)
            for acc, value, text in zip(s.accs, s.step, texts, strict=True):
                self.set_name(acc, value.dtype, text)

        self.in_each_lane(write)

    def reduce_in_lanes(self, s: Reduce, start: str, stop: str) -> str:
        """Most elements, dealt to lanes that have accumulators of their own; where the rest starts."""
        base, last, lanes = self.fresh("at"), self.fresh("last"), self.lanes
        own = {acc: f"{acc}.lane" for acc in s.accs}
        self.emit(f"i64 {base} = {start};")
        self.emit(f"while ({base} + {lanes} <= {stop}) {{")
        self.depth += 1
        end = f"{stop} - {base} > {BLOCK} ? {base} + {BLOCK} : {stop}" if s.blocked else stop
        self.emit(f"const i64 {last} = {end};")
        self.in_lanes = True
        for acc, first in zip(s.accs, s.init, strict=True):
            self.declare(own[acc], first.dtype)
        self.in_each_lane(lambda: [self.set_name(own[acc], first.dtype, self.evaluate([first])[0])
                                   for acc, first in zip(s.accs, s.init, strict=True)])
        self.emit(f"for (; {base} + {lanes} <= {last}; {base} += {lanes}) {{")
        self.plain.add(s.var)
        self.names[s.var] = f"({base} + lane_)"
        renamed = renamed_step(s, own)
        self.inside(lambda: self.lane_steps(renamed))
        del self.names[s.var]
        self.emit("}")
        self.in_lanes = False
        self.join_lanes(s, own)
        for name in own.values():
            self.lane_names.discard(name)
            self.forget(name)
        self.depth -= 1
        self.emit("}")
        return base

    def lane_steps(self, s: Reduce) -> None:
        """A step of all lanes: one loop, which the compiler makes vectors of."""
        def write() -> None:
            self.in_lanes = False
            self.one_step(s)
            self.close_block(s.body)
            self.in_lanes = True

        self.in_each_lane(write)

    def join_lanes(self, s: Reduce, own: Mapping[str, str]) -> None:
        """The lanes' accumulators into one, halves onto each other; then into those of the loop."""
        codes = {acc: first.dtype for acc, first in zip(s.accs, s.init, strict=True)}
        distance = self.lanes // 2
        while distance:
            self.emit(f"for (int lane_ = 0; lane_ < {distance}; lane_++) {{")
            self.inside(lambda by=distance: self.merge(s, {
                **{f"{acc}.a": self.spelled(own[acc], code, "[lane_]") for acc, code in codes.items()},
                **{f"{acc}.b": self.spelled(own[acc], code, f"[lane_ + {by}]") for acc, code in codes.items()},
            }, {acc: self.spelled(own[acc], code, "[lane_]") for acc, code in codes.items()}))
            self.emit("}")
            distance //= 2
        self.merge(s, {
            **{f"{acc}.a": self.spelled(acc, code, "") for acc, code in codes.items()},
            **{f"{acc}.b": self.spelled(own[acc], code, "[0]") for acc, code in codes.items()},
        }, {acc: self.spelled(acc, code, "") for acc, code in codes.items()})

    def spelled(self, name: str, code: str, ending: str) -> Text:
        known = self.spell(name)
        return (f"{known}_re{ending}", f"{known}_im{ending}") if code in PART else known + ending

    def merge(self, s: Reduce, sources: Mapping[str, Text], targets: Mapping[str, Text]) -> None:
        """Two partial results as one; both and the one are given as texts."""
        known = {**self.given, **sources}
        self.given, before = known, self.given
        texts = self.evaluate(s.merge, keep=True)
        self.given = before
        for acc, text in zip(s.accs, texts, strict=True):
            pairs = zip(targets[acc], text, strict=True) if isinstance(text, tuple) else [(targets[acc], text)]
            for target, part in pairs:
                self.emit(f"{target} = {part};")

    def read_name(self, name: str, code: str) -> Text:
        return self.given[name] if name in self.given else super().read_name(name, code)


def renamed_step(s: Reduce, own: Mapping[str, str]) -> Reduce:
    """A reduction whose accumulators have other names."""
    mapping = {var(acc, first.dtype): var(own[acc], first.dtype) for acc, first in zip(s.accs, s.init, strict=True)}
    return s.but(accs=tuple(own[acc] for acc in s.accs), step=tuple(replace_all(s.step, mapping)))


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


def is_simple(body: Sequence[Statement]) -> bool:
    """Whether there is nothing but values that are named and stored."""
    return all(isinstance(s, Local) or (isinstance(s, Store) and s.combine == "set") for s in body)


def lanes_can_do(body: Sequence[Statement], own: set[str]) -> bool:
    """Whether lanes can go through statements together; `own` are names that differ from lane to lane."""
    for s in body:
        if isinstance(s, (For, Reduce)):
            bounds = walk((s.start, s.stop))
            if any(v.op in ("load", "arg") or (v.op == "var" and v.attr in own) for v in bounds):
                return False
            if getattr(s, "going", None) is not None or not lanes_can_do(s.body, own | declared_names(s.body)):
                return False
        elif not isinstance(s, (Local, Assign, Fetch)) and not (isinstance(s, Store) and s.combine == "set"):
            return False
    return True


__all__ = ["ALONE", "Printer", "strides_of", "with_dims"]
