"""AMX tile registers, for the kernels that are written over them: kinds of products, blocks, the configuration.

Enters: a writer of LLVM IR. Leaves: instructions in it. Refuses nothing: callers ask the core (`request_tiles`) whether
the processor has such registers.

Loop nests have no notion of a tile register, so products (tile_products.py), packing (tile_packs.py) and attention
(attention/forward.py) are written as LLVM IR.
"""

from __future__ import annotations

from ...loops.record import Record
from ..text.writer import Number, Reg, Writer

BLOCK = 32
ROW_BYTES = 64                  # of k in a block
BLOCK_BYTES = BLOCK * ROW_BYTES
TILE_BYTES = 1024
SUM_BYTES = BLOCK * BLOCK * 4
TILES = tuple((tile, row, half) for tile, (row, half) in enumerate(((0, 0), (0, 1), (1, 0), (1, 1))))

INTRINSICS = """declare void @llvm.x86.ldtilecfg(ptr)
declare void @llvm.x86.tilerelease()
declare void @llvm.x86.tilezero(i8)
declare void @llvm.x86.tileloadd64(i8, ptr, i64)
declare void @llvm.x86.tileloaddt164(i8, ptr, i64)
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


def bytes_after(w: Writer, base: Reg, *offsets: Number) -> Reg:
    """The address so many bytes after `base`."""
    return w.at(base, w.total(*offsets), "i8")


def argument(w: Writer, base: str, index: int, kind: str = "i64") -> Reg:
    """One of the pointers or parameters a kernel is given."""
    return w.load(kind, w.at(w[base], index, kind), 8)


def tile(number: int) -> Reg:
    return Reg(str(number), "i8")


def configure(w: Writer, config: Reg) -> None:
    """All eight tiles are 16 rows of 64 bytes."""
    w.call("llvm.memset.p0.i64", config, Reg("0", "i8"), 64, Reg("false", "i1"))
    w.store(Reg("1", "i8"), config, 1)
    for t in range(8):
        w.store(Reg("64", "i16"), bytes_after(w, config, 16 + 2 * t), 2)
        w.store(Reg("16", "i8"), bytes_after(w, config, 48 + t), 1)
    w.call("llvm.x86.ldtilecfg", config)


def result_bytes(kind: TileKind) -> int:
    """Of an element of the result."""
    return 2 if kind is BF16 else 4
