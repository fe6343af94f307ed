"""Convolutions with what follows them, as one layer that trains with rounded weights.

Enters: floats. Leaves: relu and batch norm of the convolution, its weights rounded as they will be in the end.
Refuses: being made without a qconfig.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, Self

from ......_C import Tensor
from ......autograd import no_grad
from ......nn import Module, Parameter, functional as F, init
from ......nn.modules import batchnorm, conv as floats
from ......nn.modules.activation import ReLU
from ......op import find_op
from ....qat.modules import conv as rounded
from ....sources import fold_batch_norm
from ...modules import fused
from .folded_norm import FoldedNorm

__all__ = [
    "ConvBn1d", "ConvBnReLU1d", "ConvReLU1d", "ConvBn2d", "ConvBnReLU2d", "ConvReLU2d", "ConvBn3d", "ConvBnReLU3d",
    "ConvReLU3d", "update_bn_stats", "freeze_bn_stats",
]

_NAMES_BEFORE = {     # of version 1, in which the norm's values stood in the layer itself
    "bn.weight": "gamma", "bn.bias": "beta", "bn.running_mean": "running_mean", "bn.running_var": "running_var",
    "bn.num_batches_tracked": "num_batches_tracked",
}


class _ConvBnNd(FoldedNorm, floats._Convolution, fused._FusedModule):
    """What convolutions with a batch norm share; the float convolution comes after it in the bases."""

    _version = 2
    _FLOAT_CONV_MODULE: ClassVar[type[Module]]
    _FLOAT_BN_MODULE: ClassVar[type[Module]]
    _FLOAT_RELU_MODULE: ClassVar[type[Module] | None] = None
    _FUSED_FLOAT_MODULE: ClassVar[type[Module] | None] = None

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
        dilation: Any = 1, groups: int = 1, bias: bool | None = None, padding_mode: str = "zeros", eps: float = 1e-05,
        momentum: float = 0.1, freeze_bn: bool = False, qconfig: Any = None,
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, False, padding_mode
        )
        self._fold(self._FLOAT_BN_MODULE(out_channels, eps, momentum, True, True), freeze_bn, qconfig)
        if bias:
            self.bias = Parameter(find_op("empty")(out_channels))
        self._settle(freeze_bn)
        self._enable_slow_path_for_better_numerical_stability = False

    def reset_bn_parameters(self) -> None:
        """Forget what was seen, and draw the norm's scale and the bias anew."""
        super().reset_bn_parameters()
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            init.uniform_(self.bias, -1 / math.sqrt(fan_in), 1 / math.sqrt(fan_in))

    def _forward(self, input: Tensor) -> Tensor:
        if self._enable_slow_path_for_better_numerical_stability:
            return self._forward_slow(input)
        return self._forward_approximate(input)

    def _forward_approximate(self, input: Tensor) -> Tensor:
        """One convolution, scaled back before the norm: imprecise where gamma / std is nearly 0."""
        _, factor = self._scales()
        weight = self._rounded_weight(factor)
        bias = self._zero_bias(self.out_channels, self.bias, input.dtype)
        return self._normalized(self._conv_forward(input, weight, bias), factor)

    def _forward_slow(self, input: Tensor) -> Tensor:
        """Two convolutions, without a division by gamma: one gives the batch's statistics, the other the result."""
        zero_bias = self._zero_bias(self.out_channels, None, input.dtype)
        bn = self.bn
        if bn.training:
            plain = self._conv_forward(input, self.weight, zero_bias)
            with no_grad():
                bn(plain if self.bias is None else plain + self._by_channel(self.bias))
            running_std, factor = self._scales()
            result = self._conv_forward(input, self._rounded_weight(factor), zero_bias)
            dims = [0, *range(2, self.weight.dim())]
            mean = plain.mean(dims)
            std = ((plain - self._by_channel(mean)).square().mean(dims) + bn.eps).sqrt()
            result = result * self._by_channel(running_std / std)
        else:
            std, factor = self._scales()
            result = self._conv_forward(input, self._rounded_weight(factor), zero_bias)
            mean = bn.running_mean - (0 if self.bias is None else self.bias)
        result = result + self._by_channel(bn.bias - bn.weight * mean / std)
        if self.bias is not None:
            # The norm takes the bias away again; this keeps it in the graph, with a gradient of zeros.
            result = result + self._by_channel(self.bias - self.bias)
        return result

    def forward(self, input: Tensor) -> Tensor:
        return self._forward(input)

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, missing_keys: list[str],
        unexpected_keys: list[str], error_msgs: list[str],
    ) -> None:
        if local_metadata.get("version") in (None, 1):
            for now, before in _NAMES_BEFORE.items():
                if prefix + before in state_dict:
                    state_dict[prefix + now] = state_dict.pop(prefix + before)
                elif prefix + now not in state_dict and strict:
                    missing_keys.append(prefix + now)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Self:
        """From a chain that begins with a convolution and its batch norm and has a qconfig, whose parameters and
        statistics it takes over."""
        conv, bn, qconfig = cls._source(mod)
        result = cls(
            conv.in_channels, conv.out_channels, conv.kernel_size, conv.stride, conv.padding, conv.dilation,
            conv.groups, conv.bias is not None, conv.padding_mode, bn.eps, bn.momentum, False, qconfig,
        )
        return result._take_over(conv, bn)

    def to_float(self) -> Module:
        """The float convolution with the norm folded in, in a chain with ReLU if this ends in one."""
        cls = type(self)
        conv: Any = cls._FLOAT_CONV_MODULE(
            self.in_channels, self.out_channels, self.kernel_size, self.stride, self.padding, self.dilation,
            self.groups, self.bias is not None, self.padding_mode,
        )
        weight, bias = fold_batch_norm(self)
        conv.weight, conv.bias = Parameter(weight.detach()), Parameter(bias.detach())
        if cls._FLOAT_RELU_MODULE is None:
            return conv.train(self.training)
        return cls._FUSED_FLOAT_MODULE(conv, cls._FLOAT_RELU_MODULE()).train(self.training)  # type: ignore[misc]


class _ConvReLUNd(rounded._ConvNd, fused._FusedModule):
    """What convolutions with ReLU share."""

    _FLOAT_BN_MODULE: ClassVar[type[Module] | None] = None
    _FLOAT_RELU_MODULE: ClassVar[type[Module]] = ReLU

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
        dilation: Any = 1, groups: int = 1, bias: bool = True, padding_mode: str = "zeros", qconfig: Any = None,
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, qconfig
        )

    def forward(self, input: Tensor) -> Tensor:
        return F.relu(self._conv_forward(input, self.weight_fake_quant(self.weight), self.bias))


class ConvBn1d(_ConvBnNd, floats.Conv1d):
    """The batch norm of a convolution of sequences."""

    _FLOAT_MODULE: ClassVar[type[Module]] = fused.ConvBn1d
    _FLOAT_CONV_MODULE: ClassVar[type[Module]] = floats.Conv1d
    _FLOAT_BN_MODULE: ClassVar[type[Module]] = batchnorm.BatchNorm1d


class ConvBn2d(_ConvBnNd, floats.Conv2d):
    """The batch norm of a convolution of images."""

    _FLOAT_MODULE: ClassVar[type[Module]] = fused.ConvBn2d
    _FLOAT_CONV_MODULE: ClassVar[type[Module]] = floats.Conv2d
    _FLOAT_BN_MODULE: ClassVar[type[Module]] = batchnorm.BatchNorm2d


class ConvBn3d(_ConvBnNd, floats.Conv3d):
    """The batch norm of a convolution of volumes."""

    _FLOAT_MODULE: ClassVar[type[Module]] = fused.ConvBn3d
    _FLOAT_CONV_MODULE: ClassVar[type[Module]] = floats.Conv3d
    _FLOAT_BN_MODULE: ClassVar[type[Module]] = batchnorm.BatchNorm3d


class ConvBnReLU1d(ConvBn1d):
    """relu of the batch norm of a convolution of sequences."""

    _FLOAT_MODULE: ClassVar[type[Module]] = fused.ConvBnReLU1d
    _FLOAT_RELU_MODULE: ClassVar[type[Module] | None] = ReLU
    _FUSED_FLOAT_MODULE: ClassVar[type[Module] | None] = fused.ConvReLU1d

    def forward(self, input: Tensor) -> Tensor:
        return F.relu(self._forward(input))


class ConvBnReLU2d(ConvBn2d):
    """relu of the batch norm of a convolution of images."""

    _FLOAT_MODULE: ClassVar[type[Module]] = fused.ConvBnReLU2d
    _FLOAT_RELU_MODULE: ClassVar[type[Module] | None] = ReLU
    _FUSED_FLOAT_MODULE: ClassVar[type[Module] | None] = fused.ConvReLU2d

    def forward(self, input: Tensor) -> Tensor:
        return F.relu(self._forward(input))


class ConvBnReLU3d(ConvBn3d):
    """relu of the batch norm of a convolution of volumes."""

    _FLOAT_MODULE: ClassVar[type[Module]] = fused.ConvBnReLU3d
    _FLOAT_RELU_MODULE: ClassVar[type[Module] | None] = ReLU
    _FUSED_FLOAT_MODULE: ClassVar[type[Module] | None] = fused.ConvReLU3d

    def forward(self, input: Tensor) -> Tensor:
        return F.relu(self._forward(input))


class ConvReLU1d(_ConvReLUNd, rounded.Conv1d):
    """relu of a convolution of sequences."""

    _FLOAT_MODULE: ClassVar[type[Module]] = fused.ConvReLU1d


class ConvReLU2d(_ConvReLUNd, rounded.Conv2d):
    """relu of a convolution of images."""

    _FLOAT_MODULE: ClassVar[type[Module]] = fused.ConvReLU2d


class ConvReLU3d(_ConvReLUNd, rounded.Conv3d):
    """relu of a convolution of volumes."""

    _FLOAT_MODULE: ClassVar[type[Module]] = fused.ConvReLU3d


_FOLDED = frozenset((ConvBnReLU1d, ConvBnReLU2d, ConvBnReLU3d, ConvBn1d, ConvBn2d, ConvBn3d))


def update_bn_stats(mod: Module) -> None:
    """For model.apply: let batches renew the running statistics of convolutions with a batch norm."""
    if type(mod) in _FOLDED:
        mod.update_bn_stats()


def freeze_bn_stats(mod: Module) -> None:
    """For model.apply: keep the running statistics of convolutions with a batch norm as they are."""
    if type(mod) in _FOLDED:
        mod.freeze_bn_stats()
