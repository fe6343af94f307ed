"""`torch.ao.quantization`: the marks that models carry (`QuantStub`, `DeQuantStub`),
which do nothing until a model is converted.

Refuses: observing, preparing and converting models, which is not written yet.
"""

from __future__ import annotations

from typing import Any

from ...base.refusals import names_of
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


globals().update(names_of("torch.ao.quantization"))
