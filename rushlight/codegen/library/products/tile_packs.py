"""Packing the operands of tile products: blocks of 32 rows or columns and 64 bytes of k, in the order tiles are loaded.

Enters: two matrices of a `TileKind`'s elements whose rows or columns are consecutive in memory. Leaves: one `Kernel`
that packs both, left then right, zeros past the edges; its parallel range is strips of lines (rows or columns,
whichever are consecutive) of the left operand, then of the right. Refuses: matrices consecutive in neither direction;
callers copy those first.

A word is 32 bits: two or four values of k. A block of the left operand is its rows, 16 words each; of the right, 16
rows of words, column by column: what a tile product multiplies. Lines that run along k are loaded as words; of lines
that run across it, as many as make a word are interleaved, or elements are transposed:

    left, k consecutive: neither                  right, n consecutive: interleave
    left, m consecutive: transpose elements       right, k consecutive: transpose words
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ....base.digest import digest
from ...stored import cache
from ...stored.cache import Kernel
from ...text.writer import ABI, Reg, Writer
from ...tiles.tiles import BLOCK, BLOCK_BYTES, ROW_BYTES, TileKind, argument, bytes_after

ONE = ("lines", "length", "blocks", "pitch", "step_line", "step_block")   # of each operand, see `params_of`
ROW = f"<{BLOCK} x i16>"
WORDS = "<16 x i32>"
DECLARED = (
    "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)\n"
    "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)\n"
)
AHEAD = 4                       # blocks between asking for a block's lines and reading them
SHORT = 16                      # blocks of lines after which the next lines are asked for
STRIPS = (
    ("ptr", "source"), ("ptr", "packed"), ("i64", "strip"), ("i64", "strips"), ("i64", "block"), ("i64", "blocks"),
    ("i64", "lines"), ("i64", "length"), ("i64", "pitch"), ("i64", "step_line"), ("i64", "step_block"),
)


class TilePack:
    """What the kernel cache asks of a nest, for one pair of memory orders."""

    def __init__(self, kind: TileKind, left_turned: bool, right_turned: bool) -> None:
        self.kind, self.transposed = kind, (left_turned, right_turned)
        self.name = f"tile_pack_{kind.code}_{int(left_turned)}{int(right_turned)}"
        self.params = (*(f"left_{n}" for n in ONE), *(f"right_{n}" for n in ONE), "left_strips")

    def digest(self) -> bytes:
        """The name says what is packed; the cache's key holds the generator's sources besides."""
        return digest(self.name.encode())


def pack_kernel(kind: TileKind, left_turned: bool, right_turned: bool) -> Kernel:
    """The kernel for operands whose memory runs along k (left) and n (right), or the other way (turned)."""
    return cache.kernel(TilePack(kind, left_turned, right_turned), _object)


def _object(pack: Any) -> bytes:
    from ...llvm.cpu import compile_ir, host_target

    return compile_ir(module_text(pack.kind, host_target().triple, *pack.transposed), host_target(), "object")


def block_of(kind: TileKind, line_is_k: bool) -> tuple[int, int]:
    """Lines of a block, and elements of each."""
    return (kind.deep, BLOCK) if line_is_k else (BLOCK, kind.deep)


def params_of(kind: TileKind, lines: int, length: int, stride: int, line_is_k: bool, blocks_k: int) -> list[int]:
    """Parameters of one operand: `lines` of `length` consecutive elements, `stride` apart;
    whether a line is one value of k."""
    strip = blocks_k * BLOCK_BYTES
    steps = (BLOCK_BYTES, strip) if line_is_k else (strip, BLOCK_BYTES)
    return [lines, length, -(-length // block_of(kind, line_is_k)[1]), stride * kind.size, *steps]


def module_text(kind: TileKind, triple: str, left_turned: bool, right_turned: bool) -> str:
    """LLVM IR of the kernel."""
    target = "" if triple == "host" else f'target triple = "{triple}"\n'
    w = Writer(TilePack(kind, left_turned, right_turned).name, ABI)
    strips = argument(w, "params", 2 * len(ONE))
    later = w.sub(w["begin"], strips)
    ranges = ((w["begin"], w.min(w["end"], strips)), (w.max(later, 0), w.sub(w["end"], strips)))
    orders = ((left_turned, left_turned), (not right_turned, right_turned))
    texts = []
    for which, ((begin, end), order) in enumerate(zip(ranges, orders, strict=True)):
        name = ("pack_left", "pack_right")[which]
        source, packed = argument(w, "ptrs", 2 * which, "ptr"), argument(w, "ptrs", 2 * which + 1, "ptr")
        p = {name: argument(w, "params", which * len(ONE) + k) for k, name in enumerate(ONE)}
        place = bytes_after(w, packed, w.mul(begin, p["step_line"]))
        w.call(name, source, place, begin, end, 0, *(p[n] for n in ("blocks", "lines", "length", "pitch", *ONE[-2:])))
        texts.append(strips_text(kind, name, *order))
    return "\n".join([target + DECLARED, *texts, w.text(), ""])


def strips_text(kind: TileKind, name: str, line_is_k: bool, turns: bool) -> str:
    """A function that packs some blocks of some strips; the first one of the first strip comes to `packed`. What comes
    next is asked for: along long lines, or the next lines of short ones."""
    w = Writer(name, STRIPS, "internal ")
    stage, (count, length) = w.scratch("i8", BLOCK_BYTES), block_of(kind, line_is_k)
    p = {n: w[n] for n in ("lines", "length", "pitch")}
    is_long = w.compare("sgt", w.sub(w["blocks"], w["block"]), SHORT)
    ahead = w.select(is_long, AHEAD * length * kind.size, w.mul(w["pitch"], count))
    with w.loop(w["strip"], w["strips"]) as strip, w.loop(w["block"], w["blocks"]) as block:
        place, pitch = readable_block(w, p, w["source"], stage, strip.i, block.i, (count, length), kind.size)
        lines = [place]
        while len(lines) < count:
            lines.append(bytes_after(w, lines[-1], pitch))
        for line in lines:
            w.prefetch(bytes_after(w, line, ahead))
        to = bytes_after(w, w["packed"], w.mul(w.sub(strip.i, w["strip"]), w["step_line"]),
                         w.mul(w.sub(block.i, w["block"]), w["step_block"]))
        for r, value in packed_rows(w, kind, lines, line_is_k, turns):
            w.store(value, bytes_after(w, to, r * ROW_BYTES), 64)
    return w.text()


def packed_rows(
    w: Writer, kind: TileKind, lines: list[Reg], line_is_k: bool, turns: bool
) -> Iterator[tuple[int, Reg]]:
    """The 32 rows of a packed block, with their numbers, in any order."""
    if not line_is_k and not turns:
        yield from ((r, w.load(ROW, line, kind.size)) for r, line in enumerate(lines))
    elif not turns:
        group = 4 // kind.size
        for first in range(0, len(lines), group):
            for half in range(2):
                parts = [bytes_after(w, line, half * 16 * kind.size) for line in lines[first : first + group]]
                yield 16 * half + first // group, interleaved(w, kind, parts)
    else:
        size = kind.size if line_is_k else 4           # of what is transposed: elements, or words
        per = 16 // size
        for first in range(0, len(lines), 4 * per):
            for piece in range(BLOCK // per if line_is_k else 4):
                places = [bytes_after(w, line, 16 * piece) for line in lines[first : first + 4 * per]]
                for j, row in enumerate(turned(w, places, size, kind.size)):
                    yield first + piece * per + j, row
                w.cut()


def turned(w: Writer, places: list[Reg], size: int, align: int) -> list[Reg]:
    """16 bytes of each line, transposed: a vector over lines for every element of `size` bytes. Quarters of vectors are
    lines that lie a vector's quarter apart, which loading can join; elements then change places inside quarters."""
    per = 16 // size
    kind, rows = f"<{per} x i{8 * size}>", []
    for i in range(per):
        a, b, c, d = (w.load(kind, places[per * quarter + i], align) for quarter in range(4))
        low, high = w.shuffle(a, b, range(2 * per)), w.shuffle(c, d, range(2 * per))
        rows.append(w.shuffle(low, high, range(4 * per)))
    half = per // 2
    for _ in range(per.bit_length() - 1):
        orders = [
            [at + e + other for at in range(begin, 4 * per, per) for e in range(half) for other in (0, 4 * per)]
            for begin in (0, half)
        ]
        pairs = zip(rows[:half], rows[half:], strict=True)
        rows = [w.shuffle(a, b, order) for a, b in pairs for order in orders]
    return rows


def block_rows(
    w: Writer, kind: TileKind, p: dict[str, Reg], source: Reg, stage: Reg, strip: Reg, block: Reg, line_is_k: bool
) -> Iterator[tuple[int, Reg]]:
    """A block as 32 vectors of 16 words, with their numbers, written as they are asked for: lines along k as they are;
    of lines across it, as many as make a word."""
    count, length = block_of(kind, line_is_k)
    place, pitch = readable_block(w, p, source, stage, strip, block, (count, length), kind.size)
    group = 4 // kind.size if line_is_k else 1
    for first in range(0, count, group):
        lines = []
        for _ in range(group):
            w.prefetch(bytes_after(w, place, AHEAD * length * kind.size))
            lines.append(place)
            place = bytes_after(w, place, pitch)
        if line_is_k:
            for half in range(2):
                parts = [bytes_after(w, line, half * 16 * kind.size) for line in lines]
                yield 16 * half + first // group, interleaved(w, kind, parts)
        else:
            yield first, w.load(ROW, lines[0], kind.size)


def interleaved(w: Writer, kind: TileKind, places: list[Reg]) -> Reg:
    """16 words of values from as many lines: lines side by side first, which costs less than to exchange between
    vectors, for parts of one can be loaded."""
    element = f"i{8 * kind.size}"
    lines = [w.load(f"<16 x {element}>", place, kind.size) for place in places]
    while len(lines) > 1:
        wide = int(lines[0].type.strip("<").split()[0])
        lines = [w.shuffle(a, b, range(2 * wide)) for a, b in zip(lines[::2], lines[1::2], strict=True)]
    order = [16 * line + word for word in range(16) for line in range(len(places))]
    return w.new(ROW, f"bitcast {w.shuffle(lines[0], lines[0], order)} to {ROW}")


def readable_block(
    w: Writer, p: dict[str, Reg], source: Reg, stage: Reg, strip: Reg, block: Reg, shape: tuple[int, int], size: int
) -> tuple[Reg, Reg]:
    """Where a block's lines can be read, and how far apart: in the operand, or staged with zeros past its edges."""
    count, length = shape
    line, first = w.mul(strip, count), w.mul(block, length)
    rows, columns = w.min(w.sub(p["lines"], line), count), w.min(w.sub(p["length"], first), length)
    inside = bytes_after(w, source, w.mul(line, p["pitch"]), w.mul(first, size))
    partial = w.compare("slt", w.add(rows, columns), count + length)
    kind = f"i{8 * size}"
    with w.when(partial):
        w.call("llvm.memset.p0.i64", stage, Reg("0", "i8"), BLOCK_BYTES, Reg("false", "i1"))
        with w.loop(0, rows) as r, w.loop(0, columns) as q:
            value = w.load(kind, bytes_after(w, inside, w.mul(r.i, p["pitch"]), w.mul(q.i, size)), size)
            w.store(value, bytes_after(w, stage, w.mul(r.i, length * size), w.mul(q.i, size)), size)
    return w.select(partial, stage, inside), w.select(partial, length * size, p["pitch"])


def words_transposed(w: Writer, rows: dict[int, Reg]) -> Iterator[tuple[int, Reg]]:
    """The 32 rows of a block, 16x16 words transposed."""
    for first in (0, 16):
        words = [w.new(WORDS, f"bitcast {rows[first + r]} to {WORDS}") for r in range(16)]
        for r, row in enumerate(transpose(w, words)):
            yield first + r, w.new(ROW, f"bitcast {row} to {ROW}")


def transpose(w: Writer, rows: list[Reg]) -> list[Reg]:
    """16 vectors of 16 words, transposed by exchanging quarters of ever smaller squares."""
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
