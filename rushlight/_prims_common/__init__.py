"""`torch._prims_common`: questions about shapes and layouts that libraries ask."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from operator import mul

from .._C import Tensor
from ..base.shape import channels_last, channels_last_3d, contiguous_format, memory_format

__all__ = ["make_contiguous_strides_for", "suggest_memory_format"]


def make_contiguous_strides_for(shape: Sequence[int], row_major: bool = True) -> tuple[int, ...]:
    """The strides of a fresh tensor of this shape; with `row_major=False` its last two dims by columns. Sizes of 0 and
    1 count as 1, as everywhere."""
    sizes = [size if size != 0 else 1 for size in shape]
    strides = tuple(reversed([1, *accumulate(reversed(sizes[1:]), mul)])) if sizes else ()
    if row_major or len(sizes) < 2:
        return strides
    return (*strides[:-2], 1, max(shape[-2], 1))


def suggest_memory_format(x: Tensor) -> memory_format:
    """The order of dims that a result should follow: channels last where `x` has it, else the usual one."""
    if not isinstance(x, Tensor):
        raise TypeError(f"suggest_memory_format: expected a tensor, got {type(x).__name__}")
    wanted = {4: channels_last, 5: channels_last_3d}.get(x.ndim)
    return wanted if wanted is not None and _has_channels_last(x.shape, x.stride()) else contiguous_format


def _has_channels_last(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether strides grow from the channels over the pixels to the batch. Where all dims but the batch have size 1,
    both orders fit, and the usual one is meant."""
    least = 0
    for dim in (1, *range(len(shape) - 1, 1, -1), 0):
        is_ambiguous = dim == 0 and least == strides[1]
        if shape[dim] == 0 or strides[dim] < max(least, dim == 1) or is_ambiguous:
            return False
        least = strides[dim] * max(shape[dim], 1)
    return True
