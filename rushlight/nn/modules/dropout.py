"""Dropout layers: while training, each calls the function of its name.

Enters: a tensor. Leaves: the tensor with elements, or whole channels, zeroed at random and the rest scaled; in
evaluation mode, the tensor itself. Refuses probabilities outside [0, 1].

Shape:
    input of any shape; output of the same shape

Example:
    >>> layer = rl.nn.{name}()
    >>> tuple(layer(rl.ones(2, 3)).shape)
    (2, 3)
"""

from __future__ import annotations

from ..._C import Tensor
from .. import functional as F
from .descriptions import describe_layers
from .module import Module
from .settings import settings


class _DropoutNd(Module):
    __constants__ = ("p", "inplace")

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if p < 0 or p > 1:
            raise ValueError(f"p: expected a probability between 0 and 1, got {p}")
        self.p = p
        self.inplace = inplace

    def extra_repr(self) -> str:
        return settings(self, "p", "inplace")


class Dropout(_DropoutNd):
    """Zeroes single elements."""

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_DropoutNd):
    """Zeroes whole channels of sequences.

    Shape:
        input (N, C, L) or (C, L); output of the same shape

    Example:
        >>> layer = rl.nn.Dropout1d(0.5)
        >>> tuple(layer(rl.ones(2, 4, 8)).shape)
        (2, 4, 8)
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_DropoutNd):
    """Zeroes whole channels of images.

    Shape:
        input (N, C, H, W) or (C, H, W); output of the same shape

    Example:
        >>> layer = rl.nn.Dropout2d(0.5)
        >>> tuple(layer(rl.ones(2, 4, 8, 8)).shape)
        (2, 4, 8, 8)
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_DropoutNd):
    """Zeroes whole channels of volumes.

    Shape:
        input (N, C, D, H, W) or (C, D, H, W); output of the same shape

    Example:
        >>> layer = rl.nn.Dropout3d(0.5)
        >>> tuple(layer(rl.ones(2, 4, 8, 8, 8)).shape)
        (2, 4, 8, 8, 8)
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_DropoutNd):
    """Dropout that keeps mean 0 and variance 1, for SELU networks."""

    def forward(self, input: Tensor) -> Tensor:
        return F.alpha_dropout(input, self.p, self.training)


class FeatureAlphaDropout(_DropoutNd):
    """AlphaDropout of whole channels."""

    def forward(self, input: Tensor) -> Tensor:
        return F.feature_alpha_dropout(input, self.p, self.training)


describe_layers(globals())
