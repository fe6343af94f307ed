"""Loop nests as programs of the vector unit.

Enters: a `Nest` (rushlight/loops/nest.py) as schedules for GPUs make them. Leaves: a `Generated`: assembler text, and
the constant tables it reads. Refuses with NotExpressible: tiles of CPUs, and what needs more registers than there are.

Iterations of the outer loop are independent, so lanes run over them, a strip at a time. A vector loop or a fold inside
adds a second axis, so that a strip is a box of both; folds keep an accumulator for each place of the box, and join those
of one row by halves in the end. Other loops are the scalar unit's, with all lanes together: branches and bounds that
differ from lane to lane become masks. How long a strip is follows from how many registers the program needs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from rushlight.loops import expr
from rushlight.loops.expr import Value, and_, const, not_, replace_all, rewrite, var, walk
from rushlight.loops.nest import (
    THERE,
    Assign,
    Check,
    Fetch,
    For,
    If,
    Local,
    Nest,
    Reduce,
    Statement,
    Store,
    values_of,
)

from .expressions import ZERO, Axis, Expressions, Lanes, NotExpressible, Uniform, without_calls
from .isa import SIZE
from .machine import SCRATCHPAD
from .timing import LANES

SIMPLE = (Local, Assign, Store, Check)


class Generated(NamedTuple):
    """A program's text; how many bytes each operand of the kernel's own has; the tables it reads."""

    text: str
    rooms: tuple[int, ...]
    tables: tuple[tuple[str, tuple], ...]


def generate(nest: Nest) -> Generated:
    """The program of a nest. Its arguments: addresses of operands (those of the kernel's own last), parameters, begin,
    end, addresses of tables."""
    return Generator(nest).program()


def statements_of(body: Iterable[Statement]) -> Iterator[Statement]:
    """Every statement, those inside of others included."""
    for s in body:
        yield s
        yield from statements_of((*getattr(s, "body", ()), *getattr(s, "then", ()), *getattr(s, "otherwise", ())))


class Generator(Expressions):
    """One nest's program while it is written."""

    def __init__(self, nest: Nest) -> None:
        super().__init__([o.code for o in nest.operands], nest.params)
        self.nest, self.point = nest, nest.point
        self.stacks = {k: o.stack for k, o in enumerate(nest.operands) if o.stack}
        every = list(statements_of((nest.loop,)))
        self.assigned = {s.name for s in every if isinstance(s, Assign)}
        stored = {s.operand for s in every if isinstance(s, Store)} | {s.cell for s in every if isinstance(s, Check)}
        self.fenced = stored & {v.attr for v in walk(values_of(nest)) if v.op == "load"}
        self.aliases: dict[Value, Value] = {}
        self.names = 0

    # --- the program --------------------------------------------------------------------------------------------------

    def program(self) -> Generated:
        loop = self.nest.loop
        self.emit("li", self.one, "1")
        limit = self.scalars.take()
        self.emit("CAPACITY", limit)
        self.capacity = limit
        strip, start = self.scalars.take(), self.persistent(loop.start)
        stop = self.persistent(loop.stop)
        self.emit("mov", strip, limit)
        self.share_lanes(loop, strip)
        count, test = self.scalars.take(), self.scalars.take()
        again, done = self.label("strip"), self.label("done")
        self.lines.append(f"{again}:")
        self.emit("slt", test, start, stop)
        self.emit("bz", test, done)
        self.emit("ssub", count, stop, start)
        self.emit("smin", count, count, strip)
        self.emit("vl", count)
        self.outer, self.outer_count = loop.var, count
        self.enter_axis(loop.var, start, count)
        self.space = [loop.var]
        self.block(loop.body)
        self.emit("sadd", start, start, count)
        self.emit("jmp", again)
        self.lines.append(f"{done}:")
        self.emit("halt")
        registers = max(1, self.vectors.most)
        lanes = SCRATCHPAD // registers // 64 * 64 // self.widest // LANES * LANES
        head = f"    vcfg {registers}\n"
        text = head + "\n".join(self.lines).replace("CAPACITY " + limit, f"li {limit}, {lanes}") + "\n"
        rooms = tuple(lanes * stack * SIZE[self.codes[k]] for k, stack in self.stacks.items())
        return Generated(text, rooms, tuple(self.tables))

    def share_lanes(self, loop: For, strip: str) -> None:
        """The strip of the outer loop: as many rows as fit beside the longest loop that adds an axis."""
        found = []
        for s in statements_of(loop.body):
            if isinstance(s, (For, Reduce)) and s.vector:
                size = expr.sub(s.stop, s.start)
                if all(v.op != "load" and (v.op != "var" or v.attr in self.arguments) for v in walk([size])):
                    found.append(size)
        if not found:
            return
        self.begin_run(())
        longest = self.scalars.take()
        self.emit("mov", longest, self.one)
        for size in dict.fromkeys(found):
            self.emit("smax", longest, longest, self.scalar(size))
        self.emit("sdiv", strip, self.capacity, longest)
        self.emit("smax", strip, strip, self.one)
        self.scalars.give(longest)
        self.end_run()

    def persistent(self, value: Value) -> str:
        """A uniform value in a scalar register that stays."""
        out = self.scalars.take()
        self.begin_run(())
        self.emit("mov", out, self.scalar(value))
        self.end_run()
        return out

    def enter_axis(self, name: str, start: str, count: str) -> None:
        self.env[name] = Axis(start, count)
        self.env[f"{name} start"] = Uniform(start)
        self.uniform = {}

    def bind(self, name: str, entry: Uniform | Lanes) -> None:
        self.env[name] = entry
        self.held.add(entry.register)
        self.uniform = {}

    # --- blocks and runs ----------------------------------------------------------------------------------------------

    def block(self, body: Sequence[Statement], ending: Callable[[], None] | None = None) -> None:
        """Names declared inside end with the block; so do lanes that a Check has put to rest. `ending` is the last
        thing written in it."""
        outside, mask, aliases = dict(self.env), self.mask, dict(self.aliases)
        waiting: list[Statement] = []
        for s in body:
            s = self.settled(s)
            if isinstance(s, Local) and self.is_alias(s):
                self.aliases[var(s.name)] = s.value
            elif isinstance(s, SIMPLE):
                waiting.append(s)
                if isinstance(s, (Assign, Check)) or isinstance(s, Store) and (self.fenced or s.combine == "swap"):
                    self.run(waiting)
                    waiting = []
            elif not isinstance(s, Fetch):
                self.run(waiting)
                waiting = []
                self.compound(s)
        self.run(waiting)
        if ending is not None:
            ending()
        for name in self.env.keys() - outside.keys():
            self.forget(name)
        self.mask, self.aliases = mask, aliases

    def forget(self, name: str) -> None:
        entry = self.env.pop(name)
        self.uniform = {}
        if not isinstance(entry, Axis) and entry.register in self.held and not name.endswith(" start"):
            self.held.discard(entry.register)
            (self.vectors if isinstance(entry, Lanes) else self.scalars).give(entry.register)

    def settled(self, s: Statement) -> Statement:
        """A statement's own values (not those of statements inside) without aliases, `arg` and functions to expand."""
        if isinstance(s, (For, If, Reduce, Fetch)):
            return s
        if not isinstance(s, SIMPLE):
            raise NotExpressible(f"{type(s).__name__} is a statement of CPUs")
        fields = [getattr(s, f) for f in s.fields]
        values = self.plain([f for f in fields if isinstance(f, Value)])
        found = iter(values)
        settled = type(s)(*[next(found) if isinstance(f, Value) else f for f in fields])
        if isinstance(s, Store) and s.operand in self.stacks:
            return settled.but(index=self.own_place(s.operand, settled.index))
        return settled

    def own_place(self, operand: int, index: Value) -> Value:
        """Where a lane of the outer loop has an element of memory that is a kernel's own: side by side by lanes."""
        lane = expr.sub(var(self.outer), var(f"{self.outer} start"))
        return expr.add(expr.mul(lane, const(self.stacks[operand], "i64")), index)

    def plain(self, values: Sequence[Value]) -> list[Value]:
        """Values in terms of what has registers: aliases and `arg` replaced, functions expanded."""

        def here(v: Value) -> Value | None:
            if v.op == "load" and v.attr in self.stacks:
                return expr.load(v.attr, self.own_place(v.attr, v.args[0]), v.dtype)
            return expr.node("load", (self.point[v.attr],), v.dtype, ("bytes", v.attr)) if v.op == "arg" else None

        values = without_calls(replace_all(values, self.aliases) if self.aliases else values)
        return rewrite(values, here) if self.point or self.stacks else values

    def is_alias(self, s: Local) -> bool:
        """Whether a name stands for a place that strided DMA can reach: it needs no register of its own."""
        if s.value.dtype != "i64" or s.name in self.assigned or self.affine(s.value) is None:
            return False
        return all(v.op != "var" or v.attr not in self.assigned for v in walk([s.value]))

    def run(self, statements: Sequence[Statement]) -> None:
        """Statements without a branch between them: they share what they have in common."""
        if not statements:
            return
        self.begin_run([root for s in statements for root in self.roots(s)])
        for s in statements:
            roots = self.roots(s)
            if isinstance(s, Local):
                self.declare(s.name, s.value)
            elif isinstance(s, Assign):
                self.assign(s.name, s.value)
            elif isinstance(s, Check):
                self.check(s)
            elif s.combine == "swap":
                self.end_run()
                self.swap(s)
            else:
                self.write(s.operand, *self.place(s), combine=s.combine)
            for root in roots:
                self.drop(root)
        self.end_run()

    def roots(self, s: Statement) -> tuple[Value, ...]:
        """The values whose vectors a simple statement reads."""
        if isinstance(s, (Local, Assign)):
            return (s.value,)
        if isinstance(s, Check):
            return (s.condition, s.value)
        assert isinstance(s, Store)
        if s.combine == "swap":
            return ()
        index, value, _ = self.place(s)
        return (value,) if self.mask is None and s.combine == "set" and self.affine(index) is not None else \
            (value, index)

    def place(self, s: Store) -> tuple[Value, Value, int]:
        """Where a store goes, what it writes, and how many bytes the index counts in."""
        return (self.point[s.operand], s.value, 1) if s.index is None else (s.index, s.value, SIZE[self.codes[s.operand]])

    def declare(self, name: str, value: Value) -> None:
        """A Local: the register of its value where nobody else may change it, else a copy."""
        depth = len(self.space)
        if self.is_uniform(value) and name not in self.assigned and value.dtype in ("i64", "b1", "u32"):
            out = self.scalars.take()
            self.emit("mov", out, self.scalar(value))
            self.bind(name, Uniform(out))
            return
        register = self.value(value)
        if name in self.assigned or register[0] == "s" or register in self.held:
            out = self.vectors.take()
            self.emit(self.typed("vmov", value.dtype), out, register)
            register = out
        self.bind(name, Lanes(register, depth))

    def assign(self, name: str, value: Value) -> None:
        entry = self.env[name]
        assert isinstance(entry, Lanes), f"{name} is assigned, so it has lanes"
        if entry.depth != len(self.space):
            raise NotExpressible(f"{name} is changed inside of a loop over lanes")
        if self.mask is None:
            self.value(value, entry.register)
        else:
            self.replace(entry.register, self.value(value), value.dtype)

    def check(self, s: Check) -> None:
        """Lanes where the condition fails write the cell, and rest until the block ends."""
        good = self.vector(s.condition)
        bad, some = self.vectors.take(), self.scalars.take()
        self.emit("vnot.b1", bad, good)
        if self.mask is not None:
            self.emit("vand.b1", bad, bad, self.alive())
        skip = self.label("fine")
        value = self.vector(s.value)
        cell = self.scalar(var(f"operand {s.cell}"))
        at = self.vectors.take()
        self.emit("vany", some, bad)
        self.emit("bz", some, skip)
        self.emit("vmov.i64", at, "s0")
        self.emit("dput.i64", value, cell, at, bad)
        self.lines.append(f"{skip}:")
        self.vectors.give(at)
        self.scalars.give(some)
        self.emit("vnot.b1", bad, bad)
        if self.mask is not None:
            self.emit("vand.b1", bad, bad, self.alive())
        self.set_mask(bad)

    def set_mask(self, register: str) -> None:
        """Only lanes of this register are alive from here on, until the block ends."""
        self.names += 1
        name = f"mask {self.names}"
        self.bind(name, Lanes(register, len(self.space)))
        self.mask = var(name, "b1")

    def swap(self, s: Store) -> None:
        """Elements that several lanes replace one after another: in rounds, each lane that is alone at its place."""
        mask, depth = self.mask, len(self.space)
        index, _, scale = self.place(s)
        assert scale > 0 and s.index is not None
        self.begin_run([index])
        at, waiting, some = self.vectors.take(), self.vectors.take(), self.scalars.take()
        self.emit("vmov.i64", at, self.value(index))
        self.emit("vmov.b1", waiting, self.one if mask is None else self.alive())
        self.end_run()
        again, done = self.label("swap"), self.label("swapped")
        first, there = self.vectors.take(), self.vectors.take()
        self.names += 1
        place = f"place {self.names}"
        self.bind(place, Lanes(at, depth))
        self.bind(THERE, Lanes(there, depth))
        self.lines.append(f"{again}:")
        self.emit("vany", some, waiting)
        self.emit("bz", some, done)
        self.emit("vuniq", first, at, waiting)
        self.set_mask(first)
        self.begin_run([s.value])
        base, code = self.scalar(var(f"operand {s.operand}")), self.codes[s.operand]
        self.emit("fence")
        self.emit(self.typed("dgat", code), there, base, at, first)
        self.emit(self.typed("dput", code), self.vector(s.value), base, at, first)
        self.end_run()
        self.emit("vnot.b1", first, first)
        self.emit("vand.b1", waiting, waiting, first)
        self.emit("jmp", again)
        self.lines.append(f"{done}:")
        for name in (place, THERE, f"mask {self.names}"):
            self.forget(name)
        self.vectors.give(waiting)
        self.scalars.give(some)
        self.mask = mask

    # --- branches and loops -------------------------------------------------------------------------------------------

    def compound(self, s: Statement) -> None:
        if isinstance(s, If):
            self.branch(s)
            return
        start, stop = self.plain([s.start, s.stop])
        if self.is_uniform(start) and self.is_uniform(stop):
            self.loop(s, s.var, start, stop)
        else:
            self.ragged(s, start, stop)

    def loop(self, s: For | Reduce, name: str, start: Value, stop: Value, guard: Value | None = None) -> None:
        """A loop with bounds that all lanes share; `guard` says on which lanes an iteration happens."""
        widens = s.vector and len(self.space) == 1

        def inside() -> None:
            with self.only(guard):
                if isinstance(s, Reduce):
                    self.block(s.body, lambda: self.step(s.accs, s.step))
                else:
                    self.block(s.body)

        if isinstance(s, Reduce):
            if widens:
                self.fold(s, name, start, stop, inside)
                return
            for acc, register in zip(s.accs, self.start_folding(s), strict=True):
                self.bind(acc, Lanes(register, len(self.space)))
        if widens:
            self.across(name, start, stop, inside)
        else:
            self.serial(s, name, start, stop, inside)

    def ragged(self, s: For | Reduce, start: Value, stop: Value) -> None:
        """A loop whose bounds differ from lane to lane: as many iterations as the lane with most has, each lane from
        its own start and alive until its own end."""
        self.names += 1
        first, length, longest, name = (f"{what} {self.names}" for what in ("from", "length", "longest", "number"))
        self.begin_run([start, expr.sub(stop, start)])
        for bound, value in ((first, start), (length, expr.sub(stop, start))):
            out = self.vectors.take()
            self.emit("vmov.i64", out, self.value(value))
            self.bind(bound, Lanes(out, len(self.space)))
        most = self.scalars.take()
        self.emit("vhigh.i64", most, self.env[length].register, self.alive())
        self.end_run()
        self.bind(longest, Uniform(most))
        self.aliases[var(s.var)] = expr.add(var(first), var(name))
        self.loop(s, name, ZERO, var(longest), expr.lt(var(name), var(length)))
        del self.aliases[var(s.var)]
        for known in (first, length, longest):
            self.forget(known)

    @contextlib.contextmanager
    def only(self, condition: Value | None) -> Iterator[None]:
        """Lanes where a condition does not hold rest meanwhile."""
        mask = self.mask
        if condition is None:
            yield
            return
        condition = condition if mask is None else and_(condition, mask)
        self.begin_run([condition])
        register = self.vectors.take()
        self.emit("vmov.b1", register, self.value(condition))
        self.end_run()
        self.set_mask(register)
        chosen = f"mask {self.names}"
        yield
        self.forget(chosen)
        self.mask = mask

    def branch(self, s: If) -> None:
        (condition,) = self.plain([s.condition])
        if self.is_uniform(condition):
            other, done = self.label("else"), self.label("endif")
            self.begin_run(())
            self.emit("bz", self.scalar(condition), other)
            self.end_run()
            self.block(s.then)
            self.emit("jmp", done)
            self.lines.append(f"{other}:")
            self.block(s.otherwise)
            self.lines.append(f"{done}:")
            return
        self.names += 1
        name = f"condition {self.names}"
        self.begin_run([condition])
        self.declare(name, condition)
        self.end_run()
        here = var(name, "b1")
        for body, holds in ((s.then, here), (s.otherwise, not_(here))):
            if body:
                with self.only(holds):
                    self.block(body)
        self.forget(name)

    def serial(self, s: For | Reduce, name: str, start: Value, stop: Value, body: Callable[[], None]) -> None:
        """A loop of the scalar unit, all lanes together. `body` writes what is inside."""
        at, last = self.persistent(start), self.persistent(stop)
        test = self.scalars.take()
        again, done = self.label("loop"), self.label("end")
        self.bind(name, Uniform(at))
        self.lines.append(f"{again}:")
        self.emit("slt", test, at, last)
        self.emit("bz", test, done)
        body()
        self.emit("sadd", at, at, self.one)
        going = getattr(s, "going", None)
        if going is None:
            self.emit("jmp", again)
        else:
            self.go_on(going, again)
        self.lines.append(f"{done}:")
        self.scalars.give(test)
        self.scalars.give(last)
        self.forget(name)

    def go_on(self, going: Value, again: str) -> None:
        """Another iteration if the condition holds on any lane."""
        (condition,) = self.plain([going])
        if self.mask is not None:
            condition = and_(condition, self.mask)
        self.begin_run([condition])
        some = self.scalars.take()
        self.emit("vany", some, self.vector(condition))
        self.emit("bnz", some, again)
        self.scalars.give(some)
        self.end_run()

    # --- loops that add an axis ---------------------------------------------------------------------------------------

    def across(self, name: str, start: Value, stop: Value, body: Callable[[], None]) -> None:
        """Iterations side by side with those of the outer loop."""
        at, last = self.persistent(start), self.persistent(stop)
        self.strips(name, at, last, [self.outer, name], body)
        self.scalars.give(at)
        self.scalars.give(last)

    def strips(self, name: str, at: str, last: str, space: list[str], body: Callable[[], None],
               most: str | None = None) -> None:
        """`body` for boxes of all rows of the strip, and as many iterations of the loop as fit."""
        wide, count, lanes = (self.scalars.take() for _ in range(3))
        if most is None:
            self.emit("sdiv", wide, self.capacity, self.outer_count)
        else:
            self.emit("mov", wide, most)
        again, done = self.label("box"), self.label("boxed")
        self.lines.append(f"{again}:")
        self.emit("slt", lanes, at, last)
        self.emit("bz", lanes, done)
        self.emit("ssub", count, last, at)
        self.emit("smin", count, count, wide)
        self.emit("smul", lanes, count, self.outer_count)
        self.emit("vl", lanes)
        self.enter_axis(name, at, count)
        before, self.space = self.space, space
        body()
        self.space = before
        self.emit("sadd", at, at, count)
        self.emit("jmp", again)
        self.lines.append(f"{done}:")
        self.emit("vl", self.outer_count)
        del self.env[name], self.env[f"{name} start"]
        self.uniform = {}
        for register in (wide, count, lanes):
            self.scalars.give(register)

    def start_folding(self, s: Reduce) -> list[str]:
        """Accumulators with their first values, in registers of their own."""
        init = self.plain(list(s.init))
        self.begin_run(init)
        registers = []
        for value in init:
            out = self.vectors.take()
            self.emit(self.typed("vmov", value.dtype), out, self.value(value))
            registers.append(out)
        self.end_run()
        return registers

    def step(self, names: Sequence[str], values: Sequence[Value]) -> None:
        """All accumulators at once: none sees another's new value."""
        values = self.plain(values)
        targets = [self.env[n].register for n in names]   # type: ignore[union-attr]
        self.begin_run(values)
        if len(values) == 1 and self.mask is None:
            self.value(values[0], targets[0])
            self.end_run()
            return
        results = []
        for v, own in zip(values, targets, strict=True):
            result = self.value(v)
            if result in targets and result != own:      # it is about to change
                kept = self.memo[expr.call("kept", v)] = self.vectors.take()
                self.emit(self.typed("vmov", v.dtype), kept, result)
                result = kept
            results.append(result)
        for target, result, v in zip(targets, results, values, strict=True):
            self.replace(target, result, v.dtype)
        self.end_run()

    def replace(self, target: str, result: str, code: str) -> None:
        """Write a name's register, on the lanes that are alive."""
        if self.mask is not None:
            self.emit(self.typed("vsel", code), target, self.alive(), result, target)
        elif target != result:
            self.emit(self.typed("vmov", code), target, result)

    def fold(self, s: Reduce, name: str, start: Value, stop: Value, body: Callable[[], None]) -> None:
        """An accumulator for each place of a box, then by halves; iterations are the slow axis, so halves are
        neighbours."""
        at, last = self.persistent(start), self.persistent(stop)
        wide, lanes = self.scalars.take(), self.scalars.take()
        self.emit("ssub", wide, last, at)
        self.emit("sdiv", lanes, self.capacity, self.outer_count)
        self.emit("smin", wide, wide, lanes)
        self.emit("smax", wide, wide, self.one)
        self.emit("smul", lanes, wide, self.outer_count)
        self.emit("vl", lanes)
        space, before = [name, self.outer], self.space
        self.enter_axis(name, at, wide)
        self.space = space
        registers = self.start_folding(s)
        self.space = before
        del self.env[name]
        for acc, register in zip(s.accs, registers, strict=True):
            self.bind(acc, Lanes(register, 2))

        self.strips(name, at, last, space, body, wide)
        self.join(s, name, wide, lanes)
        for acc, register in zip(s.accs, registers, strict=True):
            self.bind(acc, Lanes(register, 1))
        for register in (at, last, wide, lanes):
            self.scalars.give(register)

    def join(self, s: Reduce, name: str, wide: str, lanes: str) -> None:
        """Halves of the accumulators onto each other until one row is left."""
        again, done = self.label("halve"), self.label("joined")
        half, offset = self.scalars.take(), self.scalars.take()
        self.lines.append(f"{again}:")
        self.emit("slt", lanes, self.one, wide)
        self.emit("bz", lanes, done)
        self.emit("sadd", half, wide, self.one)
        self.emit("sshr", half, half, self.one)
        self.emit("smul", offset, half, self.outer_count)
        self.emit("ssub", lanes, wide, half)
        self.emit("smul", lanes, lanes, self.outer_count)
        self.emit("vl", lanes)
        before, self.space = self.space, [name, self.outer]
        for acc, init in zip(s.accs, s.init, strict=True):
            other = self.vectors.take()
            self.emit(self.typed("vslide", init.dtype), other, self.env[acc].register, offset)
            self.env[f"{acc}.a"] = self.env[acc]
            self.bind(f"{acc}.b", Lanes(other, 2))
        mask, self.mask = self.mask, None
        self.step(s.accs, s.merge)
        self.mask = mask
        for acc in s.accs:
            del self.env[f"{acc}.a"]
            self.forget(f"{acc}.b")
        self.space = before
        self.emit("mov", wide, half)
        self.emit("jmp", again)
        self.lines.append(f"{done}:")
        self.emit("vl", self.outer_count)
        self.scalars.give(half)
        self.scalars.give(offset)


__all__ = ["Generated", "NotExpressible", "generate"]
