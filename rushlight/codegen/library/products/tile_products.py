"""Matrix products on AMX tiles, bfloat16 and int8: one generated kernel for each pair of memory orders.

Enters: operands as they are, whose rows or columns are consecutive in memory, or packed before (tile_packs.py), so that
every tile is 1 KiB of consecutive memory. Leaves: a `Kernel` with the usual ABI whose parallel range is parts of the
result. Refuses nothing: callers ask the core (`request_tiles`) whether the processor has tiles. bfloat16 products are
rounded once, those of int8 are int32.

A block of 32x32 results is four tiles that stay in registers while k runs through a slice. A row panel's slice stays in
the first-level cache while all column panels of a part meet it: their blocks come from the second one by loads that do
not displace it. Operands that are not packed before are packed here: columns when the first part meets them, rows with
each part, so that they need not leave that cache in between. Rows made of whole blocks may be read where they lie.
Between slices the sums of a part wait in memory.

A tile's sums are there 52 cycles after its last product began. So a block is not stored when its products are written
down but with the next block's first ones, tile by tile, and rounded and written while that block is multiplied.

    m n                     sizes of the result
    blocks_k blocks_n       blocks along k and n
    row                     row stride of the result
    slice                   blocks of k in a slice
    near                    how many of them the first-level cache holds of a row panel
    part_m part_n           blocks in a part of the result; at most PART together where there are several slices
    parts_m                 parts along m: neighbours meet the same columns, which stay in the second-level cache
    strip step half pitch   bytes of the left operand between row blocks, blocks of k, tiles of a block, rows of a tile
    biased                  whether the fourth operand, a bfloat16 number per column, is added before rounding
    packs_left packs_right  whether an operand is packed here, to the fifth and sixth operand: room for a part's rows
                            and one for its columns, for each `chunk` of parts that a thread takes at a time
    left_* right_*          lines of an operand that is packed here, elements of each, bytes between them
    last                    the last row that a block may begin with: where rows are read as they lie, the last block
                            takes some of the one before it once more, to the same results
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ....base.digest import digest
from ...stored import cache
from ...stored.cache import Kernel
from ...text.writer import ABI, Number, Reg, Writer, as_reg
from ...tiles.tiles import (
    BF16,
    BLOCK,
    BLOCK_BYTES,
    INTRINSICS,
    ROW_BYTES,
    SUM_BYTES,
    TILE_BYTES,
    TILES,
    TileKind,
    argument,
    bytes_after,
    configure,
    result_bytes,
    tile,
)
from .tile_packs import DECLARED, strips_text

PART = 64                       # 32x32 blocks whose sums a thread keeps: 256 KiB
LINES_AT_ONCE = 4               # lines of the cache of the block before that are written with each block of k
NONE, WHOLE, EDGE = range(3)    # what waits to be written: see `Waiting`


class TileProduct:
    """What the kernel cache asks of a nest, for one pair of memory orders."""

    params = (
        "m", "n", "blocks_k", "blocks_n", "row", "slice", "near", "part_m", "part_n", "parts_m",
        "strip", "step", "half", "pitch", "biased", "chunk", "packs_left", "packs_right",
        "left_lines", "left_length", "left_pitch", "right_lines", "right_length", "right_pitch", "last",
    )

    def __init__(self, kind: TileKind, left_turned: bool, right_turned: bool) -> None:
        self.kind, self.turned = kind, (left_turned, right_turned)
        self.name = f"{kind.code}_tiles_{int(left_turned)}{int(right_turned)}"

    def digest(self) -> bytes:
        """The name says what is multiplied; the cache's key holds the generator's sources besides."""
        return digest(self.name.encode())


def product_kernel(kind: TileKind, left_turned: bool, right_turned: bool) -> Kernel:
    """The kernel for operands whose memory runs along k (left) and n (right), or the other way (turned): left, right,
    result, bias (anything where there is none), room for packed rows and columns."""
    return cache.kernel(TileProduct(kind, left_turned, right_turned), _object)


def _object(product: Any) -> bytes:
    from ...llvm.cpu import compile_ir, host_target

    return compile_ir(module_text(product.kind, host_target().triple, *product.turned), host_target(), "object")


def module_text(kind: TileKind, triple: str, left_turned: bool, right_turned: bool) -> str:
    """LLVM IR of the kernel."""
    target = "" if triple == "host" else f'target triple = "{triple}"\n'
    w = Writer(TileProduct(kind, left_turned, right_turned).name, ABI)
    a, b, c, bias, rows, columns = (argument(w, "ptrs", k, "ptr") for k in range(6))
    p = {name: argument(w, "params", k) for k, name in enumerate(TileProduct.params)}
    p["biased"] = w.compare("ne", p["biased"], 0)
    config, sums = w.scratch("i8", 64), w.scratch("i8", PART * SUM_BYTES)
    waiting = Waiting(w, kind, p, c, bias)
    configure(w, config)
    strip, blocks_m = w.mul(p["blocks_k"], BLOCK_BYTES), w.div(w.add(p["m"], BLOCK - 1), BLOCK)
    turn = w.mul(w.div(w["begin"], p["chunk"]), strip)         # which room for what is packed here, times a strip
    rows, columns = (w.at(x, w.mul(turn, p[n]), "i8") for x, n in ((rows, "part_m"), (columns, "part_n")))
    packs = [Packing(w, p, strip, which, turned) for which, turned in (("left", left_turned), ("right", right_turned))]
    with w.loop(w["begin"], w["end"]) as part:
        m0, n0 = w.mul(w.rem(part.i, p["parts_m"]), p["part_m"]), w.mul(w.div(part.i, p["parts_m"]), p["part_n"])
        m1, n1 = w.min(w.add(m0, p["part_m"]), blocks_m), w.min(w.add(n0, p["part_n"]), p["blocks_n"])
        is_new = w.binary("or", w.compare("eq", part.i, w["begin"]), w.compare("eq", m0, 0))
        right = packs[1].write(b, columns, n0, n1, strip, is_new)
        left = packs[0].write(a, rows, m0, m1, p["strip"], Reg("true", "i1"))
        with w.loop(0, p["blocks_k"], p["slice"]) as k0:
            k1 = w.min(w.add(k0.i, p["slice"]), p["blocks_k"])
            past = (w.compare("eq", k0.i, 0), w.compare("eq", k1, p["blocks_k"]))
            start, length = w.mul(k0.i, BLOCK_BYTES), w.sub(k1, k0.i)
            with w.loop(m0, m1) as mb, w.loop(n0, n1) as nb:
                row, column = w.sub(mb.i, m0), w.sub(nb.i, n0)
                block = Block(w, kind, p, length, *past)
                before = w.mul(w.sub(waiting.first_row(mb.i), w.mul(mb.i, BLOCK)), p["pitch"])
                block.left = bytes_after(w, left, w.mul(mb.i, p["strip"]), w.mul(k0.i, p["step"]), before)
                block.right = bytes_after(w, right, w.mul(nb.i, strip), start)
                block.kept = bytes_after(w, sums, w.mul(w.add(w.mul(row, p["part_n"]), column), SUM_BYTES))
                block.write(waiting, mb.i, nb.i)
    waiting.rest()
    w.call("llvm.x86.tilerelease")
    texts = [strips_text(kind, packs[0].name, left_turned, left_turned)]
    texts.append(strips_text(kind, packs[1].name, not right_turned, right_turned))
    declared = dict.fromkeys((INTRINSICS + DECLARED).splitlines())
    return target + "\n".join([*declared, *texts, w.text(), ""])


class Packing:
    """How one operand is packed where it is used."""

    def __init__(self, w: Writer, p: dict[str, Reg], strip: Reg, which: str, turned: bool) -> None:
        self.w, self.strip, self.blocks_k, self.name = w, strip, p["blocks_k"], f"pack_{which}"
        self.wanted = w.compare("ne", p[f"packs_{which}"], 0)
        self.shape = [p[f"{which}_{n}"] for n in ("lines", "length", "pitch")]
        self.lines_are_k = turned if which == "left" else not turned

    def write(self, source: Reg, room: Reg, first: Reg, past: Reg, apart: Reg, is_new: Reg) -> Reg:
        """Blocks of rows, or of columns, from `first` to before `past`, if they are new and wanted. Leaves where the
        operand's block 0 would lie."""
        w = self.w
        ranges, steps = ((first, past), (as_reg(0), self.blocks_k)), (self.strip, as_reg(BLOCK_BYTES))
        if self.lines_are_k:
            ranges, steps = ranges[::-1], steps[::-1]
        with w.when(w.both(self.wanted, is_new)):
            w.call(self.name, source, room, *ranges[0], *ranges[1], *self.shape, *steps)
        return w.select(self.wanted, w.at(room, w.sub(0, w.mul(first, apart)), "i8"), source)


class Block:
    """32x32 results and a slice of k, `length` blocks of it."""

    left: Reg
    right: Reg
    kept: Reg                   # where the sums wait for the next slice

    def __init__(self, w: Writer, kind: TileKind, p: dict[str, Reg], length: Reg, is_first: Reg, is_last: Reg) -> None:
        self.w, self.kind, self.p, self.length = w, kind, p, length
        self.is_first, self.is_last = is_first, is_last

    def write(self, waiting: Waiting, mb: Reg, nb: Reg) -> None:
        """Multiply; store and write what was multiplied before."""
        w = self.w
        waiting.recall()
        self.first_products(waiting)
        waiting.write_edge()
        both = w.select(waiting.is_whole, w.min(self.length, 1 + BLOCK // waiting.at_once), 1)
        with w.loop(1, both) as k:
            self.products(k.i, True)
            waiting.write_rows(w.mul(w.sub(k.i, 1), waiting.at_once))
        near = w.max(both, w.min(self.length, self.p["near"]))
        for start, stop, stays in ((both, near, True), (near, self.length, False)):
            with w.loop(start, stop) as k:
                self.products(k.i, stays)
        first = w.select(waiting.is_whole, w.mul(w.sub(both, 1), waiting.at_once), BLOCK)
        with w.loop(first, BLOCK, waiting.at_once) as r:
            waiting.write_rows(r.i)
        waiting.remember(self, mb, nb)

    def loads(self, k: Number, stays: bool) -> dict[int, Callable[[], None]]:
        """What loads the operands' tiles of a block of k, by tile."""
        w, p = self.w, self.p
        a, b = bytes_after(w, self.left, w.mul(p["step"], k)), bytes_after(w, self.right, w.mul(k, BLOCK_BYTES))
        rows = {4: a, 5: bytes_after(w, a, p["half"]), 6: b, 7: bytes_after(w, b, TILE_BYTES)}
        found = {}
        for t, place in rows.items():
            how = "tileloadd64" if stays and t < 6 else "tileloaddt164"
            apart = p["pitch"] if t < 6 else ROW_BYTES
            found[t] = functools.partial(w.call, f"llvm.x86.{how}", tile(t), place, apart)
        return found

    def first_products(self, waiting: Waiting) -> None:
        """The first block of k: each tile is stored as the block before left it, and starts with zeros or with what
        earlier slices summed."""
        w = self.w
        for load in self.loads(0, True).values():
            load()
        for follows, condition in ((False, self.is_first), (True, w.negate(self.is_first))):
            with w.when(condition):
                for t, row, half in TILES:
                    waiting.store_tile(t)
                    if follows:
                        place = bytes_after(w, self.kept, t * TILE_BYTES)
                        w.call("llvm.x86.tileloadd64", tile(t), place, ROW_BYTES)
                    else:
                        w.call("llvm.x86.tilezero", tile(t))
                    w.call(self.kind.multiply, tile(t), tile(4 + row), tile(6 + half))

    def products(self, k: Reg, stays: bool) -> None:
        """Another block of k, each tile loaded before the first product that reads it."""
        w, left = self.w, self.loads(k, stays)
        for t, row, half in TILES:
            for operand in (4 + row, 6 + half):
                if operand in left:
                    left.pop(operand)()
            w.call(self.kind.multiply, tile(t), tile(4 + row), tile(6 + half))


class Waiting:
    """The block whose products came last: its sums are in the registers until the next one's first products, then in
    memory: to be continued with the next slice, or to be rounded and written to the result, where what lies past its
    edges is dropped."""

    def __init__(self, w: Writer, kind: TileKind, p: dict[str, Reg], c: Reg, bias: Reg) -> None:
        self.w, self.kind, self.p, self.c, self.bias = w, kind, p, c, bias
        self.size, self.element = result_bytes(kind), "float" if kind is BF16 else "i32"
        self.at_once = LINES_AT_ONCE * ROW_BYTES // (BLOCK * self.size)
        self.pitch = w.mul(p["row"], self.size)
        self.sums, self.state = w.scratch("i8", SUM_BYTES), w.scratch("i64", 4)
        self.put(self.sums, 0, 0, NONE)

    def put(self, *values: Number) -> None:
        for k, value in enumerate(values):
            self.w.store(as_reg(value), self.w.at(self.state, k, "i64"), 8)

    def remember(self, block: Block, mb: Reg, nb: Reg) -> None:
        """What is in the registers now, and where it goes."""
        w = self.w
        rows, columns, _ = self.place(mb, nb)
        full = w.both(w.compare("sge", columns, BLOCK), w.compare("sge", rows, BLOCK))
        what = w.select(block.is_last, w.select(full, WHOLE, EDGE), NONE)
        self.put(w.select(block.is_last, self.sums, block.kept), mb, nb, what)

    def recall(self) -> None:
        """What `remember` was told."""
        w = self.w
        self.to = w.load("ptr", self.state, 8)
        mb, self.nb, what = (w.load("i64", w.at(self.state, k, "i64"), 8) for k in (1, 2, 3))
        self.is_whole, self.is_edge = w.compare("eq", what, WHOLE), w.compare("eq", what, EDGE)
        self.rows, self.columns, self.out = self.place(mb, self.nb)
        self.added = self.addend() if self.kind is BF16 else None

    def rest(self) -> None:
        """The last block, after all products."""
        w = self.w
        self.recall()
        for t, _, _ in TILES:
            self.store_tile(t)
        self.write_edge()
        with w.loop(w.select(self.is_whole, 0, BLOCK), BLOCK, self.at_once) as r:
            self.write_rows(r.i)

    def store_tile(self, t: int) -> None:
        self.w.call("llvm.x86.tilestored64", tile(t), bytes_after(self.w, self.to, t * TILE_BYTES), ROW_BYTES)

    def first_row(self, mb: Reg) -> Reg:
        """Of a block."""
        return self.w.min(self.w.mul(mb, BLOCK), self.p["last"])

    def place(self, mb: Reg, nb: Reg) -> tuple[Reg, Reg, Reg]:
        """How many rows and columns of the result begin with a block, and where it lies."""
        w, p = self.w, self.p
        m0, n0 = self.first_row(mb), w.mul(nb, BLOCK)
        out = bytes_after(w, self.c, w.mul(w.add(w.mul(m0, p["row"]), n0), self.size))
        return w.sub(p["m"], m0), w.sub(p["n"], n0), out

    def addend(self) -> Reg:
        """What is added to all rows of a block that has all its columns: zeros where there is no bias."""
        w, wide = self.w, f"<{BLOCK} x float>"
        is_read = w.both(self.p["biased"], self.is_whole)
        place = w.select(is_read, w.at(self.bias, w.mul(self.nb, BLOCK), "bfloat"), self.sums)
        number = w.new(wide, f"fpext {w.load(f'<{BLOCK} x bfloat>', place, 2)} to {wide}")
        return w.select(is_read, number, Reg("splat (float -0.0)", wide))

    def write_rows(self, r: Reg) -> None:
        """Rows r and those after it, `at_once`, of a whole block: half a row of results is a row of a tile."""
        w = self.w
        low = w.binary("and", r, BLOCK // 2 - 1)
        source = bytes_after(w, self.sums, w.mul(w.sub(r, low), 2 * ROW_BYTES), w.mul(low, ROW_BYTES))
        target = bytes_after(w, self.out, w.mul(r, self.pitch))
        half = f"<{BLOCK // 2} x {self.element}>"
        for row in range(self.at_once):
            halves = [w.load(half, bytes_after(w, source, row * ROW_BYTES, at), 64) for at in (0, TILE_BYTES)]
            values = w.shuffle(*halves, range(BLOCK))
            values = values if self.added is None else self.rounded(w.fadd(values, self.added))
            w.store(values, bytes_after(w, target, w.mul(row, self.pitch)), self.size)

    def rounded(self, values: Reg) -> Reg:
        kind = values.type.replace("float", "bfloat")
        return self.w.new(kind, f"fptrunc {values} to {kind}") if self.kind is BF16 else values

    def write_edge(self) -> None:
        """A block on an edge, element by element."""
        w = self.w
        rows, columns = (w.select(self.is_edge, w.min(count, BLOCK), 0) for count in (self.rows, self.columns))
        with w.loop(0, rows) as r, w.loop(0, columns) as q:
            half, row = w.div(q.i, BLOCK // 2), w.div(r.i, BLOCK // 2)
            number = w.total(w.mul(row, 2 * TILE_BYTES), w.mul(half, TILE_BYTES))
            inside = w.total(w.mul(w.rem(r.i, BLOCK // 2), ROW_BYTES), w.mul(w.rem(q.i, BLOCK // 2), 4))
            value = w.load(self.element, bytes_after(w, self.sums, number, inside), 4)
            if self.kind is BF16:
                own = w.at(self.bias, w.add(w.mul(self.nb, BLOCK), q.i), "bfloat")
                place = w.select(self.p["biased"], own, self.sums)
                addend = w.new("float", f"fpext {w.load('bfloat', place, 2)} to float")
                value = w.fadd(value, w.select(self.p["biased"], addend, Reg("-0.0", "float")))
            place = bytes_after(w, self.out, w.mul(r.i, self.pitch), w.mul(q.i, self.size))
            w.store(self.rounded(value), place, self.size)
