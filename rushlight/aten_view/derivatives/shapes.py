"""Derivatives of reductions, copies and ops that move elements.

Enters: nothing. Leaves: `SHAPES`, functions by op and parameter, in PyTorch's steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...op import find_op
from ..words import aten


def dims_of(dim: Any, ndim: int) -> list[int]:
    listed = [dim] if isinstance(dim, int) else list(dim or ())
    return sorted(d % ndim for d in listed) if listed and ndim else list(range(ndim))


def widened(g: Any, dim: Any, keepdim: bool, sizes: Any) -> Any:
    """A gradient of what was reduced, with the dims it lost."""
    if not keepdim and sizes and dim is not None and dim != []:
        for d in dims_of(dim, len(sizes)):
            g = g.unsqueeze(d)
    return g


def _sum(g: Any, self_sizes: Any, dim: Any = None, keepdim: Any = False) -> Any:
    return aten.expand(widened(g, dim, bool(keepdim), self_sizes), list(self_sizes))


def _mean(g: Any, self_sizes: Any, dim: Any = None, keepdim: Any = False) -> Any:
    count = math.prod([self_sizes[d] for d in dims_of(dim, len(self_sizes))])
    return aten.div.Scalar(_sum(g, self_sizes, dim, keepdim), count)


def _copied_back(g: Any, self_dtype: Any, self_device: Any) -> Any:
    wanted = {"dtype": self_dtype} if g.dtype is not self_dtype else {}
    if g.device != self_device:
        wanted["device"] = self_device
    return aten._to_copy(g, **wanted) if wanted else g


SHAPES: dict[str, dict[str, Callable]] = {
    "sum": {"self": _sum},
    "mean": {"self": _mean},
    "clone": {"self": lambda g: g},
    "_to_copy": {"self": _copied_back},
    "_unsafe_view": {"self": lambda g, self_sizes: find_op("reshape")(g, list(self_sizes))},
    "cumsum": {"self": lambda g, dim: _cumsum(g, dim)},
    "masked_fill": {"self": lambda g, mask: aten.masked_fill.Scalar(g, mask, 0)},
    "gather": {"self": lambda g, self_sizes, dim, index: aten.scatter_add(
        aten.new_zeros(g, list(self_sizes)), dim, index, g)},
    "flip": {"self": lambda g, dims: aten.flip(g, list(dims))},
    "roll": {"self": lambda g, shifts, dims: aten.roll(g, [-s for s in shifts], list(dims))},
    "tril": {"self": lambda g, diagonal: g.tril(diagonal)},
    "triu": {"self": lambda g, diagonal: g.triu(diagonal)},
    "index_select": {"self": lambda g, self_sizes, dim, index: find_op("index_add")(
        aten.new_zeros(g, list(self_sizes)), dim, index, g)},
    "logsumexp": {"self": lambda g, self, result, dim, keepdim: _logsumexp(g, self, result, dim, keepdim)},
    "repeat": {"self": lambda g, repeats, self_sizes: _repeat(g, repeats, self_sizes)},
}


def _cumsum(g: Any, dim: int) -> Any:
    if g.numel() <= 1 or g.shape[dim] == 1:
        return g
    return aten.flip(aten.cumsum(aten.flip(g, [dim]), dim), [dim])


def _logsumexp(g: Any, self: Any, result: Any, dim: Any, keepdim: bool) -> Any:
    wide_g, wide = (widened(t, dim, keepdim, self.shape) for t in (g, result))
    return wide_g * (self - wide).exp()


def _repeat(g: Any, repeats: Any, sizes: Any) -> Any:
    if not sizes:
        return g.sum()
    extra = len(repeats) - len(sizes)
    shape, summed = [], []
    for i, n in enumerate(repeats):
        size = sizes[i - extra] if i >= extra else None
        if size is None:
            summed.append(len(shape))
            shape.append(n)
            continue
        if n != 1:
            summed.append(len(shape))
            shape.append(n)
        shape.append(size)
    g = find_op("reshape")(g, shape)
    return aten.sum.dim_IntList(g, summed) if summed else g
