"""Folds down columns, as kernels whose blocks take a tile of columns and share its rows among their warps.

Enters: a nest of one thread for each result (nvptx/lower.py: THREADS) with one reduction in it, whose neighbouring
results fold neighbouring elements (`column_form`). Leaves: LLVM IR text of a kernel with the same arguments. A thread
takes a vector of 16 bytes of columns, so a warp reads whole lines of memory; the warps of a block take every n-th row,
and what they have meets in shared memory. A block has `WARPS` warps, or `FEW_WARPS` where a thread needs more registers
than so many leave it, and takes 32 vectors of columns; any grid that has a block for each such tile is right.
"""

from __future__ import annotations

from ...loops.expr import Value, and_, const, idiv, irem, lt, replace, rewrite, select, var, walk
from ...loops.nest import If, Local, Nest, Reduce, Store
from ..llvm.lower import expand_calls
from ..text import primitives as p
from ..text.registers import Reg
from ..text.targets import Target
from .lower import THREADS, WARP, GpuLowering, sharing, type_of_half, word_type
from .vectors import BYTES, MOST, coefficient, factors_of

WARPS = 16           # of a block
FEW_WARPS = 8        # of a narrower one: no fewer than a vector has elements, which as many threads store
ROWS_AT_ONCE = 8     # of a warp, whose loads are under way together
SHARED = 49152       # bytes of shared memory
NEAR, FAR = "columns.near", "columns.far"


def parts_of(nest: Nest) -> tuple[list[Local], Reduce, list[Store]] | None:
    """Names, the reduction, and stores of a nest, where it is made of those."""
    body = list(nest.loop.body)
    folds = [s for s in body if isinstance(s, Reduce)]
    if len(folds) != 1 or folds[0].body:
        return None
    at = body.index(folds[0])
    before, after = body[:at], body[at + 1 :]
    late = [s for s in after if isinstance(s, Local)]
    stores = after[len(late) :]
    plain = all(isinstance(s, Local) for s in before) and all(isinstance(s, Local) for s in after[: len(late)])
    if not plain or not stores or not all(isinstance(s, Store) and s.combine == "set" for s in stores):
        return None
    return [*before, *late], folds[0], stores


def column_form(nest: Nest) -> tuple[int, tuple[int, ...], frozenset[int]]:
    """(elements at once, numbers of the parameters that must be multiples of them, operands that go in vectors);
    1 where the nest has no such form."""
    none = 1, (), frozenset()
    found = parts_of(nest) if sharing(nest) == THREADS and nest.loop.vector else None
    if found is None:
        return none
    names, fold, _ = found
    known = {s.name: s.value for s in names}
    divisors: set[str] = set()
    moving: dict[Value, int] = {}
    factors: set[str] = set()
    for v in walk(fold.step):
        if v.op != "load":
            continue
        index = in_tile(whole(v.args[0], known), nest.loop.var, divisors)
        step = None if index is None else coefficient(index, NEAR, {})
        if step not in (0, 1):
            return none
        if step == 1:
            needed = factors_of(index, NEAR, nest.params, {})
            if needed is None:
                return none
            factors |= needed
            moving[v] = v.attr
    if not moving or not all(v.attr in known or v.attr in nest.params or v.attr in (fold.var, *fold.accs)
                             for v in walk(without(fold.step, moving)) if v.op == "var"):
        return none
    if any(depends(whole(v, known), nest.loop.var) for v in without(fold.step, moving)):
        return none
    size = min(MOST, BYTES // min(p.SIZE[nest.operands[k].code] for k in moving.values()))
    held = sum(p.SIZE[p.PARTS.get(v.dtype, v.dtype)] * (2 if v.dtype in p.PARTS else 1) for v in fold.init)
    if WARPS * WARP * size * max(4, held) > SHARED or len(fold.accs) * size > 64:
        return none
    numbers = tuple([k for k, name in enumerate(nest.params) if name in factors | divisors])
    return size, numbers, frozenset(moving.values())


def whole(value: Value, known: dict[str, Value]) -> Value:
    """An expression without the names of a nest."""
    while any(v.op == "var" and v.attr in known for v in walk((value,))):
        value = replace(value, {var(name, v.dtype): v for name, v in known.items()})
    return value


def without(values: tuple[Value, ...], loads: dict[Value, int]) -> list[Value]:
    """Expressions without some loads."""
    return [replace(v, {load: const(0, load.dtype) for load in loads}) for v in values]


def depends(value: Value, name: str) -> bool:
    return any(v.op == "var" and v.attr == name for v in walk((value,)))


def in_tile(index: Value, name: str, divisors: set[str]) -> Value | None:
    """An index by how far a result is from the first of its vector: remainders move with it, quotients do not, if what
    they are divided by is whole vectors. None where something else is divided."""
    item = var(name)

    def change(v: Value) -> Value | None:
        if v.op not in ("irem", "idiv") or not (v.args[0] is item or v.args[0] is var(NEAR)):
            return None
        if v.args[1].op != "var":
            return None
        divisors.add(v.args[1].attr)
        return var(NEAR) if v.op == "irem" else var(FAR)

    result = replace(rewrite((index,), change)[0], {item: var(NEAR)})
    divided = [v for v in walk((result,)) if v.op in ("irem", "idiv") and depends(v, NEAR)]
    return None if divided else result


def lower_columns(nest: Nest, target: Target, warps: int = WARPS) -> str:
    """LLVM IR text of the kernel for blocks of so many warps; named calls are expanded first."""
    return ColumnLowering(expand_calls(nest, target), target, warps).text()


class ColumnLowering(GpuLowering):
    """The lowering of one such nest."""

    def __init__(self, nest: Nest, target: Target, warps: int) -> None:
        self.warps = warps
        super().__init__(nest, target)

    def block(self, body: tuple, outer: bool = False) -> None:
        if not outer:
            super().block(body)
            return
        self.vector, _, self.moving = column_form(self.nest)
        self.names, self.fold, self.last = parts_of(self.nest)
        entry = self.scopes[0].lines
        thread = self.env["thread"].parts[0]
        self.lane = self.out.emit(entry, f"and i64 {thread}, {WARP - 1}")
        self.warp = self.out.emit(entry, f"lshr i64 {thread}, 5")
        first = self.out.emit(entry, f"mul i64 {self.special(entry, 'ctaid.x')}, {WARP}")
        self.env["tile"] = Reg("i64", 0, [first], 0)
        self.env["lane"], self.env["warp"] = (Reg("i64", 0, [name], 0) for name in (self.lane, self.warp))
        size = const(self.vector, "i64")
        mine = var("begin") + (var("tile") + var("lane")) * size
        self.go_to(select(lt(mine, var("end")), mine, var("begin")))
        self.fold_rows()
        self.meet_in_memory()

    def go_to(self, item: Value) -> None:
        """Work on a result: its number, and the names that follow from it."""
        self.env[self.nest.loop.var] = self.evaluate(item)
        self.forget({self.nest.loop.var})
        accs = set(self.fold.accs)
        for s in self.names:
            if accs.isdisjoint(v.attr for v in walk((s.value,)) if v.op == "var") or accs <= self.env.keys():
                self.env[s.name] = self.evaluate(s.value)
                self.forget({s.name})

    # Rows

    def fold_rows(self) -> None:
        """Several rows a turn, then single ones; a warp's every n-th of n warps."""
        s, warps = self.fold, const(self.warps, "i64")
        moved = sum(1 for v in walk(s.step) if v.op == "load")
        each = ROWS_AT_ONCE if moved <= 2 else 2
        group = const(self.warps * each, "i64")
        turns = idiv(s.stop - s.start, group)
        turn = var("columns.turn")
        self.columns = [[f"{acc}.{e}" for acc in s.accs] for e in range(self.vector)]
        names = tuple([name for one in self.columns for name in one])
        self.places = [s.start + turn * group + warps * const(k, "i64") + var("warp") for k in range(each)]
        self.turning = Reduce(turn.attr, const(0, "i64"), turns, names, s.init * self.vector, s.step, s.merge)
        self.loop(self.turning)
        now = tuple([var(name, v.dtype) for name, v in zip(names, s.init * self.vector, strict=True)])
        rest = s.start + turns * group
        self.places = [var("columns.row")]
        self.turning = self.single = Reduce("columns.row", rest, s.stop, names, now, s.step, s.merge)
        self.loop(self.turning)

    def loop_range(self, s: Reduce, outer: bool, start: Reg) -> tuple[Reg, str]:
        if s is not getattr(self, "single", None):
            return start, "1"
        here = self.scopes[-1]
        first = self.out.emit(here.lines, f"add i64 {start.parts[0]}, {self.warp}")
        return Reg("i64", 0, [first], here.depth), str(self.warps)

    def loop(self, s: Reduce, outer: bool = False) -> None:
        super(GpuLowering, self).loop(s, outer)

    def loop_body(self, s: Reduce) -> None:
        """The rows at `places`: all are read, then folded element by element."""
        fold, operands = self.fold, {("operand", k) for k in self.moving}
        loads = [v for v in walk(fold.step) if v.op == "load" and v.attr in self.moving and self.moves(v)]
        rows = []
        for place in self.places:
            self.step_to(fold.var, place)
            rows.append({load: self.read_vector(load) for load in loads})
        for place, vectors in zip(self.places, rows, strict=True):
            self.step_to(fold.var, place)
            for e, names in enumerate(self.columns):
                self.env.update({acc: self.env[name] for acc, name in zip(fold.accs, names, strict=True)})
                self.forget({*fold.accs, *operands})
                self.scopes[-1].memo.update({load: regs[e] for load, regs in vectors.items()})
                results = [self.evaluate(value) for value in fold.step]
                self.env.update(zip(names, results, strict=True))
                self.forget(set(names))
        for acc in fold.accs:
            del self.env[acc]
        del self.env[fold.var]
        self.forget({fold.var, *fold.accs, *operands})

    def moves(self, load: Value) -> bool:
        index = in_tile(whole(load.args[0], {s.name: s.value for s in self.names}), self.nest.loop.var, set())
        return coefficient(index, NEAR, {}) == 1

    # Results

    def meet_in_memory(self) -> None:
        """Warps write down what they have of each column; then a thread for each column merges and stores."""
        s, here, out = self.fold, self.scopes[-1], self.out
        accs = [{acc: self.env[name] for acc, name in zip(s.accs, names, strict=True)} for names in self.columns]
        places = {}
        for acc, reg in accs[0].items():
            for half in ("parts", "imag") if reg.imag is not None else ("parts",):
                word = word_type(type_of_half(reg))
                name = places[acc, half] = f"@columns.{word}.{len(places)}"
                count = self.warps * WARP * self.vector
                out.declared[name] = f"{name} = internal addrspace(3) global [{count} x {word}] undef, align 8"
        for e, mine in enumerate(accs):
            at = self.place_of(self.warp, str(e), self.lane)
            for (acc, half), place in places.items():
                ty = type_of_half(mine[acc])
                word = word_type(ty)
                value = self.to_word(ty, getattr(mine[acc], half)[0])
                spot = out.emit(here.lines, f"getelementptr {word}, ptr addrspace(3) {place}, i64 {at}")
                here.lines.append(f"  store {word} {value}, ptr addrspace(3) {spot}, align {BYTES_OF[word]}")
        self.meet()
        thread, size = var("thread"), const(self.vector, "i64")
        column, element = irem(thread, const(WARP, "i64")), idiv(thread, const(WARP, "i64"))
        item = var("begin") + (var("tile") + column) * size + element
        is_mine = and_(lt(thread, const(WARP * self.vector, "i64")), lt(item, var("end")))
        self.results = places, accs[0], item
        self.branch(If(is_mine, tuple(self.last)))

    def place_of(self, warp: str, element: str, lane: str) -> str:
        lines, out = self.scopes[-1].lines, self.out
        row = out.emit(lines, f"add i64 {out.emit(lines, f'mul i64 {warp}, {self.vector}')}, {element}")
        return out.emit(lines, f"add i64 {out.emit(lines, f'mul i64 {row}, {WARP}')}, {lane}")

    def stores(self, group: list[Store]) -> None:
        """A column's partial results in the order of the warps, then its stores."""
        places, like, item = self.results
        s, out, lines = self.fold, self.out, self.scopes[-1].lines
        element = out.emit(lines, f"lshr i64 {self.env['thread'].parts[0]}, 5")
        total: dict[str, Reg] = {}
        for warp in range(self.warps):
            at = self.place_of(str(warp), element, self.lane)
            halves: dict[str, dict[str, list[str]]] = {acc: {} for acc in s.accs}
            for (acc, half), place in places.items():
                ty = type_of_half(like[acc])
                word = word_type(ty)
                spot = out.emit(lines, f"getelementptr {word}, ptr addrspace(3) {place}, i64 {at}")
                loaded = out.emit(lines, f"load {word}, ptr addrspace(3) {spot}, align {BYTES_OF[word]}")
                halves[acc][half] = [self.from_word(ty, loaded)]
            depth = self.scopes[-1].depth
            mine = {acc: Reg(like[acc].code, 0, h["parts"], depth, imag=h.get("imag")) for acc, h in halves.items()}
            total = self.merge(s, total, mine) if total else mine
        self.env.update(total)
        self.forget(set(s.accs))
        self.go_to(item)
        super(GpuLowering, self).stores(group)


BYTES_OF = {"i32": 4, "i64": 8}

__all__ = ["FEW_WARPS", "WARPS", "column_form", "lower_columns"]
