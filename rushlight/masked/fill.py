"""What masked functions share: checking masks and putting an operation's neutral element where they are False.

Enters: a tensor, a mask that broadcasts to it (or None) and a number. Leaves: a strided tensor of the input's shape.
Refuses: masks with more dims than the input, or of sizes that do not broadcast to it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from .. import _C
from ..base.dtype import iinfo
from ..base.promotion import default_dtype, rank
from ..op import find_op, wrap_dim
from .tensor import MaskedTensor


def takes_masked(function: Callable) -> Callable:
    """Decorator for functions of (input, ..., mask): a MaskedTensor stands for its data, and brings its mask where none
    is given."""

    @functools.wraps(function)
    def call(input: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(input, MaskedTensor):
            if kwargs.get("mask") is None:
                kwargs["mask"] = input.get_mask()
            input = input.get_data()
        return function(input, *args, **kwargs)

    return call


def full_mask(name: str, x: Any, mask: Any) -> Any:
    """The mask as bool with the input's shape, or None when every element counts."""
    if mask is None:
        return None
    if not isinstance(mask, _C.Tensor):
        raise TypeError(f"{name}: mask must be Tensor or None, not {type(mask).__name__}")
    if mask.ndim > x.ndim:
        raise IndexError(f"{name}: expected a mask with at most {x.ndim} dims, as the input has, got {mask.ndim}")
    return mask.to(_C.bool).expand(x.shape)


def filled(x: Any, mask: Any, value: Any) -> Any:
    """`x` with `value` where the mask is False."""
    return x if mask is None else find_op("where")(mask, x, x.new_full((), value))


def dims_of(name: str, dim: Any, ndim: int) -> tuple[int, ...]:
    """The dims to reduce: all of them when none are named."""
    if dim is None or (not isinstance(dim, int) and not len(dim)):
        return tuple(range(ndim))
    dims = tuple(wrap_dim(name, d, ndim) for d in ((dim,) if isinstance(dim, int) else dim))
    if len(set(dims)) != len(dims):
        raise RuntimeError(f"{name}: a dim appears multiple times in {list(dims)}")
    return tuple(d for d in dims if d < ndim)


def lowest(dtype: Any) -> Any:
    """The number below all others of a dtype."""
    if dtype is _C.bool:
        return False
    return -math.inf if dtype.is_floating_point else iinfo(dtype).min


def highest(dtype: Any) -> Any:
    """The number above all others of a dtype."""
    if dtype is _C.bool:
        return True
    return math.inf if dtype.is_floating_point else iinfo(dtype).max


def as_float(x: Any, dtype: Any) -> Any:
    """`x` in `dtype`; without one, integers in the default floating type."""
    if dtype is None:
        dtype = x.dtype if rank(x.dtype) > 1 else default_dtype()
    return x if x.dtype is dtype else x.to(dtype)
