"""Loop nests as programs of the vector unit.

Enters: a `Nest` (rushlight/loops/nest.py) as schedules for GPUs make them. Leaves: a `Generated`: assembler text, and
the constant tables it reads. Refuses with NotExpressible: tiles of CPUs, and what needs more registers than there are.

Iterations of the outer loop are independent, so lanes run over them, a strip at a time; loops.py says what becomes of
the loops inside. How long a strip is follows from how many registers the program needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from rushlight.loops import expr
from rushlight.loops.expr import Value, const, replace_all, rewrite, var, walk
from rushlight.loops.nest import THERE, Assign, Check, Fetch, For, If, Local, Nest, Reduce, Statement, Store, values_of

from .expressions import Lanes, NotExpressible, Uniform, without_calls
from .isa import SIZE
from .loops import Loops
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


class Generator(Loops):
    """One nest's program while it is written."""

    def __init__(self, nest: Nest) -> None:
        super().__init__([o.code for o in nest.operands], nest.params)
        self.nest, self.point = nest, nest.point
        self.stacks = {k: o.stack for k, o in enumerate(nest.operands) if o.stack}
        every = list(statements_of((nest.loop,)))
        self.assigned = {s.name for s in every if isinstance(s, Assign)}
        stored = {s.operand for s in every if isinstance(s, Store)} | {s.cell for s in every if isinstance(s, Check)}
        self.fenced = stored & {v.attr for v in walk(values_of(nest)) if v.op == "load"}
        self.aliases = {}

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
                if isinstance(s, (Assign, Check)) or (isinstance(s, Store) and (self.fenced or s.combine == "swap")):
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
        if s.index is None:
            return self.point[s.operand], s.value, 1
        return s.index, s.value, SIZE[self.codes[s.operand]]

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


__all__ = ["Generated", "NotExpressible", "generate"]
