"""ai.onnx.preview.training: steps of optimizers. `Gradient` is in control.py."""

from __future__ import annotations

from typing import Any

from .... import ops
from ..table import rule

aten = ops.aten
DOMAIN = "ai.onnx.preview.training"


@rule("Adagrad", domain=DOMAIN)
def adagrad(rate: Any, step: Any, *values: Any, decay_factor: float = 0.0, epsilon: float = 0.0,
            norm_coefficient: float = 0.0, count: int) -> tuple:
    many = len(values) // 3
    rate = aten.div(rate, aten.add(aten.mul(step.to(rate.dtype), decay_factor), 1))
    weights, sums = [], []
    for x, g, h in zip(values[:many], values[many : 2 * many], values[2 * many :], strict=True):
        g = aten.add(g, aten.mul(x, norm_coefficient))
        h = aten.add(h, aten.mul(g, g))
        weights.append(aten.sub(x, aten.div(aten.mul(g, rate), aten.add(aten.sqrt(h), epsilon))))
        sums.append(h)
    return (*weights, *sums)


@rule("Momentum", domain=DOMAIN)
def momentum(rate: Any, step: Any, *values: Any, alpha: float, beta: float, mode: str, norm_coefficient: float,
             count: int) -> tuple:
    if mode not in ("standard", "nesterov"):
        raise ValueError(f"Momentum: mode should be 'standard' or 'nesterov', got {mode!r}")
    many = len(values) // 3
    share = aten.where(aten.gt(step, 0), beta, 1.0).to(rate.dtype)
    weights, speeds = [], []
    for x, g, v in zip(values[:many], values[many : 2 * many], values[2 * many :], strict=True):
        g = aten.add(g, aten.mul(x, norm_coefficient))
        v = aten.add(aten.mul(v, alpha), aten.mul(g, share))
        move = v if mode == "standard" else aten.add(g, aten.mul(v, alpha))
        weights.append(aten.sub(x, aten.mul(move, rate)))
        speeds.append(v)
    return (*weights, *speeds)


@rule("Adam", domain=DOMAIN)
def adam(rate: Any, step: Any, *values: Any, alpha: float = 0.9, beta: float = 0.999, epsilon: float = 0.0,
         norm_coefficient: float = 0.0, norm_coefficient_post: float = 0.0, count: int) -> tuple:
    many = len(values) // 4
    time = step.to(rate.dtype)
    corrected = aten.div(aten.mul(rate, aten.sqrt(aten.sub(1, aten.pow(beta, time)))), aten.sub(1, aten.pow(alpha,
                                                                                                            time)))
    rate = aten.where(aten.gt(time, 0), corrected, rate)
    weights, means, squares = [], [], []
    parts = [values[k * many : (k + 1) * many] for k in range(4)]
    for x, g, v, h in zip(*parts, strict=True):
        g = aten.add(g, aten.mul(x, norm_coefficient))
        v = aten.add(aten.mul(v, alpha), aten.mul(g, 1 - alpha))
        h = aten.add(aten.mul(h, beta), aten.mul(aten.mul(g, g), 1 - beta))
        new = aten.sub(x, aten.div(aten.mul(v, rate), aten.add(aten.sqrt(h), epsilon)))
        weights.append(aten.mul(new, 1 - norm_coefficient_post))
        means.append(v)
        squares.append(h)
    return (*weights, *means, *squares)
