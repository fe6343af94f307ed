"""Planning convolutions: which window each output pixel sees, in steps that the core replays.

Enters: sizes and strides of the operands (as tensors or anything with `shape`, `stride()` and `dtype`), and a `Window`.
Leaves: slots and steps over the kernels of codegen/library/. Refuses: dtypes other than float32 and float64.

Three forms share the kernels. A convolution walks the output and reads windows of the input. The gradient of its input
(also the forward of a transposed convolution) walks the input grid and reads windows of the output gradient with
mirrored taps; with a stride, positions of one remainder see the same taps, so each remainder is a plain convolution of
its own that writes every stride-th element. The gradient of the weight sums over all pixels, in parts of fixed size.
"""

from __future__ import annotations

import functools
import struct
from itertools import pairwise
from math import ceil, prod
from typing import Any

from ... import _C
from ...codegen.library.convolution import convolve, dots, micro_kernel, overlap
from ...codegen.library.convolution.finish import Finish
from ...codegen.library.convolution.winograd import LARGE, SMALL
from ...codegen.library.interface import Interface, Tile, kernel_of, tile_of, tile_shapes
from ...codegen.library.products import few_rows
from ...codegen.schedule.forms.wishes import Wishes
from ...codegen.text.targets import vector_bits
from ...loops import expr
from ...loops.lowered import NotLowerable
from ...loops.nest import For, If, Nest, Pack, Store, operands, reduction, rows
from ...loops.record import Record
from ...op.pack import compile_for, packer
from ...op.step import Step
from ..products.gemm import Matrix, few_rows_step, tiled_steps
from ..products.padded import Spot
from ..products.spans import span_steps
from .lanes import lanes_step, lanes_weight_step
from .pixels import gathered, gathered_gradients, skips_pixels
from .points import best_points, is_points, points_step, suits_points
from .tiles import (
    depthwise_step,
    depthwise_weight_step,
    fits_tiles,
    large_pays,
    suits_depthwise,
    suits_tiles,
    tile_steps,
    tile_weight_steps,
    weight_suits_tiles,
)
from .walk import WORK, Array, Axis, Finisher, Walk, Weights, Window, near_rows
from .windows import (
    filter_steps,
    suits_filters,
    suits_turned,
    tap_places,
    turned_steps,
    window_product_steps,
    window_weight_steps,
)

ITEMS = 16               # parts a large problem is cut into, whatever the number of threads
TAPS = 4                 # neighbouring taps that are worth reading where they lie
PACKED_FROM = 512        # pixels from which packing weights as rows pays where channels lie apart
OUTS = 128               # outputs that are worth packing their windows once more
MANY_PIXELS = 4          # pixels per channel up to which windows of one pixel are a matrix product
MANY_CHANNELS = 96       # and channels from which they are, whatever the pixels
# the same for few outputs, which use packed pixels seldom, unless channels share cache sets or ops come behind them
FEWER_CHANNELS, SELDOM = 56, 48
LONG_PRODUCT = 256       # channels up to which ops behind a product gain more in a kernel than the product does
WHOLE_IMAGE = 128        # pixels from which several images are a product each: tiles cross from none into the next
WIDE_IMAGE = 512         # the same for vectors of 64 bytes, which find fewer strips in an image
WIDE_CHANNELS = 64       # channels from which they are: sums of fewer are over too soon
WIDE_OUTS = 128          # outputs from which packed columns are used often enough, whatever the pixels
# With vectors of 64 bytes: pixels up to which weights should be read seldom, pixels whose products take as long as
# reading them does, what packing them costs in all products, and sums that keep a processor busy.
FEW_PIXELS, AGAIN, PACKING, BUSY = 4096, 8, 2.0, 12
FEW_CROWDED_ROWS = 4     # rows of weights that may share cache sets
FEW_OUTS = 8             # outputs up to which windows of one pixel are a matrix product, whatever the pixels
FEW_CROWDED = 3          # the same where channels share cache sets
# channels up to which packing the gradients of many pixels costs as much as a product gains
FEW_CHANNELS, MANY_OF_IMAGE = 32, 512
MOST_DOTS, DOT_PIXELS = 3000, 784    # weights up to which, and pixels of an image from which dot products pay
FEW_IN_PLACE = 48        # channels or outputs up to which dot products of rows that need no packing are as good
# chunks of window rows from which gradients of small images are laid side by side once, not packed for each
GATHERED_FROM = 3
PLANNED = ("f32", "f64")


# --- weights ----------------------------------------------------------------------------------------------------------

_pack_kernels: dict[tuple[str, int], int] = {}


def pack_step(
    code: str, height: int, weights: Weights, walk: Walk, target: tuple[int, int], panels: int, empty: bool
) -> Step:
    """A step that lays weights out as [group, panel, channel, tap, output of the panel], zeros past the last output, or
    anything finite."""
    lines = None if empty else line_step(code, height, weights, walk, target, panels)
    if lines is not None:
        return lines
    kernel = _pack_kernels.get((code, height))
    if kernel is None:
        kernel = _pack_kernels[code, height] = packer(compile_for(_C.device("cpu"), pack_nest(code, height)))
    missing = 3 - len(weights.spatial)
    spatial = (0,) * missing + weights.spatial
    d, h, w = walk.axes
    first = sum(a.tap_first * n for a, n in zip(walk.axes, spatial, strict=True))
    params = [
        panels, 0 if empty else walk.outs, walk.channels, d.taps, h.taps, w.taps, weights.group, weights.out,
        weights.channel, *(n * a.tap_every for n, a in zip(spatial, walk.axes, strict=True)), 0 if empty else first,
    ]
    grain = max(1, 32768 // max(1, walk.rows * height))
    return Step(kernel, [weights.slot, target], params, walk.groups * panels, grain, -1)


def pack_nest(code: str, height: int) -> Nest:
    """The kernel of `pack_step`; panels of all groups are the parallel range."""
    names = (
        "panels",
        "outs",
        "channels",
        "taps_d",
        "taps_h",
        "taps_w",
        "group",
        "out",
        "channel",
        "depth",
        "row",
        "column",
        "first",
    )
    p = {name: expr.var(name) for name in names}
    item, r, c, z, y, x = (expr.var(name) for name in ("i", "r", "c", "z", "y", "x"))
    zero, size = expr.const(0, "i64"), expr.const(height, "i64")
    group, panel = expr.idiv(item, p["panels"]), expr.irem(item, p["panels"])
    row = ((c * p["taps_d"] + z) * p["taps_h"] + y) * p["taps_w"] + x
    weighed = c * p["channel"] + z * p["depth"] + y * p["row"] + x * p["column"] + p["first"]

    def source(r: Any) -> Any:
        return group * p["group"] + (panel * size + r) * p["out"] + weighed

    def target(r: Any) -> Any:
        return (item * p["channels"] * p["taps_d"] * p["taps_h"] * p["taps_w"] + row) * size + r

    def each(*inner: Any) -> For:
        taps = For("z", zero, p["taps_d"], (For("y", zero, p["taps_h"], (For("x", zero, p["taps_w"], inner),)),))
        # Channels outside: taps of a panel's outputs lie close together, those of channels may share few cache sets.
        return For("c", zero, p["channels"], (taps,))

    whole = each(For("r", zero, size, (Store(1, target(r), expr.load(0, source(r), code)),), vector=True))
    # Outputs that lie apart are read one by one, and without a loop: a turn of it would take longer than an element.
    every = [expr.const(k, "i64") for k in range(height)]
    apart = each(*[Store(1, target(k), expr.load(0, source(k), code)) for k in every])
    is_there = expr.lt(panel * size + r, p["outs"])
    some = If(is_there, (Store(1, target(r), expr.load(0, source(r), code)),),
              (Store(1, target(r), expr.const(0.0, code)),))
    is_whole, dense = expr.le(panel * size + size, p["outs"]), expr.eq(p["out"], expr.const(1, "i64"))
    body = If(is_whole, (If(dense, (whole,), (apart,)),), (each(For("r", zero, size, (some,))),))
    return Nest("conv_pack_weights", operands([code], [code]), names, rows(body))


def line_step(
    code: str, height: int, weights: Weights, walk: Walk, target: tuple[int, int], panels: int
) -> Step | None:
    """The same where all that an output weighs is one run of memory, or outputs are neighbours: in vectors."""
    lanes = vector_bits() // 8 // tile_of(code).size     # `Pack` writes whole vectors of the processor
    taps = tap_places(weights, walk)
    is_run = weights.channel == len(taps) and all(later - tap == 1 for tap, later in pairwise(taps))
    if height % lanes or not (is_run or (len(taps) == 1 and weights.out == 1)):
        return None
    kernel = _pack_kernels.get((code, -height))
    if kernel is None:
        kernel = _pack_kernels[code, -height] = packer(compile_for(_C.device("cpu"), line_nest(code, height)))
    length = walk.rows
    params = [panels, walk.outs, length, weights.group, weights.out, 1 if is_run else weights.channel, taps[0]]
    grain = max(1, 65536 // max(1, length * height))
    return Step(kernel, [weights.slot, target], params, walk.groups * panels, grain, -1)


def line_nest(code: str, height: int) -> Nest:
    """The kernel of `line_step`; panels of all groups are the parallel range."""
    names = ("panels", "outs", "length", "group", "line", "step", "first")
    p = {name: expr.var(name) for name in names}
    item, size = expr.var("i"), expr.const(height, "i64")
    group, out = expr.idiv(item, p["panels"]), expr.irem(item, p["panels"]) * size
    start = group * p["group"] + out * p["line"] + p["first"]
    space = p["length"] * size
    one = expr.const(1, "i64")
    pack = Pack(
        0, start, p["line"], p["step"], 1, item * space, space, p["outs"] - out, p["length"], one, height
    )
    return Nest("conv_pack_lines", operands([code], [code]), names, rows(pack))


# --- steps ------------------------------------------------------------------------------------------------------------


def best_shape(code: str, walk: Walk) -> int:
    """The register tile that wastes least: on outputs that are not there, on tiles that cross from one image into the
    next, on sums that wait for each other, and on weights, which are read again for every strip of pixels, where these
    are few, or windows are. Short sums that fill tiles of whole cache lines are made in those: half of a line costs as
    much memory traffic as two."""
    plane = walk.pixels // walk.images
    if walk.rows <= convolve.IN_RUNS and (lines := line_shape(code, walk, plane)) is not None:
        return lines
    few = vector_bits() == 512 and (walk.pixels <= FEW_PIXELS or walk.taps == 1)

    def cost(shape: int) -> float:
        tile = tile_of(code, shape)
        crossing = 0.0 if plane % tile.columns == 0 or tile.masked else min(1.0, tile.columns / plane)
        result = ceil(walk.outs / tile.rows) * tile.rows * (1 + 0.12 * crossing) * (1 + 0.02 * shape)
        if not few:
            return result
        vectors = ceil(walk.pixels / tile.lanes)
        vectors = ceil(vectors / ceil(vectors / tile.vectors))      # of a strip: they are about equal
        packed = PACKING if walk.outs % tile.rows else 1.0
        return result * (1 + AGAIN / (vectors * tile.lanes)) * max(1.0, BUSY / (tile.rows * vectors)) * packed

    return min(tile_shapes(), key=cost)


def line_shape(code: str, walk: Walk, plane: int) -> int | None:
    """The register tile whose rows are lines of the cache, where vectors have no masks and a walk's results, runs of
    memory, fill such tiles."""
    if not tile_of(code).by_lane or walk.result.spatial[2] * walk.axes[2].every != 1:
        return None
    for shape in reversed(tile_shapes()):
        tile = tile_of(code, shape)
        if tile.columns * tile.size == convolve.LINE and plane % tile.columns == walk.outs % tile.rows == 0:
            return shape
    return None


class Placed(Record):
    """Where a kernel finds weights: the operand, its strides (convolve.PLACES), and the depths that suit its taps."""

    spot: tuple[int, int]
    places: tuple[int, ...]
    depth: int
    near: int


def placed_weights(tile: Tile, weights: Weights, walk: Walk) -> Placed | None:
    """Weights as they lie in memory; None where they must be packed: taps apart, panels not whole,
    rows all in the same cache sets."""
    crowded = weights.out * tile.size % 4096 == 0 and tile.rows > FEW_CROWDED_ROWS
    if tile.by_lane or walk.outs % tile.rows or crowded:
        return None
    taps = tap_places(weights, walk)
    count = len(taps)
    if any(later - tap != 1 for tap, later in pairwise(taps)) or count > convolve.NEAR:
        return None
    is_row = weights.channel == count
    if not is_row and (count < TAPS or walk.pixels >= PACKED_FROM):
        return None
    inner, near = (walk.rows, near_rows(walk.rows)) if is_row else (count, convolve.NEAR // count * count)
    return Placed(
        (weights.slot, taps[0] * tile.size),
        (weights.group, tile.rows * weights.out, weights.out, inner, weights.channel),
        near,
        near,
    )


def packed_weights(
    code: str, tile: Tile, weights: Weights, walk: Walk, spot: tuple[int, int], empty: bool
) -> tuple[Step, Placed, int]:
    """The step that packs weights at `spot`, where the kernel finds them, and how many elements there are."""
    panels, rows = ceil(walk.outs / tile.rows), walk.rows
    if tile.by_lane:
        step = pack_step(code, tile.rows, weights, walk, spot, panels, empty)
        return (
            step,
            Placed(spot, (panels * tile.rows * rows, tile.rows * rows, 1, rows, 0), tile.depth, tile.depth),
            walk.groups * panels * tile.rows * rows,
        )
    pitch = tile.odd_lines(rows)
    taps = [0] * walk.taps if empty else tap_places(weights, walk)
    parts, padded = ceil(walk.channels / convolve.SOME), panels * tile.rows
    params = [
        parts,
        padded,
        0 if empty else walk.outs,
        walk.channels,
        walk.taps,
        weights.group,
        weights.out,
        weights.channel,
        pitch,
    ]
    grain = max(1, 32768 // (convolve.SOME * walk.taps * padded))
    step = Step(
        packer(kernel_of(convolve.ROWS, code).address),
        [weights.slot, (-1, 0), spot],
        params,
        walk.groups * parts,
        grain,
        -1,
        struct.pack(f"<{len(taps)}q", *taps),
    )
    places = (panels * tile.rows * pitch, tile.rows * pitch, pitch, rows, 0)
    near = near_rows(rows)
    return step, Placed(spot, places, near, near), walk.groups * panels * tile.rows * pitch


def suits_product(walk: Walk, pixels: int, size: int, wishes: Wishes) -> bool:
    """Whether windows of single pixels, so many to an image, are better multiplied as matrices (16-byte vectors)."""
    crowded = walk.source.channel * size % few_rows.SAME_SETS == 0     # rows of pixels, and of results
    seldom = walk.outs <= SELDOM and not crowded and wishes.finish is None
    most = FEWER_CHANNELS if seldom else MANY_CHANNELS
    many = walk.pixels > MANY_PIXELS * max(walk.channels, walk.outs) and walk.channels < most
    if many and walk.outs > (FEW_CROWDED if crowded else FEW_OUTS):
        return False
    return walk.images == 1 or pixels >= WHOLE_IMAGE


def suits_wide_product(walk: Walk, pixels: int, weights: Weights, wishes: Wishes) -> bool:
    """The same for vectors of 64 bytes: columns are packed for every image once more; of few pixels, weights are as
    well read by rows where they lie (`placed_weights`)."""
    if vector_bits() != 512 or walk.channels < WIDE_CHANNELS:
        return False
    if walk.outs >= WIDE_OUTS:
        return walk.images == 1 or pixels >= WHOLE_IMAGE
    placed = weights.channel == 1 and walk.outs % FEW_CROWDED_ROWS == 0 and wishes.form is None
    if placed and walk.pixels <= FEW_PIXELS:
        return False
    return walk.images == 1 or pixels >= WIDE_IMAGE


def product_steps(
    code: str, walk: Walk, weights: Weights, bias: int | None, scratch: int, offset: int, wishes: Wishes
) -> tuple[list[Step], int] | None:
    """Steps of a (collapsed) walk whose windows are single pixels: a matrix product for every image.

    None for other walks, where pixels are no run of memory, and where packing weights for a product does not pay."""
    tile = tile_of(code)
    if walk.groups != 1 or not all(a.is_plain for a in walk.axes):
        return None
    d, h, w = walk.axes
    s, r, size = walk.source, walk.result, tile.size
    if (d.count, h.count) != (1, 1) or s.spatial[2] != 1 or r.spatial[2] != 1:
        return None
    if suits_turned(walk, weights):
        turned = turned_steps(code, walk, weights, bias, scratch, offset)
        if turned is not None:
            return turned
    suits = suits_product(walk, w.count, size, wishes) if tile.by_lane else suits_wide_product(
        walk, w.count, weights, wishes
    )
    if not suits:
        return None
    left = Matrix(weights.slot, weights.out, weights.channel)
    right = Matrix((s.slot, s.offset * size), s.channel, 1, s.image)
    out = Matrix((r.slot, r.offset * size), r.channel, 1, r.image)
    added = None if bias is None else Matrix(bias, 1, 0)
    return tiled_steps(
        code, _C.device("cpu"), left, right, out, walk.outs, w.count, walk.channels, (scratch, offset * size),
        walk.images, added,
    )


def forms() -> tuple[str | int, ...]:
    """The ways to compute a convolution that may be asked for: as tiles, as a product, by one of the register tiles."""
    return ("tiles", "product", *tile_shapes())


# kernels with ops behind them: how many operands they have of their own, of which the last is the result
finishers: dict[int, int] = {}


def finisher(wishes: Wishes) -> Finisher:
    """What gives the address of a kernel, with what is wished to come behind it, and its operands."""
    return functools.partial(finished, wishes.finish)


def finished(
    finish: Finish | None, interface: Interface, code: str, shape: int, spots: list[Any]
) -> tuple[int, list[Any]]:
    """The address of a kernel, with what is to come behind it, and its operands."""
    if finish is None:
        return kernel_of(interface, code, shape).address, spots
    if finish.elements and interface.finishes != "elements":
        refuse_finish(finish, f"{interface.name} reading elements")
    address = kernel_of(interface, code, shape, finish).address
    finishers[address] = len(spots)
    return address, [*spots, *[spots[0]] * finish.operands]


def refuse_finish(finish: Finish | None, what: str) -> None:
    """Say that nothing can come behind these steps, where something is to."""
    if finish is not None:
        raise NotLowerable(f"convolution: {what} has no ops behind it")


def joint_step(
    code: str, walks: list[Walk], weights: Weights, bias: int | None, wishes: Wishes
) -> Step | None:
    """The step that computes several walks of one convolution at once; None where each has steps of its own."""
    walks = [walk.collapsed() for walk in walks]
    if len(walks) < 2 or not all(walk.pixels for walk in walks):
        return None
    return lanes_step(code, walks, weights, bias, finisher(wishes))


def walk_steps(
    code: str, walk: Walk, weights: Weights, bias: int | None, scratch: int, offset: int, wishes: Wishes,
    as_product: bool = True,
) -> tuple[list[Step], int]:
    """Steps computing one walk, and the elements it puts at `offset` of slot `scratch`, packed weights if not
    `as_product`."""
    walk = walk.collapsed()
    if not walk.pixels or not walk.outs or not walk.groups:
        return [], 0
    form, behind = wishes.form, finisher(wishes)
    as_product = as_product and form in (None, "product")
    if wishes.packed and form is None and walk.channels <= LONG_PRODUCT:
        as_product = False
    if as_product and form is None and skips_pixels(code, walk):
        copy, walk, used = gathered(code, walk, scratch, offset)
        results, more = walk_steps(code, walk, weights, bias, scratch, offset + used, wishes)
        return [copy, *results], used + more
    if as_product and form is None and wishes.finish is None and suits_filters(walk, weights):
        filtered = filter_steps(code, walk, weights, bias, scratch, offset)
        if filtered is not None:
            return filtered
    unpacked = form is None and wishes.finish is None and not suits_turned(walk, weights)
    if as_product and unpacked and suits_points(code, walk):
        return points_steps(code, walk, weights, bias, scratch, offset)
    if as_product and (answer := product_steps(code, walk, weights, bias, scratch, offset, wishes)) is not None:
        refuse_finish(wishes.finish, "a matrix product")
        return answer
    if suits_depthwise(walk):
        step = lanes_step(code, [walk], weights, bias, behind)
        step = step or depthwise_step(code, walk, weights, bias, behind)
        if step is not None:
            return [step], 0
    packed = wishes.packed or wishes.large
    in_tiles = suits_tiles(code, walk, packed) if form is None else form == "tiles" and fits_tiles(code, walk)
    if as_product and not packed:
        answer = window_product_steps(code, walk, weights, bias, scratch, offset, in_tiles)
        if answer is not None:
            refuse_finish(wishes.finish, "a matrix product")
            return answer
    if in_tiles:
        large = wishes.large and large_pays(code, walk)
        return tile_steps(walk, weights, bias, scratch, offset, behind, LARGE if large else SMALL)
    empty = not walk.rows
    if empty:   # no tap reaches these pixels: multiply one tap that is always outside with a weight of zero
        blank = tuple(Axis(a.size, a.count, a.step, -(1 << 32), 1, 1, a.first, a.every) for a in walk.axes)
        walk = Walk(blank, walk.source, walk.result, walk.images, walk.groups, 1, walk.outs)
    shape = form if isinstance(form, int) else best_shape(code, walk)
    tile = tile_of(code, shape)
    panels, results, used = ceil(walk.outs / tile.rows), [], 0
    placed = None if empty else placed_weights(tile, weights, walk)
    if placed is None:
        step, placed, used = packed_weights(code, tile, weights, walk, (scratch, offset * tile.size), empty)
        results = [step]
    cut = Cut(tile, walk, panels)
    start = micro_kernel.ZERO if bias is None else micro_kernel.BIAS
    params = [
        *walk.params(),
        *placed.places,
        cut.block,
        cut.blocks,
        panels,
        cut.cuts,
        cut.per_cut,
        start,
        placed.depth,
        placed.near,
    ]
    spots = [
        (walk.source.slot, walk.source.offset * tile.size),
        placed.spot,
        walk.source.slot if bias is None else bias,
        (-1, 0),
        walk.place(tile.size),
    ]
    work = cut.block * walk.rows * min(walk.outs, cut.per_cut * tile.rows)
    step = Step(
        *behind(convolve.FORWARD, code, shape, spots),
        params,
        walk.groups * cut.cuts * cut.blocks,
        max(1, WORK // work),
        -1,
        walk.table(),
    )
    return [*results, step], used


def points_steps(
    code: str, walk: Walk, weights: Weights, bias: int | None, scratch: int, offset: int
) -> tuple[list[Step], int]:
    """Steps of a walk that suits `points_step`, whose weights are packed where channels are no neighbours."""
    shape = best_points(code, walk)
    assert shape is not None, "the walk suits points"
    tile = tile_of(code, shape)
    if weights.channel == 1:
        return [points_step(code, shape, walk, ((weights.slot, 0), weights.out), bias)], 0
    pack, placed, used = packed_weights(code, tile, weights, walk, (scratch, offset * tile.size), False)
    return [pack, points_step(code, shape, walk, (placed.spot, placed.places[2]), bias)], used


class Cut:
    """How a walk is cut into items: blocks of pixels, and panels of outputs where blocks are few. Changes no result."""

    def __init__(self, tile: Tile, walk: Walk, panels: int) -> None:
        threads = _C.get_num_threads()   # more panels than threads ask for would pack windows once more for nothing
        wanted = min(ITEMS, 2 * threads)
        least = 1 if tile.by_lane else OUTS if threads <= 2 else OUTS // 4
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


def weight_steps(code: str, walk: Walk, result: int, scratch: Spot) -> tuple[list[Step], int]:
    """Steps computing a weight's gradient [groups * outs, rows] in slot `result`,
    and elements needed in slot `scratch`.

    In `walk`, the source is the convolution's input and the result its output gradient.
    """
    tile = tile_of(code)
    walk = walk.collapsed()
    if suits_depthwise(walk):
        step = lanes_weight_step(code, walk, result) or depthwise_weight_step(code, walk, result)
        if step is not None:
            return [step], 0
    if (answer := few_outs_steps(code, walk, result, scratch)) is not None:
        return answer
    if (answer := window_weight_steps(code, walk, result, scratch)) is not None:
        return answer
    if weight_suits_tiles(code, walk):
        assert isinstance(scratch, int), "windows of nine taps are not gathered first"
        return tile_weight_steps(walk, result, scratch)
    if skips_pixels(code, walk):
        assert isinstance(scratch, int), "pixels are gathered once"
        copy, walk, used = gathered(code, walk, scratch, 0)
        results, more = weight_steps(code, walk, result, (scratch, used * tile.size))
        return [copy, *results], used + more
    if (answer := weight_product_steps(code, walk, result, scratch)) is not None:
        return answer
    if not tile.masked or suits_dots(code, walk):
        return weight_dot_steps(code, walk, result, scratch)
    chunks = ceil(walk.rows / convolve.CHUNK)
    chunk = min(convolve.CHUNK, ceil(walk.rows / chunks / tile.columns) * tile.columns)
    chunks = ceil(walk.rows / chunk)
    parts = 1
    if walk.groups == 1 and walk.pixels * walk.outs * walk.rows > WORK:
        parts = max(1, min(ITEMS // chunks, walk.pixels // (4 * tile.block)))
    block = weight_block(tile, walk.pixels // walk.images, walk.images)
    per_part = ceil(ceil(walk.pixels / parts) / block) * block
    parts = ceil(walk.pixels / per_part)
    params = [*walk.params(), parts, per_part, chunks, chunk, block, int(is_single(tile, walk))]
    work = walk.outs * min(walk.rows, chunk) * min(walk.pixels, per_part)
    return weight_parts(code, convolve.WEIGHT, walk, params, parts, chunks, work, result, scratch)


def suits_dots(code: str, walk: Walk) -> bool:
    """Whether a weight's gradient is faster as dot products although vectors have masks: of few weights and large
    images, which would be transposed as long as they are multiplied."""
    few = walk.outs * walk.channels <= MOST_DOTS and walk.pixels >= DOT_PIXELS * walk.images
    return few and is_points(walk) and reads_dots(code, walk)


def weight_block(tile: Tile, plane: int, images: int) -> int:
    """Pixels at a time: as many as fill an image some times over, where that is not too few. Then no block crosses from
    one into the next, and what lies in one run needs no packing. Those of several images come from afar, and share the
    nearest cache with what is asked for."""
    most = tile.block if images == 1 else tile.block // 2
    fits = next(n for n in range(min(most, plane), 0, -1) if plane % n == 0)
    return fits if 2 * fits >= most else most


def is_single(tile: Tile, walk: Walk) -> bool:
    """Whether windows are single pixels, neighbours where they lie, of channels that fill squares of lanes."""
    plain = all(a.is_plain for a in walk.axes) and walk.axes[0].count * walk.axes[1].count == 1
    return plain and walk.source.spatial[2] == 1 and walk.channels % tile.lanes == 0


def weight_dot_steps(code: str, walk: Walk, result: int, scratch: Spot) -> tuple[list[Step], int]:
    """The same by dot products along pixels: in blocks of one image, or where images are small, of several."""
    size, lanes, used, copies = tile_of(code).size, tile_of(code).lanes, 0, []
    most, plane = dots.DOT_BYTES // size, walk.pixels // walk.images
    chunks = ceil(walk.rows / dots.DOT_DEPTH)
    if plane * 4 < most * 3:
        plane = walk.pixels
        if walk.groups == 1 and walk.images > 1 and chunks >= GATHERED_FROM:
            copy, walk, used = gathered_gradients(code, walk, scratch)
            slot, start = scratch if isinstance(scratch, tuple) else (scratch, 0)
            copies, scratch = [copy], (slot, start + used * size)
    block = ceil(plane / ceil(plane / most) / lanes) * lanes
    per_plane = ceil(plane / block)
    blocks = walk.pixels // plane * per_plane
    parts = 1
    if walk.groups == 1 and walk.pixels * walk.outs * walk.rows > WORK:
        parts = max(1, min(ITEMS // chunks, blocks // 4))
    per_part = ceil(blocks / parts)
    parts = ceil(blocks / per_part)
    params = [*walk.params(), parts, per_part, chunks, blocks, plane, per_plane, block, int(reads_dots(code, walk))]
    work = walk.outs * min(walk.rows, dots.DOT_DEPTH) * min(walk.pixels, per_part * block)
    steps, more = weight_parts(code, dots.WEIGHT_DOTS, walk, params, parts, chunks, work, result, scratch)
    return [*copies, *steps], used + more


def reads_dots(code: str, walk: Walk) -> bool:
    """Whether the windows of a weight's gradient are single pixels that dot products can read where they lie."""
    tile, (d, h, _) = tile_of(code), walk.axes
    plain = walk.source.spatial[2] == 1 and (d.count, h.count) == (1, 1) and all(a.is_plain for a in walk.axes)
    crowded = walk.source.channel * tile.size % few_rows.SAME_SETS == 0
    return plain and not crowded and walk.channels % tile.dot_columns == 0


def weight_parts(
    code: str, interface: Interface, walk: Walk, params: list[int], parts: int, chunks: int, work: int, result: int,
    scratch: Spot,
) -> tuple[list[Step], int]:
    """The step of a kernel that sums over parts of the pixels, and the one that adds up those."""
    target = result if parts == 1 else scratch
    spots = [walk.result.slot, walk.source.slot, (-1, 0), target]
    step = Step(
        kernel_of(interface, code).address,
        spots,
        params,
        walk.groups * parts * chunks,
        max(1, WORK // work),
        -1,
        walk.table(),
    )
    if parts == 1:
        return [step], 0
    count = walk.outs * walk.rows
    return [step, sum_step(code, scratch, result, parts, count)], parts * count


def weight_product_steps(code: str, walk: Walk, result: int, scratch: Spot) -> tuple[list[Step], int] | None:
    """The same of a (collapsed) walk whose windows are single pixels: a product that sums over the pixels of all
    images. None for other walks, where pixels are no run of memory, and where vectors are wide and images fill blocks
    of pixels: there rows of gradients are read where they lie."""
    d, h, w = walk.axes
    s, r = walk.source, walk.result
    crosses = vector_bits() == 512 and 2 * w.count < tile_of(code).block
    pays = tile_of(code).by_lane or crosses
    if not pays or walk.groups != 1 or not all(a.is_plain for a in walk.axes):
        return None
    if (d.count, h.count) != (1, 1) or s.spatial[2] != 1 or r.spatial[2] != 1:
        return None
    few = min(walk.channels, walk.outs) <= FEW_IN_PLACE and reads_dots(code, walk)
    if (few or walk.channels <= FEW_CHANNELS) and w.count > MANY_OF_IMAGE:
        return None
    size = tile_of(code).size
    left = Matrix((r.slot, r.offset * size), r.channel, 1, r.image)
    right = Matrix((s.slot, s.offset * size), 1, s.channel, s.image)
    out = Matrix(result, walk.channels, 1)
    return span_steps(code, left, right, out, walk.outs, walk.channels, w.count, walk.images, scratch)


def few_outs_steps(code: str, walk: Walk, result: int, scratch: Spot) -> tuple[list[Step], int] | None:
    """The same of a (collapsed) walk whose windows are single pixels, of few outputs: dot products that read the input
    once, image by image. None for other walks."""
    if not is_points(walk) or not 2 <= walk.outs <= FEW_CROWDED:
        return None
    s, r, size, count = walk.source, walk.result, tile_of(code).size, walk.outs * walk.channels
    left = Matrix((r.slot, r.offset * size), r.channel, 1, r.image)
    right = Matrix((s.slot, s.offset * size), 1, s.channel, s.image)
    out = Matrix(result if walk.images == 1 else scratch, walk.channels, 1, count)
    sizes = walk.outs, walk.channels, walk.axes[2].count, walk.images
    step = few_rows_step(code, _C.device("cpu"), left, right, out, *sizes, None)
    if step is None or walk.images == 1:
        return None if step is None else ([step], 0)
    return [step, sum_step(code, scratch, result, walk.images, count)], walk.images * count


PRODUCTS = 8 << 20       # bytes of single taps' products at a time
FEW = 4                  # result channels up to which a transposed convolution is made of them


def suits_overlap(outs: int, channels: int, weights: Weights, window: Window, itemsize: int, pixels: int) -> bool:
    """Whether a transposed convolution has few channels to write, many taps, and products that fit."""
    taps = prod(window.kernel)
    dense = [weights.out, *weights.spatial] == [prod(window.kernel[k:]) for k in range(len(window.kernel) + 1)]
    return (
        window.groups == 1
        and outs <= FEW
        and taps > 1
        and channels >= 8
        and dense
        and pixels * taps * outs * itemsize <= 4 * PRODUCTS
    )


def overlap_steps(
    code: str,
    source: Array,
    sizes: tuple[int, ...],
    result: Array,
    outs: tuple[int, ...],
    images: int,
    channels: int,
    weights: Weights,
    window: Window,
    bias: int | None,
    scratch: int,
    wishes: Wishes,
) -> tuple[list[Step], int]:
    """Steps of a transposed convolution to `outs` (channels, spatial...): products of single taps, then their sums,
    some images at a time."""
    refuse_finish(wishes.finish, "a sum of overlapping products")
    itemsize = tile_of(code).size
    pixels, taps = prod(sizes), prod(window.kernel)
    each = pixels * taps * outs[0]
    count = max(1, min(images, PRODUCTS // (each * itemsize)))
    plain = tuple(Axis(n, n, 1, 0, 1, 1) for n in sizes)
    strides = tuple(prod(sizes[k + 1 :]) for k in range(len(sizes)))
    results: list[Step] = []
    needed = 0
    matrix = Weights(weights.slot, 0, 1, weights.channel, (0,) * len(sizes))

    for first in range(0, images, count):
        some = min(count, images - first)
        rows = Array(source.slot, source.image, source.group, source.channel, source.spatial, first * source.image)
        walk = Walk(plain, rows, Array(scratch, each, 0, pixels, strides), some, 1, channels, outs[0] * taps)
        product, needed = walk_steps(code, walk, matrix, None, scratch, count * each, wishes, False)
        params = [*overlap.params_of(sizes, outs, window, result, bias is not None), pixels, 0]
        spots = [(scratch, 0), scratch if bias is None else bias, (result.slot, first * result.image * itemsize)]
        results += product if first == 0 else product[1:]   # the weights are packed once
        results.append(Step(kernel_of(overlap.OVERLAP, code).address, spots, params, some * outs[0], 1, -1))
    return results, count * each + needed


_sum_kernels: dict[str, int] = {}


def sum_step(code: str, source: Spot, target: int, parts: int, count: int) -> Step:
    """A step adding `parts` arrays of `count` elements."""
    kernel = _sum_kernels.get(code)
    if kernel is None:
        x = expr.load(0, expr.var("part") * expr.var("count") + expr.var("i"), code)
        total = reduction(
            "part",
            expr.const(0, "i64"),
            expr.var("parts"),
            ["sum"],
            [expr.const(0.0, code)],
            lambda acc: [acc[0] + x],
            lambda a, b: [a[0] + b[0]],
        )
        nest = Nest(
            "conv_sum_parts",
            operands([code], [code]),
            ("parts", "count"),
            rows(total, Store(1, expr.var("i"), expr.var("sum", code)), vector=True),
        )
        kernel = _sum_kernels[code] = compile_for(_C.device("cpu"), nest)
    return Step(kernel, [source, target], [parts, count], count, max(1, 65536 // parts), -1)
