"""Convolution kernels for groups of one channel: rows of the input in a padded buffer, taps added one after another.

Enters: the dtype. Leaves: `Kernel`s with the usual ABI for the result and for the gradient of the weight. Refuses
nothing: the planner (planners/convolutions/tiles.py) chooses blocks that fit the buffer.

With one channel a register tile of outputs would be almost empty, so pixels alone fill the vectors. A block of input
rows is copied with its padding, columns of one remainder of the stride side by side;
then every tap reads plain neighbours.
"""

from __future__ import annotations

from ...text.writer import ABI, Reg, Writer, declarations, mask_declarations
from ..interface import Interface, Tile, declare, load_params, load_pointers
from .finish import Evaluator, Finish, variables
from .packing import copy_row, fill_zeros

PARAMS = (
    "channels", "outs", "taps",                    # result channels, results per input channel, taps
    "in_d", "in_h", "in_w", "step_d", "step_h", "step_w",
    # first depth; depth per tap; row and column before the first; rows taps reach over
    "base_d", "tap_d", "low_h", "low_w", "span_h",
    "in_image", "in_channel", "in_depth", "in_row", "in_column",
    "out_d", "out_h", "out_w", "images",
    "out_image", "out_channel", "out_depth", "out_row", "out_column",
    # blocks of result rows and columns; elements per remainder and per depth
    "taps_d", "block_h", "block_w", "pitch", "slab",
    "weight", "bias",                              # distance of channels' weights; 1 if there is a bias
)
PLACE = 2                # a tap: its place in the buffer, its weight's place in the kernel
BUFFER = 65536           # bytes of padded input
ROW = 1024               # columns a block may have
GROUP = 4                # vectors of pixels computed together
# Rows computed together by the vectors in each, where rows are short: sums of one vector would wait for each other.
ABREAST = {1: 8, 2: 4, 3: 2, 4: 2}
ABREAST_TAPS = 9         # likewise taps whose gradients are computed together


def fill_text(tile: Tile) -> str:
    """fill(buffer, plane, depth, row, column, rows): the input rows under a block of results,
    with zeros around the input."""
    w = Writer(
        "fill",
        [
            ("ptr", "buffer"),
            ("ptr", "plane"),
            ("i64", "z"),
            ("i64", "y"),
            ("i64", "x"),
            ("i64", "rows"),
            ("ptr", "params"),
        ],
        "internal ",
    )
    load_params(w, PARAMS)
    pitch, first = w["pitch"], w.add(w["x"], w["low_w"])
    top = w.add(w.mul(w["y"], w["step_h"]), w["low_h"])
    with w.loop(0, w["taps_d"]) as d:
        z = w.total(w.mul(w["z"], w["step_d"]), w["base_d"], w.mul(d.i, w["tap_d"]))
        # rows [above, past) of the buffer are in the input
        past = w.select(w.compare("ult", z, w["in_d"]), w.sub(w["in_h"], top), 0)
        past = w.max(w.min(past, w["rows"]), 0)
        above = w.min(w.max(w.sub(0, top), 0), past)
        with w.loop(0, w["step_w"]) as p:
            slab = w.add(w.mul(d.i, w["slab"]), w.mul(p.i, pitch))
            limit = w.sub(w.div(w.add(w.sub(w["in_w"], p.i), w.sub(w["step_w"], 1)), w["step_w"]), first)
            left = w.min(w.max(w.sub(0, first), 0), pitch)
            right = w.max(w.min(limit, pitch), left)
            column = w.mul(w.add(w.mul(first, w["step_w"]), p.i), w["in_column"])
            place = w.total(w.mul(z, w["in_depth"]), w.mul(w.add(top, above), w["in_row"]), column)
            apart = w.mul(w["step_w"], pitch)
            target = w.at(w["buffer"], w.add(slab, w.mul(above, apart)), tile.element)
            fill_rows(w, tile, target, apart, w.at(w["plane"], place, tile.element), left, right, w.sub(past, above))
            for begin, end in ((Reg("0", "i64"), above), (past, w["rows"])):
                with w.loop(begin, end) as r:
                    row = w.at(w["buffer"], w.add(slab, w.mul(r.i, apart)), tile.element)
                    fill_zeros(w, tile, row, Reg("0", "i64"), pitch)
    return w.text()


def fill_rows(
    w: Writer, tile: Tile, target: Reg, apart: Reg, source: Reg, left: Reg, right: Reg, rows: Reg
) -> None:
    """Rows of the buffer, `apart` elements from each other: columns [left, right) of the input rows, zeros in the
    others. `source` is where column 0 would be."""
    pitch, step = w["pitch"], w.mul(w["step_w"], w["in_column"])
    other = Reg("true", "i1")
    for every in (1, 2) if tile.masked else ():      # whole vectors, zeros included: a mask serves a column of them
        chosen = w.compare("eq", step, every)
        other = w.both(other, w.negate(chosen))
        count = every * tile.lanes
        with w.when(chosen), w.loop(0, pitch, tile.lanes) as j:
            some = w.lanes_in(w.mul(w.sub(left, j.i), every), w.sub(w.mul(w.sub(right, j.i), every), every - 1), count)
            starts = [w.at(target, j.i, tile.element), w.at(source, w.mul(j.i, every), tile.element)]
            with w.loop(0, rows, carry=starts) as r:
                to, place = r.carry
                near = w.load_some(f"<{count} x {tile.element}>", place, some, tile.size)
                w.store(near if every == 1 else w.every(near, every, tile.lanes), to, tile.size)
                r.next = [w.at(to, apart, tile.element), w.at(place, w["in_row"], tile.element)]
    with w.when(other), w.loop(0, rows, carry=[target, source]) as r:
        to, place = r.carry
        # zeros first, and on the right in vectors that end with the row: none goes past it
        fill_zeros(w, tile, to, Reg("0", "i64"), left)
        fill_zeros(w, tile, to, w.sub(right, w.rem(right, tile.lanes)), pitch)
        begin = w.at(place, w.mul(left, step), tile.element)
        copy_row(w, tile, w.at(to, left, tile.element), begin, w.sub(right, left), step)
        r.next = [w.at(to, apart, tile.element), w.at(place, w["in_row"], tile.element)]


def copy_line(w: Writer, tile: Tile, target: Reg, source: Reg, count: Reg, step: Reg) -> None:
    """count elements, `step` apart, to `target` side by side: vectors with masks also take rows shorter than they."""
    near = w.compare("eq", step, 1) if tile.masked else Reg("false", "i1")
    if tile.masked:
        with w.when(near), w.loop(0, count, tile.lanes) as j:
            some = w.lanes_in(0, w.sub(count, j.i), tile.lanes)
            value = w.load_some(tile.vector, w.at(source, j.i, tile.element), some, tile.size)
            w.store_some(value, w.at(target, j.i, tile.element), some, tile.size)
    with w.when(w.negate(near)):
        copy_row(w, tile, target, source, count, step)


def declared(tile: Tile) -> str:
    """Declarations of everything the texts here call."""
    return declarations(tile.lanes, tile.element) + (mask_declarations(tile.lanes, tile.element) if tile.masked else "")


def blocks(w: Writer, tile: Tile, buffer: Reg, plane: Reg, body) -> None:
    """Fill the buffer for each block of a plane's results,
    and write `body(depth, row, column, rows, columns)` for it."""
    with w.loop(0, w["out_d"]) as z, w.loop(0, w["out_h"], w["block_h"]) as y, w.loop(0, w["out_w"], w["block_w"]) as x:
        rows = w.min(w.sub(w["out_h"], y.i), w["block_h"])
        columns = w.min(w.sub(w["out_w"], x.i), w["block_w"])
        needed = w.total(w.mul(w.sub(rows, 1), w["step_h"]), w["span_h"], 1)
        w.call("fill", buffer, plane, z.i, y.i, x.i, needed, w["params"])
        body(z.i, y.i, x.i, rows, columns)


def place(w: Writer, z: Reg, y: Reg, x: Reg) -> Reg:
    """Offset of a result in its plane."""
    return w.total(w.mul(z, w["out_depth"]), w.mul(y, w["out_row"]), w.mul(x, w["out_column"]))


def row_text(tile: Tile, finish: Finish | None, declared: dict[str, str]) -> str:
    """row(buffer row, weights, places, taps, start, target, columns, numbers): one row of results, to whole vectors."""
    w = Writer(
        "row",
        [
            ("ptr", "source"),
            ("ptr", "weights"),
            ("ptr", "places"),
            ("i64", "taps"),
            (tile.element, "start"),
            ("ptr", "target"),
            ("i64", "columns"),
            *numbers_of(tile, finish),
        ],
        "internal ",
    )
    start = w.splat(w["start"], tile.lanes)

    def group(at: Reg, count: int) -> None:
        source = w.at(w["source"], at, tile.element)
        with w.loop(0, w["taps"], carry=[start] * count) as t:
            entry = w.at(w["places"], w.mul(t.i, PLACE), "i64")
            where = w.at(source, w.load("i64", entry, 8), tile.element)
            own = w.at(w["weights"], w.load("i64", w.at(entry, 1, "i64"), 8), tile.element)
            factor = w.splat(w.load(tile.element, own, tile.size), tile.lanes)
            values = [w.load(tile.vector, w.at(where, v * tile.lanes, tile.element), tile.size) for v in range(count)]
            t.next = [w.fma(value, factor, old) for value, old in zip(values, t.carry, strict=True)]
        for v, value in enumerate(behind(w, tile, finish, t.carry, declared)):
            w.store(value, w.at(w["target"], w.add(at, v * tile.lanes), tile.element), tile.size)

    with w.loop(0, w.sub(w["columns"], GROUP * tile.lanes - 1), GROUP * tile.lanes) as wide:
        group(wide.i, GROUP)
    with w.loop(wide.i, w["columns"], tile.lanes) as single:
        group(single.i, 1)
    return w.text()


def short_text(tile: Tile, vectors: int, finish: Finish | None, declared: dict[str, str]) -> str:
    """short(buffer row, distance of rows, rows, weights, places, taps, start, target, numbers): some rows of `vectors`
    vectors; in place of those past the last `rows`, the last again."""
    w = Writer(
        f"short{vectors}",
        [
            ("ptr", "source"),
            ("i64", "apart"),
            ("i64", "rows"),
            ("ptr", "weights"),
            ("ptr", "places"),
            ("i64", "taps"),
            (tile.element, "start"),
            ("ptr", "target"),
            *numbers_of(tile, finish),
        ],
        "internal ",
    )
    count = ABREAST[vectors]
    start, last = w.splat(w["start"], tile.lanes), w.sub(w["rows"], 1)
    rows = [w.at(w["source"], w.mul(w["apart"], w.min(Reg(str(r), "i64"), last)), tile.element) for r in range(count)]
    with w.loop(0, w["taps"], carry=[start] * (count * vectors)) as t:
        entry = w.at(w["places"], w.mul(t.i, PLACE), "i64")
        place, own = w.load("i64", entry, 8), w.load("i64", w.at(entry, 1, "i64"), 8)
        factor = w.splat(w.load(tile.element, w.at(w["weights"], own, tile.element), tile.size), tile.lanes)
        results = []
        for r, row in enumerate(rows):
            where = w.at(row, place, tile.element)
            for v in range(vectors):
                value = w.load(tile.vector, w.at(where, v * tile.lanes, tile.element), tile.size)
                results.append(w.fma(value, factor, t.carry[r * vectors + v]))
        t.next = results
    for k, value in enumerate(behind(w, tile, finish, t.carry, declared)):
        at = k // vectors * GROUP + k % vectors
        w.store(value, w.at(w["target"], at * tile.lanes, tile.element), tile.size)
    return w.text()


def forward_text(tile: Tile, finish: Finish | None = None) -> str:
    """Planes one after the other, block by block."""
    w = Writer("conv_depthwise", ABI)
    buffer = w.scratch(tile.element, BUFFER // tile.size + 64)
    line = w.scratch(tile.element, ROW + 64)
    load_params(w, PARAMS)
    load_pointers(w, *FORWARD.operands)
    with w.loop(w["begin"], w["end"]) as item:
        image, channel = w.div(item.i, w["channels"]), w.rem(item.i, w["channels"])
        plane = w.at(
            w["input"],
            w.add(w.mul(image, w["in_image"]), w.mul(w.div(channel, w["outs"]), w["in_channel"])),
            tile.element,
        )
        result = w.at(w["result"], w.add(w.mul(image, w["out_image"]), w.mul(channel, w["out_channel"])), tile.element)
        weights = w.at(w["weights"], w.mul(channel, w["weight"]), tile.element)
        biased = w.compare("eq", w["bias"], 1)
        given = w.load(
            tile.element, w.select(biased, w.at(w["bias_data"], channel, tile.element), w["weights"]), tile.size
        )
        start = w.select(biased, given, Reg("0.0", tile.element))
        own = range(len(FORWARD.operands), len(FORWARD.operands) + (0 if finish is None else finish.channels))
        numbers = [w.load("ptr", w.at(w["ptrs"], k, "ptr"), 8) for k in own]
        numbers = [w.load(tile.element, w.at(q, channel, tile.element), tile.size) for q in numbers]

        def short_rows(z: Reg, y: Reg, x: Reg, rows: Reg, columns: Reg) -> Reg:
            """Short rows, several at once; returns how many were computed: all or none."""
            apart = w.mul(w.mul(w["step_h"], w["step_w"]), w["pitch"])
            width = w.div(w.add(columns, tile.lanes - 1), tile.lanes)
            for vectors, count in ABREAST.items():
                whole = w.select(w.compare("eq", width, vectors), rows, 0)
                with w.loop(0, whole, count) as r:
                    source, some = w.at(buffer, w.mul(r.i, apart), tile.element), w.min(w.sub(rows, r.i), count)
                    rest = weights, w["places"], w["taps"], start, line, *numbers  # noqa: B023  written at once
                    w.call(f"short{vectors}", source, apart, some, *rest)
                    target = w.at(result, place(w, z, w.add(y, r.i), x), tile.element)
                    store_rows(w, tile, target, line, vectors, some, columns)
            return w.select(w.compare("sle", width, max(ABREAST)), rows, 0)

        def body(z: Reg, y: Reg, x: Reg, rows: Reg, columns: Reg) -> None:
            done = short_rows(z, y, x, rows, columns)
            with w.loop(done, rows) as r:
                source = w.at(buffer, w.mul(w.mul(w.mul(r.i, w["step_h"]), w["step_w"]), w["pitch"]), tile.element)
                w.call("row", source, weights, w["places"], w["taps"], start, line, columns, *numbers)  # noqa: B023
                target = w.at(result, place(w, z, w.add(y, r.i), x), tile.element)
                store_row(w, tile, target, line, columns)

        blocks(w, tile, buffer, plane, body)
    declarations_of_finish: dict[str, str] = {}
    rows = [row_text(tile, finish, declarations_of_finish)]
    rows += [short_text(tile, vectors, finish, declarations_of_finish) for vectors in ABREAST]
    known = declared(tile)
    more = [line for line in declarations_of_finish.values() if line not in known]
    return "\n".join([w.text(), fill_text(tile), *rows, known, *more])


def behind(w: Writer, tile: Tile, finish: Finish | None, sums: list[Reg], declared: dict[str, str]) -> list[Reg]:
    """What comes behind sums (finish.py), which are in registers; `declared` gets what it calls."""
    if finish is None:
        return sums
    numbers = [w.splat(w[f"number{k}"], tile.lanes) for k in range(finish.channels)]
    evaluator = Evaluator(w, finish)
    results = evaluator.results(tile.lanes, [variables([value], numbers) for value in sums])
    declared.update(evaluator.out.declared)
    return [Reg(value, tile.vector) for value in results]


def numbers_of(tile: Tile, finish: Finish | None) -> list[tuple[str, str]]:
    """The parameters that hold numbers of the channel."""
    return [] if finish is None else [(tile.element, f"number{k}") for k in range(finish.channels)]


def store_rows(w: Writer, tile: Tile, target: Reg, line: Reg, vectors: int, rows: Reg, columns: Reg) -> None:
    """Finished short rows into the result."""
    near = w.compare("eq", w["out_column"], 1) if tile.masked else Reg("false", "i1")
    last = (vectors - 1) * tile.lanes
    if tile.masked:
        some = w.lanes_in(0, w.sub(columns, last), tile.lanes)
        with w.when(near), w.loop(0, rows, carry=[target, line]) as r:
            to, of = r.carry
            for at in range(0, last + 1, tile.lanes):
                value, place = w.load(tile.vector, w.at(of, at, tile.element), tile.size), w.at(to, at, tile.element)
                if at == last:
                    w.store_some(value, place, some, tile.size)
                else:
                    w.store(value, place, tile.size)
            r.next = [w.at(to, w["out_row"], tile.element), w.at(of, GROUP * tile.lanes, tile.element)]
    with w.when(w.negate(near)), w.loop(0, rows) as r:
        of = w.at(line, w.mul(r.i, GROUP * tile.lanes), tile.element)
        store_row(w, tile, w.at(target, w.mul(r.i, w["out_row"]), tile.element), of, columns)


def store_row(w: Writer, tile: Tile, target: Reg, line: Reg, columns: Reg) -> None:
    """A finished row into the result, whose columns may lie apart."""
    apart = w.compare("ne", w["out_column"], 1)
    with w.when(w.negate(apart)):
        copy_line(w, tile, target, line, columns, Reg("1", "i64"))
    with w.when(apart), w.loop(0, columns, carry=[target]) as j:
        w.store(w.load(tile.element, w.at(line, j.i, tile.element), tile.size), j.carry[0], tile.size)
        j.next = [w.at(j.carry[0], w["out_column"], tile.element)]


# --- gradient of the weight -------------------------------------------------------------------------------------------


def weight_text(tile: Tile) -> str:
    """Gradient rows are packed next to the buffer, and each tap is a dot product of both."""
    room = BUFFER // tile.size
    w = Writer("conv_depthwise_weight", ABI)
    buffer, gradients = w.scratch(tile.element, room + 64), w.scratch(tile.element, room + 64)
    load_params(w, PARAMS)
    load_pointers(w, *WEIGHT.operands)
    with w.loop(w["begin"], w["end"]) as item:
        sums = w.at(w["result"], w.mul(item.i, w["taps"]), tile.element)
        with w.loop(0, w["taps"]) as t:
            w.store(Reg("0.0", tile.element), w.at(sums, t.i, tile.element), tile.size)
        with w.loop(0, w["images"]) as image:
            plane = w.at(
                w["input"],
                w.add(w.mul(image.i, w["in_image"]), w.mul(w.div(item.i, w["outs"]), w["in_channel"])),
                tile.element,
            )
            gradient = w.at(
                w["gradient"], w.add(w.mul(image.i, w["out_image"]), w.mul(item.i, w["out_channel"])), tile.element
            )

            def body(z: Reg, y: Reg, x: Reg, rows: Reg, columns: Reg) -> None:
                with w.loop(0, rows) as r:
                    source = w.at(gradient, place(w, z, w.add(y, r.i), x), tile.element)  # noqa: B023  written at once
                    copy_line(
                        w, tile, w.at(gradients, w.mul(r.i, columns), tile.element), source, columns, w["out_column"]
                    )
                stride = w.mul(w.mul(w["step_h"], w["step_w"]), w["pitch"])
                short = w.compare("slt", columns, GROUP * tile.lanes)
                with w.loop(0, w.select(short, w["taps"], 0), ABREAST_TAPS) as t:
                    some, places = w.sub(w["taps"], t.i), w.at(w["places"], w.mul(t.i, PLACE), "i64")
                    own = w.at(sums, t.i, tile.element)
                    w.call("dots_abreast", gradients, buffer, places, some, rows, columns, stride, own)
                with w.loop(0, w.select(short, 0, w["taps"])) as t:
                    offset = w.load("i64", w.at(w["places"], w.mul(t.i, PLACE), "i64"), 8)
                    w.call(
                        "dots",
                        gradients,
                        w.at(buffer, offset, tile.element),
                        rows,
                        columns,
                        stride,
                        w.at(sums, t.i, tile.element),
                    )

            blocks(w, tile, buffer, plane, body)
    return "\n".join([w.text(), fill_text(tile), dots_text(tile), dots_abreast_text(tile), declared(tile)])


def dots_text(tile: Tile) -> str:
    """dots(gradients, windows, rows, columns, stride, sum):
    add the products of rows of gradients and windows `stride` apart.

    The end of a row is a vector too, with zeros for the lanes past it: summed one by one,
    narrow rows would take long and lose bits.
    """
    w = Writer(
        "dots",
        [("ptr", "a"), ("ptr", "b"), ("i64", "rows"), ("i64", "columns"), ("i64", "stride"), ("ptr", "sum")],
        "internal ",
    )
    zero = Reg("zeroinitializer", tile.vector)
    columns = w["columns"]

    numbers = Reg(f"<{', '.join(f'i64 {n}' for n in range(tile.lanes))}>", f"<{tile.lanes} x i64>")
    within = w.new(
        f"<{tile.lanes} x i1>", f"icmp slt {numbers}, {w.splat(w.rem(columns, tile.lanes), tile.lanes).text}"
    )

    def products(at: Reg, a: Reg, b: Reg, sums: list[Reg], ends: bool = False) -> list[Reg]:
        result = []
        for v, old in enumerate(sums):
            index = w.add(at, v * tile.lanes)
            factors = [w.load(tile.vector, w.at(x, index, tile.element), tile.size) for x in (a, b)]
            if ends:   # both: what lies past the end need not be finite
                factors = [w.select(within, factor, zero) for factor in factors]
            result.append(w.fma(*factors, old))
        return result

    with w.loop(0, w["rows"], carry=[w["a"], w["b"], *[zero] * GROUP]) as r:
        a, b, *sums = r.carry
        with w.loop(0, w.sub(columns, GROUP * tile.lanes - 1), GROUP * tile.lanes, carry=sums) as wide:
            wide.next = products(wide.i, a, b, wide.carry)
        with w.loop(wide.i, w.sub(columns, tile.lanes - 1), tile.lanes, carry=wide.carry[:1]) as single:
            single.next = products(single.i, a, b, single.carry)
        with w.loop(single.i, columns, tile.lanes, carry=single.carry) as last:
            last.next = products(last.i, a, b, last.carry, ends=True)
        r.next = [w.at(a, columns, tile.element), w.at(b, w["stride"], tile.element), last.carry[0], *wide.carry[1:]]
    _, _, *sums = r.carry
    total = sums[0]
    for value in sums[1:]:
        total = w.fadd(total, value)
    old = w.load(tile.element, w["sum"], tile.size)
    w.store(w.fadd(old, w.horizontal(total)), w["sum"], tile.size)
    return w.text()


def dots_abreast_text(tile: Tile) -> str:
    """dots_abreast(gradients, buffer, places, taps, rows, columns, stride, sums): the same for several taps, where rows
    are short: the sums of one would wait for each other. In place of those past the last of `taps`, the last again."""
    w = Writer(
        "dots_abreast",
        [("ptr", "a"), ("ptr", "b"), ("ptr", "places"), ("i64", "taps"), ("i64", "rows"), ("i64", "columns"),
         ("i64", "stride"), ("ptr", "sums")],
        "internal ",
    )
    zero, columns, last = Reg("zeroinitializer", tile.vector), w["columns"], w.sub(w["taps"], 1)
    windows = []
    for t in range(ABREAST_TAPS):
        entry = w.at(w["places"], w.mul(w.min(Reg(str(t), "i64"), last), PLACE), "i64")
        windows.append(w.at(w["b"], w.load("i64", entry, 8), tile.element))
    with w.loop(0, w["rows"], carry=[w["a"], Reg("0", "i64"), *[zero] * ABREAST_TAPS]) as r:
        a, offset, *sums = r.carry
        with w.loop(0, columns, tile.lanes, carry=sums) as j:
            some = w.lanes_in(0, w.sub(columns, j.i), tile.lanes)     # what lies past the end need not be finite

            def loaded(place: Reg) -> Reg:
                if tile.masked:
                    return w.load_some(tile.vector, place, some, tile.size)    # noqa: B023  written at once
                return w.select(some, w.load(tile.vector, place, tile.size), zero)     # noqa: B023

            gradient, at = loaded(w.at(a, j.i, tile.element)), w.add(offset, j.i)
            j.next = [
                w.fma(gradient, loaded(w.at(window, at, tile.element)), total)
                for window, total in zip(windows, j.carry, strict=True)
            ]
        r.next = [w.at(a, columns, tile.element), w.add(offset, w["stride"]), *j.carry]
    for t, total in enumerate(r.carry[2:]):
        with w.when(w.compare("sle", Reg(str(t), "i64"), last)):
            place = w.at(w["sums"], t, tile.element)
            w.store(w.fadd(w.load(tile.element, place, tile.size), w.horizontal(total)), place, tile.size)
    return w.text()


FORWARD = declare(
    Interface(
        "conv_depthwise",
        ("input", "weights", "bias_data", "places", "result"),
        PARAMS,
        "images, channels",
        forward_text,
        finishes="channels",
    )
)
WEIGHT = declare(
    Interface(
        "conv_depthwise_weight",
        ("gradient", "input", "places", "result"),
        PARAMS,
        "channels; the result is [channels, taps]",
        weight_text,
    )
)
