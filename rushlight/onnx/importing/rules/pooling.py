"""Pooling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

from .... import _C, ops
from ..hosts import as_tuple
from ..table import rule
from .convolutions import margins, padded_input

aten = ops.aten


def _windows(x: Any, kernel: Sequence[int], strides: Sequence[int] | None, dilations: Sequence[int] | None,
             pads: Sequence[int] | None, auto_pad: str, ceil_mode: int) -> tuple:
    """Strides, dilations, margins and how many windows each dim has."""
    rank = len(kernel)
    strides, dilations = list(strides or [1] * rank), list(dilations or [1] * rank)
    sizes = tuple(x.shape)[2:]
    before, after = margins(sizes, kernel, strides, dilations, pads, auto_pad)
    counts = []
    for n, k, s, d, b, a in zip(sizes, kernel, strides, dilations, before, after, strict=True):
        room = n + b + a - (k - 1) * d - 1
        count = (-(-room // s) if ceil_mode else room // s) + 1
        # A window that would begin in the margin at the end does not count.
        if ceil_mode and (count - 1) * s >= n + b:
            count -= 1
        counts.append(count)
    return strides, dilations, before, after, counts


def _is_plain(before: Sequence[Any], after: Sequence[Any], kernel: Sequence[int], dilations: Sequence[int]) -> bool:
    return all(isinstance(b, int) and isinstance(a, int) and b == a and 2 * b <= k
               for b, a, k in zip(before, after, kernel, strict=True))


def _taps(x: Any, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int], before: Sequence[Any],
          after: Sequence[Any], counts: Sequence[Any], filler: float) -> list[Any]:
    """For each element of the window, what lies under it."""
    room = [max((c - 1) * s + (k - 1) * d + 1 - n - b, a) for c, s, k, d, n, b, a in zip(
        counts, strides, kernel, dilations, tuple(x.shape)[2:], before, after, strict=True)]
    x = padded_input(x, before, room, filler)
    found = []
    for place in product(*[range(k) for k in kernel]):
        part = x
        for d, at in enumerate(place):
            begin = at * dilations[d]
            part = aten.slice(part, d + 2, begin, begin + (counts[d] - 1) * strides[d] + 1, strides[d])
        found.append(part)
    return found


POOLS = {1: aten.max_pool1d, 2: aten.max_pool2d, 3: aten.max_pool3d}
AVERAGES = {1: aten.avg_pool1d, 2: aten.avg_pool2d, 3: aten.avg_pool3d}


def _max_gives(numbers: Sequence[int], settings: Any) -> list[int]:
    return [numbers[0], 7]


@rule("MaxPool", gives=_max_gives)
def max_pool(x: Any, *, kernel_shape: Sequence[int], auto_pad: str = "NOTSET", ceil_mode: int = 0,
             dilations: Sequence[int] | None = None, pads: Sequence[int] | None = None, storage_order: int = 0,
             strides: Sequence[int] | None = None, count: int) -> tuple:
    kernel = list(kernel_shape)
    strides, dilations, before, after, counts = _windows(x, kernel, strides, dilations, pads, auto_pad, ceil_mode)
    if count == 1 and x.dtype.is_floating_point and _is_plain(before, after, kernel,
                                                              dilations) and len(kernel) in POOLS:
        return (POOLS[len(kernel)](x, kernel, strides, before, dilations, bool(ceil_mode)),)
    is_float = x.dtype.is_floating_point
    wide = x if is_float else x.to(_C.float32 if x.dtype.itemsize < 3 else _C.float64)
    taps = aten.stack(_taps(wide, kernel, strides, dilations, before, after, counts, float("-inf")), 0)
    if count == 1:
        return (aten.amax(taps, [0]).to(x.dtype),)
    values, which = aten.max(taps, 0)
    return values.to(x.dtype), _places(x, which, kernel, strides, dilations, before, counts, storage_order)


def _places(x: Any, which: Any, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int],
            before: Sequence[int], counts: Sequence[int], by_columns: int) -> Any:
    """Where in x the maximum of each window lies, x counted in one dim."""
    rank, sizes = len(kernel), tuple(x.shape)[2:]
    coordinates = []
    rest = which
    for d in reversed(range(rank)):
        tap = aten.remainder(rest, kernel[d])
        rest = aten.div(rest, kernel[d], rounding_mode="floor")
        begin = aten.reshape(aten.arange(counts[d], device=x.device) * strides[d] - before[d],
                             (-1,) + (1,) * (rank - 1 - d))
        coordinates.insert(0, aten.add(aten.mul(tap, dilations[d]), begin))
    order = range(rank) if not by_columns else reversed(range(rank))
    place = aten.zeros_like(which)
    for d in order:
        place = aten.add(aten.mul(place, sizes[d]), coordinates[d])
    images = aten.arange(x.shape[0] * x.shape[1], device=x.device).reshape((x.shape[0], x.shape[1]) + (1,) * rank)
    return aten.add(aten.mul(images, math.prod(sizes)), place)


@rule("AveragePool")
def average_pool(x: Any, *, kernel_shape: Sequence[int], auto_pad: str = "NOTSET", ceil_mode: int = 0,
                 count_include_pad: int = 0, dilations: Sequence[int] | None = None, pads: Sequence[int] | None = None,
                 strides: Sequence[int] | None = None) -> Any:
    kernel = list(kernel_shape)
    strides, dilations, before, after, counts = _windows(x, kernel, strides, dilations, pads, auto_pad, ceil_mode)
    if _is_plain(before, after, kernel, dilations) and all(d == 1 for d in dilations) and len(kernel) in AVERAGES:
        return AVERAGES[len(kernel)](x, kernel, strides, before, bool(ceil_mode), bool(count_include_pad))
    total = sum(_taps(x, kernel, strides, dilations, before, after, counts, 0.0))
    ones = aten.ones_like(aten.slice(aten.slice(x, 0, 0, 1), 1, 0, 1))
    if count_include_pad:                       # margins count, what ceil_mode adds beyond them does not
        ones, before, after = padded_input(ones, before, after, 1.0), [0] * len(kernel), [0] * len(kernel)
    share = sum(_taps(ones, kernel, strides, dilations, before, after, counts, 0.0))
    return aten.div(total, share)


@rule("LpPool", since=2)
def lp_pool(x: Any, *, kernel_shape: Sequence[int], auto_pad: str = "NOTSET", ceil_mode: int = 0,
            dilations: Sequence[int] | None = None, p: int = 2, pads: Sequence[int] | None = None,
            strides: Sequence[int] | None = None) -> Any:
    kernel = list(kernel_shape)
    strides, dilations, before, after, counts = _windows(x, kernel, strides, dilations, pads, auto_pad, ceil_mode)
    powers = aten.pow(aten.abs(x), p)
    return aten.pow(sum(_taps(powers, kernel, strides, dilations, before, after, counts, 0.0)), 1 / p)


@rule("LpPool", since=1)
def lp_pool_1(x: Any, *, kernel_shape: Sequence[int], auto_pad: str = "NOTSET", p: float = 2.0,
              pads: Sequence[int] | None = None, strides: Sequence[int] | None = None) -> Any:
    return lp_pool(x, kernel_shape=kernel_shape, auto_pad=auto_pad, p=p, pads=pads, strides=strides)


@rule("GlobalAveragePool")
def global_average_pool(x: Any) -> Any:
    return aten.mean(x, list(range(2, x.ndim)), True)


@rule("GlobalMaxPool")
def global_max_pool(x: Any) -> Any:
    return aten.amax(x, list(range(2, x.ndim)), True)


@rule("GlobalLpPool", since=2)
def global_lp_pool(x: Any, *, p: int = 2) -> Any:
    return aten.pow(aten.sum(aten.pow(aten.abs(x), p), list(range(2, x.ndim)), True), 1 / p)


@rule("GlobalLpPool", since=1)
def global_lp_pool_1(x: Any, *, p: float = 2.0) -> Any:
    return global_lp_pool(x, p=p)


@rule("MaxUnpool", since=9, closed=(1,), host=(2,))
def max_unpool(x: Any, indices: Any, output_shape: Any = None, *, kernel_shape: Sequence[int],
               pads: Sequence[int] | None = None, strides: Sequence[int] | None = None) -> Any:
    rank = len(kernel_shape)
    strides, pads = list(strides or [1] * rank), list(pads or [0] * 2 * rank)
    inner = [(n - 1) * s + k - pads[d] - pads[d + rank] for d, (n, s, k) in enumerate(
        zip(tuple(x.shape)[2:], strides, kernel_shape, strict=True))]
    n, c = x.shape[0], x.shape[1]
    total = math.prod([n, c, *inner])
    flat = aten.scatter(aten.zeros((total,), dtype=x.dtype, device=x.device), 0, aten.reshape(indices, (-1,)),
                        aten.reshape(x, (-1,)))
    found = aten.reshape(flat, (n, c, *inner))
    if output_shape is None:
        return found
    target = as_tuple(output_shape)[-rank:]          # what is larger is filled up at the ends
    room = [n for have, want in zip(reversed(inner), reversed(target), strict=True) for n in (0, want - have)]
    return aten.constant_pad_nd(found, room, 0)
