"""Inputs for ops of one sparse tensor."""

from __future__ import annotations

from typing import Any

from .... import _C
from ..fuzzer import FuzzedSparseTensor, Fuzzer
from . import sizes

__all__ = ["UnaryOpSparseFuzzer"]


class UnaryOpSparseFuzzer(Fuzzer):
    """A sparse `x` of one to three dims."""

    def __init__(self, seed: int | None, dtype: Any = None, cuda: bool = False) -> None:
        super().__init__(
            parameters=[
                sizes.rank("dim_parameter"), sizes.sparse_dim(), *sizes.sizes(), *sizes.sparseness(), sizes.entropy()
            ],
            tensors=[
                FuzzedSparseTensor("x", sizes.SIZE, dim_parameter="dim_parameter", sparse_dim="sparse_dim",
                                   density="density", coalesced="coalesced", cuda=cuda,
                                   dtype=_C.float32 if dtype is None else dtype, **sizes.LIMITS)
            ],
            seed=seed,
        )
