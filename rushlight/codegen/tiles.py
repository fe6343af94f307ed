"""Matrix products on AMX tiles, bfloat16 and int8: one generated kernel for each over packed operands.

Enters: the right operand packed in blocks (tile_packs.py), so that every tile is 1 KiB of consecutive memory;
the left one packed as well, or as it is where its rows are consecutive and made of whole blocks. Leaves: a `Kernel`
with the usual ABI whose parallel range is parts of the result. Refuses nothing:
callers ask the core (`request_tiles`) whether the processor has them. bfloat16 products are rounded once, those of
int8 are int32.

Loop nests have no notion of a tile register, so this kernel is written as LLVM IR. A block of 32x32 results is four
tiles that stay in registers while k runs through a slice. The right operand's slice stays in the first-level cache or
near it while all row blocks of a part meet it, the left one's streams from the second; both are asked for. Between
slices the sums of a part wait in memory. Parts, slices and the number of columns that meet a slice of rows are
parameters:

    m n                     sizes of the result
    blocks_k blocks_n       blocks along k and n
    row                     row stride of the result
    slice                   blocks of k in a slice
    part_m part_n           blocks in a part of the result; at most PART together
    group                   column blocks that meet a row block before the next
    parts_n                 parts along n
    strip step half pitch   bytes of the left operand between row blocks, blocks of k, tiles of a block, rows of a tile
    biased                  whether the fourth operand, a bfloat16 number per column, is added before rounding
"""

from __future__ import annotations

from typing import Any

from ..loops.digest import digest
from ..loops.record import Record
from . import cache
from .cache import Kernel
from .writer import ABI, Number, Reg, Writer, as_reg

BLOCK = 32
PART = 64                       # 32x32 blocks whose sums a thread keeps: 256 KiB
ROW_BYTES = 64                  # of k in a block
BLOCK_BYTES = BLOCK * ROW_BYTES
SUM_BYTES = BLOCK * BLOCK * 4
TILES = tuple((tile, row, half) for tile, (row, half) in enumerate(((0, 0), (0, 1), (1, 0), (1, 1))))

AHEAD = 1                       # blocks of k between asking for lines of the operands and loading them

INTRINSICS = """declare void @llvm.prefetch.p0(ptr, i32, i32, i32)
declare void @llvm.x86.ldtilecfg(ptr)
declare void @llvm.x86.tilerelease()
declare void @llvm.x86.tilezero(i8)
declare void @llvm.x86.tileloadd64(i8, ptr, i64)
declare void @llvm.x86.tilestored64(i8, ptr, i64)
declare void @llvm.x86.tdpbf16ps(i8, i8, i8)
declare void @llvm.x86.tdpbssd(i8, i8, i8)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
"""


class TileKind(Record):
    """What tiles multiply: a type, the bytes of an element, and the instruction."""

    code: str
    size: int
    multiply: str

    @property
    def deep(self) -> int:
        """Values of k in a block."""
        return ROW_BYTES // self.size


BF16 = TileKind("bf16", 2, "llvm.x86.tdpbf16ps")
INT8 = TileKind("i8", 1, "llvm.x86.tdpbssd")
KINDS = {kind.code: kind for kind in (BF16, INT8)}


class TileProduct:
    """What the kernel cache asks of a nest: a name, parameters and a digest."""

    params = (
        "m",
        "n",
        "blocks_k",
        "blocks_n",
        "row",
        "slice",
        "part_m",
        "part_n",
        "group",
        "parts_n",
        "strip",
        "step",
        "half",
        "pitch",
        "biased",
    )

    def __init__(self, kind: TileKind) -> None:
        self.kind, self.name = kind, f"{kind.code}_tiles"

    def digest(self) -> bytes:
        """The cache's key holds the generator's sources besides."""
        return digest(self.name.encode())


def product_kernel(kind: TileKind) -> Kernel:
    """The kernel: operands packed left, packed right, result, bias (anything where there is none)."""
    return cache.kernel(TileProduct(kind), _object)


def _object(product: Any) -> bytes:
    from .cpu import compile_ir, host_target

    return compile_ir(module_text(product.kind, host_target().triple), host_target(), "object")


def bytes_after(w: Writer, base: Reg, *offsets: Number) -> Reg:
    """The address so many bytes after `base`."""
    return w.at(base, w.total(*offsets), "i8")


def argument(w: Writer, base: str, index: int, kind: str = "i64") -> Reg:
    """One of the pointers or parameters a kernel is given."""
    return w.load(kind, w.at(w[base], index, kind), 8)


def tile(number: int) -> Reg:
    return Reg(str(number), "i8")


def module_text(kind: TileKind, triple: str) -> str:
    """LLVM IR of the kernel."""
    target = "" if triple == "host" else f'target triple = "{triple}"\n'
    w = Writer(TileProduct(kind).name, ABI)
    a, b, c, bias = (argument(w, "ptrs", k, "ptr") for k in range(4))
    p = {name: argument(w, "params", k) for k, name in enumerate(TileProduct.params)}
    p["biased"] = w.compare("ne", p["biased"], 0)
    config, sums = w.scratch("i8", 64), w.scratch("i8", PART * SUM_BYTES)
    finished = Finished(w, kind, p, c, bias)
    configure(w, config)
    right_strip, blocks_m = w.mul(p["blocks_k"], BLOCK_BYTES), w.div(w.add(p["m"], BLOCK - 1), BLOCK)
    with w.loop(w["begin"], w["end"]) as part:
        m0, n0 = w.mul(w.div(part.i, p["parts_n"]), p["part_m"]), w.mul(w.rem(part.i, p["parts_n"]), p["part_n"])
        m1, n1 = w.min(w.add(m0, p["part_m"]), blocks_m), w.min(w.add(n0, p["part_n"]), p["blocks_n"])
        with w.loop(0, p["blocks_k"], p["slice"]) as k0:
            k1 = w.min(w.add(k0.i, p["slice"]), p["blocks_k"])
            first, last = w.compare("eq", k0.i, 0), w.compare("eq", k1, p["blocks_k"])
            with (
                w.loop(n0, n1, p["group"]) as group,
                w.loop(m0, m1) as mb,
                w.loop(group.i, w.min(w.add(group.i, p["group"]), n1)) as nb,
            ):
                place = w.add(w.mul(w.sub(mb.i, m0), p["part_n"]), w.sub(nb.i, n0))
                kept = bytes_after(w, sums, w.mul(place, SUM_BYTES))
                start_sums(w, first, kept)
                left = bytes_after(w, a, w.mul(mb.i, p["strip"]))
                right = bytes_after(w, b, w.mul(nb.i, right_strip))
                multiply(w, kind, p, left, right, k0.i, k1)
                with w.when(w.negate(last)):
                    move_tiles(w, "tilestored64", kept)
                with w.when(last):
                    finished.block(mb.i, nb.i)
    finished.rest()
    w.call("llvm.x86.tilerelease")
    return target + INTRINSICS + "\n" + w.text() + "\n"


def configure(w: Writer, config: Reg) -> None:
    """All eight tiles are 16 rows of 64 bytes."""
    w.call("llvm.memset.p0.i64", config, Reg("0", "i8"), 64, Reg("false", "i1"))
    w.store(Reg("1", "i8"), config, 1)
    for t in range(8):
        w.store(Reg("64", "i16"), bytes_after(w, config, 16 + 2 * t), 2)
        w.store(Reg("16", "i8"), bytes_after(w, config, 48 + t), 1)
    w.call("llvm.x86.ldtilecfg", config)


def move_tiles(w: Writer, how: str, kept: Reg) -> None:
    """All sums to or from memory, tile after tile."""
    for t, _, _ in TILES:
        w.call(f"llvm.x86.{how}", tile(t), bytes_after(w, kept, t * 1024), 64)


def start_sums(w: Writer, first: Reg, kept: Reg) -> None:
    """Zeros, or what earlier slices summed."""
    with w.when(first):
        for t, _, _ in TILES:
            w.call("llvm.x86.tilezero", tile(t))
    with w.when(w.negate(first)):
        move_tiles(w, "tileloadd64", kept)


def multiply(w: Writer, kind: TileKind, p: dict[str, Reg], a_strip: Reg, b_strip: Reg, k0: Reg, k1: Reg) -> None:
    """Add the products of blocks k0 to k1 to the sums."""
    with w.loop(k0, k1) as k:
        a0, b0 = bytes_after(w, a_strip, w.mul(k.i, p["step"])), bytes_after(w, b_strip, w.mul(k.i, BLOCK_BYTES))
        # Loads first: they wait for memory side by side. A load between products would wait for those before it.
        for half, place in enumerate((a0, bytes_after(w, a0, p["half"]))):
            w.call("llvm.x86.tileloadd64", tile(4 + half), place, p["pitch"])
        for half in range(2):
            w.call("llvm.x86.tileloadd64", tile(6 + half), bytes_after(w, b0, half * BLOCK_BYTES // 2), 64)
        left, right = bytes_after(w, a0, w.mul(p["step"], AHEAD)), bytes_after(w, b0, AHEAD * BLOCK_BYTES)
        for t, row, half in TILES:      # meanwhile a quarter of the next block's lines is asked for
            w.call(kind.multiply, tile(t), tile(4 + row), tile(6 + half))
            some = bytes_after(w, left, p["half"]) if row else left
            for r in range(8):
                w.prefetch(bytes_after(w, some, w.mul(p["pitch"], 8 * half + r)), 1)
                w.prefetch(bytes_after(w, right, (8 * t + r) * ROW_BYTES), 1)


class Finished:
    """Blocks whose sums are complete: rounded, to the result; what lies past its edges is dropped.

    A block of bfloat16 waits in memory until the next one is complete: it is rounded while that one's last products are
    still under way, where its own would have to be waited for."""

    def __init__(self, w: Writer, kind: TileKind, p: dict[str, Reg], c: Reg, bias: Reg) -> None:
        self.w, self.kind, self.p, self.c, self.bias = w, kind, p, c, bias
        self.size, self.element = (2, "float") if kind is BF16 else (4, "i32")
        self.pitch = w.mul(p["row"], self.size)
        self.sums, self.waiting = w.scratch("i8", 2 * SUM_BYTES), w.scratch("i64", 3)     # which block: see `remember`
        self.remember(-1, 0, 0)

    def remember(self, mb: Number, nb: Number, half: Number) -> None:
        """The block that waits, -1 for none, and which half of `sums` it is in."""
        for k, value in enumerate((mb, nb, half)):
            self.w.store(as_reg(value), self.w.at(self.waiting, k, "i64"), 8)

    def recall(self) -> list[Reg]:
        return [self.w.load("i64", self.w.at(self.waiting, k, "i64"), 8) for k in range(3)]

    def block(self, mb: Reg, nb: Reg) -> None:
        """The block in the registers."""
        w = self.w
        if self.kind is BF16:
            before, column, half = self.recall()
            other = w.sub(SUM_BYTES, half)
            self.store_tiles(bytes_after(w, self.sums, other), as_reg(BLOCK * 4))
            with w.when(w.compare("sge", before, 0)):
                self.write(before, column, bytes_after(w, self.sums, half))
            self.remember(mb, nb, other)
            return
        rows, columns, out = self.place(mb, nb)
        full = self.is_whole(rows, columns)
        with w.when(full):
            self.store_tiles(out, self.pitch)
        with w.when(w.negate(full)):
            self.store_tiles(self.sums, as_reg(BLOCK * 4))
            self.write_rows(rows, columns, out, nb, self.sums)

    def rest(self) -> None:
        """The last block."""
        if self.kind is not BF16:
            return
        before, column, half = self.recall()
        with self.w.when(self.w.compare("sge", before, 0)):
            self.write(before, column, bytes_after(self.w, self.sums, half))

    def place(self, mb: Reg, nb: Reg) -> tuple[Reg, Reg, Reg]:
        """How many rows and columns of the result begin with a block, and where it lies."""
        w, p = self.w, self.p
        m0, n0 = w.mul(mb, BLOCK), w.mul(nb, BLOCK)
        out = bytes_after(w, self.c, w.mul(w.add(w.mul(m0, p["row"]), n0), self.size))
        return w.sub(p["m"], m0), w.sub(p["n"], n0), out

    def is_whole(self, rows: Reg, columns: Reg) -> Reg:
        return self.w.both(self.w.compare("sge", columns, BLOCK), self.w.compare("sge", rows, BLOCK))

    def store_tiles(self, target: Reg, apart: Number) -> None:
        w = self.w
        for t, row, half in TILES:
            w.call("llvm.x86.tilestored64", tile(t), bytes_after(w, target, w.mul(apart, 16 * row), half * 64), apart)

    def write(self, mb: Reg, nb: Reg, sums: Reg) -> None:
        """A block of bfloat16 that waited at `sums`."""
        w = self.w
        rows, columns, out = self.place(mb, nb)
        full = self.is_whole(rows, columns)
        with w.when(full):
            added = self.added(nb)
            for r in range(BLOCK):
                self.write_row(r, out, sums, added)
        with w.when(w.negate(full)):
            self.write_rows(rows, columns, out, nb, sums)

    def added(self, nb: Reg) -> Reg:
        """What is added to all rows of a block that has all its columns: zeros where there is no bias."""
        w, wide = self.w, f"<{BLOCK} x float>"
        place = w.select(self.p["biased"], w.at(self.bias, w.mul(nb, BLOCK), "bfloat"), self.sums)
        number = w.new(wide, f"fpext {w.load(f'<{BLOCK} x bfloat>', place, 2)} to {wide}")
        return w.select(self.p["biased"], number, Reg("splat (float -0.0)", wide))

    def write_row(self, r: int, out: Reg, sums: Reg, added: Reg) -> None:
        w = self.w
        values = w.fadd(w.load(f"<{BLOCK} x float>", bytes_after(w, sums, r * BLOCK * 4), 64), added)
        w.store(self.rounded(values), bytes_after(w, out, w.mul(r, self.pitch)), self.size)

    def rounded(self, values: Reg) -> Reg:
        kind = values.type.replace("float", "bfloat")
        return self.w.new(kind, f"fptrunc {values} to {kind}") if self.kind is BF16 else values

    def write_rows(self, rows: Reg, columns: Reg, out: Reg, nb: Reg, sums: Reg) -> None:
        """A block on an edge, element by element."""
        w = self.w
        with w.loop(0, w.min(rows, BLOCK)) as r, w.loop(0, w.min(columns, BLOCK)) as q:
            at = w.add(w.mul(r.i, BLOCK * 4), w.mul(q.i, 4))
            value = w.load(self.element, bytes_after(w, sums, at), 4)
            if self.kind is BF16:
                own = w.at(self.bias, w.add(w.mul(nb, BLOCK), q.i), "bfloat")
                place = w.select(self.p["biased"], own, self.sums)
                number = w.new("float", f"fpext {w.load('bfloat', place, 2)} to float")
                value = w.fadd(value, w.select(self.p["biased"], number, Reg("-0.0", "float")))
            place = bytes_after(w, out, w.mul(r.i, self.pitch), w.mul(q.i, self.size))
            w.store(self.rounded(value), place, self.size)
