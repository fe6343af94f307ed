"""All rules by name: importing this fills the table."""

from __future__ import annotations

from . import (  # noqa: F401 - they fill the table
    convolutions,
    creation,
    ordering,
    products,
    shapes,
    transforms,
)
from .table import RULES

RANDOM = frozenset(("rand", "rand_like", "randn", "randn_like", "native_dropout", "bernoulli", "randint", "randperm",
                    "multinomial", "normal", "uniform", "poisson", "exponential"))
"""Ops that draw random numbers."""

__all__ = ["RANDOM", "RULES"]
