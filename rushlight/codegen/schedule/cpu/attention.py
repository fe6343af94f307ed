"""CPU schedules of attention: blocks of scores that live in cache, between tiles of matrix products.

Enters: an element type, whether attention is causal, the mask's type. Leaves: nests over (batch, head, block of
queries). A block of queries meets the keys some at a time: scores are a product of packed queries and packed keys, a
loop over their rows makes them powers and keeps each row's maximum and sum, and powers times values are added to the
result, whose earlier part is made smaller where a maximum rose. All sizes and strides are parameters; scratch memory
is the kernel's own, and as large for every length and width. Elements of a row are neighbours, and rows of what
products read where it lies are whole vectors (callers copy others). A row's result depends on its own row of scores
only, so on no number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ....loops import expr
from ....loops.expr import Value, bitcast, cast, const, eq, gt, idiv, irem, load, lt, max_, min_, ne, or_, var
from ....loops.nest import (
    For,
    If,
    Local,
    Multiply,
    Nest,
    Operand,
    Pack,
    Reduce,
    Statement,
    Store,
    operands,
    reduction,
    rows,
)
from ...text.targets import vector_bits
from .product import Blocking, number

# About as many keys meet a block of queries at a time, by bits of vectors: their scores stay in a near cache.
KEYS = {128: 384, 256: 256, 512: 256}
# Vectors of a turn of loops over scores. A processor with short vectors looks ahead over few instructions, so that an
# exponential of four is a chain that it waits for.
TURN = {128: 8, 256: 4, 512: 4}
SPAN = 256               # elements of a head that are summed at a time
GROUP, LOW_GROUP = 4, 8  # strips of rows that meet the keys together, and where rows are not packed: those are low
GROUPS = 7               # of them in a block of queries, at most
DEPTHS = {128: 128}      # keys whose values are multiplied at a time, by bits of vectors: they stay in the first-level
DEPTH = 64               # cache, and a tile is summed in as many steps as make up for writing it
NEAR_ZERO = {"f32": 1e-30, "f64": 1e-200}     # what scores are multiplied by instead of 0
ZERO, ONE = const(0, "i64"), const(1, "i64")
Join = Callable[[Value, Value], Value]


class Cut(Blocking):
    """Sizes of blocks: a block of keys is a number of whole tiles, and of whole turns of a loop over vectors."""

    def __init__(self, code: str, bits: int = 0) -> None:
        bits = bits or vector_bits()
        super().__init__(code, bits)
        self.turn = TURN[bits] * self.lanes
        both = math.lcm(self.turn, self.width)
        self.keys = KEYS[bits] // both * both
        self.depth = DEPTHS.get(bits, DEPTH)
        self.group = LOW_GROUP if self.sizes.in_lines else GROUP
        self.strips = GROUPS * self.group                # in a block of queries, at most


SIZES = ("heads", "group", "length", "keys", "width", "value_width", "block", "blocks", "scale")


def strides(name: str, dims: str = "bhr") -> tuple[str, ...]:
    """Names of the parameters that are strides of an operand: by batch, head and row."""
    return tuple(f"{name}.{d}" for d in dims)


def forward_params(mask: str | None) -> tuple[str, ...]:
    names = [strides(n) for n in ("query", "key", "value", "out")]
    return (*SIZES, *(p for group in names for p in group), *(strides("mask", "bhrc") if mask else ()))


def forward_nest(code: str, causal: bool, mask: str | None, form: str = "tiles", bits: int = 0) -> Nest:
    """Operands: query, key, value, [mask], result, logarithms of the summed powers (dense).

    tiles: blocks of queries. rows: a query at a time, for few of them: keys and values are read where they lie."""
    return (_Rows if form == "rows" else _Forward)(code, causal, mask, bits).nest()


def fold(name: str, stop: Value, init: Value, value: Value, body: list[Statement], join: Join) -> Reduce:
    """`value` of every `name`.j below `stop`, joined."""
    merge = lambda a, b: [join(a[0], b[0])]  # noqa: E731 - as reductions take them
    return reduction(f"{name}.j", ZERO, stop, [name], [init], lambda a: [join(a[0], value)], merge, body)


class Attention:
    """What nests of both directions share: names, places, loops over rows of scores."""

    def __init__(self, code: str, causal: bool, mask: str | None, bits: int) -> None:
        self.cut, self.code, self.causal, self.mask = Cut(code, bits), code, causal, mask
        self.in_lines = self.cut.sizes.in_lines          # whether tiles read rows where they lie
        self.height, self.wide = number(self.cut.height), number(self.cut.width)
        self.keys = number(self.cut.keys)
        # Elements between rows of scores. They are read down the rows, which must not share the sets of a cache.
        self.pitch = self.cut.keys + self.cut.lanes
        self.row = number(self.pitch)
        self.packed_pitch = number(self.cut.pitch)       # said, so that all products are calls of the same tiles

    def named(self, *parts: str) -> str:
        """The nest's name: what it is, and for which scores."""
        return "_".join([*parts, *(["causal"] if self.causal else []), *([f"mask_{self.mask}"] if self.mask else [])])

    def at(self, name: str, head: str, row: Value | None = None) -> Value:
        """Where a row of an operand begins."""
        place = var("b") * var(f"{name}.b") + var(head) * var(f"{name}.h")
        return place if row is None else place + row * var(f"{name}.r")

    def strips(self, count: Value) -> Value:
        return idiv(count + number(self.cut.width - 1), self.wide)

    def factor(self) -> tuple[Local, ...]:
        """The scale, which travels as the bits of a double; what scores are multiplied by, a number that makes them as
        good as 0 instead of 0; and the score that hides, -inf once it is multiplied, as none with a mask is."""
        code = self.code
        scale, low = var("slope.factor", code), const(-math.inf, code)
        hides = low if self.mask else expr.select(lt(scale, const(0, code)), const(math.inf, code), low)
        return (
            Local("slope.factor", cast(bitcast(var("scale"), "f64"), code)),
            Local("factor", expr.select(eq(scale, const(0, code)), const(NEAR_ZERO[code], code), scale)),
            Local("hides", hides),
        )

    def some_columns(self, t: Value, stop: Value) -> Value:
        """Columns of strip `t` of the scores that rows before row `stop` of the block of queries want, up to whole
        vectors. Tiles of as few vectors are as fast where rows are not packed."""
        columns = self.whole(var("seen")) - t * self.wide
        if self.causal and self.in_lines:
            columns = min_(columns, self.whole(var("i0") + stop - var("j0")) - t * self.wide)
        return min_(self.wide, columns)

    def first_strip(self, t: Value, r0: Value) -> Value:
        """The first strip of rows, of those from row `r0` of the block of queries on, that sees strip `t` of keys."""
        if not self.causal:
            return ZERO
        return idiv(max_(ZERO, var("j0") + t * self.wide - var("i0") - r0), self.height)

    def weighed(self, strip: str, r0: Value, columns: str, width: str, tile: Multiply) -> tuple[Statement, ...]:
        """A strip of rows times what belongs to the keys from `k0` on: as many as it sees are `long`."""
        left = var("seen") - var("k0")
        tiles = self.columns(columns, var(width), tile)
        if self.causal:
            last = var("i0") + r0 + (var(strip) + ONE) * self.height - var("j0")
            left = min_(var("seen"), last) - var("k0")
        long = Local("long", min_(number(self.cut.depth), left))
        return (long, If(gt(var("long"), ZERO), (tiles,))) if self.causal else (long, tiles)

    def columns(self, name: str, width: Value, make: Statement) -> For:
        return For(name, ZERO, idiv(width + number(self.cut.width - 1), self.wide), (make,))

    def visible(self, row: Value) -> Local:
        """How many columns of the block a row sees."""
        return Local("limit", max_(ZERO, min_(var("seen"), row + ONE - var("j0"))) if self.causal else var("seen"))

    def whole(self, count: Value) -> Value:
        """Columns up to whole vectors: packing those beyond, which are 0, is quicker than single elements."""
        return idiv(count + number(self.cut.lanes - 1), number(self.cut.lanes)) * number(self.cut.lanes)

    def turns(self) -> Local:
        """How many turns a loop over a row's columns takes. A causal row ends where it sees nothing, but for what tiles
        of several rows read."""
        turn, stop = number(self.cut.turn), var("seen")
        if self.causal:
            stop = min_(stop, var("limit") + self.height - ONE)
        return Local("turns", idiv(stop + turn - ONE, turn))

    @property
    def padded(self) -> Value:
        """Columns of the block up to a whole turn: loops over so many leave no rest, which would be code of its own."""
        return var("turns") * number(self.cut.turn)

    def hidden(self, place: Value, *others: Value) -> For:
        """Columns that a row does not see, or that do not exist, become -inf: loops may run over whole vectors.
        `others` are what memory after the scores gets there."""
        values = (var("hides", self.code), *others)
        stores = [Store(self.scores + k, place + var("z"), value) for k, value in enumerate(values)]
        return For("z", var("limit"), self.padded, tuple(stores), vector=True)

    def score(self, place: Value, row: Value, j: Value, mask_operand: int) -> Value:
        """A score as the row's maximum sees it: scaled, with its mask."""
        score = load(self.scores, place + j, self.code) * var("factor", self.code)
        if self.mask is None:
            return score
        at = self.at("mask", "h", row) + (var("j0") + j) * var("mask.c")
        extra = load(mask_operand, at, self.mask)
        if self.mask == "b1":
            return expr.select(extra, score, const(-math.inf, self.code))
        return score + cast(extra, self.code)


class _Forward(Attention):
    form = "tiles"

    @property
    def group_rows(self) -> int:
        """Rows of queries that meet keys together."""
        return self.cut.group * self.cut.height

    def __init__(self, code: str, causal: bool, mask: str | None, bits: int) -> None:
        super().__init__(code, causal, mask, bits)
        self.out = 4 if mask else 3
        self.log = self.out + 1
        self.scores, self.tops, self.sums, self.newer, self.factors = range(self.log + 1, self.log + 6)
        self.packed_keys, self.queries, self.powers = range(self.log + 6, self.log + 9)
        # States of a group of strips lie in whole vectors: what is made of them beyond its rows, nobody looks at.
        self.state_pitch = -(-self.group_rows // self.cut.lanes) * self.cut.lanes

    def stack(self) -> list[int]:
        """Elements of the kernel's own memory."""
        cut = self.cut
        packed = [SPAN * cut.keys]
        packed += [] if self.in_lines else [cut.strips * SPAN * cut.pitch, cut.group * cut.keys * cut.pitch]
        states = GROUPS * self.state_pitch
        return [self.group_rows * self.pitch, *[states] * 2, *[self.state_pitch] * 2, *packed]

    def nest(self) -> Nest:
        cut, code = self.cut, self.code
        i, blocks, heads = var("i"), var("blocks"), var("heads")
        block = irem(i, blocks)
        seen = min_(var("keys"), var("i0") + var("high")) if self.causal else var("keys")
        body = (
            Local("h", irem(idiv(i, blocks), heads)),
            Local("b", idiv(i, blocks * heads)),
            Local("own", idiv(var("h"), var("group"))),
            # Heavy blocks first: late queries see the most keys.
            Local("i0", (blocks - ONE - block if self.causal else block) * var("block")),
            Local("high", min_(var("block"), var("length") - var("i0"))),
            Local("slices", max_(ONE, idiv(var("width") + number(SPAN - 1), number(SPAN)))),
            Local("reach", seen),
            *self.factor(),
            For("j", ZERO, idiv(var("reach") + number(cut.keys - 1), self.keys), (
                Local("j0", var("j") * self.keys),
                Local("some", min_(self.keys, var("reach") - var("j0"))),
                *self.meet(),
            )),
            *self.finish(),
        )
        codes = [code, code, code, *([self.mask] if self.mask else [])]
        name = self.named("attention", self.form)
        stack = [Operand(code, count) for count in self.stack()]
        return Nest(name, (*operands(codes, [code, code]), *stack), forward_params(self.mask), rows(*body))

    def meet(self) -> tuple[Statement, ...]:
        """The block of queries meets a block of keys."""
        height = number(self.group_rows)
        return (For("g", ZERO, idiv(var("high") + height - ONE, height), self.group()),)

    def group(self) -> tuple[Statement, ...]:
        """Some strips of query rows meet the block of keys."""
        cut = self.cut
        visible = min_(var("some"), var("i0") + var("r0") + var("tall") - var("j0")) if self.causal else var("some")
        pack = Pack(self.scores, ZERO, self.row, ONE, self.powers, ZERO, number(cut.keys * cut.pitch),
                    var("tall"), self.whole(var("seen")), var("row_strips"), cut.height)
        weigh = For("u", ZERO, idiv(var("seen") + number(cut.depth - 1), number(cut.depth)), (
            Local("k0", var("u") * number(cut.depth)),
            For("v", ZERO, var("row_strips"), self.weighed("v", var("r0"), "c", "value_width", self.weigh())),
        ))
        work = (For("slice", ZERO, var("slices"), self.scores_of_slice()), *self.softmax())
        work = (*work, weigh) if self.in_lines else (*work, pack, weigh)
        return (
            Local("r0", var("g") * number(self.group_rows)),
            Local("tall", min_(number(self.group_rows), var("high") - var("r0"))),
            Local("row_strips", idiv(var("tall") + number(cut.height - 1), self.height)),
            Local("seen", visible),
            Local("state", var("g") * number(self.state_pitch)),
            *((If(gt(var("seen"), ZERO), work),) if self.causal else self.where_shown(work)),
        )

    def where_shown(self, work: tuple[Statement, ...]) -> tuple[Statement, ...]:
        """`work`, unless the mask hides all of the block's keys from all rows of the group. The first block of keys
        begins the sums, and the first group packs the keys: these always do it, and so do those that see their
        corner, without a look at the rest."""
        if self.mask is None:
            return work
        code, low = self.code, const(-math.inf, self.code)

        def shown(row: Value, column: Value) -> Value:
            extra = load(3, self.at("mask", "h", row) + (var("j0") + column) * var("mask.c"), self.mask)
            return expr.select(extra, const(0, code), low) if self.mask == "b1" else cast(extra, code)

        first = var("i0") + var("r0")
        begins = or_(eq(var("j"), ZERO), eq(var("g"), ZERO))
        of_row = fold("shows", var("some"), low, shown(first + var("w"), var("shows.j")), [], max_)
        return (
            Local("corner", shown(first, ZERO)),
            Local("asked", expr.select(or_(begins, ne(var("corner", code), low)), ZERO, var("tall"))),
            For("w", ZERO, var("asked"), (of_row, Store(self.newer, var("w"), var("shows", code)))),
            fold("shown", var("asked"), low, load(self.newer, var("shown.j"), code), [], max_),
            If(or_(eq(var("asked"), ZERO), ne(var("shown", code), low)), work),
        )

    def scores_of_slice(self) -> tuple[Statement, ...]:
        start, many = var("slice") * number(SPAN), gt(var("slices"), ONE)
        apart = number(SPAN * self.cut.pitch)
        packed = var("g") * number(self.cut.group) * apart
        tall = min_(self.height, var("tall") - var("s") * self.height)
        rows = self.at("query", "h", var("i0") + var("r0")) + start
        left = (self.queries, packed + var("s") * apart, None)
        pack = If(or_(eq(var("j"), ZERO), many), (
            Pack(0, rows, var("query.r"), ONE,
                 self.queries, packed, apart, var("tall"), var("deep"), var("row_strips"), self.cut.height),
        ))
        if self.in_lines:
            left = (0, rows + var("s") * self.height * var("query.r"), var("query.r"))
        tile = self.score_tile(left, tall)
        return (
            Local("deep", min_(number(SPAN), var("width") - start)),
            *(() if self.in_lines else (pack,)),
            If(or_(self.is_first(), many), (
                Pack(1, self.at("key", "own", var("j0")) + start, var("key.r"), ONE, self.packed_keys, ZERO,
                     var("deep") * self.wide, var("some"), var("deep"), self.strips(var("some")), self.cut.width),
            )),
            For("t", ZERO, self.strips(var("seen")), (
                For("s", self.first_strip(var("t"), var("r0")), var("row_strips"), (tile,)),
            )),
        )

    def score_tile(self, left: tuple[int, Value, Value | None], high: Value) -> Multiply:
        """Rows `left` (an operand, where they begin, elements between them unless they are packed) times strip t of the
        keys. Its last columns are whole vectors: there is room for them, and nobody looks at them."""
        (a, a_at, line), s, t = left, var("s"), var("t")
        columns = self.some_columns(t, var("r0") + (s + ONE) * self.height)
        return Multiply(
            a, a_at, self.packed_keys, t * var("deep") * self.wide, self.wide,
            self.scores, s * self.height * self.row + t * self.wide, self.row,
            high, columns, var("deep"), ne(var("slice"), ZERO), self.cut.height, self.cut.vectors,
            self.packed_pitch if line is None else None, line=line,
        )

    def is_first(self) -> Value:
        """Whether no earlier group met these keys: a causal one that lies above them does not."""
        if not self.causal:
            return eq(var("g"), ZERO)
        return or_(eq(var("g"), ZERO), expr.le(var("i0") + var("r0"), var("j0")))

    def softmax(self) -> tuple[Statement, ...]:
        """Rows of scores to powers, with what they mean for the rows' maxima and sums."""
        return self.new_tops(), self.new_states(), self.powers_of_rows()

    def new_tops(self) -> For:
        """The maximum of every row of the block's scores."""
        code, low = self.code, const(-math.inf, self.code)
        row, place = var("i0") + var("r0") + var("m"), var("m") * self.row
        value = self.score(place, row, var("top.j"), 3)
        # A mask has no more columns than there are keys: where there is one, those are seen first.
        hide = self.hidden(place)
        if self.mask is None:
            top = [hide, fold("top", self.padded, low, value, [], self.larger)]
        else:
            kept = [Local("x", value), Store(self.scores, place + var("top.j"), var("x", code))]
            top = [fold("top", var("limit"), low, var("x", code), kept, self.larger), hide]
        kept = Store(self.newer, var("m"), var("top", code))
        return For("m", ZERO, var("tall"), (self.visible(row), self.turns(), *top, kept))

    def larger(self, a: Value, b: Value) -> Value:
        """The larger of two scores. What of NaN does not count, since a row that has one is NaN: AArch64 has an
        instruction that gives it, x86 one that gives what comes second."""
        return expr.call("maximum", a, b) if self.cut.is_narrow else max_(a, b)

    def new_states(self) -> If:
        """What the maxima mean for sums of earlier blocks: these shrink. Rows that saw nothing yet count from 0."""
        code, low, zero = self.code, const(-math.inf, self.code), const(0, self.code)
        w, n = var("vector") + var("w"), var("vector") + var("n")
        state = var("state") + w
        newest, safe, shrink, start = (var(name, code) for name in ("newest", "safe", "shrink", "start"))
        rose = (
            Local("newest", max_(load(self.tops, state, code), load(self.newer, w, code))),
            Local("safe", expr.select(eq(newest, low), zero, newest)),
            Local("shrink", expr.call("weight_of_score", load(self.tops, state, code) - safe)),
            Store(self.newer, w, safe),
            Store(self.factors, w, shrink),
            Store(self.tops, state, newest),
            Store(self.sums, state, load(self.sums, state, code) * shrink),
        )
        begun = (
            Local("start", load(self.newer, n, code)),
            Store(self.tops, var("state") + n, start),
            Store(self.sums, var("state") + n, zero),
            Store(self.newer, n, expr.select(eq(start, low), zero, start)),
        )
        return If(gt(var("j"), ZERO), (self.by_vectors("w", rose),), (self.by_vectors("n", begun),))

    def by_vectors(self, name: str, body: tuple[Statement, ...]) -> For:
        """What is done for each row of a group, from `vector` on: a vector of them at a time, for more at once would be
        more code that seldom runs."""
        lanes = number(self.cut.lanes)
        return For(f"{name}.v", ZERO, idiv(var("tall") + lanes - ONE, lanes), (
            Local("vector", var(f"{name}.v") * lanes),
            For(name, ZERO, lanes, body, vector=True),
        ))

    def summed_powers(self) -> tuple[Statement, ...]:
        """A row's scores to powers, and their sum: in one loop, or in two where the sums would take the registers of
        an exponential of as many vectors as keep the processor busy."""
        code, base = self.code, var("base", self.code)
        at = var("r") * self.row + var("sum.j")
        score = load(self.scores, at, code)
        score = score - base if self.mask else expr.fma(score, var("factor", code), -base)
        power, zero = expr.call("weight_of_score", score), const(0, code)
        if self.cut.is_narrow:
            made = For("sum.j", ZERO, self.padded, (Store(self.scores, at, power),), vector=True)
            return made, fold("sum", self.padded, zero, load(self.scores, at, code), [], expr.add)
        kept = [Local("e", power), Store(self.scores, at, var("e", code))]
        return (fold("sum", self.padded, zero, var("e", code), kept, expr.add),)

    def powers_of_rows(self) -> For:
        """Scores to powers, which are summed; the result so far shrinks as the sums did."""
        code, r = self.code, var("r")
        out = self.at("out", "h", var("i0") + var("r0") + r) + var("o")
        smaller = Store(self.out, out, load(self.out, out, code) * load(self.factors, r, code))
        shrinks = expr.and_(gt(var("j"), ZERO), ne(load(self.factors, r, code), const(1, code)))
        return For("r", ZERO, var("tall"), (
            Local("base", load(self.newer, r, code)),
            self.visible(var("i0") + var("r0") + r),
            self.turns(),
            *self.summed_powers(),
            Store(self.sums, var("state") + r, load(self.sums, var("state") + r, code) + var("sum", code)),
            If(shrinks, (For("o", ZERO, var("value_width"), (smaller,), vector=True),)),
        ))

    def weigh(self) -> Multiply:
        """Powers times values, added to the result."""
        first, r = var("c") * self.wide, var("v") * self.height
        left = (self.powers, (var("v") * self.keys + var("k0")) * number(self.cut.pitch))
        if self.in_lines:
            left = (self.scores, r * self.row + var("k0"))
        return Multiply(
            *left,
            2, self.at("value", "own", var("j0") + var("k0")) + first, var("value.r"),
            self.out, self.at("out", "h", var("i0") + var("r0") + r) + first, var("out.r"),
            min_(self.height, var("tall") - r), min_(self.wide, var("value_width") - first),
            var("long"), gt(var("j0") + var("k0"), ZERO), self.cut.height, self.cut.vectors,
            None if self.in_lines else self.packed_pitch, line=self.row if self.in_lines else None,
        )

    def finish(self) -> tuple[Statement, ...]:
        """Rows divided by their sums; one that saw nothing stays 0."""
        code, f, d, height = self.code, var("vector") + var("f"), var("d"), number(self.group_rows)
        state, row = var("state") + f, var("i0") + var("r0") + d
        total = load(self.sums, state, code)
        nothing = eq(total, const(0, code))
        log = expr.select(nothing, const(0, code), load(self.tops, state, code) + expr.call("log", total))
        out = self.at("out", "h", row) + var("e.o")
        scaled = Store(self.out, out, load(self.out, out, code) * load(self.factors, d, code))
        place = (var("b") * var("heads") + var("h")) * var("length") + row
        return (For("g", ZERO, idiv(var("high") + height - ONE, height), (
            Local("r0", var("g") * height),
            Local("tall", min_(height, var("high") - var("r0"))),
            Local("state", var("g") * number(self.state_pitch)),
            self.by_vectors("f", (
                Store(self.newer, f, log),
                Store(self.factors, f, expr.select(nothing, const(0, code), const(1, code) / total)),
            )),
            For("d", ZERO, var("tall"), (
                Store(self.log, place, load(self.newer, d, code)),
                For("e.o", ZERO, var("value_width"), (scaled,), vector=True),
            )),
        )),)


class _Rows(_Forward):
    """Blocks of queries are single rows, as parameters say: nothing is packed, all is read at the speed of memory."""

    form = "rows"

    def stack(self) -> list[int]:
        return [self.cut.keys, *[self.state_pitch] * 4]

    def meet(self) -> tuple[Statement, ...]:
        code, k = self.code, var("k")
        query, key = self.at("query", "h", var("i0")), self.at("key", "own", var("j0") + k)
        product = load(0, query + var("dot.j"), code) * load(1, key + var("dot.j"), code)
        dot = fold("dot", var("width"), const(0, code), product, [], expr.add)
        out = self.at("out", "h", var("i0")) + var("c")
        value_at = self.at("value", "own", var("j0") + var("weigh.j")) + var("c")
        value = load(self.scores, var("weigh.j"), code) * load(2, value_at, code)
        total = fold("weigh", var("seen"), const(0, code), value, [], expr.add)
        earlier = expr.select(gt(var("j"), ZERO), load(self.out, out, code), const(0, code))
        return (
            Local("r0", ZERO),
            Local("tall", ONE),
            Local("seen", var("some")),
            Local("state", ZERO),
            For("k", ZERO, var("seen"), (dot, Store(self.scores, k, var("dot", code)))),
            *self.softmax(),
            For("c", ZERO, var("value_width"), (
                total, Store(self.out, out, earlier + var("weigh", code)),
            ), vector=True),
        )


DENSE_PARAMS = ("heads", "rows", "width", *strides("source"), "made.r")


def dense_nest(code: str) -> Nest:
    """Rows of each head side by side, as far apart as told: parallel over batch and heads."""
    r, c = var("r"), var("c")
    b, h = idiv(var("i"), var("heads")), irem(var("i"), var("heads"))
    source = b * var("source.b") + h * var("source.h") + r * var("source.r") + c
    copy = Store(1, (var("i") * var("rows") + r) * var("made.r") + c, load(0, source, code))
    body = For("r", ZERO, var("rows"), (For("c", ZERO, var("width"), (copy,), vector=True),))
    return Nest("attention_rows", operands([code], [code]), DENSE_PARAMS, rows(body))


TURNED_PARAMS = ("heads", "rows", "keys", "blocks_q", "blocks_k", *strides("mask", "bhrc"))


def turned_mask_nest(code: str, block: int) -> Nest:
    """A mask as kernels on tiles add it: blocks of so many keys and queries, a row for every key, in float and units of
    the logarithm of base 2; edges repeat their last elements. Parallel over blocks of queries of all heads."""
    q, k, size = var("q"), var("k"), number(block)
    strip, head = irem(var("i"), var("blocks_q")), idiv(var("i"), var("blocks_q"))
    row = min_(strip * size + q, var("rows") - ONE)
    column = min_(var("j") * size + k, var("keys") - ONE)
    place = idiv(head, var("heads")) * var("mask.b") + irem(head, var("heads")) * var("mask.h")
    value = load(0, place + row * var("mask.r") + column * var("mask.c"), code)
    zero, low = const(0, "f32"), const(-math.inf, "f32")
    added = expr.select(value, zero, low) if code == "b1" else cast(value, "f32") * const(1 / math.log(2), "f32")
    target = ((var("i") * var("blocks_k") + var("j")) * size + k) * size + q
    body = For("k", ZERO, size, (For("q", ZERO, size, (Store(1, target, added),)),))
    return Nest(
        "attention_mask", operands([code], ["f32"]), TURNED_PARAMS, rows(For("j", ZERO, var("blocks_k"), (body,)))
    )
