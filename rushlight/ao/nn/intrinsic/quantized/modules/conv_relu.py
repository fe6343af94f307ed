"""Convolution and ReLU as one layer of integers."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from ......_C import Tensor
from ......nn import Module
from ....quantized.modules import conv as quantized
from ....sources import fold_batch_norm
from ...modules import fused
from ...qat.modules import conv_fused

__all__ = ["ConvReLU1d", "ConvReLU2d", "ConvReLU3d"]


class _ConvReLU(quantized._Plain):
    """What the three share; the layer without ReLU stands after it in the bases."""

    _TRAINED: ClassVar[type[Module]]     # with a batch norm that is not folded in yet
    _UNFOLDED: ClassVar[type[Module]]

    def forward(self, input: Tensor) -> Tensor:
        return self._run(f"conv{self.dims}d_relu", input)

    def _get_name(self) -> str:
        return f"QuantizedConvReLU{self.dims}d"

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Self:
        """From an observed chain, or a layer trained with rounding (a batch norm in it is folded in)."""
        if type(mod) is cls._TRAINED:
            mod.weight, mod.bias = fold_batch_norm(mod)
        return super().from_float(mod, use_precomputed_fake_quant)

    @classmethod
    def from_reference(cls, ref_qconv: Any, output_scale: Any, output_zero_point: Any) -> Self:
        """From a chain of a reference convolution and ReLU. Refuses a batch norm between them."""
        if type(ref_qconv) is cls._UNFOLDED:
            raise AssertionError(
                f"{cls.__name__}.from_reference: the batch norm must be fused into the convolution before, got"
                f" {type(ref_qconv).__name__}"
            )
        return super().from_reference(ref_qconv[0], output_scale, output_zero_point)


class ConvReLU1d(_ConvReLU, quantized.Conv1d):
    """relu of a convolution of sequences."""

    _FLOAT_MODULE: ClassVar[type[Module]] = fused.ConvReLU1d
    _TRAINED, _UNFOLDED = conv_fused.ConvBnReLU1d, fused.ConvBnReLU1d


class ConvReLU2d(_ConvReLU, quantized.Conv2d):
    """relu of a convolution of images."""

    _FLOAT_MODULE: ClassVar[type[Module]] = fused.ConvReLU2d
    _TRAINED, _UNFOLDED = conv_fused.ConvBnReLU2d, fused.ConvBnReLU2d


class ConvReLU3d(_ConvReLU, quantized.Conv3d):
    """relu of a convolution of volumes."""

    _FLOAT_MODULE: ClassVar[type[Module]] = fused.ConvReLU3d
    _TRAINED, _UNFOLDED = conv_fused.ConvBnReLU3d, fused.ConvBnReLU3d
