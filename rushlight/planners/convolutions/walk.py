"""What a convolution walks over: windows, their places along each dim, and where operands lie.

Enters: sizes, strides and a `Window`. Leaves: `Walk` and `Weights`, records from which the planners (convolve.py,
convolutions/tiles.py) make steps. Refuses nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from itertools import product as combinations
from math import ceil, gcd, prod
from typing import Any

from ...codegen.library.convolution import convolve, micro_kernel
from ...loops.record import Record

# What gives the address of a kernel, with what is to come behind it, and its operands: of an interface, a type, a shape
# of tiles, and the operands without what comes behind.
Finisher = Callable[..., tuple[int, list[Any]]]
WORK = 1 << 20           # multiply-adds worth a chunk


class Window(Record):
    """Kernel sizes and how they are moved over the (padded) input, one number per spatial dimension."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int


class Axis(Record):
    """One spatial dimension of a walk: pixel t of `count` and tap j of `taps` meet at source index t * step + base + j
    * tap_step.

    Pixel t is element `first + t * every` of the result, tap j element `tap_first + j * tap_every` of the kernel.
    """

    size: int
    count: int
    step: int
    base: int
    taps: int
    tap_step: int
    first: int = 0
    every: int = 1
    tap_first: int = 0
    tap_every: int = 1

    def columns(self, tap: int) -> tuple[int, int]:
        """Pixels [low, high) for which a tap is inside the source."""
        at = self.base + tap * self.tap_step
        low = min(max(0, -(at // self.step)), self.count)
        return low, min(max(low, -((at - self.size) // self.step)), self.count)

    @property
    def is_plain(self) -> bool:
        """Whether every pixel sees the source element of its own index, and nothing else."""
        return (self.taps, self.step, self.base, self.first, self.every) == (1, 1, 0, 0, 1) and self.size == self.count


def forward_axes(sizes: tuple[int, ...], outs: tuple[int, ...], window: Window) -> list[Axis]:
    """The walk of a convolution: one Axis per dimension."""
    spatial = zip(sizes, outs, window.kernel, window.stride, window.padding, window.dilation, strict=True)
    return [Axis(n, o, s, -p, k, d) for n, o, k, s, p, d in spatial]


def mirrored_axes(sizes: tuple[int, ...], outs: tuple[int, ...], window: Window) -> list[list[Axis]]:
    """The walks of the transposed convolution from `sizes` to `outs`: per dimension,
    one Axis per remainder of the stride."""
    found = []
    for n, o, k, s, p, d in zip(
        sizes, outs, window.kernel, window.stride, window.padding, window.dilation, strict=True
    ):
        shared = gcd(s, d)
        every, axes = s // shared, []
        for remainder in range(s):
            first = (remainder - p) % s
            if first >= o:
                continue
            count = ceil((o - first) / s)
            tap = next((t for t in range(min(every, k)) if (d * t - remainder) % s == 0), k)
            taps = ceil((k - tap) / every)
            base = (first + p - d * tap) // s
            axes.append(Axis(n, count, 1, base, taps, -(d // shared), first, s, tap, every))
        found.append(axes)
    return found


class Array(Record):
    """An operand as the kernels see it: strides in elements of image, group, channel and three spatial dimensions."""

    slot: int
    image: int
    group: int
    channel: int
    spatial: tuple[int, ...]
    offset: int = 0


def array_of(slot: int, strides: tuple[int, ...], channels: int) -> Array:
    """Array for strides (image, channel, spatial...); a group holds `channels` channels."""
    return Array(slot, strides[0], strides[1] * channels, strides[1], tuple(strides[2:]))


class Walk(Record):
    """One kernel call's geometry: the axes with the strides of source and result along them."""

    axes: tuple[Axis, ...]
    source: Array
    result: Array
    images: int
    groups: int
    channels: int
    outs: int

    def collapsed(self) -> Walk:
        """The same walk in three dimensions: plain neighbours joined, so that runs of pixels are long;
        ones in front."""
        axes, source, result = list(self.axes), list(self.source.spatial), list(self.result.spatial)
        while (
            len(axes) > 1
            and axes[-1].is_plain
            and axes[-2].is_plain
            and source[-2] == source[-1] * axes[-1].size
            and result[-2] == result[-1] * axes[-1].size
        ):
            size = axes[-1].size * axes[-2].size
            axes[-2:] = [Axis(size, size, 1, 0, 1, 1)]
            source[-2:], result[-2:] = source[-1:], result[-1:]
        missing = 3 - len(axes)
        axes = [Axis(1, 1, 1, 0, 1, 1)] * missing + axes
        return Walk(
            tuple(axes),
            Array(self.source.slot, self.source.image, self.source.group, self.source.channel,
                  (0,) * missing + tuple(source), self.source.offset),
            Array(self.result.slot, self.result.image, self.result.group, self.result.channel,
                  (0,) * missing + tuple(result), self.result.offset),
            self.images, self.groups, self.channels, self.outs,
        )

    @property
    def taps(self) -> int:
        return prod(a.taps for a in self.axes)

    @property
    def rows(self) -> int:
        return self.channels * self.taps

    @property
    def pixels(self) -> int:
        return self.images * prod(a.count for a in self.axes)

    def params(self) -> list[int]:
        """Values of the kernels' geometry."""
        d, h, w = self.axes
        s, r = self.source, self.result
        return [
            self.outs, self.taps, self.rows, d.size, h.size, d.step, h.step, d.base, h.base,
            s.image, s.group, s.channel, s.spatial[0], s.spatial[1], w.step * s.spatial[2], w.base * s.spatial[2],
            d.count, h.count, w.count, self.pixels,
            r.image, r.group, r.channel, *(n * a.every for n, a in zip(r.spatial, self.axes, strict=True)), w.taps,
        ]

    def table(self) -> bytes:
        """The taps, as the kernels read them."""
        entries: list[int] = []
        strides = self.source.spatial
        for taps in combinations(*(range(a.taps) for a in self.axes)):
            dz, dy, dx = (t * a.tap_step for t, a in zip(taps, self.axes, strict=True))
            entries += [dz * strides[0] + dy * strides[1] + dx * strides[2], dz, dy, *self.axes[2].columns(taps[2])]
        return struct.pack(f"<{len(entries)}q", *entries)

    def place(self, itemsize: int) -> tuple[int, int]:
        """The result's operand: its slot, and bytes to the first pixel."""
        first = sum(a.first * n for a, n in zip(self.axes, self.result.spatial, strict=True))
        return self.result.slot, (self.result.offset + first) * itemsize


class Weights(Record):
    """Strides of a weight in the roles it plays: of groups, of the walk's outputs, of its channels, of taps."""

    slot: int
    group: int
    out: int
    channel: int
    spatial: tuple[int, ...]


def near_rows(rows: int) -> int:
    """Window rows whose products are summed one after the other: slices of about equal size,
    whole turns of the kernel's loop."""
    if rows <= convolve.NEAR_MOST:
        return rows
    return ceil(rows / ceil(rows / convolve.NEAR) / micro_kernel.STEPS) * micro_kernel.STEPS
