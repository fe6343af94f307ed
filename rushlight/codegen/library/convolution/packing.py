"""Windows in scratch memory: what convolution kernels share to pack pixels under a kernel, and gradients beside them.

Enters: a writer inside a kernel, or a tile. Leaves: text. A pixel is an index over (image, depth, row, column) of the
output; window row k of a block of pixels holds, for channel and tap k, the input element under each pixel, or zero
outside the input. Pixels of one output row are a run, copied in vectors.
"""

from __future__ import annotations

from collections.abc import Callable

from ...text.writer import Reg, Writer
from ..interface import Tile, load_params

Copy = Callable[[Writer, Tile, Reg, Reg, Reg, Reg], None]     # target, source, count, step

GEOMETRY = (
    "outs", "taps", "rows",                       # outputs per group, taps, channels x taps per group
    # input sizes; input index = pixel index * step + base + tap
    "in_d", "in_h", "step_d", "step_h", "base_d", "base_h",
    # strides; of a column step; of the first column
    "in_image", "in_group", "in_channel", "in_depth", "in_row", "in_step", "in_base",
    "out_d", "out_h", "out_w", "pixels",
    "out_image", "out_group", "out_channel", "out_depth", "out_row", "out_column",
    "taps_w",                                     # taps of a line of the kernel
)
TAP = 5            # a tap: element offset, depth and row offsets, first and last+1 output column that it serves
AHEAD = 6          # window rows between asking for memory and reading it
RUN = 6            # a run: source offset, depth, row, column, length, place in the block
PIECE = 3          # a vector to copy: source offset, place in the block, mask of its lanes
STRETCH = 3        # elements to copy: source offset, place in the block, how many
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
    for condition, copy in ways_to_copy(w, step):
        with w.when(condition):
            copy(w, tile, target, source, count, step)


def ways_to_copy(w: Writer, step: Reg) -> list[tuple[Reg, Copy]]:
    """Conditions on the step, of which one holds, and what copies elements then."""
    near = [w.compare("eq", step, apart) for apart in (1, 2, 4)]
    other = w.negate(near[0])
    for condition in near[1:]:
        other = w.both(other, w.negate(condition))
    return list(zip([*near, other], [copy_neighbours, copy_seconds, copy_fourths, copy_all], strict=True))


def copy_neighbours(w: Writer, tile: Tile, target: Reg, source: Reg, count: Reg, step: Reg) -> None:
    wide = w.compare("sge", count, tile.lanes)
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
    with w.when(w.negate(wide)):
        copy_all(w, tile, target, source, count, step)


def copy_seconds(w: Writer, tile: Tile, target: Reg, source: Reg, count: Reg, step: Reg) -> None:
    copy_some(w, tile, target, source, count, step, 2)


def copy_fourths(w: Writer, tile: Tile, target: Reg, source: Reg, count: Reg, step: Reg) -> None:
    copy_some(w, tile, target, source, count, step, 4)


def copy_some(w: Writer, tile: Tile, target: Reg, source: Reg, count: Reg, step: Reg, apart: int) -> None:
    """A vector of neighbours holds every second or fourth of them."""
    # Not for the last elements: the vector would reach past them, perhaps out of memory.
    with w.loop(0, w.sub(count, tile.lanes), tile.lanes) as j:
        copy_apart(w, tile, target, source, j.i, apart, 0)
    many = w.compare("sgt", count, tile.lanes)
    with w.when(many):   # theirs ends with them, over what the one before it wrote
        copy_apart(w, tile, target, source, w.sub(count, tile.lanes), apart, apart - 1)
    with w.when(w.negate(many)):
        copy_all(w, tile, target, source, count, step)


def copy_apart(w: Writer, tile: Tile, target: Reg, source: Reg, first: Reg, apart: int, before: int) -> None:
    """A vector of elements `apart`, from element `first` on; what is read begins `before` the first of them."""
    near = w.load(
        f"<{apart * tile.lanes} x {tile.element}>", w.at(source, w.sub(w.mul(first, apart), before), tile.element),
        tile.size,
    )
    w.store(w.every(near, apart, tile.lanes, before), w.at(target, first, tile.element), tile.size)


def copy_all(w: Writer, tile: Tile, target: Reg, source: Reg, count: Reg, step: Reg) -> None:
    """Elements one by one."""
    with w.loop(0, count, carry=[source]) as j:
        w.store(w.load(tile.element, j.carry[0], tile.size), w.at(target, j.i, tile.element), tile.size)
        j.next = [w.at(j.carry[0], step, tile.element)]


def fill_zeros(w: Writer, tile: Tile, target: Reg, begin: Reg, end: Reg) -> None:
    """Zeros in [begin, end), and up to a vector less one past it."""
    with w.loop(begin, end, tile.lanes) as j:
        w.store(Reg("zeroinitializer", tile.vector), w.at(target, j.i, tile.element), tile.size)


PACK = [
    ("ptr", "target"), ("ptr", "runs"), ("i64", "begin"), ("i64", "end"), ("i64", "from"), ("i64", "past"),
    ("ptr", "input"), ("ptr", "table"), ("i64", "first"), ("i64", "count"), ("ptr", "params"),
]


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
    pieces, found = w.scratch("i64", PIECE * (stride + 1)), w.scratch("i64", 1)
    load_params(w, GEOMETRY, ("taps", "in_d", "in_h", "in_channel", "in_step", "out_w", "taps_w"))
    unit, pair = w.compare("eq", w["in_step"], 1), w.compare("eq", w["in_step"], 2)
    other = w.negate(w.new("i1", f"or {unit}, {pair.text}"))
    bounds = line_bounds(w)
    # Taps of a column one after the other: where all that they see is inside, they copy the same vectors.
    columns = w.loop(0, w["taps_w"])
    with columns as first, w.loop(first.i, w["taps"], w["taps_w"], carry=[Reg("false", "i1")]) as tap:
        entry = w.at(w["table"], w.mul(tap.i, TAP), "i64")
        begin, end = channels_of(w, tap.i)
        row = w.at(w["target"], w.mul(w.sub(w.add(w.mul(begin, w["taps"]), tap.i), w["first"]), stride), tile.element)
        base = w.at(w["input"], w.add(w.mul(begin, w["in_channel"]), w.load("i64", entry, 8)), tile.element)
        is_met, is_inside = w.compare("slt", begin, end), all_inside(w, entry, bounds)
        tap.next = [w.select(is_met, is_inside, tap.carry[0])]
        with w.when(w.both(is_met, w.negate(w.both(is_inside, tap.carry[0])))):
            find_pieces(w, tile, pieces, found, entry, unit, pair)
        with w.when(is_met):
            number = w.load("i64", found, 8)
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


def line_bounds(w: Writer) -> list[Reg]:
    """The least and the greatest depth and row of the runs, where a kernel has several taps."""
    limit = 1 << 62
    start = [Reg(str(bound), "i64") for bound in (limit, -limit, limit, -limit)]
    with w.loop(w["begin"], w.select(w.compare("sgt", w["taps"], 1), w["end"], w["begin"]), carry=start) as r:
        run = w.at(w["runs"], w.mul(r.i, RUN), "i64")
        z, y = (w.load("i64", w.at(run, n, "i64"), 8) for n in (1, 2))
        low_z, high_z, low_y, high_y = r.carry
        r.next = [w.min(low_z, z), w.max(high_z, z), w.min(low_y, y), w.max(high_y, y)]
    return r.carry


def all_inside(w: Writer, entry: Reg, bounds: list[Reg]) -> Reg:
    """Whether the lines that a tap sees are inside of the input for all runs."""
    result = w.compare("sgt", w["taps"], 1)
    for n, (low, high, size) in enumerate(((*bounds[:2], "in_d"), (*bounds[2:], "in_h")), 1):
        offset = w.load("i64", w.at(entry, n, "i64"), 8)
        result = w.both(result, w.compare("sge", w.add(low, offset), 0))
        result = w.both(result, w.compare("slt", w.add(high, offset), w[size]))
    return result


def find_pieces(w: Writer, tile: Tile, pieces: Reg, found: Reg, entry: Reg, unit: Reg, pair: Reg) -> None:
    """Write the vectors that a tap copies, in order of their places: source offset, place, mask; and how many.

    Short runs share a vector where they are neighbours in memory, as those of one image are whose rows are as long as
    the result's: a mask leaves out what a tap does not meet. That takes longer to find out, so others are not asked.
    """
    short = w.both(unit, w.compare("sle", w.mul(w["out_w"], 2), tile.lanes))
    for condition, joins in ((short, True), (w.negate(short), False)):
        with w.when(condition):
            w.store(list_pieces(w, tile, pieces, entry, pair, joins), found, 8)


def list_pieces(w: Writer, tile: Tile, pieces: Reg, entry: Reg, pair: Reg, joins: bool) -> Reg:
    """The same; `joins`: runs are short, and their elements neighbours."""
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
            # Lanes [left, right); or every second of twice as many neighbours, none past the last that is asked for.
            first = w.binary("shl", w.sub(left, v.i), double)
            past = w.max(w.sub(w.binary("shl", w.sub(right, v.i), double), double), first)
            first, past = (w.min(w.max(bound, 0), most) for bound in (first, past))
            mask = w.sub(w.binary("shl", 1, past), w.binary("shl", 1, first))
            piece = of, w.add(place, v.i), mask
            if joins:
                number = join_piece(w, tile, pieces, number, piece, w.sub(length, v.i))
            else:
                put_piece(w, w.at(pieces, w.mul(number, PIECE), "i64"), piece)
                number = w.add(number, 1)
            v.next = [number, w.add(of, w.mul(w["in_step"], tile.lanes))]
        r.next = [v.carry[0]]
    return r.carry[0]


def put_piece(w: Writer, target: Reg, piece: tuple[Reg, Reg, Reg]) -> None:
    for k, value in enumerate(piece):
        w.store(value, w.at(target, k, "i64"), 8)


def join_piece(
    w: Writer, tile: Tile, pieces: Reg, number: Reg, piece: tuple[Reg, Reg, Reg], count: Reg
) -> Reg:
    """Write a piece of `count` lanes into the one before it, where that has room for it and begins as far before it in
    memory as in the block, or behind it; returns how many there are then."""
    before = w.at(pieces, w.mul(w.max(w.sub(number, 1), 0), PIECE), "i64")
    old, there, bits = (w.load("i64", w.at(before, k, "i64"), 8) for k in range(PIECE))
    of, here, mask = piece
    apart = w.sub(here, there)
    fits = w.both(w.compare("sgt", number, 0), w.compare("sle", w.add(apart, count), tile.lanes))
    joins = w.both(fits, w.compare("eq", w.sub(of, old), apart))
    both = w.binary("or", bits, w.binary("shl", mask, w.select(joins, apart, 0)))
    joined = [w.select(joins, one, other) for one, other in ((old, of), (there, here), (both, mask))]
    put_piece(w, w.select(joins, before, w.at(pieces, w.mul(number, PIECE), "i64")), (joined[0], joined[1], joined[2]))
    return w.select(joins, number, w.add(number, 1))


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
    """Taps outside: what a tap and the runs have to do with each other becomes a list of stretches to copy and one of
    vectors of zeros, the same for all channels."""
    w = Writer("pack", PACK, "internal ")
    # a row holds fewer pixels than there are elements from one to the next: every pixel may be a run of its own
    stretches, zeros = w.scratch("i64", STRETCH * stride), w.scratch("i64", 2 * stride)
    load_params(w, GEOMETRY, ("taps", "in_d", "in_h", "in_channel", "in_step"))
    lonely = w.compare("eq", w["taps"], 1)
    ways = ways_to_copy(w, w["in_step"])
    with w.loop(0, w["taps"]) as tap:
        entry = w.at(w["table"], w.mul(tap.i, TAP), "i64")
        begin, end = channels_of(w, tap.i)
        row = w.at(w["target"], w.mul(w.sub(w.add(w.mul(begin, w["taps"]), tap.i), w["first"]), stride), tile.element)
        base = w.at(w["input"], w.add(w.mul(begin, w["in_channel"]), w.load("i64", entry, 8)), tile.element)
        with w.when(w.compare("slt", begin, end)):
            number, empty = find_stretches(w, tile, stretches, zeros, entry)
            channels, apart = w.sub(end, begin), w.mul(w["taps"], stride)
            for condition, copy in ways:
                with w.when(condition), w.loop(0, channels, carry=[row, base]) as c:
                    to, of = c.carry
                    with w.loop(0, empty) as n:
                        place = w.load("i64", w.at(zeros, n.i, "i64"), 8)
                        w.store(Reg("zeroinitializer", tile.vector), w.at(to, place, tile.element), tile.size)
                    with w.loop(0, number) as n:
                        stretch = w.at(stretches, w.mul(n.i, STRETCH), "i64")
                        offset, place, count = (w.load("i64", w.at(stretch, k, "i64"), 8) for k in range(STRETCH))
                        source = w.at(of, offset, tile.element)
                        if copy is copy_neighbours:
                            ask_ahead(w, tile, lonely, source, count)
                        copy(w, tile, w.at(to, place, tile.element), source, count, w["in_step"])
                    c.next = [w.at(to, apart, tile.element), w.at(of, w["in_channel"], tile.element)]
    return w.text()


def channels_of(w: Writer, tap: Reg) -> tuple[Reg, Reg]:
    """Channels c of the window rows asked for: first <= c * taps + tap < first + count."""
    begin, end = (
        w.div(w.add(w.max(w.sub(k, tap), 0), w.sub(w["taps"], 1)), w["taps"])
        for k in (w["first"], w.add(w["first"], w["count"]))
    )
    return begin, end


def ask_ahead(w: Writer, tile: Tile, lonely: Reg, source: Reg, count: Reg) -> None:
    """Where every window row comes from memory of its own: ask for those to come."""
    with w.when(lonely):
        ahead = w.at(source, w.mul(w["in_channel"], AHEAD), tile.element)
        with w.loop(0, count, 64 // tile.size) as line:
            w.prefetch(w.at(ahead, line.i, tile.element))


def find_stretches(w: Writer, tile: Tile, stretches: Reg, zeros: Reg, entry: Reg) -> tuple[Reg, Reg]:
    """Write what a tap copies: source offset, place, length; and where vectors of zeros go, before that is copied over
    what they spill into. Returns how many of each."""
    dz, dy, low, high = (w.load("i64", w.at(entry, n, "i64"), 8) for n in range(1, TAP))
    none = Reg("0", "i64")

    def fill(first: Reg, past: Reg, place: Reg, number: Reg) -> Reg:
        with w.loop(first, past, tile.lanes, carry=[number]) as v:
            w.store(w.add(place, v.i), w.at(zeros, v.carry[0], "i64"), 8)
            v.next = [w.add(v.carry[0], 1)]
        return v.carry[0]

    with w.loop(w["begin"], w["end"], carry=[none, none]) as r:
        number, empty = r.carry
        run = w.at(w["runs"], w.mul(r.i, RUN), "i64")
        source, z, y, column, length, place = (w.load("i64", w.at(run, n, "i64"), 8) for n in range(RUN))
        inside = w.both(w.compare("ult", w.add(z, dz), w["in_d"]), w.compare("ult", w.add(y, dy), w["in_h"]))
        left = w.min(w.max(w.sub(low, column), 0), length)
        right = w.max(w.min(w.sub(high, column), length), left)
        left, right = w.select(inside, left, length), w.select(inside, right, length)
        empty = fill(right, length, place, fill(none, left, place, empty))
        here = w.at(stretches, w.mul(number, STRETCH), "i64")
        values = (w.add(source, w.mul(left, w["in_step"])), w.add(place, left), w.sub(right, left))
        for k, value in enumerate(values):
            w.store(value, w.at(here, k, "i64"), 8)
        r.next = [w.select(w.compare("slt", left, right), w.add(number, 1), number), empty]
    return r.carry[0], r.carry[1]


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
