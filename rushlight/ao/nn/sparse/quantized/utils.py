"""Which blocks of a weight are kept or dropped together, for the layers made within a `with` block."""

from __future__ import annotations

import threading
from typing import ClassVar

__all__ = ["LinearBlockSparsePattern"]

_PATTERNS = ((1, 4), (8, 1))     # what kernels have


def _is_valid_linear_block_sparse_pattern(row_block_size: int, col_block_size: int) -> bool:
    """Whether kernels know such blocks."""
    return (row_block_size, col_block_size) in _PATTERNS


class LinearBlockSparsePattern:
    """`with LinearBlockSparsePattern(8, 1):` dynamic layers made inside have blocks of 8 rows; one thread at a time."""

    rlock = threading.RLock()
    row_block_size: ClassVar[int] = 1
    col_block_size: ClassVar[int] = 4
    prev_row_block_size: ClassVar[int] = 1
    prev_col_block_size: ClassVar[int] = 4

    def __init__(self, row_block_size: int = 1, col_block_size: int = 4) -> None:
        if not _is_valid_linear_block_sparse_pattern(row_block_size, col_block_size):
            raise AssertionError(
                f"Invalid linear block sparse pattern: expected one of {_PATTERNS}, got"
                f" {(row_block_size, col_block_size)}"
            )
        kind = LinearBlockSparsePattern
        kind.rlock.acquire()
        kind.prev_row_block_size, kind.prev_col_block_size = kind.block_size()
        kind.row_block_size, kind.col_block_size = row_block_size, col_block_size

    def __enter__(self) -> None:
        pass

    def __exit__(self, *raised: object) -> None:
        kind = LinearBlockSparsePattern
        kind.row_block_size, kind.col_block_size = kind.prev_row_block_size, kind.prev_col_block_size
        kind.rlock.release()

    @staticmethod
    def block_size() -> tuple[int, int]:
        """(rows, columns) of a block."""
        return LinearBlockSparsePattern.row_block_size, LinearBlockSparsePattern.col_block_size
