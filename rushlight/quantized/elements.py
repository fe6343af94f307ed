"""`ops.quantized`: sums, products and activations of quantized tensors, element by element.

Enters: tensors quantized per tensor, and the scale and zero point of the result. Leaves: quantized tensors with
PyTorch's integers. Refuses: tensors quantized per channel, operands of two dtypes, results of another shape.
"""

from __future__ import annotations

import warnings
from typing import Any

from .. import _C
from ..base.quantizers import PerTensor
from ..definitions.quantized.activations import limited, relu, sloped, threshold
from ..definitions.quantized.container import ints, is_quantized, put, qparams
from ..definitions.quantized.pointwise import (
    LIMITS,
    bounds,
    by_parts,
    copied,
    inverse_of,
    mapped,
    reading,
    single,
    writing,
)
from ..op import ops
from ..op.pointwise import broadcast_sizes
from .namespace import define

Number = int | float


def check_pair(name: str, a: Any, b: Any, other: str = "qb") -> None:
    """Raise unless both are quantized per tensor and have one dtype."""
    for label, t in (("qa", a), (other, b)):
        if not is_quantized(t):
            raise NotImplementedError(f"quantized::{name}: expected {label} to be quantized, got one of {t.dtype}")
        qparams(t, f"quantized::{name}")
    if a.dtype is not b.dtype:
        raise RuntimeError(f"quantized::{name}: operands should have the same data type, got {a.dtype} and {b.dtype}")


def expanded(name: str, a: Any, b: Any) -> Any:
    """`a`, expanded where `b` is larger."""
    shape = broadcast_sizes(f"quantized::{name}", (a.shape, b.shape))
    if shape == tuple(a.shape):
        return a
    warnings.warn(
        f"quantized::{name}: the result was to have the shape of the first operand, {list(a.shape)}, and is larger:"
        f" {list(shape)}. Give the larger operand first.",
        stacklevel=2,
    )
    return a.expand(shape)


def moved_into(out: Any, result: Any) -> Any:
    """`out` with the elements and the quantizer of `result`."""
    if out.shape != result.shape:
        if out.numel():
            raise RuntimeError(
                f"output with shape {list(out.shape)} doesn't match the broadcast shape {list(result.shape)}"
            )
        out.resize_(result.shape)
    ints(out).copy_(ints(result))
    out._quantizer = result._quantizer
    return out


def added(name: str, a: Any, b: Any, scale: float, zero_point: int, relu: bool) -> Any:
    """The sum, in the scale and zero point that are given."""
    check_pair(name, a, b)
    y = ints(b)
    x = ints(a) if a.shape == b.shape else expanded(name, ints(a), y)
    first, second = reading(*qparams(a)), reading(*qparams(b))
    write, op = writing(scale, zero_point, x.dtype.code, relu), ops["_quantized_add"]

    def call(fused: bool, p: Any, q: Any, out: Any = None) -> Any:
        return op(p, q, *first[fused], *second[fused], *write[fused], fused, out=out)

    return put(by_parts(call, (x, y)), a.dtype, PerTensor(scale, zero_point))


def multiplied(name: str, a: Any, b: Any, scale: float, zero_point: int, relu: bool) -> Any:
    """The product, in the scale and zero point that are given."""
    check_pair(name, a, b)
    x, y = ints(a), ints(b)
    (first, first_zero), (second, second_zero) = qparams(a), qparams(b)
    multiplier = single(single(single(first) * single(second)) * inverse_of(scale))
    limits = bounds(zero_point, x.dtype.code, relu)
    result = ops["_quantized_mul"](x, y, first_zero, second_zero, multiplier, *limits)
    return put(result, a.dtype, PerTensor(scale, zero_point))


def plus(name: str, a: Any, number: Number, use_relu: bool) -> Any:
    """A quantized tensor plus a number: where its zero point can move that far, the integers stay."""
    scale, zero_point = qparams(a, f"quantized::{name}")
    x = ints(a)
    low, high = LIMITS[x.dtype.code]
    step = round(float(number) / scale)
    moved = zero_point - step
    if low <= moved <= high:
        kept = ops["_integers_limited"](x, moved, None) if use_relu else copied(x)
        return put(kept, a.dtype, PerTensor(scale, moved))
    reach = high - moved if moved < low else moved - low
    wider, end = float(reach) / (float(high) - low) * scale, low if moved < low else high
    multiplier = single(single(scale) * inverse_of(wider))
    limits = bounds(end, x.dtype.code, use_relu)
    return put(ops["_quantized_shift"](x, zero_point, step, multiplier, *limits), a.dtype, PerTensor(wider, end))


def times(name: str, a: Any, number: Number, use_relu: bool) -> Any:
    """A quantized tensor times a number: the scale takes it; below 0 the integers turn around."""
    scale, zero_point = qparams(a, f"quantized::{name}")
    number = float(number)
    if number > 0:
        kept = relu(a) if use_relu else put(copied(ints(a)), a.dtype, a._quantizer)
        kept._quantizer = PerTensor(number * scale, zero_point)
        return kept
    x = ints(a)
    if number == 0:
        return put(copied(x).zero_(), a.dtype, PerTensor(1.0, 0))
    low, high = LIMITS[x.dtype.code]
    turned, end = copied(x).bitwise_not_(), high - (zero_point - low)
    if use_relu:
        turned = ops["_integers_limited"](turned, end, None)
    return put(turned, a.dtype, PerTensor(abs(number) * scale, end))


def _forms(name: str, of_tensors: Any, of_number: Any, use_relu: bool) -> None:
    """The overloads of one of add, add_relu, mul and mul_relu, and the older names of some of them."""
    base, tail = name.removesuffix("_relu"), "_relu" if use_relu else ""

    def whole(qa: Any, qb: Any, scale: float, zero_point: int) -> Any:
        return of_tensors(name, qa, qb, scale, zero_point, use_relu)

    def into(qa: Any, qb: Any, out: Any) -> Any:
        check_pair(name, qa, out, "out")
        return moved_into(out, of_tensors(name, qa, qb, *qparams(out), use_relu))

    def scalar(qa: Any, b: Number) -> Any:
        return of_number(name, qa, b, use_relu)

    def scalar_first(b: Number, qa: Any) -> Any:
        return of_number(name, qa, b, use_relu)

    def scalar_into(qa: Any, b: Number, out: Any) -> Any:
        check_pair(name, qa, out, "out")
        return moved_into(out, of_number(name, qa, b, use_relu))

    def element(qa: Any, b: Any) -> Any:
        return of_number(name, qa, b.item(), use_relu)

    def element_into(qa: Any, b: Any, out: Any) -> Any:
        return scalar_into(qa, b.item(), out)

    for space in ("quantized", "_quantized")[: 2 if name == "add" else 1]:
        define(f"{space}::{name}(Tensor qa, Tensor qb, float scale, int zero_point) -> Tensor qc")(whole)
    define(f"quantized::{name}.out(Tensor qa, Tensor qb, Tensor(a!) out) -> Tensor(a!) out")(into)
    define(f"quantized::{name}.Scalar(Tensor qa, Scalar b) -> Tensor qc")(scalar)
    define(f"quantized::{name}.Scalar2(Scalar b, Tensor qa) -> Tensor qc")(scalar_first)
    define(f"quantized::{name}.Scalar_out(Tensor qa, Scalar b, Tensor(a!) out) -> Tensor(a!) out")(scalar_into)
    define(f"quantized::{name}_out(Tensor qa, Tensor qb, Tensor(a!) out) -> Tensor(a!) out")(into)
    older = f"quantized::{base}_scalar{tail}"
    define(f"{older}(Tensor qa, Scalar b) -> Tensor qc")(scalar)
    define(f"{older}.Tensor(Tensor qa, Tensor b) -> Tensor qc")(element)
    define(f"{older}_out(Tensor qa, Scalar b, Tensor(a!) out) -> Tensor(a!) out")(scalar_into)
    define(f"{older}_out.Tensor(Tensor qa, Tensor b, Tensor(a!) out) -> Tensor(a!) out")(element_into)


for _name, _relu in (("add", False), ("add_relu", True)):
    _forms(_name, added, plus, _relu)
for _name, _relu in (("mul", False), ("mul_relu", True)):
    _forms(_name, multiplied, times, _relu)


@define("quantized::relu6(Tensor qx, bool inplace=False) -> Tensor")
def relu6(qx: Any, inplace: bool) -> Any:
    result = limited("quantized::relu6", qx, 0.0, 6.0)
    return moved_into(qx, result) if inplace else result


@define("quantized::clamp(Tensor qx, Scalar? min=None, Scalar? max=None) -> Tensor qy")
def clamp(qx: Any, min: Number | None, max: Number | None) -> Any:
    if min is None and max is None:
        raise RuntimeError("quantized::clamp: at least one of min and max must be given, got neither")
    return limited("quantized::clamp", qx, min, max)


@define("quantized::threshold(Tensor qx, Scalar threshold, Scalar value) -> Tensor qy")
def threshold_of(qx: Any, threshold_: Number, value: Number) -> Any:
    return threshold(qx, threshold_, value)


@define("quantized::sigmoid(Tensor qx, float output_scale, int output_zero_point) -> Tensor")
def sigmoid(qx: Any, output_scale: float, output_zero_point: int) -> Any:
    return mapped("_quantized_sigmoid", qx, output_scale, output_zero_point, wide=True)


@define("quantized::hardswish(Tensor input, float output_scale, int output_zero_point) -> Tensor")
def hardswish(input: Any, output_scale: float, output_zero_point: int) -> Any:
    return mapped("_quantized_hardswish", input, output_scale, output_zero_point, wide=True)


@define(
    "quantized::leaky_relu(Tensor qx, Scalar negative_slope, bool inplace, float output_scale, int output_zero_point)"
    " -> Tensor"
)
def leaky_relu(qx: Any, slope: Number, inplace: bool, output_scale: float, output_zero_point: int) -> Any:
    if inplace:
        warnings.warn("quantized::leaky_relu: inplace=True is not supported, the result is a new tensor", stacklevel=2)
    return mapped("_quantized_leaky_relu", qx, output_scale, output_zero_point, slope)


@define(
    "quantized::elu(Tensor self, float output_scale, int output_zero_point, Scalar alpha=1, Scalar scale=1, Scalar"
    " input_scale=1) -> Tensor"
)
def elu(
    q: Any, output_scale: float, output_zero_point: int, alpha: Number, scale: Number, input_scale: Number
) -> Any:
    return mapped("_quantized_elu", q, output_scale, output_zero_point, alpha, scale, input_scale, rows=True)


@define("quantized::celu(Tensor self, float output_scale, int output_zero_point, Scalar alpha=1) -> Tensor")
def celu(q: Any, output_scale: float, output_zero_point: int, alpha: Number) -> Any:
    if alpha == 0:
        raise RuntimeError("quantized::celu: ZeroDivisionError: expected an alpha that is not 0")
    return elu(q, output_scale, output_zero_point, alpha, 1.0, 1.0 / float(alpha))


@define("quantized::prelu(Tensor qx, Tensor weight, float output_scale, int output_zero_point) -> Tensor")
def prelu(qx: Any, weight: Any, output_scale: float, output_zero_point: int) -> Any:
    check_pair("prelu", qx, weight, "weight")
    return sloped("quantized::prelu", qx, weight, output_scale, output_zero_point)


@define("quantized::softmax(Tensor qx, int dim, float output_scale, int output_zero_point) -> Tensor")
def softmax(qx: Any, dim: int, output_scale: float, output_zero_point: int) -> Any:
    found = ops["softmax"](ops["dequantize"](qx), dim)
    return ops["quantize_per_tensor"](found, output_scale, output_zero_point, qx.dtype)


@define(
    "quantized::dropout(Tensor self, float output_scale, int output_zero_point, Scalar p=0.5, bool training=False) ->"
    " Tensor"
)
def dropout(q: Any, output_scale: float, output_zero_point: int, p: Number, training: bool) -> Any:
    if not isinstance(q, _C.Tensor) or not is_quantized(q):
        raise NotImplementedError("quantized::dropout: expected a quantized tensor")
    return q
