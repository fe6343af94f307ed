"""int8 matrix products, summed in int32, where an instruction adds up four products per lane (AArch64 SDOT).

Enters: two int8 matrices, rows or columns of which are consecutive. Leaves: two kernels with the usual ABI.
`pack_quads` lays an operand out in panels of `width` lines (rows on the left, columns on the right): four values of k
of each line side by side, then the next line's, zeros past the end of k. `int8_product` multiplies packed operands.
Refuses nothing: callers ask `targets.has_dot_product`, and copy operands that are consecutive in neither direction.

A tile of HEIGHT x WIDTH results stays in registers while a slice of k runs; the left operand's four bytes are taken
from a lane. Between slices sums wait in the result. Integers are exact, so neither slices nor threads change a result.
"""

from __future__ import annotations

import functools

from ..loops.digest import digest
from ..loops.record import Record
from . import cache
from .cache import Kernel
from .tile_functions import transposed
from .tiles import argument, bytes_after
from .writer import ABI, Number, Reg, Writer

QUAD = 4                     # values of k that an instruction adds up
LANES = 4                    # results in a vector
HEIGHT, VECTORS = 8, 3       # of a tile: 24 vectors of sums, and five of operands
WIDTH = VECTORS * LANES
SLICE = 512                  # quads of a slice: a panel and a strip of it share the first-level cache
BLOCK = 32                   # panels of the left operand that meet a strip: 512 KiB, in the second-level cache
AHEAD = 32                   # values of k between asking for a row that is packed and reading it
BYTES, WORDS = "<16 x i8>", "<4 x i32>"
DOT = "llvm.aarch64.neon.sdot.v4i32.v16i8"
DECLARED = (
    f"declare {WORDS} @{DOT}({WORDS}, {BYTES}, {BYTES})\n"
    "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)\n"
    "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)\n"
)
PACK_PARAMS = ("lines", "k", "line", "step", "width", "quads")
PRODUCT_PARAMS = ("m", "n", "quads", "row", "block", "blocks", "part", "parts")
TILE = (
    ("ptr", "a"), ("ptr", "b"), ("ptr", "c"), ("i64", "row"), ("i64", "rows"), ("i64", "columns"),
    ("i64", "quads"), ("i1", "add"),
)  # fmt: skip


class QuadKernel(Record):
    """What the kernel cache asks of a nest: a name, parameters and a digest."""

    name: str
    params: tuple[str, ...]

    def digest(self) -> bytes:
        """The cache's key holds the generator's sources besides."""
        return digest(self.name.encode())


@functools.cache
def pack_kernel() -> Kernel:
    """Operands: source, panels. The parallel range is groups of 16 lines."""
    return cache.kernel(QuadKernel("pack_quads", PACK_PARAMS), _object)


@functools.cache
def product_kernel() -> Kernel:
    """Operands: packed left, packed right, result. The parallel range is blocks of rows times parts of columns."""
    return cache.kernel(QuadKernel("int8_product", PRODUCT_PARAMS), _object)


def _object(kernel: QuadKernel) -> bytes:
    from .cpu import compile_ir, host_target

    return compile_ir(module_text(kernel.name, host_target().triple), host_target(), "object")


def module_text(name: str, triple: str) -> str:
    """LLVM IR of one of the kernels."""
    texts = [pack_text()] if name == "pack_quads" else [tile_text(), product_text()]
    return f'target triple = "{triple}"\n' + DECLARED + "\n".join(texts) + "\n"


# --- packing ----------------------------------------------------------------------------------------------------------


def pack_text() -> str:
    """Groups of 16 lines, four of them a vector of packed quads. Lines past the last are copies of it."""
    w = Writer("pack_quads", ABI)
    source, target = argument(w, "ptrs", 0, "ptr"), argument(w, "ptrs", 1, "ptr")
    p = {name: argument(w, "params", k) for k, name in enumerate(PACK_PARAMS)}
    whole, per = w.div(p["k"], QUAD), w.div(p["width"], LANES)
    apart, pitch = w.mul(w.mul(p["width"], QUAD), p["quads"]), w.mul(p["width"], QUAD)
    runs = w.compare("eq", p["step"], 1)
    with w.loop(w["begin"], w["end"]) as group:
        first = w.mul(group.i, 16)
        places = []
        for j in range(4):
            which = w.add(w.mul(group.i, 4), j)
            places.append(
                bytes_after(w, target, w.mul(w.div(which, per), apart), w.mul(w.rem(which, per), LANES * QUAD))
            )
        inside = w.compare("sle", w.add(first, 16), p["lines"])
        across = w.both(w.negate(runs), inside)
        done = w.select(runs, w.mul(w.div(whole, 4), 4), w.select(inside, whole, 0))
        with w.when(runs):
            pack_runs(w, p, source, first, places, w.sub(whole, 3), pitch)
        with w.when(across):
            pack_across(w, p, source, first, places, whole, pitch)
        pack_bytes(w, p, source, first, places, done, pitch)
    return w.text()


def pack_runs(
    w: Writer, p: dict[str, Reg], source: Reg, first: Reg, places: list[Reg], stop: Reg, pitch: Reg
) -> None:
    """Lines that are runs of memory: four quads of four lines are a square of words."""
    last = w.sub(p["lines"], 1)
    for j, place in enumerate(places):
        with w.when(w.compare("slt", w.add(first, 4 * j), p["lines"])):
            lines = [
                bytes_after(w, source, w.mul(w.min(w.add(first, 4 * j + r), last), p["line"])) for r in range(4)
            ]
            with w.loop(0, stop, 4) as q:
                at = w.mul(q.i, QUAD)
                rows = [w.load(WORDS, bytes_after(w, line, at), 1) for line in lines]
                for c, column in enumerate(transposed(w, rows, 4, 4)):
                    w.store(column, bytes_after(w, place, w.mul(w.add(q.i, c), pitch)), 16)


def pack_across(
    w: Writer, p: dict[str, Reg], source: Reg, first: Reg, places: list[Reg], whole: Reg, pitch: Reg
) -> None:
    """Lines whose neighbours lie side by side: sixteen bytes of four values of k, interleaved."""
    with w.loop(0, whole) as q:
        start = bytes_after(w, source, first, w.mul(w.mul(q.i, QUAD), p["step"]))
        rows = [bytes_after(w, start, w.mul(p["step"], r)) for r in range(QUAD)]
        for row in rows:
            w.prefetch(bytes_after(w, row, w.mul(p["step"], AHEAD)))
        values = [w.load(BYTES, row, 1) for row in rows]
        for place, value in zip(places, interleaved(w, values), strict=True):
            w.store(value, bytes_after(w, place, w.mul(q.i, pitch)), 16)


def interleaved(w: Writer, rows: list[Reg]) -> list[Reg]:
    """Sixteen columns of four rows of bytes, column after column."""
    halves = {}
    for pair, (a, b) in enumerate((rows[:2], rows[2:])):
        for half in range(2):
            halves[pair, half] = w.shuffle(a, b, [8 * half + lane // 2 + 16 * (lane % 2) for lane in range(16)])
    results = []
    for half in range(2):
        for quarter in range(2):
            order = [8 * quarter + 2 * (lane // 4) + lane % 2 + 16 * (lane // 2 % 2) for lane in range(16)]
            results.append(w.shuffle(halves[0, half], halves[1, half], order))
    return results


def pack_bytes(
    w: Writer, p: dict[str, Reg], source: Reg, first: Reg, places: list[Reg], done: Reg, pitch: Reg
) -> None:
    """Quads from `done` on, byte after byte: the end of k, and lines that fill no group."""
    last = w.sub(p["lines"], 1)
    for j, place in enumerate(places):
        present = w.compare("slt", w.add(first, 4 * j), p["lines"])
        with w.when(present), w.loop(done, p["quads"]) as q, w.loop(0, LANES) as r:
            line = w.mul(w.min(w.total(first, 4 * j, r.i), last), p["line"])
            with w.loop(0, QUAD) as u:
                k = w.add(w.mul(q.i, QUAD), u.i)
                inside = w.compare("slt", k, p["k"])
                value = w.load("i8", bytes_after(w, source, line, w.mul(w.select(inside, k, 0), p["step"])), 1)
                target = bytes_after(w, place, w.mul(q.i, pitch), w.mul(r.i, QUAD), u.i)
                w.store(w.select(inside, value, Reg("0", "i8")), target, 1)


# --- multiplying ------------------------------------------------------------------------------------------------------


def product_text() -> str:
    """Slices of k; in each, every strip of the part meets all panels of the block."""
    w = Writer("int8_product", ABI)
    a, b, c = (argument(w, "ptrs", k, "ptr") for k in range(3))
    p = {name: argument(w, "params", k) for k, name in enumerate(PRODUCT_PARAMS)}
    panels, strips = w.div(w.add(p["m"], HEIGHT - 1), HEIGHT), w.div(w.add(p["n"], WIDTH - 1), WIDTH)
    with w.loop(w["begin"], w["end"]) as item:
        i0, j0 = w.mul(w.div(item.i, p["parts"]), p["block"]), w.mul(w.rem(item.i, p["parts"]), p["part"])
        i1, j1 = w.min(w.add(i0, p["block"]), panels), w.min(w.add(j0, p["part"]), strips)
        with w.loop(0, p["quads"], SLICE) as k0, w.loop(j0, j1) as j, w.loop(i0, i1) as i:
            deep, add = w.min(w.sub(p["quads"], k0.i), SLICE), w.compare("ne", k0.i, 0)
            left = bytes_after(w, a, w.mul(w.add(w.mul(i.i, p["quads"]), k0.i), HEIGHT * QUAD))
            right = bytes_after(w, b, w.mul(w.add(w.mul(j.i, p["quads"]), k0.i), WIDTH * QUAD))
            row, column = w.mul(i.i, HEIGHT), w.mul(j.i, WIDTH)
            out = w.at(c, w.add(w.mul(row, p["row"]), column), "i32")
            w.call(
                "tile", left, right, out, p["row"], w.sub(p["m"], row), w.sub(p["n"], column), deep, add
            )
    return w.text()


def tile_text() -> str:
    """One tile, of which `rows` and `columns` are wanted if they are fewer."""
    w = Writer("tile", TILE, "internal ")
    spill = w.scratch("i32", HEIGHT * WIDTH)
    zero = Reg("zeroinitializer", WORDS)
    with w.loop(0, w["quads"], carry=[w["a"], w["b"], *[zero] * (HEIGHT * VECTORS)]) as k:
        a, b, *sums = k.carry
        left = [w.load(WORDS, w.at(a, r, WORDS), 16) for r in range(HEIGHT // LANES)]
        right = [w.load(BYTES, w.at(b, v, WORDS), 16) for v in range(VECTORS)]
        for r in range(HEIGHT):
            factor = w.new(BYTES, f"bitcast {w.lane(left[r // LANES], r % LANES, LANES)} to {BYTES}")
            for v in range(VECTORS):
                n = r * VECTORS + v
                sums[n] = w.new(WORDS, f"call {WORDS} @{DOT}({sums[n]}, {right[v]}, {factor})")
        k.next = [w.at(a, HEIGHT * QUAD, "i8"), w.at(b, WIDTH * QUAD, "i8"), *sums]
    write_tile(w, k.carry[2:], spill)
    return w.text()


def write_tile(w: Writer, sums: list[Reg], spill: Reg) -> None:
    """The sums to `c`, added to what is there if `add`; through the stack where not all are wanted."""
    full = w.both(w.compare("sge", w["rows"], HEIGHT), w.compare("sge", w["columns"], WIDTH))

    def place(r: Number, column: Number) -> Reg:
        return w.at(w["c"], w.add(w.mul(w["row"], r), column), "i32")

    with w.when(w.both(full, w["add"])):
        for n, value in enumerate(sums):
            at = place(n // VECTORS, n % VECTORS * LANES)
            w.store(w.add(w.load(WORDS, at, 4), value), at, 4)
    with w.when(w.both(full, w.negate(w["add"]))):
        for n, value in enumerate(sums):
            w.store(value, place(n // VECTORS, n % VECTORS * LANES), 4)
    with w.when(w.negate(full)):
        for n, value in enumerate(sums):
            w.store(value, w.at(spill, n, WORDS), 16)
        with w.loop(0, w.min(w["rows"], HEIGHT)) as r, w.loop(0, w.min(w["columns"], WIDTH)) as j:
            value = w.load("i32", w.at(spill, w.add(w.mul(r.i, WIDTH), j.i), "i32"), 4)
            old = w.select(w["add"], w.load("i32", place(r.i, j.i), 4), Reg("0", "i32"))
            w.store(w.add(value, old), place(r.i, j.i), 4)
