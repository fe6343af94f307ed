"""The second half of transposed convolutions to few channels:
products of single taps added where their windows overlap.

Enters: the dtype. Leaves: a `Kernel` with the usual ABI. Refuses nothing:
the planner (planners/convolutions/convolve.py) hands it dense products.

With few result channels a register tile is mostly empty, but channels x taps fill it: so the products of every tap with
every input pixel are made first, as one matrix product, and this kernel adds them up in the planes of the result.
"""

from __future__ import annotations

from typing import Any

from ...text.writer import ABI, Reg, Writer, as_reg, declarations
from ..interface import Interface, Tile, declare, load_params, load_pointers
from .convolve import with_finish
from .finish import Finish
from .micro_kernel import transposed

PARAMS = (
    "outs", "in_d", "in_h", "in_w", "out_d", "out_h", "out_w", "taps_d", "taps_h", "taps_w",
    "stride_d", "stride_h", "stride_w", "pad_d", "pad_h", "pad_w", "tap_d", "tap_h", "tap_w",
    "image", "channel", "depth", "row", "column", "bias",
)


def params_of(sizes: tuple[int, ...], shape: tuple[int, ...], window: Any, result: Any, bias: bool) -> list[int]:
    """Values of PARAMS, for a result of sizes `shape` (channels, spatial...)."""

    def three(values: tuple[int, ...], fill: int) -> list[int]:
        return [fill] * (3 - len(values)) + list(values)

    return [
        shape[0], *three(sizes, 1), *three(shape[1:], 1), *three(window.kernel, 1), *three(window.stride, 1),
        *three(window.padding, 0), *three(window.dilation, 1), result.image, result.channel,
        *three(result.spatial, 0), int(bias),
    ]


OVERLAPPED = (*PARAMS, "pitch", "channel0")   # elements between the products of taps; the first channel's number


def overlap_text(tile: Tile, finish: Finish | None = None) -> str:
    """The kernel: start lines with the bias before the first of their products comes, then add those of one tap after
    another; of two neighbours at once where pixels are two columns apart, for together they fill these, and of as many
    as a vector has lanes where pixels are further apart."""
    w = Writer("conv_overlap", ABI)
    load_params(w, OVERLAPPED)
    load_pointers(w, *OVERLAP.operands)
    taps = w.mul(w.mul(w["taps_d"], w["taps_h"]), w["taps_w"])
    near = w.both(w.compare("eq", w["column"], 1), w.compare("eq", w["tap_w"], 1))
    pairs = w.both(near, w.compare("eq", w["stride_w"], 2))
    several = w.both(near, w.compare("sgt", w["stride_w"], 2))
    several = w.both(several, w.compare("eq", w.rem(w["taps_w"], tile.lanes), 0))
    each = w.select(several, tile.lanes, w.select(pairs, 2, 1))
    is_flat = w.compare("eq", w["pad_d"], 0)
    for name in ("in_d", "taps_d", "out_d"):
        is_flat = w.both(is_flat, w.compare("eq", w[name], 1))
    # Of one tap after another where many lie side by side: theirs are many places to read from otherwise.
    by_line = w.both(is_flat, w.negate(several))
    with w.loop(w["begin"], w["end"]) as item:
        image, channel = w.div(item.i, w["outs"]), w.rem(item.i, w["outs"])
        plane = w.at(w["result"], w.add(w.mul(image, w["image"]), w.mul(channel, w["channel"])), tile.element)
        value = start_of(w, tile, channel)
        with w.loop(0, w.select(by_line, 0, w["out_d"])) as z:
            start_lines(w, tile, w.at(plane, w.mul(z.i, w["depth"]), tile.element), value, as_reg(0), w["out_h"])
        source = w.at(w["products"], w.mul(w.mul(item.i, taps), w["pitch"]), tile.element)
        loops = w.loop(0, w["in_d"]), w.loop(0, w["taps_d"]), w.loop(0, w["taps_w"], each)
        with loops[0] as z, loops[1] as d, loops[2] as k:
            to_z = w.sub(w.add(w.mul(z.i, w["stride_d"]), w.mul(d.i, w["tap_d"])), w["pad_d"])
            slab = w.at(plane, w.mul(to_z, w["depth"]), tile.element)
            places = [columns_of(w, w.add(k.i, n)) for n in range(max(2, tile.lanes))]
            lines = w.select(w.compare("ult", to_z, w["out_d"]), w["in_h"], 0)
            counts = w.select(several, w["taps_h"], lines), w.select(several, lines, w["taps_h"])
            begins = w.both(by_line, w.compare("eq", k.i, 0))
            with w.loop(0, counts[0], carry=[w.select(begins, 0, w["out_h"])]) as outer:
                last = w.add(w.mul(outer.i, w["stride_h"]), w.mul(w.sub(w["taps_h"], 1), w["tap_h"]))
                reach = w.max(outer.carry[0], w.min(w.add(w.sub(last, w["pad_h"]), 1), w["out_h"]))
                start_lines(w, tile, slab, value, outer.carry[0], reach)
                with w.loop(0, counts[1]) as inner:
                    y, h = w.select(several, inner.i, outer.i), w.select(several, outer.i, inner.i)
                    tap = w.add(w.mul(w.add(w.mul(d.i, w["taps_h"]), h), w["taps_w"]), k.i)
                    pixel = w.mul(w.add(w.mul(z.i, w["in_h"]), y), w["in_w"])
                    row = w.at(source, w.add(w.mul(tap, w["pitch"]), pixel), tile.element)
                    to_y = w.sub(w.add(w.mul(y, w["stride_h"]), w.mul(h, w["tap_h"])), w["pad_h"])
                    with w.when(w.compare("ult", to_y, w["out_h"])):
                        line = w.at(slab, w.mul(to_y, w["row"]), tile.element)
                        add_line(w, tile, line, row, k.i, places, pairs, several)
                outer.next = [reach]
            start_lines(w, tile, slab, value, outer.carry[0], w.select(begins, w["out_h"], 0))
        if finish is not None:
            with w.loop(0, w["out_d"]) as z, w.loop(0, w["out_h"]) as y:
                line = w.at(plane, w.add(w.mul(z.i, w["depth"]), w.mul(y.i, w["row"])), tile.element)
                number = w.add(w["channel0"], channel)
                w.call("finish", line, w["channel"], 1, w["out_w"], w["column"], number, 1, w["ptrs"])
    return with_finish(w.text() + "\n" + declarations(tile.lanes, tile.element), tile, finish, OVERLAP)


def add_line(
    w: Writer, tile: Tile, line: Reg, row: Reg, k: Reg, places: list[tuple[Reg, Reg, Reg]], pairs: Reg, several: Reg
) -> None:
    """Add a line of the products of some neighbouring taps, from tap `k` of a line on, whose are at `row`."""
    (at, first, last), paired = places[0], w.compare("slt", w.add(k, 1), w["taps_w"])
    ranges = [(begin, end) for _, begin, end in places]
    target = w.at(line, w.mul(at, w["column"]), tile.element)
    with w.when(w.both(pairs, paired)):
        add_pairs(w, tile, target, [row, w.at(row, w["pitch"], tile.element)], ranges)
    with w.when(w.both(pairs, w.negate(paired))):
        add_pairs(w, tile, target, [row], ranges)
    with w.when(several):
        add_several(w, tile, target, row, ranges[: tile.lanes])
    with w.when(w.negate(w.new("i1", f"or {pairs}, {several.text}"))):
        add_row(w, tile, target, row, first, last)


def steps(w: Writer, distance: Reg, stride: Reg) -> Reg:
    """How many strides it takes to cover a distance."""
    return w.div(w.add(distance, w.sub(stride, 1)), stride)


def columns_of(w: Writer, tap: Reg) -> tuple[Reg, Reg, Reg]:
    """Where a tap of the first column goes, and the columns [first, last) whose tap is inside of the result."""
    at = w.sub(w.mul(tap, w["tap_w"]), w["pad_w"])
    first = w.select(w.compare("slt", at, 0), steps(w, w.sub(0, at), w["stride_w"]), 0)
    inside = w.compare("slt", at, w["out_w"])
    return at, first, w.min(w.select(inside, steps(w, w.sub(w["out_w"], at), w["stride_w"]), 0), w["in_w"])


def start_of(w: Writer, tile: Tile, channel: Reg) -> Reg:
    """The channel's bias, or zero."""
    biased = w.compare("eq", w["bias"], 1)
    given = w.load(
        tile.element, w.select(biased, w.at(w["bias_data"], channel, tile.element), w["products"]), tile.size
    )
    return w.select(biased, given, Reg("0.0", tile.element))


def start_lines(w: Writer, tile: Tile, slab: Reg, value: Reg, begin: Reg, end: Reg) -> None:
    """Fill lines [begin, end) with a value."""
    every, near = w.splat(value, tile.lanes), w.compare("eq", w["column"], 1)
    with w.loop(begin, end) as y:
        row = w.at(slab, w.mul(y.i, w["row"]), tile.element)
        with w.loop(0, w.select(near, w.sub(w["out_w"], tile.lanes - 1), 0), tile.lanes) as v:
            w.store(every, w.at(row, v.i, tile.element), tile.size)
        with w.loop(v.i, w["out_w"]) as x:
            w.store(value, w.at(row, w.mul(x.i, w["column"]), tile.element), tile.size)


def add_row(w: Writer, tile: Tile, target: Reg, row: Reg, first: Reg, last: Reg) -> None:
    """Add products [first, last) of a row of pixels to the result, a stride apart."""
    apart = w.mul(w["stride_w"], w["column"])
    near = w.compare("eq", apart, 1)
    with w.loop(first, w.select(near, w.sub(last, tile.lanes - 1), first), tile.lanes) as v:
        place = w.at(target, v.i, tile.element)
        w.store(
            w.fadd(w.load(tile.vector, place, tile.size), w.load(tile.vector, w.at(row, v.i, tile.element), tile.size)),
            place,
            tile.size,
        )
    with w.loop(v.i, last, carry=[w.at(target, w.mul(v.i, apart), tile.element)]) as x:
        value = w.load(tile.element, w.at(row, x.i, tile.element), tile.size)
        w.store(w.fadd(w.load(tile.element, x.carry[0], tile.size), value), x.carry[0], tile.size)
        x.next = [w.at(x.carry[0], apart, tile.element)]


def add_pairs(w: Writer, tile: Tile, target: Reg, rows: list[Reg], columns: list[tuple[Reg, Reg]]) -> None:
    """The same of a tap and its neighbour, whose products belong between the first one's; zeros, if it has none."""
    (first, last), (first1, last1) = columns[:2]
    begin = w.max(first, first1)
    with w.loop(begin, w.sub(w.min(last, last1), tile.lanes - 1), tile.lanes) as v:
        values = [w.load(tile.vector, w.at(row, v.i, tile.element), tile.size) for row in rows]
        values += [Reg("zeroinitializer", tile.vector)] * (2 - len(rows))
        for half in range(2):
            middle = half * tile.lanes // 2
            order = [n for j in range(middle, middle + tile.lanes // 2) for n in (j, tile.lanes + j)]
            place = w.at(target, w.add(w.mul(v.i, 2), half * tile.lanes), tile.element)
            w.store(w.fadd(w.load(tile.vector, place, tile.size), w.shuffle(*values, order)), place, tile.size)
    for n, row in enumerate(rows):
        low, high = columns[n]
        for start, stop in ((low, w.min(begin, high)), (w.max(v.i, low), high)):
            add_single(w, tile, target, row, n, start, stop)


def add_single(w: Writer, tile: Tile, target: Reg, row: Reg, n: int, start: Reg, stop: Reg) -> None:
    """Add products [start, stop) of the tap `n` columns behind the one that `target` belongs to, one by one."""
    with w.loop(start, stop) as x:
        place = w.at(target, w.add(w.mul(x.i, w["stride_w"]), n), tile.element)
        value = w.load(tile.element, w.at(row, x.i, tile.element), tile.size)
        w.store(w.fadd(w.load(tile.element, place, tile.size), value), place, tile.size)


def add_several(w: Writer, tile: Tile, target: Reg, row: Reg, columns: list[tuple[Reg, Reg]]) -> None:
    """The same of as many neighbours as a vector has lanes, whose products of a pixel are neighbours too."""
    rows = [w.at(row, w.mul(w["pitch"], n), tile.element) for n in range(tile.lanes)]
    begin, end = columns[0]
    for first, last in columns[1:]:
        begin, end = w.max(begin, first), w.min(end, last)
    with w.loop(begin, w.sub(end, tile.lanes - 1), tile.lanes) as v:
        square = [w.load(tile.vector, w.at(row, v.i, tile.element), tile.size) for row in rows]
        for n, value in enumerate(transposed(w, tile, square)):
            place = w.at(target, w.mul(w.add(v.i, n), w["stride_w"]), tile.element)
            w.store(w.fadd(w.load(tile.vector, place, tile.size), value), place, tile.size)
    with w.loop(v.i, end) as x:
        value = Reg("poison", tile.vector)
        for n, row in enumerate(rows):
            one = w.load(tile.element, w.at(row, x.i, tile.element), tile.size)
            value = w.new(tile.vector, f"insertelement {value}, {one}, i64 {n}")
        place = w.at(target, w.mul(x.i, w["stride_w"]), tile.element)
        w.store(w.fadd(w.load(tile.vector, place, tile.size), value), place, tile.size)
    for n, (row, (low, high)) in enumerate(zip(rows, columns, strict=True)):
        for start, stop in ((low, w.min(begin, high)), (w.max(x.i, low), high)):
            add_single(w, tile, target, row, n, start, stop)


OVERLAP = declare(
    Interface(
        "conv_overlap", ("products", "bias_data", "result"), OVERLAPPED, "images, channels", overlap_text,
        refuses="products that are not [image, channel, tap, pixel], pixels dense", finishes="elements",
    )
)


# --- products whose outputs and taps are neighbours -------------------------------------------------------------------

GATHERED = (*PARAMS, "groups", "of_image", "of_pixel", "room", "channel0")


def gather_text(tile: Tile, finish: Finish | None = None) -> str:
    """As many outputs at a time as a vector has lanes are summed in memory of their own, pixel after pixel, and then go
    to their planes. The first of all is channel `channel0` of those that ops behind it count."""
    w = Writer("conv_overlap_gather", ABI)
    load_params(w, GATHERED)
    load_pointers(w, *GATHER.operands)
    taps = w.mul(w.mul(w["taps_d"], w["taps_h"]), w["taps_w"])
    with w.loop(w["begin"], w["end"]) as item:
        image, first = w.div(item.i, w["groups"]), w.mul(w.rem(item.i, w["groups"]), tile.lanes)
        # Lanes past the last output repeat it, and are not stored.
        outs = [w.min(w.add(first, lane), w.sub(w["outs"], 1)) for lane in range(tile.lanes)]
        sums = w.at(w["sums"], w.mul(item.i, w["room"]), tile.element)
        start_sums(w, tile, sums, outs)
        own = w.at(w["products"], w.mul(image, w["of_image"]), tile.element)
        lanes = [w.at(own, w.mul(out, taps), tile.element) for out in outs]
        loops = [w.loop(0, w[name]) for name in ("in_d", "in_h", "taps_d", "taps_h")]
        with loops[0] as z, loops[1] as y, loops[2] as d, loops[3] as h:
            to_z = w.sub(w.add(w.mul(z.i, w["stride_d"]), w.mul(d.i, w["tap_d"])), w["pad_d"])
            to_y = w.sub(w.add(w.mul(y.i, w["stride_h"]), w.mul(h.i, w["tap_h"])), w["pad_h"])
            inside = w.both(w.compare("ult", to_z, w["out_d"]), w.compare("ult", to_y, w["out_h"]))
            with w.when(inside), w.loop(0, w["taps_w"]) as k:
                at, begin, end = columns_of(w, k.i)
                tap = w.add(w.mul(w.add(w.mul(d.i, w["taps_h"]), h.i), w["taps_w"]), k.i)
                pixel = w.mul(w.add(w.mul(z.i, w["in_h"]), y.i), w["in_w"])
                of = w.add(w.mul(w.add(pixel, begin), w["of_pixel"]), tap)
                line = w.add(w.mul(w.add(w.mul(to_z, w["out_h"]), to_y), w["out_w"]), at)
                to = w.at(sums, w.mul(w.add(line, w.mul(begin, w["stride_w"])), tile.lanes), tile.element)
                step = w.mul(w["stride_w"], tile.lanes)
                with w.loop(begin, end, carry=[of, to]) as x:
                    of, to = x.carry
                    value = Reg("poison", tile.vector)
                    for lane, base in enumerate(lanes):
                        one = w.load(tile.element, w.at(base, of, tile.element), tile.size)
                        value = w.new(tile.vector, f"insertelement {value}, {one}, i64 {lane}")
                    w.store(w.fadd(w.load(tile.vector, to, tile.size), value), to, tile.size)
                    x.next = [w.add(of, w["of_pixel"]), w.at(to, step, tile.element)]
        put_planes(w, tile, sums, w.mul(image, w["image"]), first, finish is not None)
    return with_finish(w.text() + "\n" + declarations(tile.lanes, tile.element), tile, finish, GATHER)


def start_sums(w: Writer, tile: Tile, sums: Reg, outs: list[Reg]) -> None:
    """The outputs' biases, or zeros."""
    biased = w.compare("eq", w["bias"], 1)
    value = Reg("poison", tile.vector)
    for lane, out in enumerate(outs):
        place = w.select(biased, w.at(w["bias_data"], out, tile.element), w["products"])
        given = w.select(biased, w.load(tile.element, place, tile.size), Reg("0.0", tile.element))
        value = w.new(tile.vector, f"insertelement {value}, {given}, i64 {lane}")
    with w.loop(0, w["room"], tile.lanes) as j:
        w.store(value, w.at(sums, j.i, tile.element), tile.size)


def put_planes(w: Writer, tile: Tile, sums: Reg, image: Reg, first: Reg, finishes: bool) -> None:
    """Sums [pixel, lane] to the planes of outputs from `first` on: squares exchanged in registers where all of the
    outputs are there and pixels are neighbours, else one by one."""
    whole = w.compare("sle", w.add(first, tile.lanes), w["outs"])
    near = w.both(whole, w.compare("eq", w["column"], 1))
    begin = w.add(image, w.mul(first, w["channel"]))
    with w.loop(0, w["out_d"]) as z, w.loop(0, w["out_h"]) as y:
        line = w.mul(w.mul(w.add(w.mul(z.i, w["out_h"]), y.i), w["out_w"]), tile.lanes)
        of = w.at(sums, line, tile.element)
        to = w.at(w["result"], w.total(begin, w.mul(z.i, w["depth"]), w.mul(y.i, w["row"])), tile.element)
        with w.loop(0, w.select(near, w.sub(w["out_w"], tile.lanes - 1), 0), tile.lanes) as x:
            here = [w.at(of, w.mul(w.add(x.i, k), tile.lanes), tile.element) for k in range(tile.lanes)]
            square = [w.load(tile.vector, place, tile.size) for place in here]
            for lane, value in enumerate(transposed(w, tile, square)):
                w.store(value, w.at(to, w.add(w.mul(w["channel"], lane), x.i), tile.element), tile.size)
        count = w.min(w.sub(w["outs"], first), tile.lanes)
        with w.loop(0, count) as lane, w.loop(x.i, w["out_w"]) as rest:
            place = w.add(w.mul(rest.i, tile.lanes), lane.i)
            value = w.load(tile.element, w.at(of, place, tile.element), tile.size)
            target = w.add(w.mul(w["channel"], lane.i), w.mul(rest.i, w["column"]))
            w.store(value, w.at(to, target, tile.element), tile.size)
        if finishes:
            channel = w.add(w["channel0"], first)
            w.call("finish", to, w["channel"], count, w["out_w"], w["column"], channel, 1, w["ptrs"])


GATHER = declare(
    Interface(
        "conv_overlap_gather", ("products", "bias_data", "sums", "result"), GATHERED, "images, groups of channels",
        gather_text, refuses="products that are not [image, pixel, channel, tap], channels and taps dense",
        finishes="elements",
    )
)
