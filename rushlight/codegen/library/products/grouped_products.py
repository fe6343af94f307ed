"""Matrix products on instructions that add up several products per lane: int8 in int32, bfloat16 in float.

Enters: two matrices of such a type, rows or columns of which are consecutive, and a `Dots` (dot_instructions.py).
Leaves: kernels with the usual ABI. `pack_groups` lays an operand out in panels of `width` lines (rows on the left,
columns on the right): a group of values of k of each line, then the next line's, zeros past the end of k.
`group_product` multiplies packed operands. `line_sums` adds up packed rows, for instructions whose right factor is
unsigned. Refuses nothing: callers ask `host_dots`, and copy operands that are consecutive in neither direction.

A tile of results stays in registers while a slice of k runs. Integers wait in the result between slices: they are
exact, so neither slices nor threads change a result. Sums of bfloat16 stay in registers for all of k.
"""

from __future__ import annotations

import functools

from ....base.digest import digest
from ....loops.record import Record
from ...stored import cache
from ...stored.cache import Kernel
from ...text.writer import ABI, Number, Reg, Writer
from ...tiles.strips import transposed
from ...tiles.tiles import argument, bytes_after
from .dot_instructions import Dots

LINE = 64                    # bytes of neighbouring lines that are packed at a time: a line of the cache
SOME = 16                    # lines of it that are packed at a time where not all of them are there, or run along k
STRIP = 1 << 15              # bytes of a strip of columns in a slice of k, which the first-level cache holds
BLOCK = 256                  # rows of the left operand that meet a strip: 512 KiB of bytes, in the second-level cache
PAST = 64                    # bytes past a packed operand that are read, and not used
NEAR = 16                    # groups of k that all lines of an item are packed of before the next ones
TOGETHER = 4                 # lines of the cache of an item
BYTES = "<16 x i8>"
DECLARED = (
    "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)\n"
    "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)\n"
)
PACK_PARAMS = ("lines", "k", "line", "step", "width", "groups", "flip")
SUMS_PARAMS = ("groups",)
PRODUCT_PARAMS = ("m", "n", "groups", "row", "block", "blocks", "part", "parts")
TILE = (
    ("ptr", "a"), ("ptr", "b"), ("ptr", "c"), ("ptr", "starts"), ("i64", "row"), ("i64", "rows"), ("i64", "columns"),
    ("i64", "groups"), ("i1", "add"),
)


class GroupKernel(Record):
    """What the kernel cache asks of a nest: a name, parameters and a digest."""

    name: str
    params: tuple[str, ...]
    dots: Dots

    def digest(self) -> bytes:
        """The cache's key holds the generator's sources besides."""
        return digest(repr(self).encode())


@functools.cache
def pack_kernel(dots: Dots) -> Kernel:
    """Operands: source, panels. The parallel range is items of neighbouring lines (`together_of`)."""
    return cache.kernel(GroupKernel("pack_groups", PACK_PARAMS, dots), _object)


@functools.cache
def sums_kernel(dots: Dots) -> Kernel:
    """Operands: packed left, what its rows' sums start from. The parallel range is panels."""
    return cache.kernel(GroupKernel("line_sums", SUMS_PARAMS, dots), _object)


@functools.cache
def product_kernel(dots: Dots) -> Kernel:
    """Operands: packed left, packed right, result, and what `line_sums` left (or anything).
    The parallel range is blocks of rows times parts of columns."""
    return cache.kernel(GroupKernel("group_product", PRODUCT_PARAMS, dots), _object)


def _object(kernel: GroupKernel) -> bytes:
    from ...llvm.cpu import compile_ir, host_target

    host, dots = host_target(), kernel.dots
    if dots.feature:        # LLVM knows it of processors that it has a name for
        host = host.but(features=f"{host.features},+{dots.feature}".lstrip(","))
    return compile_ir(module_text(kernel.name, dots, host.triple), host, "object")


def module_text(name: str, dots: Dots, triple: str) -> str:
    """LLVM IR of one of the kernels."""
    texts = {
        "pack_groups": lambda: [pack_text(dots)],
        "line_sums": lambda: [dots.declared(), sums_text(dots)],
        "group_product": lambda: [dots.declared(), tile_text(dots), product_text(dots)],
    }[name]()
    return f'target triple = "{triple}"\n' + DECLARED + "\n".join(texts) + "\n"


# --- packing ----------------------------------------------------------------------------------------------------------


def pack_text(dots: Dots) -> str:
    """Items of lines that share lines of the cache. Lines past the last are copies of it."""
    return _Packing(dots).text()


class _Packing:
    """The packing kernel in the making. A vector of 16 bytes holds the groups of `abreast` lines."""

    def __init__(self, dots: Dots) -> None:
        self.dots, self.abreast = dots, 16 // dots.unit
        self.w = w = Writer("pack_groups", ABI)
        self.source, self.target = argument(w, "ptrs", 0, "ptr"), argument(w, "ptrs", 1, "ptr")
        self.p = {name: argument(w, "params", k) for k, name in enumerate(PACK_PARAMS)}
        self.pitch = w.mul(self.p["width"], dots.unit)
        self.flip = w.splat(w.new("i8", f"trunc {self.p['flip']} to i8"), 16) if dots.flips else None

    def text(self) -> str:
        w, p = self.w, self.p
        whole, together = w.div(p["k"], self.dots.group), together_of(self.dots)
        block = LINE // self.dots.size
        runs = w.compare("eq", p["step"], 1)
        with w.loop(w["begin"], w["end"]) as item:
            start = w.mul(item.i, together)
            stop = w.min(w.add(start, together), p["lines"])
            past = w.select(runs, start, w.add(start, w.mul(w.div(w.sub(stop, start), block), block)))
            # Rows that lie pages apart are read a few at a time, all lines of them: translating addresses takes long.
            with w.loop(0, whole, NEAR) as near, w.loop(start, past, block) as some:
                to = w.min(w.add(near.i, NEAR), whole)
                self.pack_across(some.i, self.places(some.i, block), near.i, to, block)
            self.pack_rest_of_across(start, past, whole)
            with w.loop(past, stop, SOME) as some:
                first, places = some.i, self.places(some.i, SOME)
                # What is read past the end of a row is the next one's beginning, but for the last rows.
                inside = w.compare("sle", w.add(first, SOME), p["lines"])
                before = w.select(inside, whole, w.max(w.sub(whole, 1), 0))
                done = w.select(runs, w.mul(w.div(whole, self.abreast), self.abreast), before)
                with w.when(runs):
                    self.pack_runs(first, places, w.sub(whole, self.abreast - 1))
                self.pack_across(first, places, 0, w.select(runs, 0, before), SOME, guarded=True)
                self.pack_rest(first, places, done)
        return w.text()

    def pack_rest_of_across(self, start: Reg, past: Reg, whole: Reg) -> None:
        """The last values of k, which fill no group, of lines that were packed across."""
        with self.w.loop(start, past, SOME) as some:
            self.pack_rest(some.i, self.places(some.i, SOME), whole)

    def places(self, first: Reg, count: int) -> list[Reg]:
        """Where the first groups of `count` lines go, a vector of them after another."""
        w, per = self.w, self.w.div(self.p["width"], self.abreast)
        apart, start, result = w.mul(self.pitch, self.p["groups"]), w.div(first, self.abreast), []
        for j in range(count // self.abreast):
            which = w.add(start, j)
            panel, place = w.mul(w.div(which, per), apart), w.mul(w.rem(which, per), 16)
            result.append(bytes_after(w, self.target, panel, place))
        return result

    def offset(self, line: Reg, k: Number) -> Reg:
        """Bytes from the source's beginning to an element."""
        w, p = self.w, self.p
        return w.mul(w.add(w.mul(line, p["line"]), w.mul(p["step"], k)), self.dots.size)

    def store(self, value: Reg, place: Reg, group: Number) -> None:
        """A vector of groups, number `group` of its lines."""
        w = self.w
        if self.flip is not None:
            value = w.binary("xor", w.new(BYTES, f"bitcast {value} to {BYTES}"), self.flip)
        w.store(value, bytes_after(w, place, w.mul(self.pitch, group)), 4)

    def pack_runs(self, first: Reg, places: list[Reg], stop: Reg) -> None:
        """Lines that are runs of memory: as many groups of as many lines are a square."""
        w, abreast = self.w, self.abreast
        words = f"<{abreast} x i{8 * self.dots.unit}>"
        last = w.sub(self.p["lines"], 1)
        for j, place in enumerate(places):
            with w.when(w.compare("slt", w.add(first, abreast * j), self.p["lines"])):
                lines = [
                    bytes_after(w, self.source, self.offset(w.min(w.add(first, abreast * j + r), last), 0))
                    for r in range(abreast)
                ]
                with w.loop(0, stop, abreast) as q:
                    at = w.mul(q.i, self.dots.unit)
                    rows = [w.load(words, bytes_after(w, line, at), 1) for line in lines]
                    for c, column in enumerate(transposed(w, rows, abreast, abreast)):
                        self.store(column, place, w.add(q.i, c))

    def pack_across(
        self, first: Reg, places: list[Reg], start: Number, stop: Reg, count: int, guarded: bool = False
    ) -> None:
        """`count` lines whose neighbours lie side by side: their values of a few k, interleaved. `guarded`: some of
        them may not be there, and have no place."""
        w, dots = self.w, self.dots
        with w.loop(start, stop) as q:
            k = w.mul(self.p["step"], w.mul(q.i, dots.group))
            begin = bytes_after(w, self.source, w.mul(w.add(first, k), dots.size))
            apart = w.mul(self.p["step"], dots.size)
            rows = []
            for r in range(dots.group):
                row = bytes_after(w, begin, w.mul(apart, r))
                pieces = range(0, count * dots.size, 16)
                rows.append([w.load(BYTES, bytes_after(w, row, piece), 1) for piece in pieces])
            for j, (place, value) in enumerate(zip(places, interleaved(w, rows, dots.size), strict=True)):
                if not guarded:
                    self.store(value, place, q.i)
                    continue
                with w.when(w.compare("slt", w.add(first, self.abreast * j), self.p["lines"])):
                    self.store(value, place, q.i)

    def pack_rest(self, first: Reg, places: list[Reg], done: Reg) -> None:
        """Groups from `done` on, one by one: the end of k, and lines that fill no item."""
        w, p, dots = self.w, self.p, self.dots
        kind, last = f"i{8 * dots.size}", w.sub(p["lines"], 1)
        for j, place in enumerate(places):
            present = w.compare("slt", w.add(first, self.abreast * j), p["lines"])
            with w.when(present), w.loop(done, p["groups"]) as q, w.loop(0, self.abreast) as r:
                line = w.min(w.total(first, self.abreast * j, r.i), last)
                with w.loop(0, dots.group) as u:
                    k = w.add(w.mul(q.i, dots.group), u.i)
                    inside = w.compare("slt", k, p["k"])
                    value = w.load(kind, bytes_after(w, self.source, self.offset(line, w.select(inside, k, 0))), 1)
                    value = w.select(inside, value, Reg("0", kind))
                    if self.flip is not None:
                        value = w.binary("xor", value, w.new("i8", f"trunc {p['flip']} to i8"))
                    at = w.add(w.mul(r.i, dots.unit), w.mul(u.i, dots.size))
                    w.store(value, bytes_after(w, place, w.mul(self.pitch, q.i), at), 1)


def together_of(dots: Dots) -> int:
    """Lines of an item."""
    return TOGETHER * LINE // dots.size


def interleaved(w: Writer, rows: list[list[Reg]], size: int) -> list[Reg]:
    """Rows of as many values of `size` bytes, column after column: neighbours in pairs, then pairs of pairs."""
    while len(rows) > 1:
        rows = [zipped(w, a, b, size) for a, b in zip(rows[::2], rows[1::2], strict=True)]
        size *= 2
    return rows[0]


def zipped(w: Writer, a: list[Reg], b: list[Reg], size: int) -> list[Reg]:
    """Pieces of `size` bytes of two rows by turns."""
    result = []
    for x, y in zip(a, b, strict=True):
        for half in (0, 8):
            order = [half + piece * size + at + 16 * row for piece in range(8 // size) for row in (0, 1)
                     for at in range(size)]
            result.append(w.shuffle(x, y, order))
    return result


def sums_text(dots: Dots) -> str:
    """-128 times the sums of packed rows: what sums start from whose right factors are 128 too large."""
    w = Writer("line_sums", ABI)
    packed, target = argument(w, "ptrs", 0, "ptr"), argument(w, "ptrs", 1, "ptr")
    groups, pitch = argument(w, "params", 0), dots.height * dots.unit
    ones = Reg(f"splat (i32 {0x01010101})", dots.factors)
    with w.loop(w["begin"], w["end"]) as panel:
        place = bytes_after(w, packed, w.mul(w.mul(panel.i, groups), pitch))
        # A vector is longer than a group of all rows: what its last lanes hold is not wanted (see `PAST`).
        with w.loop(0, groups, carry=[Reg("zeroinitializer", dots.sums)]) as g:
            g.next = [dots.add(w, g.carry[0], w.load(dots.factors, bytes_after(w, place, w.mul(g.i, pitch)), 4), ones)]
        total = w.mul(g.carry[0], Reg(f"splat (i32 {-128})", dots.sums))
        rows = w.shuffle(total, total, range(dots.height))
        w.store(rows, w.at(target, w.mul(panel.i, dots.height), "i32"), 4)
    return w.text()


# --- multiplying ------------------------------------------------------------------------------------------------------


def product_text(dots: Dots) -> str:
    """Slices of k; in each, every strip of the part meets all panels of the block."""
    w = Writer("group_product", ABI)
    a, b, c, starts = (argument(w, "ptrs", k, "ptr") for k in range(4))
    p = {name: argument(w, "params", k) for k, name in enumerate(PRODUCT_PARAMS)}
    height, width = dots.height, dots.width
    panels, strips = w.div(w.add(p["m"], height - 1), height), w.div(w.add(p["n"], width - 1), width)
    slice_: Number = slice_of(dots) if dots.element == "i32" else p["groups"]
    with w.loop(w["begin"], w["end"]) as item:
        i0, j0 = w.mul(w.div(item.i, p["parts"]), p["block"]), w.mul(w.rem(item.i, p["parts"]), p["part"])
        i1, j1 = w.min(w.add(i0, p["block"]), panels), w.min(w.add(j0, p["part"]), strips)
        with w.loop(0, p["groups"], slice_) as k0, w.loop(j0, j1) as j, w.loop(i0, i1) as i:
            deep, add = w.min(w.sub(p["groups"], k0.i), slice_), w.compare("ne", k0.i, 0)
            left = bytes_after(w, a, w.mul(w.add(w.mul(i.i, p["groups"]), k0.i), height * dots.unit))
            right = bytes_after(w, b, w.mul(w.add(w.mul(j.i, p["groups"]), k0.i), width * dots.unit))
            row, column = w.mul(i.i, height), w.mul(j.i, width)
            out = w.at(c, w.add(w.mul(row, p["row"]), column), result_type(dots))
            start = w.at(starts, row, "i32")
            w.call(
                "tile", left, right, out, start, p["row"], w.sub(p["m"], row), w.sub(p["n"], column), deep, add
            )
    return w.text()


def slice_of(dots: Dots) -> int:
    """Groups of k in a slice, a power of two."""
    return 1 << (STRIP // (dots.width * dots.unit)).bit_length() - 1


def result_type(dots: Dots) -> str:
    return "i32" if dots.element == "i32" else "bfloat"


def result_size(dots: Dots) -> int:
    """Bytes of an element of the result."""
    return 4 if dots.element == "i32" else 2


def tile_text(dots: Dots) -> str:
    """One tile, of which `rows` and `columns` are wanted if they are fewer."""
    w = Writer("tile", TILE, "internal ")
    spill = w.scratch(dots.element, dots.height * dots.width)
    per = dots.lanes // (dots.width // dots.vectors)     # rows of an instruction
    across = dots.height // per
    starts = [Reg("zeroinitializer", dots.sums)] * (across * dots.vectors)
    if dots.flips:
        for r in range(dots.height):
            start = w.select(w["add"], Reg("0", "i32"), w.load("i32", w.at(w["starts"], r, "i32"), 4))
            starts[r * dots.vectors : (r + 1) * dots.vectors] = [w.splat(start, dots.lanes)] * dots.vectors
    multiply = multiply_squares if dots.form == "square" else multiply_rows
    for r in range(dots.height):      # the sums will be written there when k is through
        row = w.at(w["c"], w.mul(w["row"], r), result_type(dots))
        for at in range(0, dots.width * result_size(dots), LINE):
            w.prefetch(bytes_after(w, row, at))
    with w.loop(0, w["groups"], carry=[w["a"], w["b"], *starts]) as g:
        a, b, *sums = g.carry
        multiply(w, dots, a, b, sums)
        g.next = [w.at(a, dots.height * dots.unit, "i8"), w.at(b, dots.width * dots.unit, "i8"), *sums]
    sums = g.carry[2:]
    write_tile(w, dots, in_rows(w, dots, sums) if dots.form == "square" else sums, spill)
    return w.text()


def multiply_rows(w: Writer, dots: Dots, a: Reg, b: Reg, sums: list[Reg]) -> None:
    """A group of every row meets all columns."""
    words = f"<{dots.lanes} x i32>"
    bytes_ = 4 * dots.lanes
    held = []
    if dots.form == "lane":
        held = [w.load(words, w.at(a, r, words), 16) for r in range(dots.height // dots.lanes)]
    right = [w.load(dots.factors, w.at(b, v * bytes_, "i8"), 4) for v in range(dots.vectors)]
    for r in range(dots.height):
        if held:
            group = w.lane(held[r // dots.lanes], r % dots.lanes, dots.lanes)
        else:
            group = w.splat(w.load("i32", w.at(a, r, "i32"), 4), dots.lanes)
        left = w.new(dots.factors, f"bitcast {group} to {dots.factors}")
        for v in range(dots.vectors):
            n = r * dots.vectors + v
            sums[n] = dots.add(w, sums[n], left, right[v])


def multiply_squares(w: Writer, dots: Dots, a: Reg, b: Reg, sums: list[Reg]) -> None:
    """Two rows meet two columns at a time; columns outside, for all rows stay in registers."""
    left = [w.load(dots.factors, w.at(a, 16 * r, "i8"), 16) for r in range(dots.height // 2)]
    for v in range(dots.vectors):
        right = w.load(dots.factors, w.at(b, 16 * v, "i8"), 16)
        for r, pair in enumerate(left):
            n = r * dots.vectors + v
            sums[n] = dots.add(w, sums[n], pair, right)


def in_rows(w: Writer, dots: Dots, sums: list[Reg]) -> list[Reg]:
    """Sums of 2x2 as vectors of rows."""
    result = []
    for pair in range(dots.height // 2):
        squares = sums[pair * dots.vectors : (pair + 1) * dots.vectors]
        for first in (0, 2):
            order = [first, first + 1, first + 4, first + 5]
            result += [w.shuffle(x, y, order) for x, y in zip(squares[::2], squares[1::2], strict=True)]
    return result


def write_tile(w: Writer, dots: Dots, sums: list[Reg], spill: Reg) -> None:
    """The sums to `c`, added to what is there if `add`; through the stack where not all are wanted."""
    full = w.both(w.compare("sge", w["rows"], dots.height), w.compare("sge", w["columns"], dots.width))
    element, across = result_type(dots), dots.width // dots.lanes
    sizes = result_size(dots)

    def place(r: Number, column: Number) -> Reg:
        return w.at(w["c"], w.add(w.mul(w["row"], r), column), element)

    def at(n: int) -> Reg:
        return place(n // across, n % across * dots.lanes)

    def rounded(value: Reg) -> Reg:
        kind = value.type.replace("float", "bfloat")
        return value if element == "i32" else w.new(kind, f"fptrunc {value} to {kind}")

    if element == "i32":
        with w.when(w.both(full, w["add"])):
            for n, value in enumerate(sums):
                w.store(w.add(w.load(dots.sums, at(n), 4), value), at(n), 4)
    with w.when(w.both(full, w.negate(w["add"]))):
        for n, value in enumerate(sums):
            w.store(rounded(value), at(n), sizes)
    with w.when(w.negate(full)):
        for n, value in enumerate(sums):
            w.store(value, w.at(spill, n * dots.lanes, dots.element), 16)
        with w.loop(0, w.min(w["rows"], dots.height)) as r, w.loop(0, w.min(w["columns"], dots.width)) as j:
            where = w.at(spill, w.add(w.mul(r.i, dots.width), j.i), dots.element)
            value = rounded(w.load(dots.element, where, 4))
            if element == "i32":
                value = w.add(value, w.select(w["add"], w.load("i32", place(r.i, j.i), 4), Reg("0", "i32")))
            w.store(value, place(r.i, j.i), sizes)
