"""Channels and pixels exchanged: pixel_shuffle, pixel_unshuffle, channel_shuffle.

Enters: images [..., channels, height, width]. Leaves: the same elements in another order, written in one pass: with
channels last where the input had them there. Refuses: channel counts and sizes that the factor does not divide.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...loops.expr import Value, const, idiv, irem
from ...loops.inline import row_major
from ...loops.lowered import At, Lowered, Memory, Piece
from ...op import Loops, find_op
from ...op.layout import channels_last_strides
from ..window.layout import is_channels_last

# Of a box: the result's dim it runs along, its size, its steps in the input and in the result.
Dims = list[tuple[int, int, int, int]]


class Exchange(Loops):
    """What the three share: a box of more dims than images have, for positions that count by several of them."""

    method = False
    batch = "leading"

    def sizes(self, input: Any, factor: int) -> tuple[int, ...]:
        """Those of the result; raises for what the factor does not fit."""
        raise NotImplementedError

    def box(self, input: Any, factor: int, into: Sequence[int]) -> Dims:
        """The dims of the box that are not the input's own, by the result's strides."""
        raise NotImplementedError

    def place(self, at: At, factor: Value, shape: Sequence[Value]) -> tuple[Value, ...]:
        """Where the element of the result at `at` is in the input, whose run-time sizes are given."""
        raise NotImplementedError

    def lower(self, args: tuple) -> Lowered:
        input, factor = args
        shape, strides = self.sizes(input, factor), tuple(input.stride())
        channels = is_channels_last(input, 2)
        layout = channels_last_strides(shape) if channels else None
        into = row_major(shape) if layout is None else layout
        changed = self.box(input, factor, into)
        kept = [(d, shape[d], strides[d], into[d]) for d in range(len(shape)) if d not in {dim[0] for dim in changed}]
        order = (0, *range(2, len(shape)), 1) if channels else range(len(shape))     # neighbours in memory come last
        dims = [dim for d in order for dim in (*kept, *changed) if dim[0] == d]
        _, sizes, steps, targets = zip(*dims, strict=True)
        whole = Piece(0, (0,) * len(shape), sizes, steps, steps=targets)

        def body(at: At, sources: Any) -> tuple:
            return (sources[0][self.place(at, const(factor, "i64"), sources[0].shape)],)

        memory = Memory("input", input.dtype.code, tuple(input.shape), strides)
        key = (self.spec.name, len(shape), factor)
        return Lowered(self.spec.name, key, shape, shape, (input.dtype.code,), (memory,), body, aligned=False,
                       pieces=(whole,), layout=layout)


class PixelShuffle(Exchange):
    """[*, C r r, H, W] to [*, C, H r, W r]: channels become pixels."""

    schema = "pixel_shuffle(Tensor input, int upscale_factor) -> Tensor"
    aliases = ("nn.functional.pixel_shuffle",)

    def sizes(self, input, factor):
        if input.ndim < 3:
            raise RuntimeError(f"pixel_shuffle: expected an input with at least 3 dimensions, got {input.ndim}")
        if factor <= 0:
            raise RuntimeError(f"pixel_shuffle: expected upscale_factor above 0, got {factor}")
        *lead, c, h, w = input.shape
        if c % (factor * factor):
            raise RuntimeError(
                f"pixel_shuffle: expected channels divisible by upscale_factor ** 2, got {c} and {factor}"
            )
        return (*lead, c // (factor * factor), h * factor, w * factor)

    def box(self, input, factor, into):
        (c, h, w), (channel, line, pixel), d = input.shape[-3:], input.stride()[-3:], input.ndim - 3
        return [(d, c // (factor * factor), channel * factor * factor, into[d]),
                (d + 1, h, line, into[d + 1] * factor), (d + 1, factor, channel * factor, into[d + 1]),
                (d + 2, w, pixel, into[d + 2] * factor), (d + 2, factor, channel, into[d + 2])]

    def place(self, at, factor, shape):
        *lead, c, y, x = at
        return (*lead, (c * factor + irem(y, factor)) * factor + irem(x, factor), idiv(y, factor), idiv(x, factor))

    def vjp(self, g, upscale_factor):
        return {"input": find_op("pixel_unshuffle")(g, upscale_factor)}


class PixelUnshuffle(Exchange):
    """[*, C, H r, W r] to [*, C r r, H, W]: pixels become channels."""

    schema = "pixel_unshuffle(Tensor input, int downscale_factor) -> Tensor"
    aliases = ("nn.functional.pixel_unshuffle",)

    def sizes(self, input, factor):
        if input.ndim < 3:
            raise RuntimeError(f"pixel_unshuffle: expected an input with at least 3 dimensions, got {input.ndim}")
        if factor <= 0:
            raise RuntimeError(f"pixel_unshuffle: expected downscale_factor above 0, got {factor}")
        *lead, c, h, w = input.shape
        for label, size in (("height", h), ("width", w)):
            if size % factor:
                raise RuntimeError(
                    f"pixel_unshuffle: expected the {label} to be a multiple of downscale_factor {factor}, got {size}"
                )
        return (*lead, c * factor * factor, h // factor, w // factor)

    def box(self, input, factor, into):
        (c, h, w), (channel, line, pixel), d = input.shape[-3:], input.stride()[-3:], input.ndim - 3
        return [(d, c, channel, into[d] * factor * factor), (d, factor, line, into[d] * factor),
                (d, factor, pixel, into[d]), (d + 1, h // factor, line * factor, into[d + 1]),
                (d + 2, w // factor, pixel * factor, into[d + 2])]

    def place(self, at, factor, shape):
        *lead, c, y, x = at
        line, pixel = irem(idiv(c, factor), factor), irem(c, factor)
        return (*lead, idiv(c, factor * factor), y * factor + line, x * factor + pixel)

    def vjp(self, g, downscale_factor):
        return {"input": find_op("pixel_shuffle")(g, downscale_factor)}


class ChannelShuffle(Exchange):
    """Channels of `groups` groups dealt out in turn."""

    schema = "channel_shuffle(Tensor input, int groups) -> Tensor"
    aliases = ("nn.functional.channel_shuffle",)
    batch = "fold"

    def sizes(self, input, groups):
        if input.ndim < 3:
            raise RuntimeError(f"{self.name}: expected an input with 3 dims or more, got sizes {list(input.shape)}")
        if groups <= 0:
            raise RuntimeError(f"{self.name}: expected groups above 0, got {groups}")
        if input.shape[1] % groups:
            raise RuntimeError(f"{self.name}: expected channels divisible by groups, got {input.shape[1]} and {groups}")
        return tuple(input.shape)

    def box(self, input, groups, into):
        each, channel = input.shape[1] // groups, input.stride(1)
        return [(1, each, channel, into[1] * groups), (1, groups, channel * each, into[1])]

    def place(self, at, groups, shape):
        first, c, *rest = at
        return (first, irem(c, groups) * idiv(shape[1], groups) + idiv(c, groups), *rest)

    def vjp(self, g, groups):
        return {"input": find_op("channel_shuffle")(g, g.shape[1] // groups)}


class NativeChannelShuffle(ChannelShuffle):
    """channel_shuffle under the name its derivative is registered with in PyTorch."""

    schema = "native_channel_shuffle(Tensor input, int groups) -> Tensor"
    aliases = ("nn.functional.native_channel_shuffle",)
