"""Padding layers: edges of the last one, two or three dims made wider by a rule.

Enters: a tensor of [batch,] channels and the padded dims. Leaves: a wider one.
Refuses what `nn.functional.pad` refuses.

Shape:
    input (N, C, {sizes}) or (C, {sizes}); output with padding added to each of ({sizes})

Example:
    >>> layer = rl.nn.{name}(2)
    >>> tuple(layer(rl.ones(2, 4, {8})).shape)
    (2, 4, {12})
"""

from __future__ import annotations

from typing import Any

from ..._C import Tensor
from .. import functional as F
from .descriptions import describe_layers
from .module import Module
from .settings import repeated


class _PadNd(Module):
    """`padding` is a number for all edges, or (left, right[, top, bottom[, front, back]])."""

    dims = 1
    mode = "constant"

    def __init__(self, padding: Any) -> None:
        super().__init__()
        self.padding = repeated(padding, 2 * self.dims)

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, self.mode)

    def extra_repr(self) -> str:
        return str(self.padding)


class _ConstantPadNd(_PadNd):
    """`value` on all edges.

    Example:
        >>> layer = rl.nn.{name}(2, 1.5)
        >>> tuple(layer(rl.ones(2, 4, {8})).shape)
        (2, 4, {12})
    """

    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPadNd):
    """One value around sequences."""


class ConstantPad2d(_ConstantPadNd):
    """One value around images."""

    dims = 2


class ConstantPad3d(_ConstantPadNd):
    """One value around volumes."""

    dims = 3


class _ZeroPad:
    """Constant padding with zeros, printed by its padding alone.

    Example:
        >>> layer = rl.nn.{name}(2)
        >>> tuple(layer(rl.ones(2, 4, {8})).shape)
        (2, 4, {12})
    """

    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return str(self.padding)


class ZeroPad1d(_ZeroPad, ConstantPad1d):
    """Zeros around sequences."""


class ZeroPad2d(_ZeroPad, ConstantPad2d):
    """Zeros around images."""


class ZeroPad3d(_ZeroPad, ConstantPad3d):
    """Zeros around volumes."""


class _ReflectionPadNd(_PadNd):
    mode = "reflect"


class ReflectionPad1d(_ReflectionPadNd):
    """Sequences mirrored at their ends, which are not repeated."""


class ReflectionPad2d(_ReflectionPadNd):
    """Images mirrored at their edges."""

    dims = 2


class ReflectionPad3d(_ReflectionPadNd):
    """Volumes mirrored at their faces."""

    dims = 3


class _ReplicationPadNd(_PadNd):
    mode = "replicate"


class ReplicationPad1d(_ReplicationPadNd):
    """Sequences continued by their ends."""


class ReplicationPad2d(_ReplicationPadNd):
    """Images continued by their edges."""

    dims = 2


class ReplicationPad3d(_ReplicationPadNd):
    """Volumes continued by their faces."""

    dims = 3


class _CircularPadNd(_PadNd):
    mode = "circular"

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() not in (self.dims + 1, self.dims + 2):
            raise ValueError(f"expected {self.dims + 1}D or {self.dims + 2}D input (got {input.dim()}D input)")
        return F.pad(input, self.padding, "circular")


class CircularPad1d(_CircularPadNd):
    """Sequences continued from their other end."""


class CircularPad2d(_CircularPadNd):
    """Images continued from their other edge."""

    dims = 2


class CircularPad3d(_CircularPadNd):
    """Volumes continued from their other face."""

    dims = 3


describe_layers(globals())
