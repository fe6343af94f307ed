"""Planning products on instructions that add up several products per lane: pack both operands in groups of k, multiply
(codegen/library/products/grouped_products.py).

Enters: matrices as slots and strides. Leaves: plan steps and the bytes of three scratch slots. Refuses, with None:
other devices, processors without such instructions, matrices that are consecutive in neither direction, empty products.
"""

from __future__ import annotations

from typing import Any

from ...codegen.library.products import grouped_products
from ...codegen.library.products.dot_instructions import Dots, host_dots
from ...codegen.library.products.grouped_products import BLOCK, PAST, together_of
from ...op.step import Step
from .gemm import Matrix
from .tiles import result_size

WORK = 1 << 22           # multiply-adds worth an item
ITEMS = 8                # parts of a product, if it is large enough
PACK_GRAIN = 1 << 17     # bytes packed by a thread at a time
FLIP = 128               # what is added to factors that must not be negative


def has_dots(code: str) -> bool:
    """Whether this processor has such instructions for a type."""
    return host_dots(code) is not None


def group_steps(
    code: str, device: Any, a: Matrix, b: Matrix, c: Matrix, m: int, n: int, k: int, scratch: int, batch: int = 1,
    dots: Dots | None = None,
) -> tuple[list[Step], tuple[int, int, int]] | None:
    """c = a @ b of int8 (c is int32) or bfloat16. The scratch slots are `scratch` and the two after it.

    `dots`: the instruction, by default this processor's."""
    dots = dots or host_dots(code)
    if device.type != "cpu" or dots is None or not (m and n and k):
        return None
    if (a.row != 1 and a.col != 1) or (b.row != 1 and b.col != 1) or c.col != 1:
        return None
    groups = -(-k // dots.group)
    panels, strips = -(-m // dots.height), -(-n // dots.width)
    blocks = -(-panels * dots.height // BLOCK)
    block = -(-panels // blocks)
    blocks = -(-panels // block)
    items = max(1, min(ITEMS, m * n * k // WORK))
    parts = max(1, min(strips, -(-items // blocks)))
    part = -(-strips // parts)
    parts = -(-strips // part)
    shape = [m, n, groups, c.row, block, blocks, part, parts]
    grain = max(1, WORK * blocks * parts // (m * n * k))
    kernel, result = grouped_products.product_kernel(dots).address, []
    for i in range(batch):
        result.append(pack_step(dots, a, i, scratch, m, k, a.row, a.col, dots.height, groups))
        result.append(pack_step(dots, b, i, scratch + 1, n, k, b.col, b.row, dots.width, groups, dots.flips))
        if dots.flips:
            starts, several = grouped_products.sums_kernel(dots).address, max(1, PACK_GRAIN // (dots.height * k))
            result.append(Step(starts, [scratch, scratch + 2], [groups], panels, several, -1))
        out = (c.slot, i * c.batch * result_size(code))
        result.append(Step(kernel, [scratch, scratch + 1, out, scratch + 2], shape, blocks * parts, grain, -1))
    line = groups * dots.unit
    sums = 4 * panels * dots.height if dots.flips else 0
    return result, (panels * dots.height * line + PAST, strips * dots.width * line, sums)


def pack_step(
    dots: Dots, x: Matrix, which: int, target: int, lines: int, k: int, line: int, step: int, width: int, groups: int,
    flips: bool = False,
) -> Step:
    """Packs one matrix of a batch: `lines` lines, `line` elements apart, whose values of k are `step` apart."""
    step = 1 if k == 1 else step      # a value of its own: any stride is right
    params = [lines, k, line, step, width, groups, FLIP if flips else 0]
    together = together_of(dots)
    grain = max(1, PACK_GRAIN // (together * k * dots.size))
    source = (x.slot, which * x.batch * dots.size)
    return Step(grouped_products.pack_kernel(dots).address, [source, target], params, -(-lines // together), grain, -1)
