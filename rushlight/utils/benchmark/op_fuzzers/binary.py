"""Inputs for ops of two tensors."""

from __future__ import annotations

from typing import Any

from .... import _C
from ..fuzzer import FuzzedTensor, Fuzzer
from . import sizes

MOST_BYTES = 2 << 30


class BinaryOpFuzzer(Fuzzer):
    """`x` and `y` of one to three dims, sometimes strided; sizes of `y` are sometimes 1, to be broadcast."""

    def __init__(self, seed: int | None, dtype: Any = _C.float32, cuda: bool = False) -> None:
        # PyTorch draws steps of `y` and gives it those of `x`.
        drawn, steps = (f"{t}_step_{i}" for i in sizes.DIMS for t in "xy"), tuple(f"x_step_{i}" for i in sizes.DIMS)
        same: dict[str, Any] = {
            "steps": steps, "probability_contiguous": 0.75, "max_allocation_bytes": MOST_BYTES, "dim_parameter": "dim",
            "dtype": dtype, "cuda": cuda,
        }
        super().__init__(
            parameters=[
                sizes.rank("dim"), *sizes.sizes(),
                [sizes.aliases(f"y_k{i}", {f"k{i}": 0.8}, {1: 0.2}) for i in sizes.DIMS],
                sizes.steps(drawn), sizes.entropy(),
            ],
            tensors=[
                FuzzedTensor("x", sizes.SIZE, **same, **sizes.LIMITS),
                FuzzedTensor("y", tuple(f"y_k{i}" for i in sizes.DIMS), **same),
            ],
            seed=seed,
        )
