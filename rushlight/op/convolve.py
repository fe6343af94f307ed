"""Planning convolutions: which window each output pixel sees, in steps that the core replays.

Enters: sizes and strides of the operands (as tensors or anything with `shape`, `stride()` and `dtype`), and a `Window`.
Leaves: slots and steps over the kernels of codegen/library/. Refuses: dtypes other than float32 and float64.

Three forms share the kernels. A convolution walks the output and reads windows of the input. The gradient of its input (also
the forward of a transposed convolution) walks the input grid and reads windows of the output gradient with mirrored taps; with a
stride, positions of one remainder see the same taps, so each remainder is a plain convolution of its own that writes every
stride-th element. The gradient of the weight sums over all pixels, in parts of fixed size.
"""

from __future__ import annotations

import struct
from itertools import pairwise, product as combinations
from math import ceil, gcd, prod
from typing import Any

from .. import _C
from ..codegen.library import convolve, depthwise, dots, micro_kernel, overlap, winograd, winograd_weight
from ..codegen.library.interface import Tile, kernel_of, tile_of, tile_shapes
from ..codegen.library.winograd import HIGH, WIDE
from ..loops import expr
from ..loops.nest import For, If, Nest, Store, operands, reduction, rows
from ..loops.record import Record
from .pointwise import compile_for

ITEMS = 16               # parts a large problem is cut into, whatever the number of threads
WORK = 1 << 20           # multiply-adds worth a chunk
TAPS = 4                 # neighbouring taps that are worth reading where they lie
PACKED_FROM = 256        # pixels from which packing weights as rows pays where channels lie apart
OUTS = 128               # outputs that are worth packing their windows once more
PLANNED = ("f32", "f64")


class Window(Record):
    """Kernel sizes and how they are moved over the (padded) input, one number per spatial dimension."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int


class Axis(Record):
    """One spatial dimension of a walk: pixel t of `count` and tap j of `taps` meet at source index t * step + base + j * tap_step.

    Pixel t is element `first + t * every` of the result, tap j element `tap_first + j * tap_every` of the kernel.
    """

    size: int
    count: int
    step: int
    base: int
    taps: int
    tap_step: int
    first: int = 0
    every: int = 1
    tap_first: int = 0
    tap_every: int = 1

    def columns(self, tap: int) -> tuple[int, int]:
        """Pixels [low, high) for which a tap is inside the source."""
        at = self.base + tap * self.tap_step
        low = min(max(0, -(at // self.step)), self.count)
        return low, min(max(low, -((at - self.size) // self.step)), self.count)

    @property
    def is_plain(self) -> bool:
        """Whether every pixel sees the source element of its own index, and nothing else."""
        return (self.taps, self.step, self.base, self.first, self.every) == (1, 1, 0, 0, 1) and self.size == self.count


def forward_axes(sizes: tuple[int, ...], outs: tuple[int, ...], window: Window) -> list[Axis]:
    """The walk of a convolution: one Axis per dimension."""
    spatial = zip(sizes, outs, window.kernel, window.stride, window.padding, window.dilation, strict=True)
    return [Axis(n, o, s, -p, k, d) for n, o, k, s, p, d in spatial]


def mirrored_axes(sizes: tuple[int, ...], outs: tuple[int, ...], window: Window) -> list[list[Axis]]:
    """The walks of the transposed convolution from `sizes` to `outs`: per dimension, one Axis per remainder of the stride."""
    found = []
    for n, o, k, s, p, d in zip(sizes, outs, window.kernel, window.stride, window.padding, window.dilation, strict=True):
        shared = gcd(s, d)
        every, axes = s // shared, []
        for remainder in range(s):
            first = (remainder - p) % s
            if first >= o:
                continue
            count = ceil((o - first) / s)
            tap = next((t for t in range(min(every, k)) if (d * t - remainder) % s == 0), k)
            taps = ceil((k - tap) / every)
            base = (first + p - d * tap) // s
            axes.append(Axis(n, count, 1, base, taps, -(d // shared), first, s, tap, every))
        found.append(axes)
    return found


class Array(Record):
    """An operand as the kernels see it: strides in elements of image, group, channel and three spatial dimensions."""

    slot: int
    image: int
    group: int
    channel: int
    spatial: tuple[int, ...]
    offset: int = 0


def array_of(slot: int, strides: tuple[int, ...], channels: int) -> Array:
    """Array for strides (image, channel, spatial...); a group holds `channels` channels."""
    return Array(slot, strides[0], strides[1] * channels, strides[1], tuple(strides[2:]))


class Walk(Record):
    """One kernel call's geometry: the axes with the strides of source and result along them."""

    axes: tuple[Axis, ...]
    source: Array
    result: Array
    images: int
    groups: int
    channels: int
    outs: int

    def collapsed(self) -> Walk:
        """The same walk in three dimensions: plain neighbours joined, so that runs of pixels are long; ones in front."""
        axes, source, result = list(self.axes), list(self.source.spatial), list(self.result.spatial)
        while len(axes) > 1 and axes[-1].is_plain and axes[-2].is_plain and source[-2] == source[-1] * axes[-1].size and result[-2] == result[-1] * axes[-1].size:
            size = axes[-1].size * axes[-2].size
            axes[-2:] = [Axis(size, size, 1, 0, 1, 1)]
            source[-2:], result[-2:] = source[-1:], result[-1:]
        missing = 3 - len(axes)
        axes = [Axis(1, 1, 1, 0, 1, 1)] * missing + axes
        return Walk(
            tuple(axes),
            Array(self.source.slot, self.source.image, self.source.group, self.source.channel, (0,) * missing + tuple(source), self.source.offset),
            Array(self.result.slot, self.result.image, self.result.group, self.result.channel, (0,) * missing + tuple(result), self.result.offset),
            self.images, self.groups, self.channels, self.outs,
        )  # fmt: skip

    @property
    def taps(self) -> int:
        return prod(a.taps for a in self.axes)

    @property
    def rows(self) -> int:
        return self.channels * self.taps

    @property
    def pixels(self) -> int:
        return self.images * prod(a.count for a in self.axes)

    def params(self) -> list[int]:
        """Values of the kernels' geometry."""
        d, h, w = self.axes
        s, r = self.source, self.result
        return [
            self.outs, self.taps, self.rows, d.size, h.size, d.step, h.step, d.base, h.base,
            s.image, s.group, s.channel, s.spatial[0], s.spatial[1], w.step * s.spatial[2], w.base * s.spatial[2],
            d.count, h.count, w.count, self.pixels,
            r.image, r.group, r.channel, *(n * a.every for n, a in zip(r.spatial, self.axes, strict=True)),
        ]  # fmt: skip

    def table(self) -> bytes:
        """The taps, as the kernels read them."""
        entries: list[int] = []
        strides = self.source.spatial
        for taps in combinations(*(range(a.taps) for a in self.axes)):
            dz, dy, dx = (t * a.tap_step for t, a in zip(taps, self.axes, strict=True))
            entries += [dz * strides[0] + dy * strides[1] + dx * strides[2], dz, dy, *self.axes[2].columns(taps[2])]
        return struct.pack(f"<{len(entries)}q", *entries)

    def place(self, itemsize: int) -> tuple[int, int]:
        """The result's operand: its slot, and bytes to the first pixel."""
        first = sum(a.first * n for a, n in zip(self.axes, self.result.spatial, strict=True))
        return self.result.slot, (self.result.offset + first) * itemsize


# --- weights --------------------------------------------------------------------------------------------------------------


class Weights(Record):
    """Strides of a weight in the roles it plays: of groups, of the walk's outputs, of its channels, of taps."""

    slot: int
    group: int
    out: int
    channel: int
    spatial: tuple[int, ...]


_pack_kernels: dict[tuple[str, int], int] = {}


def pack_step(code: str, height: int, weights: Weights, walk: Walk, target: tuple[int, int], panels: int, empty: bool) -> tuple:
    """A step that lays weights out as [group, panel, channel, tap, output of the panel], zeros past the last output."""
    kernel = _pack_kernels.get((code, height))
    if kernel is None:
        kernel = _pack_kernels[code, height] = compile_for(_C.device("cpu"), pack_nest(code, height))
    missing = 3 - len(weights.spatial)
    spatial = (0,) * missing + weights.spatial
    d, h, w = walk.axes
    first = sum(a.tap_first * n for a, n in zip(walk.axes, spatial, strict=True))
    params = [
        panels, 0 if empty else walk.outs, walk.channels, d.taps, h.taps, w.taps, weights.group, weights.out, weights.channel,
        *(n * a.tap_every for n, a in zip(spatial, walk.axes, strict=True)), 0 if empty else first,
    ]  # fmt: skip
    grain = max(1, 32768 // max(1, walk.rows * height))
    return (kernel, [weights.slot, target], params, walk.groups * panels, grain, -1)


def pack_nest(code: str, height: int) -> Nest:
    """The kernel of `pack_step`; panels of all groups are the parallel range."""
    names = ("panels", "outs", "channels", "taps_d", "taps_h", "taps_w", "group", "out", "channel", "depth", "row", "column", "first")
    p = {name: expr.var(name) for name in names}
    item, r, c, z, y, x = (expr.var(name) for name in ("i", "r", "c", "z", "y", "x"))
    zero, size = expr.const(0, "i64"), expr.const(height, "i64")
    group, panel = expr.idiv(item, p["panels"]), expr.irem(item, p["panels"])
    out = panel * size + r
    source = group * p["group"] + out * p["out"] + c * p["channel"] + z * p["depth"] + y * p["row"] + x * p["column"] + p["first"]
    row = ((c * p["taps_d"] + z) * p["taps_h"] + y) * p["taps_w"] + x
    target = (item * p["channels"] * p["taps_d"] * p["taps_h"] * p["taps_w"] + row) * size + r

    def each(value: Any) -> For:
        store = Store(1, target, value)
        taps = For("z", zero, p["taps_d"], (For("y", zero, p["taps_h"], (For("x", zero, p["taps_w"], (store,)),)),))
        return For("c", zero, p["channels"], (taps,))

    fill = If(expr.lt(out, p["outs"]), (each(expr.load(0, source, code)),), (each(expr.const(0.0, code)),))
    return Nest("conv_pack_weights", operands([code], [code]), names, rows(For("r", zero, size, (fill,))))


# --- one channel per group --------------------------------------------------------------------------------------------------


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
        pitch = columns + max(reach) - min(reach) + lanes
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
        d.base, d.tap_step, cut.low_h, cut.low_w, cut.span_h, s.image, s.group, *s.spatial, d.count, h.count, w.count, walk.images,
        r.image, r.channel, *(n * a.every for n, a in zip(r.spatial, walk.axes, strict=True)),
        d.taps, cut.rows, cut.columns, cut.pitch, cut.slab(walk), weights.group // walk.outs if weights else 0, int(bias),
    ]  # fmt: skip


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


def depthwise_step(code: str, walk: Walk, weights: Weights, bias: int | None) -> tuple | None:
    """The step computing a depthwise walk; None if its geometry does not fit."""
    size = tile_of(code).size
    cut = blocks_of(walk, depthwise.BUFFER // size, tile_of(code).lanes)
    if cut is None or (walk.outs > 1 and weights.group != walk.outs * weights.out):
        return None
    spots = [(walk.source.slot, walk.source.offset * size), weights.slot, walk.source.slot if bias is None else bias, (-1, 0), walk.place(size)]
    work = walk.pixels // walk.images * (walk.taps + 4)
    params = depthwise_params(walk, cut, weights, bias is not None)
    return (kernel_of(depthwise.FORWARD, code).address, spots, params, walk.images * walk.groups * walk.outs, max(1, WORK // 8 // work), -1, depthwise_table(walk, cut, weights))


def depthwise_weight_step(code: str, walk: Walk, result: int) -> tuple | None:
    """The step computing the weight gradient of a depthwise convolution; None if its geometry does not fit."""
    cut = blocks_of(walk, depthwise.BUFFER // tile_of(code).size, tile_of(code).lanes)
    if cut is None:
        return None
    spots = [walk.result.slot, walk.source.slot, (-1, 0), result]
    work = walk.pixels * (walk.taps + 4)
    params = depthwise_params(walk, cut, None, False)
    return (kernel_of(depthwise.WEIGHT, code).address, spots, params, walk.groups * walk.outs, max(1, WORK // 8 // work), -1, depthwise_table(walk, cut, None))


# --- 3x3 windows in tiles ---------------------------------------------------------------------------------------------------

ROOM = 4 << 20           # bytes of transformed inputs and products that go from kernel to kernel: they should stay in a cache
LEAST = 1 << 22          # multiply-adds from which the transforms pay
MOST = 1 << 27           # bytes that transformed weights may take: 8/3 of the weights
FEW_WEIGHTS = 64         # pixels per channel from which transformed weights pay, where register tiles are wide
MANY = 1024              # pixels from which the weight gradient is made in tiles: for fewer, plain sums are as fast, and closer


def suits_tiles(code: str, walk: Walk) -> bool:
    """Whether a (collapsed) walk is a 3x3 convolution that takes less time in tiles of results."""
    d, h, w = walk.axes
    if code != "f32" or walk.groups != 1 or min(walk.channels, walk.outs) < 16 or (d.size, d.count, d.taps) != (1, 1, 1):
        return False
    if any(a.taps != 3 or a.step != 1 or abs(a.tap_step) != 1 or a.every != 1 or a.tap_every != 1 for a in (h, w)):
        return False
    if tile_of(code).masked and walk.pixels < FEW_WEIGHTS * max(walk.channels, walk.outs):
        return False
    padded = walk.images * ceil(h.count / HIGH) * ceil(w.count / WIDE) * HIGH * WIDE
    transformed = 4 * winograd.POINTS * walk.channels * walk.outs
    return walk.pixels * walk.outs * walk.rows >= LEAST and padded <= 2.5 * walk.pixels and transformed <= MOST


def weight_suits_tiles(code: str, walk: Walk) -> bool:
    """Whether the weight's gradient of such a walk takes less time in tiles: nowhere that plain rows of gradients can be broadcast."""
    return not tile_of(code).masked and walk.pixels >= MANY and suits_tiles(code, walk)


def tile_steps(walk: Walk, weights: Weights, bias: int | None, scratch: int, offset: int) -> tuple[list[tuple], int]:
    """Steps computing a 3x3 walk in tiles, a chunk of them at a time, and the elements used from `offset` of slot `scratch`."""
    tile, points, block = tile_of("f32"), winograd.POINTS, winograd.BLOCK
    size, outs, channels = tile.size, walk.outs, walk.channels
    d, h, w = walk.axes
    spread = [Axis(a.size, ceil(a.count / n), n, a.base + min(0, 2 * a.tap_step), n + 2, 1, every=n) for a, n in ((h, HIGH), (w, WIDE))]
    tiled = Walk((d, *spread), walk.source, walk.result, walk.images, 1, channels, outs)
    out_panels = ceil(outs / tile.rows)
    chunk = max(48, ROOM // (points * size * (channels + outs)))
    chunk = min(tiled.pixels, chunk // block * block if chunk >= block else chunk)
    most = ceil(chunk / tile.columns)
    sizes = [points * out_panels * tile.rows * channels, points * most * tile.columns * channels, points * most * tile.columns * out_panels * tile.rows]
    spots = [(scratch, (offset + sum(sizes[:k])) * size) for k in range(3)]
    strides = [n * (1 if a.tap_step > 0 else -1) for a, n in zip((h, w), weights.spatial[-2:], strict=True)]
    start = sum(-2 * n for n in strides if n < 0)
    made = [(kernel_of(winograd.WEIGHTS_KERNEL, "f32").address, [weights.slot, spots[0]], [outs, channels, out_panels, weights.out, weights.channel, *strides, start], out_panels, max(1, 4096 // channels), -1)]
    for first in range(0, tiled.pixels, chunk):
        tiles = min(chunk, tiled.pixels - first)
        blocks, panels = ceil(tiles / block), ceil(tiles / tile.columns)
        rest = [first, tiles, blocks, panels, channels, h.count, w.count, *walk.result.spatial[1:], int(bias is not None), w.size, spread[1].base, walk.source.spatial[2]]
        params = [*tiled.params(), *rest]
        source = (walk.source.slot, walk.source.offset * size)
        made += [
            (kernel_of(winograd.INPUT, "f32").address, [source, spots[1]], params, blocks * ceil(channels / winograd.SLICE), 1, -1),
            (kernel_of(winograd.PRODUCT_KERNEL, "f32").address, spots, [outs, channels, out_panels, panels, blocks], points * blocks, max(1, WORK // (min(tiles, block) * outs * channels)), -1),
            (kernel_of(winograd.OUTPUT, "f32").address, [spots[2], walk.source.slot if bias is None else bias, walk.place(size)], params, blocks * ceil(outs / winograd.SLICE), 1, -1),
        ]
    return made, sum(sizes)


def tile_weight_steps(walk: Walk, result: int, scratch: int) -> tuple[list[tuple], int]:
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
    line = ceil(chunk / 16) * 16 + 16       # not a power of two, so that rows do not compete for the same lines of a cache
    apart = outs * channels + 80             # nor points
    sizes = [points * channels * line, (points * outs + tile.dot_rows) * line, points * apart]
    spots = [(scratch, sum(sizes[:k]) * size) for k in range(3)]
    made: list[tuple] = []
    for first in range(0, inputs.pixels, chunk):
        tiles = min(chunk, inputs.pixels - first)
        blocks, padded = ceil(tiles / block), ceil(tiles / tile.lanes) * tile.lanes
        for part, kernel, spot in ((inputs, winograd_weight.INPUT, spots[0]), (gradients, winograd_weight.GRADIENT, spots[1])):
            across = part.axes[2]
            rest = [first, tiles, blocks, 0, part.channels, 0, 0, 0, 0, 0, across.size, across.base, part.source.spatial[2], line]
            made.append((kernel_of(kernel, "f32").address, [part.source.slot, spot], [*part.params(), *rest], blocks * ceil(part.channels / winograd.SLICE), 1, -1))
        cuts = ceil(channels / 64)
        made.append((kernel_of(winograd_weight.DOTS_KERNEL, "f32").address, [spots[1], spots[0], spots[2]], [outs, channels, padded, line, cuts, int(first > 0), apart], points * cuts, 1, -1))
    made.append((kernel_of(winograd_weight.RESULT_KERNEL, "f32").address, [spots[2], result], [outs, channels, apart], outs, max(1, 16384 // channels), -1))
    return made, sum(sizes)


# --- steps ----------------------------------------------------------------------------------------------------------------


def best_shape(code: str, walk: Walk) -> int:
    """The register tile that wastes least: on outputs that are not there, and on tiles that cross from one image into the next."""
    plane = walk.pixels // walk.images

    def cost(shape: int) -> float:
        tile = tile_of(code, shape)
        crossing = 0.0 if plane % tile.columns == 0 or tile.masked else min(1.0, tile.columns / plane)
        return ceil(walk.outs / tile.rows) * tile.rows * (1 + 0.12 * crossing) * (1 + 0.02 * shape)

    return min(tile_shapes(), key=cost)


class Placed(Record):
    """Where a kernel finds weights: the operand, its strides (convolve.PLACES), and the depths that suit its taps."""

    spot: tuple[int, int]
    places: tuple[int, ...]
    depth: int
    near: int


def tap_places(weights: Weights, walk: Walk) -> list[int]:
    """Where taps lie in a kernel, in the order of the walk."""
    spatial = (0,) * (3 - len(weights.spatial)) + weights.spatial
    places = combinations(*(range(a.taps) for a in walk.axes))
    return [sum((a.tap_first + t * a.tap_every) * n for a, t, n in zip(walk.axes, which, spatial, strict=True)) for which in places]


def near_rows(rows: int) -> int:
    """Window rows whose products are summed one after the other: slices of about equal size, whole turns of the kernel's loop."""
    if rows <= convolve.NEAR_MOST:
        return rows
    return ceil(rows / ceil(rows / convolve.NEAR) / micro_kernel.STEPS) * micro_kernel.STEPS


def placed_weights(tile: Tile, weights: Weights, walk: Walk) -> Placed | None:
    """Weights as they lie in memory; None where they must be packed: taps apart, panels not whole, rows all in the same cache sets."""
    if tile.by_lane or walk.outs % tile.rows or weights.out * tile.size % 4096 == 0:
        return None
    taps = tap_places(weights, walk)
    count = len(taps)
    if any(later - tap != 1 for tap, later in pairwise(taps)) or count > convolve.NEAR:
        return None
    is_row = weights.channel == count
    if not is_row and (count < TAPS or walk.pixels >= PACKED_FROM):
        return None
    inner, near = (walk.rows, near_rows(walk.rows)) if is_row else (count, convolve.NEAR // count * count)
    return Placed((weights.slot, taps[0] * tile.size), (weights.group, tile.rows * weights.out, weights.out, inner, weights.channel), near, near)


def packed_weights(code: str, tile: Tile, weights: Weights, walk: Walk, spot: tuple[int, int], empty: bool) -> tuple[tuple, Placed, int]:
    """The step that packs weights at `spot`, where the kernel finds them, and how many elements there are."""
    panels, rows = ceil(walk.outs / tile.rows), walk.rows
    if tile.by_lane:
        step = pack_step(code, tile.rows, weights, walk, spot, panels, empty)
        return step, Placed(spot, (panels * tile.rows * rows, tile.rows * rows, 1, rows, 0), tile.depth, convolve.NEAR), walk.groups * panels * tile.rows * rows
    pitch = tile.odd_lines(rows)
    taps = [0] * walk.taps if empty else tap_places(weights, walk)
    parts, padded = ceil(walk.channels / convolve.SOME), panels * tile.rows
    params = [parts, padded, 0 if empty else walk.outs, walk.channels, walk.taps, weights.group, weights.out, weights.channel, pitch]
    grain = max(1, 32768 // (convolve.SOME * walk.taps * padded))
    step = (kernel_of(convolve.ROWS, code).address, [weights.slot, (-1, 0), spot], params, walk.groups * parts, grain, -1, struct.pack(f"<{len(taps)}q", *taps))
    places = (panels * tile.rows * pitch, tile.rows * pitch, pitch, rows, 0)
    near = near_rows(rows)
    return step, Placed(spot, places, near, near), walk.groups * panels * tile.rows * pitch


def walk_steps(code: str, walk: Walk, weights: Weights, bias: int | None, scratch: int, offset: int) -> tuple[list[tuple], int]:
    """Steps computing one walk, and the elements of packed weights it puts at `offset` of slot `scratch`."""
    walk = walk.collapsed()
    if not walk.pixels or not walk.outs or not walk.groups:
        return [], 0
    if suits_depthwise(walk):
        step = depthwise_step(code, walk, weights, bias)
        if step is not None:
            return [step], 0
    if suits_tiles(code, walk):
        return tile_steps(walk, weights, bias, scratch, offset)
    empty = not walk.rows
    if empty:   # no tap reaches these pixels: multiply one tap that is always outside with a weight of zero
        blank = tuple(Axis(a.size, a.count, a.step, -(1 << 32), 1, 1, a.first, a.every) for a in walk.axes)
        walk = Walk(blank, walk.source, walk.result, walk.images, walk.groups, 1, walk.outs)
    shape = best_shape(code, walk)
    tile = tile_of(code, shape)
    panels, made, used = ceil(walk.outs / tile.rows), [], 0
    placed = None if empty else placed_weights(tile, weights, walk)
    if placed is None:
        step, placed, used = packed_weights(code, tile, weights, walk, (scratch, offset * tile.size), empty)
        made = [step]
    cut = Cut(tile, walk, panels)
    start = micro_kernel.ZERO if bias is None else micro_kernel.BIAS
    params = [*walk.params(), *placed.places, cut.block, cut.blocks, panels, cut.cuts, cut.per_cut, start, placed.depth, placed.near]
    spots = [(walk.source.slot, walk.source.offset * tile.size), placed.spot, walk.source.slot if bias is None else bias, (-1, 0), walk.place(tile.size)]
    work = cut.block * walk.rows * min(walk.outs, cut.per_cut * tile.rows)
    step = (kernel_of(convolve.FORWARD, code, shape).address, spots, params, walk.groups * cut.cuts * cut.blocks, max(1, WORK // work), -1, walk.table())
    return [*made, step], used


class Cut:
    """How a walk is cut into items: blocks of pixels, and panels of outputs where blocks are few. Changes no result."""

    def __init__(self, tile: Tile, walk: Walk, panels: int) -> None:
        threads = _C.get_num_threads()   # more panels than threads ask for would pack windows once more for nothing
        wanted, least = (ITEMS, 1) if tile.by_lane else (min(ITEMS, 2 * threads), OUTS if threads <= 2 else OUTS // 4)
        blocks = ceil(walk.pixels / tile.block)
        if tile.by_lane and walk.pixels * walk.groups < ITEMS * tile.block:
            blocks *= 2
        unit = tile.columns if tile.by_lane else tile.lanes
        self.block = min(tile.block, ceil(walk.pixels / blocks / unit) * unit)
        self.blocks = ceil(walk.pixels / self.block)
        cuts = 1
        if walk.pixels * walk.outs * walk.rows > WORK:
            cuts = max(1, min(panels, ceil(wanted / (self.blocks * walk.groups)), walk.outs // least))
        spare = convolve.spare_tiles(tile) // ceil(tile.block / tile.columns)
        self.per_cut = min(ceil(panels / cuts), spare)
        self.cuts = ceil(panels / self.per_cut)


def weight_steps(code: str, walk: Walk, result: int, scratch: int) -> tuple[list[tuple], int]:
    """Steps computing a weight's gradient [groups * outs, rows] in slot `result`, and elements needed in slot `scratch`.

    In `walk`, the source is the convolution's input and the result its output gradient.
    """
    tile = tile_of(code)
    walk = walk.collapsed()
    if suits_depthwise(walk):
        step = depthwise_weight_step(code, walk, result)
        if step is not None:
            return [step], 0
    if weight_suits_tiles(code, walk):
        return tile_weight_steps(walk, result, scratch)
    interface, block, chunk = (convolve.WEIGHT, tile.block, convolve.CHUNK) if tile.masked else (dots.WEIGHT_DOTS, dots.DOT_BYTES // tile.size, dots.DOT_DEPTH)
    chunks = ceil(walk.rows / chunk)
    if tile.masked:
        chunk = min(chunk, ceil(walk.rows / chunks / tile.columns) * tile.columns)
        chunks = ceil(walk.rows / chunk)
    parts = 1
    if walk.groups == 1 and walk.pixels * walk.outs * walk.rows > WORK:
        parts = max(1, min(ITEMS // chunks, walk.pixels // (4 * block)))
    per_part = ceil(ceil(walk.pixels / parts) / block) * block
    parts = ceil(walk.pixels / per_part)
    params = [*walk.params(), parts, per_part, chunks, *([chunk] if tile.masked else [])]
    target = result if parts == 1 else scratch
    spots = [walk.result.slot, walk.source.slot, (-1, 0), target]
    work = walk.outs * min(walk.rows, chunk) * min(walk.pixels, per_part)
    step = (kernel_of(interface, code).address, spots, params, walk.groups * parts * chunks, max(1, WORK // work), -1, walk.table())
    if parts == 1:
        return [step], 0
    count = walk.outs * walk.rows
    return [step, sum_step(code, scratch, result, parts, count)], parts * count


PRODUCTS = 8 << 20       # bytes of single taps' products at a time
FEW = 4                  # result channels up to which a transposed convolution is made of them


def suits_overlap(outs: int, channels: int, weights: Weights, window: Window, itemsize: int, pixels: int) -> bool:
    """Whether a transposed convolution has few channels to write, many taps, and products that fit."""
    taps = prod(window.kernel)
    dense = [weights.out, *weights.spatial] == [prod(window.kernel[k:]) for k in range(len(window.kernel) + 1)]
    return window.groups == 1 and outs <= FEW and taps > 1 and channels >= 8 and dense and pixels * taps * outs * itemsize <= 4 * PRODUCTS


def overlap_steps(
    code: str, source: Array, sizes: tuple[int, ...], result: Array, outs: tuple[int, ...], images: int, channels: int, weights: Weights, window: Window,
    bias: int | None, scratch: int,
) -> tuple[list[tuple], int]:
    """Steps of a transposed convolution to `outs` (channels, spatial...): products of single taps, then their sums, some images at a time."""
    itemsize = tile_of(code).size
    pixels, taps = prod(sizes), prod(window.kernel)
    each = pixels * taps * outs[0]
    count = max(1, min(images, PRODUCTS // (each * itemsize)))
    plain = tuple(Axis(n, n, 1, 0, 1, 1) for n in sizes)
    strides = tuple(prod(sizes[k + 1 :]) for k in range(len(sizes)))
    made: list[tuple] = []
    needed = 0
    matrix = Weights(weights.slot, 0, 1, weights.channel, (0,) * len(sizes))

    def three(values: tuple[int, ...], fill: int) -> list[int]:
        return [fill] * (3 - len(values)) + list(values)

    for first in range(0, images, count):
        some = min(count, images - first)
        rows = Array(source.slot, source.image, source.group, source.channel, source.spatial, first * source.image)
        walk = Walk(plain, rows, Array(scratch, each, 0, pixels, strides), some, 1, channels, outs[0] * taps)
        product, needed = walk_steps(code, walk, matrix, None, scratch, count * each)
        params = [
            outs[0], *three(sizes, 1), *three(outs[1:], 1), *three(window.kernel, 1), *three(window.stride, 1), *three(window.padding, 0), *three(window.dilation, 1),
            result.image, result.channel, *three(result.spatial, 0), int(bias is not None),
        ]  # fmt: skip
        spots = [(scratch, 0), scratch if bias is None else bias, (result.slot, first * result.image * itemsize)]
        made += product if first == 0 else product[1:]   # the weights are packed once
        made.append((kernel_of(overlap.OVERLAP, code).address, spots, params, some * outs[0], 1, -1))
    return made, count * each + needed


_sum_kernels: dict[str, int] = {}


def sum_step(code: str, source: int, target: int, parts: int, count: int) -> tuple:
    """A step adding `parts` arrays of `count` elements."""
    kernel = _sum_kernels.get(code)
    if kernel is None:
        x = expr.load(0, expr.var("part") * expr.var("count") + expr.var("i"), code)
        total = reduction("part", expr.const(0, "i64"), expr.var("parts"), ["sum"], [expr.const(0.0, code)], lambda acc: [acc[0] + x], lambda a, b: [a[0] + b[0]])
        nest = Nest("conv_sum_parts", operands([code], [code]), ("parts", "count"), rows(total, Store(1, expr.var("i"), expr.var("sum", code)), vector=True))
        kernel = _sum_kernels[code] = compile_for(_C.device("cpu"), nest)
    return (kernel, [source, target], [parts, count], count, max(1, 65536 // parts), -1)
