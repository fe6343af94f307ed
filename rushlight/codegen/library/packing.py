"""Windows in scratch memory: what convolution kernels share to pack pixels under a kernel, and gradients beside them.

Enters: a writer inside a kernel, or a tile. Leaves: text. A pixel is an index over (image, depth, row, column) of the
output; window row k of a block of pixels holds, for channel and tap k, the input element under each pixel, or zero
outside the input. Pixels of one output row are a run, copied in vectors.
"""

from __future__ import annotations

from ..writer import Reg, Writer
from .interface import Tile, load_params

GEOMETRY = (
    "outs", "taps", "rows",                       # outputs per group, taps, channels x taps per group
    # input sizes; input index = pixel index * step + base + tap
    "in_d", "in_h", "step_d", "step_h", "base_d", "base_h",
    # strides; of a column step; of the first column
    "in_image", "in_group", "in_channel", "in_depth", "in_row", "in_step", "in_base",
    "out_d", "out_h", "out_w", "pixels",
    "out_image", "out_group", "out_channel", "out_depth", "out_row", "out_column",
)  # fmt: skip
TAP = 5            # a tap: element offset, depth and row offsets, first and last+1 output column that it serves
AHEAD = 6          # window rows between asking for memory and reading it
RUN = 6            # a run: source offset, depth, row, column, length, place in the block
PIECE = 3          # a vector to copy: source offset, place in the block, mask of its lanes
JOINED = 3         # a stretch of neighbouring pixels of the result: offset, length, place in the block


def find_runs(w: Writer, runs: Reg, offsets: Reg, first: Reg, count: Reg, numbers: Reg | None = None) -> Reg:
    """Write the runs of pixels [first, first + count), every pixel's offset in the output, and its run's number;
    returns how many runs."""
    row0 = w.div(first, w["out_w"])
    past = w.add(first, count)
    number = w.add(w.sub(w.div(w.sub(past, 1), w["out_w"]), row0), 1)
    with w.loop(0, number) as r:
        row = w.add(row0, r.i)
        begin = w.max(w.mul(row, w["out_w"]), first)
        length = w.sub(w.min(w.mul(w.add(row, 1), w["out_w"]), past), begin)
        column = w.sub(begin, w.mul(row, w["out_w"]))
        y, slab = w.rem(row, w["out_h"]), w.div(row, w["out_h"])
        z, image = w.rem(slab, w["out_d"]), w.div(slab, w["out_d"])
        in_z, in_y = w.add(w.mul(z, w["step_d"]), w["base_d"]), w.add(w.mul(y, w["step_h"]), w["base_h"])
        source = w.total(
            w.mul(image, w["in_image"]),
            w.mul(in_z, w["in_depth"]),
            w.mul(in_y, w["in_row"]),
            w["in_base"],
            w.mul(column, w["in_step"]),
        )
        place = w.sub(begin, first)
        for k, value in enumerate((source, in_z, in_y, column, length, place)):
            w.store(value, w.at(runs, w.add(w.mul(r.i, RUN), k), "i64"), 8)
        target = w.total(
            w.mul(image, w["out_image"]),
            w.mul(z, w["out_depth"]),
            w.mul(y, w["out_row"]),
            w.mul(column, w["out_column"]),
        )
        with w.loop(0, length, carry=[target]) as j:
            w.store(j.carry[0], w.at(offsets, w.add(place, j.i), "i64"), 8)
            if numbers is not None:
                w.store(r.i, w.at(numbers, w.add(place, j.i), "i64"), 8)
            j.next = [w.add(j.carry[0], w["out_column"])]
    return number


def copy_row(w: Writer, tile: Tile, target: Reg, source: Reg, count: Reg, step: Reg) -> None:
    """count elements, `step` apart, to `target` side by side."""
    unit = w.compare("eq", step, 1)
    wide = w.both(unit, w.compare("sge", count, tile.lanes))
    with w.when(wide):
        last = w.sub(count, tile.lanes)
        with w.loop(0, w.sub(last, 3 * tile.lanes), 4 * tile.lanes) as several:
            places = [w.add(several.i, v * tile.lanes) for v in range(4)]
            values = [w.load(tile.vector, w.at(source, place, tile.element), tile.size) for place in places]
            for value, place in zip(values, places, strict=True):
                w.store(value, w.at(target, place, tile.element), tile.size)
        with w.loop(several.i, last, tile.lanes) as j:
            w.store(
                w.load(tile.vector, w.at(source, j.i, tile.element), tile.size),
                w.at(target, j.i, tile.element),
                tile.size,
            )
        # The last vector ends with the row, over what the one before it wrote.
        w.store(
            w.load(tile.vector, w.at(source, last, tile.element), tile.size),
            w.at(target, last, tile.element),
            tile.size,
        )
    other = w.negate(wide)
    for apart in (2, 4):   # a vector of neighbours holds every second or fourth of them
        chosen = w.compare("eq", step, apart)
        with w.when(chosen):
            # Not for the last elements: the vector would reach past them, perhaps out of memory.
            with w.loop(0, w.sub(count, tile.lanes), tile.lanes) as j:
                near = w.load(
                    f"<{apart * tile.lanes} x {tile.element}>", w.at(source, w.mul(j.i, apart), tile.element), tile.size
                )
                w.store(w.every(near, apart, tile.lanes), w.at(target, j.i, tile.element), tile.size)
            copy_elements(w, tile, target, source, j.i, count, step)
        other = w.both(other, w.negate(chosen))
    with w.when(other):
        copy_elements(w, tile, target, source, Reg("0", "i64"), count, step)


def copy_elements(w: Writer, tile: Tile, target: Reg, source: Reg, begin: Reg, end: Reg, step: Reg) -> None:
    """Elements [begin, end) of a row, one by one."""
    with w.loop(begin, end, carry=[w.at(source, w.mul(begin, step), tile.element)]) as j:
        w.store(w.load(tile.element, j.carry[0], tile.size), w.at(target, j.i, tile.element), tile.size)
        j.next = [w.at(j.carry[0], step, tile.element)]


def fill_zeros(w: Writer, tile: Tile, target: Reg, begin: Reg, end: Reg) -> None:
    """Zeros in [begin, end), and up to a vector less one past it."""
    with w.loop(begin, end, tile.lanes) as j:
        w.store(Reg("zeroinitializer", tile.vector), w.at(target, j.i, tile.element), tile.size)


PACK = [
    ("ptr", "target"), ("ptr", "runs"), ("i64", "begin"), ("i64", "end"), ("i64", "from"), ("i64", "past"),
    ("ptr", "input"), ("ptr", "table"), ("i64", "first"), ("i64", "count"), ("ptr", "params"),
]  # fmt: skip


def pack_text(tile: Tile, stride: int) -> str:
    """pack(target, runs, first, end, first pixel, end, input, taps, first row, rows): window rows of pixels,
    `stride` elements apart.

    A run may spill over the start of the next, which is written later, and the last one into the slack that ends a row.
    """
    return masked_pack_text(tile, stride) if tile.masked else plain_pack_text(tile, stride)


def masked_pack_text(tile: Tile, stride: int) -> str:
    """Taps outside: what a tap and the runs have to do with each other becomes a list of vectors to copy,
    the same for all channels."""
    w = Writer("pack", PACK, "internal ")
    pieces = w.scratch("i64", PIECE * (stride + 1))
    load_params(w, GEOMETRY, ("taps", "in_d", "in_h", "in_channel", "in_step"))
    unit, pair = w.compare("eq", w["in_step"], 1), w.compare("eq", w["in_step"], 2)
    other = w.negate(w.new("i1", f"or {unit}, {pair.text}"))
    with w.loop(0, w["taps"]) as tap:
        entry = w.at(w["table"], w.mul(tap.i, TAP), "i64")
        # Channels c of the rows asked for: first <= c * taps + tap < first + count.
        begin, end = (
            w.div(w.add(w.max(w.sub(k, tap.i), 0), w.sub(w["taps"], 1)), w["taps"])
            for k in (w["first"], w.add(w["first"], w["count"]))
        )
        row = w.at(w["target"], w.mul(w.sub(w.add(w.mul(begin, w["taps"]), tap.i), w["first"]), stride), tile.element)
        base = w.at(w["input"], w.add(w.mul(begin, w["in_channel"]), w.load("i64", entry, 8)), tile.element)
        with w.when(w.compare("slt", begin, end)):
            number = find_pieces(w, tile, pieces, entry, pair)
            channels, apart = w.sub(end, begin), w.mul(w["taps"], stride)
            for condition, read in ((unit, read_neighbours), (pair, read_seconds), (other, read_far)):
                with w.when(condition), w.loop(0, channels, carry=[row, base]) as c:
                    to, of = c.carry
                    with w.loop(0, number) as n:
                        piece = w.at(pieces, w.mul(n.i, PIECE), "i64")
                        offset, place, bits = (w.load("i64", w.at(piece, k, "i64"), 8) for k in range(PIECE))
                        w.store(
                            read(w, tile, w.at(of, offset, tile.element), bits),
                            w.at(to, place, tile.element),
                            tile.size,
                        )
                    c.next = [w.at(to, apart, tile.element), w.at(of, w["in_channel"], tile.element)]
    return w.text()


def find_pieces(w: Writer, tile: Tile, pieces: Reg, entry: Reg, pair: Reg) -> Reg:
    """Write the vectors that a tap copies, in order of their places: source offset, place, mask; returns how many."""
    dz, dy, low, high = (w.load("i64", w.at(entry, n, "i64"), 8) for n in range(1, TAP))
    double = w.select(pair, 1, 0)
    most = w.select(pair, 2 * tile.lanes, tile.lanes)
    with w.loop(w["begin"], w["end"], carry=[Reg("0", "i64")]) as r:
        run = w.at(w["runs"], w.mul(r.i, RUN), "i64")
        source, z, y, column, length, place = (w.load("i64", w.at(run, n, "i64"), 8) for n in range(RUN))
        skipped = w.max(w.sub(w["from"], place), 0)
        length = w.min(length, w.sub(w["past"], place))
        inside = w.both(w.compare("ult", w.add(z, dz), w["in_d"]), w.compare("ult", w.add(y, dy), w["in_h"]))
        left = w.sub(low, column)
        right = w.select(inside, w.min(w.sub(high, column), length), left)
        source, place = w.add(source, w.mul(skipped, w["in_step"])), w.sub(place, w["from"])
        with w.loop(skipped, length, tile.lanes, carry=[*r.carry, source]) as v:
            number, of = v.carry
            piece = w.at(pieces, w.mul(number, PIECE), "i64")
            # Lanes [left, right); or every second of twice as many neighbours, none past the last that is asked for.
            first = w.binary("shl", w.sub(left, v.i), double)
            past = w.max(w.sub(w.binary("shl", w.sub(right, v.i), double), double), first)
            first, past = (w.min(w.max(bound, 0), most) for bound in (first, past))
            mask = w.sub(w.binary("shl", 1, past), w.binary("shl", 1, first))
            for k, value in enumerate((of, w.add(place, v.i), mask)):
                w.store(value, w.at(piece, k, "i64"), 8)
            v.next = [w.add(number, 1), w.add(of, w.mul(w["in_step"], tile.lanes))]
        r.next = [v.carry[0]]
    return r.carry[0]


def read_neighbours(w: Writer, tile: Tile, of: Reg, bits: Reg) -> Reg:
    w.prefetch(w.at(of, tile.columns, tile.element))   # what the next strip will read
    return w.load_some(tile.vector, of, w.mask(bits, tile.lanes), tile.size)


def read_seconds(w: Writer, tile: Tile, of: Reg, bits: Reg) -> Reg:
    w.prefetch(w.at(of, 2 * tile.columns, tile.element))
    return w.every(
        w.load_some(f"<{2 * tile.lanes} x {tile.element}>", of, w.mask(bits, 2 * tile.lanes), tile.size), 2, tile.lanes
    )


def read_far(w: Writer, tile: Tile, of: Reg, bits: Reg) -> Reg:
    order = Reg(f"<{', '.join(f'i64 {k}' for k in range(tile.lanes))}>", f"<{tile.lanes} x i64>")
    index = w.binary("mul", order, w.splat(w["in_step"], tile.lanes))
    places = w.new(f"<{tile.lanes} x ptr>", f"getelementptr {tile.element}, {of}, {index}")
    return w.gather(tile.vector, places, w.mask(bits, tile.lanes), tile.size)


def plain_pack_text(tile: Tile, stride: int) -> str:
    """Row after row, run by run."""
    w = Writer("pack", PACK, "internal ")
    load_params(w, GEOMETRY, ("taps", "in_d", "in_h", "in_channel", "in_step"))
    lonely = w.both(w.compare("eq", w["taps"], 1), w.compare("eq", w["in_step"], 1))
    source0 = w.at(w["input"], w.mul(w.div(w["first"], w["taps"]), w["in_channel"]), tile.element)
    with w.loop(0, w["count"], carry=[w.rem(w["first"], w["taps"]), source0]) as k:
        tap, channel = k.carry
        entry = w.at(w["table"], w.mul(tap, TAP), "i64")
        offset, dz, dy, low, high = (w.load("i64", w.at(entry, n, "i64"), 8) for n in range(TAP))
        base = w.at(channel, offset, tile.element)
        row = w.at(w["target"], w.mul(k.i, stride), tile.element)
        with w.loop(w["begin"], w["end"]) as r:   # whole runs: strips of them would be short
            run = w.at(w["runs"], w.mul(r.i, RUN), "i64")
            source, z, y, column, length, place = (w.load("i64", w.at(run, n, "i64"), 8) for n in range(RUN))
            inside = w.both(w.compare("ult", w.add(z, dz), w["in_d"]), w.compare("ult", w.add(y, dy), w["in_h"]))
            left = w.min(w.max(w.sub(low, column), 0), length)
            right = w.max(w.min(w.sub(high, column), length), left)
            left, right = w.select(inside, left, length), w.select(inside, right, length)
            to = w.at(row, place, tile.element)
            fill_zeros(w, tile, to, Reg("0", "i64"), left)
            begin = w.at(base, w.add(source, w.mul(left, w["in_step"])), tile.element)
            with w.when(lonely):   # every row comes from memory of its own: ask for those to come
                ahead = w.at(begin, w.mul(w["in_channel"], AHEAD), tile.element)
                with w.loop(0, length, 64 // tile.size) as line:
                    w.prefetch(w.at(ahead, line.i, tile.element))
            copy_row(w, tile, w.at(to, left, tile.element), begin, w.sub(right, left), w["in_step"])
            fill_zeros(w, tile, to, right, length)
        wraps = w.compare("eq", w.add(tap, 1), w["taps"])
        following = w.at(channel, w.select(wraps, w["in_channel"], 0), tile.element)
        k.next = [w.select(wraps, 0, w.add(tap, 1)), following]
    return w.text()


def join_runs(w: Writer, joined: Reg, runs: Reg, offsets: Reg, number: Reg) -> Reg:
    """Write the stretches of the output that runs make together; returns how many."""
    with w.loop(0, number, carry=[Reg("0", "i64")]) as r:
        run = w.at(runs, w.mul(r.i, RUN), "i64")
        length, place = (w.load("i64", w.at(run, n, "i64"), 8) for n in (4, 5))
        offset = w.load("i64", w.at(offsets, place, "i64"), 8)
        result = r.carry[0]
        before = w.at(joined, w.mul(w.max(w.sub(result, 1), 0), JOINED), "i64")
        begin, extent, start = (w.load("i64", w.at(before, n, "i64"), 8) for n in range(JOINED))
        follows = w.compare("eq", offset, w.add(begin, w.mul(extent, w["out_column"])))
        follows = w.both(follows, w.compare("sgt", result, 0))
        target = w.select(follows, before, w.at(joined, w.mul(result, JOINED), "i64"))
        for n, (old, new) in enumerate(((begin, offset), (w.add(extent, length), length), (start, place))):
            w.store(w.select(follows, old, new), w.at(target, n, "i64"), 8)
        r.next = [w.select(follows, result, w.add(result, 1))]
    return r.carry[0]


def pack_gradients(
    w: Writer,
    tile: Tile,
    target: Reg,
    stride: int,
    gradient: Reg,
    joined: Reg,
    stretches: Reg,
    first: Reg,
    begin: Reg,
    end: Reg,
) -> None:
    """Rows [begin, end) of output gradients, counted from `first`, over the block's pixels."""
    with w.loop(begin, end) as m:
        source = w.at(gradient, w.mul(w.add(first, m.i), w["out_channel"]), tile.element)
        row = w.at(target, w.mul(m.i, stride), tile.element)
        with w.loop(0, stretches) as r:
            stretch = w.at(joined, w.mul(r.i, JOINED), "i64")
            offset, length, place = (w.load("i64", w.at(stretch, n, "i64"), 8) for n in range(JOINED))
            copy_row(
                w, tile, w.at(row, place, tile.element), w.at(source, offset, tile.element), length, w["out_column"]
            )


def clear_tail(w: Writer, tile: Tile, rows: Reg, first: Reg, past: Reg, stride: int, begin: Reg, end: Reg) -> None:
    """Zeros in columns [begin, end) of rows [first, past), which the dots read."""
    with w.when(w.compare("slt", begin, end)), w.loop(first, past) as r:
        row = w.at(rows, w.mul(r.i, stride), tile.element)
        with w.loop(begin, end) as j:
            w.store(Reg("0.0", tile.element), w.at(row, j.i, tile.element), tile.size)
