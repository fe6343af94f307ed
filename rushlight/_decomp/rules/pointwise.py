"""Decompositions of pointwise ops that read better than their expressions do: as other ops of the same shape.

Enters: arguments in the order of ATen's signatures. Leaves: `RULES`, from names of ops (or `op.overload`) to functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...op import find_op


def rsub(input: Any, other: Any, alpha: Any = 1) -> Any:
    return input.neg() * alpha + other if alpha != 1 else input.neg() + other


def addcmul(input: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Any:
    product = tensor1 * tensor2
    return input + (product if value == 1 else product * value)


def addcdiv(input: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Any:
    quotient = tensor1 / tensor2
    return input + (quotient if value == 1 else quotient * value)


def selu(input: Any) -> Any:
    alpha, scale = 1.6732632423543772, 1.0507009873554805
    return find_op("elu")(input, alpha) * scale


def glu(input: Any, dim: int = -1) -> Any:
    half = input.shape[dim] // 2
    value, gate = find_op("slice")(input, dim, 0, half), find_op("slice")(input, dim, half)
    return value * gate.sigmoid()


def prelu(input: Any, weight: Any) -> Any:
    if math.prod(weight.shape) != 1 and input.ndim > 1:
        weight = weight.view([-1, *[1] * (input.ndim - 2)])
    return find_op("where")(input > 0, input, input * weight)


def log_sigmoid(input: Any) -> Any:
    zero = find_op("scalar_tensor")(0, dtype=input.dtype, device=input.device)
    return find_op("minimum")(input, zero) - input.abs().neg().exp().log1p()


def isfinite(input: Any) -> Any:
    if not input.dtype.is_floating_point:
        return NotImplemented
    return input.abs() < math.inf


RULES: dict[str, Callable] = {
    "rsub.Scalar": rsub, "rsub.Tensor": rsub, "addcmul": addcmul, "addcdiv": addcdiv, "selu": selu, "glu": glu,
    "prelu": prelu, "log_sigmoid": log_sigmoid, "isfinite": isfinite,
    "square": lambda x: x.pow(2), "relu6": lambda x: find_op("hardtanh")(x, 0.0, 6.0),
    "silu": lambda x: x * x.sigmoid() if x.dtype.itemsize >= 4 else NotImplemented,
    "clamp_min": lambda x, low: x.clamp(min=low), "clamp_min.Tensor": lambda x, low: x.clamp(min=low),
    "clamp_max": lambda x, high: x.clamp(max=high), "clamp_max.Tensor": lambda x, high: x.clamp(max=high),
    "floor_divide": lambda a, b: find_op("div")(a, b, rounding_mode="floor"),
    "floor_divide.Scalar": lambda a, b: find_op("div")(a, b, rounding_mode="floor"),
    "frac": lambda x: x - x.trunc(), "rad2deg": lambda x: x * (180 / math.pi), "deg2rad": lambda x: x * (math.pi / 180),
    "fill.Tensor": lambda x, value: find_op("full_like")(x, 0) + value.to(x.dtype),
    "zero": lambda x: find_op("full_like")(x, 0),
    "resolve_conj": lambda x: x, "resolve_neg": lambda x: x, "positive": lambda x: x,
}
