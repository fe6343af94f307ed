"""Every n-th pixel, or all: copied side by side, and spread again with zeros between.

Enters: a tile. Leaves: the interfaces `GATHER_PIXELS` and `SPREAD_PIXELS`. Planes of images are the parallel range;
those of dense pixels follow each other. Every second column, the common case, is taken apart and put together in
registers, and the next line is asked for meanwhile: lines that are skipped hide it from the processor.
"""

from __future__ import annotations

from ..writer import ABI, Reg, Writer, declarations
from .interface import Interface, Tile, declare, load_params, load_pointers

PLANE = ("channels", "image", "channel", "depth", "high", "wide", "step_d", "step_h", "step_w")
SPREAD = (*PLANE, "every_d", "every_h", "every_w", "size_d", "size_h", "size_w")
LINE = 64                # bytes of a line of the cache
AHEAD = 2                # lines of pixels between asking for one and reading it


def plane_of(w: Writer, item: Reg) -> Reg:
    """Where an item's plane begins in the array that has gaps."""
    return w.add(w.mul(w.div(item, w["channels"]), w["image"]), w.mul(w.rem(item, w["channels"]), w["channel"]))


def gather_text(tile: Tile) -> str:
    w = Writer("gather_pixels", ABI)
    load_params(w, PLANE)
    load_pointers(w, *GATHER_PIXELS.operands)
    dense, pairs = (w.compare("eq", w["step_w"], step) for step in (1, 2))
    # The last vector of pairs would read past the last pixel.
    paired = w.select(pairs, w.sub(w["wide"], tile.lanes), 0)
    with w.loop(w["begin"], w["end"]) as item:
        plane = w.at(w["source"], plane_of(w, item.i), tile.element)
        with w.loop(0, w["depth"]) as z, w.loop(0, w["high"]) as y:
            of = w.at(plane, w.add(w.mul(z.i, w["step_d"]), w.mul(y.i, w["step_h"])), tile.element)
            line = w.add(w.mul(w.add(w.mul(item.i, w["depth"]), z.i), w["high"]), y.i)
            to = w.at(w["target"], w.mul(line, w["wide"]), tile.element)
            ahead = w.at(of, w.mul(w["step_h"], AHEAD), tile.element)
            with w.when(pairs), w.loop(0, w.mul(w["wide"], 2), LINE // tile.size) as part:
                w.prefetch(w.at(ahead, part.i, tile.element), 1)
            with w.loop(0, paired, tile.lanes) as x:
                place = w.at(of, w.mul(x.i, 2), tile.element)
                both = [w.load(tile.vector, w.at(place, k * tile.lanes, tile.element), tile.size) for k in range(2)]
                w.store(w.shuffle(*both, range(0, 2 * tile.lanes, 2)), w.at(to, x.i, tile.element), tile.size)
            with w.loop(x.i, w.select(dense, w.sub(w["wide"], tile.lanes - 1), x.i), tile.lanes) as x:
                value = w.load(tile.vector, w.at(of, x.i, tile.element), tile.size)
                w.store(value, w.at(to, x.i, tile.element), tile.size)
            with w.loop(x.i, w["wide"], carry=[w.at(of, w.mul(x.i, w["step_w"]), tile.element)]) as rest:
                value = w.load(tile.element, rest.carry[0], tile.size)
                w.store(value, w.at(to, rest.i, tile.element), tile.size)
                rest.next = [w.at(rest.carry[0], w["step_w"], tile.element)]
    return w.text() + "\n" + declarations(tile.lanes, tile.element)


def spread_text(tile: Tile) -> str:
    w = Writer("spread_pixels", ABI)
    load_params(w, SPREAD)
    load_pointers(w, *SPREAD_PIXELS.operands)
    pairs = w.both(w.compare("eq", w["every_w"], 2), w.compare("eq", w["step_w"], 1))
    # A pair is one pixel and the zero behind it: not for the last one, behind which there may be another line.
    paired = w.select(pairs, w.sub(w["wide"], tile.lanes), 0)
    zeros = Reg("zeroinitializer", tile.vector)
    with w.loop(w["begin"], w["end"]) as item:
        plane = w.at(w["target"], plane_of(w, item.i), tile.element)
        with w.loop(0, w["size_d"]) as z, w.loop(0, w["size_h"]) as y:
            to = w.at(plane, w.add(w.mul(z.i, w["step_d"]), w.mul(y.i, w["step_h"])), tile.element)
            near = [w.div(at, w[name]) for at, name in ((z.i, "every_d"), (y.i, "every_h"))]
            met = w.both(w.compare("slt", near[0], w["depth"]), w.compare("slt", near[1], w["high"]))
            for at, own, name in ((z.i, near[0], "every_d"), (y.i, near[1], "every_h")):
                met = w.both(met, w.compare("eq", w.mul(own, w[name]), at))
            line = w.add(w.mul(w.add(w.mul(item.i, w["depth"]), near[0]), w["high"]), near[1])
            of = w.at(w["source"], w.mul(line, w["wide"]), tile.element)
            with w.loop(0, w.select(met, paired, 0), tile.lanes) as x:
                value = w.load(tile.vector, w.at(of, x.i, tile.element), tile.size)
                for k in range(2):
                    order = [n for j in range(tile.lanes // 2) for n in (k * tile.lanes // 2 + j, tile.lanes)]
                    place = w.at(to, w.add(w.mul(x.i, 2), k * tile.lanes), tile.element)
                    w.store(w.shuffle(value, zeros, order), place, tile.size)
            done = w.mul(x.i, w["every_w"])
            fill_line(w, tile, to, done, w["size_w"])
            with w.loop(x.i, w.select(met, w["wide"], 0)) as rest:
                value = w.load(tile.element, w.at(of, rest.i, tile.element), tile.size)
                place = w.mul(w.mul(rest.i, w["every_w"]), w["step_w"])
                w.store(value, w.at(to, place, tile.element), tile.size)
    return w.text() + "\n" + declarations(tile.lanes, tile.element)


def fill_line(w: Writer, tile: Tile, to: Reg, begin: Reg, end: Reg) -> None:
    """Zeros in columns [begin, end) of a line."""
    dense = w.compare("eq", w["step_w"], 1)
    with w.loop(begin, w.select(dense, w.sub(end, tile.lanes - 1), begin), tile.lanes) as v:
        w.store(Reg("zeroinitializer", tile.vector), w.at(to, v.i, tile.element), tile.size)
    with w.loop(v.i, end) as x:
        w.store(Reg("0.0", tile.element), w.at(to, w.mul(x.i, w["step_w"]), tile.element), tile.size)


GATHER_PIXELS = declare(
    Interface("gather_pixels", ("source", "target"), PLANE, "planes of images", gather_text)
)
SPREAD_PIXELS = declare(
    Interface("spread_pixels", ("source", "target"), SPREAD, "planes of images", spread_text)
)
