"""Weights of convolutions as the kernels of bytes read them, and what is known of their outputs.

Enters: int8 weights [outputs, channels of a group, kernel...]. Leaves: `Weights`: packed bytes, and columns for given
scales. Which packing serves is decided where steps are planned (planners/convolutions/byte_windows.py).
"""

from __future__ import annotations

from math import prod
from typing import Any

from ... import _C
from ...op import find_op
from ...planners.convolutions.byte_windows import (
    Blocks,
    Packing,
    blocks_of,
    pack_blocks,
    pack_weight,
    packing_of,
    spread_columns,
)

FLIP = 128               # what is taken from activations where instructions multiply signed bytes only
WORD = 4


class Weights:
    """Packed weights."""

    def __init__(self, packed: Any, sums: Any, packing: Packing | Blocks) -> None:
        self.packed, self.sums, self.packing = packed, sums, packing

    def columns(self, factors: Any, added: Any, zero: int) -> Any:
        """`COLUMNS` of codegen/library/convolution/byte_finish.py, of activations with a zero point, as words; behind
        those of depthwise weights, a pixel of padding."""
        flip = FLIP if self.packing.form.signed else 0
        parts = [self.sums * (flip - zero), factors.view(_C.int32), added.view(_C.int32)]
        parts = [self.spread(part) for part in parts]
        if isinstance(self.packing, Blocks):
            bytes_ = -(-self.packing.channels // WORD) * WORD
            parts.append(factors.new_full((bytes_,), zero, dtype=_C.uint8).view(_C.int32))
        return find_op("cat")(parts)

    def spread(self, values: Any) -> Any:
        """One number for every output, as the kernel reads them."""
        if isinstance(self.packing, Blocks):
            return values[self.packing.order()]
        return spread_columns(values, self.packing)


def packed_weights(weight: Any, groups: int) -> Weights:
    """int8 weights of a convolution, packed for this processor."""
    sizes = groups, weight.shape[1], weight.shape[0] // groups, prod(weight.shape[2:])
    sums = weight.flatten(1).sum(1, dtype=_C.int32)
    blocks = blocks_of(*sizes)
    if blocks is not None:
        return Weights(pack_blocks(weight, blocks), sums, blocks)
    packing = packing_of(*sizes)
    return Weights(pack_weight(weight, packing), sums, packing)
