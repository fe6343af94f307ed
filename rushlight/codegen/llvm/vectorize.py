"""Vector loops and operand accesses: what each index means on all lanes.

Enters: loops and Values from lower.py. Leaves: vector loops followed by the scalar loop for the rest, and loads and
stores as one of: contiguous vectors walked by a pointer, a uniform scalar, a repeated element held in a small stack
buffer (run-time stride 0), vectors whose lanes are put the other way round (stride -1), lane-by-lane gathers. Refuses
(NotVector): stores that would need an order among lanes. How wide a loop goes is `widths.py`'s business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ...loops.expr import Value, add, const, mul, neg, sub
from ...loops.nest import Fetch, For, Reduce
from ..text import primitives as p
from ..text.registers import NotVector, Reg, Scope, VectorLoop
from ..text.squares import Square, shuffled
from .widths import choose_width

ZERO, ONE = const(0, "i64"), const(1, "i64")
LINE = 64  # bytes of a cache line


def runs_once(s: For | Reduce, width: int) -> bool:
    """Whether a loop is exactly one vector iteration of `width`."""
    return (
        isinstance(s, For)
        and not s.ahead
        and s.start.op == s.stop.op == "const"
        and s.stop.attr - s.start.attr == width
    )


def without_constant(value: Value) -> tuple[Value, int]:
    """A sum as what is not constant in it, and what is."""
    if value.op == "const":
        return ZERO, value.attr
    if value.op != "add":
        return value, 0
    (a, first), (b, second) = (without_constant(arg) for arg in value.args)
    return add(a, b), first + second


def is_mirrored(form: tuple[Value, Value] | None) -> bool:
    """Whether an index falls by one where the loop's variable rises by one."""
    return form is not None and form[0].op == "const" and form[0].attr == -1


# Types that wide vectors gather by an instruction.
GATHERED = frozenset(("f32", "f64", "i32", "i64", "u32", "u64"))


class Addressing:
    """The part of `Lowering` that knows operands and vector loops."""

    # Affine form of an index in the vector loop's variable

    def varies(self, value: Value) -> bool:
        """Whether lanes of the current vector loop see different values."""
        return any(isinstance(name, str) and self.env[name].lanes for name in self.dependencies(value))

    def linear(self, value: Value, loop: VectorLoop) -> tuple[Value, Value] | None:
        """(coefficient, base) with value == coefficient * loop.var + base, both uniform; None if it is not so."""
        if not self.varies(value):
            return ZERO, value
        if value.op == "var":
            if value.attr == loop.var:
                return ONE, ZERO
            inner = self.definitions.get(value.attr)
            return None if inner is None else self.linear(inner, loop)
        if value.op == "neg":
            part = self.linear(value.args[0], loop)
            return part and (neg(part[0]), neg(part[1]))
        if value.op in ("add", "sub", "mul") and value.dtype == "i64":
            a, b = (self.linear(arg, loop) for arg in value.args)
            if a is None or b is None:
                return None
            if value.op != "mul":
                join = add if value.op == "add" else sub
                return join(a[0], b[0]), join(a[1], b[1])
            if b[0] is ZERO:
                return mul(a[0], b[1]), mul(a[1], b[1])
            if a[0] is ZERO:
                return mul(b[0], a[1]), mul(b[1], a[1])
        return None

    def barrier(self, operand: int) -> int:
        """The outermost scope a load of `operand` may move to."""
        if operand in self.written:
            return self.scopes[-1].depth
        for scope in reversed(self.scopes):
            if scope.is_guard:
                return scope.depth
        return 0

    # Addresses

    def place(self, operand: int, index: Value | None) -> tuple[Value, int, str]:
        """(offset Value, its value for one element's distance, LLVM type that GEP steps by)."""
        code = self.nest.operands[operand].code
        if index is None:
            return self.nest.point[operand], p.SIZE[code], "i8"
        part = p.PARTS.get(code)
        return index, 1, f"[2 x {p.MEMORY[part]}]" if part else p.MEMORY[code]

    def scalar_address(self, operand: int, offset: Reg, step_type: str, depth: int) -> str:
        lines = self.scopes[depth].lines
        return self.out.emit(lines, f"getelementptr {step_type}, ptr %p{operand}, i64 {offset.parts[0]}")

    def read_operand(self, operand: int, index: Value | None) -> Reg:
        offset, unit, step_type = self.place(operand, index)
        code = self.nest.operands[operand].code
        loop = self.scopes[-1].loop
        form = None if loop is None else self.linear(offset, loop)
        if loop is None or (form is not None and form[0] is ZERO):
            at = self.evaluate(offset)
            depth = max(at.depth, self.barrier(operand), self.floor)
            pointer = self.scalar_address(operand, at, step_type, depth)
            return self.load_parts(code, [pointer], 0, depth)
        if loop.transposed and form is not None and not (form[0].op == "const" and form[0].attr == unit):
            return self.turned_read(operand, code, form, step_type, loop)
        if loop.gathers and form is not None and form[0].op != "const":
            return self.strided_read(operand, code, form, step_type, loop)
        if loop.distances:
            return self.spaced_read(operand, form, unit, step_type, loop)
        pointers = form and self.vector_pointers(operand, form, unit, step_type, loop, is_store=False)
        if pointers:
            names, depth = pointers
            return self.load_parts(code, names, loop.lanes, max(depth, self.floor))
        if index is not None and is_mirrored(form):
            return self.mirrored_read(operand, code, form[1], step_type, loop)
        return self.gather(operand, code, offset, step_type, loop)

    def mirrored_read(self, operand: int, code: str, start: Value, step_type: str, loop: VectorLoop) -> Reg:
        """Elements at `start` minus the loop's variable: whole vectors, their lanes put in order."""
        begin = self.evaluate(start)
        depth = max(begin.depth, loop.guard.depth + 1, self.barrier(operand), self.floor)
        reg = self.load_parts(code, self.mirrored_places(operand, begin, step_type, loop, depth), loop.lanes, depth)
        return self.mirrored(reg, self.scopes[depth].lines)

    def mirrored_places(self, operand: int, begin: Reg, step_type: str, loop: VectorLoop, depth: int) -> list[str]:
        """Where the last lane of every vector is, which comes first in memory."""
        lines, out = self.scopes[depth].lines, self.out
        first = out.emit(lines, f"sub i64 {begin.parts[0]}, {loop.counter}")
        places = [out.emit(lines, f"sub i64 {first}, {(u + 1) * loop.lanes - 1}") for u in range(loop.unroll)]
        return [out.emit(lines, f"getelementptr {step_type}, ptr %p{operand}, i64 {at}") for at in places]

    def mirrored(self, reg: Reg, lines: list[str]) -> Reg:
        """The lanes of every vector the other way round."""
        ty, order = p.type_of(p.PARTS.get(reg.code, reg.code), reg.lanes), list(range(reg.lanes))[::-1]
        parts, imag = (
            half and [shuffled(self.out, lines, ty, (x, "poison"), order) for x in half]
            for half in (reg.parts, reg.imag)
        )
        return Reg(reg.code, reg.lanes, parts, reg.depth, imag=imag)

    def turned_read(self, operand: int, code: str, form: tuple[Value, Value], step_type: str, loop: VectorLoop) -> Reg:
        """Element k of as many rows as there are lanes, from a square block of which every row is read at once."""
        coefficient, base = form
        rest, shift = without_constant(base)
        rest, shift = add(rest, const(shift - shift % loop.lanes, "i64")), shift % loop.lanes
        key = ("transposed", operand, coefficient, rest)
        scope = self.scopes[-1]
        if key not in scope.memo:
            lines, out = scope.lines, self.out
            step, first = self.evaluate(coefficient), self.evaluate(rest)
            at = out.emit(lines, f"getelementptr {step_type}, ptr %p{operand}, i64 {first.parts[0]}")
            rows = [at]
            for _ in range(loop.lanes - 1):
                rows.append(out.emit(lines, f"getelementptr {step_type}, ptr {rows[-1]}, i64 {step.parts[0]}"))
            scope.memo[key] = Square(out, lines, code, rows)
        parts = scope.memo[key].column(shift)
        return Reg(code, loop.lanes, parts[:1], scope.depth, imag=parts[1:] or None)

    def strided_read(self, operand: int, code: str, form: tuple[Value, Value], step_type: str, loop: VectorLoop) -> Reg:
        """Elements `stride` apart, lane by lane: a gather instruction was no faster than one chain of scalars (Cascade
        Lake)."""
        stride, start = self.evaluate(form[0]), self.evaluate(form[1])
        depth = max(stride.depth, start.depth, loop.guard.depth + 1, self.barrier(operand), self.floor)
        lines, out, part = self.scopes[depth].lines, self.out, p.PARTS.get(code, code)
        ty = p.type_of(part, loop.lanes)
        halves: list[list[str]] = [[] for _ in range(2 if code in p.PARTS else 1)]
        for places in self.strided_places(operand, stride, start, step_type, loop, lines):
            for k, half in enumerate(halves):
                whole = "poison"
                for lane, at in enumerate(places):
                    item = p.load(out, lines, part, self.offset_pointer(lines, at, k * p.SIZE[part]), 0)
                    whole = out.emit(lines, f"insertelement {ty} {whole}, {p.REGISTER[part]} {item}, i32 {lane}")
                half.append(whole)
        return Reg(code, loop.lanes, halves[0], depth, imag=halves[1] if code in p.PARTS else None)

    def strided_places(
        self, operand: int, stride: Reg, start: Reg, step_type: str, loop: VectorLoop, lines: list[str]
    ) -> Iterator[list[str]]:
        """Where the lanes of each vector are, each `stride` behind the one before."""
        for u in range(loop.unroll):
            first = self.out.emit(lines, f"add i64 {loop.counter}, {u * loop.lanes}")
            first = self.out.emit(lines, f"mul i64 {first}, {stride.parts[0]}")
            first = self.out.emit(lines, f"add i64 {first}, {start.parts[0]}")
            places = [self.out.emit(lines, f"getelementptr {step_type}, ptr %p{operand}, i64 {first}")]
            for _ in range(loop.lanes - 1):
                step = f"getelementptr {step_type}, ptr {places[-1]}, i64 {stride.parts[0]}"
                places.append(self.out.emit(lines, step))
            yield places

    def load_parts(self, code: str, pointers: list[str], lanes: int, depth: int) -> Reg:
        lines = self.scopes[depth].lines
        if code not in p.PARTS:
            return Reg(code, lanes, [p.load(self.out, lines, code, at, lanes) for at in pointers], depth)
        pairs = [p.load_pairs(self.out, lines, p.PARTS[code], at, lanes) for at in pointers]
        return Reg(code, lanes, [a for a, _ in pairs], depth, imag=[b for _, b in pairs])

    def gather(self, operand: int, code: str, offset: Value, step_type: str, loop: VectorLoop) -> Reg:
        at = self.widen(self.evaluate(offset), loop.lanes, loop.unroll)
        depth = max(at.depth, self.barrier(operand), self.floor)
        lines = self.scopes[depth].lines

        def one(where: str, shift: int = 0) -> str:
            pointer = self.out.emit(lines, f"getelementptr {step_type}, ptr %p{operand}, i64 {where}")
            if shift:
                pointer = self.out.emit(lines, f"getelementptr i8, ptr {pointer}, i64 {shift}")
            return p.load(self.out, lines, part, pointer, 0)

        part = p.PARTS.get(code, code)
        if at.lanes and self.target.vector_bits == 512 and code in GATHERED:
            parts = [self.gathered(lines, operand, code, name, step_type, at.lanes) for name in at.parts]
            return Reg(code, loop.lanes, parts, depth)
        parts = [self.by_lane(lines, part, at, name, one) for name in at.parts]
        if code not in p.PARTS:
            return Reg(code, loop.lanes, parts, depth)
        imag = [self.by_lane(lines, part, at, name, lambda w: one(w, p.SIZE[part])) for name in at.parts]
        return Reg(code, loop.lanes, parts, depth, imag=imag)

    def gathered(self, lines: list[str], operand: int, code: str, index: str, step_type: str, lanes: int) -> str:
        """Elements at the places of `index` by one instruction."""
        out, pointers, ty = self.out, f"<{lanes} x ptr>", p.type_of(code, lanes)
        name = f"@llvm.masked.gather.{p.mangle(ty)}.v{lanes}p0"
        out.declared[name] = f"declare {ty} {name}({pointers}, i32, <{lanes} x i1>, {ty})"
        at = out.emit(lines, f"getelementptr {step_type}, ptr %p{operand}, <{lanes} x i64> {index}")
        every = f"<{lanes} x i1> <{', '.join(['i1 true'] * lanes)}>"
        return out.emit(lines, f"call {ty} {name}({pointers} {at}, i32 {p.SIZE[code]}, {every}, {ty} poison)")

    def by_lane(self, lines: list[str], code: str, index: Reg, part: str, one: Callable[[str], str]) -> str:
        """Apply a scalar function to each lane of `part`, a piece of `index`."""
        if not index.lanes:
            return one(part)
        source, ty = p.type_of(index.code, index.lanes), p.type_of(code, index.lanes)
        result = "poison"
        for lane in range(index.lanes):
            at = self.out.emit(lines, f"extractelement {source} {part}, i32 {lane}")
            result = self.out.emit(lines, f"insertelement {ty} {result}, {p.REGISTER[code]} {one(at)}, i32 {lane}")
        return result

    def write_operand(self, operand: int, index: Value | None, reg: Reg, combine: str) -> None:
        offset, unit, step_type = self.place(operand, index)
        code = self.nest.operands[operand].code
        here = self.scopes[-1]
        loop = here.loop
        if loop is None:
            pointer = self.scalar_address(operand, self.evaluate(offset), step_type, here.depth)
            self.store_parts(code, reg, [pointer])
            return
        form = self.linear(offset, loop)
        if form is not None and form[0] is ZERO:
            raise NotVector  # all lanes would write one element
        reg = self.widen(reg, loop.lanes, loop.unroll)
        if loop.gathers and form is not None and form[0].op != "const" and combine == "set":
            self.strided_write(operand, code, form, unit, step_type, reg)
            return
        if loop.distances:
            self.spaced_write(operand, index, form, unit, step_type, reg)
            return
        pointers = form and self.vector_pointers(operand, form, unit, step_type, loop, is_store=True)
        if pointers:
            self.store_parts(code, reg, pointers[0])
            return
        if combine != "set":
            raise NotVector  # two lanes may meet in one element
        if index is not None and is_mirrored(form):
            places = self.mirrored_places(operand, self.evaluate(form[1]), step_type, loop, here.depth)
            self.store_parts(code, self.mirrored(reg, here.lines), places)
            return
        self.scatter(operand, code, reg, offset, step_type)

    def strided_write(
        self, operand: int, code: str, form: tuple[Value, Value], unit: int, step_type: str, reg: Reg
    ) -> None:
        """Elements `stride` apart: whole vectors if that turns out to be one element, else lane by lane."""
        here, out = self.scopes[-1], self.out
        stride, start = self.evaluate(form[0]), self.evaluate(form[1])
        places = list(self.strided_places(operand, stride, start, step_type, here.loop, here.lines))
        dense = out.emit(here.lines, f"icmp eq i64 {stride.parts[0]}, {unit}")
        whole, apart, after = out.label(), out.label(), out.label()
        here.lines += [f"  br i1 {dense}, label %{whole}, label %{apart}", f"{whole}:"]
        self.store_parts(code, reg, [lanes[0] for lanes in places])
        here.lines += [f"  br label %{after}", f"{apart}:"]
        for u, lanes in enumerate(places):
            self.store_lanes(code, reg, u, lanes)
        here.lines += [f"  br label %{after}", f"{after}:"]
        here.label = after

    def store_parts(self, code: str, reg: Reg, pointers: list[str]) -> None:
        lines = self.scopes[-1].lines
        for u, pointer in enumerate(pointers):
            if code in p.PARTS:
                pair = (reg.parts[u], reg.imag[u])
                p.store_pairs(self.out, lines, p.PARTS[code], pair, pointer, reg.lanes)
            else:
                p.store(self.out, lines, code, reg.parts[u], pointer, reg.lanes)

    def scatter(self, operand: int, code: str, reg: Reg, offset: Value, step_type: str) -> None:
        at = self.widen(self.evaluate(offset), reg.lanes, len(reg.parts))
        lines, out = self.scopes[-1].lines, self.out
        for u in range(len(reg.parts)):
            index = f"extractelement {p.type_of('i64', reg.lanes)} {at.parts[u]}, i32"
            indices = [out.emit(lines, f"{index} {lane}") for lane in range(reg.lanes)]
            places = [out.emit(lines, f"getelementptr {step_type}, ptr %p{operand}, i64 {where}") for where in indices]
            self.store_lanes(code, reg, u, places)

    def store_lanes(self, code: str, reg: Reg, u: int, places: list[str]) -> None:
        """The lanes of vector `u`, each to a place of its own."""
        lines, part = self.scopes[-1].lines, p.PARTS.get(code, code)
        halves = [reg.parts] if reg.imag is None else [reg.parts, reg.imag]
        for lane, place in enumerate(places):
            for k, half in enumerate(halves):
                item = self.out.emit(lines, f"extractelement {p.type_of(part, reg.lanes)} {half[u]}, i32 {lane}")
                p.store(self.out, lines, part, item, self.offset_pointer(lines, place, k * p.SIZE[part]), 0)

    # Contiguous streams

    def vector_pointers(
        self, operand: int, form: tuple[Value, Value], unit: int, step_type: str, loop: VectorLoop, is_store: bool
    ) -> tuple[list[str], int] | None:
        """Addresses of the unrolled vectors if the access is (or can be checked to be) contiguous, and their scope."""
        coefficient, base = form
        guard = loop.guard
        fixed = coefficient.op == "const"
        if fixed and coefficient.attr != unit:
            return None
        if not fixed and self.evaluate(coefficient).depth > guard.depth:
            return None
        start = self.evaluate(base)
        if start.depth > guard.depth:
            if not fixed:
                self.require(loop, coefficient, unit, allow_zero=False)
            return self.deep_pointers(operand, start, unit, step_type, loop)
        if not fixed:
            self.require(loop, coefficient, unit, allow_zero=not is_store)
        repeats = not fixed and not is_store
        key = (operand, base, coefficient, repeats)
        walker = loop.streams.get(key)
        if walker is None:
            walker = loop.streams[key] = self.new_stream(operand, start, coefficient, unit, step_type, loop, repeats)
            if not is_store:
                loop.read.append(walker)
        depth = guard.depth + 1
        size = p.SIZE[self.nest.operands[operand].code]
        lines = self.scopes[depth].lines
        where = max(self.scopes[-1].depth if operand in self.written else depth, self.floor)
        return [self.offset_pointer(lines, walker, u * loop.lanes * size) for u in range(loop.unroll)], where

    def offset_pointer(self, lines: list[str], pointer: str, distance: int) -> str:
        return self.out.emit(lines, f"getelementptr i8, ptr {pointer}, i64 {distance}") if distance else pointer

    def deep_pointers(
        self, operand: int, base: Reg, unit: int, step_type: str, loop: VectorLoop
    ) -> tuple[list[str], int]:
        """Addresses that change inside the vector loop (an inner loop walks another dimension)."""
        size = p.SIZE[self.nest.operands[operand].code]
        lines = self.scopes[base.depth].lines
        first = self.out.emit(lines, f"getelementptr {step_type}, ptr %p{operand}, i64 {base.parts[0]}")
        moved = self.out.emit(lines, f"mul i64 {loop.counter}, {size}")
        first = self.out.emit(lines, f"getelementptr i8, ptr {first}, i64 {moved}")
        depth = max(base.depth, self.scopes[-1].depth if operand in self.written else 0, self.barrier(operand))
        pointers = [self.offset_pointer(lines, first, u * loop.lanes * size) for u in range(loop.unroll)]
        return pointers, max(depth, self.floor)

    def require(self, loop: VectorLoop, coefficient: Value, unit: int, allow_zero: bool) -> None:
        """Let the vector loop run only if the stride is one element (or zero)."""
        key = (coefficient, unit, allow_zero)
        if key in loop.checks:
            return
        reg = self.evaluate(coefficient)
        lines, stride = self.scopes[reg.depth].lines, reg.parts[0]
        test = self.out.emit(lines, f"icmp eq i64 {stride}, {unit}")
        if allow_zero:
            still = self.out.emit(lines, f"icmp eq i64 {stride}, 0")
            test = self.out.emit(lines, f"or i1 {test}, {still}")
        loop.checks[key] = test

    def new_stream(
        self, operand: int, base: Reg, coefficient: Value, unit: int, step_type: str, loop: VectorLoop, repeats: bool
    ) -> str:
        """A pointer that walks with the loop; returns its phi. `repeats`: the stride may be 0 at run time."""
        lines, out = loop.guard.lines, self.out
        code = self.nest.operands[operand].code
        size = p.SIZE[code]
        first = out.emit(lines, f"getelementptr {step_type}, ptr %p{operand}, i64 {base.parts[0]}")
        if loop.start.parts[0] != "0":
            stride = self.evaluate(coefficient).parts[0]
            skip = out.emit(lines, f"mul i64 {loop.start.parts[0]}, {stride}")
            first = out.emit(lines, f"getelementptr {step_type}, ptr {first}, i64 {skip}")
        step = str(loop.width * size)
        if repeats:
            stride = self.evaluate(coefficient).parts[0]
            is_zero = out.emit(lines, f"icmp eq i64 {stride}, 0")
            # The loop of single vectors finds the wide loop's buffer, which is wide enough.
            buffer = loop.guard.memo.get(("buffer", operand, base.parts[0]))
            if buffer is None:
                buffer = loop.guard.memo["buffer", operand, base.parts[0]] = self.repeated_buffer(code, first, loop)
            first = out.emit(lines, f"select i1 {is_zero}, ptr {buffer}, ptr {first}")
            step = out.emit(lines, f"mul i64 {stride}, {loop.width * size // unit}")
        walker = out.fresh()
        loop.pointers.append((walker, first, step))
        return walker

    def repeated_buffer(self, code: str, pointer: str, loop: VectorLoop) -> str:
        """A stack buffer filled with the element at `pointer`, as wide as one iteration."""
        lines, out = loop.guard.lines, self.out
        part = p.PARTS.get(code, code)
        element = p.MEMORY[part]
        count = loop.width * (2 if code in p.PARTS else 1)
        buffer = out.fresh()
        self.allocas.append(f"  {buffer} = alloca [{count} x {element}], align 16")
        if code in p.PARTS:
            pair = [out.emit(lines, f"load {element}, ptr {pointer}, align {p.SIZE[part]}")]
            second = out.emit(lines, f"getelementptr i8, ptr {pointer}, i64 {p.SIZE[part]}")
            pair.append(out.emit(lines, f"load {element}, ptr {second}, align {p.SIZE[part]}"))
        else:
            pair = [out.emit(lines, f"load {element}, ptr {pointer}, align {p.SIZE[part]}")] * 2
        ty = f"<{loop.lanes} x {element}>"
        whole = "poison"
        for lane in range(2 if code in p.PARTS else 1):
            whole = out.emit(lines, f"insertelement {ty} {whole}, {element} {pair[lane]}, i32 {lane}")
        order = ", ".join(f"i32 {lane % 2 if code in p.PARTS else 0}" for lane in range(loop.lanes))
        whole = out.emit(lines, f"shufflevector {ty} {whole}, {ty} poison, <{loop.lanes} x i32> <{order}>")
        for u in range(count // loop.lanes):
            at = self.offset_pointer(lines, buffer, u * loop.lanes * p.SIZE[part])
            lines.append(f"  store {ty} {whole}, ptr {at}, align {p.SIZE[part]}")
        return buffer

    def lane_numbers(self, name: str, reg: Reg) -> Reg:
        """The vector loop's variable as data: counter + 0, 1, 2, ..."""
        scope = self.scopes[reg.depth]
        loop = scope.loop
        ty = p.type_of("i64", loop.lanes)
        counter = self.spread(Reg("i64", 0, [loop.counter], reg.depth), loop.lanes, 1)[0]
        for u in range(loop.unroll):
            steps = ", ".join(f"i64 {u * loop.lanes + lane}" for lane in range(loop.lanes))
            reg.parts.append(self.out.emit(scope.lines, f"add {ty} {counter}, <{steps}>"))
        return reg

    # The loop

    def vector_loop(
        self, s: For | Reduce, start: Reg, stop: Reg, accs: dict[str, Reg], so_far: dict[str, Reg] | None = None
    ) -> tuple[Reg, dict[str, Reg]] | None:
        """Emit the vector loop into the current guard; returns where the scalar loop goes on, or None if impossible.

        `accs` are the neutral accumulators. With `so_far`, accumulators of the wide loop before it, this is the loop of
        single vectors that spares short rows most of the scalar loop.
        """
        guard, names = self.scopes[-1], dict(self.env)
        lanes, unroll = choose_width(s, self.nest, self.target)
        if so_far is not None:
            unroll = 1
        loop = VectorLoop(s.var, lanes, unroll, guard, self.out.fresh(), start)
        # Operands of a plain element-by-element nest may have any stride: its single vectors are for those, too.
        loop.gathers = s.gathers or (so_far is not None and bool(self.nest.point))
        loop.transposed = isinstance(s, For) and s.transposed and s.stop.attr == lanes and unroll == 1
        top = self.out.label()
        scope = self.push(top, loop)
        self.env[s.var] = Reg("i64", lanes, [], scope.depth)
        phis = {acc: self.phi_names(reg, lanes, unroll, scope.depth) for acc, reg in accs.items()}
        self.env.update(phis)
        try:
            self.reduce_body(s) if isinstance(s, Reduce) else self.block(s.body)
            finals = {acc: self.widen(self.env[acc], lanes, unroll) for acc in accs}
        except NotVector:
            del self.scopes[guard.depth + 1 :]
            self.env = names
            return None
        self.pop()
        self.env = names
        for reg in finals.values():
            reg.depth = guard.depth  # what follows the loop is the guard's text
        return self.splice(s, loop, scope, top, stop, accs, so_far or {}, phis, finals)

    def phi_names(self, reg: Reg, lanes: int, unroll: int, depth: int) -> Reg:
        imag = None if reg.imag is None else [self.out.fresh() for _ in range(unroll)]
        return Reg(reg.code, lanes, [self.out.fresh() for _ in range(unroll)], depth, imag=imag)

    def splice(
        self, s: For | Reduce, loop: VectorLoop, scope: Scope, top: str, stop: Reg, accs: dict[str, Reg],
        so_far: dict[str, Reg], phis: dict[str, Reg], finals: dict[str, Reg],
    ) -> tuple[Reg, dict[str, Reg]]:
        """Write the collected vector loop into its guard: checks, phis, body, merging of lanes."""
        guard, out = loop.guard, self.out
        lines = guard.lines
        if not accs and not loop.checks and runs_once(s, loop.width):
            return self.splice_once(loop, scope, top), {}
        init = {acc: self.widen(reg, loop.lanes, loop.unroll) for acc, reg in accs.items()}
        limit = out.emit(lines, f"sub i64 {stop.parts[0]}, {loop.width}")
        good = out.emit(lines, f"icmp sle i64 {loop.start.parts[0]}, {limit}")
        self.tested = bool(loop.checks)  # a stride that turns out otherwise takes the scalar loop
        for test in loop.checks.values():
            good = out.emit(lines, f"and i1 {good}, {test}")
        done, rest, before = out.label(), out.label(), guard.label
        blocked = isinstance(s, Reduce) and s.blocked and not so_far
        entry = out.label() if blocked else top
        span = self.block_span(loop, stop) if blocked else ""
        lines.append(f"  br i1 {good}, label %{entry}, label %{rest}")
        if isinstance(s, For) and s.ahead:
            scope.lines[:0] = self.fetch_ahead(loop, s.ahead, [walker for walker, _, _ in loop.pointers])
        elif self.nest.point and self.target.point_ahead:
            scope.lines[:0] = self.fetch_ahead(loop, self.target.point_ahead, loop.read)
        following = out.emit(scope.lines, f"add nsw i64 {loop.counter}, {loop.width}")
        steps = [(loop.counter, "i64", loop.start.parts[0], following)]
        for walker, first, step in loop.pointers:
            moved = out.emit(scope.lines, f"getelementptr i8, ptr {walker}, i64 {step}")
            steps.append((walker, "ptr", first, moved))
        if blocked:
            finals = self.blocked_text(s, loop, scope, top, entry, before, done, limit, span, steps, init, phis, finals)
        else:
            lines.append(f"{top}:")
            for name, ty, first, moved in steps:
                lines.append(f"  {name} = phi {ty} [ {first}, %{before} ], [ {moved}, %{scope.label} ]")
            for acc in accs:
                lines.extend(self.phi_lines(phis[acc], init[acc], before, finals[acc], scope.label))
            test = out.emit(scope.lines, f"icmp sle i64 {following}, {limit}")
            lines += [*scope.lines, f"  br i1 {test}, label %{top}, label %{done}"]
        lines.append(f"{done}:")
        guard.label = done
        merged = self.merge_lanes(s, finals, loop.lanes) if accs else {}
        if so_far:
            merged = self.merge(s, so_far, merged)
        after = guard.label
        lines += [f"  br label %{rest}", f"{rest}:"]
        guard.label = rest
        first = out.emit(lines, f"phi i64 [ {loop.start.parts[0]}, %{before} ], [ {following}, %{after} ]")
        results = {acc: self.phi([reg, merged[acc]], [before, after]) for acc, reg in (so_far or accs).items()}
        return Reg("i64", 0, [first], guard.depth), results

    def splice_once(self, loop: VectorLoop, scope: Scope, top: str) -> Reg:
        """A vector loop of one iteration as no loop: LLVM would look for the best way to step each of its addresses."""
        guard, self.tested = loop.guard, False
        first = [(loop.counter, "i64", loop.start.parts[0]), *((walker, "ptr", at) for walker, at, _ in loop.pointers)]
        guard.lines += [f"  br label %{top}", f"{top}:"]
        guard.lines += [f"  {name} = phi {ty} [ {value}, %{guard.label} ]" for name, ty, value in first]
        following = self.out.emit(scope.lines, f"add nsw i64 {loop.counter}, {loop.width}")
        guard.lines += scope.lines
        guard.label = scope.label
        return Reg("i64", 0, [following], guard.depth)

    def fetch(self, s: Fetch) -> None:
        """One request for every cache line of the elements that a vector iteration is about."""
        loop = self.scopes[-1].loop
        if loop is None or self.target.is_gpu:
            return
        offset, unit, step_type = self.place(s.operand, s.index)
        form = self.linear(offset, loop)
        assert form is not None and form[0].op == "const" and form[0].attr == unit, "a fetch runs along its loop"
        pointers, _ = self.vector_pointers(s.operand, form, unit, step_type, loop, is_store=False)
        self.out.declared["@llvm.prefetch.p0"] = "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"
        apart = max(1, LINE // (loop.lanes * p.SIZE[self.nest.operands[s.operand].code]))
        for at in pointers[::apart]:
            self.scopes[-1].lines.append(f"  call void @llvm.prefetch.p0(ptr {at}, i32 0, i32 3, i32 1)")

    def fetch_ahead(self, loop: VectorLoop, distance: int, walkers: list[str]) -> list[str]:
        """One request for every cache line of the streams `walkers` that an iteration moves over."""
        lines: list[str] = []
        self.out.declared["@llvm.prefetch.p0"] = "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"
        for walker, _, step in loop.pointers:
            if walker not in walkers:
                continue
            for line in range(0, int(step) if step.isdigit() else LINE, LINE):
                at = self.offset_pointer(lines, walker, distance + line)
                lines.append(f"  call void @llvm.prefetch.p0(ptr {at}, i32 0, i32 3, i32 1)")
        return lines

    def block_span(self, loop: VectorLoop, stop: Reg) -> str:
        """Distance from the first to the last iteration of a block: about the square root of the loop's length,
        so that neither the blocks nor the sum over blocks is long."""
        out, lines = self.out, loop.guard.lines
        name = "@llvm.ctlz.i64"
        out.declared[name] = f"declare i64 {name}(i64, i1)"
        count = out.emit(lines, f"sub i64 {stop.parts[0]}, {loop.start.parts[0]}")
        zeros = out.emit(lines, f"call i64 {name}(i64 {count}, i1 false)")
        # (64 - log2(width) - zeros) / 2 halves the exponent of the number of iterations; at least 32 of them.
        bits = out.emit(lines, f"sub i64 {64 - (loop.width.bit_length() - 1)}, {zeros}")
        half = out.emit(lines, f"ashr i64 {bits}, 1")
        few = out.emit(lines, f"icmp slt i64 {half}, 5")
        half = out.emit(lines, f"select i1 {few}, i64 5, i64 {half}")
        block = out.emit(lines, f"shl i64 {loop.width}, {half}")
        return out.emit(lines, f"sub i64 {block}, {loop.width}")

    def blocked_text(
        self, s: Reduce, loop: VectorLoop, scope: Scope, top: str, entry: str, before: str, done: str, limit: str,
        span: str, steps: list[tuple[str, str, str, str]], init: dict[str, Reg], phis: dict[str, Reg],
        finals: dict[str, Reg],
    ) -> dict[str, Reg]:
        """Two nested loops: a block of iterations folds into fresh accumulators, which merge into the running ones."""
        out, lines = self.out, loop.guard.lines
        fold = out.label()
        running = {acc: self.phi_names(reg, loop.lanes, loop.unroll, loop.guard.depth) for acc, reg in init.items()}
        outer = [(out.fresh(), *step) for step in steps]
        # The fold's text is made first: the phis above it need the names it defines.
        position, outer_label = len(lines), loop.guard.label
        loop.guard.label = fold
        total = self.merge(s, running, finals)
        folded, fold_label = lines[position:], loop.guard.label
        del lines[position:]
        loop.guard.label = outer_label
        lines.append(f"{entry}:")
        for name, _, ty, first, moved in outer:
            lines.append(f"  {name} = phi {ty} [ {first}, %{before} ], [ {moved}, %{fold_label} ]")
        for acc in init:
            lines.extend(self.phi_lines(running[acc], init[acc], before, total[acc], fold_label))
        end = out.emit(lines, f"add nsw i64 {outer[0][0]}, {span}")
        near = out.emit(lines, f"icmp slt i64 {end}, {limit}")
        end = out.emit(lines, f"select i1 {near}, i64 {end}, i64 {limit}")
        lines += [f"  br label %{top}", f"{top}:"]
        for outer_name, name, ty, _, moved in outer:
            lines.append(f"  {name} = phi {ty} [ {outer_name}, %{entry} ], [ {moved}, %{scope.label} ]")
        for acc in init:
            lines.extend(self.phi_lines(phis[acc], init[acc], entry, finals[acc], scope.label))
        test = out.emit(scope.lines, f"icmp sle i64 {steps[0][3]}, {end}")
        lines += [*scope.lines, f"  br i1 {test}, label %{top}, label %{fold}", f"{fold}:", *folded]
        test = out.emit(lines, f"icmp sle i64 {steps[0][3]}, {limit}")
        lines.append(f"  br i1 {test}, label %{entry}, label %{done}")
        return total

    # Merging partial results

    def merge(self, s: Reduce, a: dict[str, Reg], b: dict[str, Reg]) -> dict[str, Reg]:
        """The nest's merge of two sets of accumulators, emitted at the end of the current scope."""
        names = {}
        for acc in s.accs:
            names[acc + ".a"], names[acc + ".b"] = a[acc], b[acc]
        self.env.update(names)
        self.forget(set(names))
        here = self.scopes[-1]
        floor, self.floor = self.floor, here.depth
        memo = dict(here.memo)
        results = {acc: self.evaluate(value) for acc, value in zip(s.accs, s.merge, strict=True)}
        lanes, count = a[s.accs[0]].lanes, len(a[s.accs[0]].parts)
        results = {acc: self.widen(reg, lanes, count) for acc, reg in results.items()}
        self.floor = floor
        here.memo = memo  # later text of this scope also runs when the vector loop did not
        for name in names:
            del self.env[name]
        return results

    def merge_lanes(self, s: Reduce, accs: dict[str, Reg], lanes: int) -> dict[str, Reg]:
        """Unrolled parts, then halves of vectors, down to one scalar: always in the same order."""
        count = len(next(iter(accs.values())).parts)
        while count > 1:
            half = count // 2
            accs = self.merge(s, self.piece(accs, slice(0, half)), self.piece(accs, slice(half, count)))
            count = half
        while lanes > 1:
            lanes //= 2
            accs = self.merge(s, self.half_vectors(accs, lanes, 0), self.half_vectors(accs, lanes, lanes))
        return accs

    def piece(self, accs: dict[str, Reg], which: slice) -> dict[str, Reg]:
        return {
            acc: Reg(r.code, r.lanes, r.parts[which], r.depth, imag=None if r.imag is None else r.imag[which])
            for acc, r in accs.items()
        }

    def half_vectors(self, accs: dict[str, Reg], lanes: int, first: int) -> dict[str, Reg]:
        lines, depth = self.scopes[-1].lines, self.scopes[-1].depth
        result = {}
        for acc, reg in accs.items():
            ty = p.type_of(p.PARTS.get(reg.code, reg.code), 2 * lanes)

            def take(name: str, ty: str = ty) -> str:
                if lanes == 1:
                    return self.out.emit(lines, f"extractelement {ty} {name}, i32 {first}")
                order = ", ".join(f"i32 {first + k}" for k in range(lanes))
                return self.out.emit(lines, f"shufflevector {ty} {name}, {ty} poison, <{lanes} x i32> <{order}>")

            imag = None if reg.imag is None else [take(reg.imag[0])]
            result[acc] = Reg(reg.code, 0 if lanes == 1 else lanes, [take(reg.parts[0])], depth, imag=imag)
        return result
