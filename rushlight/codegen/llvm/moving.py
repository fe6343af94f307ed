"""Rows that are only copied: no single elements at their ends, nor where elements lie up to four apart.

Enters: a loop that only moves elements. Leaves: a loop of single vectors, and one of short ones for shorter rows, which
stand between the wide loop and that of single elements. What is left behind the last whole vector is done by one that
lies over it and the elements before, which are then written twice; so rows that are read from where they are written
take the loop of single elements, which goes in order.

Strides are known when the loop runs, and every turn asks for them: a loop for each of them took LLVM twice as long. Of
elements that lie apart whole vectors are read, and the lanes that are wanted put together. Nothing is read behind the
last one: of the vectors that cover the elements of all lanes, the last ends with the last lane's.
"""

from __future__ import annotations

from ...loops.expr import Value
from ...loops.nest import For
from ..text import primitives as p
from ..text.registers import NotVector, Reg, Scope, VectorLoop
from .atomics import Atomics
from .vectorize import is_mirrored
from .widths import choose_width

DISTANCES = (1, 2, 3, 4, 0)   # from one element to the next; from 5 on most of what is read would be thrown away
SHORT_DISTANCES = (1, 2, 0)   # the same of short vectors


class Moving(Atomics):
    """The part of a lowering that knows such loops."""

    def moving_loops(self, s: For, start: Reg, stop: Reg, at: Reg) -> Reg:
        """The loops, of rows that are done up to `at`; returns where that of single elements goes on."""
        lanes, _ = choose_width(s, self.nest, self.target)
        few = lanes * 128 // self.target.vector_bits
        here, inside, after = self.scopes[-1], self.out.label(), self.out.label()
        is_left = self.out.emit(here.lines, f"icmp slt i64 {at.parts[0]}, {stop.parts[0]}")
        self.push(inside, is_guard=True)
        rest = self.moving_loop(s, start, stop, at, lanes, DISTANCES)
        if few not in (0, 1, lanes):
            rest = self.moving_loop(s, start, stop, rest, few, SHORT_DISTANCES)
        scope = self.scopes[-1]
        self.pop()
        here.lines += [f"  br i1 {is_left}, label %{inside}, label %{after}", f"{inside}:", *scope.lines]
        here.lines += [f"  br label %{after}", f"{after}:"]
        before, here.label = here.label, after
        return self.phi([at, rest], [before, scope.label])

    def moving_loop(self, s: For, start: Reg, stop: Reg, at: Reg, lanes: int, distances: tuple[int, ...]) -> Reg:
        guard, names = self.scopes[-1], dict(self.env)
        loop = VectorLoop(s.var, lanes, 1, guard, self.out.fresh(), start)
        loop.distances = distances
        top = self.out.label()
        scope = self.push(top, loop)
        self.env[s.var] = Reg("i64", lanes, [], scope.depth)
        try:
            self.block(s.body)
            if not loop.reads:
                raise NotVector
        except NotVector:
            del self.scopes[guard.depth + 1 :]
            self.env = names
            return at
        self.pop()
        self.env = names
        return self.splice_moving(loop, scope, top, stop, at.parts[0])

    def splice_moving(self, loop: VectorLoop, scope: Scope, top: str, stop: Reg, at: str) -> Reg:
        """Write the loop into its guard: checks, then whole vectors, of which the last ends with the row."""
        guard, out = loop.guard, self.out
        lines, turn, following = guard.lines, out.fresh(), out.fresh()
        done, rest, before = out.label(), out.label(), guard.label
        room = out.emit(lines, f"sub i64 {stop.parts[0]}, {loop.lanes}")
        is_left = out.emit(lines, f"icmp slt i64 {at}, {stop.parts[0]}")
        good = out.emit(lines, f"icmp sle i64 {loop.start.parts[0]}, {room}")
        good = out.emit(lines, f"and i1 {good}, {is_left}")
        for test in loop.checks.values():    # known before the rows, most of them
            good = out.emit(lines, f"and i1 {good}, {test}")
        for read in loop.reads:
            for written in loop.stores:
                good = out.emit(lines, f"and i1 {good}, {self.are_apart(loop, stop, read, written)}")
        lines += [f"  br i1 {good}, label %{top}, label %{rest}", f"{top}:"]
        lines.append(f"  {turn} = phi i64 [ {at}, %{before} ], [ {following}, %{scope.label} ]")
        is_whole = out.emit(lines, f"icmp slt i64 {turn}, {room}")
        lines.append(f"  {loop.counter} = select i1 {is_whole}, i64 {turn}, i64 {room}")
        lines += [*scope.lines, f"  {following} = add nsw i64 {turn}, {loop.lanes}"]
        test = out.emit(lines, f"icmp slt i64 {following}, {stop.parts[0]}")
        lines += [f"  br i1 {test}, label %{top}, label %{done}", f"{done}:", f"  br label %{rest}", f"{rest}:"]
        guard.label = rest
        first = out.emit(lines, f"phi i64 [ {at}, %{before} ], [ {stop.parts[0]}, %{done} ]")
        return Reg("i64", 0, [first], guard.depth)

    def are_apart(self, loop: VectorLoop, stop: Reg, read: tuple[str, str], written: tuple[str, str]) -> str:
        """Whether what a row reads lies before or behind all that it writes."""
        lines, out, ends = loop.guard.lines, self.out, []
        for row, step in (read, written):
            for at in (loop.start, stop):
                moved = out.emit(lines, f"mul i64 {at.parts[0]}, {step}")
                ends.append(out.emit(lines, f"getelementptr i8, ptr {row}, i64 {moved}"))
        if written[1][0] == "-":
            ends[2:] = ends[:1:-1]
        before = out.emit(lines, f"icmp ule ptr {ends[1]}, {ends[2]}")
        behind = out.emit(lines, f"icmp ule ptr {ends[3]}, {ends[0]}")
        return out.emit(lines, f"or i1 {before}, {behind}")

    def row_of(self, operand: int, form: tuple[Value, Value], step_type: str, loop: VectorLoop) -> tuple[str, Reg]:
        """Where a row would begin if the loop's variable were 0, and its stride, both known before the loop."""
        step, start = self.evaluate(form[0]), self.evaluate(form[1])
        if max(step.depth, start.depth) > loop.guard.depth:
            raise NotVector
        row = self.out.emit(loop.guard.lines, f"getelementptr {step_type}, ptr %p{operand}, i64 {start.parts[0]}")
        return row, step

    def spaced_write(
        self, operand: int, index: Value | None, form: tuple[Value, Value] | None, unit: int, step_type: str, reg: Reg
    ) -> None:
        """The vector of a turn: its elements must lie one after another, or one before another."""
        here, out = self.scopes[-1], self.out
        loop, code = here.loop, self.nest.operands[operand].code
        if form is None:
            raise NotVector
        size, is_backwards = p.SIZE[code], index is not None and is_mirrored(form)
        row, _ = self.row_of(operand, form, step_type, loop)
        if is_backwards:
            reg = self.mirrored(reg, here.lines)
            row, size = self.offset_pointer(loop.guard.lines, row, size), -size
        elif form[0].op != "const":
            self.require(loop, form[0], unit, allow_zero=False)
        elif form[0].attr != unit:
            raise NotVector
        loop.stores.append((row, str(size)))
        at = out.emit(here.lines, f"getelementptr i8, ptr {row}, i64 {self.times(here.lines, loop.counter, size)}")
        self.store_parts(code, reg, [self.offset_pointer(here.lines, at, loop.lanes * min(size, 0))])

    def times(self, lines: list[str], value: str, factor: int | str) -> str:
        return self.out.emit(lines, f"mul i64 {value}, {factor}")

    def spaced_read(
        self, operand: int, form: tuple[Value, Value] | None, unit: int, step_type: str, loop: VectorLoop
    ) -> Reg:
        """Elements of one of the distances, by a branch for each of them."""
        if form is None or operand in self.written:
            raise NotVector
        code, here, out = self.nest.operands[operand].code, self.scopes[-1], self.out
        row, stride = self.row_of(operand, form, step_type, loop)
        step = self.times(self.scopes[stride.depth].lines, stride.parts[0], p.SIZE[code] // unit)
        distances = loop.distances
        if form[0].op == "const":
            if form[0].attr != unit:
                raise NotVector
            distances = (1,)
        before = self.scopes[stride.depth].lines
        tests = [out.emit(before, f"icmp eq i64 {stride.parts[0]}, {unit * d}") for d in distances]
        known = tests[0]
        for test in tests[1:]:
            known = out.emit(before, f"or i1 {known}, {test}")
        loop.checks["distance", operand, form] = known
        loop.reads.append((row, step))
        first = out.emit(
            here.lines, f"getelementptr i8, ptr {row}, i64 {self.times(here.lines, loop.counter, step)}"
        )
        after, ends = out.label(), []
        for distance, test in zip(distances, tests, strict=True):
            own, other = out.label(), out.label()
            is_last = distance == distances[-1]
            jump = f"br label %{own}" if is_last else f"br i1 {test}, label %{own}, label %{other}"
            here.lines += [f"  {jump}", f"{own}:"]
            ends.append((self.picked(code, first, distance, loop.lanes), own))
            here.lines += [f"  br label %{after}", *([] if is_last else [f"{other}:"])]
        here.lines.append(f"{after}:")
        here.label = after
        ty = p.memory_type(p.PARTS.get(code, code), loop.lanes)
        halves = [
            out.emit(here.lines, f"phi {ty} " + ", ".join(f"[ {found[k]}, %{own} ]" for found, own in ends))
            for k in range(len(ends[0][0]))
        ]
        if code == "b1":
            halves = [out.emit(here.lines, f"icmp ne {ty} {half}, zeroinitializer") for half in halves]
        return Reg(code, loop.lanes, halves[:1], here.depth, imag=halves[1:] or None)

    def picked(self, code: str, first: str, distance: int, lanes: int) -> list[str]:
        """Elements a distance apart from `first` on: a vector, or one of real and one of imaginary parts."""
        lines, out, part = self.scopes[-1].lines, self.out, p.PARTS.get(code, code)
        count, ty = 2 if code in p.PARTS else 1, p.memory_type(part, lanes)
        step = distance * count
        if not step:
            places = [self.offset_pointer(lines, first, k * p.SIZE[part]) for k in range(count)]
            return [self.repeated(part, at, lanes) for at in places]
        span = step * (lanes - 1) + count
        starts = [*range(0, span - lanes, lanes), span - lanes]
        vectors = []
        for begin in starts:
            at = self.offset_pointer(lines, first, begin * p.SIZE[part])
            vectors.append(out.emit(lines, f"load {ty}, ptr {at}, align {p.SIZE[part]}"))
        return [
            self.joined(ty, vectors, starts, [half + step * lane for lane in range(lanes)]) for half in range(count)
        ]

    def repeated(self, part: str, pointer: str, lanes: int) -> str:
        """One element on all lanes, as memory has it."""
        lines, out, ty = self.scopes[-1].lines, self.out, p.memory_type(part, lanes)
        item = out.emit(lines, f"load {p.MEMORY[part]}, ptr {pointer}, align {p.SIZE[part]}")
        one = out.emit(lines, f"insertelement {ty} poison, {p.MEMORY[part]} {item}, i32 0")
        return out.emit(lines, f"shufflevector {ty} {one}, {ty} poison, <{lanes} x i32> zeroinitializer")

    def joined(self, ty: str, vectors: list[str], starts: list[int], places: list[int]) -> str:
        """The elements at `places` of vectors that begin at `starts`, one lane each: two vectors at a time."""
        lines, lanes = self.scopes[-1].lines, len(places)
        source = [max(m for m, begin in enumerate(starts) if begin <= at) for at in places]
        needed = sorted(set(source))
        result, own = vectors[0], list(zip(places, source, strict=True))
        held = [-1 if m else at for at, m in own]
        for m in needed[1:]:
            order = [lanes + at - starts[m] if k == m else old for (at, k), old in zip(own, held, strict=True)]
            mask = ", ".join(f"i32 {k}" if k >= 0 else "i32 undef" for k in order)
            result = self.out.emit(lines, f"shufflevector {ty} {result}, {ty} {vectors[m]}, <{lanes} x i32> <{mask}>")
            held = [lane if k >= 0 else -1 for lane, k in enumerate(order)]
        return result
