"""Planning convolutions of one channel per group whose planes are small: channels in lanes.

Enters: the walks of one convolution, one for each remainder of the strides of a transposed one, and the strides of its
weights. Leaves: a step over the kernel of codegen/library/convolution/channel_lanes.py, whose table lists runs of
results. Refuses nothing: the answer is None where operands lie otherwise, and where another form pays.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from math import ceil
from typing import Any

from ...codegen.library.convolution import channel_lanes
from ...codegen.library.interface import kernel_of, tile_of
from ...loops.record import Record
from ...op.step import Step
from .walk import WORK, Axis, Finisher, Walk, Weights
from .windows import tap_places

# Columns of a result, by the lanes of a vector, up to which rows in lanes (codegen/library/convolution/depthwise.py)
# take longer:
# where strides are 1, and where pixels are skipped. Strided gradients and those of weights always do.
NARROW = {4: 64, 8: 28, 16: 28}
NARROW_STRIDED = {4: 512, 8: 28, 16: 16}


class Planes(Record):
    """Sizes of the planes: the input's, the result's; columns of the buffer, and the one where the input begins."""

    in_h: int
    in_w: int
    out_h: int
    out_w: int
    pitch: int
    left: int


def reach(axis: Axis) -> tuple[int, int]:
    """The first and the last element that an axis sees, if it sees any."""
    ends = [t * axis.step + axis.base + j * axis.tap_step for t in (0, axis.count - 1) for j in (0, axis.taps - 1)]
    return min(ends), max(ends)


def planes_of(walks: Sequence[Walk]) -> Planes:
    """What the walks of one convolution read and write."""
    h, w = walks[0].axes[1:]
    last = [max(a.first + (a.count - 1) * a.every for a in (walk.axes[k] for walk in walks)) + 1 for k in (1, 2)]
    seen = [reach(walk.axes[2]) for walk in walks if walk.taps]
    left = max(0, -min([low for low, _ in seen], default=0))
    right = max([w.size, *[high + 1 for _, high in seen]])
    return Planes(h.size, w.size, last[0], last[1], left + right, left)


def are_planes(code: str, walks: Sequence[Walk], planes: Planes) -> bool:
    """Whether (collapsed) walks are of single channels, as many as lanes at least, whose planes are runs of memory."""
    one, tile = walks[0], tile_of(code)
    if code != "f32" or (one.channels, one.outs) != (1, 1) or one.groups < tile.lanes:
        return False
    if any((a.axes[0].size, a.axes[0].count, a.axes[0].taps) != (1, 1, 1) for a in walks):
        return False
    dense = one.source.spatial[1:] == (planes.in_w, 1) and one.result.spatial[1:] == (planes.out_w, 1)
    return dense and min(planes.in_w, planes.out_w) >= channel_lanes.QUAD


def suits_lanes(code: str, walks: Sequence[Walk], weights: Weights) -> bool:
    """Whether the (collapsed) walks of a convolution of single channels are ones for vectors of channels."""
    positions, planes = sum(walk.taps for walk in walks), planes_of(walks)
    most = NARROW if walks[0].axes[2].step == 1 else NARROW_STRIDED
    return (
        are_planes(code, walks, planes)
        and (len(walks) > 1 or planes.out_w <= most[tile_of(code).lanes])
        and weights.spatial[-1] == 1
        and weights.group == positions
        and walks[0].axes[2].step in channel_lanes.STEPS
        and channel_lanes.QUAD <= positions <= channel_lanes.POSITIONS
        and min(walk.axes[2].count for walk in walks) >= min(channel_lanes.ABREAST)
    )


class Block(Record):
    """Rows [first, past) of results, and the rows [low, high) of the input that they see."""

    first: int
    past: int
    low: int
    high: int


def seen_rows(walks: Sequence[Walk], first: int, past: int) -> tuple[int, int]:
    """Rows that the result's rows [first, past) see, inside of the input or not; some row, if they see none."""
    seen = [
        t * h.step + h.base + j * h.tap_step
        for h in (walk.axes[1] for walk in walks if walk.taps)
        for t in range(h.count) if first <= h.first + t * h.every < past
        for j in (0, h.taps - 1)
    ]
    return min(seen, default=0), max(seen, default=0) + 1


def blocks_of(walks: Sequence[Walk], planes: Planes, lanes: int, outside: bool) -> list[Block] | None:
    """Blocks of about equal height that stay in the nearest cache; None if a row does not. `outside`: with the rows
    outside of the input that are seen."""
    room, vector = channel_lanes.BUFFER // 4 // lanes, planes.out_w

    def cut(height: int) -> list[Block]:
        found = []
        for first in range(0, planes.out_h, height):
            past = min(first + height, planes.out_h)
            low, high = seen_rows(walks, first, past)
            if not outside:
                low = min(max(low, 0), planes.in_h - 1)
                high = max(low + 1, min(high, planes.in_h))
            found.append(Block(first, past, low, high))
        return found

    for count in range(1, planes.out_h + 1):
        blocks = cut(ceil(planes.out_h / count))
        if all((b.high - b.low) * planes.pitch + (b.past - b.first) * vector <= room for b in blocks):
            return blocks
    return None


def abreast(walks: Sequence[Walk]) -> int:
    """How many results to compute together, where no run is shorter: multiply-adds take two loads' time, and wait for
    the one four cycles before."""
    counts = [walk.axes[2].count for walk in walks for _ in range(walk.axes[1].count)]

    def cost(some: int) -> float:
        return sum(ceil(count / some) for count in counts) * max(4, (some + 1) / 2)

    return min((some for some in channel_lanes.ABREAST if some <= min(counts)), key=cost)


def places_of(planes: Planes, blocks: Sequence[Block]) -> list[int]:
    """Pixels of the largest block in the buffer."""
    rows = min(planes.in_h, max(block.high - block.low for block in blocks))
    return [y * planes.pitch + planes.left + x for y in range(rows) for x in range(planes.in_w)]


def taps_of(walk: Walk, planes: Planes) -> list[int]:
    """Places of a walk's taps in the buffer, for the first pixel of a row that sees row 0 first."""
    _, h, w = walk.axes
    return [
        (h.base + j * h.tap_step) * planes.pitch + planes.left + w.base + i * w.tap_step
        for j in range(h.taps) for i in range(w.taps)
    ]


def runs_of(walks: Sequence[Walk], planes: Planes, block: Block, lanes: int) -> list[int]:
    """Results of a block that lie in a line and see the same taps."""
    runs: list[int] = []
    before = 0
    for walk in walks:
        _, h, w = walk.axes
        for t in range(h.count):
            row = h.first + t * h.every
            if not block.first <= row < block.past:
                continue
            inside = [j for j in range(h.taps) if 0 <= t * h.step + h.base + j * h.tap_step < planes.in_h]
            first, past = (inside[0], inside[-1] + 1) if inside else (0, 0)
            target = (row - block.first) * planes.out_w + w.first
            runs += [before + first * w.taps, before + past * w.taps, (t * h.step - block.low) * planes.pitch * lanes,
                     target * lanes, w.count, w.every * lanes]
        before += walk.taps
    return runs


def lanes_step(
    code: str, walks: Sequence[Walk], weights: Weights, bias: int | None, finished: Finisher
) -> Step | None:
    """The step computing all of the (collapsed) walks; None where they do not suit it. `finished`: as of
    `depthwise_step`."""
    one, planes, tile = walks[0], planes_of(walks), tile_of(code)
    cuts = blocks_of(walks, planes, tile.lanes, False) if suits_lanes(code, walks, weights) else None
    if cuts is None:
        return None
    s, r, places = one.source, one.result, places_of(planes, cuts)
    taps, blocks, runs = [], [], list[Any]()
    for walk in walks:
        for place, weight in zip(taps_of(walk, planes), tap_places(weights, walk), strict=True):
            taps += [place * tile.lanes, weight * tile.lanes]
    for cut in cuts:
        own = runs_of(walks, planes, cut, tile.lanes)
        blocks += [
            cut.low * planes.in_w, (cut.high - cut.low) * planes.in_w, cut.first * planes.out_w,
            (cut.past - cut.first) * planes.out_w, len(runs) // channel_lanes.RUN, len(own) // channel_lanes.RUN,
        ]
        runs += own
    params = [
        one.groups, one.images, s.image, s.group, r.image, r.group, weights.group, weights.group, int(bias is not None),
        len(places), len(taps) // channel_lanes.TAP, len(cuts), len(places) // planes.in_w * planes.pitch,
        abreast(walks), one.axes[2].step,
    ]
    spots = [
        (s.slot, s.offset * tile.size), weights.slot, s.slot if bias is None else bias, (-1, 0),
        (r.slot, r.offset * tile.size),
    ]
    work = (planes.out_h * planes.out_w * weights.group + 8 * planes.in_h * planes.in_w) * tile.lanes
    items = ceil(one.groups / tile.lanes) * one.images
    table = packed([*[place * tile.lanes for place in places], *taps, *blocks, *runs])
    return Step(*finished(channel_lanes.FORWARD, code, 0, spots), params, items, max(1, WORK // work), -1, table)


def packed(entries: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(entries)}q", *entries)


def lanes_weight_step(code: str, walk: Walk, result: int) -> Step | None:
    """The step computing the weight gradient of a (collapsed) walk, whose result is the gradient of its result; None
    where it does not suit it."""
    planes, tile = planes_of([walk]), tile_of(code)
    if not are_planes(code, [walk], planes) or not channel_lanes.QUAD <= walk.taps <= channel_lanes.POSITIONS:
        return None
    cuts = blocks_of([walk], planes, tile.lanes, True)
    if cuts is None:
        return None
    s, r, (_, h, w) = walk.source, walk.result, walk.axes
    places = places_of(planes, cuts)
    rows, top = max(cut.past - cut.first for cut in cuts), cuts[0].low
    seen = [y * h.step * planes.pitch + x * w.step for y in range(rows) for x in range(w.count)]
    taps = [place - top * planes.pitch for place in taps_of(walk, planes)]
    blocks: list[int] = []
    for cut in cuts:
        low, high = max(0, cut.low), min(planes.in_h, cut.high)
        blocks += [
            low * planes.in_w, (high - low) * planes.in_w, (low - cut.low) * planes.pitch * tile.lanes,
            cut.first * planes.out_w, (cut.past - cut.first) * planes.out_w,
        ]
    params = [
        walk.groups, walk.images, s.image, s.group, r.image, r.group, len(places), len(seen), len(taps), len(cuts),
        max(cut.high - cut.low for cut in cuts) * planes.pitch,
    ]
    spots = [(r.slot, r.offset * tile.size), (s.slot, s.offset * tile.size), (-1, 0), result]
    work = walk.images * (planes.out_h * planes.out_w * len(taps) + 8 * planes.in_h * planes.in_w) * tile.lanes
    table = packed([*[place * tile.lanes for place in (*places, *seen, *taps)], *blocks])
    address = kernel_of(channel_lanes.WEIGHT, code).address
    return Step(address, spots, params, ceil(walk.groups / tile.lanes), max(1, WORK // work), -1, table)
