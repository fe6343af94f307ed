"""Linear layers of integers with what follows them."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from ...... import _C, ops
from ......_C import Tensor
from ......nn import Module
from ....quantized.modules.linear import Linear
from ....quantized.modules.utils import expect_quantized
from ....sources import expect_class, expect_qconfig
from ...modules import fused

__all__ = ["LinearReLU", "LinearLeakyReLU", "LinearTanh"]


class LinearReLU(Linear):
    """relu(x W^T + b)."""

    _FLOAT_MODULE: Any = fused.LinearReLU

    def __init__(self, in_features: int, out_features: int, bias: bool = True, dtype: _C.dtype = _C.qint8) -> None:
        super().__init__(in_features, out_features, bias, dtype)

    def forward(self, x: Tensor) -> Tensor:
        expect_quantized(self, x)
        return ops.quantized.linear_relu(x, self._packed_params._packed_params, self.scale, self.zero_point)

    def _get_name(self) -> str:
        return "QuantizedLinearReLU"

    @classmethod
    def from_reference(cls, ref_linear_relu: Any, output_scale: Any, output_zero_point: Any) -> Self:
        """From a chain of a reference layer and ReLU."""
        return super().from_reference(ref_linear_relu[0], output_scale, output_zero_point)


class _LinearThen(Linear):
    """A linear layer and an activation that only oneDNN's kernels fuse."""

    _FLOAT_MODULE: Any
    _CHAIN: ClassVar[type[Module]]

    @classmethod
    def _settings(cls, activation: Any) -> tuple:
        """What the constructor takes from the activation, after the sizes."""
        return ()

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Self:
        """From an observed chain."""
        method = f"nniq.{cls.__name__}.from_float"
        expect_class(method, mod, cls._CHAIN)
        expect_qconfig(method, mod, may_be_none=True)
        linear, activation = mod[0], mod[1]
        return cls._made(
            linear, linear.qconfig.weight(), mod.activation_post_process, *cls._settings(activation)
        )

    @classmethod
    def from_reference(cls, ref_mod: Any, output_scale: Any, output_zero_point: Any) -> Self:
        """From a chain of a reference layer and the activation."""
        linear = ref_mod[0]
        result = cls(linear.in_features, linear.out_features, *cls._settings(ref_mod[1]))
        result.set_weight_bias(linear.get_quantized_weight(), linear.bias)
        return result._set_output(output_scale, output_zero_point)


class LinearLeakyReLU(_LinearThen):
    """leaky_relu(x W^T + b)."""

    _FLOAT_MODULE: Any = fused.LinearLeakyReLU
    _CHAIN = fused.LinearLeakyReLU

    def __init__(
        self, in_features: int, out_features: int, negative_slope: float, bias: bool = True,
        dtype: _C.dtype = _C.qint8,
    ) -> None:
        super().__init__(in_features, out_features, bias, dtype)
        self.negative_slope = negative_slope

    @classmethod
    def _settings(cls, activation: Any) -> tuple:
        return (activation.negative_slope,)

    def forward(self, x: Tensor) -> Tensor:
        expect_quantized(self, x)
        return ops.quantized.linear_leaky_relu(
            x, self._packed_params._packed_params, self.scale, self.zero_point, self.negative_slope
        )

    def _get_name(self) -> str:
        return "QuantizedLinearLeakyReLU"


class LinearTanh(_LinearThen):
    """tanh(x W^T + b)."""

    _FLOAT_MODULE: Any = fused.LinearTanh
    _CHAIN = fused.LinearTanh

    def __init__(self, in_features: int, out_features: int, bias: bool = True, dtype: _C.dtype = _C.qint8) -> None:
        super().__init__(in_features, out_features, bias, dtype)

    def forward(self, x: Tensor) -> Tensor:
        expect_quantized(self, x)
        return ops.quantized.linear_tanh(x, self._packed_params._packed_params, self.scale, self.zero_point)

    def _get_name(self) -> str:
        return "QuantizedLinearTanh"
