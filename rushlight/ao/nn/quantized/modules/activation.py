"""Activations of integers, and attention made of layers of integers.

Enters: quantized tensors. Leaves: quantized tensors, most by a scale and zero point found by calibration.
Refuses: float inputs.
"""

from __future__ import annotations

import warnings
from typing import Any, ClassVar, NoReturn, Self

from ..... import _C, ops
from ....._C import Tensor
from .....base import late
from .....nn import Module, functional as F
from .....nn.modules import activation as floats
from .....op import find_op
from .....tensors.interop import tensor
from ...quantizable.modules import activation as quantizable
from .utils import expect_quantized

__all__ = ["ReLU6", "Hardswish", "ELU", "LeakyReLU", "Sigmoid", "Softmax", "MultiheadAttention", "PReLU"]


class ReLU6(floats.ReLU):
    """Values within [0, 6]; the qparams stay."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        expect_quantized(self, input)
        return ops.quantized.relu6(input, self.inplace)

    def _get_name(self) -> str:
        return "QuantizedReLU6"

    @staticmethod
    def from_float(mod: Any, use_precomputed_fake_quant: bool = False) -> ReLU6:
        """From a float layer."""
        return ReLU6(mod.inplace)


class _Rescaling(Module):
    """What activations with qparams of their own share: they are made of those and a float layer."""

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Self:
        """From an observed float layer."""
        return cls.from_reference(mod, *mod.activation_post_process.calculate_qparams())

    @classmethod
    def from_reference(cls, mod: Any, scale: Any, zero_point: Any) -> Self:
        """From a float layer and the qparams of its output."""
        raise NotImplementedError

    def _register_qparams(self, scale: float, zero_point: int, device: Any, dtype: Any) -> None:
        self.register_buffer("scale", tensor(scale, device=device, dtype=dtype))
        self.register_buffer("zero_point", tensor(zero_point, device=device, dtype=dtype))


class Hardswish(_Rescaling, floats.Hardswish):
    """x relu6(x + 3) / 6."""

    scale: Tensor
    zero_point: Tensor

    def __init__(self, scale: float, zero_point: int, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self._register_qparams(scale, zero_point, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        expect_quantized(self, input)
        return ops.quantized.hardswish(input, float(self.scale), int(self.zero_point))

    def _get_name(self) -> str:
        return "QuantizedHardswish"

    @classmethod
    def from_reference(cls, mod: Any, scale: Any, zero_point: Any) -> Self:
        """From a float layer and the qparams of its output."""
        return cls(float(scale), int(zero_point))


class ELU(_Rescaling, floats.ELU):
    """x above 0, alpha (e^x - 1) below."""

    def __init__(self, scale: float, zero_point: int, alpha: float = 1.0) -> None:
        super().__init__(alpha)
        self.scale = scale
        self.zero_point = zero_point

    def forward(self, input: Tensor) -> Tensor:
        expect_quantized(self, input)
        return ops.quantized.elu(input, self.scale, self.zero_point, self.alpha)

    def _get_name(self) -> str:
        return "QuantizedELU"

    @classmethod
    def from_reference(cls, mod: Any, scale: Any, zero_point: Any) -> Self:
        """From a float layer and the qparams of its output."""
        return cls(float(scale), int(zero_point), mod.alpha)


class LeakyReLU(_Rescaling, floats.LeakyReLU):
    """x above 0, negative_slope x below."""

    scale: Tensor
    zero_point: Tensor

    def __init__(
        self, scale: float, zero_point: int, negative_slope: float = 1e-2, inplace: bool = False, device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(negative_slope, inplace)
        self._register_qparams(scale, zero_point, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        expect_quantized(self, input)
        return ops.quantized.leaky_relu(
            input, self.negative_slope, self.inplace, float(self.scale), int(self.zero_point)
        )

    def _get_name(self) -> str:
        return "QuantizedLeakyReLU"

    @classmethod
    def from_reference(cls, mod: Any, scale: Any, zero_point: Any) -> Self:
        """From a float layer and the qparams of its output."""
        return cls(float(scale), int(zero_point), mod.negative_slope, mod.inplace)


class Sigmoid(_Rescaling, floats.Sigmoid):
    """1 / (1 + e^-x)."""

    def __init__(self, output_scale: float, output_zero_point: int) -> None:
        super().__init__()
        self.output_scale = output_scale
        self.output_zero_point = output_zero_point

    def forward(self, input: Tensor) -> Tensor:
        expect_quantized(self, input)
        return ops.quantized.sigmoid(input, self.output_scale, self.output_zero_point)

    @classmethod
    def from_reference(cls, mod: Any, scale: Any, zero_point: Any) -> Self:
        """From a float layer and the qparams of its output."""
        return cls(float(scale), int(zero_point))


class Softmax(_Rescaling, floats.Softmax):
    """Shares that sum to 1 along `dim`."""

    def __init__(self, dim: int | None = None, scale: float = 1.0, zero_point: int = 0) -> None:
        super().__init__()
        self.dim = dim
        self.scale = scale
        self.zero_point = zero_point

    def forward(self, input: Tensor) -> Tensor:
        expect_quantized(self, input)
        dim = self.dim if self.dim is not None else F._get_softmax_dim("softmax", input.dim(), 3)
        return ops.quantized.softmax(input, dim, self.scale, self.zero_point)

    def _get_name(self) -> str:
        return "QuantizedSoftmax"

    @classmethod
    def from_reference(cls, mod: Any, scale: Any, zero_point: Any) -> Self:
        """From a float layer and the qparams of its output."""
        return cls(mod.dim, float(scale), int(zero_point))


class PReLU(_Rescaling):
    """x above 0, weight x below, a weight for all channels or for each."""

    weight: Tensor

    def __init__(self, output_scale: float, output_zero_point: int, num_parameters: int = 1) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.scale = output_scale
        self.zero_point = output_zero_point
        drawn = find_op("randn")(num_parameters, dtype=_C.float32)
        self.set_weight(find_op("quantize_per_tensor")(drawn, scale=1.0, zero_point=0, dtype=_C.quint8))

    def set_weight(self, w: Tensor) -> None:
        """Take a quantized weight."""
        self.weight = w

    def forward(self, input: Tensor) -> Tensor:
        expect_quantized(self, input)
        return ops.quantized.prelu(input, self.weight, self.scale, self.zero_point)

    def _get_name(self) -> str:
        return "QuantizedPReLU"

    @classmethod
    def from_reference(cls, mod: Any, scale: Any, zero_point: Any) -> Self:
        """From a float layer with a qconfig and the qparams of its output."""
        result = cls(float(scale), int(zero_point), mod.num_parameters)
        weight, observer = mod.weight.float(), mod.qconfig.weight()
        observer(weight)
        if observer.dtype != _C.quint8:
            warnings.warn(
                f"PReLU: the weight is quantized to quint8, though its observer is for {observer.dtype}",
                stacklevel=2,
            )
        of_weight = observer.calculate_qparams()
        result.set_weight(
            find_op("quantize_per_tensor")(weight, float(of_weight[0]), int(of_weight[1]), _C.quint8)
        )
        return result


class MultiheadAttention(quantizable.MultiheadAttention):
    """Attention whose projections are layers of integers; the products between them stay floats."""

    _FLOAT_MODULE: ClassVar[type[Module]] = quantizable.MultiheadAttention

    def _get_name(self) -> str:
        return "QuantizedMultiheadAttention"

    @classmethod
    def from_float(cls, other: Any) -> NoReturn:
        """Refuses: a float module must be observed first."""
        raise NotImplementedError(
            "quantized.MultiheadAttention.from_float: a float module cannot be converted at once. prepare() makes it"
            " quantizable.MultiheadAttention; convert that one after calibration"
        )

    @classmethod
    def from_observed(cls, other: Any) -> Any:
        """From an observed quantizable.MultiheadAttention."""
        converted = late.provided("quantization.convert")(other)
        converted.__class__ = cls
        extra = converted.bias_k
        for name in ("bias_k", "bias_v"):     # both by the range of bias_k, as in PyTorch
            if getattr(converted, name) is None:
                continue
            value = converted._parameters.pop(name)
            seen = extra.dequantize() if extra.is_quantized else extra
            scale, zero_point = find_op("_choose_qparams_per_tensor")(seen, reduce_range=False)
            extra = find_op("quantize_per_tensor")(value, scale, zero_point, _C.quint8)
            setattr(converted, name, extra)
        del converted.in_proj_weight
        del converted.in_proj_bias
        return converted
