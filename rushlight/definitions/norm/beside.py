"""Channels that lie side by side, [N, ..., C] in memory: images with channels last.

Enters: [N, C, ...] whose elements of all channels are neighbours. Leaves: it as columns, and, where channels are so few
that loops over them would be over too soon, statistics and scaled elements by way of rows of several positions.
Refuses: nothing; what does not fit is answered with None.
"""

from __future__ import annotations

from typing import Any

from ... import _C
from ...base.shape import is_below, reaches
from ...op import find_op
from ...op.reduction import product
from ...rules.levels import readable

FEW = 64           # channels below which positions are taken together
LINE = 512         # elements of a row of several positions, at most
ENOUGH = 1 << 13   # elements that are worth the steps this takes


def channels_behind(t: Any) -> Any:
    """[N, C, ...] as [N, ..., C]."""
    return t.permute((0, *range(2, t.ndim), 1))


def by_columns(t: Any) -> Any:
    """[N, C, ...] as [rows, C]."""
    behind = channels_behind(t)
    return (behind.view if behind._is_contiguous() else behind.reshape)((-1, t.shape[1]))


def is_channels_last(input: Any) -> bool:
    """Whether the channels of [N, C, ...] lie side by side."""
    return not input._is_contiguous() and channels_behind(input)._is_contiguous()


def positions_together(input: Any) -> int:
    """How many positions make a row, a power of two; 1 where channels are not few, or positions not many."""
    channels, count = input.shape[1], product(input.shape)
    if input.device.type != "cpu" or not is_below(channels, FEW) or not reaches(count, ENOUGH) or not readable(input):
        return 1
    if channels == 0 or not is_channels_last(input):
        return 1
    together, positions = 1, count // channels
    while 2 * together * channels <= LINE and positions % (2 * together) == 0:
        together *= 2
    return together


def moments_beside(input: Any) -> tuple[Any, Any] | None:
    """Mean and variance (divided by the count) of each of few channels: of the columns of longer rows first, then of
    these, in double precision, where their squares stay in range. None for other tensors."""
    together, channels = positions_together(input), input.shape[1]
    if together == 1:
        return None
    rows = by_columns(input.detach()).view((-1, together * channels))
    half = input.dtype in (_C.float16, _C.bfloat16)
    variance, mean = find_op("_wide_var_mean" if half else "var_mean")(rows, (0,), correction=0)
    variances, means = (t.view((together, channels)).to(_C.float64) for t in (variance, mean))
    spread, middle = find_op("var_mean")(means, (0,), correction=0)
    return middle.to(mean.dtype), (variances.mean(0) + spread).to(mean.dtype)


def scaled_beside(input: Any, mean: Any, scale: Any, bias: Any) -> Any:
    """(input - mean) * scale + bias with numbers for each of few channels, which are written down for all positions of
    a row; None for other tensors."""
    together, channels = positions_together(input), input.shape[1]
    if together == 1:
        return None
    at = [None if v is None else v.view((1, -1)).expand((together, -1)).reshape(-1) for v in (mean, scale, bias)]
    rows = by_columns(input).view((-1, together * channels))
    behind = find_op("_scaled_channels")(rows, *at).view((input.shape[0], *input.shape[2:], channels))
    return behind.permute((0, input.ndim - 1, *range(1, input.ndim - 1)))
