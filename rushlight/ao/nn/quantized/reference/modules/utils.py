"""Weights of reference layers: floats that are quantized and dequantized on the way to each call.

Enters: a float weight with its qparams, as observers give them (`get_qparam_dict`). Leaves: the weight as integers, or
as the floats those stand for. Refuses: schemes and dtypes that no kernel has.
"""

from __future__ import annotations

from typing import Any

from ...... import _C, ops
from ......_C import Tensor
from ......base.quantizers import per_channel_affine, per_channel_affine_float_qparams, per_tensor_affine
from ......nn import Module
from ......op import find_op
from ......tensors.interop import tensor

__all__ = ["ReferenceQuantizedModule"]

BY_CHANNEL = (per_channel_affine, per_channel_affine_float_qparams)
DEFAULT_QPARAMS = {"qscheme": per_tensor_affine, "dtype": _C.quint8, "scale": 1.0, "zero_point": 0}
_INTEGERS = (_C.quint8, _C.qint8, _C.quint4x2, _C.qint32)
_BENEATH = {_C.quint8: _C.uint8, _C.qint8: _C.int8, _C.qint32: _C.int32}
_BOUNDS = {_C.uint8: (0, 255), _C.int8: (-128, 127), _C.int32: (-(2**31), 2**31 - 1)}


def as_buffer(value: Any, dtype: _C.dtype, device: Any) -> Tensor:
    """A copy of a tensor, or a tensor of a number."""
    return value.detach().clone() if isinstance(value, Tensor) else tensor(value, dtype=dtype, device=device)


class ReferenceQuantizedModule(Module):
    """A float layer whose `weight` has qparams, kept as buffers."""

    weight: Any
    weight_scale: Tensor
    weight_zero_point: Tensor
    weight_axis: Tensor

    def _init_weight_qparams(self, weight_qparams: dict[str, Any] | None, device: Any) -> None:
        given = DEFAULT_QPARAMS if weight_qparams is None else weight_qparams
        self.weight_qscheme = given["qscheme"]
        self.weight_dtype = given["dtype"]
        if self.weight_qscheme not in (None, per_tensor_affine, *BY_CHANNEL):
            raise AssertionError(
                f"qscheme: {self.weight_qscheme} is not supported in reference quantized {self._get_name()}"
            )
        is_integer = self.weight_dtype in _INTEGERS
        scale, zero_point = (given["scale"], given["zero_point"]) if is_integer else (1.0, 0)
        axis = given["axis"] if is_integer and self.weight_qscheme in BY_CHANNEL else 0
        self.register_buffer("weight_scale", as_buffer(scale, _C.float32, device))
        self.register_buffer("weight_zero_point", as_buffer(zero_point, _C.int32, device))
        self.register_buffer("weight_axis", as_buffer(axis, _C.int32, device))
        self.is_decomposed: bool = given.get("is_decomposed", False)
        self.weight_axis_int: int = int(self.weight_axis.item())     # graphs and scripts need the number
        self.weight_quant_min: int | None = given.get("quant_min")
        self.weight_quant_max: int | None = given.get("quant_max")

    def _qparams(self) -> tuple:
        for name in ("weight_scale", "weight_zero_point"):
            if not isinstance(getattr(self, name), Tensor):
                raise AssertionError(f"{self._get_name()}: {name} must be a Tensor")
        first = (
            self.weight, self.weight_qscheme, self.weight_dtype, self.weight_scale, self.weight_zero_point,
            self.weight_axis_int,
        )
        return (*first, self.weight_quant_min, self.weight_quant_max) if self.is_decomposed else first

    def get_weight(self) -> Tensor:
        """The floats that the quantized weight stands for."""
        if self.is_decomposed:
            return _quantize_and_dequantize_weight_decomposed(*self._qparams())
        return _quantize_and_dequantize_weight(*self._qparams())

    def get_quantized_weight(self) -> Tensor:
        """The quantized weight: a quantized tensor, or plain integers where the layer is decomposed."""
        if self.is_decomposed:
            return _quantize_weight_decomposed(*self._qparams())
        return _quantize_weight(*self._qparams())

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        _save_weight_qparams(
            destination, prefix, self.weight_qscheme, self.weight_dtype, self.weight_scale, self.weight_zero_point,
            self.weight_axis,
        )

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, *reports: list[str]
    ) -> None:
        for name in _get_weight_qparam_keys(state_dict, prefix):
            setattr(self, name, state_dict.pop(prefix + name))
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, *reports)


def _refusal(dtype: Any, qscheme: Any) -> ValueError:
    return ValueError(f"Unsupported dtype and qscheme: {dtype}, {qscheme}")


def _decomposed(
    verb: str, weight: Tensor, qscheme: Any, dtype: Any, scale: Tensor, zero_point: Tensor, axis: int,
    low: int | None, high: int | None,
) -> Tensor:
    """`verb` (quantize, dequantize) by the ops that work on plain integers."""
    if dtype not in _BENEATH or qscheme not in (per_tensor_affine, *BY_CHANNEL):
        raise _refusal(dtype, qscheme)
    beneath = _BENEATH[dtype]
    if low is None or high is None:
        low, high = _BOUNDS[beneath]
    if qscheme == per_tensor_affine:
        return getattr(ops.quantized_decomposed, f"{verb}_per_tensor")(weight, scale, zero_point, low, high, beneath)
    function = getattr(ops.quantized_decomposed, f"{verb}_per_channel")
    return function(weight, scale, zero_point, axis, low, high, beneath)


def _quantize_weight_decomposed(
    weight: Tensor, weight_qscheme: Any, weight_dtype: Any, weight_scale: Tensor, weight_zero_point: Tensor,
    weight_axis: int, weight_quant_min: int | None, weight_quant_max: int | None,
) -> Tensor:
    """The weight as plain integers."""
    return _decomposed(
        "quantize", weight, weight_qscheme, weight_dtype, weight_scale, weight_zero_point, weight_axis,
        weight_quant_min, weight_quant_max,
    )


def _dequantize_weight_decomposed(
    weight: Tensor, weight_qscheme: Any, weight_dtype: Any, weight_scale: Tensor, weight_zero_point: Tensor,
    weight_axis: int, weight_quant_min: int | None, weight_quant_max: int | None,
) -> Tensor:
    """The floats that plain integers stand for."""
    return _decomposed(
        "dequantize", weight, weight_qscheme, weight_dtype, weight_scale, weight_zero_point, weight_axis,
        weight_quant_min, weight_quant_max,
    )


def _quantize_weight(
    weight: Tensor, weight_qscheme: Any, weight_dtype: Any, weight_scale: Tensor, weight_zero_point: Tensor,
    weight_axis_int: int,
) -> Tensor:
    """The weight as a quantized tensor, or in float16 where that is its dtype."""
    if weight_dtype == _C.float16:
        return weight.to(weight_dtype)
    if weight_qscheme == per_tensor_affine and weight_dtype in _BENEATH:
        return find_op("quantize_per_tensor")(weight, weight_scale, weight_zero_point, weight_dtype)
    if weight_qscheme in BY_CHANNEL and weight_dtype in _INTEGERS:
        return find_op("quantize_per_channel")(weight, weight_scale, weight_zero_point, weight_axis_int, weight_dtype)
    raise _refusal(weight_dtype, weight_qscheme)


def _quantize_and_dequantize_weight_decomposed(
    weight: Tensor, weight_qscheme: Any, weight_dtype: Any, weight_scale: Tensor, weight_zero_point: Tensor,
    weight_axis_int: int, weight_quant_min: int | None, weight_quant_max: int | None,
) -> Tensor:
    """The weight rounded to integers and back, by the ops that work on plain integers."""
    if weight_qscheme not in (per_tensor_affine, *BY_CHANNEL):
        return weight
    rest = (
        weight_qscheme, weight_dtype, weight_scale, weight_zero_point, weight_axis_int, weight_quant_min,
        weight_quant_max,
    )
    return _dequantize_weight_decomposed(_quantize_weight_decomposed(weight, *rest), *rest)


def _quantize_and_dequantize_weight(
    weight: Tensor, weight_qscheme: Any, weight_dtype: Any, weight_scale: Tensor, weight_zero_point: Tensor,
    weight_axis_int: int,
) -> Tensor:
    """The weight rounded to integers and back; itself, without a scheme."""
    if weight_qscheme not in (per_tensor_affine, *BY_CHANNEL):
        return weight
    quantized = _quantize_weight(
        weight, weight_qscheme, weight_dtype, weight_scale, weight_zero_point, weight_axis_int
    )
    return quantized.dequantize()


def _save_weight_qparams(
    destination: Any, prefix: str, weight_qscheme: Any, weight_dtype: Any, weight_scale: Any, weight_zero_point: Any,
    weight_axis: Any,
) -> None:
    """Put a weight's qparams into a state."""
    destination[prefix + "weight_qscheme"] = weight_qscheme
    destination[prefix + "weight_dtype"] = weight_dtype
    if weight_qscheme is None:
        return
    destination[prefix + "weight_scale"] = weight_scale
    destination[prefix + "weight_zero_point"] = weight_zero_point
    if weight_qscheme == per_channel_affine:
        destination[prefix + "weight_axis"] = weight_axis


def _get_weight_qparam_keys(state_dict: dict[str, Any], prefix: str) -> list[str]:
    """Which of a state's entries are a weight's qparams and no buffers of the layer."""
    names = ["weight_qscheme", "weight_dtype"]
    if state_dict[prefix + "weight_qscheme"] is not None:
        names += ["weight_scale", "weight_zero_point"]
    return names
