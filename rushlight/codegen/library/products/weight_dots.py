"""Rows of 16-bit floats times 4-bit weights, by dot products of bytes: a third of the instructions that floats take
(weight_products.py), so that one row waits for memory alone.

Enters: rows as float32 that carry no more than 16-bit floats do, strips of 64 columns of 4-bit weights as AVX-512 has
them, scales and zeros of groups of k. Leaves: float32, row-major. Refuses nothing; `has_dots` says where it runs.

A row's numbers of a group are written as scale * (128 * high + low), both signed bytes, to within 1/32,000 of the
largest among them: less than half a unit in the last place of a float16 of that size. Eight values of k of a strip are
four vectors of memory; interleaved twice they are words of four even or four odd values of k of one column, which one
instruction multiplies with four bytes of the row. The halves of the sums, of even and of odd k, meet when a group ends.
"""

from __future__ import annotations

import functools
import struct

from ....base.digest import digest
from ....loops.record import Record
from ...stored import cache
from ...stored.cache import Kernel
from ...text.targets import cpu_words
from ...text.writer import ABI, Reg, Writer, declarations
from ...tiles.tiles import argument, bytes_after
from .byte_forms import VNNI

LANES, BLOCK = 16, 64
OCTET = 8                         # values of k at a time
PARTS = 2 * BLOCK // LANES        # vectors of sums of a strip: even and odd k apart
VECTOR, WORDS, BYTES = "<16 x float>", "<16 x i32>", "<64 x i8>"
HIGHEST = 127 * 128.0             # what the largest number of a group becomes
STAGE = ("k", "group", "groups")
PRODUCT = ("m", "n", "k", "part", "group", "groups")


def has_dots() -> bool:
    """Whether this processor has the instruction."""
    return {b"avx512_vnni", b"avx512bw", b"avx512vl"} <= cpu_words()


class WeightDots(Record):
    """What the kernel cache asks of a nest: a name, parameters and a digest."""

    name: str
    params: tuple[str, ...]
    scales: str = ""           # of weights: "float" or "bfloat"; none of the kernel that stages rows

    def digest(self) -> bytes:
        """The cache's key holds the generator's sources besides."""
        return digest(repr(self).encode())


@functools.cache
def stage_kernel() -> Kernel:
    """Operands: rows, bytes [m, k / 8, 2, 8], scales and sums [m, groups, 2]. The parallel range is rows."""
    return cache.kernel(WeightDots("stage_halves", STAGE), _object)


@functools.cache
def dot_kernel(scales: str) -> Kernel:
    """Operands: bytes, weights, scales and zeros of weights, scales and sums of rows, result. The parallel range is
    parts of strips, of which all columns are there."""
    return cache.kernel(WeightDots("four_bit_dots", PRODUCT, scales), _object)


def _object(kernel: WeightDots) -> bytes:
    from ...llvm.cpu import compile_ir, host_target

    host = host_target()
    host = host.but(features=f"{host.features},+{VNNI.feature}".lstrip(","))
    return compile_ir(module_text(kernel, host.triple), host, "object", by_hand=True)


def module_text(kernel: WeightDots, triple: str) -> str:
    """LLVM IR of the kernel."""
    head = f'target triple = "{triple}"\n{declarations(LANES, "float")}{VNNI.declared()}'
    for name in ("rint", "fabs", "maximum"):
        second = f", {VECTOR}" if name == "maximum" else ""
        head += f"declare {VECTOR} @llvm.{name}.v16f32({VECTOR}{second})\n"
    head += f"declare float @llvm.vector.reduce.fmax.v16f32({VECTOR})\n"
    return head + (f"{strip_text(kernel)}\n{dot_text(kernel)}" if kernel.scales else stage_text())


# --- rows ------------------------------------------------------------------------------------------------------------


def stage_text() -> str:
    """Each group of a row: its largest number sets the scale, then every number becomes two bytes."""
    w = Writer("stage_halves", ABI)
    x, halves, known = (argument(w, "ptrs", k, "ptr") for k in range(3))
    k, group, groups = (argument(w, "params", i) for i in range(3))
    zero = Reg("zeroinitializer", VECTOR)
    with w.loop(w["begin"], w["end"]) as row, w.loop(0, groups) as g:
        first = w.add(w.mul(row.i, k), w.mul(g.i, group))
        with w.loop(0, group, LANES, carry=[zero, zero]) as see:
            values = w.load(VECTOR, w.at(x, w.add(first, see.i), "float"), 4)
            size = _call(w, "fabs", values)
            largest = w.new(VECTOR, f"call {VECTOR} @llvm.maximum.v16f32({size}, {see.carry[0]})")
            see.next = [largest, w.fadd(see.carry[1], values)]
        most = w.new("float", f"call float @llvm.vector.reduce.fmax.v16f32({see.carry[0]})")
        scale = w.new("float", f"fmul {most}, 0x{_bits(1 / HIGHEST)}")
        is_zero = w.new("i1", f"fcmp oeq {most}, 0.0")
        inverse = w.new("float", f"fdiv float 0x{_bits(HIGHEST)}, {most.text}")
        inverse = w.new("float", f"select {is_zero}, float 0.0, {inverse}")
        place = w.at(known, w.mul(w.add(w.mul(row.i, groups), g.i), 2), "float")
        w.store(scale, place, 4)
        w.store(w.horizontal(see.carry[1]), w.at(place, 1, "float"), 4)
        wide = w.splat(inverse, LANES)
        with w.loop(0, group, LANES) as put:
            at = w.add(first, put.i)
            number = w.fmul(w.load(VECTOR, w.at(x, at, "float"), 4), wide)
            high = _call(w, "rint", w.fmul(number, w.constant(VECTOR, 1 / 128)))
            low = _call(w, "rint", w.fma(high, w.constant(VECTOR, -128.0), number))
            w.store(w.shuffle(_octets(w, high), _octets(w, low), (0, 2, 1, 3)), w.at(halves, w.mul(at, 2), "i8"), 8)
    return w.text()


def _call(w: Writer, name: str, value: Reg) -> Reg:
    return w.new(VECTOR, f"call {VECTOR} @llvm.{name}.v16f32({value})")


def _bits(number: float) -> str:
    rounded = struct.unpack("f", struct.pack("f", number))[0]
    return f"{struct.unpack('>Q', struct.pack('>d', rounded))[0]:016X}"


def _octets(w: Writer, values: Reg) -> Reg:
    """Sixteen small whole floats as two words of eight bytes: of even places, then of odd ones."""
    integers = w.new(WORDS, f"fptosi {values} to {WORDS}")
    narrow = w.new("<16 x i8>", f"trunc {integers} to <16 x i8>")
    order = [OCTET * word + 2 * place + odd for word in (0, 1) for odd in (0, 1) for place in range(OCTET // 2)]
    return w.new("<2 x i64>", f"bitcast {w.shuffle(narrow, narrow, order)} to <2 x i64>")


# --- products --------------------------------------------------------------------------------------------------------


def dot_text(kernel: WeightDots) -> str:
    """A part's strips meet all rows, one after another."""
    w = Writer("four_bit_dots", ABI)
    halves, weights, scales, known, out = (argument(w, "ptrs", k, "ptr") for k in range(5))
    p = {name: argument(w, "params", k) for k, name in enumerate(PRODUCT)}
    strips = w.div(p["n"], BLOCK)
    with w.loop(w["begin"], w["end"]) as item:
        first = w.mul(item.i, p["part"])
        with w.loop(first, w.min(w.add(first, p["part"]), strips)) as j, w.loop(0, p["m"]) as row:
            column = w.mul(j.i, BLOCK)
            w.call(
                "strip", bytes_after(w, halves, w.mul(w.mul(row.i, p["k"]), 2)),
                bytes_after(w, weights, w.mul(w.mul(j.i, p["k"]), BLOCK // 2)),
                w.at(scales, w.mul(column, 2), kernel.scales),
                w.at(known, w.mul(w.mul(row.i, p["groups"]), 2), "float"),
                w.at(out, w.add(w.mul(row.i, p["n"]), column), "float"), p["n"], p["group"], p["groups"],
            )
    return w.text()


def strip_text(kernel: WeightDots) -> str:
    """One row times a strip. Sums of high and of low bytes are apart until a group ends."""
    params = (
        ("ptr", "x"), ("ptr", "b"), ("ptr", "scales"), ("ptr", "known"), ("ptr", "c"), ("i64", "n"), ("i64", "group"),
        ("i64", "groups"),
    )
    w = Writer("strip", params, "internal ")
    none, start = [Reg("zeroinitializer", WORDS)] * (2 * PARTS), [Reg("zeroinitializer", VECTOR)] * (BLOCK // LANES)
    with w.loop(0, w["groups"], carry=[w["b"], w["x"], *start]) as g:
        with w.loop(0, w["group"], OCTET, carry=[*g.carry[:2], *none]) as k:
            b, x, *now = k.carry
            left = [_octet(w, w.at(x, OCTET * side, "i8")) for side in (0, 1)]
            after: list[list[Reg]] = [[], []]
            for v, right in enumerate(_columns(w, b)):
                for side in (0, 1):
                    total = now[side * PARTS + v]
                    dot = f"call {WORDS} @{VNNI.call}({total}, {right}, {left[side]})"
                    after[side].append(w.new(WORDS, dot))
            k.next = [w.at(b, OCTET * (BLOCK // 2), "i8"), w.at(x, 2 * OCTET, "i8"), *after[0], *after[1]]
        g.next = [*k.carry[:2], *_end_group(w, kernel, g.i, g.carry[2:], k.carry[2:])]
    for v, value in enumerate(g.carry[2:]):
        w.store(value, w.at(w["c"], v * LANES, "float"), 4)
    return w.text()


def _octet(w: Writer, place: Reg) -> Reg:
    """Bytes of even k on the first half of the lanes, of odd k on the second."""
    even, odd = (w.splat(w.load("i32", w.at(place, 4 * side, "i8"), 4), LANES) for side in (0, 1))
    return w.shuffle(even, odd, [lane if lane < LANES // 2 else LANES + lane for lane in range(LANES)])


def _columns(w: Writer, place: Reg) -> list[Reg]:
    """Eight values of k of a strip, as vectors of words of four: columns of low nibbles, then those of high ones."""
    rows = [w.load(BYTES, w.at(place, 64 * i, "i8"), 1) for i in range(4)]
    pairs = [_interleaved(w, rows[i], rows[i + 1], 16, part) for i in (0, 2) for part in (0, 1)]
    words = [w.new("<32 x i16>", f"bitcast {pair} to <32 x i16>") for pair in pairs]
    both = [_interleaved(w, words[v], words[2 + v], 8, part) for v in (0, 1) for part in (0, 1)]
    low, high = [], []
    for vector in both:
        whole = w.new(WORDS, f"bitcast {vector} to {WORDS}")
        low.append(w.new(WORDS, f"and {whole}, splat (i32 {0x0F0F0F0F})"))
        high.append(w.new(WORDS, f"and {w.new(WORDS, f'lshr {whole}, splat (i32 4)')}, splat (i32 {0x0F0F0F0F})"))
    return [*low, *high]


def _interleaved(w: Writer, a: Reg, b: Reg, lane: int, part: int) -> Reg:
    """The first or second half of each 128 bits (`lane` elements) of two vectors, in turns."""
    count = int(a.type.strip("<").split()[0])
    starts = range(part * lane // 2, count, lane)
    return w.shuffle(a, b, [start + i + side * count for start in starts for i in range(lane // 2) for side in (0, 1)])


def _end_group(w: Writer, kernel: WeightDots, group: Reg, totals: list[Reg], sums: list[Reg]) -> list[Reg]:
    """The results so far and what the group adds: scaled sums, and what the zeros of its columns make of the row's."""
    of_row = w.at(w["known"], w.mul(group, 2), "float")
    row_scale, row_sum = (w.splat(w.load("float", w.at(of_row, i, "float"), 4), LANES) for i in (0, 1))
    whole = [w.add(w.new(WORDS, f"shl {sums[v]}, splat (i32 7)"), sums[PARTS + v]) for v in range(PARTS)]
    at, result = w.at(w["scales"], w.mul(w.mul(group, w["n"]), 2), kernel.scales), []
    for v, total in enumerate(totals):
        scale, shift = _scale_and_shift(w, kernel, w.at(at, 2 * v * LANES, kernel.scales))
        four = whole[PARTS // 2 * (v // 2) : PARTS // 2 * (v // 2 + 1)]       # vectors that hold these columns
        number = w.new(VECTOR, f"sitofp {_in_order(w, four, v % 2)} to {VECTOR}")
        result.append(w.fma(scale, w.fmul(number, row_scale), w.fma(shift, row_sum, total)))
    return result


def _in_order(w: Writer, four: list[Reg], half: int) -> Reg:
    """Sixteen columns: quarter `half` of each of four vectors, plus the quarter that has the same columns of odd k."""
    def gathered(quarter: int) -> Reg:
        lanes = [4 * quarter + i for i in range(4)]
        ends = [w.shuffle(four[i], four[i + 1], [*lanes, *(LANES + lane for lane in lanes)]) for i in (0, 2)]
        return w.shuffle(*ends, range(LANES))

    return w.add(gathered(half), gathered(half + 2))


def _scale_and_shift(w: Writer, kernel: WeightDots, place: Reg) -> tuple[Reg, Reg]:
    """Scales of sixteen columns, and their zeros less 8 scales."""
    if kernel.scales == "bfloat":      # two of them in a word: each is the upper half of a float
        words = w.load(WORDS, place, 2)
        parts = (f"shl {words}, splat (i32 16)", f"and {words}, splat (i32 -65536)")
        scale, zero = (w.new(VECTOR, f"bitcast {w.new(WORDS, part)} to {VECTOR}") for part in parts)
    else:
        both = w.load(f"<{2 * LANES} x float>", place, 4)
        scale, zero = w.every(both, 2, LANES), w.every(both, 2, LANES, 1)
    return scale, w.fma(scale, w.constant(VECTOR, -8.0), zero)
