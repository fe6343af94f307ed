"""Convolutions as matrix products that read weights where they lie: of few pixels with many weights, and transposed.

Enters: a (collapsed) walk whose weights outnumber its pixels by far, so that packing or transforming them would take as
long as multiplying. Leaves: steps that write all windows as a matrix [window rows, pixels], and products with it. For
transposed convolutions of few pixels, and with strides, products of all taps, and a step that adds them where windows
overlap. Refuses nothing: the answer is None where another form pays (planners/convolutions/convolve.py).
"""

from __future__ import annotations

from itertools import pairwise, product as combinations
from math import prod

from ... import _C
from ...codegen.library import transpose
from ...codegen.library.convolution import overlap, windows
from ...codegen.library.interface import kernel_of, tile_of
from ...codegen.text.targets import vector_bits
from ...op.step import Step
from ..products.gemm import Matrix, tiled_steps
from .pixels import gathered_gradients
from .walk import Array, Finisher, Walk, Weights, Window

FEW_PIXELS = 256         # pixels up to which packed weights are not used often enough
FEWER_PIXELS = 96        # nor transformed ones, where windows are 3x3
LONG_FILTER = 32         # taps of a filter of one dimension that make it a row of a matrix
TURNED_PIXELS = 256      # pixels up to which products of pixels with weights, transposed after, are faster
MANY_WEIGHTS = 1 << 18   # weights from which it matters
MOST_WEIGHTS = 1 << 22   # and from which packing them takes longer than adding up products
PRODUCTS = 1 << 20       # bytes of single taps' products up to which images are taken together
MOST_PRODUCTS = 1 << 24  # and from which the outputs of one are not
LINED_PIXELS = 512       # pixels of an image from which products are added line by line, with strides
LINED_PRODUCTS = 1 << 24     # bytes of products from which outputs of an image are not taken together then
SIDE = 16                # outputs at a time, or a multiple: whole tiles of products
GRAIN = 1 << 14          # elements worth a chunk


def outnumbers(code: str, groups: int, weights: int, pixels: int, few: int = FEW_PIXELS) -> bool:
    """Whether there are so many weights for so few pixels, where vectors are short: with long ones, other forms read
    weights where they lie."""
    return tile_of(code).by_lane and groups == 1 and weights >= MANY_WEIGHTS and 1 < pixels <= few


def tap_places(weights: Weights, walk: Walk) -> list[int]:
    """Where taps lie in a kernel, in the order of the walk."""
    spatial = (0,) * (3 - len(weights.spatial)) + weights.spatial
    places = combinations(*(range(a.taps) for a in walk.axes))
    return [
        sum((a.tap_first + t * a.tap_every) * n for a, t, n in zip(walk.axes, which, spatial, strict=True))
        for which in places
    ]


def is_dense(array: Array, counts: tuple[int, ...]) -> bool:
    """Whether pixels of a plane are a run of memory."""
    return all(
        count == 1 or step == prod(counts[k + 1 :])
        for k, (step, count) in enumerate(zip(array.spatial, counts, strict=True))
    )


def window_product_steps(
    code: str, walk: Walk, weights: Weights, bias: int | None, scratch: int, offset: int, in_tiles: bool
) -> tuple[list[Step], int] | None:
    """Steps of a walk whose outputs weigh runs of memory, and the elements they use from `offset` of slot `scratch`;
    `in_tiles`: convolutions/tiles.py would compute it."""
    few = FEWER_PIXELS if in_tiles else FEW_PIXELS
    if walk.taps == 1 or not outnumbers(code, walk.groups, walk.outs * walk.rows, walk.pixels, few):
        return None
    taps, counts, size = tap_places(weights, walk), tuple([a.count for a in walk.axes]), tile_of(code).size
    is_run = weights.channel == len(taps) and all(later - tap == 1 for tap, later in pairwise(taps))
    r, plane, used = walk.result, prod(counts), walk.pixels * walk.rows
    if not is_run or not is_dense(r, counts) or any(a.every != 1 for a in walk.axes):
        return None
    left = Matrix((weights.slot, taps[0] * size), weights.out, 1)
    right = Matrix((scratch, offset * size), plane, 1, walk.rows * plane)
    product = tiled_steps(
        code, _C.device("cpu"), left, right, Matrix(walk.place(size), r.channel, 1, r.image), walk.outs, plane,
        walk.rows, (scratch, (offset + used) * size), walk.images, None if bias is None else Matrix(bias, 1, 0),
    )
    if product is None:
        return None
    seen = windows_step(code, walk, (scratch, offset * size), plane, walk.rows * plane)
    return [seen, *product[0]], used + product[1]


def window_weight_steps(
    code: str, walk: Walk, result: int, scratch: int | tuple[int, int]
) -> tuple[list[Step], int] | None:
    """Steps of the weight's gradient of such a walk, in slot `result`."""
    if walk.taps == 1 or not outnumbers(code, walk.groups, walk.outs * walk.rows, walk.pixels):
        return None
    size, counts, copies, copied = tile_of(code).size, tuple([a.count for a in walk.axes]), [], 0
    slot, start = scratch if isinstance(scratch, tuple) else (scratch, 0)
    own = walk
    if walk.images > 1 or not is_dense(walk.result, counts):
        copy, own, copied = gathered_gradients(code, walk, scratch)
        copies = [copy]
    seen = (slot, start + copied * size)
    used = walk.pixels * walk.rows
    left = Matrix(own.result.slot, own.result.channel, 1)
    product = tiled_steps(
        code, _C.device("cpu"), left, Matrix(seen, 1, walk.pixels), Matrix(result, walk.rows, 1),
        walk.outs, walk.rows, walk.pixels, (slot, seen[1] + used * size),
    )
    if product is None:
        return None
    plane = walk.pixels // walk.images
    steps = [*copies, windows_step(code, walk, seen, walk.pixels, plane), *product[0]]
    return steps, copied + used + product[1]


def scattering_pays(code: str, strided: bool, weights: int, pixels: int) -> bool:
    """Whether a transposed convolution is better made of products of all taps: of few pixels, and with strides, where
    the taps of one remainder lie apart. Long vectors gather few weights faster than they add up products."""
    many = weights >= MANY_WEIGHTS
    if strided:
        return tile_of(code).by_lane or (many and vector_bits() == 512)
    if vector_bits() == 512 and weights >= MOST_WEIGHTS:
        return 1 < pixels <= FEW_PIXELS
    return (tile_of(code).by_lane or vector_bits() == 512) and many and 1 < pixels <= FEWER_PIXELS


def scattered_steps(
    code: str, source: Array, sizes: tuple[int, ...], result: Array, shape: tuple[int, ...], images: int,
    channels: int, weights: Weights, window: Window, bias: int | None, scratch: int, finished: Finisher,
) -> tuple[list[Step], int] | None:
    """Steps of a transposed convolution to `shape` (channels, spatial...): the products of every pixel with all weights
    of its channels, [image, pixel, output, tap], then their sums. `finished`: as of `depthwise_step`."""
    taps, plane, size = prod(window.kernel), prod(sizes), tile_of(code).size
    columns = shape[0] * taps
    dense = (weights.out, *weights.spatial) == tuple([prod(window.kernel[k:]) for k in range(len(sizes) + 1)])
    if taps == 1 or window.groups != 1 or not dense or not is_dense(source, sizes):
        return None
    if not scattering_pays(code, max(window.stride) > 1, channels * columns, images * plane):
        return None
    lanes, outs = tile_of(code).lanes, shape[0]
    some = max(1, min(images, PRODUCTS // (plane * columns * size)))
    some_outs = min(outs, -(-max(1, MOST_PRODUCTS // (plane * taps * size)) // SIDE) * SIDE)
    # not a multiple of a large power of two, so that sums find the products of neighbouring pixels in a cache
    pitch = tile_of(code).odd_lines(some_outs * taps)
    each, room = plane * pitch, lanes * prod(shape[1:])
    steps, used, more = [], some * each, some * -(-some_outs // lanes) * room
    for image, out in combinations(range(0, images, some), range(0, outs, some_outs)):
        count, high = min(some, images - image), min(some_outs, outs - out)
        left = Matrix((source.slot, (source.offset + image * source.image) * size), 1, source.channel, source.image)
        right = Matrix((weights.slot, out * taps * size), weights.channel, 1)
        answer = tiled_steps(
            code, _C.device("cpu"), left, right, Matrix((scratch, 0), pitch, 1, each), plane, high * taps, channels,
            (scratch, used * size), count,
        )
        if answer is None:
            return None
        place = (result.slot, (result.offset + image * result.image + out * result.channel) * size)
        spots = [(scratch, 0), scratch if bias is None else (bias, out * size), (scratch, used * size), place]
        groups, grain = -(-high // lanes), max(1, GRAIN // (lanes * plane * taps))
        params = overlap.params_of(sizes, (high, *shape[1:]), window, result, bias is not None)
        params += [groups, each, pitch, room, out]
        steps += [*answer[0], Step(*finished(overlap.GATHER, code, 0, spots), params, count * groups, grain, -1)]
        more = max(more, answer[1])
    return steps, used + more


def lined_steps(
    code: str, source: Array, sizes: tuple[int, ...], result: Array, shape: tuple[int, ...], images: int,
    channels: int, weights: Weights, window: Window, bias: int | None, scratch: int, finished: Finisher,
    few: bool,
) -> tuple[list[Step], int] | None:
    """The same with strides, of more pixels, or to `few` outputs: products [image, output, tap, pixel], of which
    neighbours are added in vectors."""
    taps, plane, size = prod(window.kernel), prod(sizes), tile_of(code).size
    dense = (weights.out, *weights.spatial) == tuple([prod(window.kernel[k:]) for k in range(len(sizes) + 1)])
    if taps == 1 or window.groups != 1 or not dense or not is_dense(source, sizes):
        return None
    if not tile_of(code).by_lane or max(window.stride) == 1 or not (few or plane >= LINED_PIXELS):
        return None
    pitch, outs = tile_of(code).odd_lines(plane), shape[0]
    some = max(1, min(images, PRODUCTS // (pitch * outs * taps * size)))
    some_outs = min(outs, -(-max(1, LINED_PRODUCTS // (pitch * taps * size)) // SIDE) * SIDE)
    steps, used, more = [], some * some_outs * taps * pitch, 0
    for image, out in combinations(range(0, images, some), range(0, outs, some_outs)):
        count, high = min(some, images - image), min(some_outs, outs - out)
        left = Matrix((weights.slot, out * taps * size), 1, weights.channel)
        right = Matrix((source.slot, (source.offset + image * source.image) * size), source.channel, 1, source.image)
        answer = tiled_steps(
            code, _C.device("cpu"), left, right, Matrix((scratch, 0), pitch, 1, high * taps * pitch), high * taps,
            plane, channels, (scratch, used * size), count,
        )
        if answer is None:
            return None
        place = (result.slot, (result.offset + image * result.image + out * result.channel) * size)
        spots = [(scratch, 0), scratch if bias is None else (bias, out * size), place]
        params = [*overlap.params_of(sizes, (high, *shape[1:]), window, result, bias is not None), pitch, out]
        grain = max(1, GRAIN // (plane * taps))
        steps += [*answer[0], Step(*finished(overlap.OVERLAP, code, 0, spots), params, count * high, grain, -1)]
        more = max(more, answer[1])
    return steps, used + more


def suits_turned(walk: Walk, weights: Weights) -> bool:
    """Whether a walk over single pixels has so few of them that weights, whose outputs are neighbours, are better read
    as columns, where they lie, than packed as rows."""
    return vector_bits() == 512 and weights.out == 1 and 1 < walk.pixels <= TURNED_PIXELS


def turned_steps(
    code: str, walk: Walk, weights: Weights, bias: int | None, scratch: int, offset: int
) -> tuple[list[Step], int] | None:
    """Steps of such a walk, and the elements used from `offset` of slot `scratch`."""
    s = walk.source
    left = Matrix((s.slot, s.offset * tile_of(code).size), 1, s.channel, s.image)
    right = Matrix(weights.slot, weights.channel, 1)
    return turned_product(code, walk, left, right, walk.channels, bias, scratch, offset)


def turned_product(
    code: str, walk: Walk, left: Matrix, right: Matrix, depth: int, bias: int | None, scratch: int, offset: int
) -> tuple[list[Step], int] | None:
    """Products of pixels with weights, [image, pixel, output], which are transposed then."""
    size, r, plane = tile_of(code).size, walk.result, walk.axes[2].count
    used = walk.pixels * walk.outs
    out = Matrix((scratch, offset * size), walk.outs, 1, plane * walk.outs)
    product = tiled_steps(
        code, _C.device("cpu"), left, right, out, plane, walk.outs, depth,
        (scratch, (offset + used) * size), walk.images, None if bias is None else Matrix(bias, 0, 1),
    )
    if product is None:
        return None
    strips = -(-plane // transpose.ROWS)
    params = [plane, walk.outs, walk.outs, r.channel, strips, plane * walk.outs, r.image]
    spots = [(scratch, offset * size), (r.slot, r.offset * size)]
    grain = max(1, GRAIN // (transpose.ROWS * walk.outs))
    turn = Step(transpose.transpose_kernel(size).address, spots, params, walk.images * strips, grain, -1)
    return [*product[0], turn], used + product[1]


def suits_filters(walk: Walk, weights: Weights) -> bool:
    """Whether long filters of one dimension go over one channel (the transforms of sound): what a pixel sees is then a
    run of memory, and all of them are the rows of a matrix that lies there already, a step apart."""
    d, h, w = walk.axes
    is_line = (d.count, d.taps, h.count, h.taps, walk.groups, walk.channels) == (1, 1, 1, 1, 1, 1)
    is_whole = (w.base, w.tap_step, w.first, w.every, w.tap_first, w.tap_every) == (0, 1, 0, 1, 0, 1)
    inside = (w.count - 1) * w.step + w.taps <= w.size
    in_rows = walk.source.spatial[2] == 1 and walk.result.spatial[2] == 1 and weights.spatial[-1] == 1
    return is_line and is_whole and inside and in_rows and w.taps >= LONG_FILTER


def filter_steps(
    code: str, walk: Walk, weights: Weights, bias: int | None, scratch: int, offset: int
) -> tuple[list[Step], int] | None:
    """Steps of such a walk, and the elements used from `offset` of slot `scratch`."""
    s, w = walk.source, walk.axes[2]
    left = Matrix((s.slot, s.offset * tile_of(code).size), w.step, 1, s.image)
    right = Matrix(weights.slot, 1, weights.out)
    return turned_product(code, walk, left, right, w.taps, bias, scratch, offset)


# --- windows as a matrix ----------------------------------------------------------------------------------------------


def windows_step(code: str, walk: Walk, target: tuple[int, int], row: int, image: int) -> Step:
    """A step that writes what every pixel sees, zeros outside of the source: window rows `row` elements apart, images
    `image`."""
    s = walk.source
    params = [walk.images, s.image, s.channel, row, image]
    for name in ("taps", "count", "size", "step", "base", "tap_step"):
        params += [getattr(a, name) for a in walk.axes]
    params += s.spatial
    grain = max(1, GRAIN // walk.pixels)
    place = (s.slot, s.offset * tile_of(code).size)
    kernel = kernel_of(windows.WINDOWS, code).address
    return Step(kernel, [place, target], params, walk.rows, grain, -1)
