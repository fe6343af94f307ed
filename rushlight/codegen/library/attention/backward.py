"""Gradients of bfloat16 attention on AMX tiles: weights made again block by block, and five products around them.

Enters: packed operands (attention/forward.py), the logarithms of the forward and, per query, the inner product of
result and gradient. Leaves: a kernel with the usual ABI over (batch, head of keys): gradients of keys and values are
sums over all queries that met them. Refuses nothing, as the forward.

Scores and slopes (values times gradient) of a block lie turned, a row of 32 queries for every key. A chunk of keys
meets one chunk of queries after another: weights and gradients of scores of a block of keys are rounded, row by row,
which is how the sums over queries take them; gradients of scores are kept two keys to a word besides, for the sums over
keys. Sums wait in memory as float, those of queries in a temporary, and are rounded once.
"""

from __future__ import annotations

import math

from ...text.writer import Number, Reg, as_reg
from ...tiles.tiles import BLOCK, BLOCK_BYTES, ROW_BYTES, SUM_BYTES, bytes_after, configure
from .forward import FLOATS, LANES, MASK_PARAMS, ROW_OF_SUMS, WIDEST, TileAttention, TileNest, strip_text

KEYS, QUERIES = 4, 8  # blocks in a chunk: sums are loaded and stored once for so many products
PARTS = 4             # into which the products of a block fall: two of them, and the stores of their sums
BACKWARD_PARAMS = (
    "heads", "group", "length", "keys", "width", "value_width", "blocks_q", "blocks_k", "blocks_w", "blocks_v",
    "causal", "scale", *MASK_PARAMS, *(f"d_{name}.{d}" for name in ("query", "key", "value") for d in "bhr"),
)
OPERANDS = (
    "key", "key_turned", "value", "query", "query_pairs", "gradient", "gradient_pairs", "mask", "log", "inner",
    "sums", "d_query", "d_key", "d_value",
)

# what a thread holds of a head; sums are twice as large as a packed operand
HELD_SIZES = (
    ("key", "blocks_k", "blocks_w"), ("key_turned", "blocks_k", "blocks_w"), ("value", "blocks_k", "blocks_v"),
    ("query", "blocks_q", "blocks_w"), ("query_pairs", "blocks_q", "blocks_w"),
    ("gradient", "blocks_q", "blocks_v"), ("gradient_pairs", "blocks_q", "blocks_v"),
    ("sums", "blocks_q", "blocks_w"), ("more_sums", "blocks_q", "blocks_w"),
)


def backward_nest() -> TileNest:
    """Operands: keys (rows, turned), values (rows), queries and gradient (words, pairs each), mask, logarithms and
    inner products (dense), a temporary of float as large as all blocks of queries, gradients of query, key and value.
    `heads` are those of keys."""
    return TileNest("attention_tiles_backward", BACKWARD_PARAMS, lambda: _Backward().text())


def held_backward_nest() -> TileNest:
    """The same for heads that a thread packs and holds itself, each of keys with one of queries. Operands: keys,
    values, queries and gradient where they lie, mask, logarithms, inner products, gradients of query, key and value."""
    return TileNest(_HeldBackward.name, _HeldBackward.params, lambda: _HeldBackward().text())


class _Backward(TileAttention):
    name, operands, params = "attention_tiles_backward", OPERANDS, BACKWARD_PARAMS

    def __init__(self) -> None:
        super().__init__(self.name, self.operands, self.params)
        w, wide = self.w, WIDEST // BLOCK
        self.scores, self.slopes = w.scratch("i8", 2 * SUM_BYTES), w.scratch("i8", 2 * SUM_BYTES)
        self.weights, self.grads = (w.scratch("i8", QUERIES * BLOCK_BYTES) for _ in range(2))
        self.words = w.scratch("i8", KEYS * QUERIES * BLOCK_BYTES)
        self.key_sums, self.value_sums = (w.scratch("i8", KEYS * wide * SUM_BYTES) for _ in range(2))

    def text(self) -> str:
        w, p = self.w, self.p
        configure(w, self.config)
        with w.loop(w["begin"], w["end"]) as item:
            keys = self.first_keys(item.i)
            with w.loop(0, p["blocks_k"], KEYS) as k0:
                k1 = w.min(w.add(k0.i, KEYS), p["blocks_k"])
                for sums, blocks in ((self.key_sums, p["blocks_w"]), (self.value_sums, p["blocks_v"])):
                    count = w.mul(blocks, KEYS * SUM_BYTES)
                    w.call("llvm.memset.p0.i64", sums, Reg("0", "i8"), count, Reg("false", "i1"))
                # Queries before all keys of the chunk do not see them.
                start = w.select(self.causal, w.mul(w.div(k0.i, QUERIES), QUERIES), 0)
                with w.loop(0, p["group"]) as g:
                    head = w.add(w.mul(item.i, p["group"]), g.i)
                    with w.loop(start, p["blocks_q"], QUERIES) as q0:
                        q1 = w.min(w.add(q0.i, QUERIES), p["blocks_q"])
                        self.meet(keys, head, k0.i, k1, q0.i, q1)
                self.write_rows(item.i, k0.i, k1, "key", self.key_sums, "blocks_w", "width")
                self.write_rows(item.i, k0.i, k1, "value", self.value_sums, "blocks_v", "value_width")
            with w.loop(0, p["group"]) as g:
                self.write_queries(item.i, g.i)
        w.call("llvm.x86.tilerelease")
        return w.text()

    def first_keys(self, item: Reg) -> Reg:
        """The first packed strip of keys and values of a head."""
        return self.w.mul(item, self.p["blocks_k"])

    def first_queries(self, head: Reg) -> Reg:
        """That of queries and gradient."""
        return self.w.mul(head, self.p["blocks_q"])

    def meet(self, keys: Reg, head: Reg, k0: Reg, k1: Reg, q0: Reg, q1: Reg) -> None:
        """A chunk of keys meets a chunk of queries."""
        w, p = self.w, self.p
        queries = self.first_queries(head)
        with w.loop(k0, k1) as k:
            first = w.select(self.causal, w.max(q0, k.i), q0)
            with w.when(w.compare("slt", first, q1)):
                for part in range(PARTS):
                    self.product(part, keys, queries, k.i, first)
            with w.loop(first, q1) as q:
                self.block_of_weights(keys, head, queries, k.i, q.i, k0, q0, q1)
            place = w.sub(k.i, k0)
            with w.when(w.compare("slt", first, q1)):
                for sums, left, right, blocks in (
                    (self.value_sums, self.weights, "gradient_pairs", p["blocks_v"]),
                    (self.key_sums, self.grads, "query_pairs", p["blocks_w"]),
                ):
                    with w.loop(0, blocks) as d:
                        kept = bytes_after(w, sums, w.mul(w.add(w.mul(place, blocks), d.i), SUM_BYTES))
                        self.load_sums(kept)
                        with w.loop(first, q1) as q:
                            own = bytes_after(w, left, w.mul(w.sub(q.i, q0), BLOCK_BYTES))
                            self.multiply(own, self.block(self.at[right], w.add(queries, q.i), blocks, d.i))
                        self.store_sums(kept)
        with w.loop(q0, q1) as q:
            self.queries_of_block(keys, queries, q.i, k0, k1, q0)

    def product(self, part: int, keys: Reg, queries: Reg, k: Reg, q: Reg) -> None:
        """A part of what makes scores and slopes of a block of keys and one of queries: sums, or their store."""
        w, p = self.w, self.p
        target, left, right, blocks = (
            (self.scores, "key", "query", p["blocks_w"]),
            (self.slopes, "value", "gradient", p["blocks_v"]),
        )[part // 2]
        if part % 2:
            self.store_sums(self.turn(target, q))
            return
        self.load_sums(None)
        with w.loop(0, blocks) as d:
            rows = self.block(self.at[left], w.add(keys, k), blocks, d.i)
            self.multiply(rows, self.block(self.at[right], w.add(queries, q), blocks, d.i))

    def turn(self, sums: Reg, q: Reg) -> Reg:
        """Blocks of queries use the two places of scores and slopes by turns."""
        return bytes_after(self.w, sums, self.w.mul(self.w.rem(q, 2), SUM_BYTES))

    def block_of_weights(
        self, keys: Reg, head: Reg, queries: Reg, k: Reg, q: Reg, k0: Reg, q0: Reg, q1: Reg
    ) -> None:
        """Weights, and gradients of scores, of a block of keys and one of queries, whose products are there; those of
        the next block of queries are made meanwhile: tiles multiply while vectors are busy."""
        w, p = self.w, self.p
        scores, slopes = self.turn(self.scores, q), self.turn(self.slopes, q)
        self.mask(scores, head, w.mul(p["heads"], p["group"]), k, q)
        key, query = w.mul(k, BLOCK), w.mul(q, BLOCK)
        diagonal = w.both(self.causal, w.compare("eq", k, q))
        edge = w.compare("sgt", w.add(key, BLOCK), p["keys"])
        with w.when(w.binary("or", diagonal, edge)):
            self.hide(scores, key, query, [slopes])
        rest = w.sub(p["length"], query)
        numbers = w.add(w.mul(head, p["length"]), query)
        logs, inner = ([], [])
        for half in range(2):
            mask = w.lanes_in(0, w.sub(rest, half * LANES), LANES)
            for name, found in (("log", logs), ("inner", inner)):
                place = w.at(self.at[name], w.add(numbers, half * LANES), "float")
                found.append(w.load_some(FLOATS, place, mask, 4))
            logs[half] = w.fmul(logs[half], self.vector(-1.0 / math.log(2.0)))
        at = w.mul(w.sub(q, q0), BLOCK_BYTES)
        words = w.mul(w.add(w.mul(w.sub(k, k0), QUERIES), w.sub(q, q0)), BLOCK_BYTES)
        targets = (bytes_after(w, self.weights, at), bytes_after(w, self.grads, at), bytes_after(w, self.words, words))
        following = w.add(q, 1)
        more = w.compare("slt", following, q1)
        with w.loop(0, PARTS) as now:
            for part in range(PARTS):
                with w.when(w.both(more, w.compare("eq", now.i, part))):
                    self.product(part, keys, queries, k, following)
            first = w.mul(now.i, BLOCK // PARTS)
            self.weigh(first, scores, slopes, logs, inner, *targets)

    def weigh(
        self, first: Reg, scores: Reg, slopes: Reg, logs: list[Reg], inner: list[Reg], weights: Reg, grads: Reg,
        words: Reg,
    ) -> None:
        """Some rows of scores and slopes, two at a time."""
        w = self.w
        with w.loop(first, w.add(first, BLOCK // PARTS), 2) as r:
            powers: list[list[Reg]] = [[], []]
            changes: list[list[Reg]] = [[], []]
            for row in range(2):
                for half in range(2):
                    at = w.add(w.mul(w.add(r.i, row), ROW_OF_SUMS), half * 64)
                    power = self.power(w.fma(self.load(scores, at), self.later, logs[half]))
                    slope = w.fmul(w.fsub(self.load(slopes, at), inner[half]), self.scale)
                    powers[row].append(power)
                    changes[row].append(w.fmul(power, slope))
                for target, values in ((weights, powers[row]), (grads, changes[row])):
                    self.store_row(bytes_after(w, target, w.mul(w.add(r.i, row), ROW_BYTES)), *values)
            for half in range(2):
                place = bytes_after(w, words, w.mul(r.i, ROW_BYTES // 2), half * (BLOCK_BYTES // 2))
                w.store(self.pair(changes[0][half], changes[1][half]), place, 64)

    def store_row(self, place: Reg, first: Reg, second: Reg) -> None:
        """32 numbers, rounded."""
        w, wide = self.w, f"<{BLOCK} x bfloat>"
        both = w.shuffle(first, second, range(BLOCK))
        w.store(w.new(wide, f"fptrunc {both} to {wide}"), place, 64)

    def queries_of_block(self, keys: Reg, queries: Reg, q: Reg, k0: Reg, k1: Reg, q0: Reg) -> None:
        """What a chunk of keys adds to gradients of a block of queries."""
        w, blocks = self.w, self.p["blocks_w"]
        last = w.select(self.causal, w.min(k1, w.add(q, 1)), k1)
        begins = w.compare("eq", k0, 0)
        with w.when(w.compare("slt", k0, last)), w.loop(0, blocks) as d:
            kept = self.query_sums(queries, q, d.i)
            with w.when(begins):
                self.load_sums(None)
            with w.when(w.negate(begins)):
                self.load_sums(kept)
            with w.loop(k0, last) as k:
                at = w.add(w.mul(w.sub(k.i, k0), QUERIES), w.sub(q, q0))
                left = self.block(self.at["key_turned"], w.add(keys, k.i), blocks, d.i)
                self.multiply(left, bytes_after(w, self.words, w.mul(at, BLOCK_BYTES)))
            self.store_sums(kept)

    def query_sums(self, queries: Reg, q: Reg, d: Number) -> Reg:
        w = self.w
        number = w.add(w.mul(w.add(queries, q), self.p["blocks_w"]), d)
        return bytes_after(w, self.at["sums"], w.mul(number, SUM_BYTES))

    def write_rows(self, item: Reg, k0: Reg, k1: Reg, name: str, sums: Reg, blocks: str, width: str) -> None:
        """Gradients of a chunk of keys or values."""
        w, p = self.w, self.p
        start = self.place_of(f"d_{name}", w.div(item, p["heads"]), w.rem(item, p["heads"]), w.mul(k0, BLOCK))
        rows = w.sub(w.min(w.mul(k1, BLOCK), p["keys"]), w.mul(k0, BLOCK))
        with w.loop(0, rows) as r, w.loop(0, p[blocks]) as d:
            block = w.add(w.mul(w.div(r.i, BLOCK), p[blocks]), d.i)
            line = bytes_after(w, sums, w.mul(block, SUM_BYTES), w.mul(w.rem(r.i, BLOCK), ROW_OF_SUMS))
            out = bytes_after(w, start, w.mul(w.mul(r.i, p[f"d_{name}.r"]), 2), w.mul(d.i, BLOCK * 2))
            for half in range(2):
                rest = w.sub(p[width], w.add(w.mul(d.i, BLOCK), half * LANES))
                self.store_some(
                    self.load(line, half * 64), bytes_after(w, out, half * LANES * 2), w.lanes_in(0, rest, LANES)
                )

    def place_of(self, name: str, b: Reg, h: Reg, row: Reg) -> Reg:
        """Where a row of a result begins."""
        w, p = self.w, self.p
        return w.at(
            self.at[name],
            w.total(w.mul(b, p[f"{name}.b"]), w.mul(h, p[f"{name}.h"]), w.mul(row, p[f"{name}.r"])),
            "i16",
        )

    def write_queries(self, item: Reg, g: Reg) -> None:
        """Gradients of all queries of a head."""
        w, p = self.w, self.p
        head = w.add(w.mul(item, p["group"]), g)
        all_heads = w.mul(p["heads"], p["group"])
        b, h, queries = w.div(head, all_heads), w.rem(head, all_heads), self.first_queries(head)
        with w.loop(0, p["blocks_q"]) as q, w.loop(0, p["blocks_w"]) as d:
            query = w.mul(q.i, BLOCK)
            out = bytes_after(w, self.place_of("d_query", b, h, query), w.mul(d.i, BLOCK * 2))
            self.write_turned(
                self.query_sums(queries, q.i, d.i), out, w.mul(p["d_query.r"], 2), w.sub(p["length"], query),
                w.sub(p["width"], w.mul(d.i, BLOCK)), None,
            )


class _HeldBackward(_Backward):
    name = "attention_tiles_held_backward"
    operands = ("key", "value", "query", "gradient", "mask", "log", "inner", "d_query", "d_key", "d_value")
    params = (*BACKWARD_PARAMS, *(f"{name}.{d}" for name in ("key", "value", "query", "gradient") for d in "bhr"))

    def __init__(self) -> None:
        super().__init__()
        self.given = {name: self.at[name] for name in ("key", "value", "query", "gradient")}
        self.hold(HELD_SIZES)

    def first_keys(self, item: Reg) -> Reg:
        """All of the head is packed first, and begins with its own first strip."""
        for name, rows, width, places in (
            ("key", "keys", "width", {"rows": "key", "turned": "key_turned"}),
            ("value", "keys", "value_width", {"rows": "value"}),
            ("query", "length", "width", {"words": "query", "pairs": "query_pairs"}),
            ("gradient", "length", "value_width", {"words": "gradient", "pairs": "gradient_pairs"}),
        ):
            self.pack(self.given[name], name, item, self.p["heads"], rows, width, places)
        return as_reg(0)

    def first_queries(self, head: Reg) -> Reg:
        return as_reg(0)

    def text(self) -> str:
        return strip_text() + "\n" + super().text()
