"""Products of few rows with a matrix as it lies in memory.

Enters: a dtype, the number of rows (1 to MOST, or more: see MOST_ALONG), which way the right operand's memory runs, and
its type there, maybe a half type, which is widened where it is read. Leaves: a `Kernel` with the usual ABI whose
parallel range is parts of the columns, matrix after matrix; its operands are left, right, result and addend. Refuses
nothing, but expects: rows of the left operand and of the result consecutive, and the right one's rows (`across`) or
columns (`along`).

The matrix is read once, in few long runs, which processors read ahead: packing it would cost as much as multiplying.
across: some rows of it at a time multiply into rows of the result, a part of which stays in the first-level cache.
along: dot products of all rows with a few columns, summed in registers over a slice of k that stays there.
Elements of the left operand are taken from lanes of a vector where multiply-add can (AArch64), and wait on all lanes
of a register each where it cannot. What an element is made of depends on k alone, not on where parts begin.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from ....base.digest import digest
from ....loops.record import Record
from ...stored import cache
from ...stored.cache import Kernel
from ...text.targets import vector_bits
from ...text.writer import ABI, Number, Reg, Writer, declarations
from ...tiles.shapes import ELEMENTS
from ...tiles.tiles import argument

MOST = 8                     # rows
HALVES = {"f16": ("half", 2), "bf16": ("i16", 2)}      # types the right operand may have in memory
STEP_BYTES = 32              # of a row of the left operand whose elements wait in registers
NARROW_BYTES = 16            # the same where rows of the right operand share cache sets: fewer are read side by side
SAME_SETS = 4096             # bytes between them, or a multiple, where they do
LINE = 64                    # bytes that one prefetch asks for
PART_BYTES = 2048            # of a row of the result, where all of them wait in the first-level cache
# The same where the matrix has so many rows, or such as share cache sets: processors read ahead in long runs of them.
LONG_PART_BYTES, LONG_ROWS = 8192, 256
SLICE_BYTES = 4096           # of a row of the left operand, likewise
SUMS = 24                    # vectors of sums, where there are 32 registers
WAITING = 16                 # elements of the left operand that wait in registers each, likewise
# Rows likewise where vectors are as wide as a line of the cache and the right operand's columns are runs, which other
# kernels would have to exchange in registers; the values of k that there are for every row, or adding up lanes costs
# more than that; and how many of the rows a column meets at a time.
MOST_ALONG, DEEP_ALONG, GROUP = 64, 12, 4
COLUMNS = 6                  # of dot products at a time, at most: memory is read in as many places
# The same of one row where vectors are as wide as a line of the cache, and of a slice of that row; bytes that are asked
# for before they are read there, since memory is all that such products wait for.
ALONE_COLUMNS, ALONE_BYTES, AHEAD_BYTES = 8, 16384, 512
# One row times rows of a matrix that comes from memory: rows of it that are read side by side, by the width of vectors,
# bytes of each, which as many sums wait for in the first-level cache, and bytes that are asked for before they are
# read. Memory is read in few long runs.
ALONE_ROWS, ALONE_PART, ALONE_AHEAD = {128: 2, 512: 8}, {128: 32768, 512: 16384}, {128: 512, 512: 256}
ALONE_SUMS = 512             # sums of as many rows that are added up one after the other
PARAMS = (
    "n", "k", "lda", "ldb", "ldc", "ldd", "step_d", "adds",             # sizes, strides, whether there is an addend
    "part", "parts", "batch_a", "batch_b", "batch_c", "batch_d", "rows",
)


class FewRows(Record):
    """What the kernel cache asks of a nest: a name, parameters and a digest."""

    name: str
    params: tuple[str, ...]
    code: str
    rows: int
    along: bool
    step: int
    bits: int
    right: str = ""              # the type of the right operand in memory, where it is another
    grouped: bool = False        # rows are what is left of any number of groups of GROUP

    def digest(self) -> bytes:
        """What the text depends on; the cache's key holds the generator's sources besides."""
        return digest(repr(self).encode())


@functools.cache
def few_rows_kernel(code: str, rows: int, along: bool, step_bytes: int = STEP_BYTES, right: str = "") -> Kernel:
    """c = a @ b (+ d) of so many rows; `across`, `step_bytes` of the left operand's rows wait in registers."""
    return cache.kernel(few_rows(code, rows, along, step_bytes, right=right), _object)


def few_rows(
    code: str, rows: int, along: bool, step_bytes: int = STEP_BYTES, bits: int = 0, right: str = ""
) -> FewRows:
    """The kernel's description, for vectors of so many bits (this processor's)."""
    grouped = rows > MOST
    rows = rows % GROUP if grouped else rows
    name = f"{'groups_of' if grouped else 'few'}_rows_{rows}_{int(along)}"
    return FewRows(name, PARAMS, code, rows, along, step_bytes, bits or vector_bits(), right, grouped)


def _object(product: FewRows) -> bytes:
    from ...llvm.cpu import compile_ir, host_target

    return compile_ir(module_text(product, host_target().triple), host_target(), by_hand=True)


def module_text(product: FewRows, triple: str) -> str:
    """LLVM IR of the kernel."""
    text = _Writer(product)
    body = text.along() if product.along else text.across_alone() if text.alone else text.across()
    return f'target triple = "{triple}"\n{declarations(text.lanes, text.element)}{body}\n'


def zero_of(kind: str) -> Reg:
    """Zero, or a vector of zeros."""
    return Reg("zeroinitializer" if kind.startswith("<") else "0.0", kind)


class _Writer:
    def __init__(self, product: FewRows) -> None:
        self.element, self.size = ELEMENTS[product.code]
        self.right = HALVES.get(product.right, (self.element, self.size))
        self.rows, self.lanes = product.rows, product.bits // 8 // self.size
        self.by_lane, self.asks = product.bits == 128, product.bits == 8 * LINE
        self.grouped = product.grouped
        self.alone = product.rows == 1 and not product.right and not self.grouped and product.bits in ALONE_ROWS
        registers = 16 if product.bits == 256 else 32
        self.sums = SUMS * registers // 32
        waiting = WAITING * registers // 32 // max(1, self.rows)
        self.step = product.step // self.size if self.by_lane else max(1, waiting)
        if self.alone and not product.along:
            self.step = ALONE_ROWS[product.bits]
            self.most, self.ahead = ALONE_PART[product.bits] // self.size, ALONE_AHEAD[product.bits]
        self.vector = f"<{self.lanes} x {self.element}>"
        self.w = w = Writer(product.name, ABI)
        self.given = [argument(w, "ptrs", k, "ptr") for k in range(4)]
        self.p = {name: argument(w, "params", k) for k, name in enumerate(PARAMS)}
        self.adds = w.compare("ne", self.p["adds"], 0)

    def begin(self, item: Reg) -> tuple[Reg, Reg]:
        """The columns [first, past) of an item, and its operands as self.a, .b, .c and .d."""
        w, p = self.w, self.p
        matrix, part = w.div(item, p["parts"]), w.rem(item, p["parts"])
        for name, base in zip("abcd", self.given, strict=True):
            element = self.right[0] if name == "b" else self.element
            setattr(self, name, w.at(base, w.mul(matrix, p[f"batch_{name}"]), element))
        first = w.mul(part, p["part"])
        return first, w.min(w.add(first, p["part"]), p["n"])

    def at(self, base: Reg, row: Number, pitch: str, column: Number) -> Reg:
        return self.w.at(base, self.w.add(self.w.mul(self.p[pitch], row), column), self.element)

    def load(self, kind: str, place: Reg) -> Reg:
        return self.w.load(kind, place, self.size)

    def right_at(self, run: Number, place: Number) -> Reg:
        """Where run number `run` of the right operand has an element."""
        return self.w.at(self.b, self.w.add(self.w.mul(self.p["ldb"], run), place), self.right[0])

    def load_right(self, kind: str, place: Reg) -> Reg:
        """Elements of the right operand, in the type that is computed in."""
        w, (element, size) = self.w, self.right
        given = w.load(kind.replace(self.element, element), place, size)
        if element == "half":
            return w.new(kind, f"fpext {given} to {kind}")
        if element == "i16":      # a bfloat16 is the upper half of a float
            bits = kind.replace(self.element, "i32")
            upper = Reg("16", bits) if kind == self.element else w.splat(Reg("16", "i32"), self.lanes)
            return w.new(kind, f"bitcast {w.binary('shl', w.new(bits, f'zext {given} to {bits}'), upper)} to {kind}")
        return given

    # Runs along the columns

    def across(self) -> str:
        w, p = self.w, self.p
        deep = w.sub(p["k"], w.rem(p["k"], self.step))
        with w.loop(w["begin"], w["end"]) as item:
            first, past = self.begin(item.i)
            self.start_rows(first, past)
            with w.loop(0, deep, self.step) as k:
                self.add_rows(k.i, self.step, first, past)
            with w.loop(deep, p["k"]) as k:
                self.add_rows(k.i, 1, first, past)
        return w.text()

    def start_rows(self, first: Reg, past: Reg) -> None:
        """The addend, or zeros."""
        w = self.w
        for r in range(self.rows):
            with w.loop(first, past) as j:
                old = self.load(self.element, self.at(self.d, r, "ldd", w.mul(j.i, self.p["step_d"])))
                value = w.select(self.adds, old, Reg("0.0", self.element))
                w.store(value, self.at(self.c, r, "ldc", j.i), self.size)

    def add_rows(self, k: Reg, count: int, first: Reg, past: Reg) -> None:
        """The products of `count` rows of the right operand, from row k on."""
        w, lanes = self.w, self.lanes
        factors = self.left_factors(k, count)
        sources = [self.right_at(w.add(k, u), 0) for u in range(count)]
        targets = [self.at(self.c, r, "ldc", 0) for r in range(self.rows)]
        ahead = w.mul(self.p["ldb"], self.step)
        run = max(lanes, LINE // self.size) if count > 1 else lanes
        whole = w.add(first, w.mul(w.div(w.sub(past, first), run), run))
        with w.loop(first, whole, run) as j:
            if count > 1:
                for source in sources:
                    w.prefetch(w.at(source, w.add(j.i, ahead), self.right[0]))
            for v in range(0, run, lanes):
                self.multiply(w.add(j.i, v), sources, targets, factors, self.vector)
        with w.loop(whole, past) as j:
            self.multiply(j.i, sources, targets, factors, self.element)

    def left_factors(self, k: Reg, count: int) -> list[list[tuple[Reg, int]]]:
        """For every row, vectors and the lanes in them of `count` elements from k on."""
        results = []
        for r in range(self.rows):
            if count == 1 or not self.by_lane:
                places = [self.at(self.a, r, "lda", self.w.add(k, u)) for u in range(count)]
                results.append([(self.w.splat(self.load(self.element, place), self.lanes), 0) for place in places])
                continue
            held = [
                self.load(self.vector, self.at(self.a, r, "lda", self.w.add(k, u))) for u in range(0, count, self.lanes)
            ]
            results.append([(held[u // self.lanes], u % self.lanes) for u in range(count)])
        return results

    def multiply(self, j: Reg, sources: list[Reg], targets: list[Reg], factors: list, kind: str) -> None:
        """One vector of columns, or one column; sums of different rows by turns, for each waits for the one before."""
        w = self.w
        places = [w.at(target, j, self.element) for target in targets]
        totals = [self.load(kind, place) for place in places]
        for u, source in enumerate(sources):
            value = self.load_right(kind, w.at(source, j, self.right[0]))
            for r, held in enumerate(factors):
                several, lane = held[u]
                if kind == self.element:
                    factor = w.new(kind, f"extractelement {several}, i64 {lane}")
                else:
                    factor = w.lane(several, lane, self.lanes) if self.by_lane else several
                totals[r] = w.fma(value, factor, totals[r])
        for total, place in zip(totals, places, strict=True):
            w.store(total, place, self.size)

    def across_alone(self) -> str:
        """One row: products of a few rows of the matrix are added up first, then the sums of some hundreds of them in
        memory of its own, then those."""
        w, p = self.w, self.p
        sums = w.scratch(self.element, self.most)
        with w.loop(w["begin"], w["end"]) as item:
            first, past = self.begin(item.i)
            self.start_rows(first, past)
            wide, target = w.sub(past, first), w.at(self.c, first, self.element)
            with w.loop(0, p["k"], ALONE_SUMS * self.step) as k0:
                stop = w.min(w.add(k0.i, ALONE_SUMS * self.step), p["k"])
                whole = w.sub(stop, w.rem(w.sub(stop, k0.i), self.step))
                self.each(wide, lambda j, kind: w.store(zero_of(kind), w.at(sums, j, self.element), self.size))
                with w.loop(k0.i, whole, self.step) as k:
                    self.add_alone(sums, k.i, self.step, first, wide)
                with w.loop(whole, stop) as k:
                    self.add_alone(sums, k.i, 1, first, wide)
                self.each(wide, lambda j, kind: self.add_to(w.at(target, j, self.element),
                                                            self.load(kind, w.at(sums, j, self.element))))
        return w.text()

    def each(self, count: Reg, body: Callable[[Reg, str], None], ask: Callable[[Reg], None] | None = None) -> None:
        """`body` for the first of all lines, `ask` before that, and for elements of the last one alone."""
        w, run = self.w, max(self.lanes, LINE // self.size)
        whole = w.sub(count, w.rem(count, run))
        with w.loop(0, whole, run) as j:
            if ask is not None:
                ask(j.i)
            for v in range(0, run, self.lanes):
                body(w.add(j.i, v), self.vector)
        with w.loop(whole, count) as j:
            body(j.i, self.element)

    def add_to(self, place: Reg, value: Reg) -> None:
        self.w.store(self.w.fadd(self.load(value.type, place), value), place, self.size)

    def add_alone(self, sums: Reg, k: Reg, count: int, first: Reg, wide: Reg) -> None:
        """The products of `count` rows of the matrix from row k on, added to the sums."""
        w = self.w
        sources = [self.right_at(w.add(k, u), first) for u in range(count)]
        ones = [self.load(self.element, self.at(self.a, 0, "lda", w.add(k, u))) for u in range(count)]
        factors = {self.element: ones, self.vector: [w.splat(one, self.lanes) for one in ones]}

        def ask(j: Reg) -> None:
            for source in sources:
                w.prefetch(w.at(w.at(source, j, self.element), self.ahead, "i8"), 1)

        def multiply(j: Reg, kind: str) -> None:
            total = zero_of(kind)
            for source, factor in zip(sources, factors[kind], strict=True):
                total = w.fma(self.load(kind, w.at(source, j, self.element)), factor, total)
            self.add_to(w.at(sums, j, self.element), total)

        self.each(wide, multiply, ask)

    # Runs along k

    def along(self) -> str:
        w, p = self.w, self.p
        most = GROUP if self.grouped else self.rows
        alone = self.alone and self.asks
        together = ALONE_COLUMNS if alone else max(1, min(COLUMNS, self.sums // most))
        slice_ = (ALONE_BYTES if alone else SLICE_BYTES) // self.size
        with w.loop(w["begin"], w["end"]) as item:
            first, past = self.begin(item.i)
            whole = w.add(first, w.mul(w.div(w.sub(past, first), together), together))
            with w.loop(0, p["k"], slice_) as k0:
                deep = w.min(w.sub(p["k"], k0.i), slice_)
                with w.loop(first, whole, together) as j:
                    self.all_dots(k0.i, deep, j.i, together)
                with w.loop(whole, past) as j:
                    self.all_dots(k0.i, deep, j.i, 1)
        return w.text()

    def all_dots(self, k0: Reg, deep: Reg, j: Reg, count: int) -> None:
        """All rows times `count` columns, over a slice of k."""
        w = self.w
        if not self.grouped:
            self.dots(k0, deep, j, count, 0, self.rows)
            return
        grouped = w.sub(self.p["rows"], self.rows)
        with w.loop(0, grouped, GROUP) as i:
            self.dots(k0, deep, j, count, i.i, GROUP)
        if self.rows:
            self.dots(k0, deep, j, count, grouped, self.rows)

    def dots(self, k0: Reg, deep: Reg, j: Reg, count: int, first: Number, rows: int) -> None:
        """So many rows from the first on times `count` columns."""
        w, lanes = self.w, self.lanes
        left = [self.at(self.a, w.add(first, r), "lda", k0) for r in range(rows)]
        right = [self.right_at(w.add(j, q), k0) for q in range(count)]
        zero = Reg("zeroinitializer", self.vector)
        whole = w.sub(deep, w.rem(deep, lanes))
        with w.loop(0, whole, lanes, carry=[zero] * (rows * count)) as k:
            for x in right if self.asks and not self.grouped else ():
                w.prefetch(w.at(w.at(x, k.i, self.right[0]), AHEAD_BYTES, "i8"), 1)
            columns = [self.load_right(self.vector, w.at(x, k.i, self.right[0])) for x in right]
            sums = list(k.carry)
            for r, x in enumerate(left):
                row = self.load(self.vector, w.at(x, k.i, self.element))
                for q in range(count):
                    sums[r * count + q] = w.fma(row, columns[q], sums[r * count + q])
            k.next = sums
        totals = [w.horizontal(s) for s in k.carry]
        with w.loop(whole, deep, carry=totals) as k:
            sums = list(k.carry)
            for r, x in enumerate(left):
                one = self.load(self.element, w.at(x, k.i, self.element))
                for q in range(count):
                    other = self.load_right(self.element, w.at(right[q], k.i, self.right[0]))
                    sums[r * count + q] = w.fma(one, other, sums[r * count + q])
            k.next = sums
        begins = w.compare("eq", k0, 0)
        for n, total in enumerate(k.carry):
            row = w.add(first, n // count)
            place = self.at(self.c, row, "ldc", w.add(j, n % count))
            column = w.mul(w.add(j, n % count), self.p["step_d"])
            added = self.load(self.element, self.at(self.d, row, "ldd", column))
            added = w.select(self.adds, added, Reg("0.0", self.element))
            old = w.select(begins, added, self.load(self.element, place))
            w.store(w.fadd(old, total), place, self.size)
