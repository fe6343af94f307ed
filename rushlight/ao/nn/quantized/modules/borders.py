"""Where floats become integers, and integers floats: what convert() puts in place of the marks of a model."""

from __future__ import annotations

from typing import Any

from ..... import _C
from ....._C import Tensor
from .....nn import Module
from .....nn.factory import factory_kwargs as _for_factories
from .....op import find_op
from .....tensors.interop import tensor

__all__ = ["Quantize", "DeQuantize"]


class Quantize(Module):
    """Floats to integers of `dtype`, by a scale and zero point that the state holds."""

    scale: Tensor
    zero_point: Tensor

    def __init__(
        self, scale: float, zero_point: int, dtype: _C.dtype, factory_kwargs: dict[str, Any] | None = None
    ) -> None:
        options = _for_factories(factory_kwargs)
        super().__init__()
        self.register_buffer("scale", tensor([scale], **options))
        self.register_buffer("zero_point", tensor([zero_point], **{**options, "dtype": _C.int64}))
        self.dtype = dtype

    def forward(self, X: Tensor) -> Tensor:     # noqa: N803 - PyTorch's name
        return find_op("quantize_per_tensor")(X, float(self.scale), int(self.zero_point), self.dtype)

    @staticmethod
    def from_float(mod: Any, use_precomputed_fake_quant: bool = False) -> Quantize:
        """From an observed QuantStub."""
        if not hasattr(mod, "activation_post_process"):
            raise AssertionError(
                f"Module {type(mod).__name__} must have activation_post_process attribute: prepare() the model first"
            )
        observer = mod.activation_post_process
        scale, zero_point = observer.calculate_qparams()
        return Quantize(scale.float().item(), zero_point.long().item(), observer.dtype)

    def extra_repr(self) -> str:
        return f"scale={self.scale}, zero_point={self.zero_point}, dtype={self.dtype}"


class DeQuantize(Module):
    """Integers to floats."""

    def forward(self, Xq: Tensor) -> Tensor:     # noqa: N803 - PyTorch's name
        return Xq.dequantize()

    @staticmethod
    def from_float(mod: Any, use_precomputed_fake_quant: bool = False) -> DeQuantize:
        """From any DeQuantStub: there is nothing to keep of it."""
        return DeQuantize()
