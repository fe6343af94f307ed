"""Nests as GPU kernels: which loops are shared among blocks and threads, and how partial results meet.

Enters: a nest written for [begin, end) slices. Leaves: LLVM IR text of a kernel for NVPTX. Operands and parameters are
the kernel's arguments, by value, in the nest's order, then begin and end:

    kernel(ptr p0, ptr p1, ..., i64 param0, ..., i64 begin, i64 end)

`sharing(nest)` says how the loops are divided, which is what a launch has to know:

    POINTS    pointwise: rows over the grid's y, elements of a row over all threads along x
    ROWS      a block for each row (blocks along x take every n-th), whose loops and reductions its threads share
    THREADS   a thread for each iteration of the outermost loop

Any grid is right for any sizes; blocks of ROWS must hold whole warps (a multiple of 32 threads, at most 1024).
Refuses: combining stores without an atomic instruction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...loops.expr import Value, cast, const, eq, idiv, irem, min_, replace, var
from ...loops.nest import Assign, Check, For, If, Local, Nest, Reduce, Statement, Store
from ..llvm.lower import Lowering, assigned_names, expand_calls
from ..text import primitives as p
from ..text.registers import Reg
from ..text.targets import Target
from .vectors import base_of, definitions, read_in_vectors, vector_form

POINTS, ROWS, THREADS = "points", "rows", "threads"
WARP = 32
AT_ONCE = 4      # elements of a row that a thread has under way
TOGETHER = 2     # vectors of several operands of a row, likewise
ALWAYS_FIT = 256  # threads of a block: all registers that a thread can name, 255, are there for each
BARRIER = "@llvm.nvvm.barrier.cta.sync.aligned.all"


def bounded(text: str, name: str, threads: int) -> str:
    """LLVM IR of a kernel whose blocks have at most so many threads, for each of which there must be registers. Said in
    metadata, which every LLVM reads; not of small blocks, since a driver that is told spends registers until fewer
    blocks fit a unit (bfloat16 layer_norm of 8192 columns: 3.6 TB/s untold, 2.8 told)."""
    if threads <= ALWAYS_FIT:
        return text
    number = text.count("\n!")      # lines of metadata, from 0
    return f'{text}!nvvm.annotations = !{{!{number}}}\n!{number} = !{{ptr @{name}, !"maxntidx", i32 {threads}}}\n'


def sharing(nest: Nest) -> str:
    """How the nest's loops are divided among blocks and threads."""
    body = nest.loop.body
    if nest.point and len(body) == 1 and isinstance(body[0], For):
        return POINTS
    return ROWS if not nest.loop.vector and shared_by_block(body) else THREADS


def shared_by_block(body: Sequence[Statement]) -> list[For | Reduce]:
    """The loops of a row that threads share, if each statement is one of independent steps, a reduction in any order,
    the same for all threads, or a loop of such statements that all threads go through together; otherwise none."""
    found: list[For | Reduce] = []
    for s in body:
        if isinstance(s, (Local, Assign, Store, Check)):
            continue
        if isinstance(s, (For, Reduce)) and s.vector and not assigned_names(s.body):
            found.append(s)
            continue
        inside = shared_by_block(s.body) if isinstance(s, For) and not s.vector else []
        if not inside:
            return []
        found += inside
    return found


def lower_for_gpu(nest: Nest, target: Target, in_vectors: bool = False, peels: bool = False) -> str:
    """LLVM IR text of the kernel; named calls are expanded first. `in_vectors`: what `vector_form` asks for holds,
    or with `peels` what `peel_form` asks for: loops start with single elements."""
    return GpuLowering(expand_calls(nest, target), target, in_vectors, peels).text()


def initial(s: For | Reduce) -> tuple[Value, ...]:
    """What a reduction starts with; nothing for a loop."""
    return tuple(s.init) if isinstance(s, Reduce) else ()


def renamed(value: Value, s: Reduce, names: Sequence[str]) -> Value:
    """A step of a reduction whose accumulators have other names."""
    return replace(
        value, {var(acc, v.dtype): var(name, v.dtype) for acc, name, v in zip(s.accs, names, s.init, strict=True)}
    )


def whole_groups(count: Value, group: Value) -> Value:
    """How many groups of some threads' elements there are among the first 2 ** 31: what a loop over groups leaves, one
    over single elements does. A quotient of 32 bits; one of 64 takes the driver longer to compile than many a kernel.
    """
    return cast(idiv(cast(min_(count, const(2**31 - 1, "i64")), "i32"), cast(group, "i32")), "i64")


class GpuLowering(Lowering):
    """The lowering of one nest whose loops threads share."""

    def __init__(self, nest: Nest, target: Target, in_vectors: bool = False, peels: bool = False) -> None:
        self.sharing = sharing(nest)
        self.shared_loops = (
            nest.loop.body
            if self.sharing == POINTS
            else shared_by_block(nest.loop.body) if self.sharing == ROWS else ()
        )
        self.vector = vector_form(nest, self.shared_loops)[0] if in_vectors and self.sharing == ROWS else 1
        self.peels = peels
        self.is_inside = False     # a loop that threads share: what is there is one thread's
        self.is_alone = False      # a branch of one thread
        self.grouped: For | None = None   # the loop over several points at once, and the name of a point
        self.grouped_var = ""
        self.grouped_places: list[Value] = []
        self.grouped_loop: For | Reduce | None = None    # one that goes in vectors
        self.grouped_names: tuple[str, ...] = ()
        super().__init__(nest, target)

    def tile(self, s: Statement) -> None:
        raise NotImplementedError(
            f"codegen: {self.nest.name} multiplies matrices in tiles, which GPU kernels have none of yet"
        )

    # Arguments and threads

    def signature(self) -> str:
        pointers = [f"ptr %p{k}" for k, operand in enumerate(self.nest.operands) if not operand.stack]
        return ", ".join([*pointers, *(f"i64 %a{k}" for k in range(len(self.nest.params))), "i64 %begin", "i64 %end"])

    def read_arguments(self) -> None:
        for k, name in enumerate(self.nest.params):
            self.env[name] = Reg("i64", 0, [f"%a{k}"], 0)
        entry = self.scopes[0].lines
        self.env["thread"] = Reg("i64", 0, [self.special(entry, "tid.x")], 0)
        self.env["threads"] = Reg("i64", 0, [self.special(entry, "ntid.x")], 0)

    def special(self, lines: list[str], register: str) -> str:
        """A special register of the thread, widened."""
        name = f"@llvm.nvvm.read.ptx.sreg.{register}"
        self.out.declared[name] = f"declare i32 {name}()"
        return self.out.emit(lines, f"zext i32 {self.out.emit(lines, f'call i32 {name}()')} to i64")

    # Loops

    def loop_range(self, s: For | Reduce, outer: bool, start: Reg) -> tuple[Reg, str]:
        """First element and step of this thread, or of its block."""
        entry = self.scopes[0].lines
        thread, threads = self.env["thread"].parts[0], self.env["threads"].parts[0]
        if outer and self.sharing != THREADS:
            axis = "y" if self.sharing == POINTS else "x"
            first, step = self.special(entry, f"ctaid.{axis}"), self.special(entry, f"nctaid.{axis}")
        elif outer or (self.is_shared(s) and self.sharing == POINTS):
            block = self.out.emit(entry, f"mul i64 {self.special(entry, 'ctaid.x')}, {threads}")
            first = self.out.emit(entry, f"add i64 {block}, {thread}")
            step = self.out.emit(entry, f"mul i64 {self.special(entry, 'nctaid.x')}, {threads}")
        elif self.is_shared(s):
            first, step = thread, threads
        else:
            return start, "1"
        here = self.scopes[-1]
        return Reg("i64", 0, [self.out.emit(here.lines, f"add i64 {start.parts[0]}, {first}")], here.depth), step

    def is_shared(self, s: For | Reduce) -> bool:
        return not self.is_inside and any(s is one for one in self.shared_loops)

    def loop(self, s: For | Reduce, outer: bool = False) -> None:
        if outer or not self.is_shared(s):
            alone = self.sharing == THREADS and isinstance(s, Reduce) and not s.body
            super().loop(self.several_at_once(s, alone=True) if alone else s, outer)
            return
        if self.sharing == POINTS:
            plain = all(isinstance(one, Store) and one.combine == "set" for one in s.body)
            super().loop(self.several_points(s) if plain else s)
            return
        if isinstance(s, Reduce):
            first = {acc: self.evaluate(value) for acc, value in zip(s.accs, s.init, strict=True)}
            super().loop(s if s.body else self.in_vectors(s) if self.vector > 1 else self.several_at_once(s))
            self.merge_block(s, first)
            self.forget(set(s.accs))
        else:
            super().loop(self.in_vectors(s) if self.vector > 1 else s)
        self.meet()   # what one thread stored, another may load in the next loop

    def several_at_once(self, s: Reduce, alone: bool = False) -> Reduce:
        """Most of a reduction, several elements a step, so that as many loads are under way; the rest of it is
        returned. `alone`: by one thread."""
        thread, threads = (const(0, "i64"), const(1, "i64")) if alone else (var("thread"), var("threads"))
        group = threads * const(AT_ONCE, "i64")
        whole = idiv(s.stop - s.start, group) if alone else whole_groups(s.stop - s.start, group)
        names = [f"{acc}.most" for acc in s.accs]
        now = [var(name, value.dtype) for name, value in zip(names, s.init, strict=True)]
        accs = [var(acc, value.dtype) for acc, value in zip(s.accs, s.init, strict=True)]
        most = now
        for k in range(AT_ONCE):
            place = s.start + var(f"{s.var}.group") * group + threads * const(k, "i64") + thread
            most = [replace(value, {var(s.var): place, **dict(zip(accs, most, strict=True))}) for value in s.step]
        super().loop(Reduce(f"{s.var}.group", const(0, "i64"), whole, tuple(names), s.init, tuple(most), s.merge))
        rest = Reduce(s.var, s.start + whole * group, s.stop, s.accs, tuple(now), s.step, s.merge)
        self.short_loops.append(rest)
        if not alone:
            self.shared_loops = (*self.shared_loops, rest)
        return rest

    def in_vectors(self, s: For | Reduce) -> For | Reduce:
        """Most of a loop, neighbours side by side in vectors: several vectors a step, then single ones; what is left
        of it is returned. With `peels` the loop starts with the elements before the first that may start a vector."""
        zero, size, start, init = const(0, "i64"), const(self.vector, "i64"), s.start, initial(s)
        if self.peels:
            over = irem(replace(base_of(s, definitions(self.nest.loop.body)), {var(s.var): start}), size)
            start = min_(s.stop, start + irem(size - over, size))
            init = self.part(s, "head", s.start, start, init)
        count, threads = idiv(s.stop - start, size), var("threads")
        together = AT_ONCE if len(read_in_vectors(s, definitions(self.nest.loop.body))) == 1 else TOGETHER
        group = threads * const(together, "i64")
        groups = whole_groups(count, group)
        places = [var("thread") + threads * const(k, "i64") for k in range(together)]
        turn = var(f"{s.var}.group")
        init = self.vectors(s, "group", zero, groups, init, [start + (turn * group + at) * size for at in places])
        one = start + var(f"{s.var}.one") * size
        init = self.vectors(s, "one", groups * group, count, init, [one], shared=True)
        start = start + count * size
        if isinstance(s, Reduce):
            rest: For | Reduce = Reduce(s.var, start, s.stop, s.accs, init, s.step, s.merge)
        else:
            rest = For(s.var, start, s.stop, s.body, s.vector)
        self.short_loops.append(rest)
        self.shared_loops = (*self.shared_loops, rest)
        return rest

    def part(
        self, s: For | Reduce, name: str, start: Value, stop: Value, init: tuple[Value, ...]
    ) -> tuple[Value, ...]:
        """Some elements of a loop, one by one; what a reduction has then."""
        names = self.names_of(s, name)
        result = (
            Reduce(s.var, start, stop, names, init, tuple([renamed(v, s, names) for v in s.step]), s.merge)
            if isinstance(s, Reduce)
            else For(s.var, start, stop, s.body, s.vector)
        )
        self.short_loops.append(result)
        self.shared_loops = (*self.shared_loops, result)
        super().loop(result)
        return tuple([var(n, v.dtype) for n, v in zip(names, init, strict=True)])

    def names_of(self, s: For | Reduce, name: str) -> tuple[str, ...]:
        return tuple([f"{acc}.{name}" for acc in s.accs]) if isinstance(s, Reduce) else ()

    def vectors(
        self, s: For | Reduce, name: str, start: Value, stop: Value, init: tuple[Value, ...], places: list[Value],
        shared: bool = False,
    ) -> tuple[Value, ...]:
        """A loop over vectors that start at `places`; its turns are all threads' or, `shared`, each one thread's."""
        names, turn = self.names_of(s, name), f"{s.var}.{name}"
        self.grouped = (
            Reduce(turn, start, stop, names, init, s.step, s.merge)
            if isinstance(s, Reduce)
            else For(turn, start, stop, s.body)
        )
        self.short_loops.append(self.grouped)     # as many loads under way as pay
        if shared:
            self.shared_loops = (*self.shared_loops, self.grouped)
        self.grouped_loop, self.grouped_places, self.grouped_names = s, places, names
        inside, self.is_inside = self.is_inside, not shared
        super().loop(self.grouped)
        self.is_inside = inside
        return tuple([var(n, v.dtype) for n, v in zip(names, init, strict=True)])

    def vector_steps(self) -> None:
        """The body of such a loop: vectors are read, their elements worked on one by one, and results written."""
        s, places, names = self.grouped_loop, self.grouped_places, self.grouped_names
        loads = read_in_vectors(s, definitions(self.nest.loop.body))
        inside, self.is_inside = self.is_inside, True
        read = []
        for place in places:
            self.step_to(s.var, place)
            read.append({load: self.read_vector(load) for load in loads})
        if isinstance(s, Reduce):
            self.env.update({acc: self.env[name] for acc, name in zip(s.accs, names, strict=True)})
            self.forget(set(s.accs))
        for place, vectors in zip(places, read, strict=True):
            results: list[list[Reg]] = []
            for e in range(self.vector):
                self.step_to(s.var, place + const(e, "i64"))
                self.scopes[-1].memo.update({load: regs[e] for load, regs in vectors.items()})
                if isinstance(s, Reduce):
                    self.reduce_body(Reduce(s.var, s.start, s.stop, s.accs, s.init, s.step, s.merge))
                else:
                    results.append([self.evaluate(one.value) for one in s.body])
            self.step_to(s.var, place)
            for k, one in enumerate(s.body):
                self.write_vector(one, [values[k] for values in results])
        if isinstance(s, Reduce):
            self.env.update({name: self.env.pop(acc) for acc, name in zip(s.accs, names, strict=True)})
            self.forget({*s.accs, *names})
        del self.env[s.var]
        self.forget({s.var} | {("operand", one.operand) for one in s.body})
        self.is_inside = inside

    def step_to(self, name: str, place: Value) -> None:
        self.env[name] = self.evaluate(place)
        self.forget({name})

    def vector_pointer(self, operand: int, index: Value) -> str:
        offset, _, step_type = self.place(operand, index)
        return self.scalar_address(operand, self.evaluate(offset), step_type, self.scopes[-1].depth)

    def read_vector(self, load: Value) -> list[Reg]:
        """The elements of a vector, in accesses of at most 16 bytes."""
        here, out, code = self.scopes[-1], self.out, self.nest.operands[load.attr].code
        pointer, part, halves = (
            self.vector_pointer(load.attr, load.args[0]),
            p.PARTS.get(code, code),
            2 if code in p.PARTS else 1,
        )
        element, count, items = p.MEMORY[part], self.vector * halves, []
        each = min(count, 16 // p.SIZE[part])
        for first in range(0, count, each):
            at = self.offset_pointer(here.lines, pointer, first * p.SIZE[part])
            whole = out.emit(here.lines, f"load <{each} x {element}>, ptr {at}, align {each * p.SIZE[part]}")
            items += [
                out.emit(here.lines, f"extractelement <{each} x {element}> {whole}, i32 {e}") for e in range(each)
            ]
        if code == "b1":
            items = [out.emit(here.lines, f"icmp ne i8 {item}, 0") for item in items]
        if halves == 2:
            return [Reg(code, 0, [items[2 * e]], here.depth, imag=[items[2 * e + 1]]) for e in range(self.vector)]
        return [Reg(code, 0, [item], here.depth) for item in items]

    def write_vector(self, s: Store, values: list[Reg]) -> None:
        here, out, code = self.scopes[-1], self.out, self.nest.operands[s.operand].code
        pointer, part = self.vector_pointer(s.operand, s.index), p.PARTS.get(code, code)
        element = p.MEMORY[part]
        items = [item for reg in values for item in (reg.parts[0], *([reg.imag[0]] if code in p.PARTS else []))]
        if code == "b1":
            items = [out.emit(here.lines, f"zext i1 {item} to i8") for item in items]
        each = min(len(items), 16 // p.SIZE[part])
        for first in range(0, len(items), each):
            whole = "poison"
            for e in range(each):
                whole = out.emit(
                    here.lines, f"insertelement <{each} x {element}> {whole}, {element} {items[first + e]}, i32 {e}"
                )
            at = self.offset_pointer(here.lines, pointer, first * p.SIZE[part])
            here.lines.append(f"  store <{each} x {element}> {whole}, ptr {at}, align {each * p.SIZE[part]}")

    def several_points(self, s: For) -> For:
        """Most of a row's elements, several a step: all are read before any is written.
        The rest of the loop is returned."""
        first, threads = self.loop_range(s, False, Reg("i64", 0, ["0"], 0, is_literal=True))
        self.env["points.first"], self.env["points"] = first, Reg("i64", 0, [threads], 0)
        group = var("points") * const(AT_ONCE, "i64")
        whole = idiv(s.stop - s.start, group)
        self.grouped = For(f"{s.var}.group", const(0, "i64"), whole, s.body)
        self.grouped_var = s.var
        steps = [var("points") * const(k, "i64") + var("points.first") for k in range(AT_ONCE)]
        self.grouped_places = [s.start + var(f"{s.var}.group") * group + step for step in steps]
        super().loop(self.grouped)
        rest = For(s.var, s.start + whole * group, s.stop, s.body)
        self.shared_loops = (*self.shared_loops, rest)
        return rest

    def several_stores(self, s: For) -> None:
        """The body of such a loop."""
        name, result = self.grouped_var, []
        for place in self.grouped_places:
            self.env[name] = self.evaluate(place)
            self.forget({name})
            result.append((self.env[name], [self.evaluate(store.value) for store in s.body]))
        for place, values in result:
            self.env[name] = place
            self.forget({name})
            for store, reg in zip(s.body, values, strict=True):
                self.write_operand(store.operand, store.index, reg, store.combine)
        del self.env[name]
        self.forget({name} | {("operand", store.operand) for store in s.body})

    def loop_body(self, s: For | Reduce) -> None:
        """The steps of a shared loop are each one thread's."""
        if s is self.grouped:
            self.vector_steps() if self.grouped_loop is not None else self.several_stores(s)
            return
        inside, self.is_inside = self.is_inside, self.is_inside or any(s is one for one in self.shared_loops)
        super().loop_body(s)
        self.is_inside = inside

    def stores(self, group: list[Store]) -> None:
        """Stores of a whole row are its first thread's."""
        if self.sharing != ROWS or self.is_inside or self.is_alone:
            super().stores(group)
            return
        self.is_alone = True
        self.branch(If(eq(var("thread"), const(0, "i64")), tuple(group)))
        self.is_alone = False
        self.after_stores(group)

    def after_stores(self, group: Sequence[Store]) -> None:
        """What the first thread stored, others may load."""
        self.meet()

    # Where threads meet

    def meet(self) -> None:
        self.out.declared[BARRIER] = f"declare void {BARRIER}(i32)"
        self.scopes[-1].lines.append(f"  call void {BARRIER}(i32 0)")

    def merge_block(self, s: Reduce, first: dict[str, Reg]) -> None:
        """The block's threads' accumulators become one, which all of them get: by shuffles in each warp,
        then among the warps."""
        here, out = self.scopes[-1], self.out
        lane = out.emit(here.lines, f"and i64 {self.env['thread'].parts[0]}, {WARP - 1}")
        warp = out.emit(here.lines, f"lshr i64 {self.env['thread'].parts[0]}, 5")
        warps = out.emit(here.lines, f"lshr i64 {self.env['threads'].parts[0]}, 5")
        accs = self.merge_warp(s, {acc: self.env[acc] for acc in s.accs})
        places = self.shared_places(accs)
        self.keep_first(accs, places, lane, warp)
        self.meet()
        partial = self.partial_results(accs, places, first, lane, warps)
        merged = self.merge_warp(s, partial)
        self.env.update(
            {acc: self.each_half(reg, lambda ty, name: self.shuffle("idx", ty, name, 0)) for acc, reg in merged.items()}
        )

    def merge_warp(self, s: Reduce, accs: dict[str, Reg]) -> dict[str, Reg]:
        """Halves of a warp onto each other, down to its first thread."""
        distance = WARP // 2
        while distance:
            others = {
                acc: self.each_half(reg, lambda ty, name, by=distance: self.shuffle("down", ty, name, by))
                for acc, reg in accs.items()
            }
            accs = self.merge(s, accs, others)
            distance //= 2
        return accs

    def shared_places(self, accs: dict[str, Reg]) -> dict[tuple[str, str], str]:
        """An array in shared memory for each part of an accumulator, one element per warp."""
        places = {}
        for acc, reg in accs.items():
            for half in ("parts", "imag"):
                if getattr(reg, half) is None:
                    continue
                word = word_type(type_of_half(reg))
                name = places[acc, half] = self.array_name(word, len(places))
                self.out.declared[name] = f"{name} = internal addrspace(3) global [{WARP} x {word}] undef, align 8"
        return places

    def array_name(self, word: str, number: int) -> str:
        """What an array of words is called; arrays are shared by all reductions, which barriers separate."""
        return f"@shared.{word}.{number}"

    def keep_first(self, accs: dict[str, Reg], places: dict[tuple[str, str], str], lane: str, warp: str) -> None:
        """The first thread of each warp writes its result down."""
        here, out = self.scopes[-1], self.out
        inside, after = out.label(), out.label()
        is_first = out.emit(here.lines, f"icmp eq i64 {lane}, 0")
        words = {
            (acc, half): self.to_word(type_of_half(accs[acc]), getattr(accs[acc], half)[0]) for acc, half in places
        }
        here.lines += [f"  br i1 {is_first}, label %{inside}, label %{after}", f"{inside}:"]
        for key, place in places.items():
            word = word_type(type_of_half(accs[key[0]]))
            at = out.emit(here.lines, f"getelementptr {word}, ptr addrspace(3) {place}, i64 {warp}")
            here.lines.append(f"  store {word} {words[key]}, ptr addrspace(3) {at}, align {4 if word == 'i32' else 8}")
        here.lines += [f"  br label %{after}", f"{after}:"]
        here.label = after

    def partial_results(
        self, accs: dict[str, Reg], places: dict[tuple[str, str], str], first: dict[str, Reg], lane: str, warps: str
    ) -> dict[str, Reg]:
        """Each thread of a warp takes one warp's result; those without one take what is neutral."""
        here, out = self.scopes[-1], self.out
        has_one = out.emit(here.lines, f"icmp ult i64 {lane}, {warps}")
        results: dict[str, dict[str, list[str]]] = {acc: {} for acc in accs}
        for (acc, half), place in places.items():
            ty = type_of_half(accs[acc])
            word = word_type(ty)
            at = out.emit(here.lines, f"getelementptr {word}, ptr addrspace(3) {place}, i64 {lane}")
            loaded = out.emit(here.lines, f"load {word}, ptr addrspace(3) {at}, align {4 if word == 'i32' else 8}")
            value = self.from_word(ty, loaded)
            results[acc][half] = [
                out.emit(here.lines, f"select i1 {has_one}, {ty} {value}, {ty} {getattr(first[acc], half)[0]}")
            ]
        return {
            acc: Reg(accs[acc].code, 0, halves["parts"], here.depth, imag=halves.get("imag"))
            for acc, halves in results.items()
        }

    def each_half(self, reg: Reg, change: Callable[[str, str], str]) -> Reg:
        ty, depth = type_of_half(reg), self.scopes[-1].depth
        imag = None if reg.imag is None else [change(ty, name) for name in reg.imag]
        return Reg(reg.code, 0, [change(ty, name) for name in reg.parts], depth, imag=imag)

    # Shuffles move words of 32 bits

    def shuffle(self, how: str, ty: str, name: str, by: int) -> str:
        """The value of another thread of the warp: `by` further on (down), or number `by` (idx)."""
        lines, word = self.scopes[-1].lines, self.to_word(ty, name)
        if word_type(ty) == "i32":
            return self.from_word(ty, self.shuffle_word(how, word, by))
        low = self.out.emit(lines, f"trunc i64 {word} to i32")
        high = self.out.emit(lines, f"trunc i64 {self.out.emit(lines, f'lshr i64 {word}, 32')} to i32")
        low, high = (
            self.out.emit(lines, f"zext i32 {self.shuffle_word(how, half, by)} to i64") for half in (low, high)
        )
        joined = self.out.emit(lines, f"or i64 {self.out.emit(lines, f'shl i64 {high}, 32')}, {low}")
        return self.from_word(ty, joined)

    def shuffle_word(self, how: str, word: str, by: int) -> str:
        name = f"@llvm.nvvm.shfl.sync.{how}.i32"
        self.out.declared[name] = f"declare i32 {name}(i32, i32, i32, i32)"
        return self.out.emit(self.scopes[-1].lines, f"call i32 {name}(i32 -1, i32 {word}, i32 {by}, i32 {WARP - 1})")

    def to_word(self, ty: str, name: str) -> str:
        """A register's bits as i32, or as i64 where they are as many."""
        lines, bits = self.scopes[-1].lines, BITS[ty]
        if ty in ("float", "double", "half", "bfloat"):
            name = self.out.emit(lines, f"bitcast {ty} {name} to i{bits}")
        return name if bits >= 32 else self.out.emit(lines, f"zext i{bits} {name} to i32")

    def from_word(self, ty: str, name: str) -> str:
        lines, bits = self.scopes[-1].lines, BITS[ty]
        if bits < 32:
            name = self.out.emit(lines, f"trunc i32 {name} to i{bits}")
        return (
            self.out.emit(lines, f"bitcast i{bits} {name} to {ty}")
            if ty in ("float", "double", "half", "bfloat")
            else name
        )


BITS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "half": 16, "bfloat": 16, "float": 32, "double": 64}


def type_of_half(reg: Reg) -> str:
    """The LLVM type of a register, or of one part of a complex one."""
    return p.type_of(p.PARTS.get(reg.code, reg.code), 0)


def word_type(ty: str) -> str:
    return "i64" if BITS[ty] == 64 else "i32"


__all__: Sequence[str] = [
    "POINTS", "ROWS", "THREADS", "GpuLowering", "bounded", "lower_for_gpu", "shared_by_block", "sharing",
]
