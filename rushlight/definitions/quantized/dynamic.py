"""Scales and zero points chosen from the numbers themselves.

Enters: float tensors. Leaves: quantized tensors, or the qparams that suit them. Refuses: tensors without elements, and
ranges that are not finite: they have no scale.
"""

from __future__ import annotations

import math
from typing import Any

from ... import _C
from ...op import Composite
from .create import RANGES, check_input, in_single, quantized_per_tensor

SMALLEST_SCALE = in_single(6.1e-5)


def chosen(low: float, high: float, qmin: int, qmax: int, reduce_range: bool = False) -> tuple[float, int]:
    """(scale, zero point) that spread the integers from `qmin` to `qmax` (half as many, with `reduce_range`) over the
    numbers from `low` to `high` and 0."""
    if not (math.isfinite(low) and math.isfinite(high)):
        raise RuntimeError(f"quantize: expected numbers of a finite range, got {low} to {high}")
    if reduce_range:
        qmin, qmax = int(qmin / 2), int(qmax / 2)
    low, high = min(low, 0.0), max(high, 0.0)
    steps = qmax - qmin
    scale = (high - low) / steps
    if in_single(scale) == 0 or math.isinf(in_single(1.0 / in_single(scale))):
        scale = 0.1
    if scale < SMALLEST_SCALE:
        if low == 0:
            high = in_single(SMALLEST_SCALE * steps)
        elif high == 0:
            low = -in_single(SMALLEST_SCALE * steps)
        else:
            wider = in_single(SMALLEST_SCALE / in_single(scale))
            low, high = in_single(low * wider), in_single(high * wider)
        scale = SMALLEST_SCALE
    # of the two ends, the one that is computed more exactly decides where 0 lies
    is_low = abs(qmin) + abs(low / scale) < abs(qmax) + abs(high / scale)
    point = qmin - low / scale if is_low else qmax - high / scale
    return scale, min(max(round(point), qmin), qmax)


def chosen_for(name: str, input: Any, dtype: Any, reduce_range: bool) -> tuple[float, int]:
    """Scale and zero point for all elements of a tensor."""
    if not input.numel():
        raise RuntimeError(f"{name}: expected a tensor with elements, got one of {list(input.shape)}")
    low, high = (t.item() for t in input.aminmax())
    return chosen(low, high, *RANGES[dtype], reduce_range)


class QuantizePerTensorDynamic(Composite):
    """A tensor quantized with the scale and zero point that its own range asks for."""

    schema = "quantize_per_tensor_dynamic(Tensor input, dtype dtype, bool reduce_range) -> Tensor"
    method = out = differentiable = False

    def compute(self, input, dtype, reduce_range):
        check_input(self.name, input, dtype)
        if dtype not in (_C.quint8, _C.qint8):
            raise RuntimeError(f"{self.name}: expected quint8 or qint8, got {dtype}")
        return quantized_per_tensor(input, *chosen_for(self.name, input, dtype, reduce_range), dtype)


class ChooseQparamsPerTensor(Composite):
    """The scale and the zero point that the range of a tensor asks for, in quint8."""

    schema = "_choose_qparams_per_tensor(Tensor input, bool reduce_range=False) -> (float, int)"
    method = out = differentiable = False

    def compute(self, input, reduce_range):
        return chosen_for(self.name, input, _C.quint8, reduce_range)


# --- the range that loses least ---------------------------------------------------------------------------------------


class ChooseQparamsOptimized(Composite):
    """The largest and the least number of the range that loses least when the first `numel` elements are held in
    `bit_width` bits: steps of a greedy search take `ratio` of the range away, `n_bins` of them being all of it."""

    schema = (
        "choose_qparams_optimized(Tensor input, int numel, int n_bins, float ratio, int bit_width) -> (Tensor, Tensor)"
    )
    method = out = differentiable = False

    def compute(self, input, numel, n_bins, ratio, bit_width):
        if input.dtype is not _C.float32:
            raise RuntimeError(f"{self.name}: expected a float32 tensor, got one of {input.dtype}")
        if not 0 < numel <= input.numel():
            raise RuntimeError(f"{self.name}: expected numel from 1 to {input.numel()}, got {numel}")
        high, low = least_loss(input.reshape(-1)[:numel], n_bins, ratio, bit_width)
        return tuple(_C.from_data([end], _C.float32, input.device) for end in (high, low))


def least_loss(row: Any, bins: int, ratio: float, bits: int) -> tuple[float, float]:
    """(largest, least) number of the range to quantize `row` with."""
    low, high = (t.item() for t in row.aminmax())
    step = in_single((high - low) / bins)
    width = in_single(in_single(bins * (1.0 - in_single(ratio))) * step)
    least, best = loss_of(row, low, high, bits), (high, low)
    current = least
    while in_single(low + width) < high:
        from_below, from_above = in_single(low + step), in_single(high - step)
        losses = loss_of(row, from_below, high, bits), loss_of(row, low, from_above, bits)
        if current < min(*losses, least):
            least, best = current, (high, low)
        if losses[0] < losses[1]:
            low, current = from_below, losses[0]
        else:
            high, current = from_above, losses[1]
        if not step:
            break
    return best


def loss_of(row: Any, low: float, high: float, bits: int) -> float:
    """How far the numbers of `row` move when a range is held in `bits` bits, its ends in half precision."""
    low = _in_half(low)
    most, span = (1 << bits) - 1, in_single(high - low)
    scale = _in_half(in_single(span / most)) if span else 1.0
    inverse = in_single(1.0 / scale) if scale else 1.0
    moved = ((row - low) * inverse).round().clamp(0, most) * scale + low
    return (row - moved).square().sum().sqrt().item()


def _in_half(number: float) -> float:
    return _C.from_data(number, _C.float16, None).item()
