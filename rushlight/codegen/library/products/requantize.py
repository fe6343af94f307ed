"""From exact sums of products of bytes to what a quantized product leaves: bytes of another scale, or floats.

Enters: a vector of sums, and what is known of its columns and operands. Leaves: a vector of results. Refuses nothing.

A product of bytes is sum((a - za) * (w - zw)) = sum(a * w) - za * (sum(w) - k * zw) - zw * sum(a): a term of columns,
and one of rows where weights have zero points. Memory holds, one row of `COLUMNS` after another: the column sums in
that bracket, factors, what is added (before the factor where bytes are made, after it where floats are), and zero
points. `HEAD` is what holds for all: the scale and the zero point of the rows, the least and the largest result (less
the zero point where they are bytes), the zero point of the results, and that of the rows before it was flipped.
"""

from __future__ import annotations

from ...text.writer import Number, Reg, Writer

COLUMNS = ("sums", "factors", "added", "zeros")
HEAD = ("scale", "zero", "low", "high", "out_zero", "row_zero")
HEAD_WORDS = 8
MAGIC, MAGIC_BITS = 12582912.0, 0x4B400000     # adding it leaves a number, rounded to even, in the lowest bits
RESULTS = {"u8": ("i8", 1), "f32": ("float", 4), "i32": ("i32", 4)}     # kinds: element, bytes


class Finish:
    """The end of sums, for one kind of results; `by_row`: weights have zero points; `fused`: the processor multiplies
    and adds in one rounding, as PyTorch does for floats."""

    def __init__(
        self, w: Writer, kind: str, lanes: int, head: Reg, by_row: bool = False, fused: bool = True
    ) -> None:
        self.w, self.kind, self.lanes, self.by_row, self.fused = w, kind, lanes, by_row, fused
        self.head = {name: self._word(head, k) for k, name in enumerate(HEAD)}
        if kind == "u8":
            zero = w.add(self.head["out_zero"], Reg(str(-MAGIC_BITS), "i32"))
            self.shift = w.splat(zero, lanes)
        self.limits = [w.splat(self._float(self.head[name]), lanes) for name in ("low", "high")]

    def _word(self, head: Reg, k: int) -> Reg:
        return self.w.load("i32", self.w.at(head, k, "i32"), 4)

    def _float(self, word: Reg) -> Reg:
        return self.w.new("float", f"bitcast {word} to float")

    def columns(self, place: Reg, apart: Number) -> dict[str, Reg]:
        """What is known of a vector of columns: `place` is the first's of `COLUMNS`, whose rows are `apart` words."""
        w, found = self.w, {}
        words, floats = f"<{self.lanes} x i32>", f"<{self.lanes} x float>"
        for k, name in enumerate(COLUMNS):
            if (name == "zeros" and not self.by_row) or (name in ("factors", "added") and self.kind == "i32"):
                continue
            kind = words if name in ("sums", "zeros") else floats
            found[name] = w.load(kind, w.at(place, w.mul(apart, k), "i32"), 4)
        found["sums"] = w.mul(found["sums"], w.splat(self.head["zero"], self.lanes))
        if self.kind == "f32":
            found["factors"] = w.fmul(found["factors"], w.splat(self._float(self.head["scale"]), self.lanes))
        return found

    def result(self, total: Reg, columns: dict[str, Reg], row_sum: Reg | None) -> Reg:
        """The results of a vector of sums; `row_sum`: of the row's bytes, as a vector."""
        w = self.w
        total = w.sub(total, columns["sums"])
        if self.by_row:
            assert row_sum is not None, "weights with zero points meet sums of rows"
            total = w.sub(total, w.mul(columns["zeros"], row_sum))
        if self.kind == "i32":
            return total
        floats = f"<{self.lanes} x float>"
        x = w.new(floats, f"sitofp {total} to {floats}")
        if self.kind == "f32":
            factors, added = columns["factors"], columns["added"]
            x = w.fma(x, factors, added) if self.fused else w.fadd(w.fmul(x, factors), added)
            return self._above(x, self.limits[0])
        x = self._above(w.fmul(w.fadd(x, columns["added"]), columns["factors"]), self.limits[0])
        under = w.new(f"<{self.lanes} x i1>", f"fcmp olt {x}, {self.limits[1].text}")
        x = w.fadd(w.select(under, x, self.limits[1]), w.constant(floats, MAGIC))
        words = w.add(w.new(total.type, f"bitcast {x} to {total.type}"), self.shift)
        return w.new(f"<{self.lanes} x i8>", f"trunc {words} to <{self.lanes} x i8>")

    def _above(self, x: Reg, low: Reg) -> Reg:
        """x, or the least result; NaN stays."""
        under = self.w.new(f"<{self.lanes} x i1>", f"fcmp olt {x}, {low.text}")
        return self.w.select(under, low, x)


