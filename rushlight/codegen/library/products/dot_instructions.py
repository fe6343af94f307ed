"""Instructions that add up several products per 32-bit lane, one record each: what the kernels over them ask.

Enters: the type of the factors. Leaves: a `Dots`, this processor's best, or None where it has none. Refuses nothing.
A new instruction is a record here, a line in `host_dots`, and nothing else: grouped_products.py writes the kernels.
"""

from __future__ import annotations

import functools
import sys

from ....loops.record import Record
from ...text.targets import cpu_words, machine
from ...text.writer import Reg, Writer

ROWS_OF = {"lane": 1, "memory": 1, "square": 2}     # rows of the left operand that an instruction multiplies, by form


class Dots(Record):
    """An instruction and the register tile that keeps it busy.

    Values of k lie side by side in groups of `group`, the next line's group after them. `form` says what the left
    operand of an instruction is: one group on all lanes, taken from a `lane` of a vector or broadcast from `memory`;
    or two rows that meet two columns (`square`: the sums of a vector are 2x2). `flips`: the right factor must be
    unsigned, so that 128 is added to it and taken from the sums again, times the sums of the left operand's rows.
    """

    name: str
    code: str                  # of the factors: i8 are summed in i32, bf16 in float
    call: str                  # the intrinsic
    group: int
    lanes: int                 # sums in a vector
    height: int                # rows of a tile
    vectors: int               # vectors across a tile
    form: str
    feature: str               # what LLVM calls it
    flips: bool = False

    @property
    def size(self) -> int:
        """Bytes of a factor."""
        return {"i8": 1, "bf16": 2}[self.code]

    @property
    def unit(self) -> int:
        """Bytes of a group."""
        return self.group * self.size

    @property
    def width(self) -> int:
        """Columns of a tile: a vector of a `square` has two."""
        return self.vectors * self.lanes // ROWS_OF[self.form]

    @property
    def element(self) -> str:
        """The type of a sum."""
        return "i32" if self.code == "i8" else "float"

    @property
    def sums(self) -> str:
        return f"<{self.lanes} x {self.element}>"

    @property
    def factors(self) -> str:
        """A vector of factors, as the intrinsic takes it."""
        if self.flips:         # LLVM before 22 knows words only, and later ones read them as bytes
            return f"<{self.lanes} x i32>"
        kind = "i8" if self.code == "i8" else "bfloat"
        return f"<{self.lanes * 4 // self.size} x {kind}>"

    def declared(self) -> str:
        """The intrinsic's declaration."""
        return f"declare {self.sums} @{self.call}({self.sums}, {self.factors}, {self.factors})\n"

    def add(self, w: Writer, total: Reg, left: Reg, right: Reg) -> Reg:
        """total + left * right, groups added up; an unsigned factor comes first."""
        first, second = (right, left) if self.form != "square" else (left, right)
        return w.new(self.sums, f"call {self.sums} @{self.call}({total}, {first}, {second})")


SDOT = Dots("sdot", "i8", "llvm.aarch64.neon.sdot.v4i32.v16i8", 4, 4, 8, 3, "lane", "dotprod")
SMMLA = Dots("smmla", "i8", "llvm.aarch64.neon.smmla.v4i32.v16i8", 8, 4, 8, 6, "square", "i8mm")
VNNI = Dots("vnni", "i8", "llvm.x86.avx512.vpdpbusd.512", 4, 16, 12, 2, "memory", "avx512vnni", True)
VNNI_256 = Dots("vnni_256", "i8", "llvm.x86.avx512.vpdpbusd.256", 4, 8, 4, 3, "memory", "avxvnni", True)
BF16 = Dots("bf16", "bf16", "llvm.x86.avx512bf16.dpbf16ps.512", 2, 16, 12, 2, "memory", "avx512bf16")
ALL = (SDOT, SMMLA, VNNI, VNNI_256, BF16)


@functools.cache
def host_dots(code: str) -> Dots | None:
    """The instruction for a type on this processor, found without LLVM."""
    words, best = cpu_words(), []
    if machine() in ("aarch64", "arm64"):
        # every such processor of Apple has the dot product
        best = [(SMMLA, b"i8mm" in words), (SDOT, b"asimddp" in words or (not words and sys.platform == "darwin"))]
    elif machine() in ("x86_64", "AMD64"):
        wide = {b"avx512f", b"avx512vl", b"avx512bw"} <= words
        best = [
            (VNNI, wide and b"avx512_vnni" in words),
            (VNNI_256, b"avx_vnni" in words),
            # Intel's takes as long as it takes to widen both factors and multiply them as float.
            (BF16, wide and b"avx512_bf16" in words and b"GenuineIntel" not in words),
        ]
    return next((dots for dots, present in best if present and dots.code == code), None)
