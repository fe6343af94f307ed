"""Running sums, products, extremes and logarithms of sums of exponentials, of rows whose elements lie side by side,
written as PTX.

Enters: the types of elements, sums and results, and how many elements a thread takes. Leaves: `Written` kernels of 256
threads. A block has a tile of a row; rows of several tiles take three launches: the tiles' sums, the sums of those
before each, and the running sums from there. Elements are read and written side by side and change hands in shared
memory, so that a thread adds up neighbours. Short rows have a warp each, whose threads read neighbours in vectors; only
these have the others here. What is added to what depends on sizes alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .written import THREADS, WARPS, BlockText, Written

Form = tuple[str, str, str]
Best = tuple[str, str]       # registers: the best element, and its place in its row or what there is besides it
SIZES = {"b1": 1, "f16": 2, "bf16": 2, "f32": 4, "i32": 4, "f64": 8, "i64": 8}
FORMS = {       # (elements, sums, results): what the sums are added as
    ("f32", "f64", "f32"): "f64", ("f64", "f64", "f64"): "f64", ("i64", "i64", "i64"): "u64",
    ("bf16", "f32", "bf16"): "f32", ("f16", "f32", "f16"): "f32", ("i32", "i64", "i64"): "u64",
    ("b1", "i64", "i64"): "u64", ("b1", "i32", "i32"): "u32",
}
EXTREMES = {    # (elements, what is compared, results): how it is compared
    ("f32", "f32", "f32"): "f32", ("f64", "f64", "f64"): "f64", ("i64", "i64", "i64"): "s64",
    ("bf16", "f32", "bf16"): "f32", ("f16", "f32", "f16"): "f32", ("i32", "i32", "i32"): "s32",
}
LOGS = (("f32", "f32", "f32"), ("bf16", "f32", "bf16"), ("f16", "f32", "f16"))
LOG2_E, LN_2 = "0f3FB8AA3B", "0f3F317218"
WORSE = {"max": "lt", "min": "gt"}     # how an element compares with an earlier one that stays ahead of it
MOST_ITEMS = {4: 16, 8: 8}       # elements that a thread takes, by the size of a sum
# by the size of an element: what its register is, how many bits that has, and what the element is moved as
REGISTERS = {1: ("r", 32, "u8"), 2: ("h", 16, "b16"), 4: ("r", 32, "b32"), 8: ("d", 64, "b64")}
COUNTS = ("b1", "i32", "i32")    # of flags
MOST_OF_ROW = 8                  # elements of a short row that a thread takes


class ScanText(BlockText):
    """The text of such a kernel."""

    def __init__(
        self, name: str, pointers: int, params: tuple[str, ...], form: Form, items: int, kind: str = ""
    ) -> None:
        super().__init__(name, pointers, params)
        self.code, self.sum_code, self.out_code = form
        self.kind, self.items = kind or FORMS[form], items
        self.size = SIZES[self.sum_code]
        self.bits = f"b{8 * self.size}"

    def place(self) -> None:
        """Where the block's elements start, and how many there are."""
        length, tiles = self.small("length"), self.small("tiles")
        row = self.r("div.u32", self.block, tiles)
        gone = self.r("mul.lo.u32", self.r("sub.u32", self.block, self.r("mul.lo.u32", row, tiles)),
                      str(self.items * THREADS))
        self.start = self.r("add.u32", self.r("mad.lo.u32", row, length, gone), self.thread)
        self.count = self.r("sub.u32", length, gone)

    def inside(self, k: int) -> str:
        """Whether the thread's k-th element is there, where threads take neighbours."""
        return self.p("setp.lt.u32", self.r("add.u32", self.thread, str(k * THREADS)), self.count)

    def load(self) -> list[str]:
        """The thread's elements, as many threads apart, as sums; zeros beyond the end."""
        width = SIZES[self.code]
        at, raw = self.address(self.pointer(0), self.start, width), []
        kind, bits, moved = REGISTERS[width]
        for k in range(self.items):
            value = self.register(kind)
            self.line(f"mov.b{bits} {value}, 0")
            self.line(f"@{self.inside(k)} ld.global.{moved} {value}, [{at}+{k * THREADS * width}]")
            raw.append(value)
        return [self.widened(value) for value in raw]

    def widened(self, value: str) -> str:
        if self.code == "bf16":
            return self.r("shl.b32", self.r("cvt.u32.u16", value), "16")
        if self.code == "f16":
            return self.r("cvt.f32.f16", value)
        if SIZES[self.code] == self.size:
            return value
        kinds = {"f32": "f64.f32", "b1": "u64.u32", "i32": "s64.s32"}
        return self.d(f"cvt.{kinds[self.code]}", value) if self.size == 8 else value

    def narrowed(self, value: str) -> str:
        if self.out_code == self.sum_code:
            return value
        return self.value("r" if self.out_code == "f32" else "h", f"cvt.rn.{self.out_code}.{self.kind}", value)

    def add(self, a: str, b: str, op: str = "add") -> str:
        return (self.d if self.size == 8 else self.r)(f"{op}.{self.kind}", a, b)

    def vectors(self, base: str, width: int, first: str, length: str, whole: bool, exists: str) -> Iterator[tuple]:
        """(the first element, how many there are, whether to move them) of the thread's elements, side by side: vectors
        where rows are `whole` shares of threads and the tensor starts at a vector's place, else one by one."""
        each = min(self.items, 4, 16 // width) if whole else 1
        low = self.r("and.b32", self.r("cvt.u32.u64", base), str(each * width - 1))
        aligned = self.p("and.pred", exists, self.p("setp.eq.u32", low, "0"))
        other = self.p("and.pred", exists, self.p("setp.gt.u32", low, "0"))
        for k in range(0, self.items, each):
            inside = self.p("setp.lt.u32", self.r("add.u32", first, str(k)), length)
            yield k, each, self.p("and.pred", inside, aligned)
            if each > 1:
                alone = self.p("and.pred", inside, other)
                yield from [(k + n, 1, alone) for n in range(each)]

    def load_row(self, start: str, *row: Any) -> list[str]:
        """The thread's elements as sums; zeros where the row has no more."""
        width = SIZES[self.code]
        at = self.address(self.pointer(0), start, width)
        kind, bits, _ = REGISTERS[width]
        found = [self.register(kind) for _ in range(self.items)]
        for one in found:
            self.line(f"mov.b{bits} {one}, 0")
        for k, count, inside in self.vectors(self.pointer(0), width, *row):
            name, registers = vector(found[k : k + count], width)
            self.line(f"@{inside} ld.global.{name} {registers}, [{at}+{k * width}]")
        return [self.widened(value) for value in found]

    def store_row(self, start: str, results: list[str], *row: Any, pointer: int = 1, width: int = 0) -> None:
        width = width or SIZES[self.out_code]
        to = self.address(self.pointer(pointer), start, width)
        for k, count, inside in self.vectors(self.pointer(pointer), width, *row):
            name, registers = vector(results[k : k + count], width)
            self.line(f"@{inside} st.global.{name} [{to}+{k * width}], {registers}")

    def own_row(self) -> tuple[str, str, str, str]:
        """(where the thread's elements start, which of the row's is the first, how many the row has, whether it is
        there), where a row has a warp."""
        length = self.small("length")
        row = self.r("mad.lo.u32", self.block, str(WARPS), self.warp)
        exists = self.p("setp.lt.u32", row, self.small("number"))
        first = self.r("mul.lo.u32", self.lane, str(self.items))
        return self.r("mad.lo.u32", row, length, first), first, length, exists

    def replace(self, mine: Best, earlier: Best, way: str, exists: str = "") -> None:
        """An element and its place become those of an earlier one that is strictly ahead of it. NaN is ahead of all."""
        worse = WORSE[way]
        if self.kind[0] == "f":      # what compares with NaN is worse, unless it is NaN itself
            compared = self.p(f"setp.{worse}u.{self.kind}", mine[0], earlier[0])
            loses = self.p("and.pred", compared, self.p(f"setp.num.{self.kind}", mine[0], mine[0]))
        else:
            loses = self.p(f"setp.{worse}.{self.kind}", mine[0], earlier[0])
        loses = self.p("and.pred", loses, exists) if exists else loses
        self.line(f"@{loses} mov.{self.bits} {mine[0]}, {earlier[0]}")
        self.line(f"@{loses} mov.b32 {mine[1]}, {earlier[1]}")

    def join(self, mine: Best, earlier: Best, exists: str = "") -> None:
        """The largest element, and the sum of exponentials divided by its own, together with earlier ones. Infinities
        that are equal have no difference."""
        high, low = self.r("max.NaN.f32", mine[0], earlier[0]), self.r("min.f32", mine[0], earlier[0])
        less = self.r("sub.f32", low, high)
        self.line(f"@{self.p('setp.eq.f32', mine[0], earlier[0])} mov.b32 {less}, 0")
        share = self.d("cvt.f64.f32", self.r("ex2.approx.ftz.f32", self.r("mul.f32", less, LOG2_E)))
        behind = self.d("fma.rn.f64", earlier[1], share, mine[1])
        ahead, is_ahead = self.d("fma.rn.f64", mine[1], share, earlier[1]), self.p("setp.gt.f32", earlier[0], mine[0])
        self.line(f"@{is_ahead} mov.b64 {behind}, {ahead}")
        guard = f"@{exists} " if exists else ""
        self.line(f"{guard}mov.b32 {mine[0]}, {high}")
        self.line(f"{guard}mov.b64 {mine[1]}, {behind}")

    def earlier(self, mine: Best, distance: int, kind: str = "u32") -> tuple[Best, str]:
        """What the thread so far before this one in the warp has, and whether there is one."""
        value, exists = self.before_lane(self.kind, mine[0], distance)
        return (value, self.before_lane(kind, mine[1], distance)[0]), exists

    def padded(self, index: str) -> str:
        """Where an element is in shared memory: with gaps, so that threads that take neighbours do not meet."""
        shift = self.items.bit_length() - 1
        moved = self.r("add.u32", index, self.r("shr.u32", index, str(shift))) if shift else index
        return self.spot("tile", moved, self.size)


def vector(values: list[str], width: int) -> tuple[str, str]:
    """What an instruction that moves these registers is called, and how it names them."""
    moved = REGISTERS[width][2]
    if len(values) == 1:
        return moved, values[0]
    return f"v{len(values)}.{moved}", f"{{{', '.join(values)}}}"


def running_rows(form: Form, items: int, whole: bool, way: str = "add") -> Written:
    """The running sums, or products, of rows of at most `items` elements for each thread of a warp; `whole`: of as many
    as threads share without a rest."""

    def text() -> str:
        t = ScanText(f"scan_rows_{way}", 2, ("length", "number"), form, items)
        start, first, length, exists = t.own_row()
        op = "mul.lo" if way == "mul" and t.kind[0] != "f" else way
        found: list[str] = []
        for value in t.load_row(start, first, length, whole, exists):
            found.append(t.add(found[-1], value, op) if found else value)
        before, is_behind = t.before_lane(t.kind, t.scanned_in_warp(found[-1], t.kind, op), 1)
        for one in found:
            t.line(f"@{is_behind} {op}.{t.kind} {one}, {before}, {one}")
        t.store_row(start, [t.narrowed(one) for one in found], first, length, whole, exists)
        return t.finished()

    return Written(f"scan_rows_{way}", ("length", "number"), 2, THREADS, text)


def extreme_rows(form: Form, items: int, whole: bool, way: str) -> Written:
    """The largest (`max`) or smallest elements so far and their places, of equals the last, of such rows."""

    def text() -> str:
        t = ScanText(f"scan_rows_{way}", 3, ("length", "number"), form, items, EXTREMES[form])
        start, first, length, exists = t.own_row()
        found: list[Best] = []
        for k, value in enumerate(t.load_row(start, first, length, whole, exists)):
            mine = (value, t.r("add.u32", first, str(k)))
            if found:
                t.replace(mine, found[-1], way)
            found.append(mine)
        best = ((t.d if t.size == 8 else t.r)(f"mov.{t.bits}", found[-1][0]), t.r("mov.b32", found[-1][1]))
        for distance in (1, 2, 4, 8, 16):
            other, is_there = t.earlier(best, distance)
            t.replace(best, other, way, is_there)
        before, is_behind = t.earlier(best, 1)
        for mine in found:
            t.replace(mine, before, way, is_behind)
        row = first, length, whole, exists
        t.store_row(start, [t.narrowed(value) for value, _ in found], *row)
        t.store_row(start, [t.d("cvt.u64.u32", place) for _, place in found], *row, pointer=2, width=8)
        return t.finished()

    return Written(f"scan_rows_{way}", ("length", "number"), 3, THREADS, text)


def log_rows(form: Form, items: int, whole: bool, way: str) -> Written:
    """Logarithms of the sums of exponentials so far, of such rows."""

    def text() -> str:
        t = ScanText(f"scan_rows_{way}", 2, ("length", "number"), form, items, "f32")
        start, first, length, exists = t.own_row()
        found: list[Best] = []
        for value in t.load_row(start, first, length, whole, exists):
            found.append((t.r("mov.b32", value), t.d("cvt.f64.f32", t.r("mov.b32", "0f3F800000"))))
            if len(found) > 1:
                t.join(found[-1], found[-2])
        all_of = t.r("mov.b32", found[-1][0]), t.d("mov.b64", found[-1][1])
        for distance in (1, 2, 4, 8, 16):
            other, is_there = t.earlier(all_of, distance, "f64")
            t.join(all_of, other, is_there)
        before, is_behind = t.earlier(all_of, 1, "f64")
        results = []
        for mine in found:
            t.join(mine, before, is_behind)
            log = t.r("lg2.approx.ftz.f32", t.r("cvt.rn.f32.f64", mine[1]))
            results.append(t.narrowed(t.r("fma.rn.f32", log, LN_2, mine[0])))
        t.store_row(start, results, first, length, whole, exists)
        return t.finished()

    return Written(f"scan_rows_{way}", ("length", "number"), 2, THREADS, text)


def summing(form: Form, items: int) -> Written:
    """The sum of each tile."""

    def text() -> str:
        t = ScanText("scan_sums", 2, ("length", "tiles"), form, items)
        t.place()
        first, *others = t.load()
        for one in others:
            first = t.add(first, one)
        _, whole = t.scan_block(first, t.kind)
        to = t.address(t.pointer(1), t.block, t.size)
        t.line(f"@{t.p('setp.eq.u32', t.thread, '0')} st.global.{t.bits} [{to}], {whole}")
        return t.finished()

    return Written("scan_sums", ("length", "tiles"), 2, THREADS, text)


def spine(form: Form) -> Written:
    """The tiles' sums of each row become the sums before them, by a block for each row."""

    def text() -> str:
        t = ScanText("scan_spine", 1, ("tiles",), form, 1)
        tiles, carried = t.small("tiles"), t.zero(t.kind)
        start, first, turn = t.r("mul.lo.u32", t.block, tiles), t.r("mov.u32", t.thread), t.r("mov.u32", "0")
        t.label("next_turn")
        at = t.address(t.pointer(0), t.r("add.u32", start, first), t.size)
        inside, value = t.p("setp.lt.u32", first, tiles), t.zero(t.kind)
        t.line(f"@{inside} ld.global.{t.bits} {value}, [{at}]")
        before, whole = t.scan_block(value, t.kind)
        t.line(f"@{inside} st.global.{t.bits} [{at}], {t.add(before, carried)}")
        t.line(f"add.{t.kind} {carried}, {carried}, {whole}")
        for one in (first, turn):
            t.line(f"add.u32 {one}, {one}, {THREADS}")
        t.line(f"@{t.p('setp.lt.u32', turn, tiles)} bra next_turn")
        return t.finished()

    return Written("scan_spine", ("tiles",), 1, THREADS, text)


def running(form: Form, items: int, alone: bool) -> Written:
    """The running sums of each tile; `alone`: of rows that are one."""
    pointers = 2 if alone else 3

    def text() -> str:
        t = ScanText("scan_tiles", pointers, ("length", "tiles"), form, items)
        t.shared("tile", (items + 1) * THREADS * t.size)
        t.place()
        for k, value in enumerate(t.load()):
            place = t.padded(t.r("add.u32", t.thread, str(k * THREADS)))
            t.line(f"st.shared.{t.bits} [{place}], {value}")
        t.line("bar.sync 0")
        mine = t.padded(t.r("mul.lo.u32", t.thread, str(items)))
        new, sums = t.d if t.size == 8 else t.r, []
        for k in range(items):
            value = new(f"ld.shared.{t.bits}", f"[{mine}+{k * t.size}]")
            sums.append(t.add(sums[-1], value) if sums else value)
        before, _ = t.scan_block(sums[-1], t.kind)
        if not alone:
            start = new(f"ld.global.{t.bits}", f"[{t.address(t.pointer(1), t.block, t.size)}]")
            before = t.add(start, before)
        for k, one in enumerate(sums):
            t.line(f"st.shared.{t.bits} [{mine}+{k * t.size}], {t.add(before, one)}")
        t.line("bar.sync 0")
        width = SIZES[t.out_code]
        to = t.address(t.pointer(pointers - 1), t.start, width)
        for k in range(items):
            place = t.padded(t.r("add.u32", t.thread, str(k * THREADS)))
            value = t.narrowed(new(f"ld.shared.{t.bits}", f"[{place}]"))
            t.line(f"@{t.inside(k)} st.global.b{8 * width} [{to}+{k * THREADS * width}], {value}")
        return t.finished()

    return Written("scan_tiles", ("length", "tiles"), pointers, THREADS, text)


def placing(items: int) -> Written:
    """Where flags are set: from what is before each tile on, in their order."""

    def text() -> str:
        t = ScanText("scan_places", 3, ("length", "tiles"), COUNTS, items)
        t.shared("tile", (items + 1) * THREADS * 4)
        t.place()
        for k, value in enumerate(t.load()):
            t.line(f"st.shared.b32 [{t.padded(t.r('add.u32', t.thread, str(k * THREADS)))}], {value}")
        t.line("bar.sync 0")
        first = t.r("mul.lo.u32", t.thread, str(items))
        mine = t.padded(first)
        flags = [t.r("ld.shared.b32", f"[{mine}+{4 * k}]") for k in range(items)]
        total = t.r("mov.u32", "0")
        for one in flags:
            t.line(f"add.u32 {total}, {total}, {one}")
        rank, count = t.scan_block(total)
        for k, one in enumerate(flags):
            spot = t.spot("tile", rank, 4)
            t.line(f"@{t.p('setp.gt.u32', one, '0')} st.shared.b32 [{spot}], {t.r('add.u32', first, str(k))}")
            rank = t.r("add.u32", rank, one)
        t.line("bar.sync 0")
        before = t.r("ld.global.u32", f"[{t.address(t.pointer(1), t.block, 4)}]")
        to = t.address(t.pointer(2), t.r("add.u32", before, t.thread), 8)
        base, spot = t.r("sub.u32", t.start, t.thread), t.spot("tile", t.thread, 4)
        for k in range(items):
            there = t.p("setp.lt.u32", t.r("add.u32", t.thread, str(k * THREADS)), count)
            place = t.r("add.u32", base, t.r("ld.shared.b32", f"[{spot}+{4 * k * THREADS}]"))
            t.line(f"@{there} st.global.b64 [{to}+{8 * k * THREADS}], {t.d('cvt.u64.u32', place)}")
        return t.finished()

    return Written("scan_places", ("length", "tiles"), 3, THREADS, text)


__all__ = ["COUNTS", "EXTREMES", "FORMS", "LOGS", "MOST_ITEMS", "MOST_OF_ROW", "SIZES", "WORSE", "extreme_rows",
           "log_rows", "placing", "running", "running_rows", "spine", "summing"]
