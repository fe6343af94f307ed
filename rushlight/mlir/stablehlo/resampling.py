"""Samples of images at places that a tensor says: as gathers, and their gradients."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from ... import _C
from ...definitions.resample.grid import BICUBIC, BILINEAR, REFLECTION, SHARPNESS, ZEROS
from ...func import vjp
from ...op import find_op
from ..printing import Value
from .table import Call, rule


def sampled(input: Any, grid: Any, mode: int, padding: int, corners: bool) -> Any:
    """grid_sampler, written with ops: each sample mixes the elements around its place."""
    count = grid.shape[-1]
    sizes = input.shape[2:]
    axes = [taps(grid.select(-1, count - 1 - d), sizes[d], mode, padding, corners) for d in range(count)]
    flat, out = input.flatten(2), grid.shape[1:-1]
    total = None
    for chosen in itertools.product(*axes):
        place, inside, weight = None, None, None
        for (at, within, share), n in zip(chosen, sizes, strict=True):
            index = at.clamp(0, n - 1).to(_C.int64)
            place = index if place is None else place * n + index
            inside = within if inside is None else inside & within
            weight = share if weight is None else weight * share
        rows = place.reshape(place.shape[0], 1, -1).expand(-1, flat.shape[1], -1)
        x = flat.gather(2, rows).reshape(input.shape[0], input.shape[1], *out)
        part = x * weight.unsqueeze(1)
        part = part.where((inside & (weight != 0)).unsqueeze(1), part.new_zeros(()))
        total = part if total is None else total + part
    return total


def taps(g: Any, size: int, mode: int, padding: int, corners: bool) -> list[tuple[Any, Any, Any]]:
    """Along one dim: where elements are, whether there are such, and what each counts."""
    x = (g + 1) / 2 * (size - 1) if corners else ((g + 1) * size - 1) / 2
    if mode == BICUBIC:
        below = x.floor()
        t = x - below
        found = []
        for k, weight in zip((-1, 0, 1, 2), cubic(t), strict=True):
            at = bounded(below + k, size, padding, corners)
            found.append((at, (at >= 0) & (at <= size - 1), weight))
        return found
    x = bounded(x, size, padding, corners)
    if mode == BILINEAR:
        below = x.floor()
        pairs = [(below, 1 - (x - below)), (below + 1, x - below)]
    else:
        near = x.round()
        pairs = [(near, find_op("ones_like")(near))]
    return [(at, (at >= 0) & (at <= size - 1), weight) for at, weight in pairs]


def cubic(t: Any) -> list[Any]:
    """What four neighbours count, at a distance from the second."""
    a = SHARPNESS

    def near(d: Any) -> Any:
        return ((a + 2) * d - (a + 3)) * d * d + 1

    def far(d: Any) -> Any:
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


def bounded(x: Any, size: int, padding: int, corners: bool) -> Any:
    """A place moved into the image."""
    if padding == ZEROS:
        return x
    if padding == REFLECTION:
        low, span = (0.0, size - 1) if corners else (-0.5, size)
        if span <= 0:
            return x * 0
        away = (x - low).abs()
        rest = away.fmod(span)
        odd = (away / span).floor().remainder(2) != 0
        x = (span - rest).where(odd, rest) + low
    return x.clamp(0, size - 1)


@rule("grid_sampler_2d", "grid_sampler_3d")
def grid_sampler(call: Call, input: Value, grid: Value, interpolation_mode: int, padding_mode: int, align_corners: bool
                 ) -> Value:
    return call.expand(sampled, (input, grid, interpolation_mode, padding_mode, align_corners))


@rule("_grid_sampler_image")
def image_gradient(call: Call, g: Value, grid: Value, sizes: Sequence[int], *rest: Any, **named: Any) -> Value:
    form = (*rest, *named.values())

    def gradient(g: Any, grid: Any) -> Any:
        image = g.new_zeros((*g.shape[:2], *sizes))
        return vjp(lambda x: sampled(x, grid, *form), image)[1](g)[0]

    return call.expand(gradient, (g, grid))


@rule("_grid_sampler_grid")
def grid_gradient(call: Call, g: Value, input: Value, grid: Value, *rest: Any, **named: Any) -> Value:
    form = (*rest, *named.values())

    def gradient(g: Any, input: Any, grid: Any) -> Any:
        return vjp(lambda at: sampled(input, at, *form), grid)[1](g)[0]

    return call.expand(gradient, (g, input, grid))
