"""Functions that GPUs have instructions for, good to about two units in the last place as PyTorch's are there.

Enters: calls of named functions. Leaves: expressions with the instruction in it (`exp2`), or None for others,
which loops.math expands.
"""

from __future__ import annotations

import math
import struct

from ..loops.expr import Value, and_, bitcast, cast, const, fma, gt, max_, neg, node, select

LOG2_E = 1.44269502162933349609375            # nearest in float32, and what it lacks
LOG2_E_REST = math.log2(math.e) - LOG2_E
LOWEST, HIGHEST = -200.0, 88.72283172607422   # below, 0; above, infinity


# CUDA's logf: this series of (m - 1), from the highest power on.
LOG_SERIES = (0xBE055027, 0x3E1039F6, 0xBDF8CDCC, 0x3E0F2955, 0xBE2AD8B9, 0x3E4CED0B, 0xBE7FFF22, 0x3EAAAA78,
              0xBF000000)  # fmt: skip
INSTRUCTIONS = {
    "cuda_sin": "nvvm.sin.approx.f", "cuda_cos": "nvvm.cos.approx.f", "cuda_log2": "nvvm.lg2.approx.f",
    "cuda_divide": "nvvm.div.approx.f",
}  # fmt: skip


def function_of_gpu(value: Value) -> Value | None:
    """Functions that GPUs have instructions for, or that must round as CUDA's do."""
    if value.op != "call" or value.dtype != "f32":
        return None
    if value.attr in INSTRUCTIONS:
        return node(INSTRUCTIONS[value.attr], value.args, "f32")
    if value.attr == "cuda_log":
        return cuda_log(value.args[0])
    if value.attr == "cuda_exp":
        return cuda_exp(value.args[0])
    return exp_of_gpu(value)


def single(bits: int) -> Value:
    """The float32 with these bits."""
    return const(struct.unpack("<f", struct.pack("<I", bits))[0], "f32")


def cuda_log(x: Value) -> Value:
    """The logarithm of a normal number as CUDA's logf rounds it: of 2 ** e * m with m near 1."""
    bits = cast(bitcast(x, "i32"), "i64")
    part = and_(bits - const(0x3F2AAAAB, "i64"), const(-(1 << 23), "i64"))
    m = bitcast(cast(bits - part, "i32"), "f32")
    e = cast(part, "f32") * const(2.0**-23, "f32")
    f = m - const(1.0, "f32")
    series = single(LOG_SERIES[0])
    for bits_ in LOG_SERIES[1:]:
        series = fma(series, f, single(bits_))
    return fma(e, single(0x3F317218), fma(f * series, f, f))


def cuda_exp(x: Value) -> Value:
    """The exponential as CUDA's quick one rounds it."""
    return node("exp2", (x * single(0x3FB8AA3B),), "f32")


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


__all__ = ["exp_of_gpu", "function_of_gpu"]
