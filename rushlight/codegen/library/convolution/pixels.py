"""Every n-th pixel, or all: copied side by side, and spread again with zeros between.

Enters: a tile. Leaves: the interfaces `GATHER_PIXELS` and `SPREAD_PIXELS`. Planes of images are the parallel range;
those of dense pixels follow each other. Every second column, the common case, is taken apart and put together in
registers, and a line to come is asked for meanwhile: lines that are skipped hide it from the processor.
"""

from __future__ import annotations

from collections.abc import Callable

from ...text.writer import ABI, Reg, Writer, as_reg, declarations
from ..interface import Interface, Tile, declare, load_params, load_pointers

PLANE = ("channels", "image", "channel", "depth", "high", "wide", "step_d", "step_h", "step_w")
SPREAD = (*PLANE, "every_d", "every_h", "every_w", "size_d", "size_h", "size_w")
LINE = 64                # bytes of a line of the cache
AHEAD = 8                # lines of pixels between asking for one and reading it: memory is as far as that


def plane_of(w: Writer, item: Reg) -> Reg:
    """Where an item's plane begins in the array that has gaps."""
    return w.add(w.mul(w.div(item, w["channels"]), w["image"]), w.mul(w.rem(item, w["channels"]), w["channel"]))


def gather_text(tile: Tile) -> str:
    w = Writer("gather_pixels", ABI)
    load_params(w, PLANE)
    load_pointers(w, *GATHER_PIXELS.operands)
    dense, pairs = (w.compare("eq", w["step_w"], step) for step in (1, 2))
    in_pairs = w.both(pairs, w.compare("sgt", w["wide"], tile.lanes))
    with w.loop(w["begin"], w["end"]) as item:
        plane = w.at(w["source"], plane_of(w, item.i), tile.element)
        with w.loop(0, w["depth"]) as z, w.loop(0, w["high"]) as y:
            of = w.at(plane, w.add(w.mul(z.i, w["step_d"]), w.mul(y.i, w["step_h"])), tile.element)
            line = w.add(w.mul(w.add(w.mul(item.i, w["depth"]), z.i), w["high"]), y.i)
            to = w.at(w["target"], w.mul(line, w["wide"]), tile.element)
            with w.when(in_pairs):
                gather_pairs(w, tile, of, to)
            with w.when(dense):
                halving(w, tile, as_reg(0), w["wide"], lambda x, count, of=of, to=to: copy_vector(
                    w, tile, w.at(of, x, tile.element), w.at(to, x, tile.element), count))
            done = w.select(in_pairs, w["wide"], w.select(dense, w["wide"], 0))
            with w.loop(done, w["wide"], carry=[of]) as rest:
                value = w.load(tile.element, rest.carry[0], tile.size)
                w.store(value, w.at(to, rest.i, tile.element), tile.size)
                rest.next = [w.at(rest.carry[0], w["step_w"], tile.element)]
    return w.text() + "\n" + declarations(tile.lanes, tile.element)


def gather_pairs(w: Writer, tile: Tile, of: Reg, to: Reg) -> None:
    """Every second element of a line; the line to come is asked for meanwhile."""
    ahead = w.at(of, w.mul(w["step_h"], AHEAD), tile.element)
    with w.loop(0, w.mul(w["wide"], 2), LINE // tile.size) as part:
        w.prefetch(w.at(ahead, part.i, tile.element), 1)

    def pairs_at(x: Reg, count: int, before: int = 1) -> None:
        """What is read ends with the last pixel, not with the element behind it, which may not be there."""
        place = w.at(of, w.sub(w.mul(x, 2), before), tile.element)
        both = w.load(f"<{2 * count} x {tile.element}>", place, tile.size)
        w.store(w.every(both, 2, count, before), w.at(to, x, tile.element), tile.size)

    pairs_at(as_reg(0), tile.lanes, 0)
    halving(w, tile, as_reg(tile.lanes), w["wide"], pairs_at)


def copy_vector(w: Writer, tile: Tile, of: Reg, to: Reg, count: int) -> None:
    w.store(w.load(f"<{count} x {tile.element}>", of, tile.size), to, tile.size)


def spread_text(tile: Tile) -> str:
    w = Writer("spread_pixels", ABI)
    load_params(w, SPREAD)
    load_pointers(w, *SPREAD_PIXELS.operands)
    pairs = w.both(w.compare("eq", w["every_w"], 2), w.compare("eq", w["step_w"], 1))
    # A pair is one pixel and the zero behind it: not for the last one, where another line begins behind it.
    paired = w.select(pairs, w.min(w["wide"], w.div(w["size_w"], 2)), 0)
    # lines without pixels follow those with some, as one run where nothing is between them
    is_run = w.both(w.compare("eq", w["step_w"], 1), w.compare("eq", w["step_h"], w["size_w"]))
    with w.loop(w["begin"], w["end"]) as item:
        plane = w.at(w["target"], plane_of(w, item.i), tile.element)
        with w.loop(0, w["depth"]) as z:
            first, past = gap_of(w, z.i, "depth", "every_d", "size_d")
            slab = w.at(plane, w.mul(first, w["step_d"]), tile.element)
            with w.loop(0, w["high"]) as y:
                line, below = gap_of(w, y.i, "high", "every_h", "size_h")
                to = w.at(slab, w.mul(line, w["step_h"]), tile.element)
                row = w.add(w.mul(w.add(w.mul(item.i, w["depth"]), z.i), w["high"]), y.i)
                done = spread_line(w, tile, to, w.at(w["source"], w.mul(row, w["wide"]), tile.element), paired)
                lines = w.sub(below, line)
                fill_line(w, tile, to, done, w.select(is_run, w.mul(lines, w["size_w"]), w["size_w"]))
                spread_rest(w, tile, to, w.at(w["source"], w.mul(row, w["wide"]), tile.element), done)
                with w.loop(1, w.select(is_run, 1, lines)) as gap:
                    fill_line(w, tile, w.at(to, w.mul(gap.i, w["step_h"]), tile.element), as_reg(0), w["size_w"])
            with w.loop(w.add(first, 1), past) as empty, w.loop(0, w["size_h"]) as y:
                at = w.add(w.mul(empty.i, w["step_d"]), w.mul(y.i, w["step_h"]))
                fill_line(w, tile, w.at(plane, at, tile.element), as_reg(0), w["size_w"])
    return w.text() + "\n" + declarations(tile.lanes, tile.element)


def gap_of(w: Writer, nth: Reg, count: str, every: str, size: str) -> tuple[Reg, Reg]:
    """Where the nth of some lines, or planes, goes, and where the next one would, or the end."""
    first = w.mul(nth, w[every])
    is_last = w.compare("eq", w.add(nth, 1), w[count])
    return first, w.select(is_last, w[size], w.add(first, w[every]))


def spread_line(w: Writer, tile: Tile, to: Reg, of: Reg, paired: Reg) -> Reg:
    """So many pixels and the zeros behind them; returns how many elements that were. No byte is written twice: lines of
    the cache that are written once, and whole, are not read before (`halving`)."""

    def pairs_at(x: Reg, count: int) -> None:
        kind = f"<{count} x {tile.element}>"
        value = w.load(kind, w.at(of, x, tile.element), tile.size)
        order = [n for j in range(count) for n in (j, count)]
        both = w.shuffle(value, Reg("zeroinitializer", kind), order)
        w.store(both, w.at(to, w.mul(x, 2), tile.element), tile.size)

    halving(w, tile, as_reg(0), paired, pairs_at)
    return w.mul(paired, 2)


def halving(w: Writer, tile: Tile, begin: Reg, end: Reg, put: Callable[[Reg, int], None]) -> None:
    """put(place, count) from `begin` to `end`: as many as a vector has, then half as many, down to one."""
    count = tile.lanes
    with w.loop(begin, w.sub(end, 4 * count - 1), 4 * count) as several:
        for n in range(4):
            put(w.add(several.i, n * count), count)
    with w.loop(several.i, w.sub(end, count - 1), count) as v:
        put(v.i, count)
    place = v.i
    while count > 1:
        count //= 2
        fits = w.compare("sle", w.add(place, count), end)
        with w.when(fits):
            put(place, count)
        place = w.select(fits, w.add(place, count), place)


def spread_rest(w: Writer, tile: Tile, to: Reg, of: Reg, done: Reg) -> None:
    """Pixels that go one by one, from element `done` of the line on."""
    with w.loop(w.div(done, w["every_w"]), w["wide"]) as x:
        value = w.load(tile.element, w.at(of, x.i, tile.element), tile.size)
        w.store(value, w.at(to, w.mul(w.mul(x.i, w["every_w"]), w["step_w"]), tile.element), tile.size)


def fill_line(w: Writer, tile: Tile, to: Reg, begin: Reg, end: Reg) -> None:
    """Zeros in columns [begin, end) of a line."""
    dense = w.compare("eq", w["step_w"], 1)

    def zeros_at(x: Reg, count: int) -> None:
        w.store(Reg("zeroinitializer", f"<{count} x {tile.element}>"), w.at(to, x, tile.element), tile.size)

    with w.when(dense):
        halving(w, tile, begin, end, zeros_at)
    with w.loop(w.select(dense, end, begin), end) as x:
        w.store(Reg("0.0", tile.element), w.at(to, w.mul(x.i, w["step_w"]), tile.element), tile.size)


GATHER_PIXELS = declare(
    Interface("gather_pixels", ("source", "target"), PLANE, "planes of images", gather_text)
)
SPREAD_PIXELS = declare(
    Interface("spread_pixels", ("source", "target"), SPREAD, "planes of images", spread_text)
)
