"""Weights of interpolation: which input positions each output position mixes, computed as PyTorch rounds them.

Enters: an axis of rule RESAMPLE (mode, corners, scale, precision, antialias). Leaves: its table of windows and weights.
Everything is computed in the precision the kernel computes in,
since a rounded position may decide which element is read.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

from rushlight.definitions.window.axes import RESAMPLE, Axis, Table, rules

NEAREST, NEAREST_EXACT, LINEAR, CUBIC, LANCZOS = range(5)
REACH = {LINEAR: 2, CUBIC: 4, LANCZOS: 6}     # input positions an antialiasing filter covers, unscaled
SHARPNESS, SMOOTH_SHARPNESS = -0.75, -0.5     # the cubic's parameter, without and with antialiasing


def to_bits(value: float | None) -> int:
    """A float as the integer an axis holds; 0 for none."""
    return 0 if value is None else struct.unpack("q", struct.pack("d", value))[0]


def from_bits(bits: int) -> float | None:
    """The float, or None."""
    return struct.unpack("d", struct.pack("q", bits))[0] if bits else None


def to_f32(value: float) -> float:
    """The nearest float32."""
    return struct.unpack("f", struct.pack("f", value))[0]


def as_is(value: float) -> float:
    """float64 keeps what Python computed."""
    return value


class Positions:
    """Where output positions lie in the input, rounded step by step."""

    def __init__(self, axis: Axis) -> None:
        self.mode, self.corners, self.antialias = axis.a, bool(axis.b), bool(axis.e)
        self.round: Callable[[float], float] = to_f32 if axis.d == 32 else as_is
        self.size, self.out = axis.size, axis.out
        self.scale = self.step(from_bits(axis.c))

    def step(self, factor: float | None) -> float:
        """Input positions per output position."""
        r = self.round
        if self.corners:
            return r(r(self.size - 1) / r(self.out - 1)) if self.out > 1 else 0.0
        return r(1.0 / factor) if factor is not None and factor > 0 else r(r(self.size) / r(self.out))

    def source(self, o: int) -> float:
        """The input position under output position `o`, before clipping."""
        # One rounding: compilers fuse this multiplication with the subtraction.
        return self.round(self.scale * o) if self.corners else self.round(self.scale * (o + 0.5) - 0.5)


def resample_windows(axis: Axis) -> Table:
    """RESAMPLE: a = mode, b = align_corners, c = bits of the scale factor, d = 32 or 64 bits, e = antialias."""
    places = Positions(axis)
    if places.antialias:
        return filtered(places)
    if places.mode in (NEAREST, NEAREST_EXACT):
        found = [nearest(places, o) for o in range(axis.out)]
        return Table(found, [1] * axis.out)
    pairs = [linear_taps(places, o) if places.mode == LINEAR else cubic_taps(places, o) for o in range(axis.out)]
    return windows_of(pairs, axis.size)


def nearest(places: Positions, o: int) -> int:
    """The one input position that is shown."""
    r = places.round
    if places.mode == NEAREST:
        at = r(o * places.scale)
    else:
        at = r(max(places.source(o), 0.0) + 0.5)
    return min(math.floor(to_f32(at)), places.size - 1)


def linear_taps(places: Positions, o: int) -> list[tuple[int, float]]:
    """Two neighbours and their weights."""
    if places.size == places.out:
        return [(o, 1.0)]
    at = max(places.source(o), 0.0)
    first = min(int(at), places.size - 1)
    far = min(max(places.round(at - first), 0.0), 1.0)
    return [(first, places.round(1.0 - far)), (min(first + 1, places.size - 1), far)]


def cubic_taps(places: Positions, o: int) -> list[tuple[int, float]]:
    """Four neighbours and the weights of cubic convolution."""
    at = places.source(o)
    first = min(math.floor(at), places.size - 1)
    t = min(max(places.round(at - first), 0.0), 1.0)
    weights = [cubic(t + 1, SHARPNESS), cubic(t, SHARPNESS), cubic(1 - t, SHARPNESS), cubic(2 - t, SHARPNESS)]
    return [(min(max(first - 1 + k, 0), places.size - 1), w) for k, w in enumerate(weights)]


def windows_of(pairs: list[list[tuple[int, float]]], size: int) -> Table:
    """Windows that hold the taps; taps at one position are added."""
    starts, counts, weights = [], [], []
    for taps in pairs:
        first, last = min(i for i, _ in taps), max(i for i, _ in taps)
        own = [0.0] * (last - first + 1)
        for i, w in taps:
            own[i - first] += w
        starts.append(first)
        counts.append(len(own))
        weights.append(own)
    return Table(starts, counts, weights)


# Filters
# ------------------------------------------------------------------------------------------------------------------


def triangle(x: float) -> float:
    """The filter of linear interpolation."""
    return max(0.0, 1.0 - abs(x))


def cubic(x: float, a: float) -> float:
    """The filter of cubic convolution."""
    x = abs(x)
    if x < 1:
        return ((a + 2) * x - (a + 3)) * x * x + 1
    return (((x - 5) * x + 8) * x - 4) * a if x < 2 else 0.0


def lanczos(x: float) -> float:
    """A windowed sinc with three lobes."""
    return sinc(x) * sinc(x / 3) if -3 < x < 3 else 0.0


def sinc(x: float) -> float:
    """sin(pi x) / (pi x)."""
    return math.sin(math.pi * x) / (math.pi * x) if x else 1.0


FILTERS: dict[int, Callable[[float], float]] = {
    LINEAR: triangle,
    CUBIC: lambda x: cubic(x, SMOOTH_SHARPNESS),
    LANCZOS: lanczos,
}


def filtered(places: Positions) -> Table:
    """Windows that widen when the image shrinks, with weights that add up to 1."""
    r, scale = places.round, places.scale
    wide = scale >= 1
    support = r(REACH[places.mode] * 0.5 * scale) if wide else REACH[places.mode] * 0.5
    inverse = r(1.0 / scale) if wide else 1.0
    starts, counts, weights = [], [], []
    for o in range(places.out):
        center = r(scale * (o + 0.5))
        first = max(int(r(center - support) + 0.5), 0)
        last = min(int(r(center + support) + 0.5), places.size)
        own = [FILTERS[places.mode](r((k + first - center + 0.5) * inverse)) for k in range(max(1, last - first))]
        total = math.fsum(own)
        starts.append(first)
        counts.append(len(own))
        weights.append([w / total if total else w for w in own])
    return Table(starts, counts, weights)


rules[RESAMPLE] = resample_windows
