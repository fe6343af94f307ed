"""Attention of bfloat16 on AMX tiles: what its kernels share, packing, and the forward one.

Enters: query, key, value [batch, heads, length, width] whose rows are consecutive in memory, at most WIDEST wide.
Leaves: kernels with the usual ABI. `attention_tile_pack` lays rows of all heads out in blocks of 32 rows and 32
elements, zeros past the edges, in the orders that tiles want (see ORDERS); `attention_tiles` multiplies them. Refuses
nothing: callers ask the core (`request_tiles`) whether the processor has tiles.

Scores lie turned, a row of 32 queries for every key. So a query is a lane: its maximum, sum and scale are lanes of
vectors and nothing is added across one; and two rows of powers, rounded and side by side, are what the product with
the values takes. Scores, powers' sums and results are float, factors bfloat16. What a query gets depends on its own row
and on blocks of a fixed size, so on no number of threads.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from typing import Any

from ....base.digest import digest
from ...stored import cache
from ...stored.cache import Kernel
from ...text.writer import ABI, Number, Reg, Writer
from ...tiles.tiles import (
    BF16,
    BLOCK,
    BLOCK_BYTES,
    INTRINSICS,
    ROW_BYTES,
    SUM_BYTES,
    TILES,
    argument,
    bytes_after,
    configure,
    tile,
)
from ..products.tile_packs import block_rows, transpose, words_transposed

WIDEST = 128  # elements of a head
CHUNK = 8  # blocks of keys whose scores wait for their maximum: 32 KiB, in the nearest cache
LANES = 16
FLOATS, WORDS = f"<{LANES} x float>", f"<{LANES} x i32>"
ROW_OF_SUMS = BLOCK * 4  # bytes of a row of a block of sums
# 2^x for x from 0 to 1, relative error 2.6e-6: powers are rounded to 8 bits, and sums of them are off by less
POWER = (1.0000025933, 0.6930038353, 0.2414427522, 0.0520114686, 0.0135341638)
REDUCE, SCALE = "llvm.x86.avx512.mask.reduce.ps.512", "llvm.x86.avx512.mask.scalef.ps.512"
FLOOR = 1                       # how REDUCE rounds what it subtracts

DECLARED = INTRINSICS + (
    f"declare {FLOATS} @{REDUCE}({FLOATS}, i32, {FLOATS}, i16, i32)\n"
    f"declare {FLOATS} @{SCALE}({FLOATS}, {FLOATS}, {FLOATS}, i16, i32)\n"
    f"declare {FLOATS} @llvm.fma.v16f32({FLOATS}, {FLOATS}, {FLOATS})\n"
    f"declare {FLOATS} @llvm.masked.load.v16f32.p0(ptr, i32, <16 x i1>, {FLOATS})\n"
    f"declare void @llvm.masked.store.v16f32.p0({FLOATS}, ptr, i32, <16 x i1>)\n"
    "declare void @llvm.masked.store.v16i16.p0(<16 x i16>, ptr, i32, <16 x i1>)\n"
)
NEAR_ZERO = 1e-30
INFINITY, MINUS_INFINITY = "0x7FF0000000000000", "0xFFF0000000000000"  # as LLVM writes them
# How a block of rows is laid out: as the left operand of a product over its elements, or over its rows (turned);
# as the right operand of one over its elements (words), or over its rows (pairs).
ORDERS = ("rows", "words", "pairs", "turned")
STRIP = "attention_tile_strip"
STRIP_PARAMS = (
    ("ptr", "source"), ("i64", "lines"), ("i64", "width"), ("i64", "pitch"), ("i64", "strip"),
    *(("ptr", order) for order in ORDERS),
)
NOWHERE = Reg("null", "ptr")
# bytes of packed operands of a head that a thread holds itself, where they are no more: the second-level cache keeps
# them from one head to the next
HELD = 1 << 19
# whether there is a mask, and blocks of it between batches, heads and blocks of queries
MASK_PARAMS = ("masked", "mask.b", "mask.h", "mask.q")
PACK_PARAMS = ("heads", "length", "width", "b", "h", "r", *ORDERS)
FORWARD_PARAMS = (
    "heads", "group", "length", "keys", "value_width", "blocks_q", "blocks_k", "blocks_w", "blocks_v", "causal",
    "scale", *MASK_PARAMS, "out.b", "out.h", "out.r",
)
HELD_PARAMS = ("width", *(f"{name}.{d}" for name in ("key", "query", "value") for d in "bhr"))


class TileNest:
    """What the kernel cache asks of a nest, for a kernel that is written: `launch` asks for `compiled`."""

    def __init__(self, name: str, params: Sequence[str], text: Callable[[], str]) -> None:
        self.name, self.params, self.text = name, tuple(params), text

    def digest(self) -> bytes:
        """The cache's key holds the generator's sources besides."""
        return digest(self.name.encode())

    def compiled(self) -> Kernel:
        return cache.kernel(self, _object)


def _object(nest: Any) -> bytes:
    from ...llvm.cpu import compile_ir, host_target

    target = host_target()
    return compile_ir(f'target triple = "{target.triple}"\n' + DECLARED + nest.text() + "\n", target, "object")


def pack_nest() -> TileNest:
    """Operands: rows, and a place for each of ORDERS, of which parameters say whether it is wanted. The parallel range
    is blocks of rows of all heads."""
    return TileNest("attention_tile_pack", PACK_PARAMS, pack_text)


def forward_nest() -> TileNest:
    """Operands: keys (rows), queries (words), values (turned), mask (turned_mask_nest, or anything), result, logarithms
    of the summed powers (dense). The parallel range is blocks of queries of all heads."""
    return TileNest("attention_tiles", FORWARD_PARAMS, lambda: _Forward().text())


def held_forward_nest() -> TileNest:
    """The same for heads that a thread packs and holds itself: operands are keys, queries and values where they lie,
    and the parallel range is heads."""
    return TileNest("attention_tiles_held", (*FORWARD_PARAMS, *HELD_PARAMS), lambda: _HeldForward().text())


# --- packing ----------------------------------------------------------------------------------------------------------


def strip_text() -> str:
    """The function that packs 32 rows of a head, from `source` on, in the orders that have a place."""
    w = Writer(STRIP, STRIP_PARAMS, "internal ")
    stage = w.scratch("i8", BLOCK_BYTES)
    own = {"lines": w["lines"], "length": w["width"], "pitch": w["pitch"]}
    wanted = {order: w.new("i1", f"icmp ne {w[order]}, null") for order in ORDERS}
    with w.loop(0, blocks_of(w, w["width"])) as block:
        place = w.mul(block.i, BLOCK_BYTES)
        for plain, turned, by_rows in (("rows", "words", False), ("pairs", "turned", True)):
            with w.when(w.binary("or", wanted[plain], wanted[turned])):
                rows = dict(block_rows(w, BF16, own, w["source"], stage, w["strip"], block.i, by_rows))
                for order in (plain, turned):
                    with w.when(wanted[order]):
                        found = rows.items() if order is plain else words_transposed(w, rows)
                        for r, value in found:
                            w.store(value, bytes_after(w, w[order], place, r * ROW_BYTES), 64)
    return w.text()


def pack_text() -> str:
    """One strip after the other."""
    w = Writer("attention_tile_pack", ABI)
    p = {name: argument(w, "params", k) for k, name in enumerate(PACK_PARAMS)}
    source = argument(w, "ptrs", 0, "ptr")
    targets = {order: argument(w, "ptrs", 1 + k, "ptr") for k, order in enumerate(ORDERS)}
    wanted = {order: w.compare("ne", p[order], 0) for order in ORDERS}
    strips, apart = blocks_of(w, p["length"]), w.mul(blocks_of(w, p["width"]), BLOCK_BYTES)
    with w.loop(w["begin"], w["end"]) as item:
        head, strip = w.div(item.i, strips), w.rem(item.i, strips)
        b, h = w.div(head, p["heads"]), w.rem(head, p["heads"])
        start = bytes_after(w, source, w.mul(w.add(w.mul(b, p["b"]), w.mul(h, p["h"])), 2))
        places = [
            w.select(wanted[order], bytes_after(w, targets[order], w.mul(item.i, apart)), NOWHERE) for order in ORDERS
        ]
        w.call(STRIP, start, p["length"], p["width"], w.mul(p["r"], 2), strip, *places)
    return strip_text() + "\n" + w.text()


def blocks_of(w: Writer, count: Reg) -> Reg:
    return w.div(w.add(count, BLOCK - 1), BLOCK)


# --- what both directions do ------------------------------------------------------------------------------------------


def number(value: float) -> Reg:
    """A constant of double precision."""
    return Reg(f"0x{struct.unpack('>Q', struct.pack('>d', value))[0]:016X}", "double")


class TileAttention:
    """A kernel in the making: its operands and parameters, products of blocks, powers."""

    def __init__(self, name: str, operands: Sequence[str], params: Sequence[str]) -> None:
        self.w = w = Writer(name, ABI)
        self.at = {operand: argument(w, "ptrs", k, "ptr") for k, operand in enumerate(operands)}
        self.p = {parameter: argument(w, "params", k) for k, parameter in enumerate(params)}
        self.causal = w.compare("ne", self.p["causal"], 0)
        scale = w.new("double", f"bitcast {self.p['scale']} to double")
        base2 = w.binary("fmul", scale, number(1.0 / math.log(2.0)))
        # Hidden scores are what the scale makes -inf; instead of 0 it is a number that makes all scores as good as 0.
        base2 = w.select(w.new("i1", f"fcmp oeq {scale}, {number(0.0).text}"), number(NEAR_ZERO), base2)
        self.masked = w.compare("ne", self.p["masked"], 0)
        below = w.both(w.new("i1", f"fcmp olt {scale}, {number(0.0).text}"), w.negate(self.masked))
        self.hidden = w.splat(w.select(below, Reg(INFINITY, "float"), Reg(MINUS_INFINITY, "float")), LANES)
        self.scale, self.factor = (
            w.splat(w.new("float", f"fptrunc {value} to float"), LANES) for value in (scale, base2)
        )
        # what scores are multiplied by once more: those with a mask are scaled when it is added
        self.later = w.select(self.masked, self.vector(1.0), self.factor)
        self.config = w.scratch("i8", 64)

    def block(self, operand: Reg, strip: Number, blocks: Number, block: Number) -> Reg:
        """Where a packed block lies: `block` of those along a strip."""
        w = self.w
        return bytes_after(w, operand, w.mul(w.add(w.mul(strip, blocks), block), BLOCK_BYTES))

    def load_sums(self, place: Reg | None) -> None:
        for t, row, half in TILES:
            if place is None:
                self.w.call("llvm.x86.tilezero", tile(t))
            else:
                at = bytes_after(self.w, place, row * 16 * ROW_OF_SUMS + half * 64)
                self.w.call("llvm.x86.tileloadd64", tile(t), at, ROW_OF_SUMS)

    def store_sums(self, place: Reg) -> None:
        for t, row, half in TILES:
            at = bytes_after(self.w, place, row * 16 * ROW_OF_SUMS + half * 64)
            self.w.call("llvm.x86.tilestored64", tile(t), at, ROW_OF_SUMS)

    def multiply(self, left: Reg, right: Reg, right_half: int = BLOCK_BYTES // 2, right_pitch: int = 64) -> None:
        """A block of the left operand times one of the right is added to the sums."""
        w = self.w
        for half in range(2):
            w.call("llvm.x86.tileloadd64", tile(4 + half), bytes_after(w, left, half * BLOCK_BYTES // 2), 64)
        for half in range(2):
            w.call("llvm.x86.tileloadd64", tile(6 + half), bytes_after(w, right, half * right_half), right_pitch)
        for t, row, half in TILES:
            w.call(BF16.multiply, tile(t), tile(4 + row), tile(6 + half))

    def hold(self, sizes: Sequence[tuple[str, str, str]]) -> None:
        """Room for packed operands: names, and the parameters that are their blocks of rows and of elements."""
        w = self.w
        place = w.scratch("i8", HELD)
        for name, rows, wide in sizes:
            self.at[name] = place
            place = bytes_after(w, place, w.mul(w.mul(self.p[rows], self.p[wide]), BLOCK_BYTES))

    def pack(
        self, source: Reg, name: str, head: Reg, heads: Reg, rows: str, width: str, places: dict[str, str]
    ) -> None:
        """Rows of a head, to operands held in some orders."""
        w, p = self.w, self.p
        b, h = w.div(head, heads), w.rem(head, heads)
        start = bytes_after(w, source, w.mul(w.add(w.mul(b, p[f"{name}.b"]), w.mul(h, p[f"{name}.h"])), 2))
        apart = w.mul(blocks_of(w, p[width]), BLOCK_BYTES)
        with w.loop(0, blocks_of(w, p[rows])) as strip:
            given = [
                bytes_after(w, self.at[places[order]], w.mul(strip.i, apart)) if order in places else NOWHERE
                for order in ORDERS
            ]
            w.call(STRIP, start, p[rows], p[width], w.mul(p[f"{name}.r"], 2), strip.i, *given)

    def vector(self, value: float) -> Reg:
        return self.w.constant(FLOATS, value)

    def load(self, place: Reg, offset: Number = 0) -> Reg:
        return self.w.load(FLOATS, bytes_after(self.w, place, offset), 64)

    def larger(self, a: Reg, b: Reg) -> Reg:
        """The second where they do not compare."""
        w = self.w
        return w.select(w.new("<16 x i1>", f"fcmp ogt {a}, {b.text}"), a, b)

    def power(self, x: Reg) -> Reg:
        """2^x: of what x exceeds its floor, scaled by a power that the floor names."""
        w, all_lanes = self.w, "i16 -1, i32 4"
        rest = w.new(FLOATS, f"call {FLOATS} @{REDUCE}({x}, i32 {FLOOR}, {x}, {all_lanes})")
        total = self.vector(POWER[-1])
        for factor in reversed(POWER[:-1]):
            total = w.fma(total, rest, self.vector(factor))
        return w.new(FLOATS, f"call {FLOATS} @{SCALE}({total}, {x}, {x}, {all_lanes})")

    def integers(self, value: int) -> Reg:
        return Reg(f"splat (i32 {value})", WORDS)

    def bits(self, value: Reg) -> Reg:
        return self.w.new(WORDS, f"bitcast {value} to {WORDS}")

    def pair(self, first: Reg, second: Reg) -> Reg:
        """Two numbers of each lane, rounded to bfloat16, as a word."""
        w, half = self.w, self.integers(1 << 15)
        low = w.binary("lshr", w.add(self.bits(first), half), self.integers(16))
        high = w.binary("and", w.add(self.bits(second), half), self.integers(-(1 << 16)))
        return w.binary("or", low, high)

    def lanes_from(self, first: Number) -> Reg:
        """The mask of lanes from a number on."""
        return self.w.lanes_in(first, LANES, LANES)

    def mask(self, scores: Reg, head: Reg, heads: Reg, k: Reg, q: Reg) -> None:
        """Scores of a block are scaled and their mask is added, where there is one."""
        w, p = self.w, self.p
        b, h = w.div(head, heads), w.rem(head, heads)
        number = w.total(w.mul(b, p["mask.b"]), w.mul(h, p["mask.h"]), w.mul(q, p["mask.q"]), k)
        with w.when(self.masked):
            added = bytes_after(w, self.at["mask"], w.mul(number, SUM_BYTES))
            with w.loop(0, SUM_BYTES, 64) as i:
                place = bytes_after(w, scores, i.i)
                w.store(w.fma(w.load(FLOATS, place, 64), self.factor, self.load(added, i.i)), place, 64)

    def hide(self, block: Reg, key: Reg, query: Reg, others: Sequence[Reg] = ()) -> None:
        """Scores of a block of keys that do not exist, or lie after a query where that counts, become `hidden`; all
        elements of `others` there 0."""
        w = self.w
        with w.loop(0, BLOCK) as r:
            number = w.add(key, r.i)
            past = w.compare("sge", number, self.p["keys"])
            first = w.select(self.causal, w.sub(number, query), -1)  # the first query that sees it
            for half in range(2):
                seen = self.lanes_from(w.select(past, BLOCK, w.sub(first, half * LANES)))
                for place, value in ((block, self.hidden), *((other, self.vector(0.0)) for other in others)):
                    at = bytes_after(w, place, w.mul(r.i, ROW_OF_SUMS), half * 64)
                    w.store(w.select(seen, w.load(FLOATS, at, 64), value), at, 64)

    def write_turned(self, sums: Reg, out: Reg, row: Reg, rows: Reg, width: Reg, scales: Sequence[Reg] | None) -> None:
        """A block of sums, a lane for each row, to `rows` rows of a result that lie `row` bytes apart, rounded; of
        their elements there are `width`."""
        w = self.w
        for column in range(2):
            some = w.lanes_in(0, w.sub(width, column * LANES), LANES)
            for half in range(2):
                lines = [self.load(sums, (column * LANES + k) * ROW_OF_SUMS + half * 64) for k in range(LANES)]
                if scales is not None:
                    lines = [w.fmul(line, scales[half]) for line in lines]
                for k, line in enumerate(transpose(w, lines)):
                    number = half * LANES + k
                    there = w.select(w.compare("sgt", rows, number), some, Reg("zeroinitializer", some.type))
                    place = bytes_after(w, out, w.mul(row, number), column * LANES * 2)
                    self.store_some(line, place, there)
                w.cut()

    def store_some(self, line: Reg, place: Reg, mask: Reg) -> None:
        """Lanes of a vector, rounded to bfloat16."""
        w = self.w
        short = w.new("<16 x bfloat>", f"fptrunc {line} to <16 x bfloat>")
        whole = w.new("<16 x i16>", f"bitcast {short} to <16 x i16>")
        w.lines.append(f"  call void @llvm.masked.store.v16i16.p0({whole}, {place}, i32 2, {mask})")


# --- forward ----------------------------------------------------------------------------------------------------------


class _Forward(TileAttention):
    name, params = "attention_tiles", FORWARD_PARAMS

    def __init__(self) -> None:
        super().__init__(self.name, ("key", "query", "value", "mask", "out", "log"), self.params)
        w = self.w
        self.scores = w.scratch("i8", CHUNK * SUM_BYTES)
        self.sums = w.scratch("i8", WIDEST // BLOCK * SUM_BYTES)

    def text(self) -> str:
        w = self.w
        configure(w, self.config)
        with w.loop(w["begin"], w["end"]) as item:
            self.item(item.i)
        w.call("llvm.x86.tilerelease")
        return w.text()

    def item(self, item: Reg) -> None:
        """A block of queries."""
        w, p = self.w, self.p
        head, turn = w.div(item, p["blocks_q"]), w.rem(item, p["blocks_q"])
        # Heavy blocks first: late queries see the most keys.
        number = w.select(self.causal, w.sub(w.sub(p["blocks_q"], 1), turn), turn)
        own = w.div(head, p["group"])  # heads of a batch are a multiple of the group
        self.attend(head, w.mul(own, p["blocks_k"]), w.mul(head, p["blocks_q"]), number)

    def attend(self, head: Reg, keys: Number, queries: Number, number: Reg) -> None:
        """A block of queries, by its number, meets all keys; packed strips of the head begin with `keys`, `queries`."""
        w, p = self.w, self.p
        low, zero = self.vector(-math.inf), self.vector(0.0)
        query = w.mul(number, BLOCK)
        seen = w.select(self.causal, w.min(p["keys"], w.add(query, BLOCK)), p["keys"])
        blocks = blocks_of(w, seen)
        with w.loop(0, blocks, CHUNK, carry=[low, low, zero, zero]) as chunk:
            past = w.min(w.add(chunk.i, CHUNK), blocks)
            tops, totals = chunk.carry[:2], chunk.carry[2:]
            newer = self.score(head, keys, queries, number, chunk.i, past, tops)
            last = w.sub(blocks, 1)
            partial = w.compare("sgt", w.mul(blocks, BLOCK), p["keys"])
            with w.when(w.both(w.compare("eq", past, blocks), w.binary("or", self.causal, partial))):
                hidden = bytes_after(w, self.scores, w.mul(w.sub(last, chunk.i), SUM_BYTES))
                self.hide(hidden, w.mul(last, BLOCK), query)
            count = w.mul(w.sub(past, chunk.i), BLOCK)
            newer = self.tops(w.sub(count, BLOCK), count, newer)
            bases = [w.select(w.new("<16 x i1>", f"fcmp oeq {t}, {low.text}"), zero, t) for t in newer]
            shrink = [self.power(w.fsub(old, base)) for old, base in zip(tops, bases, strict=True)]
            with w.when(w.compare("sgt", chunk.i, 0)):
                self.shrink(shrink)
            added = self.powers(count, bases)
            self.weigh(keys, chunk.i, past)
            chunk.next = [*newer, *(w.fma(t, s, a) for t, s, a in zip(totals, shrink, added, strict=True))]
        self.finish(head, query, chunk.carry[:2], chunk.carry[2:])

    def score(
        self, head: Reg, keys: Number, queries: Number, number: Reg, first: Reg, past: Reg, tops: list[Reg]
    ) -> list[Reg]:
        """Scores of a chunk of keys and a block of queries, and the largest of all but the last block: while tiles
        multiply, those of the block before are looked through."""
        w, wide = self.w, self.p["blocks_w"]
        strip = w.add(queries, number)
        with w.loop(first, past, carry=tops) as k:
            self.load_sums(None)
            with w.loop(0, wide) as d:
                left = self.block(self.at["key"], w.add(keys, k.i), wide, d.i)
                self.multiply(left, self.block(self.at["query"], strip, wide, d.i))
            row = w.mul(w.sub(k.i, first), BLOCK)
            k.next = self.tops(w.max(w.sub(row, BLOCK), 0), row, k.carry)
            place = bytes_after(w, self.scores, w.mul(row, ROW_OF_SUMS))
            self.store_sums(place)
            self.mask(place, head, self.p["heads"], k.i, number)
        return k.carry

    def tops(self, first: Reg, past: Reg, tops: list[Reg]) -> list[Reg]:
        """The largest score of every query, scaled, of some rows."""
        w = self.w
        with w.loop(first, past, 4, carry=[*tops, *tops]) as r:
            now = list(r.carry)
            for k in range(4):
                place = bytes_after(w, self.scores, w.mul(w.add(r.i, k), ROW_OF_SUMS))
                for half in range(2):
                    scaled = w.fmul(self.load(place, half * 64), self.later)
                    now[half + k % 2 * 2] = self.larger(scaled, now[half + k % 2 * 2])
            r.next = now
        return [self.larger(r.carry[half], r.carry[half + 2]) for half in range(2)]

    def shrink(self, factors: list[Reg]) -> None:
        """What earlier chunks summed counts less."""
        w = self.w
        with w.loop(0, w.mul(self.p["blocks_v"], BLOCK)) as r:
            for half, factor in enumerate(factors):
                place = bytes_after(w, self.sums, w.mul(r.i, ROW_OF_SUMS), half * 64)
                w.store(w.fmul(w.load(FLOATS, place, 64), factor), place, 64)

    def powers(self, count: Reg, bases: list[Reg]) -> list[Reg]:
        """Scores become powers, two keys to a word: these take the place of the first of the two rows. Their sums."""
        w = self.w
        minus = [w.new(FLOATS, f"fneg {base}") for base in bases]
        with w.loop(0, count, 2, carry=[self.vector(0.0)] * 4) as r:
            place = bytes_after(w, self.scores, w.mul(r.i, ROW_OF_SUMS))
            rows = [[self.load(place, row * ROW_OF_SUMS + half * 64) for row in range(2)] for half in range(2)]
            later = list(r.carry)
            for half in range(2):
                both = [self.power(w.fma(x, self.later, minus[half])) for x in rows[half]]
                w.store(self.pair(*both), bytes_after(w, place, half * 64), 64)
                for row in range(2):
                    later[2 * half + row] = w.fadd(later[2 * half + row], both[row])
            r.next = later
        return [w.fadd(r.carry[2 * half], r.carry[2 * half + 1]) for half in range(2)]

    def weigh(self, keys: Number, first: Reg, past: Reg) -> None:
        """Values times powers, added to what earlier chunks summed."""
        w, wide = self.w, self.p["blocks_v"]
        begins = w.compare("eq", first, 0)
        with w.loop(0, wide) as d:
            kept = bytes_after(w, self.sums, w.mul(d.i, SUM_BYTES))
            with w.when(begins):
                self.load_sums(None)
            with w.when(w.negate(begins)):
                self.load_sums(kept)
            with w.loop(first, past) as k:
                left = self.block(self.at["value"], w.add(keys, k.i), wide, d.i)
                right = bytes_after(w, self.scores, w.mul(w.sub(k.i, first), SUM_BYTES))
                self.multiply(left, right, 64, 2 * ROW_OF_SUMS)
            self.store_sums(kept)

    def finish(self, head: Reg, query: Reg, tops: list[Reg], totals: list[Reg]) -> None:
        """Sums divided by those of the powers, and the logarithms; both are 0 for queries that saw nothing."""
        w, p = self.w, self.p
        rows = w.sub(p["length"], query)
        b, h = w.div(head, p["heads"]), w.rem(head, p["heads"])
        out = w.total(w.mul(b, p["out.b"]), w.mul(h, p["out.h"]), w.mul(query, p["out.r"]))
        place = w.at(self.at["out"], out, "i16")
        zero = self.vector(0.0)
        nothing = [w.new("<16 x i1>", f"fcmp oeq {t}, {zero.text}") for t in totals]
        scales = [w.new(FLOATS, f"fdiv {self.vector(1.0)}, {t.text}") for t in totals]
        scales = [w.select(n, zero, scale) for n, scale in zip(nothing, scales, strict=True)]
        with w.loop(0, p["blocks_v"]) as d:
            self.write_turned(
                bytes_after(w, self.sums, w.mul(d.i, SUM_BYTES)), bytes_after(w, place, w.mul(d.i, BLOCK * 2)),
                w.mul(p["out.r"], 2), rows, w.sub(p["value_width"], w.mul(d.i, BLOCK)), scales,
            )
        logs = w.at(self.at["log"], w.add(w.mul(head, p["length"]), query), "float")
        for half in range(2):
            value = w.fmul(w.fadd(tops[half], self.logarithm(totals[half])), self.vector(math.log(2.0)))
            mask = w.lanes_in(0, w.sub(rows, half * LANES), LANES)
            value = w.select(nothing[half], zero, value)
            w.store_some(value, bytes_after(w, logs, half * 64), mask, 4)

    def logarithm(self, x: Reg) -> Reg:
        """The logarithm (base 2) of normal numbers: the exponent, and a series in (m - 1) / (m + 1) of the rest m,
        which is at most the root of 2 away from 1, to 2e-8."""
        w = self.w
        bits, root = self.bits(x), self.integers(0x3F3504F3)  # the bits of half the root of 2
        apart = w.binary("ashr", w.sub(bits, root), self.integers(23))
        rest = w.new(FLOATS, f"bitcast {w.sub(bits, w.binary('shl', apart, self.integers(23)))} to {FLOATS}")
        one = self.vector(1.0)
        t = w.new(FLOATS, f"fdiv {w.fsub(rest, one)}, {w.fadd(rest, one).text}")
        square, total = w.fmul(t, t), self.vector(1 / 9)
        for odd in (7, 5, 3, 1):
            total = w.fma(total, square, self.vector(1 / odd))
        near = w.fmul(w.fmul(t, total), self.vector(2 / math.log(2.0)))
        result = w.fadd(w.new(FLOATS, f"sitofp {apart} to {FLOATS}"), near)
        odd = w.new("<16 x i1>", f"fcmp uno {x}, {x.text}")
        return w.select(odd, x, result)


class _HeldForward(_Forward):
    name, params = "attention_tiles_held", (*FORWARD_PARAMS, *HELD_PARAMS)

    def __init__(self) -> None:
        super().__init__()
        self.given = {name: self.at[name] for name in ("key", "query", "value")}
        sizes = (("key", "blocks_k", "blocks_w"), ("query", "blocks_q", "blocks_w"), ("value", "blocks_k", "blocks_v"))
        self.hold(sizes)

    def item(self, item: Reg) -> None:
        """A head."""
        w, p = self.w, self.p
        own, heads = w.div(item, p["group"]), w.div(p["heads"], p["group"])
        self.pack(self.given["key"], "key", own, heads, "keys", "width", {"rows": "key"})
        self.pack(self.given["query"], "query", item, p["heads"], "length", "width", {"words": "query"})
        self.pack(self.given["value"], "value", own, heads, "keys", "value_width", {"turned": "value"})
        with w.loop(0, p["blocks_q"]) as number:
            self.attend(item, 0, 0, number.i)

    def text(self) -> str:
        return strip_text() + "\n" + super().text()
