"""Quantization as QuantizeLinear and DequantizeLinear: by tensor, by channel, by block; fake quantization as both.

Enters: values with scales and zero points, which are numbers or tensors, and the range of the integers. Leaves: nodes
of that kind where ONNX has them for the types (8 bits always, 4 and 16 bits and blocks from opset 21 on, 8-bit floats
from 19 on), arithmetic where not: numbers of 32 bits, scales by token, floats of 64 bits.
"""

from __future__ import annotations

from typing import Any

from ... import _C
from ...tensors.interop import tensor
from ..building import Builder
from ..model import Value
from .table import INT64, number, reshaped, result_of, rule

FLOAT8 = ("f8e4m3fn", "f8e5m2", "f8e4m3fnuz", "f8e5m2fnuz")
LIMITS = {"i8": (-128, 127), "u8": (0, 255), "i16": (-32768, 32767), "u16": (0, 65535)}
BLOCKS, SHORTS, BYTES = 21, 21, 19      # the first opsets with blocks, 4 and 16 bits, 8-bit floats
NARROW = {(-8, 7): _C.int4, (0, 15): _C.uint4}      # bytes within these limits are integers of 4 bits
CARRIERS = {_C.int4: _C.int8, _C.uint4: _C.uint8}


def _is_native(g: Builder, kind: Any, x: Value) -> bool:
    code = kind.code
    has = code in ("i8", "u8") or (code in ("i16", "u16", "i4", "u4") and g.opset >= SHORTS) or (
        code in FLOAT8 and g.opset >= BYTES)
    return has and (x.dtype is _C.float32 or (x.dtype in (_C.float16, _C.bfloat16) and g.opset >= BYTES))


def _as(g: Builder, n: Any, dtype: Any) -> Value:
    return g.cast(n, dtype) if isinstance(n, Value) else g.constant(n, dtype)


def _narrow(g: Builder, low: Any, high: Any, kind: Any) -> Any:
    """The type of 4 bits that integers of a type are within such limits, or None."""
    if isinstance(low, Value) or isinstance(high, Value) or g.opset < SHORTS or kind.code not in ("i8", "u8", "i32"):
        return None
    return NARROW.get((low, high))


def _packed(g: Builder, n: Any, kind: Any) -> Value | None:
    """Integers as ones of 4 bits; None for those of the model that do not fit."""
    carrier = CARRIERS[kind]
    if isinstance(n, Value) and n.name not in g.root().graph.tensors:
        return g.cast(n, kind)
    held = g.root().graph.tensors[n.name].detach() if isinstance(n, Value) else tensor(0 if n is None else n)
    low, high = next(limits for limits, narrow in NARROW.items() if narrow is kind)
    if held.is_floating_point() or bool(((held < low) | (held > high)).any()):
        return None
    known, key = g.root().known, ("narrow", n.name if isinstance(n, Value) else n, kind.code)
    if key not in known:
        name = n.name if isinstance(n, Value) else "zero"
        known[key] = g.tensor(f"{name}_{kind.code}", held.to(carrier).view(kind))
    return known[key]


def _line(g: Builder, x: Value, n: Any, axis: int | None) -> Any:
    """Numbers by channel, as they are broadcast to x."""
    if axis is None or not isinstance(n, Value):
        return n
    return reshaped(g, n, [-1 if d == axis % x.ndim else 1 for d in range(x.ndim)])


def _limited(g: Builder, q: Value, low: Any, high: Any, limits: tuple[int, int] | None) -> Value:
    if not isinstance(low, Value) and not isinstance(high, Value) and limits == (low, high):
        return q
    wide = g.cast(q, _C.int32)
    for op, bound in (("Max", low), ("Min", high)):
        wide = g.node(op, wide, _as(g, bound, _C.int32))
    return g.cast(wide, q.dtype)


def quantized(g: Builder, x: Value, scale: Any, zero: Any, low: Any, high: Any, kind: Any, axis: int | None = None,
              block: int | None = None) -> Value:
    """x / scale + zero, rounded, within the limits, as integers (or 8-bit floats) of a type."""
    if kind.code in FLOAT8:      # programs round to integers first, which the operator does not
        if g.opset < BYTES:
            raise NotImplementedError(f"{kind}, which ONNX has since opset {BYTES}")
        x = g.node("Round", g.node("Div", x, _as(g, _line(g, x, scale, axis), x.dtype)))
        scale, axis, zero = 1.0, None, None
    narrow = _narrow(g, low, high, kind)
    shift = None if narrow is None or not _is_native(g, narrow, x) else _packed(g, zero, narrow)
    if shift is not None:
        settings = {name: n for name, n in (("axis", axis), ("block_size", block)) if n is not None}
        q = g.node("QuantizeLinear", x, _as(g, scale, x.dtype), shift, dtype=narrow, **settings)
        wide = g.cast(q, kind)
        g.root().known["narrow", wide.name, narrow.code] = q
        return wide
    if _is_native(g, kind, x) and (block is None or g.opset >= BLOCKS):
        settings = {} if axis is None else {"axis": axis}
        settings |= {} if block is None else {"block_size": block}
        shift = _as(g, 0 if zero is None else zero, kind)
        q = g.node("QuantizeLinear", x, _as(g, scale, x.dtype), shift, dtype=kind, **settings)
        return q if kind.code in FLOAT8 else _limited(g, q, low, high, LIMITS[kind.code])
    q = g.node("Round", g.node("Div", x, _as(g, _line(g, x, scale, axis), x.dtype)))
    if zero is not None:
        q = g.node("Add", q, _as(g, _line(g, x, zero, axis), x.dtype))
    for op, bound in (("Max", low), ("Min", high)):
        q = g.node(op, q, _as(g, bound, x.dtype))
    return g.cast(q, kind)


def dequantized(g: Builder, q: Value, scale: Any, zero: Any, dtype: Any, axis: int | None = None,
                block: int | None = None, limits: tuple[Any, Any] = (None, None)) -> Value:
    """(q - zero) * scale, as floats of a type."""
    wanted = _C.float32 if dtype is None else dtype
    narrow = _narrow(g, *limits, q.dtype)
    if narrow is not None:
        found = g.root().known.get(("narrow", q.name, narrow.code))
        if found is None and q.name in g.root().graph.tensors:
            found = _packed(g, q, narrow)
        shift = None if found is None else _packed(g, zero, narrow)
        if found is not None and shift is not None:
            settings = {name: n for name, n in (("axis", axis), ("block_size", block)) if n is not None}
            return g.cast(g.node("DequantizeLinear", found, _as(g, scale, _C.float32), shift, dtype=_C.float32,
                                 shape=q.shape, **settings), wanted)
    own = Value(q.name, _C.float32, q.shape)
    if _is_native(g, q.dtype, own) and (block is None or g.opset >= BLOCKS):
        settings = {} if axis is None else {"axis": axis}
        settings |= {} if block is None else {"block_size": block}
        shift = _as(g, 0 if zero is None else zero, q.dtype)
        found = g.node("DequantizeLinear", q, _as(g, scale, _C.float32), shift, dtype=_C.float32, **settings)
        return g.cast(found, wanted)
    kind = wanted if wanted is _C.float64 else _C.float32
    wide = Value(g.cast(q, kind).name, kind, q.shape)
    if zero is not None:
        wide = g.node("Sub", wide, _as(g, _line(g, q, zero, axis), kind), shape=q.shape)
    return g.cast(g.node("Mul", wide, _as(g, _line(g, q, scale, axis), kind)), wanted)


_OWN = "quantized_decomposed::"


@rule(f"{_OWN}quantize_per_tensor")
def quantize_per_tensor(g: Builder, input: Value, scale: Any, zero_point: Any, quant_min: Any, quant_max: Any,
                        dtype: Any) -> Value:
    scale, zero_point = _single(g, scale), _single(g, zero_point)
    return quantized(g, input, scale, zero_point, _single(g, quant_min), _single(g, quant_max), result_of(g).dtype)


@rule(f"{_OWN}dequantize_per_tensor")
def dequantize_per_tensor(g: Builder, input: Value, scale: Any, zero_point: Any, quant_min: Any, quant_max: Any,
                          dtype: Any, out_dtype: Any = None) -> Value:
    return dequantized(g, input, _single(g, scale), _single(g, zero_point), result_of(g).dtype,
                       limits=(quant_min, quant_max))


def _single(g: Builder, n: Any) -> Any:
    """A number that a tensor of one element holds."""
    if not isinstance(n, Value) or n.shape == ():
        return n
    return g.node("Reshape", n, g.constant([], INT64), shape=())


@rule(f"{_OWN}quantize_per_channel")
def quantize_per_channel(g: Builder, input: Value, scales: Value, zero_points: Value | None, axis: int, quant_min: int,
                         quant_max: int, dtype: Any) -> Value:
    return quantized(g, input, scales, zero_points, quant_min, quant_max, result_of(g).dtype, axis)


@rule(f"{_OWN}dequantize_per_channel")
def dequantize_per_channel(g: Builder, input: Value, scales: Value, zero_points: Value | None, axis: int,
                           quant_min: int, quant_max: int, dtype: Any, out_dtype: Any = None) -> Value:
    return dequantized(g, input, scales, zero_points, result_of(g).dtype, axis, limits=(quant_min, quant_max))


def _spread(g: Builder, n: Value | None, size: int) -> Value | None:
    """Numbers of groups, once for each of their elements."""
    if n is None:
        return None
    wide = g.node("Expand", g.node("Unsqueeze", n, g.ints([-1])), g.ints([1] * n.ndim + [size]))
    return g.node("Reshape", wide, g.ints([*[0] * (n.ndim - 1), -1]))


@rule(f"{_OWN}quantize_per_channel_group")
def quantize_by_group(g: Builder, input: Value, scales: Value, zero_points: Value | None, quant_min: int,
                      quant_max: int, dtype: Any, group_size: int) -> Value:
    kind = result_of(g).dtype
    if g.opset >= BLOCKS and _is_native(g, kind, input):
        return quantized(g, input, scales, zero_points, quant_min, quant_max, kind, input.ndim - 1, group_size)
    wide = _spread(g, scales, group_size), _spread(g, zero_points, group_size)
    return g.cast(quantized(g, g.cast(input, _C.float64), *wide, quant_min, quant_max, _C.int32), kind)


@rule(f"{_OWN}dequantize_per_channel_group")
def dequantize_by_group(g: Builder, input: Value, scales: Value, zero_points: Value | None, quant_min: int,
                        quant_max: int, dtype: Any, group_size: int, output_dtype: Any) -> Value:
    kind = result_of(g).dtype
    if g.opset >= BLOCKS and input.dtype.code in LIMITS:
        return dequantized(g, input, scales, zero_points, kind, input.ndim - 1, group_size, (quant_min, quant_max))
    return dequantized(g, Value(g.cast(input, _C.int32).name, _C.int32, input.shape), _spread(g, scales, group_size),
                       _spread(g, zero_points, group_size), kind)


@rule(f"{_OWN}quantize_per_token")
def quantize_by_token(g: Builder, input: Value, scales: Value, zero_points: Value, quant_min: int, quant_max: int,
                      dtype: Any) -> Value:
    found = quantized(g, g.cast(input, _C.float64), scales, zero_points, quant_min, quant_max, _C.int32)
    return g.cast(found, result_of(g).dtype)


@rule(f"{_OWN}dequantize_per_token")
def dequantize_by_token(g: Builder, input: Value, scales: Value, zero_points: Value, quant_min: int, quant_max: int,
                        dtype: Any, output_dtype: Any) -> Value:
    wide = Value(g.cast(input, _C.int32).name, _C.int32, input.shape)
    return dequantized(g, wide, scales, zero_points, result_of(g).dtype)


# --- exact sums -------------------------------------------------------------------------------------------------------


@rule("_integer_mm")
def integer_product(g: Builder, input: Value, weight: Value, zero: Value | None, weight_zero: Value | None) -> Value:
    return g.node("MatMulInteger", input, weight, _point(g, zero), _point(g, weight_zero), dtype=_C.int32)


@rule("_integer_convolution")
def integer_convolution(g: Builder, input: Value, weight: Value, zero: Value | None, weight_zero: Value | None,
                        stride: list[int], padding: list[int], dilation: list[int], groups: int) -> Value:
    return g.node("ConvInteger", input, weight, _point(g, zero), _shared(g, _point(g, weight_zero)), dtype=_C.int32,
                  strides=list(stride), pads=[*padding, *padding], dilations=list(dilation), group=groups,
                  kernel_shape=list(weight.shape)[2:])


def _point(g: Builder, zero: Value | None) -> Value | None:
    """A zero point as one number, or one for each output."""
    return zero if zero is None or zero.ndim < 2 else reshaped(g, zero, [-1])


def _shared(g: Builder, zero: Value | None) -> Value | None:
    """A zero point as one number, where all outputs are known to share it: ONNX Runtime convolves with no others."""
    held = g.root().graph.tensors.get(_source(g, zero)) if zero is not None and zero.ndim == 1 else None
    if held is None or not held.numel() or bool((held.reshape(-1) != held.reshape(-1)[0]).any()):
        return zero
    return g.constant(held.reshape(-1)[0].item(), held.dtype)


def _source(g: Builder, value: Value) -> str:
    """The tensor that a value is, but for its sizes."""
    maker = next((n for n in g.graph.nodes if value.name in n.outputs), None)
    return value.name if maker is None or maker.op != "Reshape" else maker.inputs[0]


# --- fake quantization ------------------------------------------------------------------------------------------------


def _faked(g: Builder, x: Value, scale: Any, zero: Any, low: int, high: int, axis: int | None = None) -> Value:
    kind = _C.uint8 if low >= 0 else _C.int8
    least, most = LIMITS[kind.code]
    if low < least or high > most:
        kind = _C.int32
    if not _is_native(g, kind, x):
        q = quantized(g, x, scale, zero, low, high, _C.int32, axis)
        return dequantized(g, Value(q.name, q.dtype, x.shape), scale, zero, x.dtype, axis)
    if isinstance(zero, Value) and zero.dtype.is_floating_point:
        zero = g.cast(g.node("Round", zero), kind)
    q = quantized(g, x, scale, zero, low, high, kind, axis)
    return dequantized(g, Value(q.name, kind, x.shape), scale, zero, x.dtype, axis, limits=(low, high))


@rule("fake_quantize_per_tensor_affine")
def fake_quantize(g: Builder, input: Value, scale: Any, zero_point: Any, quant_min: int, quant_max: int) -> Value:
    return _faked(g, input, _single(g, scale), _single(g, zero_point), quant_min, quant_max)


@rule("fake_quantize_per_channel_affine")
def fake_quantize_by_channel(g: Builder, input: Value, scale: Value, zero_point: Value, axis: int, quant_min: int,
                             quant_max: int) -> Value:
    return _faked(g, input, scale, zero_point, quant_min, quant_max, axis)


@rule(f"{_OWN}fake_quant_per_channel")
def fake_quantize_own(g: Builder, input: Value, scales: Value, zero_points: Value, axis: int, quant_min: int,
                      quant_max: int) -> Value:
    return _faked(g, input, scales, zero_points, quant_min, quant_max, axis)


@rule("_fake_quantize_per_tensor_affine_cachemask_tensor_qparams")
def fake_quantize_if_on(g: Builder, input: Value, scale: Value, zero_point: Value, fake_quant_enabled: Value,
                        quant_min: int, quant_max: int) -> tuple[Value, Any]:
    found = _faked(g, input, _single(g, scale), _single(g, zero_point), quant_min, quant_max)
    on = g.cast(_single(g, fake_quant_enabled), _C.bool)
    return g.node("Where", on, found, input, dtype=input.dtype), None


@rule("fused_moving_avg_obs_fake_quant")
def observed(g: Builder, input: Value, observer_on: Value, fake_quant_on: Value, running_min: Value, running_max: Value,
             scale: Value, zero_point: Value, averaging_const: float, quant_min: int, quant_max: int, ch_axis: int,
             per_row_fake_quant: bool = False, symmetric_quant: bool = False) -> Value:
    held = g.root().graph.tensors.get(observer_on.name)
    if held is None or held.item():
        raise NotImplementedError("an observer that is on: models keep no state. Apply disable_observer first")
    axis = ch_axis if per_row_fake_quant else None
    scale, zero = (scale, zero_point) if per_row_fake_quant else (_single(g, scale), _single(g, zero_point))
    found = _faked(g, input, scale, zero, quant_min, quant_max, axis)
    on = g.cast(_single(g, fake_quant_on), _C.bool)
    return g.node("Where", on, found, input, dtype=input.dtype)


@rule(f"{_OWN}choose_qparams")
def choose_qparams(g: Builder, input: Value, quant_min: int, quant_max: int, eps: float, dtype: Any
                   ) -> tuple[Value, Value]:
    """The scale and the zero point that hold all elements, and 0."""
    wide = g.cast(input, _C.float64)
    zero = number(g, 0.0, wide)
    low = g.node("Min", g.node("ReduceMin", wide, keepdims=0), zero)
    high = g.node("Max", g.node("ReduceMax", wide, keepdims=0), zero)
    scale = g.node("Div", g.node("Sub", high, low), number(g, float(quant_max - quant_min), wide))
    scale = g.node("Max", scale, number(g, eps, wide))
    shift = g.node("Sub", number(g, float(quant_min), wide), g.node("Round", g.node("Div", low, scale)))
    for op, bound in (("Max", quant_min), ("Min", quant_max)):
        shift = g.node(op, shift, number(g, float(bound), wide))
    flat = [g.cast(reshaped(g, t, list(fake.shape)), fake.dtype)
            for t, fake in zip((scale, shift), g.result, strict=True)]
    return flat[0], flat[1]
