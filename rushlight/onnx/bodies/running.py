"""Running extremes, products and sums of exponentials (a Scan each), ranks, and distances."""

from __future__ import annotations

import math
from typing import Any

from ... import _C
from ..._higher_order_ops.scan import scan
from ...op import ops
from ...tensors.interop import tensor
from .table import body, positions


def _running_extreme(largest: bool, input: Any, dim: int) -> tuple[Any, Any]:
    if not input.ndim:
        return input.clone(), ops["zeros"]([], dtype=_C.int64, device=input.device)
    if 0 in input.shape:
        return input.clone(), ops["zeros"](list(input.shape), dtype=_C.int64, device=input.device)
    rows = input.movedim(dim, 0)

    def step(carried: Any, x: Any) -> tuple[Any, Any]:
        at, best, place = carried
        takes = (x >= best) if largest else (x <= best)
        if input.dtype.is_floating_point:
            takes = (takes & ~best.isnan()) | x.isnan()
        best, place = ops["where"](takes, x, best), ops["where"](takes, at, place)
        return (at + 1, best, place), (best.clone(), place.clone())

    first = (ops["zeros"]([], dtype=_C.int64, device=input.device), rows.select(0, 0).clone(),
             ops["zeros"](list(rows.shape[1:]), dtype=_C.int64, device=input.device))
    _, (values, indices) = scan(step, first, rows)
    return values.movedim(0, dim), indices.movedim(0, dim)


@body("cummax")
def cummax(input: Any, dim: int) -> tuple[Any, Any]:
    return _running_extreme(True, input, dim)


@body("cummin")
def cummin(input: Any, dim: int) -> tuple[Any, Any]:
    return _running_extreme(False, input, dim)


@body("logcumsumexp")
def logcumsumexp(input: Any, dim: int) -> Any:
    if not input.ndim or 0 in input.shape:
        return input.clone()
    if input.dtype.is_complex:
        raise NotImplementedError("logcumsumexp of complex numbers")
    rows = input.movedim(dim, 0)

    def step(carried: Any, x: Any) -> tuple[Any, Any]:
        found = ops["logaddexp"](carried, x)
        return found, found.clone()

    first = ops["full_like"](rows.select(0, 0), -math.inf)
    return scan(step, first, rows)[1].movedim(0, dim)


@body("cumprod")
def cumprod(input: Any, dim: int, dtype: Any = None) -> Any:
    if dtype is not None:
        input = input.to(dtype)
    elif not (input.dtype.is_floating_point or input.dtype.is_complex):
        input = input.to(_C.int64)
    if not input.ndim or 0 in input.shape:
        return input.clone()
    if input.dtype.is_complex:
        raise NotImplementedError("cumprod of complex numbers")
    rows = input.movedim(dim, 0)

    def step(carried: Any, x: Any) -> tuple[Any, Any]:
        found = carried * x
        return found, found.clone()

    return scan(step, ops["ones_like"](rows.select(0, 0)), rows)[1].movedim(0, dim)


@body("_ranked_element")
def ranked_element(input: Any, position: int, missing: str, dim: int) -> tuple[Any, Any]:
    values, order = input.sort(dim)
    wanted = ops["full"]([1 if d == dim else n for d, n in enumerate(input.shape)], position, dtype=_C.int64,
                         device=input.device)
    if input.dtype.is_floating_point and missing != "kept":
        n = input.shape[dim]
        gone = input.isnan().sum(dim, True)
        middle = ops["div"]((n - gone - 1).clamp(min=0), 2, rounding_mode="floor")
        wanted = middle if missing == "skipped" else ops["where"](gone == 0, wanted, n - gone)
    return values.gather(dim, wanted), order.gather(dim, wanted)


@body("_set_distances")
def set_distances(others: Any, input: Any, p: float) -> Any:
    gap = (input.unsqueeze(-1) - others.unsqueeze(-3)).abs()           # [B, P, M, R]
    if p == 0:
        return (gap != 0).to(input.dtype).sum(-2)
    if p == math.inf:
        return gap.amax(-2)
    if p == 1:
        return gap.sum(-2)
    if p == 2:
        return (gap * gap).sum(-2).sqrt()
    return gap.pow(p).sum(-2).pow(1 / p)


@body("triu_indices")
def triu_indices(row: int, col: int, offset: int = 0, dtype: Any = None, layout: Any = None,
                 device: Any = None, pin_memory: bool = False) -> Any:
    places = [(i, j) for i in range(row) for j in range(max(0, i + offset), col)]
    return _table(places, dtype, device)


@body("tril_indices")
def tril_indices(row: int, col: int, offset: int = 0, dtype: Any = None, layout: Any = None,
                 device: Any = None, pin_memory: bool = False) -> Any:
    places = [(i, j) for i in range(row) for j in range(min(col, i + offset + 1))]
    return _table(places, dtype, device)


def _table(places: list[tuple[int, int]], dtype: Any, device: Any) -> Any:
    kind = dtype or _C.int64
    if not places:
        return ops["zeros"]([2, 0], dtype=kind, device=device)
    return tensor([[p[i] for p in places] for i in (0, 1)], dtype=kind, device=device)


@body("as_strided_scatter")
def as_strided_scatter(input: Any, src: Any, size: Any, stride: Any, storage_offset: int | None = None) -> Any:
    """Written to the memory, which is that of a tensor in row-major order."""
    where = positions(input.numel(), input).as_strided(size, stride, storage_offset or 0).reshape(-1)
    return input.reshape(-1).put(where, src.reshape(-1)).reshape(input.shape)
