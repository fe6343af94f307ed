"""Operators of single elements: arithmetic, functions, comparisons, logic, bits, activations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .... import _C, ops
from ....nn import functional
from ..table import rule

aten = ops.aten


# --- functions of one element -----------------------------------------------------------------------------------------


# By operator: the version that brought it, ATen's name, and whether a gradient passes.
FUNCTIONS = {
    "Abs": (1, "abs", True), "Acos": (7, "acos", True), "Acosh": (9, "acosh", True), "Asin": (7, "asin", True),
    "Asinh": (9, "asinh", True), "Atan": (7, "atan", True), "Atanh": (9, "atanh", True), "Ceil": (1, "ceil", False),
    "Cos": (7, "cos", True), "Cosh": (9, "cosh", True), "Erf": (9, "erf", True), "Exp": (1, "exp", True),
    "Floor": (1, "floor", False), "Log": (1, "log", True), "Neg": (1, "neg", True),
    "Reciprocal": (1, "reciprocal", True), "Round": (11, "round", False), "Sigmoid": (1, "sigmoid", True),
    "Sign": (9, "sign", False), "Sin": (7, "sin", True), "Sinh": (9, "sinh", True), "Sqrt": (1, "sqrt", True),
    "Tan": (7, "tan", True), "Tanh": (1, "tanh", True), "IsNaN": (9, "isnan", False),
}


def _of_one(name: str) -> Callable[[Any], Any]:
    """The rule that is a function of ATen's, under a name in this module: graphs call it by that."""
    op = getattr(aten, name)

    def compute(x: Any) -> Any:
        return op(x)

    compute.__name__ = compute.__qualname__ = f"each_{name}"
    globals()[compute.__name__] = compute
    return compute


for _operator, (_since, _name, _passes) in FUNCTIONS.items():
    rule(_operator, since=_since, closed=() if _passes else True)(_of_one(_name))


@rule("IsInf", since=10, closed=True)
def is_infinite(x: Any, *, detect_negative: int = 1, detect_positive: int = 1) -> Any:
    if detect_negative and detect_positive:
        return aten.isinf(x)
    if detect_positive:
        return aten.eq(x, float("inf"))
    if detect_negative:
        return aten.eq(x, float("-inf"))
    return aten.zeros_like(x, dtype=_C.bool)


# --- two elements -----------------------------------------------------------------------------------------------------


def aligned(x: Any, y: Any, axis: int | None, broadcast: int) -> Any:
    """y as operators before version 7 take it: its dims begin at `axis` of x."""
    if not broadcast or axis is None or y.ndim == 0:
        return y
    axis = axis % x.ndim
    return y.reshape(tuple(y.shape) + (1,) * (x.ndim - axis - y.ndim))


def divided(x: Any, y: Any) -> Any:
    """A quotient; that of integers is rounded towards 0."""
    if x.dtype.is_floating_point or x.dtype.is_complex:
        return aten.div(x, y)
    return aten.div(x, y, rounding_mode="trunc").to(x.dtype)


@rule("Add", since=7)
def add(x: Any, y: Any) -> Any:
    return aten.add(x, y)


@rule("Sub", since=7)
def subtract(x: Any, y: Any) -> Any:
    return aten.sub(x, y)


@rule("Mul", since=7)
def multiply(x: Any, y: Any) -> Any:
    return aten.mul(x, y)


@rule("Div", since=7)
def divide(x: Any, y: Any) -> Any:
    return divided(x, y)


@rule("Add", since=1)
def add_1(x: Any, y: Any, *, axis: int | None = None, broadcast: int = 0) -> Any:
    return aten.add(x, aligned(x, y, axis, broadcast))


@rule("Sub", since=1)
def subtract_1(x: Any, y: Any, *, axis: int | None = None, broadcast: int = 0) -> Any:
    return aten.sub(x, aligned(x, y, axis, broadcast))


@rule("Mul", since=1)
def multiply_1(x: Any, y: Any, *, axis: int | None = None, broadcast: int = 0) -> Any:
    return aten.mul(x, aligned(x, y, axis, broadcast))


@rule("Div", since=1)
def divide_1(x: Any, y: Any, *, axis: int | None = None, broadcast: int = 0) -> Any:
    return divided(x, aligned(x, y, axis, broadcast))


@rule("Pow", since=7)
def power(x: Any, y: Any) -> Any:
    if not x.dtype.is_floating_point and not y.dtype.is_floating_point and y.dtype.is_signed:
        # An integer to a negative power is a fraction, of which nothing is left.
        y_safe = aten.clamp(y, min=0)
        found = aten.pow(x, y_safe.to(x.dtype))
        return aten.where(aten.lt(y, 0), aten.pow(x.to(_C.float64), y.to(_C.float64)).to(x.dtype), found)
    return aten.pow(x, y).to(x.dtype)


@rule("Pow", since=1)
def power_1(x: Any, y: Any, *, axis: int | None = None, broadcast: int = 0) -> Any:
    return power(x, aligned(x, y, axis, broadcast))


@rule("Mod", since=10)
def remainder(x: Any, y: Any, *, fmod: int = 0) -> Any:
    return aten.fmod(x, y) if fmod else aten.remainder(x, y)


@rule("And", closed=True)
def logical_and(x: Any, y: Any, *, axis: int | None = None, broadcast: int = 0) -> Any:
    return aten.logical_and(x, aligned(x, y, axis, broadcast))


@rule("Or", closed=True)
def logical_or(x: Any, y: Any, *, axis: int | None = None, broadcast: int = 0) -> Any:
    return aten.logical_or(x, aligned(x, y, axis, broadcast))


@rule("Xor", closed=True)
def logical_xor(x: Any, y: Any, *, axis: int | None = None, broadcast: int = 0) -> Any:
    return aten.logical_xor(x, aligned(x, y, axis, broadcast))


@rule("Not", closed=True)
def logical_not(x: Any) -> Any:
    return aten.logical_not(x)


@rule("Equal", closed=True)
def equal(x: Any, y: Any, *, axis: int | None = None, broadcast: int = 0) -> Any:
    if not isinstance(x, _C.Tensor):                     # strings
        from ....tensors.interop import as_tensor  # noqa: PLC0415

        return as_tensor(x == y)
    return aten.eq(x, aligned(x, y, axis, broadcast))


@rule("Greater", closed=True)
def greater(x: Any, y: Any, *, axis: int | None = None, broadcast: int = 0) -> Any:
    return aten.gt(x, aligned(x, y, axis, broadcast))


@rule("Less", closed=True)
def less(x: Any, y: Any, *, axis: int | None = None, broadcast: int = 0) -> Any:
    return aten.lt(x, aligned(x, y, axis, broadcast))


@rule("GreaterOrEqual", since=12, closed=True)
def greater_or_equal(x: Any, y: Any) -> Any:
    return aten.ge(x, y)


@rule("LessOrEqual", since=12, closed=True)
def less_or_equal(x: Any, y: Any) -> Any:
    return aten.le(x, y)


@rule("BitwiseAnd", since=18, closed=True)
def bitwise_and(x: Any, y: Any) -> Any:
    return aten.bitwise_and(x, y)


@rule("BitwiseOr", since=18, closed=True)
def bitwise_or(x: Any, y: Any) -> Any:
    return aten.bitwise_or(x, y)


@rule("BitwiseXor", since=18, closed=True)
def bitwise_xor(x: Any, y: Any) -> Any:
    return aten.bitwise_xor(x, y)


@rule("BitwiseNot", since=18, closed=True)
def bitwise_not(x: Any) -> Any:
    return aten.bitwise_not(x)


@rule("BitShift", since=11, closed=True)
def bit_shift(x: Any, y: Any, *, direction: str) -> Any:
    if direction not in ("LEFT", "RIGHT"):
        raise ValueError(f"BitShift: direction should be 'LEFT' or 'RIGHT', got {direction!r}")
    bits = x.dtype.itemsize * 8
    shifted = aten.bitwise_left_shift if direction == "LEFT" else aten.bitwise_right_shift
    found = shifted(x, aten.clamp(y, max=bits - 1))
    beyond = aten.zeros_like(found)
    if direction == "RIGHT" and x.dtype.is_signed:
        beyond = aten.where(aten.lt(x, 0), aten.full_like(found, -1), beyond)
    return aten.where(aten.ge(y, bits), beyond, found)


# --- any number of tensors --------------------------------------------------------------------------------------------


@rule("Max")
def maximum(first: Any, *others: Any) -> Any:
    for other in others:
        first = aten.maximum(first, other)
    return first


@rule("Min")
def minimum(first: Any, *others: Any) -> Any:
    for other in others:
        first = aten.minimum(first, other)
    return first


@rule("Sum")
def total(first: Any, *others: Any) -> Any:
    for other in others:
        first = aten.add(first, other)
    return first


@rule("Mean")
def mean(first: Any, *others: Any) -> Any:
    return aten.div(total(first, *others), 1 + len(others))


@rule("Where", since=9, closed=(0,))
def where(condition: Any, x: Any, y: Any) -> Any:
    if not isinstance(x, _C.Tensor):                     # strings
        import numpy  # noqa: PLC0415

        return numpy.where(condition.numpy(), x, y)
    return aten.where(condition, x, y)


# --- activations ------------------------------------------------------------------------------------------------------


@rule("Relu")
def relu(x: Any) -> Any:
    return aten.relu(x)


@rule("LeakyRelu")
def leaky_relu(x: Any, *, alpha: float = 0.01) -> Any:
    return aten.leaky_relu(x, alpha)


@rule("PRelu", since=7)
def prelu(x: Any, slope: Any) -> Any:
    return aten.where(aten.lt(x, 0), aten.mul(x, slope), x)


@rule("PRelu", since=1)
def prelu_1(x: Any, slope: Any) -> Any:
    """A slope of one dim belongs to channels."""
    if slope.ndim == 1 and x.ndim > 2:
        slope = slope.reshape((-1,) + (1,) * (x.ndim - 2))
    return prelu(x, slope)


@rule("Elu")
def elu(x: Any, *, alpha: float = 1.0) -> Any:
    return aten.elu(x, alpha)


@rule("Celu", since=12)
def celu(x: Any, *, alpha: float = 1.0) -> Any:
    return aten.celu(x, alpha)


@rule("Selu")
def selu(x: Any, *, alpha: float = 1.67326319217681884765625, gamma: float = 1.05070102214813232421875) -> Any:
    return aten.mul(aten.elu(x, alpha), gamma)


@rule("HardSigmoid")
def hard_sigmoid(x: Any, *, alpha: float = 0.2, beta: float = 0.5) -> Any:
    return aten.clamp(aten.add(aten.mul(x, alpha), beta), 0, 1)


@rule("HardSwish", since=14)
def hard_swish(x: Any) -> Any:
    return aten.hardswish(x)


@rule("ThresholdedRelu", since=10)
def thresholded_relu(x: Any, *, alpha: float = 1.0) -> Any:
    return aten.where(aten.gt(x, alpha), x, aten.zeros_like(x))


@rule("Shrink", since=9)
def shrink(x: Any, *, bias: float = 0.0, lambd: float = 0.5) -> Any:
    inner = aten.where(aten.gt(x, lambd), aten.sub(x, bias), aten.zeros_like(x))
    return aten.where(aten.lt(x, -lambd), aten.add(x, bias), inner).to(x.dtype)


@rule("Softplus")
def softplus(x: Any) -> Any:
    return aten.softplus(x)


@rule("Softsign")
def softsign(x: Any) -> Any:
    return functional.softsign(x)


@rule("Mish", since=18)
def mish(x: Any) -> Any:
    return aten.mish(x)


@rule("Gelu", since=20)
def gelu(x: Any, *, approximate: str = "none") -> Any:
    return aten.gelu(x, approximate=approximate)


@rule("Swish", since=24)
def swish(x: Any, *, alpha: float = 1.0) -> Any:
    return aten.silu(x) if alpha == 1.0 else aten.mul(x, aten.sigmoid(aten.mul(x, alpha)))


@rule("SwiGLU", since=28)
def swiglu(x: Any, gate: Any, *, alpha: float = 1.0) -> Any:
    return aten.mul(swish(x, alpha=alpha), gate)


@rule("Clip", since=11)
def clip(x: Any, low: Any = None, high: Any = None) -> Any:
    if low is not None:
        x = aten.maximum(x, low)
    return x if high is None else aten.minimum(x, high)


@rule("Clip", since=1)
def clip_6(x: Any, *, min: float | None = None, max: float | None = None) -> Any:    # noqa: A002 - ONNX's names
    return x if min is None and max is None else aten.clamp(x, min, max)


@rule("Affine", since=1)
def affine(x: Any, *, alpha: float = 1.0, beta: float = 0.0) -> Any:
    return aten.add(aten.mul(x, alpha), beta)


@rule("ScaledTanh", since=1)
def scaled_tanh(x: Any, *, alpha: float = 1.0, beta: float = 1.0) -> Any:
    return aten.mul(aten.tanh(aten.mul(x, beta)), alpha)


@rule("ParametricSoftplus", since=1)
def parametric_softplus(x: Any, *, alpha: float = 1.0, beta: float = 1.0) -> Any:
    return aten.mul(aten.softplus(aten.mul(x, beta)), alpha)
