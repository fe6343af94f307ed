"""Matrix products whose k goes through several spans of memory: the pixels of image after image.

Enters: matrices whose batch stride is the distance of their spans. Leaves: steps over the kernels of
codegen/schedule/cpu/product.py, which pack spans one after the other and sum over all of them.
Refuses: types without tiles, layouts that are no lines, sizes where packing does not pay (the answer is None).
"""

from __future__ import annotations

import functools

from ... import _C
from ...codegen.schedule.cpu.contraction import (
    CHUNK,
    PACK_GRAIN,
    TILED_SIDE,
    TILED_WORK,
    items_for_threads,
    product_parts,
    row_blocks,
    suits_rows,
)
from ...codegen.schedule.cpu.product import SPAN_SLICE, SPAN_STRIPS, Blocking, product_nest, span_pack_nest
from ...op.pack import compile_for, packer
from ...op.step import Step
from .gemm import SIZES
from .padded import Matrix


def span_steps(
    code: str, a: Matrix, b: Matrix, c: Matrix, m: int, n: int, span: int, spans: int, scratch: int | tuple[int, int]
) -> tuple[list[Step], int] | None:
    """c = the sum over spans of a[span] @ b[span], [m, span] and [span, n]: steps, and elements of slot `scratch`."""
    k = span * spans
    if code not in SIZES or m * n * k <= TILED_WORK or min(m, n) < TILED_SIDE:
        return None
    if (a.row != 1 and a.col != 1) or (b.row != 1 and b.col != 1) or c.col != 1:
        return None
    cut = Blocking(code)
    sizes = cut.sizes.but(slice=SPAN_SLICE, lines=SPAN_STRIPS)
    strips, lines = -(-n // cut.width), -(-m // cut.height)
    own = lines <= sizes.lines
    block, blocks, part, parts = product_parts(sizes, lines, strips, k, m * n * k, 1, own, items_for_threads())
    params = [m, n, k, a.row, a.col, c.row, 0, 0, 0, block * cut.height, blocks, part, parts]
    params += [b.col, b.row] if own else []
    params += [span, spans, a.batch, b.batch]
    # Few columns meet the rows: they are read where they lie, which spans must be long for, not several to a slice.
    rows = reads_rows(code, a, m, n) and 2 * span > SPAN_SLICE
    if rows:
        own, (block, blocks, part, parts) = True, row_blocks(cut.sizes, lines, strips)
        params = [m, n, k, a.row, a.col, c.row, 0, 0, 0, block * cut.height, blocks, part, parts, b.col, b.row]
        params += [span, spans, a.batch, b.batch]
    form = "rows" if rows else "own" if own else "packed"
    slots = [a.slot, b.slot if own else scratch, c.slot]
    grain = max(1, CHUNK * blocks * parts // (m * n * k))
    product = Step(product_kernel(code, form), slots, params, blocks * parts, grain, -1)
    if own:
        return [product], 0
    groups = -(-strips // sizes.together)
    grain = max(1, PACK_GRAIN // (span * cut.width * sizes.together))
    params = [n, b.col, b.row, span, spans, b.batch, groups, strips]
    pack = Step(pack_kernel(code), [b.slot, scratch], params, spans * groups, grain, -1)
    return [pack, product], strips * cut.width * k


def reads_rows(code: str, a: Matrix, m: int, n: int) -> bool:
    """Whether rows of `a` are runs that so few columns meet that packing them would take longer than reading them where
    they lie, unless that is in the same few sets of a cache."""
    return a.col == 1 and suits_rows(Blocking(code), m, n, a.row * SIZES[code])


@functools.cache
def pack_kernel(code: str) -> int:
    """The kernel that packs a right operand, span by span."""
    return packer(compile_for(_C.device("cpu"), span_pack_nest(code)))


@functools.cache
def product_kernel(code: str, form: str) -> int:
    """The kernel that multiplies: see `product_nest`."""
    return compile_for(_C.device("cpu"), product_nest(code, None, form, by_span=True))
