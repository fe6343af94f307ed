"""Linear layers of integers.

Enters: quantized rows. Leaves: quantized rows, by the scale and zero point found by calibration. Refuses: float rows;
weights of other dtypes than signed bytes (and float16, for dynamic layers).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

from ..... import _C, ops
from ....._C import Tensor
from .....nn import Module
from .....nn.modules.linear import Linear as _FloatLinear, NonDynamicallyQuantizableLinear
from .....nn.utils.parametrize import type_before_parametrizations
from .....op import find_op
from ...intrinsic.modules import fused
from ...intrinsic.qat.modules.linear_fused import LinearBn1d
from ...sources import expect_class, expect_qconfig, fold_batch_norm
from .utils import (
    OutputQParams,
    WeightedQuantizedModule,
    _hide_packed_params_repr,
    expect_quantized,
    observed_weight,
)

__all__ = ["LinearPackedParams", "Linear"]


def empty_weight(shape: list[int], dtype: _C.dtype) -> Tensor:
    """Weights to begin with, of a dtype that layers can have. Refuses others."""
    if dtype == _C.qint8:
        return find_op("_empty_affine_quantized")(shape, scale=1.0, zero_point=0, dtype=_C.qint8)
    if dtype == _C.float16:
        return find_op("zeros")(shape, dtype=_C.float32)
    raise RuntimeError(f"Unsupported dtype specified for quantized Linear! Expected qint8 or float16, got {dtype}")


class LinearPackedParams(Module):
    """Weight and bias of a linear layer in the order its kernels read them; the state holds them as tensors."""

    _version = 3

    def __init__(self, dtype: _C.dtype = _C.qint8) -> None:
        super().__init__()
        self.dtype = dtype
        if dtype in (_C.qint8, _C.float16):
            self.set_weight_bias(empty_weight([1, 1], dtype), None)

    def _operations(self) -> tuple[Any, Any]:
        if self.dtype == _C.qint8:
            return ops.quantized.linear_prepack, ops.quantized.linear_unpack
        if self.dtype == _C.float16:
            return ops.quantized.linear_prepack_fp16, ops.quantized.linear_unpack_fp16
        raise RuntimeError(f"Unsupported dtype on dynamic quantized linear! Use qint8 or float16, not {self.dtype}")

    def set_weight_bias(self, weight: Tensor, bias: Tensor | None) -> None:
        """Pack these."""
        self._packed_params = self._operations()[0](weight, bias)

    def _weight_bias(self) -> tuple[Tensor, Tensor | None]:
        return self._operations()[1](self._packed_params)

    def forward(self, x: Any) -> Any:
        return x

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "dtype"] = self.dtype
        destination[prefix + "_packed_params"] = self._weight_bias()

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, *reports: list[str]
    ) -> None:
        version = local_metadata.get("version") or 1
        self.dtype = _C.qint8 if version < 2 else state_dict.pop(prefix + "dtype")
        if version < 3:
            values = state_dict.pop(prefix + "weight"), state_dict.pop(prefix + "bias")
        else:
            values = state_dict.pop(prefix + "_packed_params")
        self.set_weight_bias(*values)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, *reports)

    def __repr__(self) -> str:
        return repr(self._weight_bias())


class Linear(OutputQParams, WeightedQuantizedModule):
    """x W^T + b on integers."""

    _version = 3
    _FLOAT_MODULE: Any = (_FloatLinear, NonDynamicallyQuantizableLinear)

    def __init__(
        self, in_features: int, out_features: int, bias_: bool = True, dtype: _C.dtype = _C.qint8
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        weight = empty_weight([out_features, in_features], dtype)
        self._packed_params = LinearPackedParams(dtype)
        self.set_weight_bias(weight, find_op("zeros")(out_features, dtype=_C.float32) if bias_ else None)
        self.scale = 1.0
        self.zero_point = 0

    def _get_name(self) -> str:
        return "QuantizedLinear"

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, scale={self.scale},"
            f" zero_point={self.zero_point}, qscheme={self.weight().qscheme()}"
        )

    def __repr__(self) -> str:
        return _hide_packed_params_repr(self, LinearPackedParams)

    def forward(self, x: Tensor) -> Tensor:
        expect_quantized(self, x)
        return ops.quantized.linear(x, self._packed_params._packed_params, self.scale, self.zero_point)

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, *reports: list[str]
    ) -> None:
        if local_metadata.get("version") in (None, 1):     # the weights stood in the layer itself then
            for name in ("weight", "bias"):
                state_dict[f"{prefix}_packed_params.{name}"] = state_dict.pop(prefix + name)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, *reports)

    def _weight_bias(self) -> tuple[Tensor, Tensor | None]:
        return self._packed_params._weight_bias()

    def weight(self) -> Tensor:
        """The weight, unpacked."""
        return self._weight_bias()[0]

    def bias(self) -> Tensor | None:
        """The bias, or None."""
        return self._weight_bias()[1]

    def set_weight_bias(self, w: Tensor, b: Tensor | None) -> None:
        """Pack a quantized weight and a float bias."""
        self._packed_params.set_weight_bias(w, b)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Self:
        """From an observed float layer, or one trained with rounding (a batch norm in it is folded in)."""
        method = f"nnq.{cls.__name__}.from_float"
        if hasattr(mod, "weight_fake_quant"):
            if type_before_parametrizations(mod) == LinearBn1d:
                mod.weight, mod.bias = fold_batch_norm(mod)
            layer, of_weight = mod, mod.weight_fake_quant
        else:
            allowed = cls._FLOAT_MODULE if isinstance(cls._FLOAT_MODULE, Iterable) else (cls._FLOAT_MODULE,)
            expect_class(method, mod, allowed, parametrized=True)
            expect_qconfig(method, mod, may_be_none=True)
            layer = mod[0] if isinstance(mod, fused._FusedModule) else mod
            of_weight = getattr(layer, "weight_fake_quant", None) or layer.qconfig.weight()
        return cls._made(layer, of_weight, mod.activation_post_process, look=not use_precomputed_fake_quant)

    @classmethod
    def _made(cls, layer: Any, of_weight: Any, of_output: Any, *extra: Any, look: bool = True) -> Self:
        """The layer with integers for the weights of a float one. `extra` are settings after the sizes."""
        if look:
            of_weight(layer.weight)
        scale, zero_point = of_output.calculate_qparams()
        weight = observed_weight(layer.weight, of_weight, look=False)
        result = cls(layer.in_features, layer.out_features, *extra, dtype=_C.qint8)
        result.set_weight_bias(weight, layer.bias)
        return result._set_output(scale, zero_point)

    @classmethod
    def from_reference(cls, ref_qlinear: Any, output_scale: Any, output_zero_point: Any) -> Self:
        """From a reference layer and the qparams of its output."""
        result = cls(ref_qlinear.in_features, ref_qlinear.out_features)
        result.set_weight_bias(ref_qlinear.get_quantized_weight(), ref_qlinear.bias)
        return result._set_output(output_scale, output_zero_point)
