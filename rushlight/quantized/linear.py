"""Quantized linear layers: `ops.quantized.linear`, its relatives, and packed weights.

Enters: quantized rows, or floats that are quantized on the way, and weights that `linear_prepack` packed. Leaves:
quantized rows of the scale that was asked for, or floats. Refuses: floats in place of quantized rows and the other way
round, sizes that do not fit, weights that were packed for another kind of layer.
Sums are exact; what follows is PyTorch's arithmetic in single precision: bytes are nearbyint((sum + bias / (sx * sw)) *
(sx * sw / sy)) + zero point, floats are sum * (sx * sw) + bias.
"""

from __future__ import annotations

import struct
from typing import Any

from .. import _C
from ..base import quantized_engines
from ..base.quantizers import PerChannel, PerTensor
from ..definitions.quantized.container import PLAIN, ints, put, qparams
from ..definitions.quantized.create import RANGES, in_single
from ..op import find_op
from ..planners.products.byte_plans import FLIP, packed_weights, row_flip, unpacked_weights
from .namespace import define
from .packed import ScriptObject

PACKED = "__torch__.torch.classes.quantized.LinearPackedParamsBase"
KEPT = 16                                # prepared columns of a layer: programs change scales rarely
LARGEST_HALF = 65504.0
SUMS, FACTORS, ADDED, ZEROS = range(4)   # rows of `columns`: see codegen/library/products/requantize.py
_byte_linear, _byte_linear_dynamic = find_op("_byte_linear"), find_op("_byte_linear_dynamic")
_quantize, _matrix_product = find_op("quantize_per_tensor"), find_op("matmul")


class LinearPackedParamsBase(ScriptObject):
    """Weights [n, k] as kernels read them: bytes in strips of columns, or numbers rounded to half precision."""

    qualified = PACKED

    def __init__(self, weight: Any, bias: Any) -> None:
        self.n, self.k = weight.shape
        self.own_bias = None if bias is None else bias.detach().to(_C.float32).contiguous()
        self.half: Any = None
        self.prepared: dict[tuple, tuple] = {}
        if weight._quantizer is None:
            self.half = weight.detach().float().clamp(-LARGEST_HALF, LARGEST_HALF).to(_C.float16).float()
            return
        quantizer = weight._quantizer
        self.is_by_channel = isinstance(quantizer, PerChannel)
        self.weights, sums = packed_weights(ints(weight))
        self.scales, zeros = self._along_columns(quantizer)
        self.has_zeros = bool(zeros.any())
        self.columns = self.weights.new_zeros((4, sums.numel()), dtype=_C.int32)
        self.columns[SUMS] = sums
        self.columns[SUMS, : self.n] -= zeros * self.k
        self.columns[ZEROS, : self.n] = zeros
        numbers = self.columns.view(_C.float32)
        numbers[FACTORS, : self.n] = self.scales
        if self.own_bias is not None:
            numbers[ADDED, : self.n] = self.own_bias

    def _along_columns(self, quantizer: Any) -> tuple[Any, Any]:
        """Scales and zero points of all columns, float32 and int32."""
        if self.is_by_channel:
            return quantizer.scales.to(_C.float32), quantizer.zero_points.to(_C.int32)
        scales = self.weights.new_full((self.n,), quantizer.scale, dtype=_C.float32)
        return scales, self.weights.new_full((self.n,), quantizer.zero_point, dtype=_C.int32)

    def unpack(self) -> tuple[Any, Any]:
        """The weights and the bias that were packed; scales in single precision."""
        if self.half is not None:
            return self.half.clone(), self.own_bias
        weight = unpacked_weights(self.weights, self.n, self.k)
        zeros = self.columns[ZEROS, : self.n]
        if self.is_by_channel:
            quantizer: Any = PerChannel(self.scales.to(_C.float64), zeros.to(_C.int64), 0)
        else:
            quantizer = PerTensor(self.scales[0].item(), zeros[0].item())
        return put(weight, _C.qint8, quantizer), self.own_bias

    def bias(self) -> Any:
        """The bias that was packed, or None."""
        return self.own_bias

    def state(self) -> tuple[Any, Any]:
        return self.unpack()

    @classmethod
    def from_state(cls, state: Any) -> LinearPackedParamsBase:
        return cls(*state)

    def with_scales(self, scale: float, zero: int, dtype: Any, out: tuple[float, int, Any] | None, relu: bool) -> tuple:
        """Columns, head and flip for rows of a scale, a zero point and a dtype, and results like that (`out`), or
        floats; and the quantizer of results."""
        key = (scale, zero, dtype, out, relu)
        found = self.prepared.get(key)
        if found is None:
            while len(self.prepared) >= KEPT:
                del self.prepared[next(iter(self.prepared))]
            found = self.prepared[key] = self._prepare(in_single(scale), zero, dtype, out, relu)
        return found

    def _prepare(self, scale: float, zero: int, dtype: Any, out: tuple[float, int, Any] | None, relu: bool) -> tuple:
        columns, low, high, out_zero = self.columns, 0.0 if relu else -float("inf"), float("inf"), 0
        flip = row_flip() if dtype is _C.quint8 else FLIP - row_flip()
        row_zero = zero
        zero += 0 if not flip else -FLIP if dtype is _C.quint8 else FLIP
        if out is not None:
            out_scale, out_zero, out_type = out
            columns, (least, most) = columns.clone(), RANGES[out_type]
            low, high = float(max(least, out_zero) if relu else least) - out_zero, float(most - out_zero)
            numbers = columns.view(_C.float32)
            both = self.scales * scale
            numbers[FACTORS, : self.n] = both / both.new_full((), in_single(out_scale))
            if self.own_bias is not None:
                numbers[ADDED, : self.n] = self.own_bias / both
        words = struct.unpack("<8i", struct.pack("<fiffiiii", scale, zero, low, high, out_zero, row_zero, 0, 0))
        meaning = None if out is None else PerTensor(out[0], out[1])
        return columns, columns.new_tensor(words, dtype=_C.int32), flip, meaning


def packed_bytes(name: str, packed: Any) -> LinearPackedParamsBase:
    """Packed weights of bytes; raises for anything else."""
    if not isinstance(packed, LinearPackedParamsBase):
        raise RuntimeError(
            f"quantized::{name}: expected W_prepack to be what linear_prepack gives, got {type(packed).__name__}"
        )
    if packed.half is not None:
        raise RuntimeError(f"quantized::{name}: the weights were packed by linear_prepack_fp16. Use linear_prepack.")
    return packed


def rows_of(name: str, x: Any, k: int) -> Any:
    """Rows as products read them; raises where they do not fit weights of k columns."""
    if x.ndim < 2 and (quantized_engines.current() != "onednn" or x.ndim < 1):
        raise RuntimeError(
            f"quantized::{name}: the dimension of input tensor should be larger than or equal to 2, got {x.ndim}"
        )
    if x.shape[-1] != k:
        raise RuntimeError(
            f"quantized::{name}: the weights have {k} columns, which the last dim of the input should be equal to, got"
            f" {list(x.shape)}"
        )
    return x if x.is_contiguous() else x.contiguous()


def static_linear(name: str, x: Any, packed: Any, scale: float, zero_point: int, relu: bool) -> Any:
    """Quantized rows times packed weights, as quantized rows."""
    weights, quantizer = packed_bytes(name, packed), x._quantizer
    if quantizer is None:
        raise NotImplementedError(f"quantized::{name}: expected a quantized tensor, got one of {x.dtype}")
    if x.dtype is not _C.quint8 and not (x.dtype is _C.qint8 and quantized_engines.current() == "onednn"):
        raise RuntimeError(f"quantized::{name}: expected input data type QUInt8 but got {x.dtype}")
    if not isinstance(quantizer, PerTensor):
        raise RuntimeError(f"quantized::{name}: expected input quantized per tensor, got {quantizer.scheme}")
    rows = rows_of(name, ints(x), weights.k)
    columns, head, flip, meaning = weights.with_scales(
        quantizer.scale, quantizer.zero_point, x.dtype, (scale, zero_point, x.dtype), relu
    )
    result = _byte_linear(
        rows, weights.weights, columns, head, weights.n, PLAIN[x.dtype], flip, weights.has_zeros
    )
    return put(result, x.dtype, meaning)


def float_linear(name: str, rows: Any, scale: float, zero_point: int, dtype: Any, packed: Any, relu: bool) -> Any:
    """Rows of bytes, or of floats that are rounded to such, times packed weights, as floats. `dtype`: of quantized rows
    with these qparams."""
    weights = packed_bytes(name, packed)
    rows = rows_of(name, rows, weights.k)
    columns, head, flip, _ = weights.with_scales(scale, zero_point, dtype, None, relu)
    return _byte_linear(rows, weights.weights, columns, head, weights.n, _C.float32, flip, weights.has_zeros)


def dynamic_linear(name: str, x: Any, packed: Any, relu: bool, reduce_range: bool) -> Any:
    """Rows of floats, quantized by their own range, times packed weights, as floats."""
    if isinstance(packed, LinearPackedParamsBase) and packed.half is not None:
        return half_linear(name, x, packed, relu)
    weights = packed_bytes(name, packed)
    rows = rows_of(name, floats(name, x), weights.k)
    return _byte_linear_dynamic(
        rows, weights.weights, weights.columns, weights.n, relu, reduce_range, weights.has_zeros
    )


def floats(name: str, x: Any) -> Any:
    """x; raises where it is not of float32."""
    if x._quantizer is not None:
        raise NotImplementedError(f"quantized::{name}: expected a tensor of floats, got a quantized one of {x.dtype}")
    if x.dtype is not _C.float32:
        raise RuntimeError(f"quantized::{name}: expected scalar type Float but found {x.dtype}")
    return x.detach()


def half_linear(name: str, x: Any, packed: Any, relu: bool) -> Any:
    """Rows of floats times weights that were rounded to half precision."""
    if isinstance(packed, LinearPackedParamsBase) and packed.half is None:      # as PyTorch: the weights decide
        return dynamic_linear(name, x, packed, relu, False)
    if not isinstance(packed, LinearPackedParamsBase):
        packed_bytes(name, packed)
    result = _matrix_product(rows_of(name, floats(name, x), packed.k), packed.half.t())
    if packed.own_bias is not None:
        result += packed.own_bias
    return result.relu_() if relu else result


# --- packing ----------------------------------------------------------------------------------------------------------


@define(f"quantized::linear_prepack(Tensor W, Tensor? B=None) -> {PACKED} W_prepack")
@define(f"_quantized::linear_prepack(Tensor W, Tensor? B=None) -> {PACKED} W_prepack")
def linear_prepack(W: Any, B: Any = None) -> LinearPackedParamsBase:
    """Weights and a bias as quantized linear layers read them."""
    if W._quantizer is None:
        raise NotImplementedError(f"quantized::linear_prepack: expected a quantized weight, got one of {W.dtype}")
    _check_weight("linear_prepack", W, B)
    if W.dtype is not _C.qint8:
        raise RuntimeError(f"quantized::linear_prepack: expected scalar type QInt8 but found {W.dtype}")
    quantizer = W._quantizer
    if not isinstance(quantizer, PerTensor) and not (isinstance(quantizer, PerChannel) and quantizer.axis == 0):
        raise RuntimeError(
            "quantized::linear_prepack: expected a weight quantized per tensor, or per channel along axis 0, got"
            f" {quantizer.scheme} along axis {quantizer.axis}"
        )
    return LinearPackedParamsBase(W, B)


@define(f"quantized::linear_prepack_fp16(Tensor W, Tensor? B=None) -> {PACKED} W_prepack")
@define(f"_quantized::linear_prepack_fp16(Tensor W, Tensor? B=None) -> {PACKED} W_prepack")
def linear_prepack_fp16(W: Any, B: Any = None) -> LinearPackedParamsBase:
    """Weights rounded to half precision, and a bias."""
    if W._quantizer is not None:
        raise NotImplementedError(f"quantized::linear_prepack_fp16: expected a weight of floats, got {W.dtype}")
    _check_weight("linear_prepack_fp16", W, B)
    return LinearPackedParamsBase(W, B)


def _check_weight(name: str, weight: Any, bias: Any) -> None:
    if weight.ndim != 2:
        raise RuntimeError(f"quantized::{name}: the weight should be 2-dimensional, got {list(weight.shape)}")
    if bias is not None and bias.ndim != 1:
        raise RuntimeError(f"quantized::{name}: bias should be a vector (1D Tensor), got {list(bias.shape)}")
    if bias is not None and bias.numel() != weight.shape[0]:
        raise RuntimeError(f"quantized::{name}: bias should have N elements: {weight.shape[0]}, got {bias.numel()}")


@define(f"quantized::linear_unpack({PACKED} W_prepack) -> (Tensor W_origin, Tensor? B_origin)")
@define(f"quantized::linear_unpack_fp16({PACKED} W_prepack) -> (Tensor W_origin, Tensor? B_origin)")
def linear_unpack(W_prepack: Any) -> tuple[Any, Any]:
    """The weights and the bias that were packed."""
    if not isinstance(W_prepack, LinearPackedParamsBase):
        packed_bytes("linear_unpack", W_prepack)
    return W_prepack.unpack()


def _define_outdated(space: str, name: str) -> None:
    """Older forms, whose weights were packed in tensors: PyTorch refuses them too."""

    def refuse(W: Any, B: Any = None) -> Any:
        raise RuntimeError(
            f"quantized::{name}_legacy: packing in tensors is an outdated version of {name}. Please re-export your"
            " model with the newer one."
        )

    define(f"{space}::{name}_legacy(Tensor W, Tensor? B=None) -> Tensor W_prepack")(refuse)


for _space in ("quantized", "_quantized"):
    for _name in ("linear_prepack", "linear_prepack_fp16"):
        _define_outdated(_space, _name)


# --- layers -----------------------------------------------------------------------------------------------------------

_STATIC = f"Tensor X, {PACKED} W_prepack, float Y_scale_i, int Y_zero_point_i"
_DYNAMIC = f"Tensor X, {PACKED} W_prepack, bool reduce_range=False"


@define(f"quantized::linear({_STATIC}) -> Tensor Y")
@define(f"_quantized::linear({_STATIC}) -> Tensor Y")
def linear(X: Any, W_prepack: Any, Y_scale_i: float, Y_zero_point_i: int) -> Any:
    return static_linear("linear", X, W_prepack, Y_scale_i, Y_zero_point_i, False)


@define(f"quantized::linear_relu({_STATIC}) -> Tensor Y")
def linear_relu(X: Any, W_prepack: Any, Y_scale_i: float, Y_zero_point_i: int) -> Any:
    return static_linear("linear_relu", X, W_prepack, Y_scale_i, Y_zero_point_i, True)


@define(f"quantized::linear_leaky_relu({_STATIC}, float negative_slope) -> Tensor Y")
def linear_leaky_relu(X: Any, W_prepack: Any, Y_scale_i: float, Y_zero_point_i: int, negative_slope: float) -> Any:
    result = find_op("leaky_relu")(_floats_before("linear_leaky_relu", X, W_prepack), negative_slope)
    return _quantize(result, Y_scale_i, Y_zero_point_i, X.dtype)


@define(f"quantized::linear_tanh({_STATIC}) -> Tensor Y")
def linear_tanh(X: Any, W_prepack: Any, Y_scale_i: float, Y_zero_point_i: int) -> Any:
    return _quantize(_floats_before("linear_tanh", X, W_prepack).tanh(), Y_scale_i, Y_zero_point_i, X.dtype)


def _floats_before(name: str, x: Any, packed: Any) -> Any:
    """What a layer gives before the function that follows: fused to it in one engine only, as in PyTorch."""
    engine = quantized_engines.current()
    if engine != "onednn":
        raise RuntimeError(f"quantized::{name}: didn't find engine for operation: only onednn has it, got {engine}")
    if x._quantizer is None:
        raise NotImplementedError(f"quantized::{name}: expected a quantized tensor, got one of {x.dtype}")
    return float_linear(name, ints(x), *qparams(x, name), x.dtype, packed, False)


@define(f"quantized::linear_dynamic({_DYNAMIC}) -> Tensor Y")
@define(f"_quantized::linear_dynamic({_DYNAMIC}) -> Tensor Y")
def linear_dynamic(X: Any, W_prepack: Any, reduce_range: bool = False) -> Any:
    return dynamic_linear("linear_dynamic", X, W_prepack, False, reduce_range)


@define(f"quantized::linear_relu_dynamic({_DYNAMIC}) -> Tensor Y")
def linear_relu_dynamic(X: Any, W_prepack: Any, reduce_range: bool = False) -> Any:
    return dynamic_linear("linear_relu_dynamic", X, W_prepack, True, reduce_range)


@define(f"quantized::linear_dynamic_fp16(Tensor X, {PACKED} W_prepack) -> Tensor Y")
def linear_dynamic_fp16(X: Any, W_prepack: Any) -> Any:
    return half_linear("linear_dynamic_fp16", X, W_prepack, False)


@define(f"quantized::linear_relu_dynamic_fp16(Tensor X, {PACKED} W_prepack) -> Tensor Y")
def linear_relu_dynamic_fp16(X: Any, W_prepack: Any) -> Any:
    return half_linear("linear_relu_dynamic_fp16", X, W_prepack, True)


@define("quantized::linear_dynamic_fp16_unpacked_weight(Tensor X, Tensor weight, Tensor? bias) -> Tensor Y")
def linear_dynamic_fp16_unpacked_weight(X: Any, weight: Any, bias: Any) -> Any:
    name = "linear_dynamic_fp16_unpacked_weight"
    return half_linear(name, X, linear_prepack_fp16(floats(name, weight), bias), False)


_GIVEN = f"Tensor X, float X_scale, int X_zero_point, {PACKED} W_prepack"


@define(f"quantized::linear_with_input_q_dq_qweight_dq_output_fp32({_GIVEN}) -> Tensor Y")
def linear_with_input_q_dq_qweight_dq_output_fp32(X: Any, X_scale: float, X_zero_point: int, W_prepack: Any) -> Any:
    name = "linear_with_input_q_dq_qweight_dq_output_fp32"
    return float_linear(name, floats(name, X), X_scale, X_zero_point, _C.quint8, W_prepack, False)


@define(f"quantized::linear_with_input_q_dq_qweight_dq_relu_output_fp32({_GIVEN}) -> Tensor Y")
def linear_with_input_q_dq_qweight_dq_relu_output_fp32(
    X: Any, X_scale: float, X_zero_point: int, W_prepack: Any
) -> Any:
    name = "linear_with_input_q_dq_qweight_dq_relu_output_fp32"
    return float_linear(name, floats(name, X), X_scale, X_zero_point, _C.quint8, W_prepack, True)
