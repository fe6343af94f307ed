"""Norms of integers over features, groups and instances.

Enters: quantized tensors. Leaves: the same shapes, by the scale and zero point found by calibration. Refuses: floats.
"""

from __future__ import annotations

from typing import Any, Self

from ..... import ops
from ....._C import Tensor
from .....nn import Module
from .....nn.modules import instancenorm, normalization as floats
from .....tensors.interop import tensor
from .utils import expect_quantized

__all__ = ["LayerNorm", "GroupNorm", "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d"]


class _Norm(Module):
    """What all of them share, before their float class in the bases."""

    scale: Tensor
    zero_point: Tensor

    def _keep(self, weight: Any, bias: Any, scale: float, zero_point: int, device: Any, dtype: Any) -> None:
        self.weight, self.bias = weight, bias
        self.register_buffer("scale", tensor(scale, device=device, dtype=dtype))
        self.register_buffer("zero_point", tensor(zero_point, device=device, dtype=dtype))

    def _get_name(self) -> str:
        return "Quantized" + type(self).__name__

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Self:
        """From an observed float norm."""
        return cls.from_reference(mod, *mod.activation_post_process.calculate_qparams())

    @classmethod
    def from_reference(cls, mod: Any, scale: Any, zero_point: Any) -> Self:
        """From a float norm and the qparams of its output."""
        raise NotImplementedError


class LayerNorm(_Norm, floats.LayerNorm):
    """The norm over the last dims."""

    def __init__(
        self, normalized_shape: Any, weight: Any, bias: Any, scale: float, zero_point: int, eps: float = 1e-5,
        elementwise_affine: bool = True, device: Any = None, dtype: Any = None,
    ) -> None:
        super().__init__(
            normalized_shape, eps=eps, elementwise_affine=elementwise_affine, device=device, dtype=dtype
        )
        self._keep(weight, bias, scale, zero_point, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        expect_quantized(self, input)
        return ops.quantized.layer_norm(
            input, self.normalized_shape, weight=self.weight, bias=self.bias, eps=self.eps,
            output_scale=float(self.scale), output_zero_point=int(self.zero_point),
        )

    @classmethod
    def from_reference(cls, mod: Any, scale: Any, zero_point: Any) -> Self:
        """From a float norm and the qparams of its output."""
        return cls(
            mod.normalized_shape, mod.weight, mod.bias, float(scale), int(zero_point), mod.eps, mod.elementwise_affine
        )


class GroupNorm(_Norm, floats.GroupNorm):
    """The norm over groups of channels."""

    __constants__ = ["num_groups", "num_channels", "eps", "affine"]

    def __init__(
        self, num_groups: int, num_channels: int, weight: Any, bias: Any, scale: float, zero_point: int,
        eps: float = 1e-5, affine: bool = True, device: Any = None, dtype: Any = None,
    ) -> None:
        super().__init__(num_groups, num_channels, eps, affine, device=device, dtype=dtype)
        self._keep(weight, bias, scale, zero_point, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        expect_quantized(self, input)
        return ops.quantized.group_norm(
            input, self.num_groups, self.weight, self.bias, self.eps, float(self.scale), int(self.zero_point)
        )

    @classmethod
    def from_reference(cls, mod: Any, scale: Any, zero_point: Any) -> Self:
        """From a float norm and the qparams of its output."""
        return cls(
            mod.num_groups, mod.num_channels, mod.weight, mod.bias, float(scale), int(zero_point), mod.eps, mod.affine
        )


class _InstanceNorm(_Norm):
    """What the three norms of instances share."""

    def __init__(
        self, num_features: int, weight: Any, bias: Any, scale: float, zero_point: int, eps: float = 1e-5,
        momentum: float = 0.1, affine: bool = False, track_running_stats: bool = False, device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device=device, dtype=dtype)
        self._keep(weight, bias, scale, zero_point, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        expect_quantized(self, input)
        return ops.quantized.instance_norm(
            input, self.weight, self.bias, self.eps, float(self.scale), int(self.zero_point)
        )

    @classmethod
    def from_reference(cls, mod: Any, scale: Any, zero_point: Any) -> Self:
        """From a float norm and the qparams of its output. As in PyTorch, `affine` arrives as the momentum, which
        norms of integers do not use."""
        return cls(mod.num_features, mod.weight, mod.bias, float(scale), int(zero_point), mod.eps, mod.affine)


class InstanceNorm1d(_InstanceNorm, instancenorm.InstanceNorm1d):
    """The norm of each channel of each sequence."""


class InstanceNorm2d(_InstanceNorm, instancenorm.InstanceNorm2d):
    """The norm of each channel of each image."""


class InstanceNorm3d(_InstanceNorm, instancenorm.InstanceNorm3d):
    """The norm of each channel of each volume."""
