"""Rows that a block keeps in registers: each element is read once, however often its row is gone through.

Enters: a nest whose loops over a row all have the same range (`held_form`), and a `Held`: how many vectors a thread
takes, whether they are the whole row exactly, and whether the block is one warp. Leaves: LLVM IR text of a kernel as
nvptx/lower.py describes them, without loops over the row: a thread's elements are written out one by one, and what was
computed for one of them in one loop is there in the next. One warp needs neither shared memory nor barriers.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...loops.expr import Value, const, is_const, lt, replace, select, var, walk
from ...loops.nest import For, Nest, Reduce, Store, values_of
from ...loops.record import Record
from ..llvm.lower import expand_calls
from ..text.registers import Reg, Scope
from ..text.targets import Target
from .lower import GpuLowering, shared_by_block, type_of_half
from .vectors import accesses, coefficient, definitions, read_in_vectors, vector_form

MOST_VECTORS = 8      # that a thread takes
REGISTERS = 96        # elements of all operands that it keeps
LONGEST = 8000        # operations in a thread's text
RARE = frozenset(("sin", "cos", "tan", "lgamma", "digamma", "fmod", "gcd", "lcm"))     # long, and with branches
LANE = "lane"         # the place in a row of the element at hand


class Held(Record):
    """What a variant depends on."""

    vectors: int          # of a thread
    exact: bool           # the threads' vectors are the row; otherwise those behind its end are left out
    is_warp: bool         # a block is one warp


def held_form(nest: Nest, loops: Sequence[For | Reduce]) -> int:
    """How many vectors of a row a thread can keep; 0 where the nest has no such form."""
    size = vector_form(nest, loops)[0]
    if size == 1 or any(not is_const(s.start, 0) or s.stop is not loops[0].stop for s in loops):
        return 0
    if not all(any(s is one for one in nest.loop.body) for s in loops):
        return 0
    stop = loops[0].stop
    if stop.op != "var" or stop.attr not in nest.params:
        return 0
    known, moving, work = definitions(nest.loop.body), set(), 0
    for s in loops:
        stores = [one for one in s.body if isinstance(one, Store)]
        for operand, index in accesses(s, stores):
            if coefficient(index, s.var, known) == 1:
                moving.add((operand, replace(index, {var(s.var): var(LANE)})))
        values = [*(s.step if isinstance(s, Reduce) else ()), *[one.value for one in stores]]
        inside = walk(values)
        if any(v.op == "call" and v.attr.partition(":")[0] in RARE for v in inside):
            return 0
        work += sum(24 if v.op == "call" else 1 for v in inside)
    stored = {one.operand for s in loops for one in s.body if isinstance(one, Store)}
    read = max(1, len({place for place in moving if place[0] not in stored}))
    return max(0, min(MOST_VECTORS, REGISTERS // (size * read), LONGEST // (size * max(1, work))))


def lower_held(nest: Nest, target: Target, held: Held) -> str:
    """LLVM IR text of the kernel; named calls are expanded first."""
    return HeldLowering(expand_calls(nest, target), target, held).text()


class HeldLowering(GpuLowering):
    """The lowering of one nest whose rows are kept."""

    def __init__(self, nest: Nest, target: Target, held: Held) -> None:
        self.held = held
        self.at: tuple[int, int] | None = None                        # which vector, and which of its elements
        self.kept: dict[tuple[int, int], dict[Value, Reg]] = {}       # what is known of each element
        self.kept_in: Scope | None = None
        self.inside: list[Reg] = []                                   # whether each vector is part of the row
        self.arrays = 0
        self.read_somewhere = {v.attr for v in walk(values_of(nest)) if v.op == "load"}
        super().__init__(nest, target, in_vectors=True)

    def loop(self, s: For | Reduce, outer: bool = False) -> None:
        if outer or not self.is_shared(s):
            super().loop(s, outer)
            return
        self.start_row()
        known = definitions(self.nest.loop.body)
        renamed = {var(s.var): var(LANE)}
        loads = [replace(load, renamed) for load in read_in_vectors(s, known)]
        self.read_vectors(loads)
        if isinstance(s, Reduce):
            self.fold(s, [replace(value, renamed) for value in s.step])
        else:
            stores = [Store(one.operand, replace(one.index, renamed), replace(one.value, renamed)) for one in s.body]
            self.write_vectors(stores)
        self.leave_element()

    def loop_body(self, s: For | Reduce) -> None:
        super().loop_body(s)
        if s is self.nest.loop and not self.held.is_warp:
            self.meet()       # the next row's partial results go where this one's were

    # Elements

    def start_row(self) -> None:
        """Where each vector of a thread starts, once for all loops of a row."""
        here = self.scopes[-1]
        if self.kept_in is here:
            return
        self.kept_in, self.kept, self.inside = here, {}, []
        size = const(self.vector, "i64")
        stop = shared_by_block(self.nest.loop.body)[0].stop
        for k in range(self.held.vectors):
            place = (var("threads") * const(k, "i64") + var("thread")) * size
            if not self.held.exact:
                is_inside = lt(place, stop)
                self.inside.append(self.evaluate(is_inside))
                place = select(is_inside, place, const(0, "i64"))
            for e in range(self.vector):
                reg = self.evaluate(place + const(e, "i64") if e else place)
                self.kept[k, e] = {var(LANE): Reg("i64", 0, reg.parts, here.depth)}

    def go_to(self, k: int, e: int) -> None:
        """Work on an element, with what is known of it."""
        self.leave_element()
        self.at = k, e
        known = self.kept[k, e]
        self.env[LANE] = known[var(LANE)]
        self.scopes[-1].memo.update({v: reg for v, reg in known.items() if v.op != "var"})

    def leave_element(self) -> None:
        """Put away what is known of the element at hand."""
        if self.at is None:
            return
        memo = self.scopes[-1].memo
        own = {v: reg for v, reg in memo.items() if isinstance(v, Value) and LANE in self.dependencies(v)}
        for v in own:
            del memo[v]
        self.kept[self.at] = {var(LANE): self.env.pop(LANE), **own}
        self.at = None

    def forget(self, changed: set) -> None:
        super().forget(changed)
        for known in self.kept.values():
            stale = [v for v in known if v.op != "var" and not changed.isdisjoint(self.dependencies(v))]
            for v in stale:
                del known[v]

    def read_vectors(self, loads: Sequence[Value]) -> None:
        """All vectors are under way before any is used."""
        for k in range(self.held.vectors):
            for load in loads:
                if load in self.kept[k, 0]:
                    continue
                self.go_to(k, 0)
                regs = self.read_vector(load)
                self.leave_element()
                for e, reg in enumerate(regs):
                    self.kept[k, e][load] = reg

    # Loops

    def fold(self, s: Reduce, step: Sequence[Value]) -> None:
        """Each vector's elements are folded on their own, then vectors, then threads."""
        first = {acc: self.evaluate(value) for acc, value in zip(s.accs, s.init, strict=True)}
        totals = []
        for k in range(self.held.vectors):
            self.env.update(first)
            self.forget(set(s.accs))
            for e in range(self.vector):
                self.go_to(k, e)
                results = [self.evaluate(value) for value in step]
                self.leave_element()
                self.env.update(zip(s.accs, results, strict=True))
                self.forget(set(s.accs))
            mine = {acc: self.env[acc] for acc in s.accs}
            totals.append(mine if self.held.exact else self.only_inside(mine, first, self.inside[k]))
        while len(totals) > 1:
            pairs = [self.merge(s, a, b) for a, b in zip(totals[0::2], totals[1::2], strict=False)]
            totals = [*pairs, *totals[2 * len(pairs) :]]
        self.env.update(totals[0])
        self.merge_block(s, first)
        self.forget(set(s.accs))

    def only_inside(self, folded: dict[str, Reg], first: dict[str, Reg], inside: Reg) -> dict[str, Reg]:
        """What was folded of a vector, or nothing where it is behind the row."""
        flag, lines = inside.parts[0], self.scopes[-1].lines

        def chosen(a: Reg, b: Reg) -> Reg:
            ty = type_of_half(a)
            halves = [
                None
                if mine is None
                else [self.out.emit(lines, f"select i1 {flag}, {ty} {mine[0]}, {ty} {other[0]}")]
                for mine, other in ((a.parts, b.parts), (a.imag, b.imag))
            ]
            return Reg(a.code, 0, halves[0], self.scopes[-1].depth, imag=halves[1])

        return {acc: chosen(reg, first[acc]) for acc, reg in folded.items()}

    def merge_block(self, s: Reduce, first: dict[str, Reg]) -> None:
        if not self.held.is_warp:
            super().merge_block(s, first)
            return
        merged = self.merge_warp(s, {acc: self.env[acc] for acc in s.accs})
        self.env.update(
            {acc: self.each_half(reg, lambda ty, name: self.shuffle("idx", ty, name, 0)) for acc, reg in merged.items()}
        )

    def array_name(self, word: str, number: int) -> str:
        """Arrays of their own for each reduction: no barrier is needed before they are written."""
        self.arrays += number == 0
        return f"@shared.{word}.{self.arrays}.{number}"

    def write_vectors(self, stores: Sequence[Store]) -> None:
        """All results are computed before any is written."""
        answers = []
        for k in range(self.held.vectors):
            answers.append([])
            for e in range(self.vector):
                self.go_to(k, e)
                answers[-1].append([self.evaluate(one.value) for one in stores])
        for k, results in enumerate(answers):
            self.go_to(k, 0)
            here = self.scopes[-1]
            inside, after = self.out.label(), self.out.label()
            scope = here if self.held.exact else self.push(inside, is_guard=True)
            for n, one in enumerate(stores):
                self.write_vector(one, [values[n] for values in results])
            if not self.held.exact:
                self.pop()
                here.lines += [f"  br i1 {self.inside[k].parts[0]}, label %{inside}, label %{after}", f"{inside}:"]
                here.lines += [*scope.lines, f"  br label %{after}", f"{after}:"]
                here.label = after
        self.leave_element()
        self.forget({("operand", one.operand) for one in stores})

    def after_stores(self, group: Sequence[Store]) -> None:
        """Others wait for what the first thread wrote only where they read it."""
        if any(one.operand in self.read_somewhere for one in group) and not self.held.is_warp:
            self.meet()


__all__ = ["Held", "held_form", "lower_held"]
