"""Packing for tiles: lines of a matrix side by side, as functions that kernels call.

Enters: a `TileFunction` (tiles/functions.py) of the kinds that the statement `Pack` needs. Leaves: its text. Lines that
are runs of memory are exchanged in registers, others copied in vectors; parts of complex numbers twice, as they are and
times i. What is missing of a strip is zero, or what the last lines are: finite, and nobody looks at it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..text.writer import Number, Reg, Writer, as_reg
from .shapes import TileShape

AHEAD = 16          # values of k between asking for memory that lies in short runs and reading it
AHEAD_RUN = 4       # the same for long runs, in vectors
LINE = 64           # bytes of a line of the cache
PACK = (
    ("ptr", "source"), ("i64", "line"), ("i64", "step"), ("ptr", "target"), ("i64", "apart"),
    ("i64", "lines"), ("i64", "length"), ("i64", "count"),
)
EXCHANGE = (
    ("ptr", "source"), ("i64", "line"), ("i64", "first"), ("i64", "last"),
    ("ptr", "target"), ("i64", "pitch"), ("i64", "length"), ("i64", "wanted"),
)


def pack_text(function: Any, linkage: str) -> str:
    """Lines that are runs of memory are exchanged in registers, others copied in vectors."""
    shape, (width, only_runs) = function.shape, function.sizes
    pitch, lanes = shape.pitch(width), shape.lanes
    exchange = function.callees()[0].name
    w = Writer(function.name, PACK, linkage)
    runs = w.compare("eq", w["step"], 1)
    with w.when(runs), w.loop(0, w["count"]) as strip:
        target, first = w.mul(strip.i, w["apart"]), w.mul(strip.i, width)
        last = w.sub(w["lines"], 1)
        with w.loop(0, width, lanes) as group:
            place = w.at(w["target"], w.add(target, group.i), shape.element)
            lines = (w["source"], w["line"], w.add(first, group.i), last)
            wanted = w.min(w.sub(width, group.i), lanes) if width % lanes else lanes
            w.call(exchange, *lines, place, as_reg(pitch), w["length"], wanted)
        copy_elements(w, shape, width, first, target, w.sub(w["length"], w.rem(w["length"], lanes)), pitch)
    if not only_runs:
        copy_lines(w, shape, width, runs)
    return w.text()


def copy_lines(w: Writer, shape: TileShape, width: int, runs: Reg) -> None:
    """Lines whose neighbours lie side by side."""
    pitch, lanes = shape.pitch(width), shape.lanes
    with w.when(w.negate(runs)):
        # Strips of which all lines exist, one value of k after another: what lies side by side is read together.
        whole = w.min(w["count"], w.div(w.add(w["lines"], width - pitch), width))
        with w.loop(0, w["length"]) as k, w.loop(0, whole) as strip:
            source = w.at(w["source"], w.add(w.mul(strip.i, width), w.mul(k.i, w["step"])), shape.element)
            target = w.at(w["target"], w.add(w.mul(strip.i, w["apart"]), w.mul(k.i, pitch)), shape.element)
            later = w.at(source, w.mul(w["step"], AHEAD), shape.element)
            for at in range(0, pitch, lanes):
                w.prefetch(w.at(later, at, shape.element))
                here, there = (w.at(place, at, shape.element) for place in (source, target))
                copy_vector(w, shape, here, there, min(lanes, pitch - at))
        with w.loop(whole, w["count"]) as strip:
            first, target = w.mul(strip.i, width), w.mul(strip.i, w["apart"])
            left = w.sub(w["lines"], first)
            if shape.is_masked:
                copy_masked(w, shape, width, first, left, target)
            else:
                # a last line that is alone is read alone (`last_alone`)
                some = w.select(w.compare("eq", left, 1), 1, width) if shape.by_lane else width
                copy_elements(w, shape, some, first, target, 0, pitch)


def copy_masked(w: Writer, shape: TileShape, width: int, first: Reg, left: Reg, target: Reg) -> None:
    """A strip of which so many lines are `left`; zeros stand for the others."""
    lanes, element, size = shape.lanes, shape.element, shape.size
    present = [w.lanes_in(0, w.sub(left, at), lanes) for at in range(0, width, lanes)]
    with w.loop(0, w["length"]) as k:
        source = w.at(w["source"], w.add(first, w.mul(k.i, w["step"])), element)
        to = w.at(w["target"], w.add(target, w.mul(k.i, width)), element)
        for n, at in enumerate(range(0, width, lanes)):
            some = present[n] if width - at >= lanes else w.both(present[n], w.lanes_in(0, width - at, lanes))
            value = w.load_some(shape.vector, w.at(source, at, element), some, size)
            if width - at >= lanes:
                w.store(value, w.at(to, at, element), size)
            else:
                w.store_some(value, w.at(to, at, element), w.lanes_in(0, width - at, lanes), size)


def pairs_text(function: Any, linkage: str) -> str:
    """Lines that are parts of complex numbers, side by side: as they are, and times i."""
    shape, (width,) = function.shape, function.sizes
    w = Writer(function.name, PACK, linkage)
    lanes, element, size = shape.lanes, shape.element, shape.size
    times_i = [n for lane in range(0, lanes, 2) for n in (lanes + lane + 1, lane)]
    whole = w.min(w["count"], w.div(w["lines"], width))
    with w.loop(0, w["length"], 2) as k:
        row = w.at(w["source"], w.mul(w.div(k.i, 2), w["step"]), element)
        spans: list[tuple[Reg | int, Reg]] = [(0, whole), *([(whole, w["count"])] if shape.is_masked else [])]
        for begin, end in spans:
            with w.loop(begin, end) as strip:
                source = w.at(row, w.mul(strip.i, width), element)
                target = w.at(w["target"], w.add(w.mul(strip.i, w["apart"]), w.mul(k.i, width)), element)
                later = w.at(source, w.mul(w["step"], AHEAD), element)
                left = w.sub(w["lines"], w.mul(strip.i, width))
                for at in range(0, width, lanes):
                    w.prefetch(w.at(later, at, element))
                    place = w.at(source, at, element)
                    if begin is whole:
                        value = w.load_some(shape.vector, place, w.lanes_in(0, w.sub(left, at), lanes), size)
                    else:
                        value = w.load(shape.vector, place, size)
                    w.store(value, w.at(target, at, element), size)
                    turned = shuffle(w, value, w.new(shape.vector, f"fneg {value}"), times_i)
                    w.store(turned, w.at(target, width + at, element), size)
        if not shape.is_masked:
            pairs_one_by_one(w, shape, width, row, whole, k.i)
    return w.text()


def pairs_one_by_one(w: Writer, shape: TileShape, width: int, row: Reg, whole: Reg, k: Reg) -> None:
    """Strips that lines are missing of; the last ones stand for them."""
    element, size = shape.element, shape.size
    with w.loop(whole, w["count"]) as strip, w.loop(0, width, 2) as r:
        place = w.at(row, w.min(w.add(w.mul(strip.i, width), r.i), w.sub(w["lines"], 2)), element)
        target = w.total(w.mul(strip.i, w["apart"]), w.mul(k, width), r.i)
        real, imaginary = (w.load(element, w.at(place, n, element), size) for n in range(2))
        values = (real, imaginary), (w.new(element, f"fneg {imaginary}"), real)
        for n, pair in enumerate(values):
            for part, value in enumerate(pair):
                w.store(value, w.at(w["target"], w.add(target, n * width + part), element), size)


def copy_vector(w: Writer, shape: TileShape, source: Reg, target: Reg, count: int) -> None:
    """The first `count` lanes of a vector."""
    if count == shape.lanes:
        w.store(w.load(shape.vector, source, shape.size), target, shape.size)
        return
    mask = w.lanes_in(0, count, shape.lanes)
    w.store_some(w.load_some(shape.vector, source, mask, shape.size), target, mask, shape.size)


def exchange_text(function: Any, linkage: str) -> str:
    """`lanes` lines, from runs of memory to vectors over lines, of which the first `wanted` lanes are stored if others
    would be overwritten: a function, for packs of all widths are made of it."""
    w = Writer(function.name, EXCHANGE, linkage)
    shape, lanes = function.shape, function.shape.lanes
    mask = w.lanes_in(0, w["wanted"], lanes) if shape.is_masked else None
    # Asked for ahead of time: what follows in long lines, the next lines after short ones.
    ahead = w.select(w.compare("sgt", w["length"], AHEAD_RUN * lanes), AHEAD_RUN * lanes, w.mul(w["line"], lanes))
    lines = [w.min(w.add(w["first"], r), w["last"]) for r in range(lanes)]
    sources = [w.at(w["source"], w.mul(line, w["line"]), shape.element) for line in lines]
    line = LINE // shape.size
    first: Number = 0
    for length in (line, lanes) if shape.by_lane else (lanes,):     # whole lines of the cache, asked for once
        with w.loop(first, w.sub(w["length"], length - 1), length) as k:
            places = [w.at(source, k.i, shape.element) for source in sources]
            for place in places:
                w.prefetch(w.at(place, ahead, shape.element))
            target = w.at(w["target"], w.mul(k.i, w["pitch"]), shape.element)
            for at in range(0, length, lanes):
                rows = [w.load(shape.vector, w.at(place, at, shape.element), shape.size) for place in places]
                for column in transposed(w, rows, lanes, 16 // shape.size):
                    if mask is None:
                        w.store(column, target, shape.size)
                    else:
                        w.store_some(column, target, mask, shape.size)
                    target = w.at(target, w["pitch"], shape.element)
        first = k.i
    return w.text()


def transposed(w: Writer, rows: list[Reg], lanes: int, per: int) -> list[Reg]:
    """A square of lanes: squares inside blocks of 16 bytes (`per` lanes) first, then whole blocks. Both are single
    instructions on every target, and LLVM finds them soon."""
    columns: list[list[Reg]] = [[] for _ in range(per)]      # the j-th of every block, from each group of rows
    for g in range(0, lanes, per):
        for j, column in enumerate(interleaved(w, rows[g : g + per], lanes, per)):
            columns[j].append(column)
    blocks = [gathered(w, column, lanes, per) for column in columns]
    return [blocks[c % per][c // per] for c in range(lanes)]


def interleaved(w: Writer, rows: list[Reg], lanes: int, per: int) -> list[Reg]:
    """Columns of `per` rows inside each block."""
    units = 1
    while units < per:
        # of pairs of rows, units of the lower and of the upper half of each block in turn
        low, high = list[int](), list[int]()
        for half, order in ((0, low), (per // 2, high)):
            for block in range(0, lanes, per):
                for unit in range(block + half, block + half + per // 2, units):
                    order += [*range(unit, unit + units), *range(lanes + unit, lanes + unit + units)]
        pairs = (
            list(zip(rows[: per // 2], rows[per // 2 :], strict=True))
            if units > 1
            else list(zip(rows[::2], rows[1::2], strict=True))
        )
        rows = [shuffle(w, a, b, order) for a, b in pairs for order in (low, high)]
        units *= 2
        w.cut()
    return rows


def gathered(w: Writer, vectors: list[Reg], lanes: int, per: int) -> list[Reg]:
    """Block b of every vector side by side, for each b."""
    if len(vectors) == 1:
        return vectors
    halves = []
    w.cut()
    for odd in (0, per):
        order = [first + lane for first in range(odd, 2 * lanes, 2 * per) for lane in range(per)]
        pairs = zip(vectors[::2], vectors[1::2], strict=True)
        halves.append(gathered(w, [shuffle(w, a, b, order) for a, b in pairs], lanes, per))
    return [column for both in zip(*halves, strict=True) for column in both]


def shuffle(w: Writer, a: Reg, b: Reg, order: Sequence[int]) -> Reg:
    """Lanes of two vectors, in the given order."""
    mask = ", ".join(f"i32 {n}" for n in order)
    return w.new(a.type, f"shufflevector {a}, {b}, <{len(order)} x i32> <{mask}>")


def copy_elements(
    w: Writer, shape: TileShape, width: Number, line: Reg, target: Reg, first: Number, pitch: int
) -> None:
    """The values of k from `first` on of the strip that begins with `line`, one element at a time."""
    last = w.sub(w["lines"], 1)
    with w.loop(first, w["length"]) as k, w.loop(0, width) as r:
        source = w.add(w.mul(w.min(w.add(line, r.i), last), w["line"]), w.mul(k.i, w["step"]))
        value = w.load(shape.element, w.at(w["source"], source, shape.element), shape.size)
        place = w.total(target, w.mul(k.i, pitch), r.i)
        w.store(value, w.at(w["target"], place, shape.element), shape.size)
