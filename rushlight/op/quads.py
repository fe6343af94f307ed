"""Planning int8 products on dot-product instructions: pack both operands in quads, multiply (codegen/quad_products.py).

Enters: matrices as slots and strides. Leaves: plan steps and the bytes of two scratch slots. Refuses, with None: other
devices, processors without such instructions, matrices that are consecutive in neither direction, empty products.
"""

from __future__ import annotations

from typing import Any

from ..codegen import quad_products
from ..codegen.quad_products import BLOCK, HEIGHT, QUAD, WIDTH
from ..codegen.targets import has_dot_product
from .gemm import Matrix

WORK = 1 << 22           # multiply-adds worth an item
ITEMS = 8                # parts of a product, if it is large enough
PACK_GRAIN = 1 << 17     # bytes packed by a thread at a time


def quad_steps(
    device: Any, a: Matrix, b: Matrix, c: Matrix, m: int, n: int, k: int, scratch: int
) -> tuple[list[tuple], tuple[int, int]] | None:
    """int32 c = a @ b of int8 matrices. The scratch slots are `scratch` and the next."""
    if device.type != "cpu" or not has_dot_product() or not (m and n and k):
        return None
    if (a.row != 1 and a.col != 1) or (b.row != 1 and b.col != 1) or c.col != 1:
        return None
    quads = -(-k // QUAD)
    result, sizes = [], []
    for slot, (x, lines, line, step, width) in enumerate(
        ((a, m, a.row, a.col, HEIGHT), (b, n, b.col, b.row, WIDTH)), scratch
    ):
        if k == 1:
            step = 1     # a value of its own: any stride is right
        groups = -(-lines // 16)
        grain = max(1, PACK_GRAIN // (16 * k))
        params = [lines, k, line, step, width, quads]
        result.append((quad_products.pack_kernel().address, [x.slot, slot], params, groups, grain, -1))
        sizes.append(-(-lines // width) * width * quads * QUAD)
    panels, strips = -(-m // HEIGHT), -(-n // WIDTH)
    blocks = -(-panels // BLOCK)
    block = -(-panels // blocks)
    items = max(1, min(ITEMS, m * n * k // WORK))
    parts = max(1, min(strips, -(-items // blocks)))
    part = -(-strips // parts)
    parts = -(-strips // part)
    params = [m, n, quads, c.row, block, blocks, part, parts]
    grain = max(1, WORK * blocks * parts // (m * n * k))
    kernel = quad_products.product_kernel().address
    result.append((kernel, [scratch, scratch + 1, c.slot], params, blocks * parts, grain, -1))
    return result, (sizes[0], sizes[1])
