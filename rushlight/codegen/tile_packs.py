"""Packing the operands of tile products: blocks of 32x32 in the order tiles are loaded.

Enters: two matrices of 16-bit elements whose rows or columns are consecutive in memory. Leaves: one `Kernel` that packs
both, left then right, zeros past the edges; its parallel range is strips of 32 rows (or columns, whichever are
consecutive) of the left operand, then of the right. Refuses: matrices consecutive in neither direction; callers copy
those first.

A block of the left operand is its rows; of the right, pairs of rows, element by element: what a tile product
multiplies. Whichever way the memory runs, 32 rows of 32 elements are loaded, then pairs of rows are interleaved, or
16x16 pairs are transposed, or both:

    left, k consecutive: neither     right, n consecutive: interleave
    left, m consecutive: both        right, k consecutive: transpose
"""

from __future__ import annotations

from typing import Any

from ..loops.digest import digest
from . import cache
from .cache import Kernel
from .tiles import BLOCK, BLOCK_BYTES, argument, bytes_after
from .writer import ABI, Reg, Writer

ONE = ("lines", "length", "blocks", "pitch", "step_line", "step_block")   # of each operand, see `params_of`
ROW = f"<{BLOCK} x i16>"
PAIRS = "<16 x i32>"


class TilePack:
    """What the kernel cache asks of a nest, for one pair of memory orders."""

    def __init__(self, left_turned: bool, right_turned: bool) -> None:
        self.transposed = left_turned, right_turned
        self.name = f"tile_pack_{int(left_turned)}{int(right_turned)}"
        self.params = (*(f"left_{n}" for n in ONE), *(f"right_{n}" for n in ONE), "left_strips")

    def digest(self) -> bytes:
        """The name says what is packed; the cache's key holds the generator's sources besides."""
        return digest(self.name.encode())


def pack_kernel(left_turned: bool, right_turned: bool) -> Kernel:
    """The kernel for operands whose memory runs along k (left) and n (right), or the other way (turned)."""
    return cache.kernel(TilePack(left_turned, right_turned), _object)


def _object(pack: Any) -> bytes:
    from .cpu import compile_ir, host_target

    return compile_ir(module_text(host_target().triple, *pack.transposed), host_target(), "object")


def params_of(lines: int, length: int, stride: int, line_is_k: bool, blocks_k: int) -> list[int]:
    """Parameters of one operand: `lines` of `length` consecutive elements, `stride` apart;
    whether a line is one value of k."""
    strip = blocks_k * BLOCK_BYTES
    steps = (BLOCK_BYTES, strip) if line_is_k else (strip, BLOCK_BYTES)
    return [lines, length, -(-length // BLOCK), stride * 2, *steps]


def module_text(triple: str, left_turned: bool, right_turned: bool) -> str:
    """LLVM IR of the kernel."""
    target = "" if triple == "host" else f'target triple = "{triple}"\n'
    w = Writer(TilePack(left_turned, right_turned).name, ABI)
    stage, strips = w.scratch("i8", BLOCK_BYTES), argument(w, "params", 2 * len(ONE))
    later = w.sub(w["begin"], strips)
    ranges = ((w["begin"], w.min(w["end"], strips)), (w.max(later, 0), w.sub(w["end"], strips)))
    orders = ((left_turned, left_turned), (not right_turned, right_turned))
    for which, ((begin, end), (interleaved, transposed)) in enumerate(zip(ranges, orders, strict=True)):
        source, packed = argument(w, "ptrs", 2 * which, "ptr"), argument(w, "ptrs", 2 * which + 1, "ptr")
        p = {name: argument(w, "params", which * len(ONE) + k) for k, name in enumerate(ONE)}
        with w.loop(begin, end) as strip, w.loop(0, p["blocks"]) as block:
            base, pitch = readable_block(w, p, source, stage, strip.i, block.i)
            rows = [w.load(ROW, bytes_after(w, base, w.mul(r, pitch)), 2) for r in range(BLOCK)]
            place = bytes_after(w, packed, w.mul(strip.i, p["step_line"]), w.mul(block.i, p["step_block"]))
            for r, value in enumerate(arranged(w, rows, interleaved, transposed)):
                w.store(value, bytes_after(w, place, r * BLOCK * 2), 64)
    return target + "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)\n\n" + w.text() + "\n"


def readable_block(w: Writer, p: dict[str, Reg], source: Reg, stage: Reg, strip: Reg, block: Reg) -> tuple[Reg, Reg]:
    """Where 32 rows of 32 elements can be read, and how far apart: in the operand,
    or staged with zeros past its edges."""
    line, first = w.mul(strip, BLOCK), w.mul(block, BLOCK)
    rows, columns = w.min(w.sub(p["lines"], line), BLOCK), w.min(w.sub(p["length"], first), BLOCK)
    inside = bytes_after(w, source, w.mul(line, p["pitch"]), w.mul(first, 2))
    partial = w.compare("slt", w.add(rows, columns), 2 * BLOCK)
    with w.when(partial):
        w.call("llvm.memset.p0.i64", stage, Reg("0", "i8"), BLOCK_BYTES, Reg("false", "i1"))
        with w.loop(0, rows) as r, w.loop(0, columns) as q:
            value = w.load("i16", bytes_after(w, inside, w.mul(r.i, p["pitch"]), w.mul(q.i, 2)), 2)
            w.store(value, bytes_after(w, stage, w.mul(r.i, BLOCK * 2), w.mul(q.i, 2)), 2)
    return w.select(partial, stage, inside), w.select(partial, BLOCK * 2, p["pitch"])


def arranged(w: Writer, rows: list[Reg], interleaved: bool, transposed: bool) -> list[Reg]:
    """The 32 rows of a packed block."""
    if interleaved:
        rows = [
            shuffle(w, rows[2 * p], rows[2 * p + 1], [16 * h + lane // 2 + BLOCK * (lane % 2) for lane in range(BLOCK)])
            for h in range(2)
            for p in range(16)
        ]
    if not transposed:
        return rows
    pairs = [w.new(PAIRS, f"bitcast {row} to {PAIRS}") for row in rows]
    return [w.new(ROW, f"bitcast {row} to {ROW}") for half in (pairs[:16], pairs[16:]) for row in transpose(w, half)]


def transpose(w: Writer, rows: list[Reg]) -> list[Reg]:
    """16 vectors of 16 pairs, transposed by exchanging quarters of ever smaller squares."""
    rows = list(rows)
    for d in (8, 4, 2, 1):
        for i in range(16):
            if not i & d:
                a, b = rows[i], rows[i + d]
                rows[i] = shuffle(w, a, b, [16 + lane - d if lane & d else lane for lane in range(16)])
                rows[i + d] = shuffle(w, a, b, [16 + lane if lane & d else lane + d for lane in range(16)])
    return rows


def shuffle(w: Writer, a: Reg, b: Reg, order: list[int]) -> Reg:
    """Lanes of two vectors, in the given order."""
    return w.new(a.type, f"shufflevector {a}, {b}, <{len(order)} x i32> <{', '.join(f'i32 {n}' for n in order)}>")
