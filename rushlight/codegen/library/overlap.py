"""The second half of transposed convolutions to few channels:
products of single taps added where their windows overlap.

Enters: the dtype. Leaves: a `Kernel` with the usual ABI. Refuses nothing:
the planner (op/convolve.py) hands it dense products.

With few result channels a register tile is mostly empty, but channels x taps fill it: so the products of every tap with
every input pixel are made first, as one matrix product, and this kernel adds them up in the planes of the result.
"""

from __future__ import annotations

from ..writer import ABI, Reg, Writer, declarations
from .interface import Interface, Tile, declare, load_params, load_pointers

PARAMS = (
    "outs", "in_d", "in_h", "in_w", "out_d", "out_h", "out_w", "taps_d", "taps_h", "taps_w",
    "stride_d", "stride_h", "stride_w", "pad_d", "pad_h", "pad_w", "tap_d", "tap_h", "tap_w",
    "image", "channel", "depth", "row", "column", "bias",
)  # fmt: skip


def overlap_text(tile: Tile) -> str:
    """The kernel: start a plane with the bias, then add the products of one tap after another."""
    w = Writer("conv_overlap", ABI)
    load_params(w, PARAMS)
    load_pointers(w, *OVERLAP.operands)
    pixels = w.mul(w.mul(w["in_d"], w["in_h"]), w["in_w"])
    taps = w.mul(w.mul(w["taps_d"], w["taps_h"]), w["taps_w"])
    with w.loop(w["begin"], w["end"]) as item:
        image, channel = w.div(item.i, w["outs"]), w.rem(item.i, w["outs"])
        plane = w.at(w["result"], w.add(w.mul(image, w["image"]), w.mul(channel, w["channel"])), tile.element)
        start_plane(w, tile, plane, channel)
        source = w.at(w["products"], w.mul(w.mul(item.i, taps), pixels), tile.element)
        with w.loop(0, w["taps_d"]) as d, w.loop(0, w["taps_h"]) as h, w.loop(0, w["taps_w"]) as k:
            tap = w.add(w.mul(w.add(w.mul(d.i, w["taps_h"]), h.i), w["taps_w"]), k.i)
            own = w.at(source, w.mul(tap, pixels), tile.element)
            at = w.sub(w.mul(k.i, w["tap_w"]), w["pad_w"])
            first = w.select(w.compare("slt", at, 0), steps(w, w.sub(0, at), w["stride_w"]), 0)
            last = w.min(
                w.select(w.compare("slt", at, w["out_w"]), steps(w, w.sub(w["out_w"], at), w["stride_w"]), 0), w["in_w"]
            )
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
                    add_row(w, tile, target, row, first, last)
    return w.text() + "\n" + declarations(tile.lanes, tile.element)


def steps(w: Writer, distance: Reg, stride: Reg) -> Reg:
    """How many strides it takes to cover a distance."""
    return w.div(w.add(distance, w.sub(stride, 1)), stride)


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


OVERLAP = declare(
    Interface(
        "conv_overlap", ("products", "bias_data", "result"), PARAMS, "images, channels", overlap_text,
        refuses="products that are not dense as [image, channel, tap, pixel]",
    )
)  # fmt: skip
