"""Planning convolutions whose windows are single pixels, read where they lie.

Enters: a (collapsed) walk, and rows of weights. Leaves: a step over the kernel of
codegen/library/convolution/points.py. Refuses nothing: `suits_points` says what it is for.
"""

from __future__ import annotations

from math import ceil

from ... import _C
from ...codegen.library.convolution import micro_kernel, points
from ...codegen.library.interface import Tile, kernel_of, tile_of, tile_shapes
from ...op.step import Step
from .walk import WORK, Walk, near_rows

ITEMS = 16               # parts a large problem is cut into for several threads
OVERHEAD = 40            # cycles of a register tile besides its products
MOST = 16000             # weights up to which packing pixels takes longer
WHOLE_IMAGE = 128        # pixels from which several images do as well: vectors cross from none into the next
# channels up to which register tiles of most pixels are best, in spite of their loads: memory is read in longer runs
FEW_CHANNELS, LONGER = 48, 0.9


def is_points(walk: Walk) -> bool:
    """Whether a (collapsed) walk has windows of single pixels that are a run of memory, as results are."""
    d, h, _ = walk.axes
    plain = walk.groups == 1 and all(a.is_plain for a in walk.axes) and (d.count, h.count) == (1, 1)
    return plain and walk.source.spatial[2] == 1 and walk.result.spatial[2] == 1


def strips_of(tile: Tile, pixels: int) -> list[int]:
    """Vectors of the strips of an image, which are about equal."""
    vectors = ceil(pixels / tile.lanes)
    strips = ceil(vectors / tile.vectors)
    return [(n + 1) * vectors // strips - n * vectors // strips for n in range(strips)]


def best_points(code: str, walk: Walk) -> int | None:
    """The register tile that takes the least time, by its multiply-adds and loads, two of each in a cycle."""
    pixels = walk.axes[2].count

    def cost(shape: int) -> float:
        tile = tile_of(code, shape)
        each = [
            walk.channels * max(tile.rows * v, tile.rows + 2 * v) / 2 + tile.rows * v + OVERHEAD
            for v in strips_of(tile, pixels)
        ]
        longest = walk.channels <= FEW_CHANNELS and tile.vectors == max(tile_of(code, n).vectors for n in tile_shapes())
        return ceil(walk.outs / tile.rows) * sum(each) * (LONGER if longest else 1)

    def can(shape: int) -> bool:
        tile = tile_of(code, shape)
        return walk.outs >= tile.rows and (near_rows(walk.channels) == walk.channels or walk.outs % tile.rows == 0)

    return min((shape for shape in tile_shapes() if can(shape)), key=cost, default=None)


def suits_points(code: str, walk: Walk) -> bool:
    """Whether a (collapsed) walk is better off without packing its pixels."""
    if not tile_of(code).masked or not is_points(walk) or walk.channels * walk.outs > MOST:
        return False
    least = tile_of(code).lanes if walk.images == 1 else WHOLE_IMAGE
    return walk.axes[2].count >= least and best_points(code, walk) is not None


def points_step(code: str, shape: int, walk: Walk, rows: tuple[tuple[int, int], int], bias: int | None) -> Step:
    """The step; `rows`: where weights are, and how far outputs' are apart."""
    tile, (weights, apart) = tile_of(code, shape), rows
    s, r, pixels = walk.source, walk.result, walk.axes[2].count
    strips, panels = len(strips_of(tile, pixels)), ceil(walk.outs / tile.rows)
    work = walk.outs * walk.channels * tile.columns
    blocks = max(1, min(strips, strips * work // WORK))
    cuts, threads = 1, _C.get_num_threads()
    if threads > 1 and strips * work > WORK:
        cuts = max(1, min(panels, ceil(min(ITEMS, 2 * threads) / (blocks * walk.images))))
    per_cut = ceil(panels / cuts)
    cuts = ceil(panels / per_cut)
    params = [
        walk.outs, walk.channels, pixels, s.image, s.channel, r.image, r.channel, apart, blocks, strips, cuts, per_cut,
        micro_kernel.ZERO if bias is None else micro_kernel.BIAS, near_rows(walk.channels),
    ]
    spots = [(s.slot, s.offset * tile.size), weights, s.slot if bias is None else bias, walk.place(tile.size)]
    each = max(1, strips * work // (blocks * cuts))
    address = kernel_of(points.POINTS, code, shape).address
    return Step(address, spots, params, walk.images * cuts * blocks, max(1, WORK // each), -1)
