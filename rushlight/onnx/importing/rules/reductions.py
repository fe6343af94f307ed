"""Reductions, running sums, and places of extremes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .... import _C, ops
from ....base.dtype import iinfo
from ..hosts import as_tuple
from ..table import rule

aten = ops.aten


def dims_of(x: Any, axes: Any, noop: int = 0) -> list[int] | None:
    """The dims to reduce; None: the operator does nothing."""
    if axes is None or len(axes) == 0:
        return None if noop else list(range(x.ndim))
    return sorted({a % x.ndim for a in as_tuple(axes)}) if x.ndim else []


def _sum(x: Any, dims: list[int], keep: bool) -> Any:
    return aten.sum(x, dims, keep, dtype=x.dtype) if dims else x


def _mean(x: Any, dims: list[int], keep: bool) -> Any:
    if not x.dtype.is_floating_point:
        return aten.mean(x.to(_C.float64), dims, keep).to(x.dtype)
    return aten.mean(x, dims, keep) if dims else x


def _prod(x: Any, dims: list[int], keep: bool) -> Any:
    for d in reversed(dims):
        x = aten.prod(x, d, keep, dtype=x.dtype)
    return x


def _max(x: Any, dims: list[int], keep: bool) -> Any:
    return _extreme(aten.amax, x, dims, keep, low=True)


def _min(x: Any, dims: list[int], keep: bool) -> Any:
    return _extreme(aten.amin, x, dims, keep, low=False)


def _extreme(reduce: Callable, x: Any, dims: list[int], keep: bool, low: bool) -> Any:
    if not dims:
        return x
    if any(isinstance(x.shape[d], int) and x.shape[d] == 0 for d in dims):
        sizes = [1 if d in dims else n for d, n in enumerate(x.shape) if keep or d not in dims]
        if x.dtype.is_floating_point:
            return aten.full(sizes, float("-inf") if low else float("inf"), dtype=x.dtype, device=x.device)
        if x.dtype is _C.bool:
            return aten.full(sizes, not low, dtype=_C.bool, device=x.device)
        limits = iinfo(x.dtype)
        return aten.full(sizes, limits.min if low else limits.max, dtype=x.dtype, device=x.device)
    return reduce(x, dims, keep)


def _l1(x: Any, dims: list[int], keep: bool) -> Any:
    return _sum(aten.abs(x), dims, keep)


def _l2(x: Any, dims: list[int], keep: bool) -> Any:
    return aten.sqrt(_sum(aten.mul(x, x), dims, keep)).to(x.dtype)


def _log_sum(x: Any, dims: list[int], keep: bool) -> Any:
    return aten.log(_sum(x, dims, keep)).to(x.dtype)


def _log_sum_exp(x: Any, dims: list[int], keep: bool) -> Any:
    if not dims:
        return aten.log(aten.exp(x))
    return aten.logsumexp(x, dims, keep)


def _sum_square(x: Any, dims: list[int], keep: bool) -> Any:
    return _sum(aten.mul(x, x), dims, keep)


def _reduced(x: Any, axes: Any, keepdims: int, noop: int, compute: Callable[..., Any]) -> Any:
    dims = dims_of(x, axes, noop)
    return compute(x, dims or [], bool(keepdims))


@rule("ReduceSum", since=13, host=(1,))
def reduce_sum(x: Any, axes: Any = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Any:
    return _reduced(x, axes, keepdims, noop_with_empty_axes, _sum)


@rule("ReduceMean", since=18, host=(1,))
def reduce_mean(x: Any, axes: Any = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Any:
    return _reduced(x, axes, keepdims, noop_with_empty_axes, _mean)


@rule("ReduceProd", since=18, host=(1,))
def reduce_prod(x: Any, axes: Any = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Any:
    return _reduced(x, axes, keepdims, noop_with_empty_axes, _prod)


@rule("ReduceMax", since=18, host=(1,))
def reduce_max(x: Any, axes: Any = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Any:
    return _reduced(x, axes, keepdims, noop_with_empty_axes, _max)


@rule("ReduceMin", since=18, host=(1,))
def reduce_min(x: Any, axes: Any = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Any:
    return _reduced(x, axes, keepdims, noop_with_empty_axes, _min)


@rule("ReduceL1", since=18, host=(1,))
def reduce_l1(x: Any, axes: Any = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Any:
    return _reduced(x, axes, keepdims, noop_with_empty_axes, _l1)


@rule("ReduceL2", since=18, host=(1,))
def reduce_l2(x: Any, axes: Any = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Any:
    return _reduced(x, axes, keepdims, noop_with_empty_axes, _l2)


@rule("ReduceLogSum", since=18, host=(1,))
def reduce_log_sum(x: Any, axes: Any = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Any:
    return _reduced(x, axes, keepdims, noop_with_empty_axes, _log_sum)


@rule("ReduceLogSumExp", since=18, host=(1,))
def reduce_log_sum_exp(x: Any, axes: Any = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Any:
    return _reduced(x, axes, keepdims, noop_with_empty_axes, _log_sum_exp)


@rule("ReduceSumSquare", since=18, host=(1,))
def reduce_sum_square(x: Any, axes: Any = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Any:
    return _reduced(x, axes, keepdims, noop_with_empty_axes, _sum_square)


# Before version 18 (13 for ReduceSum) axes are an attribute.


@rule("ReduceSum")
def reduce_sum_1(x: Any, *, axes: Sequence[int] | None = None, keepdims: int = 1) -> Any:
    return _reduced(x, axes, keepdims, 0, _sum)


@rule("ReduceMean")
def reduce_mean_1(x: Any, *, axes: Sequence[int] | None = None, keepdims: int = 1) -> Any:
    return _reduced(x, axes, keepdims, 0, _mean)


@rule("ReduceProd")
def reduce_prod_1(x: Any, *, axes: Sequence[int] | None = None, keepdims: int = 1) -> Any:
    return _reduced(x, axes, keepdims, 0, _prod)


@rule("ReduceMax")
def reduce_max_1(x: Any, *, axes: Sequence[int] | None = None, keepdims: int = 1) -> Any:
    return _reduced(x, axes, keepdims, 0, _max)


@rule("ReduceMin")
def reduce_min_1(x: Any, *, axes: Sequence[int] | None = None, keepdims: int = 1) -> Any:
    return _reduced(x, axes, keepdims, 0, _min)


@rule("ReduceL1")
def reduce_l1_1(x: Any, *, axes: Sequence[int] | None = None, keepdims: int = 1) -> Any:
    return _reduced(x, axes, keepdims, 0, _l1)


@rule("ReduceL2")
def reduce_l2_1(x: Any, *, axes: Sequence[int] | None = None, keepdims: int = 1) -> Any:
    return _reduced(x, axes, keepdims, 0, _l2)


@rule("ReduceLogSum")
def reduce_log_sum_1(x: Any, *, axes: Sequence[int] | None = None, keepdims: int = 1) -> Any:
    return _reduced(x, axes, keepdims, 0, _log_sum)


@rule("ReduceLogSumExp")
def reduce_log_sum_exp_1(x: Any, *, axes: Sequence[int] | None = None, keepdims: int = 1) -> Any:
    return _reduced(x, axes, keepdims, 0, _log_sum_exp)


@rule("ReduceSumSquare")
def reduce_sum_square_1(x: Any, *, axes: Sequence[int] | None = None, keepdims: int = 1) -> Any:
    return _reduced(x, axes, keepdims, 0, _sum_square)


def _place(find: Callable, x: Any, axis: int, keepdims: int, last: int) -> Any:
    axis = axis % x.ndim if x.ndim else 0
    if not last:
        return find(x, axis, bool(keepdims))
    found = find(aten.flip(x, [axis]), axis, bool(keepdims))
    return aten.sub(x.shape[axis] - 1, found) if not isinstance(found, _C.Tensor) else aten.add(
        aten.neg(found), x.shape[axis] - 1)


@rule("ArgMax", closed=True, gives=lambda numbers, settings: 7)
def arg_max(x: Any, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Any:
    return _place(aten.argmax, x, axis, keepdims, select_last_index)


@rule("ArgMin", closed=True, gives=lambda numbers, settings: 7)
def arg_min(x: Any, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Any:
    return _place(aten.argmin, x, axis, keepdims, select_last_index)


def _running(compute: Callable, x: Any, axis: Any, exclusive: int, reverse: int, first: int) -> Any:
    axis = int(as_tuple(axis)[0]) % x.ndim
    if reverse:
        x = aten.flip(x, [axis])
    if exclusive:
        head = aten.full_like(aten.slice(x, axis, 0, 1), first)
        x = aten.cat([head, aten.slice(x, axis, 0, x.shape[axis] - 1)], axis)
    found = compute(x, axis, dtype=x.dtype)
    return aten.flip(found, [axis]) if reverse else found


@rule("CumSum", since=11, host=(1,))
def running_sum(x: Any, axis: Any, *, exclusive: int = 0, reverse: int = 0) -> Any:
    return _running(aten.cumsum, x, axis, exclusive, reverse, 0)


@rule("CumProd", since=26, host=(1,))
def running_product(x: Any, axis: Any, *, exclusive: int = 0, reverse: int = 0) -> Any:
    return _running(aten.cumprod, x, axis, exclusive, reverse, 1)
