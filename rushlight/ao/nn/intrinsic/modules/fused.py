"""Layers that are quantized as one: a chain of two or three in a `Sequential` of its own class.

Enters: the float layers, in the order they run. Leaves: a module that runs them, and that conversion swaps whole.
Refuses: layers of other classes than the chain's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....._C import Tensor
from .....nn import Module
from .....nn.modules.activation import LeakyReLU, ReLU, Tanh
from .....nn.modules.batchnorm import BatchNorm1d, BatchNorm2d, BatchNorm3d
from .....nn.modules.container import Sequential
from .....nn.modules.conv import Conv1d, Conv2d, Conv3d
from .....nn.modules.linear import Linear
from .....nn.utils.parametrize import type_before_parametrizations

__all__ = [
    "ConvReLU1d", "ConvReLU2d", "ConvReLU3d", "LinearReLU", "ConvBn1d", "ConvBn2d", "ConvBnReLU1d", "ConvBnReLU2d",
    "ConvBn3d", "ConvBnReLU3d", "BNReLU2d", "BNReLU3d", "LinearBn1d", "LinearLeakyReLU", "LinearTanh", "ConvAdd2d",
    "ConvAddReLU2d",
]


class _FusedModule(Sequential):
    """What all chains are: preparing and converting treat one as a single layer."""


def _checked(name: str, modules: tuple[Module, ...], classes: tuple[type, ...]) -> tuple[Module, ...]:
    given = [type_before_parametrizations(module) for module in modules]
    if given != list(classes):
        raise AssertionError(
            f"Incorrect types for input modules: {name} takes {', '.join(kind.__name__ for kind in classes)}, got"
            f" {', '.join(kind.__name__ for kind in given)}"
        )
    return modules


class ConvReLU1d(_FusedModule):
    """Conv1d, then ReLU."""

    def __init__(self, conv: Module, relu: Module) -> None:
        super().__init__(*_checked("ConvReLU1d", (conv, relu), (Conv1d, ReLU)))


class ConvReLU2d(_FusedModule):
    """Conv2d, then ReLU."""

    def __init__(self, conv: Module, relu: Module) -> None:
        super().__init__(*_checked("ConvReLU2d", (conv, relu), (Conv2d, ReLU)))


class ConvReLU3d(_FusedModule):
    """Conv3d, then ReLU."""

    def __init__(self, conv: Module, relu: Module) -> None:
        super().__init__(*_checked("ConvReLU3d", (conv, relu), (Conv3d, ReLU)))


class LinearReLU(_FusedModule):
    """Linear, then ReLU."""

    def __init__(self, linear: Module, relu: Module) -> None:
        super().__init__(*_checked("LinearReLU", (linear, relu), (Linear, ReLU)))


class ConvBn1d(_FusedModule):
    """Conv1d, then BatchNorm1d."""

    def __init__(self, conv: Module, bn: Module) -> None:
        super().__init__(*_checked("ConvBn1d", (conv, bn), (Conv1d, BatchNorm1d)))


class ConvBn2d(_FusedModule):
    """Conv2d, then BatchNorm2d."""

    def __init__(self, conv: Module, bn: Module) -> None:
        super().__init__(*_checked("ConvBn2d", (conv, bn), (Conv2d, BatchNorm2d)))


class ConvBn3d(_FusedModule):
    """Conv3d, then BatchNorm3d."""

    def __init__(self, conv: Module, bn: Module) -> None:
        super().__init__(*_checked("ConvBn3d", (conv, bn), (Conv3d, BatchNorm3d)))


class ConvBnReLU1d(_FusedModule):
    """Conv1d, BatchNorm1d, ReLU."""

    def __init__(self, conv: Module, bn: Module, relu: Module) -> None:
        super().__init__(*_checked("ConvBnReLU1d", (conv, bn, relu), (Conv1d, BatchNorm1d, ReLU)))


class ConvBnReLU2d(_FusedModule):
    """Conv2d, BatchNorm2d, ReLU."""

    def __init__(self, conv: Module, bn: Module, relu: Module) -> None:
        super().__init__(*_checked("ConvBnReLU2d", (conv, bn, relu), (Conv2d, BatchNorm2d, ReLU)))


class ConvBnReLU3d(_FusedModule):
    """Conv3d, BatchNorm3d, ReLU."""

    def __init__(self, conv: Module, bn: Module, relu: Module) -> None:
        super().__init__(*_checked("ConvBnReLU3d", (conv, bn, relu), (Conv3d, BatchNorm3d, ReLU)))


class BNReLU2d(_FusedModule):
    """BatchNorm2d, then ReLU."""

    def __init__(self, batch_norm: Module, relu: Module) -> None:
        super().__init__(*_checked("BNReLU2d", (batch_norm, relu), (BatchNorm2d, ReLU)))


class BNReLU3d(_FusedModule):
    """BatchNorm3d, then ReLU."""

    def __init__(self, batch_norm: Module, relu: Module) -> None:
        super().__init__(*_checked("BNReLU3d", (batch_norm, relu), (BatchNorm3d, ReLU)))


class LinearBn1d(_FusedModule):
    """Linear, then BatchNorm1d."""

    def __init__(self, linear: Module, bn: Module) -> None:
        super().__init__(*_checked("LinearBn1d", (linear, bn), (Linear, BatchNorm1d)))


class LinearLeakyReLU(_FusedModule):
    """Linear, then LeakyReLU."""

    def __init__(self, linear: Module, leaky_relu: Module) -> None:
        super().__init__(*_checked("LinearLeakyReLU", (linear, leaky_relu), (Linear, LeakyReLU)))


class LinearTanh(_FusedModule):
    """Linear, then Tanh."""

    def __init__(self, linear: Module, tanh: Module) -> None:
        super().__init__(*_checked("LinearTanh", (linear, tanh), (Linear, Tanh)))


class ConvAdd2d(_FusedModule):
    """A convolution whose result is added to a second input by `add`."""

    def __init__(self, conv: Module, add: Callable[[Any, Any], Any]) -> None:
        super().__init__(conv)
        self.add = add

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:  # type: ignore[override]
        """add(conv(x1), x2)."""
        return self.add(self[0](x1), x2)


class ConvAddReLU2d(_FusedModule):
    """A convolution whose result is added to a second input by `add`, and what is below 0 cut off by `relu`."""

    def __init__(self, conv: Module, add: Callable[[Any, Any], Any], relu: Callable[[Any], Any]) -> None:
        super().__init__(conv)
        self.add = add
        self.relu = relu

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:  # type: ignore[override]
        """relu(add(conv(x1), x2))."""
        return self.relu(self.add(self[0](x1), x2))
