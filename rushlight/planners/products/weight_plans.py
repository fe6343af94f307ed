"""Planning products of floats with weights of 8 and 4 bits (codegen/library/products/weight_products.py).

Enters: sizes. Leaves: plan steps, and how 4-bit weights are packed on this processor, which is how PyTorch packs them
on it. Refuses nothing: callers ask for CPUs only, and give rows that are consecutive.
"""

from __future__ import annotations

from ... import _C
from ...codegen.library.products import weight_dots
from ...codegen.library.products.weight_products import (
    COLUMNS,
    MIDDLE,
    WIDE,
    eight_bit_kernel,
    four_bit_kernel,
    host_form,
)
from ...codegen.schedule.cpu.contraction import items_for_threads
from ...op.library import Room
from ...op.step import Step

WORK = 1 << 19               # multiply-adds worth an item


def packing() -> tuple[int, bool]:
    """Columns of a strip of 4-bit weights here, and whether neighbours share a byte."""
    return (64, False) if host_form() is WIDE else (32, host_form() is not MIDDLE)


def parts_of(count: int, work: int) -> tuple[int, int]:
    """How many of `count` an item takes, and how many items there are."""
    items = max(1, min(items_for_threads(), work // WORK, count))
    part = -(-count // items)
    return part, -(-count // part)


def split(rows: int, most: int) -> tuple[int, int, int]:
    """Tiles of rows, the rows of the lower ones, and how many have one more."""
    tiles = -(-rows // most)
    low, extra = divmod(rows, tiles)
    return tiles, low, extra


def eight_bit_step(m: int, n: int, k: int) -> Step:
    """Slots 0 to 3: rows, weights, scales, result."""
    form = host_form()
    tiles, low, extra = split(m, form.height)
    part, items = parts_of(-(-n // COLUMNS), m * n * k)
    kernel = eight_bit_kernel(form, low)
    return Step(kernel.address, [0, 1, 2, 3], [n, k, part * COLUMNS, tiles, extra], items, 1, -1)


def has_dots() -> bool:
    """Whether this processor multiplies four bytes at a time, as `four_bit_dots` wants it."""
    return weight_dots.has_dots()


def four_bit_dots(room: Room, m: int, n: int, k: int, group: int, scales: str) -> list[Step]:
    """The same by dot products of bytes, for rows that came from 16-bit floats (slot 3 is not read)."""
    groups = k // group
    halves, known = room.temp(_C.int8, (2 * m * k,)), room.temp(_C.float32, (2 * m * groups,))
    part, items = parts_of(n // weight_dots.BLOCK, m * n * k)
    kernel = weight_dots.dot_kernel(scales)
    return [
        Step(weight_dots.stage_kernel().address, [0, halves, known], [k, group, groups], m, max(1, (1 << 15) // k), -1),
        Step(kernel.address, [halves, 1, 2, known, 4], [m, n, k, part, group, groups], items, 1, -1),
    ]


def four_bit_step(m: int, n: int, k: int, group: int, scales: str) -> Step:
    """Slots 0 to 4: rows, weights, scales and zeros, sums of rows by group, result; `n` is in whole strips."""
    form, (block, is_paired) = host_form(), packing()
    tiles, low, extra = split(m, form.strip_height)
    part, items = parts_of(n // block, m * n * k)
    kernel = four_bit_kernel(form, low, block, is_paired, scales)
    return Step(kernel.address, [0, 1, 2, 3, 4], [n, k, part, tiles, extra, group, k // group], items, 1, -1)
