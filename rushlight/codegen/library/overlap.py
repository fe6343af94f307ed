"""The second half of transposed convolutions to few channels:
products of single taps added where their windows overlap.

Enters: the dtype. Leaves: a `Kernel` with the usual ABI. Refuses nothing:
the planner (op/convolve.py) hands it dense products.

With few result channels a register tile is mostly empty, but channels x taps fill it: so the products of every tap with
every input pixel are made first, as one matrix product, and this kernel adds them up in the planes of the result.
"""

from __future__ import annotations

from typing import Any

from ..writer import ABI, Reg, Writer, declarations
from .convolve import with_finish
from .finish import Finish
from .interface import Interface, Tile, declare, load_params, load_pointers
from .micro_kernel import transposed

PARAMS = (
    "outs", "in_d", "in_h", "in_w", "out_d", "out_h", "out_w", "taps_d", "taps_h", "taps_w",
    "stride_d", "stride_h", "stride_w", "pad_d", "pad_h", "pad_w", "tap_d", "tap_h", "tap_w",
    "image", "channel", "depth", "row", "column", "bias",
)  # fmt: skip


def params_of(sizes: tuple[int, ...], shape: tuple[int, ...], window: Any, result: Any, bias: bool) -> list[int]:
    """Values of PARAMS, for a result of sizes `shape` (channels, spatial...)."""

    def three(values: tuple[int, ...], fill: int) -> list[int]:
        return [fill] * (3 - len(values)) + list(values)

    return [
        shape[0], *three(sizes, 1), *three(shape[1:], 1), *three(window.kernel, 1), *three(window.stride, 1),
        *three(window.padding, 0), *three(window.dilation, 1), result.image, result.channel,
        *three(result.spatial, 0), int(bias),
    ]  # fmt: skip


def overlap_text(tile: Tile) -> str:
    """The kernel: start a plane with the bias, then add the products of one tap after another; of two neighbours at
    once where pixels are two columns apart, for together they fill these."""
    w = Writer("conv_overlap", ABI)
    load_params(w, PARAMS)
    load_pointers(w, *OVERLAP.operands)
    pixels = w.mul(w.mul(w["in_d"], w["in_h"]), w["in_w"])
    taps = w.mul(w.mul(w["taps_d"], w["taps_h"]), w["taps_w"])
    pairs = w.both(w.compare("eq", w["stride_w"], 2), w.compare("eq", w["column"], 1))
    pairs = w.both(pairs, w.compare("eq", w["tap_w"], 1))
    with w.loop(w["begin"], w["end"]) as item:
        image, channel = w.div(item.i, w["outs"]), w.rem(item.i, w["outs"])
        plane = w.at(w["result"], w.add(w.mul(image, w["image"]), w.mul(channel, w["channel"])), tile.element)
        start_plane(w, tile, plane, channel)
        source = w.at(w["products"], w.mul(w.mul(item.i, taps), pixels), tile.element)
        loops = w.loop(0, w["taps_d"]), w.loop(0, w["taps_h"]), w.loop(0, w["taps_w"], w.select(pairs, 2, 1))
        with loops[0] as d, loops[1] as h, loops[2] as k:
            tap = w.add(w.mul(w.add(w.mul(d.i, w["taps_h"]), h.i), w["taps_w"]), k.i)
            own = w.at(source, w.mul(tap, pixels), tile.element)
            at, first, last = columns_of(w, k.i)
            _, *second = columns_of(w, w.add(k.i, 1))
            both = w.both(pairs, w.compare("slt", w.add(k.i, 1), w["taps_w"]))
            with w.loop(0, w["in_d"]) as z, w.loop(0, w["in_h"]) as y:
                to_z = w.sub(w.add(w.mul(z.i, w["stride_d"]), w.mul(d.i, w["tap_d"])), w["pad_d"])
                to_y = w.sub(w.add(w.mul(y.i, w["stride_h"]), w.mul(h.i, w["tap_h"])), w["pad_h"])
                with w.when(w.both(w.compare("ult", to_z, w["out_d"]), w.compare("ult", to_y, w["out_h"]))):
                    row = w.at(own, w.mul(w.add(w.mul(z.i, w["in_h"]), y.i), w["in_w"]), tile.element)
                    target = w.at(
                        plane,
                        w.total(w.mul(to_z, w["depth"]), w.mul(to_y, w["row"]), w.mul(at, w["column"])),
                        tile.element,
                    )
                    with w.when(both):
                        next_row = w.at(row, pixels, tile.element)
                        add_pairs(w, tile, target, (row, next_row), ((first, last), (second[0], second[1])))
                    with w.when(w.negate(both)):
                        add_row(w, tile, target, row, first, last)
    return w.text() + "\n" + declarations(tile.lanes, tile.element)


def steps(w: Writer, distance: Reg, stride: Reg) -> Reg:
    """How many strides it takes to cover a distance."""
    return w.div(w.add(distance, w.sub(stride, 1)), stride)


def columns_of(w: Writer, tap: Reg) -> tuple[Reg, Reg, Reg]:
    """Where a tap of the first column goes, and the columns [first, last) whose tap is inside of the result."""
    at = w.sub(w.mul(tap, w["tap_w"]), w["pad_w"])
    first = w.select(w.compare("slt", at, 0), steps(w, w.sub(0, at), w["stride_w"]), 0)
    inside = w.compare("slt", at, w["out_w"])
    return at, first, w.min(w.select(inside, steps(w, w.sub(w["out_w"], at), w["stride_w"]), 0), w["in_w"])


def start_plane(w: Writer, tile: Tile, plane: Reg, channel: Reg) -> None:
    """Fill a plane with the channel's bias, or zero."""
    biased = w.compare("eq", w["bias"], 1)
    given = w.load(
        tile.element, w.select(biased, w.at(w["bias_data"], channel, tile.element), w["products"]), tile.size
    )
    value = w.select(biased, given, Reg("0.0", tile.element))
    with w.loop(0, w["out_d"]) as z, w.loop(0, w["out_h"]) as y:
        row = w.at(plane, w.add(w.mul(z.i, w["depth"]), w.mul(y.i, w["row"])), tile.element)
        with w.loop(0, w["out_w"], carry=[row]) as x:
            w.store(value, x.carry[0], tile.size)
            x.next = [w.at(x.carry[0], w["column"], tile.element)]


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


def add_pairs(
    w: Writer, tile: Tile, target: Reg, rows: tuple[Reg, Reg], columns: tuple[tuple[Reg, Reg], tuple[Reg, Reg]]
) -> None:
    """The same of a tap and its neighbour, whose products belong between the first one's."""
    (first, last), (first1, last1) = columns
    begin = w.max(first, first1)
    with w.loop(begin, w.sub(w.min(last, last1), tile.lanes - 1), tile.lanes) as v:
        values = [w.load(tile.vector, w.at(row, v.i, tile.element), tile.size) for row in rows]
        for half in range(2):
            middle = half * tile.lanes // 2
            order = [n for j in range(middle, middle + tile.lanes // 2) for n in (j, tile.lanes + j)]
            place = w.at(target, w.add(w.mul(v.i, 2), half * tile.lanes), tile.element)
            w.store(w.fadd(w.load(tile.vector, place, tile.size), w.shuffle(*values, order)), place, tile.size)
    for n, (low, high) in enumerate(columns):
        for start, stop in ((low, w.min(begin, high)), (w.max(v.i, low), high)):
            with w.loop(start, stop) as x:
                place = w.at(target, w.add(w.mul(x.i, 2), n), tile.element)
                value = w.load(tile.element, w.at(rows[n], x.i, tile.element), tile.size)
                w.store(w.fadd(w.load(tile.element, place, tile.size), value), place, tile.size)


OVERLAP = declare(
    Interface(
        "conv_overlap", ("products", "bias_data", "result"), PARAMS, "images, channels", overlap_text,
        refuses="products that are not dense as [image, channel, tap, pixel]",
    )
)  # fmt: skip


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
)  # fmt: skip
