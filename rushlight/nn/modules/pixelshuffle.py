"""Channels for resolution, and back.

Enters: images. Leaves: images with more or fewer pixels. Refuses what the functions they call refuse.
"""

from __future__ import annotations

from ..._C import Tensor
from .. import functional as F
from .descriptions import describe_layers
from .module import Module
from .settings import settings


class PixelShuffle(Module):
    """Channels spread over a finer grid of pixels.

    Arguments:
        upscale_factor: how much larger the image is

    Shape:
        input (N, C r r, H, W); output (N, C, r H, r W), r the factor

    Example:
        >>> layer = rl.nn.PixelShuffle(2)
        >>> tuple(layer(rl.ones(1, 4, 2, 2)).shape)
        (1, 1, 4, 4)
    """

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        return settings(self, "upscale_factor")


class PixelUnshuffle(Module):
    """Pixels gathered into channels of a coarser grid.

    Arguments:
        downscale_factor: how much smaller the image is

    Shape:
        input (N, C, r H, r W); output (N, C r r, H, W), r the factor

    Example:
        >>> layer = rl.nn.PixelUnshuffle(2)
        >>> tuple(layer(rl.ones(1, 1, 4, 4)).shape)
        (1, 4, 2, 2)
    """

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        return settings(self, "downscale_factor")


describe_layers(globals())
