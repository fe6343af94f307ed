"""Rows of floats times weights of 8 or 4 bits, which become floats in registers: the products of language models.

Enters: rows of float32; weights of int8 [n, k] where they lie, or 4-bit ones in strips of columns, two to a byte, with
a scale and a zero point for each group of k. Leaves: float32, row-major. Refuses nothing.

One row reads each weight once and waits for memory; more rows share what was made of a weight, as many as registers
hold. A group's sum of x * integer is scaled once, when the group ends: sum(x * ((q - 8) * scale + zero)) is
scale * sum(x * q) + (zero - 8 * scale) * sum(x), and the last sum is known of each row before.
"""

from __future__ import annotations

import functools

from ....base.digest import digest
from ....loops.record import Record
from ...stored import cache
from ...stored.cache import Kernel
from ...text.targets import cpu_words, machine
from ...text.writer import ABI, Reg, Writer, declarations
from ...tiles.tiles import argument, bytes_after


class FloatForm(Record):
    """A register file: floats in a vector, rows of a tile of 8-bit columns and of a strip of 4-bit ones."""

    lanes: int
    height: int
    strip_height: int

    @property
    def vector(self) -> str:
        return f"<{self.lanes} x float>"


WIDE, MIDDLE, NARROW, LEAST = FloatForm(16, 6, 6), FloatForm(8, 2, 2), FloatForm(4, 4, 2), FloatForm(4, 2, 1)
COLUMNS = 4                      # of a tile of 8-bit weights
UNROLLED = 4                     # values of k of 4-bit weights at a time; groups are multiples of it


@functools.cache
def host_form() -> FloatForm:
    """The registers of this processor."""
    words = cpu_words()
    if machine() in ("x86_64", "AMD64"):
        return WIDE if b"avx512f" in words else MIDDLE if b"avx2" in words else LEAST
    return NARROW


class WeightProduct(Record):
    """What the kernel cache asks of a nest: a name, parameters and a digest."""

    name: str
    params: tuple[str, ...]
    form: FloatForm
    low: int
    block: int = 0             # columns of a strip of 4-bit weights; 0: 8-bit ones
    is_paired: bool = False    # neighbouring columns share a byte; else columns half a strip apart
    scales: str = "float"      # or "bfloat": of 4-bit weights

    def digest(self) -> bytes:
        """The cache's key holds the generator's sources besides."""
        return digest(repr(self).encode())

    @property
    def heights(self) -> list[int]:
        most = self.form.strip_height if self.block else self.form.height
        return [h for h in (self.low, self.low + 1) if 0 < h <= most]


EIGHT = ("n", "k", "part", "tiles", "extra")
FOUR = ("n", "k", "part", "tiles", "extra", "group", "groups")


@functools.cache
def eight_bit_kernel(form: FloatForm, low: int) -> Kernel:
    """Operands: rows, weights, scales, result. The parallel range is parts of columns."""
    return cache.kernel(WeightProduct("eight_bits", EIGHT, form, low), _object)


@functools.cache
def four_bit_kernel(form: FloatForm, low: int, block: int, is_paired: bool, scales: str) -> Kernel:
    """Operands: rows, weights, scales and zeros, sums of rows by group, result. The parallel range is parts of strips,
    of which all columns are there."""
    return cache.kernel(WeightProduct("four_bits", FOUR, form, low, block, is_paired, scales), _object)


def _object(kernel: WeightProduct) -> bytes:
    from ...llvm.cpu import compile_ir, host_target

    host = host_target()
    return compile_ir(module_text(kernel, host.triple), host, "object", by_hand=True)


def module_text(kernel: WeightProduct, triple: str) -> str:
    """LLVM IR of the kernel."""
    if kernel.block:
        texts = [strip_tile(kernel, h) for h in kernel.heights] + [four_bit_text(kernel)]
    else:
        texts = [eight_bit_tile(kernel, h, c) for h in kernel.heights for c in (COLUMNS, 1)] + [eight_bit_text(kernel)]
    return f'target triple = "{triple}"\n{declarations(kernel.form.lanes, "float")}' + "\n".join(texts)


# --- 8 bits ----------------------------------------------------------------------------------------------------------


def eight_bit_text(kernel: WeightProduct) -> str:
    """A part's columns, a few at a time, meet all rows."""
    w = Writer("eight_bits", ABI)
    x, weights, scales, out = (argument(w, "ptrs", k, "ptr") for k in range(4))
    p = {name: argument(w, "params", k) for k, name in enumerate(EIGHT)}
    with w.loop(w["begin"], w["end"]) as item:
        first = w.mul(item.i, p["part"])
        last = w.min(w.add(first, p["part"]), p["n"])
        start: Reg = first
        for columns in (COLUMNS, 1):
            with w.loop(start, w.sub(last, columns - 1), columns) as j, w.loop(0, p["tiles"]) as i:
                row = w.add(w.mul(i.i, kernel.low), w.min(i.i, p["extra"]))
                given = [
                    w.at(x, w.mul(row, p["k"]), "float"), bytes_after(w, weights, w.mul(j.i, p["k"])), p["k"],
                    w.at(scales, j.i, "float"), w.at(out, w.add(w.mul(row, p["n"]), j.i), "float"), p["n"],
                ]
                for height in kernel.heights:
                    how = "slt" if height > kernel.low else "sge"
                    with w.when(w.compare(how, i.i, p["extra"])):
                        w.call(f"tile_{height}_{columns}", *given)
            start = j.i
    return w.text()


def eight_bit_tile(kernel: WeightProduct, height: int, columns: int) -> str:
    """`height` rows times `columns` columns: sums lie across lanes of k until the end."""
    lanes, vector = kernel.form.lanes, kernel.form.vector
    params = (("ptr", "x"), ("ptr", "b"), ("i64", "k"), ("ptr", "scales"), ("ptr", "c"), ("i64", "n"))
    w = Writer(f"tile_{height}_{columns}", params, "internal ")
    rows = [w.at(w["x"], w.mul(w["k"], r), "float") for r in range(height)]
    weights = [bytes_after(w, w["b"], w.mul(w["k"], c)) for c in range(columns)]
    together = 1 if height * columns >= 4 * COLUMNS else 2      # chains enough to hide the latency of one
    sums = [Reg("zeroinitializer", vector)] * (height * columns * together)
    with w.loop(0, w.sub(w["k"], lanes * together - 1), lanes * together, carry=sums) as g:
        after = []
        for u in range(together):
            at = w.add(g.i, u * lanes)
            right = [_floats(w, w.load(f"<{lanes} x i8>", w.at(b, at, "i8"), 1), vector) for b in weights]
            left = [w.load(vector, w.at(row, at, "float"), 4) for row in rows]
            now = g.carry[u * height * columns : (u + 1) * height * columns]
            after += [w.fma(a, b, now[r * columns + c]) for r, a in enumerate(left) for c, b in enumerate(right)]
        g.next = after
    count = height * columns
    wide = [functools.reduce(w.fadd, g.carry[i::count]) for i in range(count)]
    single = [w.horizontal(total) for total in wide]
    with w.loop(g.i, w["k"], carry=single) as tail:
        right = [_floats(w, w.load("i8", w.at(b, tail.i, "i8"), 1), "float") for b in weights]
        left = [w.load("float", w.at(row, tail.i, "float"), 4) for row in rows]
        tail.next = [
            w.fadd(tail.carry[r * columns + c], w.fmul(a, b)) for r, a in enumerate(left) for c, b in enumerate(right)
        ]
    known = [w.load("float", w.at(w["scales"], c, "float"), 4) for c in range(columns)]
    for r in range(height):
        for c in range(columns):
            place = w.at(w["c"], w.add(w.mul(w["n"], r), c), "float")
            w.store(w.fmul(tail.carry[r * columns + c], known[c]), place, 4)
    return w.text()


def _floats(w: Writer, integers: Reg, type: str) -> Reg:
    """Signed integers of few bits as floats: of 32 bits in between, which processors convert."""
    words = type.replace("float", "i32")
    return w.new(type, f"sitofp {w.new(words, f'sext {integers} to {words}')} to {type}")


# --- 4 bits ----------------------------------------------------------------------------------------------------------


def four_bit_text(kernel: WeightProduct) -> str:
    """A part's strips meet all rows."""
    w = Writer("four_bits", ABI)
    x, weights, scales, sums, out = (argument(w, "ptrs", k, "ptr") for k in range(5))
    p = {name: argument(w, "params", k) for k, name in enumerate(FOUR)}
    strips = w.div(p["n"], kernel.block)
    with w.loop(w["begin"], w["end"]) as item:
        first = w.mul(item.i, p["part"])
        with w.loop(first, w.min(w.add(first, p["part"]), strips)) as j, w.loop(0, p["tiles"]) as i:
            row = w.add(w.mul(i.i, kernel.low), w.min(i.i, p["extra"]))
            column = w.mul(j.i, kernel.block)
            given = [
                w.at(x, w.mul(row, p["k"]), "float"),
                bytes_after(w, weights, w.mul(w.mul(j.i, p["k"]), kernel.block // 2)), p["k"],
                w.at(scales, w.mul(column, 2), kernel.scales), w.at(sums, w.mul(row, p["groups"]), "float"),
                w.at(out, w.add(w.mul(row, p["n"]), column), "float"), p["n"], p["group"], p["groups"],
            ]
            for height in kernel.heights:
                how = "slt" if height > kernel.low else "sge"
                with w.when(w.compare(how, i.i, p["extra"])):
                    w.call(f"tile_{height}", *given)
    return w.text()


def strip_tile(kernel: WeightProduct, height: int) -> str:
    """`height` rows times a strip of columns. Vectors hold low nibbles, then high ones."""
    lanes, vector, across = kernel.form.lanes, kernel.form.vector, kernel.block // kernel.form.lanes
    params = (
        ("ptr", "x"), ("ptr", "b"), ("i64", "k"), ("ptr", "scales"), ("ptr", "sums"), ("ptr", "c"), ("i64", "n"),
        ("i64", "group"), ("i64", "groups"),
    )
    w = Writer(f"tile_{height}", params, "internal ")
    totals = w.scratch("float", height * kernel.block)
    zero = Reg("zeroinitializer", vector)
    for v in range(height * across):
        w.store(zero, w.at(totals, v * lanes, "float"), 4)
    pointers = [w["b"], *(w.at(w["x"], w.mul(w["k"], r), "float") for r in range(height))]
    with w.loop(0, w["groups"], carry=pointers) as g:
        with w.loop(0, w["group"], UNROLLED, carry=[*g.carry, *[zero] * (height * across)]) as k:
            (b, *rows), now = k.carry[: len(pointers)], k.carry[len(pointers) :]
            for u in range(UNROLLED):
                right = _nibbles(w, kernel, w.at(b, u * (kernel.block // 2), "i8"))
                left = [w.splat(w.load("float", w.at(row, u, "float"), 4), lanes) for row in rows]
                now = [w.fma(a, x, now[r * across + v]) for r, a in enumerate(left) for v, x in enumerate(right)]
            k.next = [
                w.at(b, UNROLLED * (kernel.block // 2), "i8"), *(w.at(row, UNROLLED, "float") for row in rows), *now
            ]
        g.next = k.carry[: len(pointers)]
        sums = k.carry[len(pointers) :]
        known = _scales(w, kernel, w.at(w["scales"], w.mul(w.mul(g.i, w["n"]), 2), kernel.scales))
        for r in range(height):
            row_sum = w.load("float", w.at(w["sums"], w.add(w.mul(w["groups"], r), g.i), "float"), 4)
            spread = w.splat(row_sum, lanes)
            for v, (scale, shift) in enumerate(known):
                place = w.at(totals, (r * across + v) * lanes, "float")
                total = w.fma(shift, spread, w.load(vector, place, 4))
                w.store(w.fma(scale, sums[r * across + v], total), place, 4)
    for r in range(height):
        _write_strip(w, kernel, [w.load(vector, w.at(totals, (r * across + v) * lanes, "float"), 4)
                                 for v in range(across)], w.at(w["c"], w.mul(w["n"], r), "float"))
    return w.text()


def _nibbles(w: Writer, kernel: WeightProduct, place: Reg) -> list[Reg]:
    """One value of k of all columns as floats: those in low nibbles, then those in high ones."""
    lanes, words = kernel.form.lanes, f"<{kernel.form.lanes} x i32>"
    low, high = [], []
    for v in range(kernel.block // 2 // lanes):
        packed = w.load(f"<{lanes} x i8>", w.at(place, v * lanes, "i8"), 1)
        wide = w.new(words, f"zext {packed} to {words}")
        low.append(w.new(words, f"and {wide}, splat (i32 15)"))
        high.append(w.new(words, f"lshr {wide}, splat (i32 4)"))
    return [w.new(kernel.form.vector, f"sitofp {q} to {kernel.form.vector}") for q in (*low, *high)]


def _scales(w: Writer, kernel: WeightProduct, place: Reg) -> list[tuple[Reg, Reg]]:
    """For each vector of columns: scales, and zeros less 8 scales."""
    lanes, vector = kernel.form.lanes, kernel.form.vector
    pairs = []
    for v in range(kernel.block // lanes):
        at = w.at(place, 2 * v * lanes, kernel.scales)
        if kernel.scales == "bfloat":      # two of them in a word: each is the upper half of a float
            words = w.load(f"<{lanes} x i32>", at, 2)
            parts = (f"shl {words}, splat (i32 16)", f"and {words}, splat (i32 -65536)")
            scale, zero = (w.new(vector, f"bitcast {w.new(words.type, part)} to {vector}") for part in parts)
        else:
            both = w.load(f"<{2 * lanes} x float>", at, 4)
            scale, zero = w.every(both, 2, lanes), w.every(both, 2, lanes, 1)
        pairs.append((scale, w.fma(scale, w.constant(vector, -8.0), zero)))
    if not kernel.is_paired:
        return pairs
    half = len(pairs) // 2
    order: list[tuple[Reg, Reg]] = []
    for first in (0, 1):      # even columns stand in low nibbles, odd ones in high ones
        for v in range(half):
            order.append(tuple(                                                     # type: ignore[arg-type]
                w.shuffle(a, b, range(first, 2 * lanes, 2)) for a, b in zip(*pairs[2 * v : 2 * v + 2], strict=True)
            ))
    return order


def _write_strip(w: Writer, kernel: WeightProduct, values: list[Reg], place: Reg) -> None:
    """A row of a strip, in the order of columns."""
    lanes, half = kernel.form.lanes, len(values) // 2
    for v in range(half):
        low, high = values[v], values[half + v]
        if kernel.is_paired:
            order = [side * lanes + lane for lane in range(lanes) for side in (0, 1)]
            w.store(w.shuffle(low, high, order), w.at(place, 2 * v * lanes, "float"), 4)
        else:
            w.store(low, w.at(place, v * lanes, "float"), 4)
            w.store(high, w.at(place, (half + v) * lanes, "float"), 4)
