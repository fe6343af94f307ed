"""Linear layers with weights in blocks that quantize their input by the moment's range."""

from __future__ import annotations

from typing import Any, Self

from ...... import _C, ops
from ......_C import Tensor
from .....quantization.qconfig import default_dynamic_qconfig
from ....sources import expect_class, expect_qconfig
from ..linear import BlockLinear, _expect_known_version, weight_without_zero_points
from ..utils import LinearBlockSparsePattern

__all__ = ["Linear"]


class Linear(BlockLinear):
    """x W^T + b, floats in and out, integers between."""

    _op_type = "sparse_dynamic"

    def _get_name(self) -> str:
        return "SparseQuantizedDynamicLinear"

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, qscheme={self.weight().qscheme()}"

    def forward(self, x: Tensor) -> Tensor:
        return ops.sparse.qlinear_dynamic(x, self._packed_params._packed_params)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "op_type"] = self._op_type

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, *reports: list[str]
    ) -> None:
        kind = state_dict.pop(prefix + "op_type", self._op_type)
        if kind != self._op_type:
            raise AssertionError(f"Cannot load from op_type [{kind}], expecting [{self._op_type}]")
        _expect_known_version("Linear", local_metadata.get("version"), self._version)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, *reports)

    def set_weight_bias(
        self, w: Tensor, b: Tensor | None, row_block_size: int | None, col_block_size: int | None
    ) -> None:
        """Pack a quantized weight, whose sizes become the layer's, and a float bias."""
        super().set_weight_bias(w, b, row_block_size, col_block_size)
        self.out_features, self.in_features = w.shape

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Self:
        """From a float layer with a qconfig; blocks are those of the `LinearBlockSparsePattern` around the call."""
        method = f"nnq.{cls.__name__}.from_float"
        expect_class(method, mod, cls._FLOAT_MODULE)
        qconfig = expect_qconfig(method, mod, may_be_none=True)
        given = qconfig is not None and qconfig.weight is not None
        observer = (qconfig if given else default_dynamic_qconfig).weight()
        mask = getattr(qconfig, "mask", None)
        weight = weight_without_zero_points(mod.weight if mask is None else mask * mod.weight, observer)
        block = LinearBlockSparsePattern.block_size()
        result = cls(mod.in_features, mod.out_features, *block, dtype=_C.qint8)
        result.set_weight_bias(weight, mod.bias, *block)
        return result
