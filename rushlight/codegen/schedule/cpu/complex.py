"""CPU schedules of complex matrix products: real ones, of twice as many columns and twice as long sums.

Enters: sizes and strides of complex matrices whose rows are runs of memory. Leaves: one launch over the memory of their
parts. A row of the left operand, (re, im, re, im, ...), is a row of reals as it lies; the right one's rows become two
each while they are packed, (re, im, ...) and (-im, re, ...), and sums come out as rows of complex numbers lie. As many
multiply-adds as a complex product has, in the tiles of real ones (product.py).
"""

from __future__ import annotations

from ....loops.sizes import larger
from ..forms.launch import Launch, Schedule
from .contraction import CHUNK, TILED_SIDE, items_for_threads, product_parts
from .product import OWN_STRIPS, Blocking, product_nest

PARTS = {"c64": "f32", "c128": "f64"}       # the type of a part
PAIRS_WORK = 1 << 18     # multiply-adds of parts from which packing pays
LEAST_COLUMNS = 2        # strips of columns that are worth a part of a product whose rows are not packed


def suits_pairs(m: int, n: int, k: int) -> bool:
    """Whether packing costs less than it gains."""
    return bool(4 * m * n * k > PAIRS_WORK and m >= TILED_SIDE and n >= TILED_SIDE)


def schedule_complex(
    code: str, m: int, n: int, k: int, batch: int, rows: tuple[int, int, int], batches: tuple[int, int, int]
) -> Schedule:
    """Products of `batch` matrices [m, k] @ [k, n]; `rows` and `batches` are strides of left, right and result."""
    part = PARTS[code]
    cut = Blocking(part)
    in_lines = cut.sizes.in_lines
    lines, strips = -(-m // cut.height), -(-2 * n // cut.width)
    work = 4 * m * n * k
    items = items_for_threads()
    if in_lines and bool(batch * (strips // LEAST_COLUMNS) >= items):      # no row is packed, so none is cut
        block, blocks = lines, 1
        parts = -(-items // batch)
        wide = -(-strips // parts)
        parts = -(-strips // wide)
    else:
        sizes = cut.sizes.but(lines=OWN_STRIPS)
        block, blocks, wide, parts = product_parts(sizes, lines, strips, 2 * k, work, batch, True, items)
    params = [m, 2 * n, 2 * k, 2 * rows[0], 1, 2 * rows[2], *(2 * step for step in batches)]
    params += [block * cut.height, blocks, wide, parts, 1, 2 * rows[1]]
    launch = Launch(
        ("complex product", part, in_lines), lambda: product_nest(part, form="own", in_lines=in_lines, pairs=True),
        (0, 1, 2), tuple(params), batch * blocks * parts, larger(1, CHUNK * blocks * parts // work),
    )
    return Schedule((launch,))


__all__ = ["schedule_complex", "suits_pairs"]
