"""Random tensors for tests: `make_tensor`.

Enters: sizes, a dtype, a device and bounds. Leaves: uniform numbers in [low, high), drawn as PyTorch draws them, so one
seed gives one tensor in both. Refuses: empty intervals, bounds no value of the dtype lies between, gradients for
dtypes without any, and dtypes it has no numbers for.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

from .. import _C
from .._C import Tensor
from ..base.dtype import finfo, iinfo
from ..op import find_op

_INTEGERS = (_C.uint8, _C.int8, _C.int16, _C.int32, _C.int64, _C.uint16, _C.uint32, _C.uint64)
_FLOATS = (_C.float16, _C.bfloat16, _C.float32, _C.float64)
_COMPLEX = (_C.complex32, _C.complex64, _C.complex128)
_BYTE_FLOATS = tuple(
    getattr(_C, name)
    for name in ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")
    if hasattr(_C, name)
)


def make_tensor(
    *shape: int | Sequence[int],
    dtype: _C.dtype,
    device: Any,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """A tensor of uniform numbers in [low, high).

    Bounds left out are [-9, 9) for floating and complex dtypes, -9 to 9 inclusive for integers (0 to 9 unsigned) and
    both truth values for bool; bounds beyond the dtype's range are pulled into it. `noncontiguous` gives every second
    element of a tensor twice as long; `exclude_zero` replaces zeros by one, or by the smallest normal number.
    """
    sizes = tuple(shape[0] if len(shape) == 1 and isinstance(shape[0], Sequence) else shape)
    counted = dtype is _C.bool or dtype in _INTEGERS
    if noncontiguous and memory_format is not None:
        raise ValueError(
            f"make_tensor: expected noncontiguous or memory_format, got {noncontiguous=} and {memory_format=}"
        )
    if requires_grad and counted:
        raise ValueError(f"make_tensor: requires_grad=True needs a floating point or complex dtype, got {dtype=}")

    spread = noncontiguous and math.prod(sizes) > 1
    if spread:
        sizes = (*sizes[:-1], 2 * sizes[-1])
    bounds = _bounds(dtype, low, high)
    if counted:
        result = find_op("randint")(*bounds, sizes, device=device, dtype=dtype)
    else:
        drawn = _C.float32 if dtype in _BYTE_FLOATS else dtype
        result = find_op("empty")(sizes, device=device, dtype=drawn)
        _fill_uniform(find_op("view_as_real")(result) if dtype in _COMPLEX else result, *bounds)
        result = result.to(dtype)

    if spread:
        result = result[..., 1::2]  # from the second element on, so that an ignored offset shows as well
    elif memory_format is not None:
        result = result.clone(memory_format=memory_format)
    if exclude_zero:
        result[result == 0] = 1 if counted else finfo(dtype).tiny
    if dtype in _FLOATS or dtype in _COMPLEX:
        result.requires_grad = requires_grad
    return result


def _bounds(dtype: _C.dtype, low: float | None, high: float | None) -> tuple[float, float]:
    """The interval to draw from, inside what `dtype` can hold."""
    if dtype is _C.bool:
        least, end, default = 0, 2, (0, 2)
    elif dtype in _INTEGERS:
        # `end` is exclusive; the largest int64 is left out because randint's own bound is an int64.
        limits = iinfo(dtype)
        least, end, default = limits.min, limits.max + (dtype is not _C.int64), (-9, 10)
    elif dtype in _FLOATS or dtype in _COMPLEX or dtype in _BYTE_FLOATS:
        least, end, default = finfo(dtype).min, finfo(dtype).max, (-9, 9)
    else:
        raise TypeError(f"make_tensor: dtype '{dtype}' is not supported.")

    low = default[0] if low is None else low
    high = default[1] if high is None else high
    if low != low or high != high:
        raise ValueError(f"make_tensor: expected numbers as bounds, got NaN in {low=} and {high=}")
    if low == high and (dtype in _FLOATS or dtype in _COMPLEX):
        warnings.warn(
            "make_tensor: low==high is deprecated for floating point and complex dtypes. torch.full makes such"
            " tensors.",
            FutureWarning,
            stacklevel=3,
        )
    elif low >= high:
        raise ValueError(f"make_tensor: expected low < high, got {low} >= {high}")
    elif high < least or low >= end:
        raise ValueError(
            f"make_tensor: [low, high) = [{low}, {high}) lies outside what {dtype} holds, [{least}, {end})"
        )
    low, high = (min(max(bound, least), end) for bound in (low, high))
    if dtype is _C.bool or dtype in _INTEGERS:
        return math.ceil(low), math.ceil(high)  # the first integer not below each: `high` itself is not drawn
    return low, high


def _fill_uniform(t: Tensor, low: float, high: float) -> None:
    """Uniform numbers in place; a width the dtype cannot hold is drawn at half size and doubled."""
    if high - low >= finfo(t.dtype).max:
        t.uniform_(low / 2, high / 2).mul_(2)
    else:
        t.uniform_(low, high)
