"""How the factors of narrow matrices are laid out: one of the whole matrix, one a row, or one a block."""

from __future__ import annotations

from enum import IntEnum


class ScalingType(IntEnum):
    """What one factor belongs to, in `scaled_mm`."""

    TensorWise = 0
    RowWise = 1
    BlockWise1x16 = 2
    BlockWise1x32 = 3
    BlockWise1x128 = 4
    BlockWise128x128 = 5


class SwizzleType(IntEnum):
    """How factors of blocks are interleaved."""

    NO_SWIZZLE = 0
    SWIZZLE_32_4_4 = 1
