"""What the ready-made fuzzers draw: the parameters that sizes, steps and densities come from.

Enters: names and shares. Leaves: lists of `FuzzedParameter`, in PyTorch's order, from which the same seed draws the
same numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..fuzzer import FuzzedParameter, ParameterAlias

DIMS = range(3)
LEAST, MOST = 16, 16 << 20
LIMITS = {"min_elements": 4 << 10, "max_elements": 32 << 20}
SIZE = tuple(f"k{i}" for i in DIMS)
POWERS_OF_TWO = tuple(1 << i for i in range(4, 25))
_STEPS = {1: 0.8, 2: 0.06, 4: 0.06, 8: 0.04, 16: 0.04}


def rank(name: str) -> FuzzedParameter:
    """How many dims a tensor has: one to three."""
    return FuzzedParameter(name, distribution={1: 0.3, 2: 0.4, 3: 0.3}, strict=True)


def sizes(
    special: str = "pow2", values: Sequence[int] = POWERS_OF_TWO, share: float = 0.2, most: int = MOST,
    special_first: bool = False,
) -> list[list[FuzzedParameter]]:
    """Sizes k0, k1, k2: any number between LEAST and `most`, or (a share of them) one of the special `values`."""
    shares = [("any", 1 - share), (special, share)][:: -1 if special_first else 1]
    return [
        [FuzzedParameter(f"k_any_{i}", LEAST, most, "loguniform") for i in DIMS],
        [FuzzedParameter(f"k_{special}_{i}", distribution=dict.fromkeys(values, 1.0 / len(values))) for i in DIMS],
        [aliases(f"k{i}", {f"k_{kind}_{i}": p for kind, p in shares}) for i in DIMS],
    ]


def aliases(name: str, shares: dict[str, float], others: dict[Any, float] | None = None) -> FuzzedParameter:
    """A parameter that stands for others, with probabilities, or for values."""
    return FuzzedParameter(
        name, distribution={**{ParameterAlias(to): p for to, p in shares.items()}, **(others or {})}, strict=True
    )


def steps(names: Iterable[str]) -> list[FuzzedParameter]:
    """Steps through memory, mostly 1."""
    return [FuzzedParameter(name, distribution=_STEPS) for name in names]


def sparseness() -> list[FuzzedParameter]:
    """How full a sparse tensor is, and whether each index stands in it once."""
    return [
        FuzzedParameter("density", distribution={0.1: 0.4, 0.05: 0.3, 0.01: 0.3}),
        FuzzedParameter("coalesced", distribution={True: 0.5, False: 0.5}),
    ]


def sparse_dim() -> FuzzedParameter:
    """How many dims of a sparse tensor are sparse."""
    return FuzzedParameter("sparse_dim", distribution={1: 0.4, 2: 0.4, 3: 0.2}, strict=True)


def entropy() -> FuzzedParameter:
    """A number for whoever needs one that repeats."""
    return FuzzedParameter("random_value", 0, 2**32 - 1, "uniform")
