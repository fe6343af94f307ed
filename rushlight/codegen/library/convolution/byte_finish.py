"""From exact sums of a convolution of bytes to bytes of another scale, in the order of operations of PyTorch's engines.

Enters: vectors of sums, what is known of their columns and of the whole call. Leaves: vectors of bytes.

    early       round((sum + added) * factor) + zero                      FBGEMM's
    late        round((sum * factor + added) * inverse + zero)            oneDNN's
    late_sum    the same, with a tensor of bytes added: (other - other's zero) * other's scale, before `inverse`

Memory holds `COLUMNS`, one row after another: what is taken from the sums (the zero point of the activations times the
sums of weights; a start), factors, and what is added. `HEAD` is what holds for all; `low` and `high` are the least and
the largest result, less the zero point where that is added in the end (early).
"""

from __future__ import annotations

from ...text.writer import Number, Reg, Writer

COLUMNS = ("starts", "factors", "added")
HEAD = ("zero", "inverse", "out_zero", "low", "high", "other_scale", "other_zero")
HEAD_WORDS = 8
MAGIC = 12582912.0       # adding it leaves a number, rounded to even, in the lowest bits
FINISHES = ("early", "late", "late_sum")


class Finish:
    """The end of sums, for one order of operations."""

    def __init__(self, w: Writer, finish: str, lanes: int, head: Reg) -> None:
        self.w, self.finish, self.lanes = w, finish, lanes
        self.words, self.floats, self.bytes = (f"<{lanes} x {kind}>" for kind in ("i32", "float", "i8"))
        names = ("low", "high") if finish == "early" else ("inverse", "out_zero", "low", "high")
        names += ("other_scale", "other_zero") if finish == "late_sum" else ()
        self.head = {name: self._splat(head, name, "float") for name in names}
        if finish == "early":
            self.shift = self._splat(head, "out_zero", "i32")

    def _splat(self, head: Reg, name: str, kind: str) -> Reg:
        return self.w.splat(self.w.load(kind, self.w.at(head, HEAD.index(name), "i32"), 4), self.lanes)

    def columns(self, place: Reg, apart: Number) -> tuple[Reg, ...]:
        """What is known of a vector of columns: `place` is the first's of `COLUMNS`, whose rows are `apart` words."""
        kinds = (self.words, self.floats, self.floats)
        return tuple([
            self.w.load(kind, self.w.at(place, self.w.mul(apart, k), "i32"), 4) for k, kind in enumerate(kinds)
        ])

    def word(self, total: Reg, columns: tuple[Reg, ...], other: Reg | None) -> Reg:
        """Words whose lowest bytes are the results of a vector of sums; `other`: what is added, as floats."""
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
        x = self._bound("olt", self._bound("ogt", x, self.head["low"]), self.head["high"])
        words = w.new(self.words, f"bitcast {w.fadd(x, w.constant(self.floats, MAGIC))} to {self.words}")
        return w.add(words, self.shift) if self.finish == "early" else words

    def result(self, total: Reg, columns: tuple[Reg, ...], other: Reg) -> Reg:
        """The bytes of a vector of sums; `other`: where the bytes that are added lie."""
        w, given = self.w, None
        if self.finish == "late_sum":
            given = w.new(self.floats, f"uitofp {w.load(self.bytes, other, 1)} to {self.floats}")
        return w.new(self.bytes, f"trunc {self.word(total, columns, given)} to {self.bytes}")

    def _bound(self, how: str, x: Reg, limit: Reg) -> Reg:
        """x where it is on the right side of a limit, or else the limit."""
        return self.w.select(self.w.new(f"<{self.lanes} x i1>", f"fcmp {how} {x}, {limit.text}"), x, limit)
