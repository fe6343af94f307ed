"""Padding layers: edges of the last one, two or three dims made wider by a rule.

Enters: a tensor of [batch,] channels and the padded dims. Leaves: a wider one.
Refuses what `nn.functional.pad` refuses.
"""

from __future__ import annotations

from typing import Any

from ..._C import Tensor
from .. import functional as F
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
    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPadNd):
    """One value around sequences.

    Arguments:
        padding: elements added at each side
        value: what is put outside

    Shape:
        input (N, C, L) or (C, L); output with padding added to each of (L)

    Example:
        >>> layer = rl.nn.ConstantPad1d(2, 1.5)
        >>> tuple(layer(rl.ones(2, 4, 8)).shape)
        (2, 4, 12)
    """


class ConstantPad2d(_ConstantPadNd):
    """One value around images.

    Arguments:
        padding: elements added at each side
        value: what is put outside

    Shape:
        input (N, C, H, W) or (C, H, W); output with padding added to each of (H, W)

    Example:
        >>> layer = rl.nn.ConstantPad2d(2, 1.5)
        >>> tuple(layer(rl.ones(2, 4, 8, 8)).shape)
        (2, 4, 12, 12)
    """

    dims = 2


class ConstantPad3d(_ConstantPadNd):
    """One value around volumes.

    Arguments:
        padding: elements added at each side
        value: what is put outside

    Shape:
        input (N, C, D, H, W) or (C, D, H, W); output with padding added to each of (D, H, W)

    Example:
        >>> layer = rl.nn.ConstantPad3d(2, 1.5)
        >>> tuple(layer(rl.ones(2, 4, 8, 8, 8)).shape)
        (2, 4, 12, 12, 12)
    """

    dims = 3


class _ZeroPad:
    """Constant padding with zeros, printed by its padding alone."""

    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return str(self.padding)


class ZeroPad1d(_ZeroPad, ConstantPad1d):
    """Zeros around sequences.

    Arguments:
        padding: elements added at each side

    Shape:
        input (N, C, L) or (C, L); output with padding added to each of (L)

    Example:
        >>> layer = rl.nn.ZeroPad1d(2)
        >>> tuple(layer(rl.ones(2, 4, 8)).shape)
        (2, 4, 12)
    """


class ZeroPad2d(_ZeroPad, ConstantPad2d):
    """Zeros around images.

    Arguments:
        padding: elements added at each side

    Shape:
        input (N, C, H, W) or (C, H, W); output with padding added to each of (H, W)

    Example:
        >>> layer = rl.nn.ZeroPad2d(2)
        >>> tuple(layer(rl.ones(2, 4, 8, 8)).shape)
        (2, 4, 12, 12)
    """


class ZeroPad3d(_ZeroPad, ConstantPad3d):
    """Zeros around volumes.

    Arguments:
        padding: elements added at each side

    Shape:
        input (N, C, D, H, W) or (C, D, H, W); output with padding added to each of (D, H, W)

    Example:
        >>> layer = rl.nn.ZeroPad3d(2)
        >>> tuple(layer(rl.ones(2, 4, 8, 8, 8)).shape)
        (2, 4, 12, 12, 12)
    """


class _ReflectionPadNd(_PadNd):
    mode = "reflect"


class ReflectionPad1d(_ReflectionPadNd):
    """Sequences mirrored at their ends, which are not repeated.

    Arguments:
        padding: elements added at each side

    Shape:
        input (N, C, L) or (C, L); output with padding added to each of (L)

    Example:
        >>> layer = rl.nn.ReflectionPad1d(2)
        >>> tuple(layer(rl.ones(2, 4, 8)).shape)
        (2, 4, 12)
    """


class ReflectionPad2d(_ReflectionPadNd):
    """Images mirrored at their edges.

    Arguments:
        padding: elements added at each side

    Shape:
        input (N, C, H, W) or (C, H, W); output with padding added to each of (H, W)

    Example:
        >>> layer = rl.nn.ReflectionPad2d(2)
        >>> tuple(layer(rl.ones(2, 4, 8, 8)).shape)
        (2, 4, 12, 12)
    """

    dims = 2


class ReflectionPad3d(_ReflectionPadNd):
    """Volumes mirrored at their faces.

    Arguments:
        padding: elements added at each side

    Shape:
        input (N, C, D, H, W) or (C, D, H, W); output with padding added to each of (D, H, W)

    Example:
        >>> layer = rl.nn.ReflectionPad3d(2)
        >>> tuple(layer(rl.ones(2, 4, 8, 8, 8)).shape)
        (2, 4, 12, 12, 12)
    """

    dims = 3


class _ReplicationPadNd(_PadNd):
    mode = "replicate"


class ReplicationPad1d(_ReplicationPadNd):
    """Sequences continued by their ends.

    Arguments:
        padding: elements added at each side

    Shape:
        input (N, C, L) or (C, L); output with padding added to each of (L)

    Example:
        >>> layer = rl.nn.ReplicationPad1d(2)
        >>> tuple(layer(rl.ones(2, 4, 8)).shape)
        (2, 4, 12)
    """


class ReplicationPad2d(_ReplicationPadNd):
    """Images continued by their edges.

    Arguments:
        padding: elements added at each side

    Shape:
        input (N, C, H, W) or (C, H, W); output with padding added to each of (H, W)

    Example:
        >>> layer = rl.nn.ReplicationPad2d(2)
        >>> tuple(layer(rl.ones(2, 4, 8, 8)).shape)
        (2, 4, 12, 12)
    """

    dims = 2


class ReplicationPad3d(_ReplicationPadNd):
    """Volumes continued by their faces.

    Arguments:
        padding: elements added at each side

    Shape:
        input (N, C, D, H, W) or (C, D, H, W); output with padding added to each of (D, H, W)

    Example:
        >>> layer = rl.nn.ReplicationPad3d(2)
        >>> tuple(layer(rl.ones(2, 4, 8, 8, 8)).shape)
        (2, 4, 12, 12, 12)
    """

    dims = 3


class _CircularPadNd(_PadNd):
    mode = "circular"

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() not in (self.dims + 1, self.dims + 2):
            raise ValueError(f"expected {self.dims + 1}D or {self.dims + 2}D input (got {input.dim()}D input)")
        return F.pad(input, self.padding, "circular")


class CircularPad1d(_CircularPadNd):
    """Sequences continued from their other end.

    Arguments:
        padding: elements added at each side

    Shape:
        input (N, C, L) or (C, L); output with padding added to each of (L)

    Example:
        >>> layer = rl.nn.CircularPad1d(2)
        >>> tuple(layer(rl.ones(2, 4, 8)).shape)
        (2, 4, 12)
    """


class CircularPad2d(_CircularPadNd):
    """Images continued from their other edge.

    Arguments:
        padding: elements added at each side

    Shape:
        input (N, C, H, W) or (C, H, W); output with padding added to each of (H, W)

    Example:
        >>> layer = rl.nn.CircularPad2d(2)
        >>> tuple(layer(rl.ones(2, 4, 8, 8)).shape)
        (2, 4, 12, 12)
    """

    dims = 2


class CircularPad3d(_CircularPadNd):
    """Volumes continued from their other face.

    Arguments:
        padding: elements added at each side

    Shape:
        input (N, C, D, H, W) or (C, D, H, W); output with padding added to each of (D, H, W)

    Example:
        >>> layer = rl.nn.CircularPad3d(2)
        >>> tuple(layer(rl.ones(2, 4, 8, 8, 8)).shape)
        (2, 4, 12, 12, 12)
    """

    dims = 3
