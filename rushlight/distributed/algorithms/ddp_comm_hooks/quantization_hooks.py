"""Gradients sent as bytes: each process scales its own to 0..255, all get all, and each averages what it got."""

from __future__ import annotations

from typing import Any

from .... import _C
from ....futures import Future
from ....op import find_op
from ...collectives import all_gather
from ...groups import resolve
from ...reducer import GradBucket

__all__ = ["quantization_perchannel_hook", "quantization_pertensor_hook"]
_cat, _pad = find_op("cat"), find_op("constant_pad_nd")
_LEVELS = 255
_SMALLEST_SCALE = 1.1920928955078125e-07      # float32's epsilon: a gradient of zeros has a scale, too


def _scales(rows: Any) -> Any:
    """[scale, zero point] of each row, so that 0 is a level and its least and greatest value are met."""
    least, most = rows.amin(1, keepdim=True).clamp(max=0), rows.amax(1, keepdim=True).clamp(min=0)
    scale = ((most - least) / _LEVELS).clamp(min=_SMALLEST_SCALE)
    return _cat([scale, (-(least / scale).round()).clamp(0, _LEVELS)], 1)


def _gathered(tensor: Any, group: Any) -> list[Any]:
    parts = [tensor.new_empty(tensor.shape) for _ in range(group.size())]
    all_gather(parts, tensor, group=group)
    return parts


def _mean_of_bytes(group: Any, rows: Any) -> Any:
    own = _scales(rows)
    scales = _gathered(own, group)
    levels = ((rows / own[:, :1]).round() + own[:, 1:]).clamp(0, _LEVELS).to(_C.uint8)
    total = rows.new_zeros(rows.shape)
    for scale, part in zip(scales, _gathered(levels, group)):
        total += scale[:, :1] * (part.to(total.dtype) - scale[:, 1:])
    return total / group.size()


def _future_of(value: Any) -> Future:
    future: Future = Future()
    future.set_result(value)
    return future


def quantization_pertensor_hook(process_group: Any, bucket: GradBucket) -> Future:
    """The mean of buckets sent as bytes, with one scale for each bucket."""
    return _future_of(_mean_of_bytes(resolve(process_group), bucket.buffer().view(1, -1)).view(-1))


def quantization_perchannel_hook(process_group: Any, bucket: GradBucket, bucket_size: int = 512) -> Future:
    """The mean of buckets sent as bytes, with a scale for each `bucket_size` elements."""
    flat = bucket.buffer()
    rows = _pad(flat, [0, -flat.numel() % bucket_size]).view(-1, bucket_size)
    return _future_of(_mean_of_bytes(resolve(process_group), rows).view(-1)[: flat.numel()])
