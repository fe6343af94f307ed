"""Linear layers that quantize their input by the moment's range.

Enters: floats. Leaves: floats of the same dtype. Refuses: weights of other dtypes than signed bytes and float16.
"""

from __future__ import annotations

from typing import Any, Self

from ...... import _C, ops
from ......_C import Tensor
from ......nn.modules.linear import Linear as _FloatLinear, NonDynamicallyQuantizableLinear
from .....quantization.qconfig import default_dynamic_qconfig
from ....intrinsic.modules import fused
from ....qat.dynamic.modules.linear import Linear as _TrainedLinear
from ....sources import expect_class, expect_qconfig
from ...modules import linear as static
from ...modules.utils import _quantize_weight

__all__ = ["Linear"]

_SOURCES = (_FloatLinear, NonDynamicallyQuantizableLinear, fused.LinearReLU, _TrainedLinear)


def weight_observers(mod: Any) -> Any:
    """What makes observers of a module's weights: its qconfig's, or the default's. Refuses dtypes without kernels."""
    qconfig = mod.qconfig
    make = default_dynamic_qconfig.weight if qconfig is None or qconfig.weight is None else qconfig.weight
    return make


class Linear(static.Linear):
    """x W^T + b, floats in and out, integers (or float16 weights) between."""

    _version = 4     # since 4, inputs are quantized to 7 bits, whose products cannot overflow

    def __init__(
        self, in_features: int, out_features: int, bias_: bool = True, dtype: _C.dtype = _C.qint8
    ) -> None:
        super().__init__(in_features, out_features, bias_, dtype=dtype)
        self.version: int | None = 4

    def forward(self, x: Tensor) -> Tensor:
        packed = self._packed_params
        if packed.dtype == _C.qint8:
            reduced = self.version is not None and self.version >= 4
            result = ops.quantized.linear_dynamic(x, packed._packed_params, reduce_range=reduced)
        elif packed.dtype == _C.float16:
            result = ops.quantized.linear_dynamic_fp16(x, packed._packed_params)
        else:
            raise RuntimeError(f"Unsupported dtype on dynamic quantized linear! Got {packed.dtype}")
        return result.to(x.dtype)

    def _get_name(self) -> str:
        return "DynamicQuantizedLinear"

    def extra_repr(self) -> str:
        dtype = self._packed_params.dtype
        text = f"in_features={self.in_features}, out_features={self.out_features}, dtype={dtype}"
        return text + (f", qscheme={self.weight().qscheme()}" if dtype == _C.qint8 else "")

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, *reports: list[str]
    ) -> None:
        self.version = local_metadata.get("version")
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, *reports)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Self:
        """From a float layer with a qconfig, alone or before ReLU, or one trained with rounding."""
        method = "nn.quantized.dynamic.Linear.from_float"
        expect_class(method, mod, _SOURCES)
        expect_qconfig(method, mod, may_be_none=True)
        layer = mod[0] if type(mod) is fused.LinearReLU else mod
        observer = weight_observers(layer)()
        if observer.dtype not in (_C.qint8, _C.float16):
            raise AssertionError(
                f"{method}: weights become qint8 or float16, and the observer of this one is for {observer.dtype}"
            )
        observer(layer.weight)
        weight = layer.weight.float()
        if observer.dtype == _C.qint8:
            weight = _quantize_weight(weight, observer)
        result = cls(layer.in_features, layer.out_features, dtype=observer.dtype)
        result.set_weight_bias(weight, layer.bias)
        return result

    @classmethod
    def from_reference(cls, ref_qlinear: Any) -> Self:  # type: ignore[override]
        """From a reference layer."""
        result = cls(ref_qlinear.in_features, ref_qlinear.out_features, dtype=ref_qlinear.weight_dtype)
        result.set_weight_bias(ref_qlinear.get_quantized_weight(), ref_qlinear.bias)
        return result
