"""Batch norms of integers, for inference: they normalize by the running statistics.

Enters: quantized [N, C, ...]. Leaves: the same, by the scale and zero point found by calibration.
Refuses: float inputs, inputs of other ranks.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

from ..... import ops
from ....._C import Tensor
from .....nn import Module
from .....nn.modules import batchnorm as floats
from .....tensors.interop import tensor
from ...intrinsic.modules import fused
from .utils import expect_quantized

__all__ = ["BatchNorm2d", "BatchNorm3d"]

_TAKEN = ("weight", "bias", "running_mean", "running_var")


class _BatchNorm(floats._BatchNorm):
    """What both share; `_OP` does the work."""

    _OP: ClassVar[str]
    _RANK: ClassVar[int]
    _NNI_BN_RELU_MODULE: ClassVar[type[Module]]

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(num_features, eps, momentum, True, True, device=device, dtype=dtype)
        self.register_buffer("scale", tensor(1.0, device=device, dtype=dtype))
        self.register_buffer("zero_point", tensor(0, device=device, dtype=dtype))

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() != self._RANK:
            shape = "(N, C, H, W)" if self._RANK == 4 else "(N, C, D, H, W)"
            raise ValueError(f"Input shape must be `{shape}`! Got {tuple(input.shape)}")

    def forward(self, input: Tensor) -> Tensor:
        expect_quantized(self, input)
        self._check_input_dim(input)
        return getattr(ops.quantized, self._OP)(
            input, self.weight, self.bias, self.running_mean, self.running_var, self.eps, float(self.scale),
            int(self.zero_point),
        )

    def _take(self, bn: Any, scale: Any, zero_point: Any) -> Self:
        for name in _TAKEN:
            setattr(self, name, getattr(bn, name))
        self.scale, self.zero_point = scale, zero_point
        return self

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Self:
        """From an observed float norm, alone or in a chain with ReLU."""
        bn = mod[0] if type(mod) is cls._NNI_BN_RELU_MODULE else mod
        return cls(bn.num_features, bn.eps)._take(bn, *mod.activation_post_process.calculate_qparams())

    @classmethod
    def from_reference(cls, bn: Any, output_scale: Any, output_zero_point: Any) -> Self:
        """From a float norm and the qparams of its output."""
        result = cls(bn.num_features, bn.eps, bn.momentum, device=bn.weight.device, dtype=bn.weight.dtype)
        return result._take(bn, output_scale, output_zero_point)


class BatchNorm2d(_BatchNorm):
    """The norm of images [N, C, H, W]."""

    _OP, _RANK = "batch_norm2d", 4
    _NNI_BN_RELU_MODULE: ClassVar[type[Module]] = fused.BNReLU2d

    def _get_name(self) -> str:
        return "QuantizedBatchNorm2d"


class BatchNorm3d(_BatchNorm):
    """The norm of volumes [N, C, D, H, W]."""

    _OP, _RANK = "batch_norm3d", 5
    _NNI_BN_RELU_MODULE: ClassVar[type[Module]] = fused.BNReLU3d

    def _get_name(self) -> str:
        return "QuantizedBatchNorm3d"
