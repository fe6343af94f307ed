"""Derivatives of ops on elements.

Enters: nothing. Leaves: `POINTWISE`, functions by op and parameter, in PyTorch's steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..._C import Tensor
from ...base.shape import preserve_format
from ...op import find_op
from ..words import aten


def conj(x: Any) -> Any:
    return x.conj() if isinstance(x, Tensor) and x.is_complex() else x


def times(x: Any, n: Any) -> Any:
    """A product with a number is by the overload for numbers."""
    return aten.mul.Scalar(x, n)


def plus(x: Any, n: Any) -> Any:
    return aten.add.Scalar(x, n)


def less(x: Any, n: Any) -> Any:
    return aten.sub.Scalar(x, n)


def over(n: Any, x: Any) -> Any:
    """A number divided by a tensor."""
    return aten.div_.Tensor(aten.fill_.Scalar(aten.empty_like(x, memory_format=preserve_format), n), x)


def from_number(n: Any, x: Any) -> Any:
    """A number less a tensor."""
    return aten.sub_.Tensor(aten.fill_.Scalar(aten.empty_like(x, memory_format=preserve_format), n), x)


def product(left: Callable, right: Any) -> Any:
    """A product whose right side was computed before the left."""
    return left() * right


def scaled(g: Any, factor: Any) -> Any:
    """A gradient times a setting that is mostly 1."""
    return g if not isinstance(factor, Tensor) and factor == 1 else times(g, factor)


def power(x: Any, n: Any) -> Any:
    return aten.pow.Tensor_Scalar(x, n)


def zero_like(g: Any) -> Any:
    return aten.scalar_tensor(0.0, dtype=g.dtype, layout=g.layout, device=g.device)


def _pow_self(g: Any, self: Any, exponent: Any) -> Any:
    if isinstance(exponent, Tensor):
        inner = exponent * find_op("pow")(self, less(exponent, 1))
        zero = zero_like(g)
        return aten.where.self(aten.eq.Scalar(exponent, 0.0), zero, g * conj(inner))
    if exponent == 0:
        return find_op("zeros_like")(self)
    return g * conj(times(power(self, float(exponent) - 1 if not isinstance(exponent, complex) else exponent - 1),
                          float(exponent) if not isinstance(exponent, complex) else exponent))


def _pow_exponent(g: Any, self: Any, exponent: Any, result: Any) -> Any:
    if not isinstance(self, Tensor):
        if self == 0:
            return aten.where.self(aten.ge.Scalar(exponent, 0), zero_like(g), g * times(result, -math.inf))
        return g * conj(times(result, math.log(self)))
    at_zero = find_op("logical_and")(aten.eq.Scalar(self, 0), aten.ge.Scalar(exponent, 0))
    return aten.where.self(at_zero, zero_like(g), g * conj(result * self.log()))


def _clamp(g: Any, self: Any, min: Any, max: Any) -> Any:
    if isinstance(min, Tensor) or isinstance(max, Tensor):
        return None
    zero = zero_like(g)
    if min is not None and max is not None:
        inside = find_op("logical_and_")(aten.ge.Scalar(self, min), aten.le.Scalar(self, max))
    elif min is not None:
        inside = aten.ge.Scalar(self, min)
    else:
        inside = aten.le.Scalar(self, max)
    return aten.where.self(inside, g, zero)


def _largest(mine: str) -> Callable:
    """Where both are the same each gets half."""

    def rule(g: Any, self: Any, other: Any) -> Any:
        half = aten.div.Scalar(g, 2)
        shared = aten.where.self(aten.eq.Tensor(self, other), half, g)
        return aten.masked_fill_.Scalar(shared, getattr(aten, mine).Tensor(self, other), 0)

    return rule


def _atan2(g: Any, self: Any, other: Any, wanted: Any) -> Any:
    scale = (self * self + other * other).reciprocal()
    mine = g * other * scale if wanted[0] else None
    return mine, g * -self * scale if wanted[1] else None


def _zeros(g: Any) -> Any:
    return find_op("zeros_like")(g)


def _div_self(g: Any, other: Any, rounding_mode: Any = None) -> Any:
    return find_op("zeros_like")(g) if rounding_mode else find_op("div")(g, conj(other))


def _div_other(g: Any, self: Any, other: Any, rounding_mode: Any = None) -> Any:
    if rounding_mode:
        return find_op("zeros_like")(g)
    slope = conj((self / other) / other)
    return -g * slope


def _where(mine: bool) -> Callable:
    def rule(g: Any, condition: Any) -> Any:
        zero = zero_like(g)
        return aten.where.self(condition, g, zero) if mine else aten.where.self(condition, zero, g)

    return rule


def _log(base: float) -> Callable:
    return lambda g, self: g / times(conj(self), base)


def _lerp_weight(g: Any, self: Any, end: Any, weight: Any) -> Any:
    return g * conj(end - self) if isinstance(weight, Tensor) else None


def _lerp_self(g: Any, weight: Any) -> Any:
    return g * conj(from_number(1, weight)) if isinstance(weight, Tensor) else times(g, 1 - weight)


def _lerp_end(g: Any, weight: Any) -> Any:
    return g * conj(weight) if isinstance(weight, Tensor) else times(g, weight)


def _addcdiv(g: Any, tensor1: Any, tensor2: Any, value: Any) -> Any:
    below = tensor2 * tensor2
    slope = conj(times(tensor1, value) / below)
    return -g * slope


def _atanh(g: Any, below: Any) -> Any:
    return times(g, 1) / below


POINTWISE: dict[str, dict[str, Callable]] = {
    "abs": {"self": lambda g, self: g * self.sgn()},
    "acos": {"self": lambda g, self: g * -conj(plus(-self * self, 1).rsqrt())},
    "acosh": {"self": lambda g, self: g * conj(less(self * self, 1).rsqrt())},
    "add": {"self": lambda g: g, "other": lambda g, alpha: scaled(g, alpha)},
    "addcdiv": {"self": lambda g: g,
                "tensor1": lambda g, tensor2, value: g * conj(over(value, tensor2)),
                "tensor2": lambda g, tensor1, tensor2, value: _addcdiv(g, tensor1, tensor2, value)},
    "addcmul": {"self": lambda g: g,
                "tensor1": lambda g, tensor2, value: g * conj(times(tensor2, value)),
                "tensor2": lambda g, tensor1, value: g * conj(times(tensor1, value))},
    "asin": {"self": lambda g, self: g * conj(plus(-self * self, 1).rsqrt())},
    "asinh": {"self": lambda g, self: g * conj(plus(power(self, 2), 1).rsqrt())},
    "atan": {"self": lambda g, self: g / conj(plus(self * self, 1))},
    "atanh": {"self": lambda g, self: _atanh(g, conj(from_number(1, power(self, 2))))},
    "ceil": {"self": _zeros}, "floor": {"self": _zeros}, "round": {"self": _zeros}, "trunc": {"self": _zeros},
    "sign": {"self": _zeros}, "frac": {"self": lambda g: g},
    "clamp": {"self": _clamp},
    "clamp_min": {"self": lambda g, self, min: None if isinstance(min, Tensor) else _clamp(g, self, min, None)},
    "clamp_max": {"self": lambda g, self, max: None if isinstance(max, Tensor) else _clamp(g, self, None, max)},
    "cos": {"self": lambda g, self: g * conj(-self.sin())},
    "cosh": {"self": lambda g, self: g * conj(self.sinh())},
    "digamma": {"self": lambda g, self: g * find_op("polygamma")(1, self)},
    "div": {"self": _div_self, "other": _div_other},
    "erf": {"self": lambda g, self: times((-power(self, 2)).exp(), 2 / math.sqrt(math.pi)) * g},
    "erfc": {"self": lambda g, self: times((-power(self, 2)).exp(), -2 / math.sqrt(math.pi)) * g},
    "erfinv": {"self": lambda g, self: times(power(self.erfinv(), 2).exp(), 0.5 * math.sqrt(math.pi)) * g},
    "exp": {"self": lambda g, result: g * conj(result)},
    "exp2": {"self": lambda g, result: times(g * conj(result), math.log(2))},
    "expm1": {"self": lambda g, result: g * conj(plus(result, 1))},
    "fmod": {"self": lambda g: g,
             "other": lambda g, self, other: product(g.neg, find_op("div")(self, other, rounding_mode="trunc"))},
    "hypot": {"self": lambda g, self, result: g * self / result,
              "other": lambda g, other, result: g * other / result},
    "lerp": {"self": _lerp_self, "end": _lerp_end, "weight": _lerp_weight},
    "lgamma": {"self": lambda g, self: g * find_op("digamma")(self)},
    "log": {"self": lambda g, self: find_op("div")(g, conj(self))},
    "log10": {"self": _log(2.3025850929940456)}, "log2": {"self": _log(0.6931471805599453)},
    "log1p": {"self": lambda g, self: g / conj(plus(self, 1))},
    "logaddexp": {"self": lambda g, self, other: g / plus((other - self).exp(), 1),
                  "other": lambda g, self, other: g / plus((self - other).exp(), 1)},
    "logaddexp2": {"self": lambda g, self, other: g / plus(aten.pow.Scalar(2, other - self), 1),
                   "other": lambda g, self, other: g / plus(aten.pow.Scalar(2, self - other), 1)},
    "maximum": {"self": _largest("lt"), "other": _largest("gt")},
    "minimum": {"self": _largest("gt"), "other": _largest("lt")},
    "mul": {"self": lambda g, other: g * conj(other), "other": lambda g, self: g * conj(self)},
    "neg": {"self": lambda g: g.neg()},
    "pow": {"self": _pow_self, "exponent": _pow_exponent},
    "reciprocal": {"self": lambda g, result: product(g.neg, conj(result * result))},
    "remainder": {"self": lambda g: g,
                  "other": lambda g, self, other: product(g.neg, find_op("div")(self, other, rounding_mode="floor"))},
    "rsqrt": {"self": lambda g, result: product(lambda: times(g, -0.5), conj(power(result, 3)))},
    "rsub": {"self": lambda g, alpha: scaled(-g, alpha), "other": lambda g: g},
    "sin": {"self": lambda g, self: g * conj(self.cos())},
    "sinh": {"self": lambda g, self: g * conj(self.cosh())},
    "sqrt": {"self": lambda g, result: g / times(conj(result), 2)},
    "sub": {"self": lambda g: g, "other": lambda g, alpha: scaled(-g, alpha)},
    "tan": {"self": lambda g, result: g * conj(plus(power(result, 2), 1))},
    "where": {"self": _where(True), "other": _where(False)},
    "atan2": {"self, other": _atan2},
    # activations that ATen has a gradient for
    "relu": {"self": lambda g, result: aten.threshold_backward(g, result, 0)},
    "threshold": {"self": lambda g, self, threshold: aten.threshold_backward(g, self, threshold)},
    "sigmoid": {"self": lambda g, result: aten.sigmoid_backward(g, result)},
    "tanh": {"self": lambda g, result: aten.tanh_backward(g, result)},
    "gelu": {"self": lambda g, self, approximate: aten.gelu_backward(
        g, self, **({} if approximate == "none" else {"approximate": approximate}))},
    "silu": {"self": lambda g, self: aten.silu_backward(g, self)},
    "mish": {"self": lambda g, self: aten.mish_backward(g, self)},
    "leaky_relu": {"self": lambda g, self, negative_slope: aten.leaky_relu_backward(g, self, negative_slope, False)},
    "elu": {"self": lambda g, self, alpha, scale, input_scale: aten.elu_backward(
        g, alpha, scale, input_scale, False, self)},
    "softplus": {"self": lambda g, self, beta, threshold: aten.softplus_backward(g, self, beta, threshold)},
    "hardswish": {"self": lambda g, self: aten.hardswish_backward(g, self)},
    "hardsigmoid": {"self": lambda g, self: aten.hardsigmoid_backward(g, self)},
    "hardtanh": {"self": lambda g, self, min_val, max_val: aten.hardtanh_backward(g, self, min_val, max_val)},
    "hardshrink": {"self": lambda g, self, lambd: aten.hardshrink_backward(g, self, lambd)},
    "softshrink": {"self": lambda g, self, lambd: aten.softshrink_backward(g, self, lambd)},
}
