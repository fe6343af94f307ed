"""Statements of nests as text of C-like languages, for one work item.

Enters: loops, reductions, stores, branches and checks. Leaves: lines. Loops whose iterations are independent are told
so to the compiler; a reduction has as many accumulators as there are lanes, which the compiler makes vectors of, and so
has a loop whose iterations go through another one together. How work items share loops is shared.py's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ...loops.expr import BUILD, PART, Value, arg, load, replace_all, rewrite, var, walk
from ...loops.nest import (
    THERE,
    Assign,
    Check,
    Fetch,
    For,
    If,
    Local,
    Multiply,
    Pack,
    Reduce,
    Statement,
    Store,
    values_of,
)
from ..llvm.lower import assigned_names, declared_names
from ..text.primitives import SIZE
from .tiles import Tiles
from .values import Text, coefficient

BLOCK = 8192             # elements of a long sum that are added up before they join the others


class Statements(Tiles):
    """The part of a printer that writes them."""

    lanes: int
    atomic = False           # other work items may combine into the same elements

    def __init__(self) -> None:
        super().__init__()
        self.in_lanes = False                     # several iterations go together
        self.given: dict[str, Text] = {}          # names that stand for texts

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
        self.put(self.read_name(name, code), text)

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

        self.in_each_lane(write)

    def combine(self, s: Store) -> None:
        """A store that changes what is there in one step."""
        raise NotImplementedError(f"c_text: no {s.combine} of {s.value.dtype} in one step")

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
        first = self.element(operand, index, 0)
        self.put((first, self.element(operand, index, 1)) if isinstance(text, tuple) else first, text)

    # Loops

    def loop(self, s: For) -> None:
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
        self.in_each_lane(lambda: self.begin_lanes(s, own))
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

    def begin_lanes(self, s: Reduce, own: Mapping[str, str]) -> None:
        for acc, first in zip(s.accs, s.init, strict=True):
            self.set_name(own[acc], first.dtype, self.evaluate([first])[0])

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
            first = {acc: self.spelled(own[acc], code, "[lane_]") for acc, code in codes.items()}
            second = {acc: self.spelled(own[acc], code, f"[lane_ + {distance}]") for acc, code in codes.items()}
            self.depth += 1
            self.merge(s, first, second)
            self.depth -= 1
            self.emit("}")
            distance //= 2
        self.merge(s, {acc: self.spelled(acc, code, "") for acc, code in codes.items()},
                   {acc: self.spelled(own[acc], code, "[0]") for acc, code in codes.items()})

    def spelled(self, name: str, code: str, ending: str) -> Text:
        known = self.spell(name)
        return (f"{known}_re{ending}", f"{known}_im{ending}") if code in PART else known + ending

    def merge(self, s: Reduce, first: Mapping[str, Text], second: Mapping[str, Text]) -> None:
        """Two partial results, given as texts, as one in place of the first."""
        before = self.given
        self.given = {**before, **{f"{acc}.a": text for acc, text in first.items()},
                      **{f"{acc}.b": text for acc, text in second.items()}}
        texts = self.evaluate(s.merge, keep=True)
        self.given = before
        for acc, text in zip(s.accs, texts, strict=True):
            self.put(first[acc], text)

    def put(self, target: Text, text: Text) -> None:
        """A text, or both parts of a complex number, into a variable."""
        for place, value in zip(target, text, strict=True) if isinstance(target, tuple) else ((target, text),):
            self.emit(f"{place} = {value};")

    def read_name(self, name: str, code: str) -> Text:
        return self.given[name] if name in self.given else super().read_name(name, code)


def renamed_step(s: Reduce, own: Mapping[str, str]) -> Reduce:
    """A reduction whose accumulators have other names."""
    mapping = {var(acc, first.dtype): var(own[acc], first.dtype) for acc, first in zip(s.accs, s.init, strict=True)}
    return s.but(accs=tuple(own[acc] for acc in s.accs), step=tuple(replace_all(s.step, mapping)))


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
