"""What PyTorch's activations do with quantized tensors: rules over the integer-level ops of `pointwise.py`.

Enters: tensors quantized per tensor. Leaves: quantized tensors: with the input's scale and zero point where the result
stays in its range, or with fixed ones (sigmoid, tanh, hardsigmoid). Refuses: tensors quantized per channel, weights
that are not quantized.
"""

from __future__ import annotations

from typing import Any

from rushlight import _C
from rushlight.base.quantizers import PerTensor
from rushlight.op import ops

from .container import ints, is_quantized, like, put, qparams, rule
from .pointwise import bounds, inverse_of, mapped, quantized_number, single


def moved_into(q: Any, result: Any) -> Any:
    """`q`, which from now on holds the elements of `result`; both have one scale and zero point."""
    ints(q).copy_(ints(result))
    return q


@rule("relu")
def relu(q: Any, inplace: bool = False) -> Any:
    if inplace:
        return relu_(q)
    return like(q, ops["_integers_limited"](ints(q), qparams(q, "relu")[1], None))


@rule("relu_")
def relu_(q: Any) -> Any:
    ints(q).clamp_(min=qparams(q, "relu_")[1])
    return q


def limited(name: str, q: Any, low: float | None, high: float | None) -> Any:
    """Elements held between two numbers, either of which may be missing."""
    scale, zero_point = qparams(q, name)
    integers = ints(q)
    code = integers.dtype.code
    least, most = (None if n is None else quantized_number(float(n), scale, zero_point, code) for n in (low, high))
    return like(q, ops["_integers_limited"](integers, least, most))


@rule("clamp")
def clamp(q: Any, low: Any, high: Any) -> Any:
    for label, limit in (("min", low), ("max", high)):
        if isinstance(limit, _C.Tensor):
            raise RuntimeError(f"clamp: limits of a quantized tensor are numbers, got a tensor for {label}")
    if low is None and high is None:
        raise RuntimeError("clamp: at least one of 'min' or 'max' must not be None")
    return limited("clamp", q, low, high)


@rule("hardtanh")
def hardtanh(q: Any, low: float, high: float, inplace: bool = False) -> Any:
    result = limited("hardtanh", q, low, high)
    return moved_into(q, result) if inplace else result


@rule("hardtanh_")
def hardtanh_(q: Any, low: float, high: float) -> Any:
    return hardtanh(q, low, high, True)


@rule("relu6")
def relu6(q: Any, inplace: bool = False) -> Any:
    return hardtanh(q, 0.0, 6.0, inplace)


@rule("relu6_")
def relu6_(q: Any) -> Any:
    return hardtanh(q, 0.0, 6.0, True)


def fixed(q: Any, by_byte: float, by_word: float, zero_points: tuple[int, int]) -> tuple[float, int]:
    """The scale and zero point of a result whose range is known: those of quint8 and qint8 are listed."""
    if q.dtype is _C.qint32:
        return by_word, 0
    return by_byte, zero_points[q.dtype is _C.qint8]


@rule("sigmoid")
def sigmoid(q: Any) -> Any:
    return mapped("_quantized_sigmoid", q, *fixed(q, 2.0**-8, 2.0**-32, (0, -128)), wide=True)


@rule("hardsigmoid")
def hardsigmoid(q: Any, inplace: bool = False) -> Any:
    result = mapped("_quantized_hardsigmoid", q, *fixed(q, 2.0**-8, 2.0**-32, (0, -128)))
    return moved_into(q, result) if inplace else result


@rule("tanh")
def tanh(q: Any) -> Any:
    return mapped("_quantized_tanh", q, *fixed(q, 2.0**-7, 2.0**-31, (128, 0)))


@rule("leaky_relu")
def leaky_relu(q: Any, slope: float, inplace: bool = False) -> Any:
    result = mapped("_quantized_leaky_relu", q, *qparams(q, "leaky_relu"), slope)
    return moved_into(q, result) if inplace else result


@rule("leaky_relu_")
def leaky_relu_(q: Any, slope: float) -> Any:
    return leaky_relu(q, slope, True)


@rule("threshold")
def threshold(q: Any, threshold: float, value: float, inplace: bool = False) -> Any:
    if inplace:
        raise NotImplementedError("threshold_: not implemented for quantized tensors. Use threshold().")
    return mapped("_quantized_threshold", q, *qparams(q, "threshold"), threshold, value)


@rule("gelu")
def gelu(q: Any, approximate: str) -> Any:
    if approximate not in ("none", "tanh"):
        raise RuntimeError(f"gelu: expected approximate to be 'none' or 'tanh', got {approximate!r}")
    scale, zero_point = qparams(q, "gelu")
    return mapped("_quantized_gelu", q, single(scale), zero_point, approximate == "tanh")


@rule("gelu_")
def gelu_(q: Any, approximate: str) -> Any:
    return moved_into(q, gelu(q, approximate))


@rule("prelu", "_prelu_kernel")
def prelu(q: Any, weight: Any) -> Any:
    if not is_quantized(q) or q.dtype is not weight.dtype:
        raise RuntimeError(f"prelu: input and weight must be of one dtype, got {q.dtype} and {weight.dtype}")
    return sloped("prelu", q, weight, *qparams(q, "prelu"))


def sloped(name: str, q: Any, weight: Any, scale: float, zero_point: int) -> Any:
    """q where positive, else q times a quantized weight: one for all, or one for each channel."""
    if not q.ndim:
        raise RuntimeError(f"{name}: expected an input with dimensions, got one without")
    if weight.numel() not in (1, q.shape[1] if q.ndim > 1 else 1):
        raise RuntimeError(
            f"{name}: expected one weight, or one for each channel, got {weight.numel()} for an input of shape"
            f" {list(q.shape)}"
        )
    integers, slopes = ints(q), ints(weight)
    code = integers.dtype.code
    if weight.ndim != q.ndim:
        slopes = slopes.reshape([weight.numel() if d == 1 else 1 for d in range(q.ndim)])
    (own, own_zero), (other, other_zero) = qparams(q, name), qparams(weight, name)
    multiplier = single(single(single(own) * single(other)) * inverse_of(scale))
    one = quantized_number(1.0, other, other_zero, code) - other_zero
    result = ops["_quantized_prelu"](
        integers, slopes, own_zero, other_zero, one, multiplier, *bounds(zero_point, code)
    )
    return put(result, q.dtype, PerTensor(scale, zero_point))
