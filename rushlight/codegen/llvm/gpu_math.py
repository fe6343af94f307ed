"""Functions that GPUs have instructions for, good to about two units in the last place as PyTorch's are there.

Enters: calls of named functions, and a nest. Leaves: `rule_for(nest)`, which makes expressions with the instruction in
it (`exp2`), or None for others, which loops.math expands. Where a nest keeps nothing but results of half types,
functions are computed to their precision and a few bits more: a relative error below 2 ** -16.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

from ...loops import coefficients
from ...loops.expr import Value, abs_, and_, bitcast, cast, const, fma, gt, lt, max_, min_, neg, node, select, walk
from ...loops.nest import Nest, values_of

LOG2_E = 1.44269502162933349609375            # nearest in float32, and what it lacks
LOG2_E_REST = math.log2(math.e) - LOG2_E
LOWEST, HIGHEST = -200.0, 88.72283172607422   # below, 0; above, infinity


# CUDA's logf: this series of (m - 1), from the highest power on.
LOG_SERIES = (0xBE055027, 0x3E1039F6, 0xBDF8CDCC, 0x3E0F2955, 0xBE2AD8B9, 0x3E4CED0B, 0xBE7FFF22, 0x3EAAAA78,
              0xBF000000)
INSTRUCTIONS = {
    "cuda_sin": "nvvm.sin.approx.f", "cuda_cos": "nvvm.cos.approx.f", "cuda_log2": "nvvm.lg2.approx.f",
    "cuda_divide": "nvvm.div.approx.f", "rsqrt": "nvvm.rsqrt.approx.f",
}


HALF = ("f16", "bf16")
FAR = 9.0                    # the normal distribution beyond it is nothing
# log2 of the normal distribution beyond t, by powers of t: to 8e-6 up to t = 5, and falling from there on.
SHORT_TAIL = (-1.0, -1.1510300636291504, -0.45925870537757874, -0.05293316766619682, 0.007880805060267448,
              -0.0007345611229538918, 3.1305702577810735e-05)
# What makes whole numbers of quotients: a last bit counts there.
ROUNDING = frozenset(("floor", "ceil", "trunc", "round", "rint", "roundeven"))


def rule_for(nest: Nest, stored: set[int]) -> Callable[[Value], Value | None]:
    """How functions are written in a kernel that stores to the operands `stored`."""
    if not stored or any(nest.operands[k].code not in HALF for k in stored):
        return function_of_gpu
    for value in walk(values_of(nest)):
        exact = value.op == "call" and value.attr.startswith("cuda_")        # must round as CUDA does
        if exact or value.op in ROUNDING or (value.op == "cast" and value.dtype[0] in "iu" and is_float(value.args[0])):
            return function_of_gpu
    return short_function


def is_float(value: Value) -> bool:
    return value.dtype in ("f16", "bf16", "f32", "f64")


def short_function(value: Value) -> Value | None:
    """The same for results of half types."""
    if value.dtype != "f32":
        return None
    if value.op == "div":
        return short_quotient(*value.args)
    if value.op != "call":
        return None
    x = value.args[0]
    if value.attr in ("exp", "exp_of_negative"):
        return power_of_two(x * const(math.log2(math.e), "f32"))
    if value.attr == "sigmoid":
        return reciprocal(power_of_two(x * const(-math.log2(math.e), "f32")) + const(1.0, "f32"))
    if value.attr == "tanh":
        twice = reciprocal(power_of_two(x * const(2 * math.log2(math.e), "f32")) + const(1.0, "f32"))
        near = fma(x * x * const(-1 / 3, "f32"), x, x)
        return select(lt(abs_(x), const(0.03, "f32")), near, fma(twice, const(-2.0, "f32"), const(1.0, "f32")))
    if value.attr in ("gelu", "gelu_slope"):
        return gelu_of_gpu(value, SHORT_TAIL)
    return function_of_gpu(value)


def power_of_two(x: Value) -> Value:
    """2 ** x by the instruction; 0 where that is no normal number."""
    return node("nvvm.ex2.approx.ftz.f", (x,), "f32")


def reciprocal(x: Value) -> Value:
    return node("nvvm.rcp.approx.ftz.f", (x,), "f32")


def short_quotient(a: Value, b: Value) -> Value:
    """a / b through the reciprocal of b, which is first brought to where that is a normal number: of a `b` that is the
    same for many `a`, all but two products is done once."""
    one, size = const(1.0, "f32"), abs_(b)
    up = select(lt(size, const(2.0**-60, "f32")), const(2.0**64, "f32"), one)
    scale = select(gt(size, const(2.0**100, "f32")), const(2.0**-64, "f32"), up)
    return (a * scale) * reciprocal(b * scale)


def gelu_of_gpu(value: Value, tail: tuple[float, ...]) -> Value:
    """gelu, or its slope, as loops/math/normal.py has it, by the instruction for powers of two."""
    x, zero, one = value.args[0], const(0.0, "f32"), const(1.0, "f32")
    t = min_(const(FAR, "f32"), abs_(x))
    logarithm = const(tail[-1], "f32")
    for coefficient in reversed(tail[:-1]):
        logarithm = fma(logarithm, t, const(coefficient, "f32"))
    p = power_of_two(logarithm)
    if value.attr == "gelu":
        return fma(neg(t), p, x * select(gt(x, zero), one, zero))
    size = t * power_of_two(t * t * const(-0.5 / math.log(2), "f32")) * const(1 / math.sqrt(2 * math.pi), "f32")
    return select(gt(x, zero), one - p + size, p - size)


def function_of_gpu(value: Value) -> Value | None:
    """Functions that GPUs have instructions for, or that must round as CUDA's do."""
    if value.op != "call" or value.dtype != "f32":
        return None
    if value.attr in ("maximum", "minimum"):
        return node(value.attr, value.args, "f32")
    if value.attr in ("gelu", "gelu_slope"):
        return gelu_of_gpu(value, coefficients.NORMAL_TAIL_LOG2["f32"])
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
    out = fma(near, lost * const(math.log(2.0), "f32"), near)
    return (
        out if value.attr == "exp_of_negative" else select(gt(x, const(HIGHEST, "f32")), const(math.inf, "f32"), out)
    )


__all__ = ["exp_of_gpu", "function_of_gpu", "rule_for"]
