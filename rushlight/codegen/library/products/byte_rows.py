"""Rows of bytes as products of them read them: copied with room behind each, or quantized from floats.

Enters: rows of bytes or floats. Leaves: kernels with the usual ABI.
`stage_rows` copies rows of bytes to a pitch of its own. `find_extremes` finds the least and the largest float of parts.
`choose_scale` derives scale and zero point from these, as PyTorch's dynamic layers do, in double precision, into a
`HEAD` (requantize.py); a NaN is an error. `quantize_rows` rounds floats with them to bytes. Staging and quantizing add
up rows where weights have zero points, and take 128 from all bytes where the product knows signed ones only (`flip`).
"""

from __future__ import annotations

import functools

from ....base.digest import digest
from ....loops.record import Record
from ...stored import cache
from ...stored.cache import Kernel
from ...text.writer import ABI, Reg, Writer, declarations
from ...tiles.tiles import argument, bytes_after
from .requantize import MAGIC, MAGIC_BITS

LANES = 16
FLOATS, WORDS, BYTES = f"<{LANES} x float>", f"<{LANES} x i32>", f"<{LANES} x i8>"
PARAMS = {
    "stage_rows": ("k", "pitch", "to", "flip"),
    "quantize_rows": ("k", "pitch", "to", "flip"),
    "find_extremes": ("count", "part"),
    "choose_scale": ("parts", "largest", "low", "flip"),
}
SMALL_SCALE = 6.1e-5                                       # scales are no smaller: PyTorch's limit, in single precision
DOUBLE_MAGIC, DOUBLE_MAGIC_BITS = 6755399441055744.0, 0x4338000000000000
HIGHEST, LOWEST = "0x7FF0000000000000", "0xFFF0000000000000"


class RowKernel(Record):
    """What the kernel cache asks of a nest: a name, parameters and a digest."""

    name: str
    params: tuple[str, ...]
    by_row: bool               # whether rows are added up
    fused: bool                # whether the processor multiplies and adds in one rounding

    def digest(self) -> bytes:
        """The cache's key holds the generator's sources besides."""
        return digest(repr(self).encode())


@functools.cache
def row_kernel(name: str, by_row: bool = False, fused: bool = True) -> Kernel:
    """stage_rows: source, rows, sums of rows; the parallel range is rows. quantize_rows: the same and a head.
    find_extremes: floats, extremes of parts; the range is parts. choose_scale: extremes, head, error; once."""
    return cache.kernel(RowKernel(name, PARAMS[name], by_row, fused), _object)


def _object(kernel: RowKernel) -> bytes:
    from ...llvm.cpu import compile_ir, host_target

    return compile_ir(module_text(kernel, host_target().triple), host_target(), "object", by_hand=True)


def module_text(kernel: RowKernel, triple: str) -> str:
    """LLVM IR of one of the kernels."""
    texts = {"find_extremes": extremes_text, "choose_scale": choose_text}
    text = texts[kernel.name]() if kernel.name in texts else rows_text(kernel)
    reduced = f"declare i32 @llvm.vector.reduce.add.v{LANES}i32({WORDS})\ndeclare double @llvm.fabs.f64(double)\n"
    return f'target triple = "{triple}"\n' + declarations(LANES, "float") + reduced + text + "\n"


# --- rows -------------------------------------------------------------------------------------------------------------


def rows_text(kernel: RowKernel) -> str:
    """Row after row; what does not fill a vector is taken byte by byte."""
    w = Writer(kernel.name, ABI)
    floats = kernel.name == "quantize_rows"
    source, target, sums, *head = (argument(w, "ptrs", k, "ptr") for k in range(4 if floats else 3))
    p = {name: argument(w, "params", k) for k, name in enumerate(kernel.params)}
    flip = w.new("i8", f"trunc {p['flip']} to i8")
    rounding = _Rounding(w, head[0], kernel.fused) if floats else None
    whole = w.sub(p["k"], w.rem(p["k"], LANES))
    size = 4 if floats else 1

    def taken(place: Reg, count: int) -> Reg:
        """Bytes made of the elements at `place`, not flipped."""
        if rounding is not None:
            kind = FLOATS if count > 1 else "float"
            return rounding.bytes(w.load(kind, place, 4), count)
        return w.load(BYTES if count > 1 else "i8", place, 1)

    with w.loop(w["begin"], w["end"]) as row:
        here = bytes_after(w, source, w.mul(w.mul(row.i, p["pitch"]), size))
        there = bytes_after(w, target, w.mul(row.i, p["to"]))
        with w.loop(0, whole, LANES, carry=[Reg("zeroinitializer", WORDS)]) as some:
            value = w.binary("xor", taken(w.at(here, w.mul(some.i, size), "i8"), LANES), w.splat(flip, LANES))
            w.store(value, w.at(there, some.i, "i8"), 1)
            if kernel.by_row:
                some.next = [w.add(some.carry[0], _widened(w, value, flip))]
        total = w.new("i32", f"call i32 @llvm.vector.reduce.add.v{LANES}i32({some.carry[0]})")
        with w.loop(whole, p["k"], carry=[total]) as one:
            value = w.binary("xor", taken(w.at(here, w.mul(one.i, size), "i8"), 1), flip)
            w.store(value, w.at(there, one.i, "i8"), 1)
            if kernel.by_row:
                one.next = [w.add(one.carry[0], _widened(w, value, flip))]
        if kernel.by_row:
            w.store(one.carry[0], w.at(sums, row.i, "i32"), 4)
    return w.text()


def _widened(w: Writer, value: Reg, flip: Reg) -> Reg:
    """Bytes as numbers: signed ones where they were flipped."""
    kind = value.type.replace("i8", "i32")
    signed, unsigned = (w.new(kind, f"{how} {value} to {kind}") for how in ("sext", "zext"))
    return w.select(w.compare("eq", flip, Reg("0", "i8")), unsigned, signed)


class _Rounding:
    """Floats to bytes: x / scale + zero, rounded to even, where the zero point has been flipped back."""

    def __init__(self, w: Writer, head: Reg, fused: bool) -> None:
        self.w, self.fused = w, fused
        self.inverse = w.new("float", f"fdiv float 1.0, {w.load('float', head, 4).text}")
        zero = w.load("i32", w.at(head, 5, "i32"), 4)
        self.zero = w.new("float", f"sitofp {zero} to float")

    def bytes(self, x: Reg, count: int) -> Reg:
        """`count` of them."""
        w, words, bytes_ = self.w, "i32", "i8"
        inverse, zero = self.inverse, self.zero
        low, high, magic = (Reg(f"{v:.1f}", "float") for v in (0.0, 255.0, MAGIC))
        base = Reg(str(MAGIC_BITS), "i32")
        if count > 1:
            words, bytes_ = WORDS, BYTES
            inverse, zero, low, high, magic, base = (
                w.splat(v, count) for v in (inverse, zero, low, high, magic, base)
            )
        x = w.fma(x, inverse, zero) if self.fused else w.fadd(w.fmul(x, inverse), zero)
        for how, limit in (("ogt", low), ("olt", high)):
            inside = w.new(x.type.replace("float", "i1"), f"fcmp {how} {x}, {limit.text}")
            x = w.select(inside, x, limit)
        whole = w.sub(w.new(words, f"bitcast {w.fadd(x, magic)} to {words}"), base)
        return w.new(bytes_, f"trunc {whole} to {bytes_}")


# --- scales -----------------------------------------------------------------------------------------------------------


def extremes_text() -> str:
    """Least and largest of every part; NaN and NaN if there is a NaN in it."""
    w = Writer("find_extremes", ABI)
    source, target = argument(w, "ptrs", 0, "ptr"), argument(w, "ptrs", 1, "ptr")
    count, part = argument(w, "params", 0), argument(w, "params", 1)
    masks = f"<{LANES} x i1>"

    def extended(x: Reg, least: Reg, most: Reg, strange: Reg) -> list[Reg]:
        kind = strange.type
        less, more, none = (
            w.new(kind, f"fcmp {how} {x}, {y.text}") for how, y in (("olt", least), ("ogt", most), ("uno", x))
        )
        return [w.select(less, x, least), w.select(more, x, most), w.binary("or", strange, none)]

    starts = [Reg(f"splat (float {HIGHEST})", FLOATS), Reg(f"splat (float {LOWEST})", FLOATS),
              Reg("zeroinitializer", masks)]
    with w.loop(w["begin"], w["end"]) as item:
        first = w.mul(item.i, part)
        past = w.min(w.add(first, part), count)
        whole = w.sub(past, w.rem(w.sub(past, first), LANES * 2))
        with w.loop(first, whole, LANES * 2, carry=starts * 2) as some:
            halves = []
            for half in range(2):
                x = w.load(FLOATS, w.at(source, w.add(some.i, half * LANES), "float"), 4)
                halves += extended(x, *some.carry[half * 3 : half * 3 + 3])
            some.next = halves
        totals = [Reg(HIGHEST, "float"), Reg(LOWEST, "float"), Reg("false", "i1")]
        for half in range(2):
            least, most, strange = some.carry[half * 3 : half * 3 + 3]
            for lane in range(LANES):
                ends = (w.new("float", f"extractelement {vector}, i64 {lane}") for vector in (least, most))
                for k, (x, how) in enumerate(zip(ends, ("olt", "ogt"), strict=True)):
                    totals[k] = w.select(w.new("i1", f"fcmp {how} {x}, {totals[k].text}"), x, totals[k])
            bits = w.new(f"i{LANES}", f"bitcast {strange} to i{LANES}")
            totals[2] = w.binary("or", totals[2], w.compare("ne", bits, Reg("0", bits.type)))
        with w.loop(whole, past, carry=totals) as one:
            one.next = extended(w.load("float", w.at(source, one.i, "float"), 4), *one.carry)
        least, most, strange = one.carry
        nan = Reg("0x7FF8000000000000", "float")
        for k, value in enumerate((least, most)):
            w.store(w.select(strange, nan, value), w.at(target, w.add(w.mul(item.i, 2), k), "float"), 4)
    return w.text()


def choose_text() -> str:
    """Scale and zero point of the whole range, which holds zero; see `SMALL_SCALE`."""
    w = Writer("choose_scale", ABI)
    extremes, head, error = (argument(w, "ptrs", k, "ptr") for k in range(3))
    parts, largest, low, flip = (argument(w, "params", k) for k in range(4))
    zero = Reg("0.0", "float")
    with w.loop(0, parts, carry=[zero, zero, Reg("false", "i1")]) as part:
        least, most = (
            w.load("float", w.at(extremes, w.add(w.mul(part.i, 2), k), "float"), 4) for k in range(2)
        )
        none = w.new("i1", f"fcmp uno {least}, {most.text}")
        less = w.new("i1", f"fcmp olt {least}, {part.carry[0].text}")
        more = w.new("i1", f"fcmp ogt {most}, {part.carry[1].text}")
        part.next = [
            w.select(less, least, part.carry[0]), w.select(more, most, part.carry[1]),
            w.binary("or", part.carry[2], none),
        ]
    least, most, strange = part.carry
    w.store(w.new("i64", f"zext {strange} to i64"), error, 8)
    scale, zero_point = _Range(w, least, most, largest).chosen()
    w.store(scale, head, 4)
    w.store(zero_point, w.at(head, 5, "i32"), 4)
    flipped = w.sub(zero_point, w.new("i32", f"trunc {flip} to i32"))
    w.store(flipped, w.at(head, 1, "i32"), 4)
    w.store(w.new("i32", f"trunc {low} to i32"), w.at(head, 2, "i32"), 4)
    w.store(Reg(HIGHEST, "float"), w.at(head, 3, "i32"), 4)
    w.store(Reg("0", "i32"), w.at(head, 4, "i32"), 4)
    return w.text()


class _Range:
    """A range of floats that holds zero, to be told apart by whole numbers from 0 to `largest`."""

    def __init__(self, w: Writer, least: Reg, most: Reg, largest: Reg) -> None:
        self.w, self.least, self.most = w, least, most
        self.largest = w.new("double", f"sitofp {largest} to double")

    def wide(self, x: Reg) -> Reg:
        return self.w.new("double", f"fpext {x} to double")

    def narrow(self, x: Reg) -> Reg:
        return self.w.new("float", f"fptrunc {x} to float")

    def test(self, how: str, x: Reg, y: Reg) -> Reg:
        return self.w.new("i1", f"fcmp {how} {x}, {y.text}")

    def chosen(self) -> tuple[Reg, Reg]:
        """The scale, in single precision, and the zero point."""
        w = self.w
        scale = w.binary("fdiv", w.fsub(self.wide(self.most), self.wide(self.least)), self.largest)
        single = self.narrow(scale)
        inverse = w.new("float", f"fdiv float 1.0, {single.text}")
        useless = w.binary("or", self.test("oeq", single, Reg("0.0", "float")),
                           self.test("oeq", inverse, Reg(HIGHEST, "float")))
        scale = w.select(useless, Reg("0.1", "double"), scale)
        scale = self.raised(scale)
        return self.narrow(scale), self.zero_point(scale)

    def raised(self, scale: Reg) -> Reg:
        """A scale that is not too small, and the range that it then is for."""
        w = self.w
        limit = w.constant("<1 x float>", SMALL_SCALE)
        limit = Reg(limit.text.removeprefix("splat (float ").removesuffix(")"), "float")
        small = self.test("olt", scale, Reg(limit.text, "double"))
        span = w.fmul(limit, self.narrow(self.largest))
        more = w.binary("fdiv", limit, self.narrow(scale))
        none = Reg("0.0", "float")
        below, above = self.test("oeq", self.least, none), self.test("oeq", self.most, none)
        most = w.select(below, span, w.select(above, self.most, w.fmul(self.most, more)))
        minus = w.new("float", f"fneg {span}")
        least = w.select(below, self.least, w.select(above, minus, w.fmul(self.least, more)))
        self.most, self.least = w.select(small, most, self.most), w.select(small, least, self.least)
        return w.select(small, Reg(limit.text, "double"), scale)

    def zero_point(self, scale: Reg) -> Reg:
        """Counted from the end of the range that it is nearer to."""
        w, none = self.w, Reg("0.0", "double")
        least, most = (w.binary("fdiv", self.wide(x), scale) for x in (self.least, self.most))
        from_least, from_most = w.fsub(none, least), w.fsub(self.largest, most)
        sizes = [w.new("double", f"call double @llvm.fabs.f64({x})") for x in (least, most)]
        nearer = self.test("olt", w.fsub(none, sizes[0]), w.fsub(self.largest, sizes[1]))
        zero = w.select(nearer, from_least, from_most)
        zero = w.select(self.test("ogt", zero, none), zero, none)
        zero = w.select(self.test("olt", zero, self.largest), zero, self.largest)
        bits = w.new("i64", f"bitcast {w.fadd(zero, Reg(f'{DOUBLE_MAGIC:.1f}', 'double'))} to i64")
        return w.new("i32", f"trunc {w.sub(bits, Reg(str(DOUBLE_MAGIC_BITS), 'i64'))} to i32")
