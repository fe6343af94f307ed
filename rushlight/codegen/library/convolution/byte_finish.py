"""From exact sums of a convolution of bytes to bytes of another scale, in the order of operations of PyTorch's engines,
or to nothing but the sums.

Enters: vectors of sums, what is known of their columns and of the whole call. Leaves: vectors of bytes, or
of sums.

    early       round((sum + added) * factor) + zero                      FBGEMM's
    late        round((sum * factor + added) * inverse + zero)            oneDNN's
    late_sum    the same, with a tensor of bytes added: (other - other's zero) * other's scale, before `inverse`
    sums        sum, as integers of 32 bits

Memory holds `COLUMNS`, one row after another: what is taken from the sums (the zero point of the activations times the
sums of weights; a start), factors, and what is added. `HEAD` is what holds for all; `low` and `high` are the least and
the largest result, less the zero point where that is added in the end (early); `least` is the least as an integer.
"""

from __future__ import annotations

from ...text.writer import Number, Reg, Writer
from ..products.byte_forms import ByteForm

COLUMNS = ("starts", "factors", "added")
HEAD = ("zero", "inverse", "out_zero", "low", "high", "other_scale", "other_zero", "least")
HEAD_WORDS = 8
MAGIC = 12582912.0       # adding it leaves a number, rounded to even, in the lowest bits
FINISHES = ("early", "late", "late_sum", "sums")
SUMS = FINISHES.index("sums")
QUAD = 4                 # vectors of results that fill one of bytes
# of x86, by lanes: rounding, and words to halves and halves to bytes with saturation, inside of 16 bytes
ROUND = {16: "llvm.x86.avx512.mask.cvtps2dq.512", 8: "llvm.x86.avx.cvt.ps2dq.256", 4: "llvm.x86.sse2.cvtps2dq"}
HALVE = {16: "llvm.x86.avx512.packssdw.512", 8: "llvm.x86.avx2.packssdw", 4: "llvm.x86.sse2.packssdw.128"}
QUARTER = {16: "llvm.x86.avx512.packuswb.512", 8: "llvm.x86.avx2.packuswb", 4: "llvm.x86.sse2.packuswb.128"}


def has_packs(form: ByteForm) -> bool:
    """Whether the instructions above are there."""
    return form.name.startswith(("vnni", "words"))


def bytes_of(finish: str) -> int:
    """Bytes of a result."""
    return 4 if finish == "sums" else 1


def packs_declared(form: ByteForm) -> str:
    """Declarations of these."""
    n = form.lanes
    if not has_packs(form):
        return ""
    words, halves = f"<{n} x i32>", f"<{2 * n} x i16>"
    rest = f", {words}, i16, i32" if n == 16 else ""
    return (
        f"declare {words} @{ROUND[n]}(<{n} x float>{rest})\ndeclare {halves} @{HALVE[n]}({words}, {words})\n"
        f"declare <{4 * n} x i8> @{QUARTER[n]}({halves}, {halves})\n"
    )


class Finish:
    """The end of sums, for one order of operations."""

    def __init__(self, w: Writer, finish: str, lanes: int, head: Reg) -> None:
        self.w, self.finish, self.lanes = w, finish, lanes
        self.words, self.floats, self.bytes = (f"<{lanes} x {kind}>" for kind in ("i32", "float", "i8"))
        self.head: dict[str, Reg] = {}
        if finish == "sums":
            return
        names = ("low", "high") if finish == "early" else ("inverse", "out_zero", "low", "high")
        names += ("other_scale", "other_zero") if finish == "late_sum" else ()
        self.head = {name: self._splat(head, name, "float") for name in names}
        if finish == "early":
            self.shift = self._splat(head, "out_zero", "i32")
        self.least = w.new("i8", f"trunc {w.load('i32', w.at(head, HEAD.index('least'), 'i32'), 4)} to i8")

    def _splat(self, head: Reg, name: str, kind: str) -> Reg:
        return self.w.splat(self.w.load(kind, self.w.at(head, HEAD.index(name), "i32"), 4), self.lanes)

    def columns(self, place: Reg, apart: Number) -> tuple[Reg, ...]:
        """What is known of a vector of columns: `place` is the first's of `COLUMNS`, whose rows are `apart` words."""
        kinds = (self.words, self.floats, self.floats)[: 1 if self.finish == "sums" else 3]
        return tuple([
            self.w.load(kind, self.w.at(place, self.w.mul(apart, k), "i32"), 4) for k, kind in enumerate(kinds)
        ])

    def number(self, total: Reg, columns: tuple[Reg, ...], other: Reg | None) -> Reg:
        """Results of a vector of sums before they are rounded; `other`: what is added, as floats."""
        w, (start, factor, added) = self.w, columns
        x = w.new(self.floats, f"sitofp {w.add(total, start)} to {self.floats}")
        if self.finish == "early":
            x = w.fmul(w.fadd(x, added), factor)
        else:
            x = w.fadd(w.fmul(x, factor), added)
            if self.finish == "late_sum":
                assert other is not None, "a sum has something to add"
                x = w.fadd(x, w.fmul(w.fsub(other, self.head["other_zero"]), self.head["other_scale"]))
            x = w.fadd(w.fmul(x, self.head["inverse"]), self.head["out_zero"])
        return self._bound("olt", x, self.head["high"])

    def packed(self, numbers: list[Reg], bytes_: str) -> Reg:
        """Four vectors of numbers as bytes: of every 16 bytes, four of each in turn."""
        w, n = self.w, self.lanes
        words = []
        for x in numbers:
            rest = f", {self.words} zeroinitializer, i16 -1, i32 4" if n == 16 else ""
            word = w.new(self.words, f"call {self.words} @{ROUND[n]}({x}{rest})")
            words.append(w.add(word, self.shift) if self.finish == "early" else word)
        halves = f"<{2 * n} x i16>"
        a, b = (w.new(halves, f"call {halves} @{HALVE[n]}({words[k]}, {words[k + 1]})") for k in (0, 2))
        result = w.new(bytes_, f"call {bytes_} @{QUARTER[n]}({a}, {b})")
        least = w.splat(self.least, 4 * n)
        return w.select(w.compare("ugt", result, least), result, least)

    def word(self, total: Reg, columns: tuple[Reg, ...], other: Reg | None) -> Reg:
        """Words whose lowest bytes are the results of a vector of sums."""
        w = self.w
        x = self._bound("ogt", self.number(total, columns, other), self.head["low"])
        words = w.new(self.words, f"bitcast {w.fadd(x, w.constant(self.floats, MAGIC))} to {self.words}")
        return w.add(words, self.shift) if self.finish == "early" else words

    def result(self, total: Reg, columns: tuple[Reg, ...], other: Reg) -> Reg:
        """The bytes of a vector of sums; `other`: where the bytes that are added lie."""
        if self.finish == "sums":
            return self.w.add(total, columns[0])
        return self.w.new(self.bytes, f"trunc {self.word(total, columns, self.floats_at(other))} to {self.bytes}")

    def floats_at(self, other: Reg) -> Reg | None:
        """Bytes that are added, as floats; None where nothing is."""
        if self.finish != "late_sum":
            return None
        return self.w.new(self.floats, f"uitofp {self.w.load(self.bytes, other, 1)} to {self.floats}")

    def _bound(self, how: str, x: Reg, limit: Reg) -> Reg:
        """x where it is on the right side of a limit, or else the limit."""
        return self.w.select(self.w.new(f"<{self.lanes} x i1>", f"fcmp {how} {x}, {limit.text}"), x, limit)
