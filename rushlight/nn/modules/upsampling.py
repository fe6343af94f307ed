"""Images at another size.

Enters: sequences, images or volumes. Leaves: the same at another size. Refuses what the functions they call refuse.
"""

from __future__ import annotations

from typing import Any

from ..._C import Tensor
from .. import functional as F
from .descriptions import describe_layers
from .module import Module


class Upsample(Module):
    """Images (sequences, volumes) at another size, given as sizes or factors.

    Arguments:
        mode: `nearest`, `linear`, `bilinear`, `bicubic`, `trilinear` or `nearest-exact`
        align_corners: whether corner pixels keep their values
        recompute_scale_factor: whether the factor is computed anew from the rounded sizes

    Shape:
        input (N, C, ...) with one to three sizes; output (N, C, ...) with each size given or scaled

    Example:
        >>> layer = rl.nn.Upsample(scale_factor=2)
        >>> tuple(layer(rl.ones(1, 2, 4, 4)).shape)
        (1, 2, 8, 8)
    """

    def __init__(
        self, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.name = type(self).__name__
        self.size = size
        self.scale_factor = (
            tuple(float(f) for f in scale_factor)
            if isinstance(scale_factor, tuple)
            else float(scale_factor) if scale_factor else None
        )
        self.mode = mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({"recompute_scale_factor": True, **state})

    def forward(self, input: Tensor) -> Tensor:
        return F.interpolate(
            input,
            self.size,
            self.scale_factor,
            self.mode,
            self.align_corners,
            recompute_scale_factor=self.recompute_scale_factor,
        )

    def extra_repr(self) -> str:
        size = f"scale_factor={self.scale_factor!r}" if self.scale_factor is not None else f"size={self.size!r}"
        return f"{size}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """The nearest pixel.

    Example:
        >>> layer = rl.nn.UpsamplingNearest2d(scale_factor=2)
        >>> tuple(layer(rl.ones(1, 2, 4, 4)).shape)
        (1, 2, 8, 8)
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Between the four pixels around, corners on corners.

    Example:
        >>> layer = rl.nn.UpsamplingBilinear2d(scale_factor=2)
        >>> tuple(layer(rl.ones(1, 2, 4, 4)).shape)
        (1, 2, 8, 8)
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)


describe_layers(globals())
