"""The gradient of a convolution's weight as dot products along pixels: for vectors without masks,
and behind winograd_weight.py.

Enters: a tile. Leaves: the interface `WEIGHT_DOTS`, and texts of internal functions.
"""

from __future__ import annotations

from ...text.writer import ABI, Reg, Writer
from ..interface import Interface, Tile, declare, load_params, load_pointers
from ..products.few_rows import SAME_SETS
from .convolve import declared
from .packing import GEOMETRY, JOINED, RUN, clear_tail, find_runs, join_runs, pack_gradients, pack_text

DOT_BYTES, DOT_DEPTH, DOT_OUTS = 1600, 96, 24   # pixels packed at once, window rows, outputs


FEWER_ROWS = (4, 2)      # of which there are tiles too, for outputs that do not fill whole ones


def dot_texts(tile: Tile) -> list[str]:
    """dot, and dot_4 and dot_2 of fewer rows."""
    return [dot_text(tile, rows) for rows in (tile.dot_rows, *FEWER_ROWS) if rows <= tile.dot_rows]


def dot_name(tile: Tile, rows: int) -> str:
    return "dot" if rows == tile.dot_rows else f"dot_{rows}"


def call_dots(w: Writer, tile: Tile, high: Reg, wide: Reg, given: tuple, place: tuple, edge: Reg, ahead: Reg) -> None:
    """A tile of `high` x `wide` results, or one of which more exist: straight to its place (corner, row stride, whether
    to add) where there is a function of its height, else through `edge`. `given` are the operands of the dots."""
    corner, row, adds = place
    fits = w.compare("sge", wide, tile.dot_columns)
    done = Reg("false", "i1")
    for rows in dict.fromkeys((tile.dot_rows, *(n for n in FEWER_ROWS if n < tile.dot_rows))):
        suits = w.both(fits, w.compare("sge" if rows == tile.dot_rows else "eq", high, rows))
        done = w.new("i1", f"or {done}, {suits.text}")
        with w.when(suits):
            w.call(dot_name(tile, rows), *given, corner, row, adds, ahead)
    with w.when(w.negate(done)):
        w.call("dot", *given, edge, tile.dot_columns, Reg("false", "i1"), ahead)
        add_edge(w, tile, corner, edge, high, wide, adds, row)


def dot_text(tile: Tile, dot_rows: int) -> str:
    """dot(gradients, their stride, windows, their stride, pixels, result, its stride, adds):
    one register tile of outputs x window rows.

    result[i, j] is gradient row i . window row j, added to what is there if `adds`.
    """
    w = Writer(
        dot_name(tile, dot_rows),
        [
            ("ptr", "a"),
            ("i64", "a_row"),
            ("ptr", "b"),
            ("i64", "b_row"),
            ("i64", "count"),
            ("ptr", "c"),
            ("i64", "c_row"),
            ("i1", "adds"),
            ("ptr", "ahead"),
        ],
        "internal ",
    )
    zero = Reg("zeroinitializer", tile.vector)
    number = dot_rows * tile.dot_columns
    rows = [w.at(w["a"], w.mul(w["a_row"], r), tile.element) for r in range(dot_rows)]
    columns = [w.at(w["b"], w.mul(w["b_row"], c), tile.element) for c in range(tile.dot_columns)]
    with w.loop(0, w["count"], tile.lanes, carry=[zero] * number) as p:
        sums = p.carry
        w.prefetch(w.at(w["ahead"], p.i, tile.element), 1)
        right = [w.load(tile.vector, w.at(column, p.i, tile.element), tile.size) for column in columns]
        results = []
        for r in range(dot_rows):
            left = w.load(tile.vector, w.at(rows[r], p.i, tile.element), tile.size)
            results += [w.fma(left, right[c], sums[r * tile.dot_columns + c]) for c in range(tile.dot_columns)]
        p.next = results
    whole = tile.dot_columns % tile.lanes == 0
    width = tile.lanes if whole else 1
    for r in range(dot_rows):
        for c in range(0, tile.dot_columns, width):
            sums = p.carry[r * tile.dot_columns + c :][:width]
            value = w.horizontals(sums) if whole else w.horizontal(sums[0])
            place = w.at(w["c"], w.add(w.mul(w["c_row"], r), c), tile.element)
            old = w.select(
                w["adds"], w.load(value.type, place, tile.size), Reg("zeroinitializer" if whole else "0.0", value.type)
            )
            w.store(w.fadd(value, old), place, tile.size)
    return w.text()


def weight_dots_text(tile: Tile) -> str:
    """The kernel: per item, walk blocks of pixels; pack windows, then gradients a slice of outputs at a time,
    and add their dots."""
    block = DOT_BYTES // tile.size
    stride = block + tile.lanes
    w = Writer("conv_weight_dots", ABI)
    windows = w.scratch(tile.element, (DOT_DEPTH + tile.dot_columns) * stride)
    gradients = w.scratch(tile.element, (DOT_OUTS + tile.dot_rows) * stride)
    runs, offsets = w.scratch("i64", RUN * block), w.scratch("i64", block)
    joined = w.scratch("i64", JOINED * block)
    edge = w.scratch(tile.element, tile.dot_rows * tile.dot_columns)
    load_params(w, WEIGHT_DOTS.params)
    load_pointers(w, *WEIGHT_DOTS.operands)
    # Rows a multiple of this apart would share the sets of the nearest cache.
    spread = w.compare("ne", w.rem(w.mul(w["out_channel"], tile.size), SAME_SETS), 0)
    with w.loop(w["begin"], w["end"]) as item:
        chunk, above = w.rem(item.i, w["chunks"]), w.div(item.i, w["chunks"])
        part, group = w.rem(above, w["parts"]), w.div(above, w["parts"])
        row0 = w.mul(chunk, DOT_DEPTH)
        depth = w.min(w.sub(w["rows"], row0), DOT_DEPTH)
        source = w.at(w["input"], w.mul(group, w["in_group"]), tile.element)
        gradient = w.at(w["gradient"], w.mul(group, w["out_group"]), tile.element)
        result = w.at(w["result"], w.add(w.mul(above, w.mul(w["outs"], w["rows"])), row0), tile.element)
        block0 = w.mul(part, w["per_part"])
        with w.loop(block0, w.min(w.add(block0, w["per_part"]), w["blocks"])) as nth_block:
            begin = w.mul(w.rem(nth_block.i, w["per_plane"]), w["block"])
            first = w.add(w.mul(w.div(nth_block.i, w["per_plane"]), w["plane"]), begin)
            count = w.min(w.sub(w["plane"], begin), w["block"])
            padded = w.mul(w.div(w.add(count, tile.lanes - 1), tile.lanes), tile.lanes)
            number = find_runs(w, runs, offsets, first, count)
            # Windows of one pixel are rows of the input: where a block of it is one run, they are read where they are.
            placed = w.both(w.compare("eq", w["in_place"], 1), w.compare("eq", number, 1))
            placed = w.both(placed, w.compare("eq", count, padded))
            with w.when(w.negate(placed)):
                w.call("pack", windows, runs, 0, number, 0, count, source, w["table"], row0, depth, w["params"])
                clear_tail(w, tile, windows, Reg("0", "i64"), depth, stride, count, padded)
            rows_here = w.at(source, w.add(w.mul(row0, w["in_channel"]), w.load("i64", runs, 8)), tile.element)
            columns, b_row = w.select(placed, rows_here, windows), w.select(placed, w["in_channel"], stride)
            stretches = join_runs(w, joined, runs, offsets, number)
            adds = w.compare("ne", nth_block.i, block0)
            # Neighbouring pixels are read where they are; only rows of a tile that is not whole are packed.
            dense = w.both(
                w.both(w.compare("eq", stretches, 1), w.compare("eq", w["out_column"], 1)),
                w.both(w.compare("eq", count, padded), spread),
            )
            here = w.at(gradient, w.load("i64", offsets, 8), tile.element)
            with w.loop(0, w["outs"], DOT_OUTS) as slice_:
                outs = w.min(w.sub(w["outs"], slice_.i), DOT_OUTS)
                whole = w.mul(w.div(outs, tile.dot_rows), tile.dot_rows)
                for rows in FEWER_ROWS:
                    whole = w.select(w.compare("eq", w.rem(outs, tile.dot_rows), rows), outs, whole)
                read = w.select(dense, whole, 0)
                later = w.add(slice_.i, DOT_OUTS)
                goes_on = w.compare("slt", later, w["outs"])
                next_ = w.at(here, w.select(goes_on, w.mul(later, w["out_channel"]), count), tile.element)
                pack_gradients(w, tile, gradients, stride, gradient, joined, stretches, slice_.i, read, outs)
                clear_tail(w, tile, gradients, read, outs, stride, count, padded)
                with w.loop(0, depth, tile.dot_columns) as j, w.loop(0, outs, tile.dot_rows) as i:
                    in_place = w.compare("slt", i.i, read)
                    row = w.add(slice_.i, i.i)
                    own = w.at(here, w.mul(row, w["out_channel"]), tile.element)
                    a = w.select(in_place, own, w.at(gradients, w.mul(i.i, stride), tile.element))
                    a_row = w.select(in_place, w["out_channel"], stride)
                    b = w.at(columns, w.mul(j.i, b_row), tile.element)
                    corner = w.at(result, w.add(w.mul(row, w["rows"]), j.i), tile.element)
                    # Meanwhile the next window rows come nearer, one with each of the first outputs; where they are
                    # packed, and so near, gradients do: those of the next slice, or the next block's first.
                    nth = w.div(i.i, tile.dot_rows)
                    next_row = w.add(w.rem(nth, tile.dot_columns), tile.dot_columns)
                    turn = w.add(w.mul(w.div(j.i, tile.dot_columns), DOT_OUTS // tile.dot_rows), nth)
                    next_gradient = w.at(next_, w.mul(turn, w["out_channel"]), tile.element)
                    near = w.compare("sge", w.select(placed, DOT_OUTS, turn), DOT_OUTS)
                    ahead = w.select(near, w.at(b, w.mul(next_row, b_row), tile.element), next_gradient)
                    given, place = (a, a_row, b, b_row, padded), (corner, w["rows"], adds)
                    call_dots(w, tile, w.sub(outs, i.i), w.sub(depth, j.i), given, place, edge, ahead)
    return "\n".join([w.text(), pack_text(tile, stride), *dot_texts(tile), declared(tile)])


WEIGHT_DOTS = declare(
    Interface(
        "conv_weight_dots", ("gradient", "input", "table", "result"),
        (*GEOMETRY, "parts", "per_part", "chunks", "blocks", "plane", "per_plane", "block", "in_place"),
        "groups, parts of the blocks of pixels, chunks of window rows; the result is [group, part, outs, rows]",
        weight_dots_text,
        refuses=(
            f"blocks of more than {DOT_BYTES} bytes; in place, windows of several pixels, or a number of them that does"
            " not fill tiles"
        ),
    )
)


def add_edge(
    w: Writer, tile: Tile, corner: Reg, edge: Reg, outs: Reg, columns: Reg, adds: Reg, row_stride: Reg
) -> None:
    """Put the part of a tile that exists into the result, or add it to what is there."""
    with w.loop(0, w.min(outs, tile.dot_rows)) as r:
        row = w.at(corner, w.mul(r.i, row_stride), tile.element)
        with w.loop(0, w.min(columns, tile.dot_columns)) as c:
            place = w.at(row, c.i, tile.element)
            value = w.load(tile.element, w.at(edge, w.add(w.mul(r.i, tile.dot_columns), c.i), tile.element), tile.size)
            old = w.select(adds, w.load(tile.element, w.select(adds, place, edge), tile.size), Reg("0.0", tile.element))
            w.store(w.fadd(value, old), place, tile.size)
