"""Linear layers in training for dynamic quantization. Refuses: observers that remember earlier batches."""

from __future__ import annotations

from typing import Any

from .....quantization.qconfig import _activation_is_memoryless
from ...modules.linear import Linear as _Linear

__all__ = ["Linear"]


class Linear(_Linear):
    """A linear layer with rounded weights, whose observer of inputs must look at the batch at hand alone."""

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, qconfig: Any = None, device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(in_features, out_features, bias, qconfig, device, dtype)
        if not _activation_is_memoryless(qconfig):
            raise ValueError(
                "Dynamic QAT requires a memoryless observer: a MovingAverage observer with averaging_constant 1 and"
                f" is_dynamic, got {qconfig.activation}"
            )
