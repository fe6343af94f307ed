"""Inputs for Fourier transforms."""

from __future__ import annotations

from typing import Any

from .... import _C
from ..fuzzer import FuzzedTensor, Fuzzer
from . import sizes

__all__ = ["SpectralOpFuzzer"]

MIN_DIM_SIZE, MAX_DIM_SIZE = 16, 16 << 10


def _is_regular(n: int) -> bool:
    for factor in (2, 3, 5):
        while n % factor == 0:
            n //= factor
    return n == 1


# Without other prime factors than 2, 3 and 5: what transforms are fastest for.
REGULAR_SIZES = [n for n in range(MIN_DIM_SIZE + 1, MAX_DIM_SIZE + 1) if _is_regular(n)]


class SpectralOpFuzzer(Fuzzer):
    """`x` of one to three dims, sometimes strided, of regular sizes with a given probability."""

    def __init__(
        self, *, seed: int | None, dtype: Any = _C.float64, cuda: bool = False, probability_regular: float = 1.0
    ) -> None:
        steps = tuple(f"step_{i}" for i in sizes.DIMS)
        super().__init__(
            parameters=[
                sizes.rank("ndim"),
                *sizes.sizes("regular", REGULAR_SIZES, probability_regular, MAX_DIM_SIZE, special_first=True),
                sizes.steps(steps),
            ],
            tensors=[
                FuzzedTensor("x", sizes.SIZE, steps, probability_contiguous=0.75, max_allocation_bytes=2 << 30,
                             dim_parameter="ndim", dtype=dtype, cuda=cuda, **sizes.LIMITS)
            ],
            seed=seed,
        )
