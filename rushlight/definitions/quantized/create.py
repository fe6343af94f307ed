"""Quantized tensors from numbers, numbers from them, and questions about their quantizers.

Enters: float tensors with scales and zero points, or integers that are given. Leaves: quantized tensors; floats;
qparams. Refuses: other dtypes, qparams of the wrong length, zero points that the dtype cannot hold, questions that a
tensor's scheme has no answer to. Rounding is half to even.
"""

from __future__ import annotations

import struct
from typing import Any

from ... import _C
from ...base.quantizers import PerChannel, PerChannelFloat, PerTensor
from ...op import Composite, Pointwise, Promote, ops, wrap_dim
from .container import PLAIN, ints, is_quantized, put, rule

RANGES = {_C.quint8: (0, 255), _C.qint8: (-128, 127), _C.qint32: (-(2**31), 2**31 - 1), _C.quint4x2: (0, 15),
          _C.quint2x4: (0, 3)}


class QuantizedElements(Pointwise):
    """round(input / scale) + zero_point, held between two integers, as integers. `inverse` is 1 / scale."""

    schema = (
        "_quantized_elements(Tensor input, Tensor|Scalar inverse, Tensor|Scalar zero_point, int low, int high,"
        " dtype dtype) -> Tensor"
    )
    function = method = inplace = out = differentiable = False
    apart = ("zero_point",)

    def expr(self, s, x, inverse, zero_point, low, high, dtype):
        rounded = s.rint(x * inverse) + s.cast(zero_point, x.dtype)
        return s.clamp(rounded, low, high)

    def result_dtype(self, common, input, inverse, zero_point, low, high, dtype):
        return dtype


class DequantizedElements(Pointwise):
    """(integer - zero_point) * scale."""

    schema = "_dequantized_elements(Tensor input, Tensor|Scalar scale, Tensor|Scalar zero_point) -> Tensor"
    function = method = inplace = out = differentiable = False
    apart = ("input", "zero_point")
    promote = Promote.TO_FLOAT

    def expr(self, s, x, scale, zero_point):
        return s.cast(s.cast(x, "i32") - s.cast(zero_point, "i32"), "f32") * s.cast(scale, "f32")

    def result_dtype(self, common, *args):
        return _C.float32


class QuantizePerTensor(Composite):
    """A tensor of integers, `scale` apart, from one of numbers."""

    schema = (
        "quantize_per_tensor(Tensor input, float scale, int zero_point, dtype dtype) -> Tensor",
        "quantize_per_tensor.tensor_qparams(Tensor input, Tensor scale, Tensor zero_point, dtype dtype) -> Tensor",
        "quantize_per_tensor.tensors(Tensor[] tensors, Tensor scales, Tensor zero_points, dtype dtype) -> Tensor[]",
    )
    method = out = differentiable = False

    def compute(self, input, scale, zero_point, dtype):
        if isinstance(input, (list, tuple)):
            pairs = zip(input, scale.tolist(), zero_point.tolist(), strict=True)
            return [quantized_per_tensor(x, s, int(z), dtype) for x, s, z in pairs]
        return quantized_per_tensor(input, float(scale), int(zero_point), dtype)


def quantized_per_tensor(input: Any, scale: float, zero_point: int, dtype: Any) -> Any:
    """One tensor, quantized with one scale and one zero point."""
    low, high = checked(input, dtype, "quantize_per_tensor")
    if not low <= zero_point <= high:
        raise RuntimeError(f"quantize_per_tensor: zero_point {zero_point} is out of range of {dtype}: {low} to {high}")
    if scale == 0:
        raise RuntimeError("quantize_per_tensor: expected a scale that is not 0")
    integers = ops["_quantized_elements"](input, 1.0 / in_single(scale), zero_point, low, high, PLAIN[dtype])
    return put(integers, dtype, PerTensor(scale, zero_point))


def in_single(number: float) -> float:
    """The float32 nearest to a number: kernels compute with scales of single precision."""
    return struct.unpack("f", struct.pack("f", number))[0]


def checked(input: Any, dtype: Any, name: str) -> tuple[int, int]:
    """The least and the largest integer of a quantized dtype; raises for other dtypes and inputs."""
    if dtype not in RANGES:
        raise RuntimeError(f"{name}: expected a quantized dtype (quint8, qint8, qint32, ...), got {dtype}")
    if input.dtype is not _C.float32:
        raise RuntimeError(f"{name}: expected a float32 tensor, got one of {input.dtype}")
    return RANGES[dtype]


class QuantizePerChannel(Composite):
    """A tensor of integers from one of numbers, with a scale and a zero point for each index of `axis`."""

    schema = (
        "quantize_per_channel(Tensor input, Tensor scales, Tensor zero_points, int axis, dtype dtype) -> Tensor"
    )
    method = out = differentiable = False

    def compute(self, input, scales, zero_points, axis, dtype):
        low, high = checked(input, dtype, "quantize_per_channel")
        quantizer = channel_quantizer("quantize_per_channel", scales, zero_points, axis, input.shape)
        if isinstance(quantizer, PerChannelFloat):
            wide = along(quantizer.scales, input, quantizer.axis), along(quantizer.zero_points, input, quantizer.axis)
            integers = (input / wide[0] + wide[1]).round().clamp(low, high).to(PLAIN[dtype])
            return put(integers, dtype, quantizer)
        inverse = along(1.0 / quantizer.scales.to(_C.float32), input, quantizer.axis)
        points = along(quantizer.zero_points, input, quantizer.axis)
        return put(ops["_quantized_elements"](input, inverse, points, low, high, PLAIN[dtype]), dtype, quantizer)


def along(values: Any, input: Any, axis: int) -> Any:
    """A vector as a tensor that broadcasts along `axis` of `input`."""
    return values.reshape([-1 if dim == axis else 1 for dim in range(input.ndim)])


def channel_quantizer(name: str, scales: Any, zero_points: Any, axis: int, shape: Any) -> Any:
    """The quantizer of these vectors; raises where they do not fit a tensor of this shape."""
    axis = wrap_dim(name, axis, len(shape))
    for what, given in (("scales", scales), ("zero_points", zero_points)):
        if given.ndim != 1 or given.numel() != shape[axis]:
            raise RuntimeError(
                f"{name}: expected {what} to be a vector of {shape[axis]} elements, one for each index of dim {axis},"
                f" got {list(given.shape)}"
            )
    if zero_points.dtype.is_floating_point:
        return PerChannelFloat(scales.to(_C.float32), zero_points.to(_C.float32), axis)
    return PerChannel(scales.to(_C.float64), zero_points.to(_C.int64), axis)


class Dequantize(Composite):
    """The numbers that a quantized tensor stands for, as float32. Other tensors are taken as they are, as float32."""

    schema = ("dequantize(Tensor input) -> Tensor", "dequantize.tensors(Tensor[] tensors) -> Tensor[]")
    out = differentiable = False

    def compute(self, input):
        if isinstance(input, (list, tuple)):
            return [dequantized(t) for t in input]
        return dequantized(input)


def dequantized(t: Any) -> Any:
    """The numbers of a tensor in float32."""
    if not is_quantized(t):
        return t.to(_C.float32)
    quantizer = t._quantizer
    if isinstance(quantizer, PerTensor):
        return ops["_dequantized_elements"](ints(t), quantizer.scale, quantizer.zero_point)
    scales, points = (along(v, t, quantizer.axis) for v in (quantizer.scales, quantizer.zero_points))
    if isinstance(quantizer, PerChannelFloat):
        return (ints(t) - points) * scales
    return ops["_dequantized_elements"](ints(t), scales.to(_C.float32), points)


# --- questions --------------------------------------------------------------------------------------------------------


def quantizer_of(t: Any, name: str, *kinds: type) -> Any:
    """The quantizer of a tensor, of one of these kinds; raises for other tensors."""
    if not is_quantized(t):
        raise NotImplementedError(f"{name}: expected a quantized tensor, got one of {t.dtype}")
    if kinds and not isinstance(t._quantizer, kinds):
        raise RuntimeError(f"{name}: a tensor quantized as {t._quantizer.scheme} has none")
    return t._quantizer


class IntRepr(Composite):
    """The integers of a quantized tensor, in memory of their own."""

    schema = "int_repr(Tensor input) -> Tensor"
    differentiable = False

    def compute(self, input):
        quantizer_of(input, "int_repr")
        return ints(input).clone()


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


class MakePerTensorQuantizedTensor(Composite):
    """A quantized tensor of integers that are given."""

    schema = "_make_per_tensor_quantized_tensor(Tensor input, float scale, int zero_point) -> Tensor"
    method = out = differentiable = False

    def compute(self, input, scale, zero_point):
        return put(input.clone(), quantized_type(input, self.name), PerTensor(scale, zero_point))


class MakePerChannelQuantizedTensor(Composite):
    """A quantized tensor of integers that are given, with qparams for each index of `axis`."""

    schema = (
        "_make_per_channel_quantized_tensor(Tensor input, Tensor scale, Tensor zero_point, int axis) -> Tensor"
    )
    method = out = differentiable = False

    def compute(self, input, scale, zero_point, axis):
        dtype = quantized_type(input, self.name)
        return put(input.clone(), dtype, channel_quantizer(self.name, scale, zero_point, axis, input.shape))


QUANTIZED = {_C.uint8: _C.quint8, _C.int8: _C.qint8, _C.int32: _C.qint32}


def quantized_type(integers: Any, name: str) -> Any:
    """The quantized dtype whose integers are of this dtype."""
    if integers.dtype not in QUANTIZED:
        raise RuntimeError(f"{name}: expected integers of uint8, int8 or int32, got {integers.dtype}")
    return QUANTIZED[integers.dtype]


@rule("clone")
def clone(t: Any, memory_format: Any) -> Any:
    return put(ints(t).clone(memory_format=memory_format), t.dtype, t._quantizer)
