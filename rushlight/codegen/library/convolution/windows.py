"""Windows as a matrix: what every pixel sees, a row for each channel and tap, zeros outside of the source.

Enters: a tile. Leaves: the interface `WINDOWS`. Rows are the parallel range. Where pixels are as many as the source's,
one step apart, a row is the plane itself, moved: it is copied in one run, and zeros are put where lines meet.
"""

from __future__ import annotations

from ...text.writer import ABI, Reg, Writer, declarations
from ..interface import Interface, Tile, declare, load_params, load_pointers
from .packing import copy_neighbours, copy_row

AXES = ("depth", "high", "wide")
PARAMS = (
    "images", "in_image", "in_channel", "to_row", "to_image",
    *[f"{what}_{axis}" for what in ("taps", "count", "size", "step", "base", "tap", "stride") for axis in AXES],
)


def windows_text(tile: Tile) -> str:
    w = Writer("conv_windows", ABI)
    load_params(w, PARAMS)
    load_pointers(w, *WINDOWS.operands)
    with w.loop(w["begin"], w["end"]) as item:
        wide = w["taps_wide"]
        plane = w.mul(w["taps_high"], wide)
        taps = w.mul(w["taps_depth"], plane)
        tap, channel = w.rem(item.i, taps), w.div(item.i, taps)
        places = (w.div(tap, plane), w.rem(w.div(tap, wide), w["taps_high"]), w.rem(tap, wide))
        first = [w.add(w[f"base_{axis}"], w.mul(at, w[f"tap_{axis}"])) for axis, at in zip(AXES, places, strict=True)]
        seen = [seen_range(w, axis, at) for axis, at in zip(AXES, first, strict=True)]
        source = w.at(w["source"], w.mul(channel, w["in_channel"]), tile.element)
        row = w.at(w["target"], w.mul(item.i, w["to_row"]), tile.element)
        moved = is_moved(w)
        with w.loop(0, w["images"]) as image, w.loop(0, w["count_depth"]) as z:
            there = w.add(w.mul(z.i, w["step_depth"]), first[0])
            of = w.at(
                source, w.add(w.mul(image.i, w["in_image"]), w.mul(there, w["stride_depth"])), tile.element
            )
            lines = w.mul(z.i, w["count_high"])
            to = w.at(row, w.add(w.mul(image.i, w["to_image"]), w.mul(lines, w["count_wide"])), tile.element)
            low, high = seen[1]
            inside = w.compare("ult", there, w["size_depth"])
            low, high = w.select(inside, low, w["count_high"]), w.select(inside, high, w["count_high"])
            with w.when(moved):
                copy_moved(w, tile, to, of, (low, high), seen[2], first)
            with w.when(w.negate(moved)):
                copy_lines(w, tile, to, of, (low, high), seen[2], first)
    return w.text() + "\n" + declarations(tile.lanes, tile.element)


def seen_range(w: Writer, axis: str, first: Reg) -> tuple[Reg, Reg]:
    """Pixels [low, high) along an axis that see something: the one numbered 0 sees element `first` of the source."""
    step = w[f"step_{axis}"]

    def below(place: Reg) -> Reg:
        """Pixels that see less than an element `place` behind what the first one sees."""
        count = w.div(w.sub(w.add(w.max(place, 0), step), 1), step)
        return w.min(count, w[f"count_{axis}"])

    low = below(w.sub(0, first))
    return low, w.max(low, below(w.sub(w[f"size_{axis}"], first)))


def is_moved(w: Writer) -> Reg:
    """Whether lines are as long as the source's, whose elements follow each other."""
    result = w.compare("eq", w["stride_wide"], 1)
    for one, other in (
        (w["step_wide"], 1), (w["step_high"], 1), (w["count_wide"], w["size_wide"]),
        (w["stride_high"], w["size_wide"]),
    ):
        result = w.both(result, w.compare("eq", one, other))
    return result


def copy_moved(
    w: Writer, tile: Tile, to: Reg, of: Reg, lines: tuple[Reg, Reg], columns: tuple[Reg, Reg], first: list[Reg]
) -> None:
    """A plane whose pixels see the elements so many places behind their own."""
    (above, below), (left, right), wide = lines, columns, w["count_wide"]
    whole = w.mul(w["count_high"], wide)
    some = w.both(w.compare("slt", above, below), w.compare("slt", left, right))
    begin = w.select(some, w.add(w.mul(above, wide), left), whole)
    past = w.select(some, w.add(w.mul(w.sub(below, 1), wide), right), whole)
    put_zeros(w, tile, to, begin)
    place = w.add(w.mul(first[1], wide), w.add(first[2], begin))
    with w.when(some):
        copy_neighbours(
            w, tile, w.at(to, begin, tile.element), w.at(of, place, tile.element), w.sub(past, begin), w["step_wide"]
        )
        put_zeros(w, tile, w.at(to, past, tile.element), w.sub(whole, past))
        gap = w.add(w.sub(wide, right), left)
        with w.loop(w.add(above, 1), below) as y, w.loop(0, gap) as x:
            at = w.add(w.sub(w.add(w.mul(y.i, wide), left), gap), x.i)
            w.store(Reg("0.0", tile.element), w.at(to, at, tile.element), tile.size)


def copy_lines(
    w: Writer, tile: Tile, to: Reg, of: Reg, lines: tuple[Reg, Reg], columns: tuple[Reg, Reg], first: list[Reg]
) -> None:
    """A plane of any windows, line by line."""
    (above, below), (left, right), wide = lines, columns, w["count_wide"]
    step = w.mul(w["step_wide"], w["stride_wide"])
    put_zeros(w, tile, to, w.mul(above, wide))
    behind = w.at(to, w.mul(below, wide), tile.element)
    put_zeros(w, tile, behind, w.mul(w.sub(w["count_high"], below), wide))
    column = w.mul(w.add(w.mul(left, w["step_wide"]), first[2]), w["stride_wide"])
    with w.loop(above, below) as y:
        line = w.at(to, w.mul(y.i, wide), tile.element)
        there = w.add(w.mul(y.i, w["step_high"]), first[1])
        source = w.at(of, w.add(w.mul(there, w["stride_high"]), column), tile.element)
        copy_row(w, tile, w.at(line, left, tile.element), source, w.sub(right, left), step)
        for begin, past in ((0, left), (right, wide)):
            with w.loop(begin, past) as x:
                w.store(Reg("0.0", tile.element), w.at(line, x.i, tile.element), tile.size)


def put_zeros(w: Writer, tile: Tile, to: Reg, count: Reg) -> None:
    with w.loop(0, w.sub(count, tile.lanes - 1), tile.lanes) as v:
        w.store(Reg("zeroinitializer", tile.vector), w.at(to, v.i, tile.element), tile.size)
    with w.loop(v.i, count) as x:
        w.store(Reg("0.0", tile.element), w.at(to, x.i, tile.element), tile.size)


WINDOWS = declare(
    Interface("conv_windows", ("source", "target"), PARAMS, "window rows", windows_text)
)
