"""Register tiles: products of a few rows with a few vectors of columns,
summed in registers over the depth of both operands.

Enters: a tile. Leaves: texts of internal functions for the kernels of this folder.

`multiply` reads the left operand packed, row elements of one depth side by side: the form whose lanes a multiply-add of
AArch64 takes as operands. `multiply_N`, for N vectors of columns, reads it as rows: element (r, k) at r * a_row + (k //
inner) * a_jump + k % inner, broadcast from memory. So weights need no packing where their taps are neighbours, and the
gradients of outputs need none where pixels are.
"""

from __future__ import annotations

from ...text.writer import Loop, Reg, Writer
from ..interface import Tile

ZERO, BIAS, ADD = 0, 1, 2     # what a tile starts from: nothing, the bias, what is there
STEPS = 4                     # products of a column that a turn of the loop adds
LINE = 64                     # bytes of a line of the cache
QUAD = 4                      # rows that share a pointer: one, two and three strides behind it are registers

NEAR = [("ptr", "a"), ("ptr", "b"), ("i64", "depth"), ("ptr", "c"), ("i64", "row"), ("ptr", "bias"), ("i64", "start")]
FAR = [
    ("ptr", "a"), ("i64", "a_row"), ("i64", "inner"), ("i64", "a_jump"),
    ("ptr", "b"), ("i64", "depth"), ("ptr", "c"), ("i64", "row"), ("ptr", "bias"), ("i64", "start"),
    ("ptr", "ahead"),
]


def multiply_text(tile: Tile, stride: int) -> str:
    """multiply(weights, windows, depth, result, row stride, bias, start): one register tile;
    rows of b are `stride` elements apart."""
    w = Writer("multiply", NEAR, "internal ")
    zero = Reg("zeroinitializer", tile.vector)
    with w.loop(0, w["depth"], carry=[w["a"], w["b"], *[zero] * (tile.rows * tile.vectors)]) as k:
        a, b, *sums = k.carry
        columns = [w.load(tile.vector, w.at(b, v * tile.lanes, tile.element), tile.size) for v in range(tile.vectors)]
        results = []
        for factor, r in zip(weight_factors(w, tile, a), range(tile.rows), strict=True):
            results += [w.fma(columns[v], factor, sums[r * tile.vectors + v]) for v in range(tile.vectors)]
        k.next = [w.at(a, tile.rows, tile.element), w.at(b, stride, tile.element), *results]
    store_tile(w, tile, k.carry[2:], tile.vectors, w["c"])
    return w.text()


def multiply_near_text(tile: Tile) -> str:
    """multiply_near(weights, pixels, depth, result, row stride, bias, start, step, ahead, count, asking, asked): the
    same for `count` columns, tile after tile, where rows of b are in memory, `step` elements apart, and nothing is
    added to what is there. Sums begin with products, for they are short; columns [asking, asked) ask for what is
    `ahead` of them."""
    more = ("step", "ahead", "count", "asking", "asked")
    w = Writer("multiply_near", [*NEAR, *[("i64", name) for name in more]], "internal ")
    step = w.mul(w["step"], tile.size)

    def columns_of(b: Reg, ahead: Reg) -> list[Reg]:
        w.prefetch(w.at(b, ahead, tile.element), 1)
        return [w.load(tile.vector, w.at(b, v * tile.lanes, tile.element), tile.size) for v in range(tile.vectors)]

    with w.loop(0, w["count"], tile.columns) as j:
        first = w.at(w["b"], j.i, tile.element)
        asks = w.both(w.compare("sge", j.i, w["asking"]), w.compare("slt", j.i, w["asked"]))
        ahead = w.select(asks, w["ahead"], 0)
        columns = columns_of(first, ahead)
        sums = [w.fmul(column, factor) for factor in weight_factors(w, tile, w["a"]) for column in columns]
        places = [w.at(w["a"], tile.rows, tile.element), w.at(first, step, "i8")]
        with w.loop(1, w["depth"], carry=[*places, *sums]) as k:
            a, b, *sums = k.carry
            columns = columns_of(b, ahead)
            results = []
            for factor, r in zip(weight_factors(w, tile, a), range(tile.rows), strict=True):
                results += [w.fma(columns[v], factor, sums[r * tile.vectors + v]) for v in range(tile.vectors)]
            k.next = [w.at(a, tile.rows, tile.element), w.at(b, step, "i8"), *results]
        store_tile(w, tile, k.carry[2:], tile.vectors, w.at(w["c"], j.i, tile.element), adds=False)
    return w.text()


def weight_factors(w: Writer, tile: Tile, a: Reg):
    """The tile's weights of one window row, each as a vector of copies;
    loaded one vector at a time where lanes can be operands."""
    if not tile.by_lane:
        for r in range(tile.rows):
            yield w.splat(w.load(tile.element, w.at(a, r, tile.element), tile.size), tile.lanes)
        return
    for r in range(0, tile.rows, tile.lanes):
        first = min(r, tile.rows - tile.lanes)   # the last vector may overlap the one before
        several = w.load(tile.vector, w.at(a, first, tile.element), tile.size)
        for lane in range(r - first, tile.lanes):
            yield w.lane(several, lane, tile.lanes)


def multiply_far_text(tile: Tile, stride: int, vectors: int) -> str:
    """multiply_N(a, a_row, inner, a_jump, b, depth, result, row stride, bias, start, ahead): see the file's head.

    `ahead` is where the left operand will be read next: it comes nearer meanwhile, some rows of it per turn of the
    loop, all of them while a line of the cache is multiplied.
    """
    w = Writer(f"multiply_{vectors}", FAR, "internal ")
    zero = Reg("zeroinitializer", tile.vector)
    offsets = [w["a_row"], w.mul(w["a_row"], 2), w.mul(w["a_row"], 3)]
    bases = [*(w.at(w["a"], w.mul(w["a_row"], r), tile.element) for r in range(0, tile.rows, QUAD)), w["ahead"]]
    turns = STEPS if vectors == tile.vectors else STEPS // 2
    spread = max(1, LINE // tile.size // turns)         # turns that share the rows of a line
    several = -(-tile.rows // spread)

    def steps(count: int, k: Loop) -> None:
        """Some products after another: the more, the fewer instructions are not products."""
        heads, b, result = k.carry[: len(bases)], k.carry[len(bases)], k.carry[len(bases) + 1 :]
        if count > 1:
            turn = w.binary("urem", w.new("i64", f"lshr {k.i}, {turns.bit_length() - 1}"), -(-tile.rows // several))
            near = w.at(heads[-1], w.mul(w.mul(turn, several), w["a_row"]), tile.element)
            for _ in range(several):
                w.prefetch(near)
                near = w.at(near, w["a_row"], tile.element)
        for n in range(count):
            columns = [
                w.load(tile.vector, w.at(b, n * stride + v * tile.lanes, tile.element), tile.size)
                for v in range(vectors)
            ]
            for r in range(tile.rows):
                head = w.at(heads[r // QUAD], offsets[r % QUAD - 1], tile.element) if r % QUAD else heads[r // QUAD]
                factor = w.splat(w.load(tile.element, w.at(head, n, tile.element), tile.size), tile.lanes)
                for v in range(vectors):
                    result[r * vectors + v] = w.fma(columns[v], factor, result[r * vectors + v])
        k.next = [*(w.at(head, count, tile.element) for head in heads), w.at(b, count * stride, tile.element), *result]

    whole = w.mul(w.div(w["inner"], turns), turns)
    back = w.sub(w["a_jump"], w["inner"])
    with w.loop(0, w["depth"], w["inner"], carry=[*bases, w["b"], *[zero] * (tile.rows * vectors)]) as outer:
        with w.loop(0, whole, turns, carry=outer.carry) as k:
            steps(turns, k)
        with w.loop(whole, w["inner"], carry=k.carry) as k:
            steps(1, k)
        outer.next = [*(w.at(head, back, tile.element) for head in k.carry[: len(bases)]), *k.carry[len(bases) :]]
    store_tile(w, tile, outer.carry[len(bases) + 1 :], vectors, w["c"])
    return w.text()


def store_tile(w: Writer, tile: Tile, sums: list[Reg], vectors: int, to: Reg, adds: bool = True) -> None:
    """Put the sums at `to` where `start` says: over what is there, on the bias, or, if it `adds`, added to what is
    there."""
    places = []
    for r in range(tile.rows):
        row = w.at(to, w.mul(w["row"], r), tile.element)
        places += [w.at(row, v * tile.lanes, tile.element) for v in range(vectors)]
    with w.when(w.compare("eq", w["start"], ZERO)):
        for value, place in zip(sums, places, strict=True):
            w.store(value, place, tile.size)
    with w.when(w.compare("eq", w["start"], BIAS)):
        for r in range(tile.rows):
            bias = w.splat(w.load(tile.element, w.at(w["bias"], r, tile.element), tile.size), tile.lanes)
            for n in range(r * vectors, (r + 1) * vectors):
                w.store(w.fadd(sums[n], bias), places[n], tile.size)
    if not adds:
        return
    with w.when(w.compare("eq", w["start"], ADD)):
        for value, place in zip(sums, places, strict=True):
            w.store(w.fadd(value, w.load(tile.vector, place, tile.size)), place, tile.size)


def call_multiply(w: Writer, tile: Tile, vectors: Reg, *args: Reg | int) -> None:
    """Call multiply_N for as many vectors as there are."""
    for n in range(1, tile.vectors + 1):
        with w.when(w.compare("eq", vectors, n)):
            w.call(f"multiply_{n}", *args)


def multiply_texts(tile: Tile, stride: int) -> list[str]:
    """multiply_1 to multiply_N of a tile."""
    return [multiply_far_text(tile, stride, n) for n in range(1, tile.vectors + 1)]


# --- dots -------------------------------------------------------------------------------------------------------------


def transposed(w: Writer, tile: Tile, rows: list[Reg]) -> list[Reg]:
    """As many vectors as they have lanes, transposed: pairs within 16 bytes, then pieces of 16 bytes."""
    lanes, piece = tile.lanes, 16 // tile.size

    def zipped(a: Reg, b: Reg, unit: int, half: int) -> Reg:
        """Units of a and b by turns, from the lower or upper half of every piece."""
        order = []
        for start in range(0, lanes, piece):
            for u in range(start + half * piece // 2, start + (half + 1) * piece // 2, unit):
                order += [*range(u, u + unit), *range(lanes + u, lanes + u + unit)]
        return w.shuffle(a, b, order)

    result = list(rows)
    if piece == 4:
        for g in range(0, lanes, 4):
            a, b, c, d = result[g : g + 4]
            low, low_, high, high_ = zipped(a, b, 1, 0), zipped(c, d, 1, 0), zipped(a, b, 1, 1), zipped(c, d, 1, 1)
            result[g : g + 4] = [
                zipped(low, low_, 2, 0),
                zipped(low, low_, 2, 1),
                zipped(high, high_, 2, 0),
                zipped(high, high_, 2, 1),
            ]
    else:
        for g in range(0, lanes, 2):
            a, b = result[g : g + 2]
            result[g : g + 2] = [zipped(a, b, 1, 0), zipped(a, b, 1, 1)]
    for j in range(piece):   # vector g * piece + j holds column b * piece + j of row group g as its piece b
        column = block_transposed(w, tile, [result[g * piece + j] for g in range(lanes // piece)])
        for g, value in enumerate(column):
            result[g * piece + j] = value
    return result


def block_transposed(w: Writer, tile: Tile, rows: list[Reg]) -> list[Reg]:
    """One, two or four vectors of as many pieces of 16 bytes, transposed."""
    piece, count = 16 // tile.size, len(rows)

    def pick(a: Reg, b: Reg, pieces: list[int]) -> Reg:
        return w.shuffle(a, b, [p * piece + e for p in pieces for e in range(piece)])

    if count == 1:
        return rows
    if count == 2:
        return [pick(*rows, [0, 2]), pick(*rows, [1, 3])]
    even, odd = [0, 2, 4, 6], [1, 3, 5, 7]
    a, b, c, d = rows
    left_even, left_odd, right_even, right_odd = pick(a, b, even), pick(a, b, odd), pick(c, d, even), pick(c, d, odd)
    return [
        pick(left_even, right_even, even),
        pick(left_odd, right_odd, even),
        pick(left_even, right_even, odd),
        pick(left_odd, right_odd, odd),
    ]
