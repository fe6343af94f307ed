"""Derivatives of reductions, of ops that choose elements, and of norms of vectors.

Enters: nothing. Leaves: `REDUCTIONS`, functions by op and parameter, in PyTorch's steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...op import find_op
from ..words import aten
from .pointwise import product, times
from .shapes import dims_of, widened


def _chosen(g: Any, dim: int, result1: Any, self_sizes: Any, keepdim: Any = True) -> Any:
    """The gradient goes to the elements that were chosen."""
    if not keepdim and self_sizes:
        g, result1 = g.unsqueeze(dim), result1.unsqueeze(dim)
    return aten.scatter.src(aten.new_zeros(g, list(self_sizes)), dim, result1, g)


def _all_equal(g: Any, self: Any, result: Any) -> Any:
    """Of all elements that are the result each gets a share."""
    same = find_op("logical_and")(self.isnan(), result.isnan()) if self.is_floating_point() else None
    mask = aten.eq.Tensor(self, result)
    if same is not None:
        mask = find_op("logical_or_")(mask, same)
    return mask * (g / mask.sum())


def _extreme(g: Any, self: Any, result: Any, dim: Any, keepdim: bool) -> Any:
    if not keepdim and self.ndim:
        result = widened(result, dim, keepdim, self.shape)
    mask = aten.eq.Tensor(self, result)
    if not keepdim and self.ndim:
        g = widened(g, dim, keepdim, self.shape)
    return mask * (g / aten.sum.dim_IntList(mask, list(dim or []), True))


def _var(g: Any, self: Any, dim: Any, correction: Any, keepdim: Any) -> Any:
    dim = dim if dim is None or isinstance(dim, (list, tuple)) else [dim]
    correction = 1 if correction is None else correction
    if not dim:
        return product(lambda: times(g, 2.0 / (self.numel() - correction)), self - self.mean())
    count = math.prod(self.shape[d] for d in dims_of(dim, self.ndim))
    g = widened(g, dim, bool(keepdim), self.shape)
    centred = self - aten.mean.dim(self, list(dim), True)
    return product(lambda: times(g, 2.0 / (count - correction)) if count != correction else g, centred)


def _std(g: Any, self: Any, result: Any, dim: Any, correction: Any, keepdim: Any) -> Any:
    slope = g / times(result, 2)
    slope = aten.masked_fill_.Scalar(slope, aten.eq.Scalar(result, 0), 0)
    return _var(slope, self, dim, correction, keepdim)


def _vector_norm(g: Any, self: Any, result: Any, ord: Any, dim: Any, keepdim: Any) -> Any:
    if dim is not None or keepdim:
        if not keepdim and self.ndim:
            g, result = (widened(t, dim, False, self.shape) for t in (g, result))
    if ord == 2:
        ratio = self / result
        return g * aten.masked_fill_.Scalar(ratio, aten.eq.Scalar(result, 0), 0)
    if ord == 1:
        return g * self.sgn()
    return None


def _nansum(g: Any, self: Any, dim: Any, keepdim: Any) -> Any:
    real = find_op("logical_not")(self.isnan())
    return aten.expand(widened(g, dim, bool(keepdim), self.shape), list(self.shape)) * real


REDUCTIONS: dict[str, dict[str, Callable]] = {
    **{f"{name}.dim": {"self": lambda g, dim, result1, self_sizes, keepdim: _chosen(
        g, dim, result1, self_sizes, keepdim)} for name in ("max", "min", "median", "nanmedian")},
    **{name: {"self": lambda g, dim, result1, self_sizes, keepdim: _chosen(g, dim, result1, self_sizes, keepdim)}
       for name in ("kthvalue", "mode")},
    "topk": {"self": lambda g, dim, result1, self_sizes: _chosen(g, dim, result1, self_sizes)},
    "sort": {"self": lambda g, dim, result1, self_sizes: _chosen(g, dim, result1, self_sizes)},
    **{f"{name}.default": {"self": _all_equal} for name in ("max", "min", "median", "nanmedian")},
    "amax": {"self": _extreme}, "amin": {"self": _extreme},
    "var.correction": {"self": _var}, "std.correction": {"self": _std},
    "linalg_vector_norm": {"self": _vector_norm},
    "nansum": {"self": _nansum},
    "cummax": {"self": lambda g, dim, result1, self_sizes: _scattered(g, dim, result1, self_sizes)},
    "cummin": {"self": lambda g, dim, result1, self_sizes: _scattered(g, dim, result1, self_sizes)},
}


def _scattered(g: Any, dim: int, index: Any, sizes: Any) -> Any:
    zeros = aten.zeros(list(sizes), dtype=g.dtype, layout=g.layout, device=g.device)
    return aten.scatter_add(zeros, dim, index, g)
