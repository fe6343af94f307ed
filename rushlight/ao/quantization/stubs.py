"""The marks that models carry: where values become quantized, and where they become floats again.

Enters: tensors. Leaves: the same tensors, until convert() puts layers that work in place of the marks.
"""

from __future__ import annotations

from typing import Any

from ..._C import Tensor
from ...nn import Module

__all__ = ["QuantStub", "DeQuantStub", "QuantWrapper"]


class _Mark(Module):
    """Passes its input on; a qconfig may be given for it alone."""

    def __init__(self, qconfig: Any = None) -> None:
        super().__init__()
        if qconfig:
            self.qconfig = qconfig

    def forward(self, x: Tensor) -> Tensor:
        return x


class QuantStub(_Mark):
    """Where values become quantized after conversion; before it they pass, observed once the model is prepared."""


class DeQuantStub(_Mark):
    """Where values become floats again after conversion; before it they pass."""


class QuantWrapper(Module):
    """A module between the two marks, so that it takes and gives floats once it is quantized."""

    quant: QuantStub
    dequant: DeQuantStub
    module: Module

    def __init__(self, module: Module) -> None:
        super().__init__()
        qconfig = getattr(module, "qconfig", None)
        for name, child in (("quant", QuantStub(qconfig)), ("dequant", DeQuantStub(qconfig)), ("module", module)):
            self.add_module(name, child)
        self.train(module.training)

    def forward(self, X: Tensor) -> Tensor:     # noqa: N803 - PyTorch's name
        return self.dequant(self.module(self.quant(X)))
