"""All rules by name: importing this fills the table."""

from __future__ import annotations

from . import products  # noqa: F401 - fills the table
from .table import RULES

RANDOM = frozenset(("rand", "rand_like", "randn", "randn_like", "native_dropout", "bernoulli", "randint", "randperm",
                    "multinomial", "normal", "uniform", "poisson", "exponential"))
"""Ops that draw random numbers."""

__all__ = ["RANDOM", "RULES"]
