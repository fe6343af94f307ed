"""Pointwise ops for which ONNX has an operator with settings; all others need no rules (`elements.py`)."""

from __future__ import annotations

from typing import Any

from ..building import Builder
from ..model import Value
from .table import rule


@rule("leaky_relu")
def leaky_relu(g: Builder, input: Value, negative_slope: Any = 0.01) -> Value:
    return g.node("LeakyRelu", input, alpha=float(negative_slope))


@rule("elu")
def elu(g: Builder, input: Value, alpha: Any = 1.0) -> Value:
    return g.node("Elu", input, alpha=float(alpha))


@rule("celu")
def celu(g: Builder, input: Value, alpha: float = 1.0) -> Value:
    return g.node("Celu", input, alpha=float(alpha))


@rule("selu")
def selu(g: Builder, input: Value) -> Value:
    return g.node("Selu", input)


@rule("hardsigmoid")
def hardsigmoid(g: Builder, input: Value) -> Value:
    return g.node("HardSigmoid", input, alpha=1 / 6, beta=0.5)


@rule("hardswish")
def hardswish(g: Builder, input: Value) -> Value:
    return g.node("HardSwish", input)


@rule("clamp", "clip")
def clamp(g: Builder, input: Value, min: Any = None, max: Any = None) -> Value:
    x = g.cast(input, g.result.dtype)
    is_plain = not any(isinstance(bound, Value) for bound in (min, max))
    if is_plain and x.dtype.code in ("f32", "f64", "f16", "i32", "i64"):
        bounds = [None if n is None else g.scalar(n, x.dtype) for n in (min, max)]
        return g.node("Clip", x, *bounds)
    for bound, op in ((min, "Max"), (max, "Min")):
        if bound is not None:
            limit = g.cast(bound, x.dtype) if isinstance(bound, Value) else g.scalar(bound, x.dtype)
            x = g.node(op, x, limit)
    return x


@rule("hardtanh", "relu6")
def hardtanh(g: Builder, input: Value, min_val: Any = None, max_val: Any = None) -> Value:
    low, high = (0, 6) if max_val is None else (min_val, max_val)
    return clamp(g, input, low, high)
