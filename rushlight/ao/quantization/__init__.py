"""`torch.ao.quantization`: the marks that models carry (`QuantStub`, `DeQuantStub`), which do nothing until a model is converted.

Refuses: observing, preparing and converting models, which is not written yet.
"""

from __future__ import annotations

from typing import Any

from ...absent import absent_names
from ...nn import Module


class QuantStub(Module):
    """Where values become quantized after conversion; before it, they pass."""

    def __init__(self, qconfig: Any = None) -> None:
        super().__init__()
        if qconfig:
            self.qconfig = qconfig

    def forward(self, x: Any) -> Any:
        return x


class DeQuantStub(QuantStub):
    """Where values become floats again after conversion; before it, they pass."""


globals().update(absent_names("torch.ao.quantization", "quantizing models is not written yet",
                              "QConfig QConfigMapping QuantWrapper convert default_observer default_per_channel_weight_observer default_qconfig "
                              "default_weight_observer fuse_modules fuse_modules_qat get_default_qat_qconfig get_default_qconfig prepare prepare_qat "
                              "quantize quantize_dynamic quantize_qat FakeQuantize HistogramObserver MinMaxObserver MovingAverageMinMaxObserver ObserverBase"))
