"""Elementwise arithmetic on the integers of quantized tensors: one kernel from integers to integers.

Enters: uint8, int8 or int32 tensors and the numbers that give them a meaning, worked out once for a pair of scale and
zero point (`reading`, `writing`). Leaves: integers of the same type, exactly PyTorch's. Refuses: nothing; who calls has
looked at schemes and types.

PyTorch computes elements in pairs of vectors, and those that fill no pair one by one. The two differ in roundings:
vectors add -(scale * zero_point) in a fused step, single elements subtract the zero point first; and vectors round
before they add the zero point of the result, single elements afterwards. With scales such as 0.1 and 0.2 halves are
common and decided by that, so every op here has both forms (`fused`), and `by_parts` hands each element to the one that
PyTorch would.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from rushlight import _C
from rushlight.base.quantizers import PerTensor
from rushlight.base.shape import channels_last, channels_last_3d, contiguous_format
from rushlight.loops.expr import max_, min_
from rushlight.op import Pointwise, Promote, ops
from rushlight.op.layout import Layout, by_stride, prefers_channels_last

from .container import ints, put, qparams

LIMITS = {"u8": (0, 255), "i8": (-128, 127), "i32": (-(2**31), 2**31 - 1)}
PAIR_BYTES = 64       # of two vectors, as PyTorch's kernels for quantized tensors have them
SQRT_HALF, TANH_SLOPE, TANH_CUBE = math.sqrt(0.5), math.sqrt(2.0) * (2.0 / math.sqrt(math.pi)) * 0.5, 0.044715


# Numbers
# ---------------------------------------------------------------------------------------------------------------------


def single(value: float) -> float:
    """The float32 nearest to a number."""
    try:
        return struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def inverse_of(scale: float) -> float:
    """1 / scale in float32; what a scale of 0 gives is infinite."""
    scale = single(scale)
    return single(1.0 / scale) if scale else math.inf


@lru_cache(maxsize=4096)
def reading(scale: float, zero_point: int) -> tuple[tuple[float, float], tuple[float, float]]:
    """The two numbers that turn integers into reals, for elements one by one and in vectors."""
    scale = single(scale)
    return (scale, float(zero_point)), (scale, single(scale * -single(zero_point)))


@lru_cache(maxsize=4096)
def writing(
    scale: float, zero_point: int, code: str, relu: bool = False, wide: bool = False
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The numbers that turn reals into integers, for elements one by one and in vectors: 1 / scale, the limits seen
    from the zero point, the zero point. `wide`: vectors take the inverse of the scale in float64."""
    inverse = inverse_of(scale)
    others = bounds(zero_point, code, relu)
    return (inverse, *others), (single(1.0 / scale) if wide and scale else inverse, *others)


def bounds(zero_point: int, code: str, relu: bool = False) -> tuple[float, float, float]:
    """The least and the largest integer, seen from the zero point (with `relu`, nothing is below it), and it."""
    low, high = LIMITS[code]
    least = zero_point if relu and zero_point > low else low
    return float(least - zero_point), float(high - zero_point), float(zero_point)


# Elements by the form that PyTorch computes them in
# ---------------------------------------------------------------------------------------------------------------------


def by_parts(call: Callable, tensors: Sequence[Any]) -> Any:
    """`call(fused, *tensors, out=None)` for the elements in pairs of vectors and for the others.

    `tensors` have the shape of the result, or expand to that of the first.
    """
    first = tensors[0]
    lanes = PAIR_BYTES // first.dtype.itemsize
    total = first.numel()
    if total < lanes:
        return call(False, *tensors)
    if all(t._is_contiguous() and t.numel() == total for t in tensors):
        if total % lanes == 0:
            return call(True, *tensors)
        result = call(True, *tensors)
        cut = total - total % lanes
        call(False, *[t.view(-1)[cut:] for t in tensors], out=result.view(-1)[cut:])
        return result
    result = call(True, *tensors)
    outer, strides = joined(result, [t.expand(first.shape) for t in tensors])
    inner = [s[0] for s in strides]
    in_vectors = outer[0] - outer[0] % lanes
    if not (inner.count(1) == len(inner) or (inner.count(1) == len(inner) - 1 and 0 in inner[1:])):
        in_vectors = 0
    if in_vectors == outer[0]:
        return result
    parts = []
    for t, own in zip((result, *tensors), strides, strict=True):
        offset = t.storage_offset() + in_vectors * own[0]
        parts.append(t.as_strided((*reversed(outer[1:]), outer[0] - in_vectors), tuple(reversed(own)), offset))
    call(False, *parts[1:], out=parts[0])
    return result


def joined(result: Any, operands: Sequence[Any]) -> tuple[list[int], list[list[int]]]:
    """Sizes, fastest first, and the strides of all tensors, with neighbours that one step walks through made one."""
    every = (result, *operands)
    order = by_stride(result.shape, *[t.stride() for t in every])
    sizes: list[int] = []
    strides: list[list[int]] = [[] for _ in every]
    for d in order:
        n = result.shape[d]
        if n == 1 and sizes:
            continue
        if sizes and all(own[-1] * sizes[-1] == t.stride(d) for own, t in zip(strides, every, strict=True)):
            sizes[-1] *= n
            continue
        if sizes == [1]:
            sizes, strides = [], [[] for _ in every]
        sizes.append(n)
        for own, t in zip(strides, every, strict=True):
            own.append(t.stride(d))
    return sizes or [1], [own or [1] for own in strides]


def copied(integers: Any) -> Any:
    """The same integers elsewhere: with channels last where their strides say so, else in dense rows."""
    images = integers.ndim in (4, 5) and prefers_channels_last(integers)
    order = (channels_last if integers.ndim == 4 else channels_last_3d) if images else contiguous_format
    return integers.clone(memory_format=order)


def mapped(
    name: str, q: Any, scale: float, zero_point: int, *numbers: Any, wide: bool = False, rows: bool = False
) -> Any:
    """The op of this name over a quantized tensor, as one with this scale and zero point; `rows`: whatever the order of
    the input, results lie in dense rows."""
    integers = ints(q)
    read, write = reading(*qparams(q, name)), writing(scale, zero_point, integers.dtype.code, wide=wide)
    op = ops[name]

    def call(fused: bool, a: Any, out: Any = None) -> Any:
        return op(a, *read[fused], *write[fused], fused, *numbers, out=out)

    if rows and not integers._is_contiguous():
        result = call(False, integers, integers.new_empty(integers.shape))
    else:
        result = by_parts(call, (integers,))
    return put(result, q.dtype, PerTensor(scale, zero_point))


def quantized_number(value: float, scale: float, zero_point: int, code: str) -> int:
    """The integer that stands for a number."""
    low, high = LIMITS[code]
    moved = single(single(single(value) * inverse_of(scale)) + single(zero_point))
    if moved != moved:
        return low
    return int(min(max(moved if math.isinf(moved) else round(moved), low), high))


# Scalar arithmetic
# ---------------------------------------------------------------------------------------------------------------------


def real(s: Any, q: Any, scale: Any, shift: Any, fused: bool) -> Any:
    """The real number that an integer stands for, in float32."""
    scale = s.cast(scale, "f32")
    if fused:
        return s.fma(scale, s.cast(q, "f32"), s.cast(shift, "f32"))
    return s.cast(s.cast(q, "i32") - s.cast(shift, "i32"), "f32") * scale


def whole(s: Any, scaled: Any, low: Any, high: Any, zero: Any, code: str) -> Any:
    """The integer for a real that is divided by the scale already: nearest, halves to even, within the limits."""
    if code != "i32":
        return s.cast(s.cast(s.round(held(scaled, low, high)), "i32") + s.cast(zero, "i32"), code)
    return limited(s, s.cast(s.round(scaled), "f64") + zero, low, high, zero, code)


def written(s: Any, scaled: Any, low: Any, high: Any, zero: Any, code: str, fused: bool) -> Any:
    """The same as PyTorch writes what it computed in reals: but for vectors of bytes the zero point is added in
    float32, before rounding."""
    if fused and code != "i32":
        return whole(s, scaled, low, high, zero, code)
    return limited(s, s.cast(s.round(scaled + s.cast(zero, "f32")), zero.dtype), low, high, zero, code)


def held(x: Any, low: Any, high: Any) -> Any:
    """A number between two others; what is no number becomes the higher one."""
    return max_(min_(x, high), low)


def limited(s: Any, rounded: Any, low: Any, high: Any, zero: Any, code: str) -> Any:
    """An integral float as an integer between the limits of its type."""
    return s.cast(s.cast(held(rounded, low + zero, high + zero), "i64" if code == "i32" else "i32"), code)


class Integers(Pointwise):
    """An op from integers to integers of the first operand's type. Numbers are in float32, beside int32 in float64."""

    function = method = inplace = differentiable = False
    layout = Layout.FORMAT
    steady = True

    def common_dtype(self, args: tuple, operands: list[int]) -> Any:
        return _C.float64 if args[0].dtype is _C.int32 else _C.float32

    def operand_compute(self, i: int, compute: str, own: str) -> str:
        return own if self.spec.params[i].type == "Tensor" else compute

    def result_dtype(self, common: Any, *args: Any) -> Any:
        return args[0].dtype


class IntegersLimited(Pointwise):
    """Integers held between two others, either of which may be missing."""

    schema = "_integers_limited(Tensor a, Scalar? low, Scalar? high) -> Tensor"
    function = method = inplace = differentiable = False
    promote = Promote.KEEP
    layout = Layout.FORMAT

    def expr(self, s, a, low, high):
        return s.clamp(a, low, high)


class QuantizedAdd(Integers):
    """The sum of two quantized tensors; where `low` is 0, what is negative becomes 0."""

    schema = (
        "_quantized_add(Tensor a, Tensor b, Scalar a_scale, Scalar a_shift, Scalar b_scale, Scalar b_shift, Scalar"
        " inverse, Scalar low, Scalar high, Scalar zero, bool fused) -> Tensor"
    )

    def expr(self, s, a, b, a_scale, a_shift, b_scale, b_shift, inverse, low, high, zero, fused):
        total = real(s, a, a_scale, a_shift, fused) + real(s, b, b_scale, b_shift, fused)
        return written(s, total * s.cast(inverse, "f32"), low, high, zero, a.dtype, fused)


class QuantizedMul(Integers):
    """The product of two quantized tensors: of the integers, times one number."""

    schema = (
        "_quantized_mul(Tensor a, Tensor b, Scalar a_zero, Scalar b_zero, Scalar multiplier, Scalar low, Scalar high,"
        " Scalar zero) -> Tensor"
    )

    def expr(self, s, a, b, a_zero, b_zero, multiplier, low, high, zero):
        product = (s.cast(a, "i32") - s.cast(a_zero, "i32")) * (s.cast(b, "i32") - s.cast(b_zero, "i32"))
        return whole(s, s.cast(product, "f32") * s.cast(multiplier, "f32"), low, high, zero, a.dtype)


class QuantizedShift(Integers):
    """A quantized tensor plus a number that is `step` of its own integers, with another scale."""

    schema = (
        "_quantized_shift(Tensor a, Scalar a_zero, Scalar step, Scalar multiplier, Scalar low, Scalar high, Scalar"
        " zero) -> Tensor"
    )

    def expr(self, s, a, a_zero, step, multiplier, low, high, zero):
        moved = s.cast(a, "i32") - s.cast(a_zero, "i32") + s.cast(step, "i32")
        return whole(s, s.cast(moved, "f32") * s.cast(multiplier, "f32"), low, high, zero, a.dtype)


class QuantizedPrelu(Integers):
    """A quantized tensor where positive, else times a quantized weight; `one` is 1 as the weight would hold it."""

    schema = (
        "_quantized_prelu(Tensor a, Tensor weight, Scalar a_zero, Scalar weight_zero, Scalar one, Scalar multiplier,"
        " Scalar low, Scalar high, Scalar zero) -> Tensor"
    )

    def expr(self, s, a, weight, a_zero, weight_zero, one, multiplier, low, high, zero):
        here = s.cast(a, "i32") - s.cast(a_zero, "i32")
        slope = s.cast(weight, "i32") - s.cast(weight_zero, "i32")
        product = s.maximum(here, 0) * s.cast(one, "i32") + s.minimum(here, 0) * slope
        return whole(s, s.cast(product, "f32") * s.cast(multiplier, "f32"), low, high, zero, a.dtype)


class QuantizedScaled(Integers):
    """fma(alpha, integer - zero point, beta), rounded: a batch norm whose numbers hold the scales already."""

    schema = (
        "_quantized_scaled(Tensor a, Tensor alpha, Tensor beta, Scalar a_zero, Scalar low, Scalar high, Scalar zero) ->"
        " Tensor"
    )

    def expr(self, s, a, alpha, beta, a_zero, low, high, zero):
        here = s.cast(a, "f32") - s.cast(a_zero, "f32")
        return whole(s, s.fma(alpha, here, beta), low, high, zero, a.dtype)


class Unary(Integers):
    """One real function of a quantized tensor."""

    def value(self, s: Any, x: Any, fused: bool, *rest: Any) -> Any:
        """The function in float32 (or wider, where single elements are)."""
        raise NotImplementedError

    def expr(self, s, a, scale, shift, inverse, low, high, zero, fused, *rest):
        x = real(s, a, scale, shift, fused)
        y = s.cast(self.value(s, x, fused, *[s.cast(n, "f32") for n in rest]), "f32")
        return written(s, y * s.cast(inverse, "f32"), low, high, zero, a.dtype, fused)


HEAD = "Tensor a, Scalar scale, Scalar shift, Scalar inverse, Scalar low, Scalar high, Scalar zero, bool fused"


class QuantizedRequantize(Unary):
    """The same reals with another scale and zero point."""

    schema = f"_quantized_requantize({HEAD}) -> Tensor"

    def value(self, s, x, fused):
        return x


class QuantizedSigmoid(Unary):
    """1 / (1 + e ** -x)."""

    schema = f"_quantized_sigmoid({HEAD}) -> Tensor"

    def value(self, s, x, fused):
        grown = s.exp(-x)
        return 1.0 / (1.0 + (grown if fused else s.cast(grown, "f64")))


class QuantizedTanh(Unary):
    """The hyperbolic tangent."""

    schema = f"_quantized_tanh({HEAD}) -> Tensor"

    def value(self, s, x, fused):
        return s.tanh(x)


class QuantizedHardsigmoid(Unary):
    """(x + 3) / 6 within [0, 1]."""

    schema = f"_quantized_hardsigmoid({HEAD}) -> Tensor"

    def value(self, s, x, fused):
        return s.clamp(x + 3.0, 0.0, 6.0) / 6.0


class QuantizedHardswish(Unary):
    """x times its hardsigmoid."""

    schema = f"_quantized_hardswish({HEAD}) -> Tensor"

    def value(self, s, x, fused):
        return x * s.clamp(x + 3.0, 0.0, 6.0) / 6.0


class QuantizedLeakyRelu(Unary):
    """x where positive, else x times a slope."""

    schema = f"_quantized_leaky_relu({HEAD}, Scalar slope) -> Tensor"

    def value(self, s, x, fused, slope):
        return s.where(x > 0, x, x * slope)


class QuantizedThreshold(Unary):
    """x where it exceeds a threshold, else a value."""

    schema = f"_quantized_threshold({HEAD}, Scalar threshold, Scalar value) -> Tensor"

    def value(self, s, x, fused, threshold, value):
        return s.where(x > threshold, x, value)


class QuantizedElu(Unary):
    """x where positive, else alpha * (e ** (slope * x) - 1); both times `factor`."""

    schema = f"_quantized_elu({HEAD}, Scalar alpha, Scalar factor, Scalar slope) -> Tensor"

    def value(self, s, x, fused, alpha, factor, slope):
        return s.where(x > 0, x, s.expm1(x * slope) * alpha) * factor


class QuantizedGelu(Unary):
    """x times the normal distribution function of x; single elements in float64."""

    schema = f"_quantized_gelu({HEAD}, bool by_tanh) -> Tensor"

    def expr(self, s, a, scale, shift, inverse, low, high, zero, fused, by_tanh):
        x = real(s, a, scale, shift, fused)
        x = x if fused else s.cast(x, "f64")
        if by_tanh:
            y = 0.5 * x * (1.0 + s.tanh(TANH_SLOPE * (x + TANH_CUBE * (x * x * x))))
        else:
            y = x * 0.5 * (1.0 + s.erf(x * SQRT_HALF))
        return written(s, s.cast(y, "f32") * s.cast(inverse, "f32"), low, high, zero, a.dtype, fused)
