"""Channels and pixels exchanged: pixel_shuffle, pixel_unshuffle, channel_shuffle.

Enters: images [..., channels, height, width]. Leaves: the same elements in another order: views, and one copy.
Refuses: channel counts and sizes that the factor does not divide.
"""

from __future__ import annotations

from typing import Any

from ...base.shape import contiguous_format
from ...op import Composite
from ..window.layout import in_order, is_channels_last


def like(result: Any, input: Any) -> Any:
    """The result with channels last if the input had them there."""
    return in_order(result, True) if is_channels_last(input, 2) else result


class PixelShuffle(Composite):
    """[*, C r r, H, W] to [*, C, H r, W r]: channels become pixels."""

    schema = "pixel_shuffle(Tensor input, int upscale_factor) -> Tensor"
    aliases = ("nn.functional.pixel_shuffle",)
    method = False

    def compute(self, input, upscale_factor):
        r = upscale_factor
        if input.ndim < 3:
            raise RuntimeError(f"pixel_shuffle: expected an input with at least 3 dimensions, got {input.ndim}")
        if r <= 0:
            raise RuntimeError(f"pixel_shuffle: expected upscale_factor above 0, got {r}")
        if r == 1:
            return input.clone() if is_channels_last(input, 2) else input.clone(memory_format=contiguous_format)
        *lead, c, h, w = input.shape
        if c % (r * r):
            raise RuntimeError(f"pixel_shuffle: expected channels divisible by upscale_factor ** 2, got {c} and {r}")
        parts = input.reshape((*lead, c // (r * r), r, r, h, w))
        n = len(lead)
        order = (*range(n + 1), n + 3, n + 1, n + 4, n + 2)
        return like(parts.permute(order).reshape((*lead, c // (r * r), h * r, w * r)), input)


class PixelUnshuffle(Composite):
    """[*, C, H r, W r] to [*, C r r, H, W]: pixels become channels."""

    schema = "pixel_unshuffle(Tensor input, int downscale_factor) -> Tensor"
    aliases = ("nn.functional.pixel_unshuffle",)
    method = False

    def compute(self, input, downscale_factor):
        r = downscale_factor
        if input.ndim < 3:
            raise RuntimeError(f"pixel_unshuffle: expected an input with at least 3 dimensions, got {input.ndim}")
        if r <= 0:
            raise RuntimeError(f"pixel_unshuffle: expected downscale_factor above 0, got {r}")
        if r == 1:
            return input.clone() if is_channels_last(input, 2) else input.clone(memory_format=contiguous_format)
        *lead, c, h, w = input.shape
        for label, size in (("height", h), ("width", w)):
            if size % r:
                raise RuntimeError(
                    f"pixel_unshuffle: expected the {label} to be a multiple of downscale_factor {r}, got {size}"
                )
        parts = input.reshape((*lead, c, h // r, r, w // r, r))
        n = len(lead)
        order = (*range(n + 1), n + 2, n + 4, n + 1, n + 3)
        return like(parts.permute(order).reshape((*lead, c * r * r, h // r, w // r)), input)


class ChannelShuffle(Composite):
    """Channels of `groups` groups dealt out in turn."""

    schema = "channel_shuffle(Tensor input, int groups) -> Tensor"
    aliases = ("nn.functional.channel_shuffle",)
    method = False

    def compute(self, input, groups):
        if input.ndim < 3:
            raise RuntimeError(f"{self.name}: expected an input with 3 dims or more, got sizes {list(input.shape)}")
        if groups <= 0:
            raise RuntimeError(f"{self.name}: expected groups above 0, got {groups}")
        n, c, *rest = input.shape
        if c % groups:
            raise RuntimeError(f"{self.name}: expected channels divisible by groups, got {c} and {groups}")
        result = input.reshape((n, groups, c // groups, *rest)).transpose(1, 2).reshape((n, c, *rest))
        return like(result, input)


class NativeChannelShuffle(ChannelShuffle):
    """channel_shuffle under the name its derivative is registered with in PyTorch."""

    schema = "native_channel_shuffle(Tensor input, int groups) -> Tensor"
    aliases = ("nn.functional.native_channel_shuffle",)
