"""Branches, loops and folds of a nest as instructions around those of its expressions.

Enters: compound statements of a nest (generate.py walks its blocks). Leaves: lines of assembler. A vector loop or a
fold inside of the outer loop adds a second axis to the lanes; folds keep an accumulator for each place of that box, and
join those of one row by halves in the end. Other loops are the scalar unit's, all lanes together; branches and bounds
that differ from lane to lane become masks.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

from rushlight.loops import expr
from rushlight.loops.expr import Value, and_, not_, var
from rushlight.loops.nest import For, If, Reduce, Statement

from .expressions import ZERO, Axis, Expressions, Lanes, Uniform


class Loops(Expressions):
    """What goes on around runs of simple statements; `block`, `declare` and `plain` are the generator's."""

    capacity: str                        # scalar registers: how many lanes a register has,
    outer_count: str                     # and how many iterations of the outer loop this strip has
    names: int = 0
    aliases: dict[Value, Value]          # names that stand for places that strided DMA can reach

    def block(self, body: Sequence[Statement], ending: Callable[[], None] | None = None) -> None:
        raise NotImplementedError

    def declare(self, name: str, value: Value) -> None:
        raise NotImplementedError

    def plain(self, values: Sequence[Value]) -> list[Value]:
        raise NotImplementedError

    # --- names --------------------------------------------------------------------------------------------------------

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

    def forget(self, name: str) -> None:
        entry = self.env.pop(name)
        self.uniform = {}
        if not isinstance(entry, Axis) and entry.register in self.held and not name.endswith(" start"):
            self.held.discard(entry.register)
            (self.vectors if isinstance(entry, Lanes) else self.scalars).give(entry.register)

    def set_mask(self, register: str) -> None:
        """Only lanes of this register are alive from here on, until the block ends."""
        self.names += 1
        name = f"mask {self.names}"
        self.bind(name, Lanes(register, len(self.space)))
        self.mask = var(name, "b1")

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
