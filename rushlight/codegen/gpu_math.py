"""Functions that GPUs have instructions for, good to about two units in the last place as PyTorch's are there.

Enters: calls of named functions. Leaves: expressions with the instruction in it (`exp2`), or None for others,
which loops.math expands.
"""

from __future__ import annotations

import math

from ..loops.expr import Value, const, fma, gt, max_, neg, node, select

LOG2_E = 1.44269502162933349609375            # nearest in float32, and what it lacks
LOG2_E_REST = math.log2(math.e) - LOG2_E
LOWEST, HIGHEST = -200.0, 88.72283172607422   # below, 0; above, infinity


def exp_of_gpu(value: Value) -> Value | None:
    """exp of float32 through the instruction for powers of two;
    what the product with log2(e) lost comes back as a factor."""
    if value.op != "call" or value.attr not in ("exp", "exp_of_negative") or value.dtype != "f32":
        return None
    x = max_(const(LOWEST, "f32"), value.args[0])
    scale = const(LOG2_E, "f32")
    power = x * scale
    lost = fma(x, const(LOG2_E_REST, "f32"), fma(x, scale, neg(power)))
    near = node("exp2", (power,), "f32")
    made = fma(near, lost * const(math.log(2.0), "f32"), near)
    return (
        made if value.attr == "exp_of_negative" else select(gt(x, const(HIGHEST, "f32")), const(math.inf, "f32"), made)
    )


__all__ = ["exp_of_gpu"]
