"""How rows of unsigned bytes meet packed columns of signed ones, by processor: one record each.

Enters: a writer, addresses of rows and of packed columns, sums. Leaves: sums in 32 bits, exact, a few values of k
further. Refuses nothing: every processor has a form, if a slow one (`PLAIN`).

Rows are read where they lie, `deep` bytes of each at a time; callers see to it that they are there. Columns were packed
in strips of `width`: `group` values of k of each column side by side, the next column's after them, zeros past the end
of k. `signed`: the instruction knows signed rows only, so that 128 was taken from their bytes.
"""

from __future__ import annotations

import functools
import sys

from ....loops.record import Record
from ...text.targets import cpu_words, machine
from ...text.writer import Reg, Writer


class ByteForm(Record):
    """An instruction and the register tile that keeps it busy: `height` rows times `vectors` vectors of columns."""

    name: str
    call: str                  # the intrinsic; none: multiplications and additions
    lanes: int                 # sums in a vector
    height: int
    vectors: int
    group: int = 4
    signed: bool = False
    feature: str = ""          # what LLVM calls it

    @property
    def is_square(self) -> bool:
        """Whether an instruction multiplies two rows with two columns."""
        return self.group == 8

    @property
    def columns(self) -> int:
        """Of a vector of packed bytes."""
        return self.lanes // 2 if self.is_square else self.lanes

    @property
    def width(self) -> int:
        """Columns of a strip."""
        return self.vectors * self.columns

    @property
    def deep(self) -> int:
        """Values of k that rows are read by."""
        return self.group

    @property
    def has_fma(self) -> bool:
        """Whether the processors that it is for multiply and add floats in one rounding."""
        return self.name not in ("words_128", "plain")

    @property
    def sums(self) -> str:
        return f"<{self.lanes} x i32>"

    @property
    def bytes(self) -> str:
        """A vector of packed bytes."""
        return f"<{4 * self.lanes} x i8>"

    @property
    def factors(self) -> str:
        """A vector as the intrinsic takes it."""
        if self.name.startswith("vnni"):       # LLVM before 22 knows words only, and later ones read them as bytes
            return self.sums
        return f"<{2 * self.lanes} x i16>" if self.name.startswith("words") else self.bytes

    def declared(self) -> str:
        """The intrinsic's declaration."""
        if not self.call:
            return ""
        given = f"{self.factors}, {self.factors}"
        if not self.name.startswith("words"):
            given = f"{self.sums}, {given}"
        return f"declare {self.sums} @{self.call}({given})\n"


VNNI = ByteForm("vnni", "llvm.x86.avx512.vpdpbusd.512", 16, 12, 2, feature="avx512vnni")
VNNI_256 = ByteForm("vnni_256", "llvm.x86.avx512.vpdpbusd.256", 8, 4, 3, feature="avxvnni")
WORDS_512 = ByteForm("words_512", "llvm.x86.avx512.pmaddw.d.512", 16, 8, 2, feature="avx512bw")
WORDS_256 = ByteForm("words_256", "llvm.x86.avx2.pmadd.wd", 8, 4, 2, feature="avx2")
WORDS_128 = ByteForm("words_128", "llvm.x86.sse2.pmadd.wd", 4, 3, 2)
USMMLA = ByteForm("usmmla", "llvm.aarch64.neon.usmmla.v4i32.v16i8", 4, 8, 6, group=8, feature="i8mm")
SDOT = ByteForm("sdot", "llvm.aarch64.neon.sdot.v4i32.v16i8", 4, 8, 3, signed=True, feature="dotprod")
PLAIN = ByteForm("plain", "", 4, 4, 2)
ALL = (VNNI, VNNI_256, WORDS_512, WORDS_256, WORDS_128, USMMLA, SDOT, PLAIN)


@functools.cache
def host_form() -> ByteForm:
    """The best form for this processor, found without LLVM."""
    words, best = cpu_words(), []
    if machine() in ("aarch64", "arm64"):
        # every such processor of Apple has the dot product
        best = [(USMMLA, b"i8mm" in words), (SDOT, b"asimddp" in words or (not words and sys.platform == "darwin"))]
    elif machine() in ("x86_64", "AMD64"):
        wide = {b"avx512f", b"avx512vl", b"avx512bw"} <= words
        best = [
            (VNNI, wide and b"avx512_vnni" in words),
            (VNNI_256, b"avx_vnni" in words),
            (WORDS_512, wide),
            (WORDS_256, b"avx2" in words),
            (WORDS_128, True),
        ]
    return next((form for form, is_there in best if is_there), PLAIN)


def starts(form: ByteForm, rows: int) -> list[Reg]:
    """Sums of nothing, for so many rows (an even number of them where squares are multiplied)."""
    pairs = -(-rows // 2) if form.is_square else rows
    return [Reg("zeroinitializer", form.sums)] * (pairs * form.vectors)


def multiply(w: Writer, form: ByteForm, rows: list[Reg], columns: Reg, sums: list[Reg]) -> list[Reg]:
    """The sums, `deep` values of k further: `rows` and `columns` are the addresses of these."""
    if form.is_square:
        return _squares(w, form, rows, columns, sums)
    right = [w.load(form.bytes, w.at(columns, 4 * form.lanes * v, "i8"), 4) for v in range(form.vectors)]
    if form.name.startswith("words"):
        halves = [signed_words(w, form, x) for x in right]
    result = []
    for r, row in enumerate(rows):
        group = w.splat(w.load("i32", row, 1), form.lanes)
        before = sums[r * form.vectors : (r + 1) * form.vectors]
        if form.name.startswith("words"):
            left = unsigned_words(w, form, group)
            for total, words in zip(before, halves, strict=True):
                for x, y in zip(left, words, strict=True):
                    total = w.add(total, w.new(form.sums, f"call {form.sums} @{form.call}({x}, {y})"))
                result.append(total)
            continue
        for total, y in zip(before, right, strict=True):
            result.append(dot(w, form, total, group, y))
    return result


def dot(w: Writer, form: ByteForm, total: Reg, group: Reg, right: Reg) -> Reg:
    """total + group * right: four bytes on all lanes, and the packed bytes of as many columns as there are lanes."""
    left = w.new(form.bytes, f"bitcast {group} to {form.bytes}")
    if form.call:
        x, y = (w.new(form.factors, f"bitcast {t} to {form.factors}") for t in (left, right))
        return w.new(form.sums, f"call {form.sums} @{form.call}({total}, {x}, {y})")
    wide = f"<{4 * form.lanes} x i32>"
    x, y = w.new(wide, f"zext {left} to {wide}"), w.new(wide, f"sext {right} to {wide}")
    product = w.mul(x, y)
    for u in range(4):
        total = w.add(total, w.every(product, 4, form.lanes, u))
    return total


def unsigned_words(w: Writer, form: ByteForm, group: Reg) -> tuple[Reg, Reg]:
    """The even and the odd bytes of a vector, as 16-bit words."""
    words = w.new(form.factors, f"bitcast {group} to {form.factors}")
    return w.binary("and", words, Reg("splat (i16 255)", words.type)), w.binary("lshr", words, _eight(words))


def signed_words(w: Writer, form: ByteForm, packed: Reg) -> tuple[Reg, Reg]:
    """The same of signed bytes."""
    words = w.new(form.factors, f"bitcast {packed} to {form.factors}")
    even = w.binary("ashr", w.binary("shl", words, _eight(words)), _eight(words))
    return even, w.binary("ashr", words, _eight(words))


def _eight(words: Reg) -> Reg:
    return Reg("splat (i16 8)", words.type)


def _squares(w: Writer, form: ByteForm, rows: list[Reg], columns: Reg, sums: list[Reg]) -> list[Reg]:
    """Two rows meet two columns at a time; the last of an odd number meets them twice."""
    left = []
    for r in range(0, len(rows), 2):
        pair = Reg("poison", "<2 x i64>")
        for lane, row in enumerate((rows[r], rows[min(r + 1, len(rows) - 1)])):
            pair = w.new(pair.type, f"insertelement {pair}, {w.load('i64', row, 1)}, i64 {lane}")
        left.append(w.new(form.bytes, f"bitcast {pair} to {form.bytes}"))
    result = list(sums)
    for v in range(form.vectors):
        right = w.load(form.bytes, w.at(columns, 16 * v, "i8"), 16)
        for r, pair in enumerate(left):
            n = r * form.vectors + v
            result[n] = w.new(form.sums, f"call {form.sums} @{form.call}({result[n]}, {pair}, {right})")
    return result


def by_rows(w: Writer, form: ByteForm, sums: list[Reg], rows: int) -> list[list[Reg]]:
    """The sums of every row, a vector of neighbouring columns after another."""
    across = form.width // form.lanes
    if not form.is_square:
        return [sums[r * across : (r + 1) * across] for r in range(rows)]
    result = []
    for r in range(rows):
        squares = sums[r // 2 * form.vectors : (r // 2 + 1) * form.vectors]
        first = 2 * (r % 2)
        order = [first, first + 1, first + 4, first + 5]
        result.append([w.shuffle(x, y, order) for x, y in zip(squares[::2], squares[1::2], strict=True)])
    return result
