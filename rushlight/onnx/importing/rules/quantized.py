"""Quantized numbers: to integers and narrow floats and back, and products and convolutions of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .... import _C, ops
from ...kinds import ELEMENTS, NUMBER_OF
from ..table import rule
from .casting import FLOAT8, cast_to
from .convolutions import conv_integer
from .products import matmul_integer

aten = ops.aten
LIMITS = {2: (0, 255), 3: (-128, 127), 4: (0, 65535), 5: (-32768, 32767), 21: (0, 15), 22: (-8, 7), 25: (0, 3),
          26: (-2, 1), 6: (-(2**31), 2**31 - 1)}


def spread(scale: Any, x: Any, axis: int, block: int) -> Any:
    """A scale (or zero point) in a shape that broadcasts over x: of the whole, by the axis, or by blocks of it."""
    if scale.ndim == 0 or (scale.ndim == 1 and scale.numel() == 1 and not block):
        return aten.reshape(scale, ())
    axis = axis % x.ndim
    if scale.ndim == 1 and not block:
        return aten.reshape(scale, (1,) * axis + (-1,) + (1,) * (x.ndim - 1 - axis))
    if not block:
        raise ValueError(f"QuantizeLinear: a scale of {scale.ndim} dims needs block_size")
    return aten.slice(aten.repeat_interleave(scale, block, axis), axis, 0, x.shape[axis])


def _target(numbers: Sequence[int], settings: Mapping[str, Any]) -> int:
    """The type that a node quantizes to."""
    if len(numbers) > 2 and numbers[2]:
        return numbers[2]
    return settings.get("output_dtype") or 2


@rule("QuantizeLinear", since=10, gives=_target, closed=(2,))
def quantize_linear(x: Any, scale: Any, zero: Any = None, *, axis: int = 1, saturate: int = 1, block_size: int = 0,
                    output_dtype: int = 0, precision: int = 0, elements: tuple) -> Any:
    number = _target(elements, {"output_dtype": output_dtype})
    if zero is not None and not (len(elements) > 2 and elements[2]):
        number = NUMBER_OF[zero.dtype]
    wide = ELEMENTS[precision].dtype if precision else scale.dtype if scale.dtype.is_floating_point and (
        scale.dtype.itemsize >= x.dtype.itemsize and scale.dtype.itemsize > 1) else x.dtype
    if not wide.is_floating_point:
        wide = _C.float32
    quotient = aten.div(x.to(wide), spread(scale, x, axis, block_size).to(wide))
    shift = None if zero is None else spread(zero, x, axis, block_size)
    if number in FLOAT8 or ELEMENTS[number].name in ("FLOAT4E2M1", "FLOAT8E8M0"):
        if shift is not None:
            quotient = aten.add(quotient, shift.to(wide))
        return cast_to(quotient, number, saturate)
    low, high = LIMITS[number]
    rounded = aten.round(quotient).to(_C.float32 if wide.itemsize < 4 else wide)
    if shift is not None:
        rounded = aten.add(rounded, shift.to(rounded.dtype))
    return aten.clamp(rounded, low, high).to(_C.int32).to(ELEMENTS[number].dtype)


def _float_type(numbers: Sequence[int], settings: Mapping[str, Any]) -> int:
    return settings.get("output_dtype") or (numbers[1] if len(numbers) > 1 else 0)


@rule("DequantizeLinear", since=10, gives=_float_type, closed=(0, 2))
def dequantize_linear(x: Any, scale: Any, zero: Any = None, *, axis: int = 1, block_size: int = 0, output_dtype: int = 0
                      ) -> Any:
    target = ELEMENTS[output_dtype].dtype if output_dtype else scale.dtype
    wide = _C.float32 if scale.dtype.itemsize < 4 else scale.dtype
    found = x.to(wide) if zero is None or x.dtype.is_floating_point else aten.sub(
        x.to(_C.int32), spread(zero, x, axis, block_size).to(_C.int32)).to(wide)
    if zero is not None and x.dtype.is_floating_point:
        found = aten.sub(found, spread(zero, x, axis, block_size).to(wide))
    return aten.mul(found, spread(scale, x, axis, block_size).to(wide)).to(target)


@rule("DynamicQuantizeLinear", since=11, closed=True, gives=lambda numbers, settings: [2, 1, 2])
def dynamic_quantize_linear(x: Any, *, count: int) -> tuple:
    low, high = aten.clamp(aten.amin(x), max=0), aten.clamp(aten.amax(x), min=0)
    scale = aten.div(aten.sub(high, low), 255)
    safe = aten.where(aten.eq(scale, 0), 1.0, scale)
    zero = aten.clamp(aten.round(aten.div(aten.neg(low), safe)), 0, 255)
    found = aten.clamp(aten.add(aten.round(aten.div(x, safe)), zero), 0, 255).to(_C.uint8)
    return found, scale, zero.to(_C.uint8)


def requantized(total: Any, factor: Any, zero: Any, number: int, kind: Any) -> Any:
    """Sums of products as quantized numbers of another scale."""
    low, high = LIMITS[number]
    scaled = aten.round(aten.mul(total.to(_C.float32), factor.to(_C.float32)))
    return aten.clamp(aten.add(scaled, zero.to(_C.float32)), low, high).to(_C.int32).to(kind)


def _zero_number(elements: Sequence[int], zero: Any) -> int:
    return elements[7] if len(elements) > 7 and elements[7] else NUMBER_OF[zero.dtype]


@rule("QLinearMatMul", since=10, closed=True, gives=lambda numbers, settings: numbers[7])
def qlinear_matmul(a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any, y_scale: Any, y_zero: Any, *,
                   elements: tuple) -> Any:
    total = matmul_integer(a, b, a_zero, b_zero)
    left = aten.unsqueeze(a_scale, -1) if a_scale.ndim == 1 and a_scale.numel() > 1 else a_scale
    factor = aten.div(aten.mul(left.to(_C.float32), b_scale.to(_C.float32)), y_scale.to(_C.float32))
    factor = aten.reshape(factor, ()) if factor.numel() == 1 else factor
    return requantized(total, factor, aten.reshape(y_zero, ()) if y_zero.numel() == 1 else y_zero,
                       _zero_number(elements, y_zero), y_zero.dtype)


@rule("QLinearConv", since=10, closed=True, gives=lambda numbers, settings: numbers[7])
def qlinear_conv(x: Any, x_scale: Any, x_zero: Any, w: Any, w_scale: Any, w_zero: Any, y_scale: Any, y_zero: Any,
                 bias: Any = None, *, auto_pad: str = "NOTSET", dilations: Sequence[int] | None = None, group: int = 1,
                 kernel_shape: Sequence[int] | None = None, pads: Sequence[int] | None = None,
                 strides: Sequence[int] | None = None, elements: tuple) -> Any:
    total = conv_integer(x, w, x_zero, w_zero, auto_pad=auto_pad, dilations=dilations, group=group, pads=pads,
                         strides=strides)
    by_channel = (-1,) + (1,) * (x.ndim - 2)
    if bias is not None:
        total = aten.add(total, aten.reshape(bias, by_channel))
    scale = aten.reshape(w_scale, by_channel) if w_scale.numel() > 1 else aten.reshape(w_scale, ())
    factor = aten.div(aten.mul(aten.reshape(x_scale, ()), scale), aten.reshape(y_scale, ()))
    return requantized(total, factor, aten.reshape(y_zero, ()), _zero_number(elements, y_zero), y_zero.dtype)


