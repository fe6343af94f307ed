"""Sliding windows as columns, and back.

Enters: images, or columns. Leaves: columns, or images. Refuses what the functions they call refuse.
"""

from __future__ import annotations

from typing import Any

from ..._C import Tensor
from .. import functional as F
from .descriptions import describe_layers
from .module import Module
from .settings import settings


class Fold(Module):
    """Columns of sliding windows summed back into images.

    Arguments:
        output_size: height and width of the images

    Shape:
        columns (N, C times the window's elements, L); images (N, C, *output_size)

    Example:
        >>> layer = rl.nn.Fold((4, 4), 2, stride=2)
        >>> tuple(layer(rl.ones(1, 12, 4)).shape)
        (1, 3, 4, 4)
    """

    def __init__(
        self, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
    ) -> None:
        super().__init__()
        self.output_size = output_size
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Tensor) -> Tensor:
        return F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return settings(self, "output_size", "kernel_size", "dilation", "padding", "stride")


class Unfold(Module):
    """Sliding windows of images as columns.

    Shape:
        images (N, C, H, W); columns (N, C times the window's elements, L)

    Example:
        >>> layer = rl.nn.Unfold(2, stride=2)
        >>> tuple(layer(rl.ones(1, 3, 4, 4)).shape)
        (1, 12, 4)
    """

    def __init__(self, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Tensor) -> Tensor:
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return settings(self, "kernel_size", "dilation", "padding", "stride")


describe_layers(globals())
