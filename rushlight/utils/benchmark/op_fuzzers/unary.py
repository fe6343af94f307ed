"""Inputs for ops of one tensor."""

from __future__ import annotations

from typing import Any

from .... import _C
from ..fuzzer import FuzzedTensor, Fuzzer
from . import sizes


class UnaryOpFuzzer(Fuzzer):
    """`x` of one to three dims, sometimes strided."""

    def __init__(self, seed: int | None, dtype: Any = _C.float32, cuda: bool = False) -> None:
        steps = tuple(f"x_step_{i}" for i in sizes.DIMS)
        super().__init__(
            parameters=[sizes.rank("dim"), *sizes.sizes(), sizes.steps(steps), sizes.entropy()],
            tensors=[
                FuzzedTensor("x", sizes.SIZE, steps, probability_contiguous=0.75, dim_parameter="dim", dtype=dtype,
                             cuda=cuda, **sizes.LIMITS)
            ],
            seed=seed,
        )
