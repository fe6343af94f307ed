"""`torch.ops.quantized_decomposed`: quantizing and dequantizing as ops over plain integer tensors.

Enters: floats or integers (of 8, 16 or 32 bits, or float8) with qparams: numbers, tensors of one element, one
for each channel, token or group. Leaves: integers of the dtype asked for, or floats. Refuses: dtypes and ranges that do
not fit each other, qparams of the wrong number, groups that do not divide. Graphs of export and of quantizers are
written with these ops, so that they run on tensors without data too.
"""

from __future__ import annotations

import math
from typing import Any

from .. import _C
from .._C import Tensor
from ..base.dtype import finfo, iinfo
from ..op import ops
from .namespace import define

__all__ = [
    "choose_qparams_per_token", "choose_qparams_per_token_asymmetric", "choose_qparams_symmetric_tensor",
    "choose_qparams_tensor", "convert_element_type", "dequantize_per_channel", "dequantize_per_channel_group",
    "dequantize_per_tensor", "dequantize_per_tensor_tensor", "dequantize_per_tensor_tensor2", "dequantize_per_token",
    "fake_quant_per_channel", "quantize_per_channel", "quantize_per_channel_group", "quantize_per_tensor",
    "quantize_per_tensor_tensor", "quantize_per_tensor_tensor2", "quantize_per_token",
]

_INTEGER_DTYPES = [_C.uint8, _C.int8, _C.uint16, _C.int16, _C.int32]
_FLOAT_DTYPES = [_C.float8_e5m2, _C.float8_e4m3fn]
_DTYPE_TO_QVALUE_BOUNDS = {
    **{dtype: (iinfo(dtype).min, iinfo(dtype).max) for dtype in _INTEGER_DTYPES},
    **{dtype: (int(finfo(dtype).min), int(finfo(dtype).max)) for dtype in _FLOAT_DTYPES},
}
_HALVES = (_C.float16, _C.bfloat16)


# --- checks -----------------------------------------------------------------------------------------------------------


def _ensure(holds: bool, message: str) -> None:
    if not holds:
        raise AssertionError(message)


def _quant_min_max_bounds_check(quant_min: int, quant_max: int, dtype: Any) -> None:
    """Refuse dtypes that nothing is quantized to, and ranges wider than theirs."""
    if dtype not in _DTYPE_TO_QVALUE_BOUNDS:
        raise ValueError(f"Unsupported dtype: {dtype}. Expected one of {list(_DTYPE_TO_QVALUE_BOUNDS)}")
    low, high = _DTYPE_TO_QVALUE_BOUNDS[dtype]
    _ensure(quant_min >= low, f"quant_min out of bounds for dtype {dtype}: at least {low}, got {quant_min}")
    _ensure(quant_max <= high, f"quant_max out of bounds for dtype {dtype}: at most {high}, got {quant_max}")


def _in_single(input: Tensor) -> Tensor:
    """Half types as float32; other types are refused."""
    if input.dtype in _HALVES:
        return input.to(_C.float32)
    _ensure(input.dtype == _C.float32, f"input: expected a tensor of float32, got one of {input.dtype}")
    return input


def _check_dtype(input: Tensor, dtype: Any) -> None:
    _ensure(input.dtype == dtype, f"Expecting input to have dtype: {dtype}, but got {input.dtype}")


def _check_axis(input: Tensor, axis: int) -> None:
    _ensure(axis < input.ndim, f"Expecting axis to be < {input.ndim}, got {axis}")


def _has_data(t: Tensor) -> bool:
    return not t._keys and t.device.type != "meta"


def _one(t: Tensor, what: str) -> Any:
    """The number in a tensor of one element; the tensor, without dims, where there is nothing to read yet."""
    _ensure(t.numel() == 1, f"Expecting {what} tensor to be one element, but received : {t.numel()}")
    return t.item() if _has_data(t) else t.reshape([])


def _along(values: Tensor, input: Tensor, axis: int) -> Tensor:
    """A vector in the shape that broadcasts along `axis`."""
    shape = [1] * input.ndim
    shape[axis] = values.shape[0]
    return values.view(shape)


# --- per tensor -------------------------------------------------------------------------------------------------------


@define(
    "quantized_decomposed::quantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max,"
    " ScalarType dtype) -> Tensor"
)
def quantize_per_tensor(
    input: Tensor, scale: Any, zero_point: Any, quant_min: int, quant_max: int, dtype: Any
) -> Tensor:
    """Integers that stand for the elements: clamp(round(input / scale) + zero_point, quant_min, quant_max)."""
    input = _in_single(input)
    _quant_min_max_bounds_check(quant_min, quant_max, dtype)
    inverse = 1.0 / scale
    return ops["_decomposed_integers"](input, inverse, zero_point, quant_min, quant_max, dtype)


@define(
    "quantized_decomposed::quantize_per_tensor.tensor(Tensor input, Tensor scale, Tensor zero_point, int quant_min,"
    " int quant_max, ScalarType dtype) -> Tensor"
)
def quantize_per_tensor_tensor(
    input: Tensor, scale: Tensor, zero_point: Tensor, quant_min: int, quant_max: int, dtype: Any
) -> Tensor:
    """The same with qparams in tensors of one element."""
    point, size = _one(zero_point, "zero_point"), _one(scale, "scale")
    return quantize_per_tensor(input, size, point, quant_min, quant_max, dtype)


@define(
    "quantized_decomposed::quantize_per_tensor.tensor2(Tensor input, Tensor scale, Tensor zero_point, Tensor quant_min,"
    " Tensor quant_max, ScalarType dtype) -> Tensor"
)
def quantize_per_tensor_tensor2(
    input: Tensor, scale: Tensor, zero_point: Tensor, quant_min: Tensor, quant_max: Tensor, dtype: Any
) -> Tensor:
    """The same with the range in tensors too."""
    bounds = _bounds(quant_min, quant_max, dtype)
    return quantize_per_tensor_tensor(input, scale, zero_point, *bounds, dtype)


def _bounds(quant_min: Tensor, quant_max: Tensor, dtype: Any) -> tuple[int, int]:
    """A range given in tensors; where there is nothing to read, that of the dtype stands for it."""
    if _has_data(quant_min) and _has_data(quant_max):
        return quant_min.item(), quant_max.item()
    return _DTYPE_TO_QVALUE_BOUNDS.get(dtype, (0, 0))


@define(
    "quantized_decomposed::dequantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min,"
    " int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor"
)
def dequantize_per_tensor(
    input: Tensor, scale: Any, zero_point: Any, quant_min: int, quant_max: int, dtype: Any, out_dtype: Any = None
) -> Tensor:
    """The numbers that integers stand for: (input - zero_point) * scale, in float32 or `out_dtype`."""
    _check_dtype(input, dtype)
    if dtype not in _DTYPE_TO_QVALUE_BOUNDS:
        raise ValueError(f"Unsupported dtype in dequantize_per_tensor: {dtype}")
    out_dtype = _C.float32 if out_dtype is None else out_dtype
    if out_dtype == _C.float32 and dtype in _INTEGER_DTYPES:
        return ops["_decomposed_floats"](input, scale, zero_point)
    return (input.to(out_dtype) - zero_point) * scale


@define(
    "quantized_decomposed::dequantize_per_tensor.tensor(Tensor input, Tensor scale, Tensor zero_point, int quant_min,"
    " int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor"
)
def dequantize_per_tensor_tensor(
    input: Tensor, scale: Tensor, zero_point: Tensor, quant_min: int, quant_max: int, dtype: Any, out_dtype: Any = None
) -> Tensor:
    """The same with qparams in tensors of one element."""
    point, size = _one(zero_point, "zero_point"), _one(scale, "scale")
    return dequantize_per_tensor(input, size, point, quant_min, quant_max, dtype, out_dtype)


@define(
    "quantized_decomposed::dequantize_per_tensor.tensor2(Tensor input, Tensor scale, Tensor zero_point,"
    " Tensor quant_min, Tensor quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor"
)
def dequantize_per_tensor_tensor2(
    input: Tensor, scale: Tensor, zero_point: Tensor, quant_min: Tensor, quant_max: Tensor, dtype: Any,
    out_dtype: Any = None,
) -> Tensor:
    """The same with the range in tensors too."""
    bounds = _bounds(quant_min, quant_max, dtype)
    return dequantize_per_tensor_tensor(input, scale, zero_point, *bounds, dtype, out_dtype)


def _chosen(input: Tensor, qmin: int, qmax: int, eps: float, dtype: Any, symmetric: bool) -> tuple[Tensor, Tensor]:
    """(scale, zero point), float64 and int64 of one element, for the range of a tensor's elements."""
    _ensure(
        input.dtype in (_C.float32, *_HALVES),
        f"input: expected a tensor of float32, float16 or bfloat16, got one of {input.dtype}",
    )
    _ensure(
        dtype in _DTYPE_TO_QVALUE_BOUNDS,
        f"Expecting target dtype to be one of {list(_DTYPE_TO_QVALUE_BOUNDS)}, but got: {dtype}",
    )
    _ensure(qmin <= 0 <= qmax and qmin < qmax, f"the range must include 0 and not be empty, got [{qmin}, {qmax}]")
    least, most = input.aminmax()
    low, high, steps = least.clamp(max=0), most.clamp(min=0), float(qmax - qmin)
    smallest = ops["full"]((1,), eps, dtype=_C.float32, device=input.device)
    if symmetric:
        scale = ((-low).maximum(high) / (steps / 2)).maximum(smallest)
        middle = 128 if dtype == _C.uint8 else 0
        return scale.to(_C.float64), ops["full"]((1,), middle, dtype=_C.int64, device=input.device)
    scale = ((high - low) / steps).maximum(smallest)
    points = (qmin - (low / scale).round().to(_C.int32)).clamp(qmin, qmax)
    return scale.to(_C.float64), points.to(_C.int64)


@define(
    "quantized_decomposed::choose_qparams.tensor(Tensor input, int quant_min, int quant_max, float eps,"
    " ScalarType dtype) -> (Tensor, Tensor)"
)
def choose_qparams_tensor(input: Tensor, qmin: int, qmax: int, eps: float, dtype: Any) -> tuple[Tensor, Tensor]:
    """(scale, zero point) that map the range of the elements, widened to hold 0, onto the integers."""
    return _chosen(input, qmin, qmax, eps, dtype, symmetric=False)


@define(
    "quantized_decomposed::choose_qparams_symmetric.tensor(Tensor input, int quant_min, int quant_max, float eps,"
    " ScalarType dtype) -> (Tensor, Tensor)"
)
def choose_qparams_symmetric_tensor(
    input: Tensor, qmin: int, qmax: int, eps: float, dtype: Any
) -> tuple[Tensor, Tensor]:
    """The same with 0 in the middle."""
    return _chosen(input, qmin, qmax, eps, dtype, symmetric=True)


# --- per channel ------------------------------------------------------------------------------------------------------


@define(
    "quantized_decomposed::quantize_per_channel(Tensor input, Tensor scales, Tensor zero_points, int axis,"
    " int quant_min, int quant_max, ScalarType dtype) -> Tensor"
)
def quantize_per_channel(
    input: Tensor, scales: Tensor, zero_points: Tensor, axis: int, quant_min: int, quant_max: int, dtype: Any
) -> Tensor:
    """Integers, with a scale and a zero point for each index of `axis`."""
    input = _in_single(input)
    _check_axis(input, axis)
    _quant_min_max_bounds_check(quant_min, quant_max, dtype)
    inverse, points = 1.0 / _along(scales, input, axis), _along(zero_points, input, axis)
    if inverse.dtype == _C.float32 and points.dtype != _C.float64:
        return ops["_decomposed_integers"](input, inverse, points, quant_min, quant_max, dtype)
    return ((input * inverse).round() + points).clamp(quant_min, quant_max).to(dtype)


@define(
    "quantized_decomposed::dequantize_per_channel(Tensor input, Tensor scales, Tensor? zero_points, int axis,"
    " int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor"
)
def dequantize_per_channel(
    input: Tensor, scales: Tensor, zero_points: Tensor | None, axis: int, quant_min: int, quant_max: int, dtype: Any,
    out_dtype: Any = None,
) -> Tensor:
    """Numbers from integers, with a scale and (where given) a zero point for each index of `axis`."""
    _check_dtype(input, dtype)
    _check_axis(input, axis)
    _quant_min_max_bounds_check(quant_min, quant_max, dtype)
    sizes = _along(scales, input, axis)
    if zero_points is not None:
        input = input - _along(zero_points, input, axis)
    return (input * sizes).to(_C.float32 if out_dtype is None else out_dtype)


@define(
    "quantized_decomposed::fake_quant_per_channel(Tensor input, Tensor scales, Tensor zero_points, int axis,"
    " int quant_min, int quant_max) -> Tensor"
)
def fake_quant_per_channel(
    input: Tensor, scales: Tensor, zero_points: Tensor, axis: int, quant_min: int, quant_max: int
) -> Tensor:
    """Floats on the grid of each channel, with a gradient where they lay within it."""
    _ensure(input.dtype == _C.float32, f"input: expected a tensor of float32, got one of {input.dtype}")
    _check_axis(input, axis)
    sizes = _along(scales.detach().to(_C.float32), input, axis)
    points = _along(zero_points.detach().to(_C.int32), input, axis)
    place = (input.detach() * (1.0 / sizes)).round() + points
    grid = (place.clamp(quant_min, quant_max) - points) * sizes
    return ops["_fake_quant_through"](input, grid, (place >= quant_min) & (place <= quant_max))


# --- per token and per group ------------------------------------------------------------------------------------------


@define("quantized_decomposed::choose_qparams_per_token(Tensor input, ScalarType dtype) -> (Tensor, Tensor)")
def choose_qparams_per_token(input: Tensor, dtype: Any) -> tuple[Tensor, Tensor]:
    """(scales, zero points of 0) for each row of the last dim, mapping its largest magnitude to 127."""
    reach = input.abs().amax(dim=-1, keepdim=True)
    if dtype != _C.int8:
        raise Exception(f"unsupported dtype in choose_qparams_per_token: {dtype}")  # noqa: TRY002 - PyTorch's class
    reach = reach.to(_C.float32) if reach.dtype == _C.float16 else reach    # float16 cannot hold the smallest scales
    scales = reach.clamp(min=1e-5).div(127)
    return scales, ops["zeros_like"](scales)


@define(
    "quantized_decomposed::_choose_qparams_per_token_asymmetric_impl(Tensor input, ScalarType dtype)"
    " -> (Tensor, Tensor)"
)
def _choose_qparams_per_token_asymmetric_impl(input: Tensor, dtype: Any) -> tuple[Tensor, Tensor]:
    """(scales, zero points) for each row of the last dim, mapping its range onto -128 to 127."""
    qmin, qmax = -128, 127
    least, most = input.amin(dim=-1, keepdim=True), input.amax(dim=-1, keepdim=True)
    zero = ops["zeros_like"](least)
    low, high = least.minimum(zero), most.maximum(zero)
    scale = ((high - low) / float(qmax - qmin)).clamp(min=finfo(_C.float32).eps)
    below, above = low / scale, high / scale
    from_below = (qmin + below) + (qmax + above) > 0
    point = ops["where"](from_below, qmin - below, qmax - above).clamp(qmin, qmax).round()
    return scale.to(_C.float64), point.to(_C.int64)


@define("quantized_decomposed::choose_qparams_per_token_asymmetric(Tensor input, ScalarType dtype) -> (Tensor, Tensor)")
def choose_qparams_per_token_asymmetric(input: Tensor, dtype: Any) -> tuple[Tensor, Tensor]:
    """The same, as an op that graphs keep whole."""
    return _choose_qparams_per_token_asymmetric_impl(input, dtype)


def _per_token_quant_qparam_dim_check(input: Tensor, scales: Tensor, zero_points: Tensor) -> None:
    """Refuse qparams that are not one for each row."""
    tokens = math.prod(input.shape[:-1])
    for what, given in (("scales", scales), ("zero_points", zero_points)):
        _ensure(tokens == given.numel(), f"num_tokens: {tokens} {what}: {tuple(given.shape)}")


@define(
    "quantized_decomposed::quantize_per_token(Tensor input, Tensor scales, Tensor zero_points, int quant_min,"
    " int quant_max, ScalarType dtype) -> Tensor"
)
def quantize_per_token(
    input: Tensor, scales: Tensor, zero_points: Tensor, quant_min: int, quant_max: int, dtype: Any
) -> Tensor:
    """Integers, with qparams that broadcast over the rows of the last dim."""
    _quant_min_max_bounds_check(quant_min, quant_max, dtype)
    _per_token_quant_qparam_dim_check(input, scales, zero_points)
    return (input * (1.0 / scales) + zero_points).round().clamp(quant_min, quant_max).to(dtype)


@define(
    "quantized_decomposed::dequantize_per_token(Tensor input, Tensor scales, Tensor zero_points, int quant_min,"
    " int quant_max, ScalarType dtype, ScalarType output_dtype) -> Tensor"
)
def dequantize_per_token(
    input: Tensor, scales: Tensor, zero_points: Tensor, quant_min: int, quant_max: int, dtype: Any,
    output_dtype: Any = _C.float32,
) -> Tensor:
    """Numbers from integers, with qparams that broadcast over the rows of the last dim."""
    return ((input - zero_points) * scales).to(output_dtype)


def _grouped(w: Tensor, scales: Tensor, group_size: int) -> Tensor:
    """A matrix as rows of one group each. Refuses sizes that do not divide."""
    _ensure(group_size > 1, f"group_size must be > 1, got {group_size}")
    width = w.shape[-1]
    if group_size > width and scales.shape[-1] == 1:
        group_size = width
    _ensure(width % group_size == 0, f"the last dim must be divisible by group_size, got {width} and {group_size}")
    _ensure(w.ndim == 2, f"expected a tensor of 2 dims, got {w.ndim}")
    return w.reshape(-1, group_size)


@define(
    "quantized_decomposed::quantize_per_channel_group(Tensor input, Tensor scales, Tensor zero_points, int quant_min,"
    " int quant_max, ScalarType dtype, int group_size) -> Tensor"
)
def quantize_per_channel_group(
    input: Tensor, scales: Tensor, zero_points: Tensor, quant_min: int, quant_max: int, dtype: Any,
    group_size: int = 128,
) -> Tensor:
    """Integers of a matrix, with qparams for each group of neighbours in a row. Refuses NaN."""
    groups = _grouped(input, scales, group_size)
    if _has_data(input):
        _ensure(not bool(groups.isnan().any()), "expected an input without NaN")
    found = groups * (1.0 / scales.reshape(-1, 1)) + zero_points.reshape(-1, 1)
    return found.round().clamp(quant_min, quant_max).to(dtype).reshape(input.shape)


@define(
    "quantized_decomposed::dequantize_per_channel_group(Tensor input, Tensor scales, Tensor? zero_points,"
    " int quant_min, int quant_max, ScalarType dtype, int group_size, ScalarType output_dtype) -> Tensor"
)
def dequantize_per_channel_group(
    w_int8: Tensor, scales: Tensor, zero_points: Tensor | None, quant_min: int, quant_max: int, dtype: Any,
    group_size: int = 128, output_dtype: Any = _C.float32,
) -> Tensor:
    """Numbers of a matrix from integers, with qparams for each group of neighbours in a row."""
    groups = _grouped(w_int8, scales, group_size)
    if zero_points is None:
        points = ops["zeros"]((), dtype=_C.int32, device=scales.device)
    else:
        points = zero_points.reshape(-1, 1)
    return ((groups - points) * scales.reshape(-1, 1)).reshape(w_int8.shape).to(output_dtype)


@define("quantized_decomposed::convert_element_type.no_fuse(Tensor input, ScalarType dtype) -> Tensor")
def convert_element_type(input: Tensor, dtype: Any) -> Tensor:
    """The elements in another dtype, which compilers are not to merge with their neighbours."""
    return input.to(dtype)
