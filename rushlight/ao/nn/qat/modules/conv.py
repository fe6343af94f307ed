"""Convolutions that train with rounded weights.

Enters: floats. Leaves: the convolution with the weights as `weight_fake_quant` gives them. Refuses: being made without
a qconfig.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

from ....._C import Tensor
from .....nn import Module
from .....nn.modules import conv as floats
from ...intrinsic.modules.fused import _FusedModule
from ...sources import expect_class, expect_given_qconfig, expect_qconfig, take_weights

__all__ = ["Conv1d", "Conv2d", "Conv3d"]


class _ConvNd(floats._Convolution):
    """What the three share; the class after it in the bases says over how many dims."""

    _FLOAT_MODULE: ClassVar[type[Module]]
    _FLOAT_CONV_MODULE: ClassVar[type[Module]]

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
        dilation: Any = 1, groups: int = 1, bias: bool = True, padding_mode: str = "zeros", qconfig: Any = None,
        device: Any = None, dtype: Any = None,
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype
        )
        self.qconfig = expect_given_qconfig(self, qconfig)
        self.weight_fake_quant = qconfig.weight(factory_kwargs={"device": device, "dtype": dtype})

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight_fake_quant(self.weight), self.bias)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Self:
        """From a float layer with a qconfig, whose parameters it takes over."""
        method = f"qat.{cls.__name__}.from_float"
        expect_class(method, mod, cls._FLOAT_MODULE)
        expect_qconfig(method, mod)
        layer = mod[0] if isinstance(mod, _FusedModule) else mod
        result = cls(
            layer.in_channels, layer.out_channels, layer.kernel_size, stride=layer.stride, padding=layer.padding,
            dilation=layer.dilation, groups=layer.groups, bias=layer.bias is not None,
            padding_mode=layer.padding_mode, qconfig=layer.qconfig,
        )
        result.weight, result.bias = layer.weight, layer.bias
        return result

    def to_float(self) -> Module:
        """The float layer with these weights, unrounded; a chain, if this stands for one."""
        cls = type(self)
        conv = cls._FLOAT_CONV_MODULE(
            self.in_channels, self.out_channels, self.kernel_size, self.stride, self.padding, self.dilation,
            self.groups, self.bias is not None, self.padding_mode,
        )
        take_weights(conv, self.weight, self.bias)
        if not issubclass(cls, _FusedModule):
            return conv
        return cls._FLOAT_MODULE(conv, cls._FLOAT_RELU_MODULE()).train(self.training)


class Conv1d(_ConvNd, floats.Conv1d):
    """A convolution of sequences with rounded weights."""

    _FLOAT_MODULE: ClassVar[type[Module]] = floats.Conv1d
    _FLOAT_CONV_MODULE: ClassVar[type[Module]] = floats.Conv1d


class Conv2d(_ConvNd, floats.Conv2d):
    """A convolution of images with rounded weights."""

    _FLOAT_MODULE: ClassVar[type[Module]] = floats.Conv2d
    _FLOAT_CONV_MODULE: ClassVar[type[Module]] = floats.Conv2d


class Conv3d(_ConvNd, floats.Conv3d):
    """A convolution of volumes with rounded weights."""

    _FLOAT_MODULE: ClassVar[type[Module]] = floats.Conv3d
    _FLOAT_CONV_MODULE: ClassVar[type[Module]] = floats.Conv3d
