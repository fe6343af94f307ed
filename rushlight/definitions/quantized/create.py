"""Quantized tensors from numbers, and numbers from them.

Enters: float tensors with scales and zero points, or integers that are given. Leaves: quantized tensors; floats.
Refuses: other dtypes, qparams of the wrong length, zero points that the dtype cannot hold. Rounding is half to even,
and where it happens is part of the answer: tensors with one scale of 8 bits are multiplied and shifted in one step, all
others are multiplied, rounded to float32, and then shifted. Scales are used in single precision, but for dequantizing
per channel. NaN becomes the largest integer, 0 per channel, and the least one of qint32.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Any

from ... import _C
from ...base.quantizers import PerChannel, PerChannelFloat, PerTensor, Quantizer
from ...base.shape import channels_last, channels_last_3d, contiguous_format, preserve_format
from ...op import Composite, Pointwise, Promote, ops
from .container import PLAIN, ints, is_quantized, put, rule
from .subbyte import PER_BYTE, packed, unpacked

RANGES = {_C.quint8: (0, 255), _C.qint8: (-128, 127), _C.qint32: (-(2**31), 2**31 - 1), _C.quint4x2: (0, 15),
          _C.quint2x4: (0, 3)}
SINGLE = struct.Struct("f")
one_for_all = lru_cache(256, typed=True)(PerTensor)    # models quantize with the same few numbers again and again
POINTS = {**RANGES, _C.quint4x2: (0, 255), _C.quint2x4: (0, 255)}   # what zero points may be
IN_ONE_STEP, SHIFTED, ROUNDED_FIRST = range(3)      # how elements are rounded


class QuantizedElements(Pointwise):
    """input / scale + zero_point as an integer between two others. `inverse` is 1 / scale; `rounding` says when the sum
    is rounded."""

    schema = (
        "_quantized_elements(Tensor input, Tensor|Scalar inverse, Tensor|Scalar zero_point, int low, int high,"
        " int rounding, dtype dtype) -> Tensor"
    )
    function = method = inplace = out = differentiable = False
    apart = ("zero_point",)

    def expr(self, s, x, inverse, zero_point, low, high, rounding, dtype):
        point = s.cast(zero_point, "f32")
        if rounding == IN_ONE_STEP:
            t = s.rint(s.fma(x, inverse, point))
        else:
            t = s.rint(x * inverse + point) if rounding == SHIFTED else s.rint(x * inverse) + point
        if dtype is _C.int32:
            # 2**31 - 1 is no float32: what lies above the largest one below it is told apart first
            inside = s.where(t > -(2.0**31), t, s.const(-(2.0**31), "f32"))
            inside = s.where(inside < 2147483520.0, inside, s.const(2147483520.0, "f32"))
            return s.where(t >= 2.0**31, s.const(high, "i32"), s.cast(inside, "i32"))
        if rounding != IN_ONE_STEP:
            t = s.where(s.isnan(t), s.const(0.0, "f32"), t)
        t = s.where(t < float(high), t, s.const(float(high), "f32"))    # NaN is not below
        return s.cast(s.where(t > float(low), t, s.const(float(low), "f32")), "i32")

    def result_dtype(self, common, input, inverse, zero_point, low, high, rounding, dtype):
        return dtype


class DequantizedElements(Pointwise):
    """(integer - zero_point) * scale as float32. `exact`: the difference is taken of integers; `double`: the product
    in double precision."""

    schema = (
        "_dequantized_elements(Tensor input, Tensor|Scalar scale, Tensor|Scalar zero_point, bool exact, bool double)"
        " -> Tensor"
    )
    function = method = inplace = out = differentiable = False
    apart = ("input", "zero_point")
    promote = Promote.TO_FLOAT

    def expr(self, s, x, scale, zero_point, exact, double):
        if exact:
            difference = s.cast(s.cast(x, "i32") - s.cast(zero_point, "i32"), "f32")
        else:
            difference = s.cast(x, "f32") - s.cast(zero_point, "f32")
        wide = "f64" if double else "f32"
        return s.cast(s.cast(difference, wide) * s.cast(scale, wide), "f32")

    def result_dtype(self, common, *args):
        return _C.float32


@lru_cache(256)
def in_single(number: float) -> float:
    """The float32 nearest to a number."""
    try:
        return SINGLE.unpack(SINGLE.pack(number))[0]
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")


@lru_cache(256)
def inverse_of(scale: float) -> float:
    """What numbers are multiplied with instead of being divided by their scale: of single precision, as it is."""
    scale = in_single(scale)
    return in_single(1.0 / scale) if scale else float("inf")


def dense(t: Any) -> Any:
    """`t` itself if it lies row by row or channels last, else a copy that lies row by row: results of quantization lie
    as this does."""
    if t._is_contiguous() or (t.ndim == 4 and t.is_contiguous(memory_format=channels_last)):
        return t
    is_last = t.ndim == 5 and t.is_contiguous(memory_format=channels_last_3d)
    return t if is_last else t.contiguous()


# --- numbers to integers ----------------------------------------------------------------------------------------------


class QuantizePerTensor(Composite):
    """A tensor of integers, `scale` apart, from one of numbers; or several from several."""

    schema = (
        "quantize_per_tensor(Tensor input, float scale, int zero_point, dtype dtype) -> Tensor",
        "quantize_per_tensor.tensor_qparams(Tensor input, Tensor scale, Tensor zero_point, dtype dtype) -> Tensor",
        "quantize_per_tensor.tensors(Tensor[] tensors, Tensor scales, Tensor zero_points, dtype dtype) -> Tensor[]",
    )
    method = out = differentiable = False

    def compute(self, input, scale, zero_point, dtype):
        if not isinstance(input, (list, tuple)):
            point = int(number_of(zero_point, "zero_point"))
            return quantized_per_tensor(input, number_of(scale, "scale"), point, dtype)
        for what, given in (("scales", scale), ("zero_points", zero_point)):
            if input and (given.ndim != 1 or len(given) < len(input)):
                raise IndexError(f"{self.name}: expected {len(input)} {what} in a vector, got {list(given.shape)}")
        pairs = zip(input, scale.tolist(), zero_point.tolist(), strict=False)
        return tuple(quantized_per_tensor(x, s, int(z), dtype) for x, s, z in pairs)


def number_of(given: Any, what: str) -> Any:
    """The number itself, or that of a tensor of one element."""
    if isinstance(given, _C.Tensor):
        if given.numel() != 1:
            raise RuntimeError(f"quantize_per_tensor: expected {what} to be one number, got {list(given.shape)}")
        return given.item()
    return given


def quantized_per_tensor(input: Any, scale: float, zero_point: int, dtype: Any) -> Any:
    """One tensor, quantized with one scale and one zero point."""
    name = "quantize_per_tensor"
    check_input(name, input, dtype)
    check_point(name, zero_point, dtype)
    return put_numbers(dense(input), dtype, one_for_all(scale, zero_point))


def put_numbers(input: Any, dtype: Any, quantizer: Quantizer) -> Any:
    """A tensor of float32 as one of a quantized dtype, lying as it does."""
    integers = to_ints(input, dtype, quantizer)
    return packed(integers, dtype, quantizer) if dtype in PER_BYTE else put(integers, dtype, quantizer)


def to_ints(input: Any, dtype: Any, quantizer: Quantizer, rounding: int | None = None) -> Any:
    """The integers that stand for numbers, one in each element of the result."""
    low, high = RANGES[dtype]
    if isinstance(quantizer, PerTensor):
        inverse = inverse_of(quantizer.scale)
        point: Any = quantizer.zero_point
        if rounding is None:
            rounding = ROUNDED_FIRST if dtype in PER_BYTE else SHIFTED if dtype is _C.qint32 else IN_ONE_STEP
    else:
        scales = quantizer.scales.to(_C.float32)
        inverse = along(scales.reciprocal() if scales.numel() else scales, input, quantizer.axis)
        point = along(quantizer.zero_points, input, quantizer.axis)
        rounding = SHIFTED
    return ops["_quantized_elements"](input, inverse, point, low, high, rounding, PLAIN[dtype])


def check_input(name: str, input: Any, dtype: Any) -> None:
    """Raise for what cannot be quantized, and for dtypes that are not quantized."""
    if is_quantized(input):
        raise NotImplementedError(f"{name}: expected a tensor of numbers, got one that is quantized. Use dequantize().")
    if dtype not in RANGES:
        raise RuntimeError(f"{name}: expected a quantized dtype (quint8, qint8, qint32, ...), got {dtype}")
    if input.dtype is not _C.float32:
        raise RuntimeError(f"{name}: expected a float32 tensor, got one of {input.dtype}")


def check_point(name: str, zero_point: int, dtype: Any) -> None:
    """Raise for a zero point that no integer of a dtype can be."""
    low, high = POINTS[dtype]
    if not low <= zero_point <= high:
        raise RuntimeError(f"{name}: zero_point {zero_point} is out of range of {dtype}: {low} to {high}")


class QuantizePerChannel(Composite):
    """A tensor of integers from one of numbers, with a scale and a zero point for each index of `axis`."""

    schema = "quantize_per_channel(Tensor input, Tensor scales, Tensor zero_points, int axis, dtype dtype) -> Tensor"
    method = out = differentiable = False

    def compute(self, input, scales, zero_points, axis, dtype):
        name = "quantize_per_channel"
        check_input(name, input, dtype)
        quantizer = channel_quantizer(name, scales, zero_points, axis)
        check_channels(name, quantizer, input.shape)
        if isinstance(quantizer, PerChannelFloat):
            if dtype is _C.qint32:
                raise RuntimeError(f"{name}: zero points of float32 need a dtype of 8 bits or fewer, got {dtype}")
            return put_numbers(input.contiguous(), dtype, quantizer)
        if dtype in PER_BYTE:
            raise NotImplementedError(f"{name}: {dtype} needs zero points of float32, got {zero_points.dtype}")
        check_points(name, quantizer, dtype)
        return put_numbers(dense(input), dtype, quantizer)


def along(values: Any, input: Any, axis: int) -> Any:
    """A vector as a tensor that broadcasts along `axis` of `input`."""
    return values.reshape([values.numel() if dim == axis % input.ndim else 1 for dim in range(input.ndim)])


def channel_quantizer(name: str, scales: Any, zero_points: Any, axis: int) -> PerChannel | PerChannelFloat:
    """The quantizer of these vectors: floats stay floats, everything else is held in double precision and int64."""
    for what, given in (("scales", scales), ("zero_points", zero_points)):
        if given.ndim != 1 or given.numel() != scales.numel():
            raise RuntimeError(
                f"{name}: expected {what} to be a vector of {scales.numel()}, as the other, got {list(given.shape)}"
            )
    if not scales.dtype.is_floating_point:
        raise RuntimeError(f"{name}: expected scales of a floating point dtype, got {scales.dtype}")
    if zero_points.dtype.is_floating_point:
        kind, *dtypes = PerChannelFloat, _C.float32, _C.float32
    else:
        kind, *dtypes = PerChannel, _C.float64, _C.int64
    held = (v.detach().to(d).contiguous() for v, d in zip((scales, zero_points), dtypes, strict=True))
    return kind(*held, axis)


def check_channels(name: str, quantizer: Any, shape: Any) -> None:
    """Raise where there is not one scale for each index of the axis."""
    axis, count = quantizer.axis, quantizer.scales.numel()
    if not 0 <= axis < len(shape):
        raise RuntimeError(f"{name}: expected an axis from 0 to {len(shape) - 1}, got {axis}")
    if count != shape[axis]:
        raise RuntimeError(f"{name}: expected {shape[axis]} scales, one for each index of dim {axis}, got {count}")


def check_points(name: str, quantizer: Any, dtype: Any) -> None:
    """Raise for zero points that no integer of a dtype can be."""
    points = quantizer.zero_points
    for point in (points.min().item(), points.max().item()) if points.numel() else ():
        check_point(name, point, dtype)


# --- integers to numbers ----------------------------------------------------------------------------------------------


class Dequantize(Composite):
    """The numbers that a quantized tensor stands for, as float32. Other tensors are taken as they are, as float32."""

    schema = ("dequantize.self(Tensor input) -> Tensor", "dequantize.tensors(Tensor[] tensors) -> Tensor[]")
    out = differentiable = False

    def compute(self, input):
        if not isinstance(input, (list, tuple)):
            return dequantized(input)
        if not input:
            raise NotImplementedError("dequantize: expected a tensor, or a list of at least one")
        return tuple(dequantized(t) for t in input)


def dequantized(t: Any) -> Any:
    """The numbers of a tensor in float32, lying row by row or channels last."""
    if not is_quantized(t):
        return t.to(_C.float32)
    integers = unpacked(t) if t.dtype in PER_BYTE else dense(ints(t))
    return from_ints(integers, t._quantizer)


def from_ints(integers: Any, quantizer: Quantizer) -> Any:
    """The numbers that integers stand for."""
    if isinstance(quantizer, PerTensor):
        exact = integers.dtype is _C.int32
        point: Any = quantizer.zero_point
        if exact:       # as a number it would be rounded to a float32
            point = _C.from_data(point, _C.int32, integers.device)
        return ops["_dequantized_elements"](integers, in_single(quantizer.scale), point, exact, False)
    scales, points = (along(v, integers, quantizer.axis) for v in (quantizer.scales, quantizer.zero_points))
    return ops["_dequantized_elements"](integers, scales, points, False, isinstance(quantizer, PerChannel))


class IntRepr(Composite):
    """The integers of a quantized tensor, in memory of their own; of dtypes that share bytes, the bytes."""

    schema = "int_repr(Tensor input) -> Tensor"
    differentiable = False

    def compute(self, input):
        quantizer_of(input, "int_repr")
        integers = ints(input)
        found = dense(integers)
        return found.clone() if found is integers else found


# --- questions --------------------------------------------------------------------------------------------------------


def quantizer_of(t: Any, name: str, *kinds: type) -> Any:
    """The quantizer of a tensor, of one of these kinds; raises for other tensors."""
    if not is_quantized(t):
        raise NotImplementedError(f"{name}: expected a quantized tensor, got one of {t.dtype}")
    if kinds and not isinstance(t._quantizer, kinds):
        raise RuntimeError(f"{name}: a tensor quantized as {t._quantizer.scheme} has none")
    return t._quantizer


class QScale(Composite):
    """The scale of a tensor quantized per tensor."""

    schema = "q_scale(Tensor input) -> float"
    out = differentiable = False

    def compute(self, input):
        return quantizer_of(input, "q_scale", PerTensor).scale


class QZeroPoint(Composite):
    """The zero point of a tensor quantized per tensor."""

    schema = "q_zero_point(Tensor input) -> int"
    out = differentiable = False

    def compute(self, input):
        return quantizer_of(input, "q_zero_point", PerTensor).zero_point


class QPerChannelScales(Composite):
    """The scales of a tensor quantized per channel."""

    schema = "q_per_channel_scales(Tensor input) -> Tensor"
    differentiable = False

    def compute(self, input):
        return quantizer_of(input, "q_per_channel_scales", PerChannel, PerChannelFloat).scales


class QPerChannelZeroPoints(Composite):
    """The zero points of a tensor quantized per channel."""

    schema = "q_per_channel_zero_points(Tensor input) -> Tensor"
    differentiable = False

    def compute(self, input):
        return quantizer_of(input, "q_per_channel_zero_points", PerChannel, PerChannelFloat).zero_points


class QPerChannelAxis(Composite):
    """The dim along which a tensor is quantized."""

    schema = "q_per_channel_axis(Tensor input) -> int"
    out = differentiable = False

    def compute(self, input):
        return quantizer_of(input, "q_per_channel_axis", PerChannel, PerChannelFloat).axis


class QScheme(Composite):
    """How a quantized tensor maps integers to numbers."""

    schema = "qscheme(Tensor input) -> any"
    function = out = differentiable = False

    def compute(self, input):
        return quantizer_of(input, "qscheme").scheme


# --- tensors of integers that are given, and of none yet --------------------------------------------------------------

QUANTIZED = {_C.uint8: _C.quint8, _C.int8: _C.qint8, _C.int32: _C.qint32}


def quantized_type(integers: Any, name: str) -> Any:
    """The quantized dtype whose integers are of this dtype."""
    if integers.dtype not in QUANTIZED:
        raise RuntimeError(f"{name}: expected integers of uint8, int8 or int32, got {integers.dtype}")
    return QUANTIZED[integers.dtype]


class MakePerTensorQuantizedTensor(Composite):
    """A quantized tensor of integers that are given."""

    schema = "_make_per_tensor_quantized_tensor(Tensor input, float scale, int zero_point) -> Tensor"
    method = out = differentiable = False

    def compute(self, input, scale, zero_point):
        dtype = quantized_type(input, self.name)
        found = dense(input)
        return put(found.clone() if found is input else found, dtype, PerTensor(scale, zero_point))


class MakePerChannelQuantizedTensor(Composite):
    """A quantized tensor of integers that are given, with qparams for each index of `axis`."""

    schema = "_make_per_channel_quantized_tensor(Tensor input, Tensor scale, Tensor zero_point, int axis) -> Tensor"
    method = out = differentiable = False

    def compute(self, input, scale, zero_point, axis):
        dtype = quantized_type(input, self.name)
        quantizer = channel_quantizer(self.name, scale, zero_point, axis % input.ndim if input.ndim else axis)
        check_channels(self.name, quantizer, input.shape)
        return put(input.clone(memory_format=contiguous_format), dtype, quantizer)


def empty(name: str, size: Any, dtype: Any, device: Any, memory_format: Any, quantizer: Quantizer) -> Any:
    """A quantized tensor whose integers are whatever its memory holds."""
    if dtype not in RANGES:
        raise RuntimeError(f"{name}: expected a quantized dtype (quint8, qint8, qint32, ...), got {dtype}")
    if any(n < 0 for n in size):
        raise RuntimeError(f"{name}: expected sizes of 0 and more, got {list(size)}")
    if dtype in PER_BYTE:
        return packed(None, dtype, quantizer, size, device)
    integers = ops["empty"](tuple(size), dtype=PLAIN[dtype], device=device, memory_format=memory_format)
    return put(integers, dtype, quantizer)


class EmptyAffineQuantized(Composite):
    """A tensor quantized per tensor, with integers to come."""

    schema = (
        "_empty_affine_quantized(int[] size, *, dtype? dtype=None, layout? layout=None, device? device=None,"
        " bool? pin_memory=None, float scale=1, int zero_point=0, memory_format? memory_format=None)"
        " -> Tensor"
    )
    method = out = differentiable = False

    def compute(self, size, dtype, layout, device, pin_memory, scale, zero_point, memory_format):
        return empty(self.name, size, dtype, device, memory_format, PerTensor(scale, zero_point))


class EmptyPerChannelAffineQuantized(Composite):
    """A tensor quantized per channel, with integers to come."""

    schema = (
        "_empty_per_channel_affine_quantized(int[] size, *, Tensor scales, Tensor zero_points, int axis,"
        " dtype? dtype=None, layout? layout=None, device? device=None, bool? pin_memory=None,"
        " memory_format? memory_format=None) -> Tensor"
    )
    method = out = differentiable = False

    def compute(self, size, scales, zero_points, axis, dtype, layout, device, pin_memory, memory_format):
        quantizer = channel_quantizer(self.name, scales, zero_points, axis)
        check_channels(self.name, quantizer, size)
        return empty(self.name, size, dtype, device, memory_format, quantizer)


class EmptyQuantized(Composite):
    """A tensor of another size that is quantized as one that is given."""

    schema = (
        "empty_quantized(int[] size, Tensor qtensor, *, dtype? dtype=None, layout? layout=None, device? device=None,"
        " bool? pin_memory=None, memory_format? memory_format=None) -> Tensor"
    )
    method = out = differentiable = False

    def compute(self, size, qtensor, dtype, layout, device, pin_memory, memory_format):
        quantizer = quantizer_of(qtensor, "empty_quantized")
        return empty(self.name, size, dtype or qtensor.dtype, device or qtensor.device, memory_format, quantizer)


@rule("clone")
def clone(t: Any, memory_format: Any = None) -> Any:
    if t.dtype in PER_BYTE:
        raise NotImplementedError(f"clone: not implemented for {t.dtype}. Use copy.deepcopy().")
    if memory_format in (None, preserve_format):
        memory_format = contiguous_format
    return put(ints(t).clone(memory_format=memory_format), t.dtype, t._quantizer)
