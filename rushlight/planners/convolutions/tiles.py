"""Planning convolutions whose kernels are special: one channel per group, and 3x3 windows in tiles.

Enters: a walk and the strides of its weights. Leaves: steps over the kernels of
codegen/library/convolution/depthwise.py, winograd.py and winograd_weight.py, or None where another form pays. Refuses
nothing: `suits_depthwise`, `suits_tiles` and `weight_suits_tiles` say what these are for.
"""

from __future__ import annotations

import struct
from itertools import product as combinations
from math import ceil

from ...codegen.library.convolution import depthwise, winograd, winograd_weight
from ...codegen.library.convolution.winograd import HIGH, LARGE, SMALL, WIDE, Form
from ...codegen.library.interface import Tile, kernel_of, tile_of, tile_shapes
from ...loops.record import Record
from ...op.pack import packer
from ...op.step import Step
from .walk import WORK, Axis, Finisher, Walk, Weights

# --- one channel per group --------------------------------------------------------------------------------------------


class Blocks(Record):
    """How the planes of a depthwise walk are cut, so that the padded input under a block fits the buffer."""

    rows: int
    columns: int
    low_h: int
    span_h: int
    low_w: int
    pitch: int

    def slab(self, walk: Walk) -> int:
        _, h, w = walk.axes
        return ((self.rows - 1) * h.step + self.span_h + 1) * w.step * self.pitch


def blocks_of(walk: Walk, room: int, lanes: int) -> Blocks | None:
    """The largest blocks that fit into `room` elements; None if not even one row of a few columns does."""
    d, h, w = walk.axes
    span_h = (h.taps - 1) * abs(h.tap_step)
    low_h = h.base + min(0, (h.taps - 1) * h.tap_step)
    reach = [(w.base + t * w.tap_step) // w.step for t in (0, w.taps - 1)]
    columns = min(w.count, depthwise.ROW)
    while True:
        pitch = -(-(columns + max(reach) - min(reach) + lanes) // lanes) * lanes
        lines = room // (d.taps * w.step * pitch)
        rows = min((lines - span_h - 1) // h.step + 1 if lines > span_h else 0, h.count, room // columns)
        if rows >= 1:
            return Blocks(rows, columns, low_h, span_h, min(reach), pitch)
        if columns <= 4 * lanes:
            return None
        columns //= 2


def depthwise_params(walk: Walk, cut: Blocks, weights: Weights | None, bias: bool) -> list[int]:
    """Values of depthwise.PARAMS."""
    d, h, w = walk.axes
    s, r = walk.source, walk.result
    return [
        walk.groups * walk.outs, walk.outs, walk.taps, d.size, h.size, w.size, d.step, h.step, w.step,
        d.base, d.tap_step, cut.low_h, cut.low_w, cut.span_h, s.image, s.group, *s.spatial, d.count, h.count, w.count,
        walk.images, r.image, r.channel, *(n * a.every for n, a in zip(r.spatial, walk.axes, strict=True)),
        d.taps, cut.rows, cut.columns, cut.pitch, cut.slab(walk), weights.group // walk.outs if weights else 0,
        int(bias),
    ]


def depthwise_table(walk: Walk, cut: Blocks, weights: Weights | None) -> bytes:
    """Places of taps: in the buffer, and in the kernel."""
    _, h, w = walk.axes
    spatial = (0,) * (3 - len(weights.spatial)) + weights.spatial if weights else (0, 0, 0)
    entries: list[int] = []
    for taps in combinations(*(range(a.taps) for a in walk.axes)):
        row = h.base + taps[1] * h.tap_step - cut.low_h
        whole, remainder = divmod(w.base + taps[2] * w.tap_step, w.step)
        place = taps[0] * cut.slab(walk) + (row * w.step + remainder) * cut.pitch + whole - cut.low_w
        kernel = sum((a.tap_first + t * a.tap_every) * n for a, t, n in zip(walk.axes, taps, spatial, strict=True))
        entries += [place, kernel]
    return struct.pack(f"<{len(entries)}q", *entries)


def suits_depthwise(walk: Walk) -> bool:
    """Whether a (collapsed) walk is better off with a kernel of its own for single channels."""
    return walk.channels == 1 and walk.outs <= 3 and walk.groups > 1 and walk.rows > 0


def depthwise_step(
    code: str, walk: Walk, weights: Weights, bias: int | None, finished: Finisher
) -> Step | None:
    """The step computing a depthwise walk; None if its geometry does not fit. `finished` gives the kernel, and its
    operands, with what comes behind it (planners/convolutions/convolve.py)."""
    size = tile_of(code).size
    cut = blocks_of(walk, depthwise.BUFFER // size, tile_of(code).lanes)
    if cut is None or (walk.outs > 1 and weights.group != walk.outs * weights.out):
        return None
    spots = [
        (walk.source.slot, walk.source.offset * size),
        weights.slot,
        walk.source.slot if bias is None else bias,
        (-1, 0),
        walk.place(size),
    ]
    work = walk.pixels // walk.images * (walk.taps + 4)
    params = depthwise_params(walk, cut, weights, bias is not None)
    return Step(
        *finished(depthwise.FORWARD, code, 0, spots),
        params,
        walk.images * walk.groups * walk.outs,
        max(1, WORK // 8 // work),
        -1,
        depthwise_table(walk, cut, weights),
    )


def depthwise_weight_step(code: str, walk: Walk, result: int) -> Step | None:
    """The step computing the weight gradient of a depthwise convolution; None if its geometry does not fit."""
    cut = blocks_of(walk, depthwise.BUFFER // tile_of(code).size, tile_of(code).lanes)
    if cut is None:
        return None
    spots = [walk.result.slot, walk.source.slot, (-1, 0), result]
    work = walk.pixels * (walk.taps + 4)
    params = depthwise_params(walk, cut, None, False)
    return Step(
        kernel_of(depthwise.WEIGHT, code).address,
        spots,
        params,
        walk.groups * walk.outs,
        max(1, WORK // 8 // work),
        -1,
        depthwise_table(walk, cut, None),
    )


# --- 3x3 windows in tiles ---------------------------------------------------------------------------------------------

# bytes of transformed inputs and products that go from kernel to kernel: they should stay in a cache; fewer where
# vectors are long, since the second-level one of those processors is large and the next one slow
ROOM, MASKED_ROOM = 4 << 20, 2 << 20
LEAST = 1 << 22          # multiply-adds from which the transforms pay
MOST = 1 << 27           # bytes that transformed weights may take: 8/3 of the weights
FEW_WEIGHTS = 1          # pixels per channel from which transformed weights pay, where register tiles are wide
LARGER = 0.95            # of the multiplications: from there on it pays to read half as many weights again
MOST_LARGE = 1 << 18     # elements of the input up to which they do, where register tiles are wide
FEWER = 0.6              # of a plain sum's multiplications: from there on tiles pay there, if weights are packed
SLOWER = 0.02            # of the time that a further register tile takes more than the one before it
# pixels from which the weight gradient is made in tiles: for fewer, plain sums are as fast, and closer
MANY = 1024


def fits_tiles(code: str, walk: Walk, form: Form = SMALL) -> bool:
    """Whether a (collapsed) walk is a 3x3 convolution that can be computed in tiles of results."""
    d, h, w = walk.axes
    if code != "f32" or walk.groups != 1 or (d.size, d.count, d.taps) != (1, 1, 1):
        return False
    if any(a.taps != 3 or a.step != 1 or abs(a.tap_step) != 1 or a.every != 1 or a.tap_every != 1 for a in (h, w)):
        return False
    return 4 * form.points * walk.channels * walk.outs <= MOST


def suits_tiles(code: str, walk: Walk, packed: bool = False) -> bool:
    """Whether a (collapsed) walk is a 3x3 convolution that takes less time in tiles of results; `packed`: weights are
    transformed once for many calls."""
    if not fits_tiles(code, walk) or min(walk.channels, walk.outs) < 16:
        return False
    _, h, w = walk.axes
    if tile_of(code).masked and walk.pixels < FEW_WEIGHTS * max(walk.channels, walk.outs):
        if not packed or products_in(SMALL, walk) > FEWER * 9 * walk.pixels * walk.outs:
            return False
    padded = walk.images * ceil(h.count / HIGH) * ceil(w.count / WIDE) * HIGH * WIDE
    return walk.pixels * walk.outs * walk.rows >= LEAST and padded <= 2.5 * walk.pixels


def weight_suits_tiles(code: str, walk: Walk) -> bool:
    """Whether the weight's gradient of such a walk takes less time in tiles:
    nowhere that plain rows of gradients can be broadcast."""
    return not tile_of(code).masked and walk.pixels >= MANY and suits_tiles(code, walk)


def multiplied(shape: int, outs: int, tiles: int) -> float:
    """What products of so many tiles cost with a register tile, zeros included, in multiplications for a channel."""
    tile = tile_of("f32", shape)
    panels = ceil(outs / tile.rows) * ceil(tiles / tile.columns)
    return panels * tile.rows * tile.columns * (1 + SLOWER * shape)


def fullest_tile(outs: int, tiles: int) -> int:
    """The number of the register tile that multiplies the fewest zeros; the first of equal ones."""
    return min(tile_shapes(), key=lambda shape: multiplied(shape, outs, tiles))


def products_in(form: Form, walk: Walk) -> float:
    """Multiplications for a channel of a walk in tiles."""
    _, h, w = walk.axes
    tiles = walk.images * ceil(h.count / form.high) * ceil(w.count / WIDE)
    return form.points * multiplied(fullest_tile(walk.outs, tiles), walk.outs, tiles)


def large_pays(code: str, walk: Walk) -> bool:
    """Whether tiles of 4x4 results take less time than those of 2x4 for a walk that suits these."""
    if not fits_tiles(code, walk, LARGE):
        return False
    if tile_of(code).masked and walk.pixels * max(walk.channels, walk.outs) > MOST_LARGE:
        return False
    return products_in(LARGE, walk) < LARGER * products_in(SMALL, walk)


def chunk_of(tile: Tile, tiles: int, fit: int) -> int:
    """How many tiles to handle at a time, of which so many fit a cache: blocks, or where less fits, about equal parts
    in whole register tiles."""
    if fit >= winograd.BLOCK:
        return fit // winograd.BLOCK * winograd.BLOCK
    count = max(1, round(tiles / max(48, fit)))
    return ceil(tiles / count / tile.columns) * tile.columns


def tile_steps(
    walk: Walk,
    weights: Weights,
    bias: int | None,
    scratch: int,
    offset: int,
    finished: Finisher,
    form: Form = SMALL,
) -> tuple[list[Step], int]:
    """Steps computing a 3x3 walk in tiles, a chunk of them at a time,
    and the elements used from `offset` of slot `scratch`. `finished`: as of `depthwise_step`."""
    points, block, kernels = form.points, winograd.BLOCK, winograd.KERNELS[form]
    outs, channels = walk.outs, walk.channels
    d, h, w = walk.axes
    spread = [
        Axis(a.size, ceil(a.count / n), n, a.base + min(0, 2 * a.tap_step), n + 2, 1, every=n)
        for a, n in ((h, form.high), (w, WIDE))
    ]
    tiled = Walk((d, *spread), walk.source, walk.result, walk.images, 1, channels, outs)
    shape = fullest_tile(outs, tiled.pixels)
    tile = tile_of("f32", shape)
    size, out_panels = tile.size, ceil(outs / tile.rows)
    room = MASKED_ROOM if tile.masked else ROOM
    chunk = min(tiled.pixels, chunk_of(tile, tiled.pixels, room // (points * size * (channels + outs))))
    most = ceil(chunk / tile.columns)
    sizes = [
        points * out_panels * tile.rows * channels,
        points * most * tile.columns * channels,
        points * most * tile.columns * out_panels * tile.rows,
    ]
    spots = [(scratch, (offset + sum(sizes[:k])) * size) for k in range(3)]
    strides = [n * (1 if a.tap_step > 0 else -1) for a, n in zip((h, w), weights.spatial[-2:], strict=True)]
    start = sum(-2 * n for n in strides if n < 0)
    results: list[Step] = [
        Step(
            packer(kernel_of(kernels.weights, "f32", shape).address),
            [weights.slot, spots[0]],
            [outs, channels, out_panels, weights.out, weights.channel, *strides, start],
            out_panels,
            max(1, 4096 // channels),
            -1,
        )
    ]
    for first in range(0, tiled.pixels, chunk):
        tiles = min(chunk, tiled.pixels - first)
        blocks, panels = ceil(tiles / block), ceil(tiles / tile.columns)
        rest = [
            first,
            tiles,
            blocks,
            panels,
            channels,
            h.count,
            w.count,
            *walk.result.spatial[1:],
            int(bias is not None),
            w.size,
            spread[1].base,
            walk.source.spatial[2],
        ]
        params = [*tiled.params(), *rest]
        source = (walk.source.slot, walk.source.offset * size)
        results += [
            Step(
                kernel_of(kernels.input, "f32", shape).address,
                [source, spots[1]],
                params,
                blocks * ceil(channels / winograd.SLICE),
                1,
                -1,
            ),
            Step(
                kernel_of(winograd.PRODUCT_KERNEL, "f32", shape).address,
                spots,
                [outs, channels, out_panels, panels, blocks],
                points * blocks,
                max(1, WORK // (min(tiles, block) * outs * channels)),
                -1,
            ),
            Step(
                *finished(
                    kernels.output, "f32", shape,
                    [spots[2], walk.source.slot if bias is None else bias, walk.place(size)],
                ),
                params,
                blocks * ceil(outs / winograd.SLICE),
                1,
                -1,
            ),
        ]
    return results, sum(sizes)


def tile_weight_steps(walk: Walk, result: int, scratch: int) -> tuple[list[Step], int]:
    """Steps computing the weight gradient of a 3x3 convolution in tiles, and the elements needed in slot `scratch`."""
    tile, points, block = tile_of("f32"), winograd.POINTS, winograd.BLOCK
    size, outs, channels = tile.size, walk.outs, walk.channels
    d, h, w = walk.axes
    places = [Axis(a.size, ceil(a.count / n), n, a.base, n + 2, 1) for a, n in ((h, HIGH), (w, WIDE))]
    inputs = Walk((d, *places), walk.source, walk.source, walk.images, 1, channels, channels)
    flat = [Axis(a.count, ceil(a.count / n), n, 0, n, 1) for a, n in ((h, HIGH), (w, WIDE))]
    gradients = Walk((Axis(1, 1, 1, 0, 1, 1), *flat), walk.result, walk.result, walk.images, 1, outs, outs)
    chunk = max(block, 2 * ROOM // (points * size * (channels + outs)) // block * block)
    chunk = min(inputs.pixels, chunk)
    # not a power of two, so that rows do not compete for the same lines of a cache
    line = ceil(chunk / 16) * 16 + 16
    apart = outs * channels + 80             # nor points
    sizes = [points * channels * line, (points * outs + tile.dot_rows) * line, points * apart]
    spots = [(scratch, sum(sizes[:k]) * size) for k in range(3)]
    results: list[Step] = []
    for first in range(0, inputs.pixels, chunk):
        tiles = min(chunk, inputs.pixels - first)
        blocks, padded = ceil(tiles / block), ceil(tiles / tile.lanes) * tile.lanes
        for part, kernel, spot in (
            (inputs, winograd_weight.INPUT, spots[0]),
            (gradients, winograd_weight.GRADIENT, spots[1]),
        ):
            across = part.axes[2]
            rest = [
                first,
                tiles,
                blocks,
                0,
                part.channels,
                0,
                0,
                0,
                0,
                0,
                across.size,
                across.base,
                part.source.spatial[2],
                line,
            ]
            results.append(
                Step(
                    kernel_of(kernel, "f32").address,
                    [part.source.slot, spot],
                    [*part.params(), *rest],
                    blocks * ceil(part.channels / winograd.SLICE),
                    1,
                    -1,
                )
            )
        cuts = ceil(channels / 64)
        results.append(
            Step(
                kernel_of(winograd_weight.DOTS_KERNEL, "f32").address,
                [spots[1], spots[0], spots[2]],
                [outs, channels, padded, line, cuts, int(first > 0), apart],
                points * cuts,
                1,
                -1,
            )
        )
    results.append(
        Step(
            kernel_of(winograd_weight.RESULT_KERNEL, "f32").address,
            [spots[2], result],
            [outs, channels, apart],
            outs,
            max(1, 16384 // channels),
            -1,
        )
    )
    return results, sum(sizes)
