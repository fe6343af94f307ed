"""Convolutions whose windows are single pixels, some steps apart: pixels that are met lie densely in memory first.

Enters: a (collapsed) walk. Leaves: steps that copy the pixels it meets side by side, or spread results over the pixels
that they belong to, with the walk in between, which is as of a stride of one: a matrix product. Refuses nothing:
`skips_pixels` and `leaves_gaps` say what these are for.
"""

from __future__ import annotations

from math import prod

from ...codegen.library.convolution import pixels
from ...codegen.library.interface import Interface, kernel_of, tile_of
from ...codegen.text.targets import vector_bits
from ...op.step import Step
from .walk import Array, Axis, Walk, Window

GRAIN = 1 << 14          # elements worth a chunk
DENSE = 32               # pixels and images together from which a product gains more than copying costs


def skips_pixels(code: str, walk: Walk) -> bool:
    """Whether windows are single pixels inside of the source and some of it is between them, where vectors are short:
    with long ones, masks read pixels where they lie."""
    return (
        tile_of(code).by_lane
        and walk.groups == 1
        and any(a.step > 1 for a in walk.axes)
        and all(a.taps == 1 and a.base == 0 and a.first == 0 and a.every == 1 for a in walk.axes)
        and all((a.count - 1) * a.step < a.size for a in walk.axes)
        and walk.images * prod(a.count for a in walk.axes) >= DENSE
    )


def leaves_gaps(code: str, window: Window, sizes: tuple[int, ...], images: int) -> bool:
    """Whether a transposed convolution puts every pixel of its input to one of its result, and has some between."""
    return (
        (tile_of(code).by_lane or vector_bits() == 512)
        and window.groups == 1
        and set(window.kernel) == {1}
        and not any(window.padding)
        and max(window.stride) > 1
        and images * prod(sizes) >= DENSE
    )


def plain_axes(counts: tuple[int, ...]) -> tuple[Axis, ...]:
    """A walk that meets every pixel in its turn."""
    return tuple([Axis(n, n, 1, 0, 1, 1) for n in counts])


def dense_array(slot: int, channels: int, counts: tuple[int, ...], offset: int = 0) -> Array:
    """Images of so many channels and pixels, one after the other."""
    strides = tuple([prod(counts[k + 1 :]) for k in range(len(counts))])
    return Array(slot, channels * prod(counts), channels * prod(counts), prod(counts), strides, offset)


def gathered(code: str, walk: Walk, scratch: int, offset: int) -> tuple[Step, Walk, int]:
    """The step that copies the pixels a walk meets to `offset` of slot `scratch`, the walk over them, and how many
    elements they are."""
    counts = tuple([a.count for a in walk.axes])
    source = dense_array(scratch, walk.channels, counts, offset)
    s, size = walk.source, tile_of(code).size
    steps = [a.step * n for a, n in zip(walk.axes, s.spatial, strict=True)]
    params = [walk.channels, s.image, s.channel, *counts, *steps]
    spots = (s.slot, s.offset * size), (scratch, offset * size)
    step = plane_step(pixels.GATHER_PIXELS, code, *spots, params, walk.images)
    result = Walk(plain_axes(counts), source, walk.result, walk.images, 1, walk.channels, walk.outs).collapsed()
    return step, result, walk.images * walk.channels * prod(counts)


def gathered_gradients(code: str, walk: Walk, scratch: int | tuple[int, int]) -> tuple[Step, Walk, int]:
    """The step that lays the pixels of all images side by side for every output, the walk that finds its result there,
    and how many elements they are."""
    counts, r, size = tuple([a.count for a in walk.axes]), walk.result, tile_of(code).size
    plane, slot = prod(counts), scratch if isinstance(scratch, tuple) else (scratch, 0)
    steps = [a.every * n for a, n in zip(walk.axes, r.spatial, strict=True)]
    params = [walk.images, r.channel, r.image, *counts, *steps]
    step = plane_step(pixels.GATHER_PIXELS, code, walk.place(size), slot, params, walk.outs)
    dense = dense_array(0, walk.outs, counts)
    # Whoever takes this walk hands the slot on as it is, so it may say where in it the pixels begin.
    result = Array(
        slot, plane, walk.outs * walk.images * plane, walk.images * plane, dense.spatial   # type: ignore[arg-type]
    )
    axes = tuple([Axis(a.size, a.count, a.step, a.base, a.taps, a.tap_step) for a in walk.axes])
    used = walk.outs * walk.images * plane
    return step, Walk(axes, walk.source, result, walk.images, 1, walk.channels, walk.outs), used


def spread_step(
    code: str, source: tuple[int, int], counts: tuple[int, ...], result: Array, shape: tuple[int, ...],
    strides: tuple[int, ...], images: int,
) -> Step:
    """The step that puts dense pixels, `counts` of them, to every `strides`-th of a result of sizes `shape` (channels,
    spatial...), zeros between them."""
    size, missing = tile_of(code).size, 3 - len(counts)
    counts, every = (1,) * missing + counts, (1,) * missing + strides
    sizes, steps = (1,) * missing + shape[1:], (0,) * missing + result.spatial
    params = [shape[0], result.image, result.channel, *counts, *steps, *every, *sizes]
    target = (result.slot, result.offset * size)
    return plane_step(pixels.SPREAD_PIXELS, code, source, target, params, images)


def plane_step(interface: Interface, code: str, source: tuple, target: tuple, params: list, images: int) -> Step:
    kernel = kernel_of(interface, code).address
    return Step(kernel, [source, target], params, images * params[0], max(1, GRAIN // prod(params[3:6])), -1)
