"""Derivatives of views, where PyTorch's are other calls than those of our definitions.

Enters: nothing. Leaves: `VIEWS`, a function for each view of its gradient, `sizes` (those of the tensor that was looked
at) and the parameters it names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..words import aten


def sum_to(g: Any, sizes: Sequence[int]) -> Any:
    """A gradient summed over what was repeated."""
    if not sizes:
        return g.sum() if g.ndim else g
    lead = g.ndim - len(sizes)
    dims = [*range(lead), *[lead + i for i, n in enumerate(sizes) if n == 1 and g.shape[lead + i] != 1]]
    if dims:
        g = aten.sum.dim_IntList(g, dims, True)
    return aten.view(g, list(sizes)) if lead else g


def _squeeze(g: Any, sizes: Sequence[int], dim: Any) -> Any:
    listed = range(len(sizes)) if dim is None else [dim] if isinstance(dim, int) else dim
    for d in sorted(d % max(1, len(sizes)) for d in listed):
        if sizes and sizes[d] == 1:
            g = g.unsqueeze(d)
    return g


def _narrow(g: Any, sizes: Sequence[int], dim: int, start: Any, length: Any) -> Any:
    start = start + sizes[dim] if start < 0 else start
    return aten.slice_backward(g, list(sizes), dim, start, start + length, 1)


def _slice(g: Any, sizes: Sequence[int], dim: int, start: Any, end: Any, step: int) -> Any:
    start, end = 0 if start is None else start, (1 << 63) - 1 if end is None else end
    return aten.slice_backward(g, list(sizes), dim, start, end, step)


VIEWS: dict[str, Callable] = {
    "select": lambda g, sizes, dim, index: aten.select_backward(g, list(sizes), dim, index),
    "slice": _slice, "narrow": _narrow,
    "diagonal": lambda g, sizes, offset, dim1, dim2: aten.diagonal_backward(g, list(sizes), offset, dim1, dim2),
    "unfold": lambda g, sizes, dimension, size, step: aten.unfold_backward(g, list(sizes), dimension, size, step),
    "expand": lambda g, sizes: sum_to(g, sizes),
    "squeeze": _squeeze,
}
