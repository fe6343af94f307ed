"""Where the torch dialect has an op that torch-mlir cannot lower, or lowers to something else.

Leaves: `AVOIDED`, names of overloads, and `RULES`, functions that serve a call instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...op import find_op

AVOIDED = frozenset(
    "as_strided as_strided_copy bincount copysign.Tensor copysign.Scalar upsample_nearest1d upsample_nearest1d.vec "
    "upsample_linear1d upsample_bilinear2d upsample_bilinear2d.vec".split()
)
"""Ops that go out by their loops."""


def reciprocal(walk: Any, seen: Any, x: Any) -> Any:
    """By a division: torch-mlir's code for the op ends the process where an element is 0."""
    return walk.expanded(lambda t: find_op("div")(find_op("full")([], 1.0, dtype=seen.dtype), t), (x,))


RULES: dict[str, Callable[..., Any]] = {"reciprocal": reciprocal}
