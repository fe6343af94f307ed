"""Where the torch dialect has an op that torch-mlir cannot lower, or lowers to something else.

Leaves: `AVOIDED`, names of overloads, and `RULES`, functions that serve a call instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

AVOIDED = frozenset(
    "as_strided as_strided_copy bincount copysign.Tensor copysign.Scalar upsample_nearest1d upsample_nearest1d.vec "
    "upsample_linear1d upsample_bilinear2d upsample_bilinear2d.vec".split()
)
"""Ops that go out by their loops."""
RULES: dict[str, Callable[..., Any]] = {}
