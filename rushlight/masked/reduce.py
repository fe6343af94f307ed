"""Masked reductions and scans: what the plain ones give for the elements whose mask is True.

Enters: `input`, `dim` (all when None), `keepdim`, `dtype`, `mask`. Leaves: strided tensors; where every element of a
result is masked out it holds the operation's neutral element, NaN if there is none.
"""

from __future__ import annotations

import math
from typing import Any

from .. import _C
from ..base.promotion import rank
from ..op import find_op
from .fill import as_float, dims_of, filled, full_mask, highest, lowest, takes_masked


def _wide(x: Any, dtype: Any) -> Any:
    """`x` as sums and products read it: small integers as int64."""
    if dtype is None:
        dtype = _C.int64 if rank(x.dtype) < 2 else x.dtype
    return x if x.dtype is dtype else x.to(dtype)


def _cast(x: Any, dtype: Any) -> Any:
    return x if dtype is None or x.dtype is dtype else x.to(dtype)


@takes_masked
def sum(  # noqa: A001
    input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
) -> Any:
    """The sum over `dim`; 0 where nothing is left."""
    x = _wide(input, dtype)
    return filled(x, full_mask("masked.sum", x, mask), 0).sum(dims_of("masked.sum", dim, x.ndim), bool(keepdim))


@takes_masked
def prod(input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """The product over `dim`; 1 where nothing is left."""
    x = _wide(input, dtype)
    result = filled(x, full_mask("masked.prod", x, mask), 1)
    for d in sorted(dims_of("masked.prod", dim, x.ndim), reverse=True):
        result = result.prod(d, bool(keepdim))
    return result


@takes_masked
def cumsum(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """Running sums along `dim` in which masked elements count as 0."""
    x = _cast(input, dtype)
    return filled(x, full_mask("masked.cumsum", x, mask), 0).cumsum(dim, dtype=x.dtype)


@takes_masked
def cumprod(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """Running products along `dim` in which masked elements count as 1."""
    x = _cast(input, dtype)
    return filled(x, full_mask("masked.cumprod", x, mask), 1).cumprod(dim, dtype=x.dtype)


@takes_masked
def amax(input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """The largest element over `dim`; the dtype's lowest number where nothing is left."""
    x = _cast(input, dtype)
    return filled(x, full_mask("masked.amax", x, mask), lowest(x.dtype)).amax(
        dims_of("masked.amax", dim, x.ndim), bool(keepdim)
    )


@takes_masked
def amin(input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """The smallest element over `dim`; the dtype's highest number where nothing is left."""
    x = _cast(input, dtype)
    return filled(x, full_mask("masked.amin", x, mask), highest(x.dtype)).amin(
        dims_of("masked.amin", dim, x.ndim), bool(keepdim)
    )


@takes_masked
def argmax(input: Any, dim: int | None = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """Where the largest element is, as a number of the input's dtype (as PyTorch has it)."""
    x = _cast(input, dtype)
    return filled(x, full_mask("masked.argmax", x, mask), lowest(x.dtype)).argmax(dim, bool(keepdim)).to(x.dtype)


@takes_masked
def argmin(input: Any, dim: int | None = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """Where the smallest element is, as a number of the input's dtype."""
    x = _cast(input, dtype)
    return filled(x, full_mask("masked.argmin", x, mask), highest(x.dtype)).argmin(dim, bool(keepdim)).to(x.dtype)


def _count(x: Any, mask: Any, dims: tuple[int, ...], keepdim: bool) -> Any:
    """How many elements count towards each result."""
    ones = x.new_ones(x.shape, dtype=_C.int64) if mask is None else mask.to(_C.int64)
    return ones.sum(dims, keepdim)


@takes_masked
def mean(input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """The mean over `dim`; NaN where nothing is left."""
    wanted = input.dtype if dtype is None else dtype
    if rank(wanted) < 2 and wanted is not _C.bool:
        raise RuntimeError(f"masked.mean: expected a floating point or complex dtype, got {wanted.name}")
    x = _cast(input, dtype)
    if wanted is _C.bool:
        raise ValueError("masked.mean does not support bool. Use a floating point dtype.")
    dims, keepdim = dims_of("masked.mean", dim, x.ndim), bool(keepdim)
    seen = full_mask("masked.mean", x, mask)
    if seen is None:
        return x.mean(dims, keepdim)
    return filled(x, seen, 0).sum(dims, keepdim) / _count(x, seen, dims, keepdim)


@takes_masked
def median(input: Any, dim: int = -1, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """The lower median along `dim`; NaN where nothing is left."""
    if not (input.dtype if dtype is None else dtype).is_floating_point:
        raise RuntimeError(f"masked.median expects a floating point tensor, got {input.dtype.name}")
    x = _cast(input, dtype)
    (d,) = dims_of("masked.median", int(dim), x.ndim) or (0,)
    seen = full_mask("masked.median", x, mask)
    strange = x.isnan() if seen is None else x.isnan() & seen
    if x.device.type != "meta" and strange.any():
        raise ValueError("masked.median expects no elements that are NaN")
    return filled(x, seen, math.nan).nanmedian(d, bool(keepdim))[0]


@takes_masked
def logsumexp(input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """log(sum(exp)) over `dim` in the input's dtype; the lowest number where nothing is left."""
    x = _cast(input, dtype)
    x = filled(x, full_mask("masked.logsumexp", x, mask), -math.inf if x.dtype.is_complex else lowest(x.dtype))
    return x.logsumexp(dims_of("masked.logsumexp", dim, x.ndim), bool(keepdim)).to(x.dtype)


@takes_masked
def norm(
    input: Any, ord: float | None = 2.0, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
) -> Any:
    """The `ord`-norm of the elements over `dim`."""
    x, ord = _cast(input, dtype), 2.0 if ord is None else float(ord)
    dims = dims_of("masked.norm", dim, x.ndim)
    x = filled(x, full_mask("masked.norm", x, mask), math.inf if ord == -math.inf else 0)
    return find_op("linalg_vector_norm")(x, ord, dims, bool(keepdim))


def _variance(
    name: str, input: Any, dim: Any, unbiased: Any, correction: Any, keepdim: Any, dtype: Any, mask: Any, root: bool
) -> Any:
    if unbiased is not None and correction is not None:
        raise ValueError(f"masked.{name}: expected unbiased or correction, got both")
    if correction is None:
        correction = 0 if unbiased is False else 1
    x = as_float(input, dtype)
    dims, seen = dims_of(name, dim, x.ndim), full_mask(name, x, mask)
    kept = filled(x, seen, 0)
    count = _count(x, seen, dims, True)
    spread = filled(x - kept.sum(dims, True) / count, seen, 0)
    size = find_op("real")(spread * spread.conj()) if x.dtype.is_complex else spread * spread
    count = _count(x, seen, dims, bool(keepdim)) - correction
    result = size.sum(dims, bool(keepdim)) / count.clamp(min=0)
    result = result.sqrt() if root else result
    return result.to(x.dtype)   # complex for complex numbers, as PyTorch has it


@takes_masked
def var(
    input: Any,
    dim: Any = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Any = None,
) -> Any:
    """The variance over `dim`."""
    return _variance("var", input, dim, unbiased, correction, keepdim, dtype, mask, root=False)


@takes_masked
def std(
    input: Any,
    dim: Any = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Any = None,
) -> Any:
    """The standard deviation over `dim`."""
    return _variance("std", input, dim, unbiased, correction, keepdim, dtype, mask, root=True)
