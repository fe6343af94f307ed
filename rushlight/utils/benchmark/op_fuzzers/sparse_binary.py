"""Inputs for ops of two sparse tensors."""

from __future__ import annotations

from typing import Any

from .... import _C
from ..fuzzer import FuzzedSparseTensor, Fuzzer
from . import sizes


class BinaryOpSparseFuzzer(Fuzzer):
    """Sparse `x` and `y` of the same one to three dims."""

    def __init__(self, seed: int | None, dtype: Any = _C.float32, cuda: bool = False) -> None:
        same: dict[str, Any] = {
            "dim_parameter": "dim_parameter", "sparse_dim": "sparse_dim", "density": "density",
            "coalesced": "coalesced", "dtype": dtype, "cuda": cuda, **sizes.LIMITS,
        }
        super().__init__(
            parameters=[
                sizes.rank("dim_parameter"), sizes.sparse_dim(), *sizes.sizes(),
                [sizes.aliases(f"y_k{i}", {f"k{i}": 1.0}) for i in sizes.DIMS],
                *sizes.sparseness(), sizes.entropy(),
            ],
            tensors=[
                FuzzedSparseTensor("x", sizes.SIZE, **same),
                FuzzedSparseTensor("y", tuple(f"y_k{i}" for i in sizes.DIMS), **same),
            ],
            seed=seed,
        )
