"""Layer, group, RMS and local response normalization.

Enters: [N, C, …] (layer and RMS norm: any leading dims). Leaves: the same shape, shifted and scaled.
Refuses what the functions they call refuse.
"""

from __future__ import annotations

import numbers
from typing import Any

from ..._C import Tensor
from ...op import find_op
from .. import functional as F, init
from ..parameter import Parameter
from .descriptions import describe_layers
from .module import Module
from .settings import register_scale, settings

_empty = find_op("empty")


class LocalResponseNorm(Module):
    """Every channel divided by a power of the energy of its neighbours.

    Arguments:
        size: channels in a window
        alpha: weight of the sum of squares
        beta: exponent
        k: added before the power is taken

    Shape:
        input (N, C, H, W); output of the same shape

    Example:
        >>> layer = rl.nn.LocalResponseNorm(2)
        >>> tuple(layer(rl.ones(2, 4, 8, 8)).shape)
        (2, 4, 8, 8)
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, " + settings(self, "alpha", "beta", "k")


class CrossMapLRN2d(Module):
    """LocalResponseNorm of images whose window is cut off at the first and last channel, as older networks had it.

    Arguments:
        size: channels in a window
        alpha: weight of the sum of squares
        beta: exponent
        k: added before the power is taken

    Shape:
        input (N, C, H, W); output of the same shape

    Example:
        >>> layer = rl.nn.CrossMapLRN2d(2)
        >>> tuple(layer(rl.ones(2, 4, 8, 8)).shape)
        (2, 4, 8, 8)
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() != 4:
            raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {input.dim()}D instead.")
        reach = (self.size - 1) // 2  # an even size counts as the odd one below it
        square = input * input
        energy = F.pad(square, (0, 0, 0, 0, reach, reach)).unfold(1, 2 * reach + 1, 1).sum(-1)
        # PyTorch's running window never lets go of channel 0; its numbers are the ones trained networks know.
        later = input.size(1) - reach - 1
        if later > 0:
            energy = energy + F.pad(square[:, :1].expand(-1, later, -1, -1), (0, 0, 0, 0, reach + 1, 0))
        return input * (self.k + energy * (self.alpha / self.size)) ** -self.beta

    def extra_repr(self) -> str:
        return f"{self.size}, " + settings(self, "alpha", "beta", "k")


def _shape(normalized_shape: Any) -> tuple[int, ...]:
    return (normalized_shape,) if isinstance(normalized_shape, numbers.Integral) else tuple(normalized_shape)


class LayerNorm(Module):
    """Mean 0 and variance 1 over the last dims, then scaled and shifted.

    Shape:
        input (..., *normalized_shape); output of the same shape

    Example:
        >>> layer = rl.nn.LayerNorm(8)
        >>> tuple(layer(rl.ones(2, 4, 8)).shape)
        (2, 4, 8)
    """

    __constants__ = ("normalized_shape", "eps", "elementwise_affine")

    def __init__(
        self,
        normalized_shape: Any,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        register_scale(self, self.normalized_shape, elementwise_affine, bias, {"device": device, "dtype": dtype})
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Scale 1, shift 0."""
        if self.elementwise_affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, "
            + settings(self, "eps", "elementwise_affine")
            + f", bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """Divided by the root of the mean square over the last dims, then scaled.

    Shape:
        input (..., *normalized_shape); output of the same shape

    Example:
        >>> layer = rl.nn.RMSNorm(8)
        >>> tuple(layer(rl.ones(2, 4, 8)).shape)
        (2, 4, 8)
    """

    def __init__(
        self,
        normalized_shape: Any,
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self.register_parameter(
            "weight",
            Parameter(_empty(self.normalized_shape, device=device, dtype=dtype)) if elementwise_affine else None,
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Scale 1."""
        if self.elementwise_affine:
            init.ones_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, " + settings(self, "eps", "elementwise_affine")


class GroupNorm(Module):
    """Mean 0 and variance 1 within groups of channels, then scaled and shifted per channel.

    Arguments:
        num_groups: into how many groups the channels are divided
        num_channels: channels of the input

    Shape:
        input (N, num_channels, ...); output of the same shape

    Example:
        >>> layer = rl.nn.GroupNorm(2, 4)
        >>> tuple(layer(rl.ones(2, 4, 8)).shape)
        (2, 4, 8)
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        register_scale(self, (num_channels,), affine, bias, {"device": device, "dtype": dtype})
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Scale 1, shift 0."""
        if self.affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.num_channels}, "
            + settings(self, "eps", "affine")
            + f", bias={self.bias is not None}"
        )


describe_layers(globals())
