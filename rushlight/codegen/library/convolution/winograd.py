"""Convolution kernels for 3x3 windows in tiles of 2x4 results, with a third of the multiplications, or of 4x4 results,
with a quarter.

Enters: nothing but the processor. Leaves: four `Kernel`s for each size of tiles, for float32: weights to the
frequency-like domain of the tiles, inputs likewise, products there, and results back. Refuses nothing:
the planner (planners/convolutions/tiles.py) calls them where they pay.

A tile of results is a correlation of a 4x6 window with the kernel, done by evaluating both at the points 0, +-1 and
infinity down and 0, +-a, +-b and infinity across, multiplying, and interpolating (Winograd's minimal filtering).
Interpolation enlarges the rounding errors of the products: with four points hardly, with six by some bits. So tiles are
long in one direction only, a = 1/sqrt(2) and b = sqrt(2) (half the error of 1 and 2), and the products are summed in
short blocks, whose sums are summed again. The error stays within twice that of plain summation in blocks of 16 channels
(docs/accuracy.md). Tiles of 4x4 results have six points in both directions, and nearly twice the error: they are for
programs that ask for it. An element that is not finite makes all results of its tiles NaN.

Memory between the kernels: weights [point, panel of outputs, channel, output of the panel], inputs [point, panel of
tiles, channel, tile of the panel], products [point, panel of tiles, output, tile of the panel]:
what a register tile reads lies together.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from ...text.writer import ABI, Reg, Writer, declarations, mask_declarations
from ..interface import Interface, Tile, declare, load_params, load_pointers
from .convolve import with_finish
from .finish import Finish
from .micro_kernel import ADD, QUAD, ZERO, multiply_text
from .packing import GEOMETRY, RUN, copy_row, fill_zeros, find_runs

HIGH, WIDE = 2, 4        # results of a tile
ROWS, COLUMNS = HIGH + 2, WIDE + 2   # its window, and the points in each direction
POINTS = ROWS * COLUMNS
BLOCK = 96               # tiles handled together
SLICE = 8                # channels or outputs an item handles
NEAR, FAR = 16, 128      # channels summed one after the other; channels whose blocks are
AREA = 3                 # numbers of an area: offset, rows, columns
GATHER = 16              # channels of a panel of weights handled together
A, B = 0.5**0.5, 2**0.5  # a^2 = 1/2, b^2 = 2
TILES = (
    *GEOMETRY,
    "first",
    "tiles",
    "blocks",
    "panels",
    "channels",
    "height",
    "width",
    "row",
    "column",
    "bias",
    "in_w",
    "base_w",
    "in_column",
)
PRODUCT = ("outs", "channels", "out_panels", "panels", "blocks")
OUTPUT_OPERANDS = ("products", "bias_data", "result")
WEIGHTS = ("outs", "channels", "panels", "out", "channel", "row", "column", "start")


# --- one dimension ----------------------------------------------------------------------------------------------------

Rule = Callable[[Writer, Sequence[Reg]], list[Reg]]


def input_down(w: Writer, x: Sequence[Reg]) -> list[Reg]:
    """Four elements to their four points."""
    return [w.fsub(x[0], x[2]), w.fadd(x[1], x[2]), w.fsub(x[2], x[1]), w.fsub(x[3], x[1])]


def weight_down(w: Writer, x: Sequence[Reg]) -> list[Reg]:
    """Three weights to their four points, divided as interpolation wants."""
    half = w.constant(x[0].type, 0.5)
    even = w.fadd(x[0], x[2])
    return [x[0], w.fmul(half, w.fadd(even, x[1])), w.fmul(half, w.fsub(even, x[1])), x[2]]


def result_down(w: Writer, t: Sequence[Reg]) -> list[Reg]:
    """Products at four points to two results."""
    return [w.fadd(t[0], w.fadd(t[1], t[2])), w.fadd(w.fsub(t[1], t[2]), t[3])]


def input_across(w: Writer, x: Sequence[Reg]) -> list[Reg]:
    """Six elements to their six points."""
    k = functools.partial(w.constant, x[0].type)
    even_a, odd_a = w.fma(k(-2.0), x[2], x[4]), w.fma(k(-2.0), x[1], x[3])
    even_b, odd_b = w.fma(k(-0.5), x[2], x[4]), w.fma(k(-0.5), x[1], x[3])
    return [
        w.fma(k(-2.5), x[2], w.fadd(x[4], x[0])),
        w.fma(k(A), odd_a, even_a), w.fma(k(-A), odd_a, even_a), w.fma(k(B), odd_b, even_b),
        w.fma(k(-B), odd_b, even_b), w.fma(k(-2.5), x[3], w.fadd(x[5], x[1])),
    ]


def weight_across(w: Writer, x: Sequence[Reg]) -> list[Reg]:
    """Three weights to their six points, divided as interpolation wants."""
    k = functools.partial(w.constant, x[0].type)
    result = [x[0]]
    for point, divisor in ((A, 2 * A * A * (A * A - B * B)), (B, 2 * B * B * (B * B - A * A))):
        even, odd = w.fmul(k(1 / divisor), w.fma(k(point * point), x[2], x[0])), w.fmul(k(point / divisor), x[1])
        result += [w.fadd(even, odd), w.fsub(even, odd)]
    return [*result, x[2]]


def result_across(w: Writer, t: Sequence[Reg]) -> list[Reg]:
    """Products at six points to four results."""
    k = functools.partial(w.constant, t[0].type)
    p, q, r, s = w.fadd(t[1], t[2]), w.fsub(t[1], t[2]), w.fadd(t[3], t[4]), w.fsub(t[3], t[4])
    return [
        w.fadd(t[0], w.fadd(p, r)),
        w.fma(k(A), q, w.fmul(k(B), s)),
        w.fma(k(A * A), p, w.fmul(k(B * B), r)),
        w.fma(k(A**3), q, w.fma(k(B**3), s, t[5])),
    ]


class Form(NamedTuple):
    """Tiles of so many rows of results, and the rules for columns that go with them."""

    high: int
    suffix: str                 # of its kernels' names
    input_down: Rule
    weight_down: Rule
    result_down: Rule

    @property
    def rows(self) -> int:
        """Rows of a tile's window."""
        return self.high + 2

    @property
    def points(self) -> int:
        return self.rows * COLUMNS


SMALL = Form(HIGH, "", input_down, weight_down, result_down)
LARGE = Form(4, "_large", input_across, weight_across, result_across)


def in_both(
    w: Writer, down: Rule, across: Rule, size: tuple[int, int], element: Callable[[int, int], Reg]
) -> Iterator[list[Reg]]:
    """A rule applied to the columns of a rectangle and then one to its rows; yields rows.

    Elements are asked for, and rows made, as late as can be: the order of the text is the order of the code,
    and registers are few.
    """
    columns = [down(w, [element(i, j) for i in range(size[0])]) for j in range(size[1])]
    for i in range(len(columns[0])):
        yield across(w, [column[i] for column in columns])


def vectors(w: Writer, tile: Tile, source: Reg, columns: int, apart: int | Reg) -> Callable[[int, int], Reg]:
    """The element (i, j) of a rectangle whose vectors lie `apart` elements from each other, row by row."""

    def element(i: int, j: int) -> Reg:
        number = i * columns + j
        place = number * apart if isinstance(apart, int) else w.mul(apart, number)
        return w.load(tile.vector, w.at(source, place, tile.element), tile.size)

    return element


# --- kernels ----------------------------------------------------------------------------------------------------------


def kernels(w: Writer, tile: Tile, panel: Reg, channel: Reg) -> list[list[Reg]]:
    """The weights of a panel's outputs for a channel, a vector for each of 3x3; zeros past the last output."""
    vector = f"<{tile.rows} x {tile.element}>"
    square = [[Reg("zeroinitializer", vector) for _ in range(3)] for _ in range(3)]
    for r in range(tile.rows):
        out = w.add(w.mul(panel, tile.rows), r)
        exists = w.compare("slt", out, w["outs"])
        own = w.total(w.mul(w.select(exists, out, 0), w["out"]), w.mul(channel, w["channel"]), w["start"])
        for i in range(3):
            for j in range(3):
                place = w.total(own, w.mul(w["row"], i), w.mul(w["column"], j))
                value = w.load(tile.element, w.at(w["weight"], place, tile.element), tile.size)
                value = w.select(exists, value, Reg("0.0", tile.element))
                square[i][j] = w.new(vector, f"insertelement {square[i][j]}, {value}, i64 {r}")
    return square


def near_kernels(w: Writer, tile: Tile, panel: Reg, channel: Reg, turned: Reg) -> list[list[Reg]]:
    """The same where all outputs are there and the nine lie side by side, `turned` the other way round: transposed four
    by four."""
    piece = f"<{QUAD} x {tile.element}>"
    taps: list[list[Reg]] = [[] for _ in range(9)]
    for first in range(0, tile.rows, QUAD):
        owns = [
            w.add(w.mul(w.add(w.mul(panel, tile.rows), first + r), w["out"]), w.mul(channel, w["channel"]))
            for r in range(QUAD)
        ]
        places = [w.at(w["weight"], own, tile.element) for own in owns]
        for k in (0, QUAD):
            a, b, c, d = (w.load(piece, w.at(place, k, tile.element), tile.size) for place in places)
            low, low_, high, high_ = (
                w.shuffle(x, y, order) for order in ((0, 4, 1, 5), (2, 6, 3, 7)) for x, y in ((a, b), (c, d))
            )
            for n, (x, y) in enumerate(((low, low_), (high, high_))):
                taps[k + 2 * n].append(w.shuffle(x, y, (0, 1, 4, 5)))
                taps[k + 2 * n + 1].append(w.shuffle(x, y, (2, 3, 6, 7)))
        last = Reg("poison", piece)
        for r, place in enumerate(places):
            value = w.load(tile.element, w.at(place, 8, tile.element), tile.size)
            last = w.new(piece, f"insertelement {last}, {value}, i64 {r}")
        taps[8].append(last)
    joined = [joined_pieces(w, pieces) for pieces in taps]
    order = [w.new(joined[0].type, f"select {turned}, {joined[8 - k]}, {joined[k]}") for k in range(9)]
    return [order[3 * i : 3 * i + 3] for i in range(3)]


def joined_pieces(w: Writer, pieces: list[Reg]) -> Reg:
    """Vectors of four, one behind the other."""
    result = pieces[0]
    for k, piece in enumerate(pieces[1:], 1):
        wide = (k + 1) * QUAD
        longer = w.shuffle(piece, piece, [n % QUAD for n in range(k * QUAD)]) if k > 1 else piece
        result = w.shuffle(result, longer, range(wide))
    return result


def weights_text(form: Form, tile: Tile) -> str:
    """A panel's outputs are the lanes of one vector.

    Points lie far apart in memory, perhaps all in the same set of a cache. So some channels are collected first,
    and go there in rows.
    """
    w = Writer(f"conv_winograd_weights{form.suffix}", ABI)
    line = GATHER * tile.rows
    collected = w.scratch(tile.element, form.points * line + tile.lanes)
    load_params(w, WEIGHTS)
    load_pointers(w, "weight", "result")
    turned = w.compare("eq", w["column"], -1)
    neighbours = w.new("i1", f"or {w.compare('eq', w['column'], 1)}, {turned.text}")
    neighbours = w.both(neighbours, w.compare("eq", w["row"], w.mul(w["column"], 3)))
    with w.loop(w["begin"], w["end"]) as panel, w.loop(0, w["channels"], GATHER) as some:
        past = w.min(w.add(some.i, GATHER), w["channels"])
        whole = w.compare("sle", w.mul(w.add(panel.i, 1), tile.rows), w["outs"])
        near = w.both(neighbours, whole)
        both = tile.masked and tile.rows % QUAD == 0      # short vectors gain nothing
        for condition, is_near in ((near, True), (w.negate(near), False)) if both else ((Reg("true", "i1"), False),):
            with w.when(condition), w.loop(some.i, past) as c:
                square = near_kernels(w, tile, panel.i, c.i, turned) if is_near else kernels(w, tile, panel.i, c.i)
                target = w.at(collected, w.mul(w.sub(c.i, some.i), tile.rows), tile.element)
                points = flat(in_both(w, form.weight_down, weight_across, (3, 3), lambda i, j: square[i][j]))  # noqa: B023
                for point, value in enumerate(points):
                    w.store(value, w.at(target, point * line, tile.element), tile.size)
        with w.loop(0, form.points) as point:
            place = w.mul(w.add(w.mul(w.add(w.mul(w["panels"], point.i), panel.i), w["channels"]), some.i), tile.rows)
            source = w.at(collected, w.mul(point.i, line), tile.element)
            copy_row(
                w,
                tile,
                w.at(w["result"], place, tile.element),
                source,
                w.mul(w.sub(past, some.i), tile.rows),
                Reg("1", "i64"),
            )
    return w.text() + "\n" + declarations(tile.rows, tile.element)


def block_of(w: Writer, item: Reg) -> tuple[Reg, Reg, Reg, Reg]:
    """What an item of a kernel over tiles stands for: slice number, block number,
    its first tile and how many it has."""
    block, part = w.rem(item, w["blocks"]), w.div(item, w["blocks"])
    begin = w.mul(block, BLOCK)
    return part, block, w.add(w["first"], begin), w.min(w.sub(w["tiles"], begin), BLOCK)


def first_point(w: Writer, tile: Tile, array: Reg, panel: Reg, rows: Reg, row: Reg) -> tuple[Reg, Reg]:
    """Address of a panel's row at the first point, in arrays [point, panel, row, tile of the panel],
    and elements to the next point."""
    first = w.at(array, w.mul(w.add(w.mul(panel, rows), row), tile.columns), tile.element)
    return first, w.mul(w.mul(w["panels"], rows), tile.columns)


def input_text(form: Form, tile: Tile) -> str:
    """Windows are packed as rows [element of the window, tile], so that lanes are tiles."""
    stride = BLOCK + tile.lanes
    w = Writer(f"conv_winograd_input{form.suffix}", ABI)
    windows = w.scratch(tile.element, form.points * stride)
    runs, offsets = w.scratch("i64", RUN * BLOCK), w.scratch("i64", BLOCK)
    load_params(w, TILES)
    load_pointers(w, "input", "result")
    with w.loop(w["begin"], w["end"]) as item:
        part, block, first, count = block_of(w, item.i)
        number = find_runs(w, runs, offsets, first, count)
        channel0 = w.mul(part, SLICE)
        with w.loop(channel0, w.min(w.add(channel0, SLICE), w["channels"])) as c:
            w.call(
                "windows",
                windows,
                runs,
                number,
                w.at(w["input"], w.mul(c.i, w["in_channel"]), tile.element),
                w["params"],
            )
            if tile.masked:   # tiles past the last are multiplied too: zeros, since x86 is slow at what memory may hold
                whole = w.mul(w.div(w.add(count, tile.columns - 1), tile.columns), tile.columns)
                with w.when(w.compare("slt", count, whole)), w.loop(0, form.points) as row:
                    fill_zeros(w, tile, w.at(windows, w.mul(row.i, stride), tile.element), count, whole)
            with w.loop(0, count, tile.columns) as p:
                panel = w.div(w.add(w.mul(block, BLOCK), p.i), tile.columns)
                place, step = first_point(w, tile, w["result"], panel, w["channels"], c.i)
                with w.loop(0, tile.columns, tile.lanes) as v:
                    source = w.at(windows, w.add(p.i, v.i), tile.element)
                    target = w.at(place, v.i, tile.element)
                    element = vectors(w, tile, source, COLUMNS, stride)
                    for row in in_both(w, form.input_down, input_across, (form.rows, COLUMNS), element):
                        for value in row:
                            w.store(value, target, tile.size)
                            target = w.at(target, step, tile.element)
    size = form.rows, COLUMNS
    return "\n".join([w.text(), windows_text(tile, stride, size), declarations(tile.lanes, tile.element)])


WINDOWS = [("ptr", "target"), ("ptr", "runs"), ("i64", "number"), ("ptr", "plane"), ("ptr", "params")]


def windows_text(tile: Tile, stride: int, size: tuple[int, int] = (ROWS, COLUMNS)) -> str:
    """windows(target, runs, how many, plane): windows of neighbouring tiles, as rows [element of the window, tile]."""
    return masked_windows_text(tile, stride, size) if tile.masked else plain_windows_text(tile, stride, size)


def masked_windows_text(tile: Tile, stride: int, size: tuple[int, int]) -> str:
    """The same in vectors longer than most runs: every row of the windows is laid out with its padding, what a run's
    tiles begin with behind that of the run before, and likewise what follows it. So a vector takes its tiles' columns
    from several runs."""
    w = Writer("windows", WINDOWS, "internal ")
    high, across = size
    length = WIDE * BLOCK + 4 * tile.lanes
    parts = [w.scratch(tile.element, high * length) for _ in range(1 if across == WIDE else 2)]
    load_params(w, TILES)
    unit, none = w.compare("eq", w["in_column"], 1), Reg("zeroinitializer", f"<{tile.lanes} x i1>")
    with w.loop(0, w["number"], carry=[Reg("0", "i64")]) as r:
        run = w.at(w["runs"], w.mul(r.i, RUN), "i64")
        source, y, column, tiles, place = (w.load("i64", w.at(run, n, "i64"), 8) for n in (0, 2, 3, 4, 5))
        x = w.add(w.mul(column, WIDE), w["base_w"])
        left, right = w.max(w.sub(0, x), 0), w.sub(w["in_w"], x)
        first, rows = w.mul(place, WIDE), [w.add(source, w.mul(w["in_row"], i)) for i in range(high)]
        inside = [w.compare("ult", w.add(y, i), w["in_h"]) for i in range(high)]
        wide = w.mul(tiles, WIDE)
        with w.loop(0, w.select(unit, wide, 0), tile.lanes) as v:
            for part, line in enumerate(parts):
                at = w.add(v.i, part * WIDE)
                some = w.lanes_in(w.sub(left, at), w.sub(right, at), tile.lanes)
                for i in range(high):
                    own = w.at(w["plane"], w.add(rows[i], at), tile.element)
                    value = w.load_some(tile.vector, own, w.select(inside[i], some, none), tile.size)
                    w.store(value, w.at(line, w.total(first, v.i, i * length), tile.element), tile.size)
        with w.loop(0, w.select(unit, 0, wide)) as v:
            for part, line in enumerate(parts):
                at = w.add(v.i, part * WIDE)
                seen = w.both(w.compare("sge", at, left), w.compare("slt", at, right))
                for i in range(high):
                    exists = w.both(seen, inside[i])
                    own = w.select(exists, w.add(rows[i], w.mul(at, w["in_column"])), 0)
                    value = w.load(tile.element, w.at(w["plane"], own, tile.element), tile.size)
                    value = w.select(exists, value, Reg("0.0", tile.element))
                    w.store(value, w.at(line, w.total(first, v.i, i * length), tile.element), tile.size)
        r.next = [w.add(place, tiles)]
    with w.loop(0, r.carry[0], tile.lanes) as j, w.loop(0, high) as i:
        own = []
        for part, line in enumerate(parts):
            here = w.at(line, w.add(w.mul(i.i, length), w.mul(j.i, WIDE)), tile.element)
            near = w.load(f"<{WIDE * tile.lanes} x {tile.element}>", here, tile.size)
            own += [w.every(near, WIDE, tile.lanes, k) for k in range(across - WIDE if part else WIDE)]
        target = w.at(w["target"], w.add(w.mul(i.i, across * stride), j.i), tile.element)
        for k, value in enumerate(own):
            w.store(value, w.at(target, k * stride, tile.element), tile.size)
    return w.text() + "\n" + mask_declarations(tile.lanes, tile.element)


def plain_windows_text(tile: Tile, stride: int, size: tuple[int, int]) -> str:
    """The same run by run.

    Windows are 4x6 or 6x6, or 2x4 without overlap. A row of the input is laid out with its padding first; four tiles
    then take every fourth element of it, and the next tiles' first two. What spills over the end of a run is written
    again by the next.
    """
    w = Writer("windows", WINDOWS, "internal ")
    high, across = size
    line = w.scratch(tile.element, WIDE * BLOCK + 16 * tile.lanes)
    load_params(w, TILES)
    with w.loop(0, w["number"]) as r:
        run = w.at(w["runs"], w.mul(r.i, RUN), "i64")
        source, y, column, length, place = (w.load("i64", w.at(run, n, "i64"), 8) for n in (0, 2, 3, 4, 5))
        x = w.add(w.mul(column, WIDE), w["base_w"])
        wide = w.add(w.mul(length, WIDE), across - WIDE)
        left = w.min(w.max(w.sub(0, x), 0), wide)
        right = w.max(w.min(w.sub(w["in_w"], x), wide), left)
        with w.loop(0, high) as i:
            inside = w.compare("ult", w.add(y, i.i), w["in_h"])
            begin, end = w.select(inside, left, wide), w.select(inside, right, wide)
            fill_zeros(w, tile, line, Reg("0", "i64"), begin)
            own = w.at(w["plane"], w.total(source, w.mul(i.i, w["in_row"]), w.mul(begin, w["in_column"])), tile.element)
            copy_row(w, tile, w.at(line, begin, tile.element), own, w.sub(end, begin), w["in_column"])
            fill_zeros(w, tile, line, end, wide)
            target = w.at(w["target"], w.add(w.mul(i.i, across * stride), place), tile.element)
            with w.loop(0, length, tile.lanes) as j:
                near, next_ = (
                    w.load(
                        f"<{WIDE * tile.lanes} x {tile.element}>",
                        w.at(line, w.add(w.mul(j.i, WIDE), ahead), tile.element),
                        tile.size,
                    )
                    for ahead in (0, WIDE)
                )
                own = [w.every(near, WIDE, tile.lanes, k) for k in range(WIDE)] + [
                    w.every(next_, WIDE, tile.lanes, k) for k in range(across - WIDE)
                ]
                for k, value in enumerate(own):
                    w.store(value, w.at(target, w.add(j.i, k * stride), tile.element), tile.size)
    return w.text()


def product_text(tile: Tile) -> str:
    """One matrix product per point: every panel of outputs with every panel of the block.

    Channels are summed in blocks, blocks in slices: a long sum loses bits that interpolation would enlarge.
    """
    w = Writer("conv_winograd_product", ABI)
    sums = w.scratch(tile.element, tile.rows * tile.columns)
    load_params(w, PRODUCT)
    load_pointers(w, *PRODUCT_KERNEL.operands)
    per_block = BLOCK // tile.columns
    rows = w.mul(w["out_panels"], tile.rows)
    with w.loop(w["begin"], w["end"]) as item:
        point, block = w.div(item.i, w["blocks"]), w.rem(item.i, w["blocks"])
        panel0 = w.mul(block, per_block)
        panels = w.min(w.add(panel0, per_block), w["panels"])
        with w.loop(0, w["channels"], FAR) as slice_:
            past = w.min(w.add(slice_.i, FAR), w["channels"])
            first = w.compare("eq", slice_.i, 0)
            with w.loop(0, w["out_panels"]) as o, w.loop(panel0, panels) as p:
                left = w.mul(w.add(w.mul(point, w["out_panels"]), o.i), w["channels"])
                place = w.add(w.mul(point, w["panels"]), p.i)
                right = w.mul(place, w["channels"])
                target = w.at(
                    w["result"], w.mul(w.add(w.mul(place, rows), w.mul(o.i, tile.rows)), tile.columns), tile.element
                )
                own = w.select(first, target, sums)
                with w.loop(slice_.i, past, NEAR) as c:
                    a, b = w.at(w["weights"], w.mul(w.add(left, c.i), tile.rows), tile.element), w.at(
                        w["inputs"], w.mul(w.add(right, c.i), tile.columns), tile.element
                    )
                    start = w.select(w.compare("eq", c.i, slice_.i), ZERO, ADD)
                    w.call("multiply", a, b, w.min(w.sub(past, c.i), NEAR), own, tile.columns, w["weights"], start)
                with w.when(w.negate(first)):
                    for n in range(0, tile.rows * tile.columns, tile.lanes):
                        sum_, old = (
                            w.load(tile.vector, w.at(array, n, tile.element), tile.size) for array in (sums, target)
                        )
                        w.store(w.fadd(sum_, old), w.at(target, n, tile.element), tile.size)
    return "\n".join([w.text(), multiply_text(tile, tile.columns), declarations(tile.lanes, tile.element)])


def output_text(form: Form, tile: Tile, finish: Finish | None = None) -> str:
    """Results of neighbouring whole tiles are stored as rows; others element by element,
    as far as the result reaches."""
    w = Writer(f"conv_winograd_output{form.suffix}", ABI)
    runs, offsets = w.scratch("i64", RUN * BLOCK), w.scratch("i64", BLOCK + tile.columns)
    heights, widths = w.scratch("i64", BLOCK), w.scratch("i64", BLOCK)
    corner = w.scratch(tile.element, form.high * WIDE * tile.lanes)
    areas = None if finish is None else w.scratch("i64", AREA * BLOCK)
    load_params(w, TILES)
    load_pointers(w, *OUTPUT_OPERANDS)
    rows = w.mul(w.div(w.add(w["outs"], tile.rows - 1), tile.rows), tile.rows)
    with w.loop(w["begin"], w["end"]) as item:
        part, block, first, count = block_of(w, item.i)
        number = find_runs(w, runs, offsets, first, count)
        find_extents(w, form, heights, widths, first, count)
        many = None if finish is None else find_areas(w, areas, runs, number, offsets, heights, widths)
        out0 = w.mul(part, SLICE)
        with w.loop(out0, w.min(w.add(out0, SLICE), w["outs"])) as o:
            biased = w.compare("eq", w["bias"], 1)
            bias = w.load(
                tile.element, w.select(biased, w.at(w["bias_data"], o.i, tile.element), w["products"]), tile.size
            )
            bias = w.splat(w.select(biased, bias, Reg("0.0", tile.element)), tile.lanes)
            plane = w.at(w["result"], w.mul(o.i, w["out_channel"]), tile.element)
            with w.loop(0, count, tile.columns) as p:
                panel = w.div(w.add(w.mul(block, BLOCK), p.i), tile.columns)
                place, step = first_point(w, tile, w["products"], panel, rows, o.i)
                with w.loop(0, w.min(w.sub(count, p.i), tile.columns), tile.lanes) as v:
                    source = w.at(place, v.i, tile.element)
                    columns = [w.at(source, w.mul(step, j), tile.element) for j in range(COLUMNS)]
                    below = w.mul(step, COLUMNS)

                    def point(i: int, j: int) -> Reg:
                        value = w.load(tile.vector, columns[j], tile.size)  # noqa: B023  written at once
                        columns[j] = w.at(columns[j], below, tile.element)  # noqa: B023
                        return value

                    results = [
                        [w.fadd(value, bias) for value in row]
                        for row in in_both(w, form.result_down, result_across, (form.rows, COLUMNS), point)
                    ]
                    store_tiles(w, tile, results, plane, offsets, heights, widths, w.add(p.i, v.i), count, corner)
            if finish is not None:
                with w.loop(0, many) as a:
                    area = w.at(areas, w.mul(a.i, AREA), "i64")
                    offset, rows_, columns_ = (w.load("i64", w.at(area, n, "i64"), 8) for n in range(AREA))
                    to = w.at(plane, offset, tile.element)
                    w.call("finish", to, w["row"], rows_, columns_, w["column"], o.i, 0, w["ptrs"])
    return with_finish("\n".join([w.text(), declarations(tile.lanes, tile.element)]), tile, finish, OUTPUT)


def find_areas(w: Writer, areas: Reg, runs: Reg, number: Reg, offsets: Reg, heights: Reg, widths: Reg) -> Reg:
    """Write the areas of a plane that runs of tiles make: offset, rows, columns. Where rows follow each other in
    memory, runs make one long row together. Returns how many there are."""
    with w.loop(0, number, carry=[Reg("0", "i64"), Reg("-1", "i64")]) as r:
        found, end = r.carry        # areas, and where the last one ends if it is one row
        run = w.at(runs, w.mul(r.i, RUN), "i64")
        length, place = (w.load("i64", w.at(run, n, "i64"), 8) for n in (4, 5))
        last = w.sub(length, 1)
        offset, height, width = (
            w.load("i64", w.at(table, at, "i64"), 8)
            for table, at in ((offsets, place), (heights, place), (widths, w.add(place, last)))
        )
        columns = w.add(w.mul(last, WIDE), width)
        dense = w.both(w.compare("eq", columns, w["row"]), w.compare("eq", w["column"], 1))
        follows = w.both(dense, w.compare("eq", offset, end))
        rows, wide = w.select(dense, 1, height), w.select(dense, w.mul(height, columns), columns)
        place = w.select(follows, w.sub(found, 1), found)
        area = w.at(areas, w.mul(place, AREA), "i64")
        start = w.select(follows, w.load("i64", area, 8), offset)
        for n, value in enumerate((start, rows, w.select(follows, w.sub(w.add(offset, wide), start), wide))):
            w.store(value, w.at(area, n, "i64"), 8)
        r.next = [w.add(place, 1), w.select(dense, w.add(offset, wide), -1)]
    return r.carry[0]


def find_extents(w: Writer, form: Form, heights: Reg, widths: Reg, first: Reg, count: Reg) -> None:
    """Rows and columns of every tile that lie in the result."""
    with w.loop(0, count) as t:
        tile = w.add(first, t.i)
        x, y = w.rem(tile, w["out_w"]), w.rem(w.div(tile, w["out_w"]), w["out_h"])
        w.store(w.min(w.sub(w["height"], w.mul(y, form.high)), form.high), w.at(heights, t.i, "i64"), 8)
        w.store(w.min(w.sub(w["width"], w.mul(x, WIDE)), WIDE), w.at(widths, t.i, "i64"), 8)


def flat(rows: Iterable[Sequence[Reg]]) -> list[Reg]:
    """The elements of a rectangle, row after row."""
    return [value for row in rows for value in row]


def store_tiles(
    w: Writer,
    tile: Tile,
    values: list[list[Reg]],
    plane: Reg,
    offsets: Reg,
    heights: Reg,
    widths: Reg,
    here: Reg,
    count: Reg,
    corner: Reg,
) -> None:
    """Store the results of as many tiles as a vector has lanes: as rows, or row by row of each, whose columns are
    neighbours in most."""
    last = w.min(w.add(here, tile.lanes - 1), w.sub(count, 1))
    begin, end, height, width = (
        w.load("i64", w.at(table, at, "i64"), 8)
        for table, at in ((offsets, here), (offsets, last), (heights, here), (widths, last))
    )
    # Tiles of one row end with the narrowest, and all are as high as the first.
    adjacent = w.both(w.compare("eq", w.sub(end, begin), WIDE * (tile.lanes - 1)), w.compare("eq", w["column"], 1))
    adjacent = w.both(adjacent, w.compare("eq", w.sub(last, here), tile.lanes - 1))
    whole = w.both(adjacent, w.both(w.compare("eq", height, len(values)), w.compare("eq", width, WIDE)))
    with w.when(whole):
        for i, row in enumerate(values):
            target = w.at(plane, w.add(begin, w.mul(w["row"], i)), tile.element)
            w.store(interleaved(w, tile, row), target, tile.size)
    with w.when(w.negate(whole)):
        line = WIDE * tile.lanes
        for i, row in enumerate(values):
            w.store(interleaved(w, tile, row), w.at(corner, i * line, tile.element), tile.size)
        unit = w.compare("eq", w["column"], 1)
        with w.loop(here, w.add(last, 1)) as t:
            own, high, wide = (w.load("i64", w.at(table, t.i, "i64"), 8) for table in (offsets, heights, widths))
            quad = w.both(unit, w.compare("eq", wide, WIDE))
            lane = w.at(corner, w.mul(w.sub(t.i, here), WIDE), tile.element)
            with w.loop(0, high, carry=[w.at(plane, own, tile.element), lane]) as i:
                to, of = i.carry
                with w.when(quad):
                    w.store(w.load(f"<{WIDE} x {tile.element}>", of, tile.size), to, tile.size)
                with w.loop(0, w.select(quad, 0, wide)) as j:
                    value = w.load(tile.element, w.at(of, j.i, tile.element), tile.size)
                    w.store(value, w.at(to, w.mul(j.i, w["column"]), tile.element), tile.size)
                i.next = [w.at(to, w["row"], tile.element), w.at(of, line, tile.element)]


def interleaved(w: Writer, tile: Tile, columns: Sequence[Reg]) -> Reg:
    """Four vectors of tiles' columns as one vector of columns, tile after tile."""
    count = tile.lanes

    def joined(a: Reg, b: Reg, order: Sequence[int], width: int) -> Reg:
        return w.new(
            f"<{width} x {tile.element}>",
            f"shufflevector {a}, {b}, <{width} x i32> <{', '.join(f'i32 {n}' for n in order)}>",
        )

    pairs = [joined(columns[k], columns[k + 1], range(2 * count), 2 * count) for k in (0, 2)]
    order = [j * count + t for t in range(count) for j in range(WIDE)]
    return joined(pairs[0], pairs[1], order, WIDE * count)


PLANES = "walks of more than one group, taps other than 3x3, steps other than one"


class Kernels(NamedTuple):
    """Those of one size of tiles; the products are the same for all."""

    weights: Interface
    input: Interface
    output: Interface


def kernels_of(form: Form) -> Kernels:
    """Declared under their names."""
    suffix = form.suffix
    make = [functools.partial(text, form) for text in (weights_text, input_text, output_text)]
    return Kernels(
        declare(Interface(f"conv_winograd_weights{suffix}", ("weight", "result"), WEIGHTS, "panels of outputs", make[0],
                          ("f32",))),
        declare(Interface(f"conv_winograd_input{suffix}", ("input", "result"), TILES,
                          "slices of channels, blocks of tiles", make[1], ("f32",), PLANES)),
        declare(Interface(f"conv_winograd_output{suffix}", OUTPUT_OPERANDS, TILES, "slices of outputs, blocks of tiles",
                          make[2], ("f32",), PLANES, "elements")),
    )


KERNELS = {form: kernels_of(form) for form in (SMALL, LARGE)}
WEIGHTS_KERNEL, INPUT, OUTPUT = KERNELS[SMALL]
PRODUCT_KERNEL = declare(
    Interface(
        "conv_winograd_product",
        ("weights", "inputs", "result"),
        PRODUCT,
        "points, blocks of tiles",
        product_text,
        ("f32",),
    )
)
