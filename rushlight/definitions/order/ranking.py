"""Elements by rank: median, kthvalue, quantile, mode. All stand on an order or a selection, and on gather,
which carries the gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rushlight import _C
from rushlight.base.shape import reaches
from rushlight.op import Composite, find_op, result_type, wrap_dim

SELECTED = 17   # elements from which one is selected: fewer are sorted by a kernel as fast


def ranked(input: Any, dim: int, position: Any, keepdim: bool) -> tuple[Any, Any]:
    """(values, indices) of the elements at `position` (a number, or an int64 tensor that keeps `dim`) in order along
    `dim`."""
    if not input.ndim:
        return input.clone(), find_op("zeros")((), dtype=_C.int64, device=input.device)
    if isinstance(position, int) and reaches(input.shape[dim], SELECTED):
        return squeezed(dim, keepdim, *selected(input, position, "kept", dim))
    order = input.detach().sort(dim)[1]
    where = order.narrow(dim, position, 1).contiguous() if isinstance(position, int) else order.gather(dim, position)
    return squeezed(dim, keepdim, input.gather(dim, where), where)


def selected(input: Any, position: int, missing: str, dim: int) -> tuple[Any, Any]:
    """(values, indices) at `position` along `dim`, which is kept. Rows are read several times: make them dense."""
    if dim == input.ndim - 1 or input.stride(dim) == 1:
        return find_op("_ranked_element")(input, position, missing, dim)
    last = input.ndim - 1
    values, where = find_op("_ranked_element")(input.movedim(dim, last).contiguous(), position, missing, last)
    return values.movedim(last, dim), where.movedim(last, dim)


def squeezed(dim: int, keepdim: bool, values: Any, where: Any) -> tuple[Any, Any]:
    return (values, where) if keepdim else (values.squeeze(dim), where.squeeze(dim))


def check_length(name: str, input: Any, dim: int) -> int:
    """The number of elements along `dim`; IndexError if there are none."""
    n = input.shape[dim] if input.ndim else 1
    if n == 0:
        raise IndexError(f"{name}(): Expected reduction dim {dim} to have non-zero size.")
    return n


class Median(Composite):
    """The middle element, the lower of two; NaN if there is one."""

    schema = "median(Tensor input) -> Tensor"
    skips_nan, missing = False, "first"

    def compute(self, input):
        n = input.numel()
        if not n:
            if not input.dtype.is_floating_point:
                raise RuntimeError(f"{self.name}(): an empty tensor of {input.dtype.name} has no median")
            return input.new_full((), math.nan)
        row = input if input.ndim == 1 else input.reshape(-1)
        if row.dtype.is_floating_point:
            return find_op("_ranked_element")(row, (n - 1) // 2, self.missing, 0)[0].squeeze(0)
        return self.middle(row, 0)[0].squeeze(0)

    def middle(self, input: Any, dim: int) -> tuple[Any, Any]:
        """(values, indices) of the median along `dim`, which is kept."""
        if input.dtype.is_complex:
            raise NotImplementedError(f'"{self.name}" not implemented for {input.dtype.name} tensors')
        n = check_length(self.name, input, dim)
        if not input.ndim or not input.dtype.is_floating_point:
            return ranked(input, dim, (n - 1) // 2, True)
        if input.ndim == 1 or reaches(n, SELECTED):    # of one row, however short, the calls take longest
            return selected(input, (n - 1) // 2, self.missing, dim)
        missing = input.detach().isnan().sum(dim, True)
        if self.skips_nan:
            position = (n - missing - 1).clamp(min=0).div(2, rounding_mode="floor")
        else:   # the first NaN comes right behind the numbers
            position = find_op("where")(missing > 0, n - missing, (n - 1) // 2)
        return ranked(input, dim, position, True)


class NanMedian(Median):
    """The middle of the elements that are not NaN."""

    schema = "nanmedian(Tensor input) -> Tensor"
    skips_nan, missing = True, "skipped"


class MedianDim(Median):
    """The middle element along `dim` and where it is."""

    schema = "median(Tensor input, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)"
    replays = True

    def compute(self, input, dim, keepdim):
        dim = wrap_dim(self.name, dim, input.ndim)
        values, where = self.middle(input, dim)
        if not keepdim and input.ndim:
            values, where = values.squeeze(dim), where.squeeze(dim)
        return result_type(self.spec.name, self.spec.return_names)((values, where))


class NanMedianDim(MedianDim):
    """The middle of the elements along `dim` that are not NaN, and where it is."""

    schema = "nanmedian(Tensor input, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)"
    skips_nan, missing = True, "skipped"


class KthValue(Composite):
    """The k-th smallest element along `dim`, counted from 1, and where it is."""

    schema = "kthvalue(Tensor input, int k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)"
    replays = True
    own_out = True

    def compute(self, input, k, dim, keepdim):
        dim = wrap_dim("kthvalue", dim, input.ndim)
        n = check_length("kthvalue", input, dim)
        if not 1 <= k <= n:
            raise RuntimeError(f"kthvalue: k={k} is out of range for dimension {dim} of size {n}")
        return result_type(self.spec.name, self.spec.return_names)(ranked(input, dim, k - 1, keepdim))


class Mode(Composite):
    """The most frequent element along `dim`, the smallest of equals, and its last position."""

    schema = "mode(Tensor input, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)"
    replays = True
    plan_per_shape = True

    def compute(self, input, dim, keepdim):
        dim = wrap_dim("mode", dim, input.ndim)
        n = check_length("mode", input, dim)
        wrap = result_type(self.spec.name, self.spec.return_names)
        if not input.ndim:
            return wrap(ranked(input, dim, 0, True))
        # Stable order: equal elements form runs whose positions rise, so a run's last entry is its last position.
        order = input.detach().sort(stable=True, dim=dim)[1]
        values = input.detach().gather(dim, order)
        first = values.narrow(dim, 0, 1)
        changed = find_op("cat")([first != first, values.narrow(dim, 1, n - 1) != values.narrow(dim, 0, n - 1)], dim)
        steps = (
            find_op("arange")(n, device=input.device)
            .view(*(n if d == dim else 1 for d in range(input.ndim)))
            .expand(values.shape)
        )
        start = (steps * changed).cummax(dim)[0]
        best = (steps - start).argmax(dim, True)
        where = order.gather(dim, best)
        picked = input.gather(dim, where)
        return wrap((picked, where) if keepdim else (picked.squeeze(dim), where.squeeze(dim)))


METHODS = ("linear", "lower", "higher", "midpoint", "nearest")


class Quantile(Composite):
    """The q-quantiles along `dim`, or of all elements; NaN where there is one."""

    schema = (
        "quantile(Tensor input, float q, int? dim=None, bool keepdim=False, *, str interpolation='linear') -> Tensor",
        "quantile(Tensor input, Tensor q, int? dim=None, bool keepdim=False, *, str interpolation='linear') -> Tensor",
    )
    replays = True
    skips_nan = False

    def compute(self, input, q, dim, keepdim, interpolation):
        name = self.spec.name
        if interpolation not in METHODS:
            raise RuntimeError(
                f"{name}: expected interpolation 'linear', 'lower', 'higher', 'midpoint' or 'nearest', got"
                f" {interpolation}"
            )
        if input.dtype not in (_C.float32, _C.float64):
            raise RuntimeError(f"{name}: expected an input of dtype float32 or float64, got {input.dtype.name}")
        if not input.numel():
            raise RuntimeError(f"{name}() input tensor must be non-empty")
        if isinstance(q, _C.Tensor):
            if q.ndim > 1:
                raise RuntimeError(f"{name}: expected q to be a number or a vector")
            if q.dtype is not input.dtype:
                raise RuntimeError(f"{name}: expected q of the dtype of input, {input.dtype.name}, got {q.dtype.name}")
            wanted, many = q.reshape(-1).unbind(), q.ndim == 1
        else:
            wanted, many = [float(q)], False
        if not (many and q.is_meta) and any(not 0 <= float(v) <= 1 for v in wanted):
            raise RuntimeError(f"{name}: expected q in [0, 1], got {[float(v) for v in wanted]}")
        ndim, full = input.ndim, dim is None
        if full:
            input, dim = input.reshape(-1), 0
        dim = wrap_dim(name, dim, input.ndim)
        results = self.interpolated(input if input.ndim else input.reshape(1), wanted, dim, interpolation)
        if full or not ndim:
            results = [r.reshape((1,) * ndim if keepdim else ()) for r in results]
        elif not keepdim:
            results = [r.squeeze(dim) for r in results]
        return find_op("stack")(results, 0) if many else results[0]

    def interpolated(self, input: Any, wanted: Sequence[Any], dim: int, interpolation: str) -> list[Any]:
        """One result per quantile, with `dim` kept."""
        ordered = input.sort(dim)[0]
        missing = input.detach().isnan().sum(dim, True)
        n = input.shape[dim]
        last = (n - missing - 1) if self.skips_nan else missing * 0 + (n - 1)
        results = []
        for q in wanted:
            exact = (last.to(input.dtype) * q).clamp(min=0)
            if interpolation == "nearest":
                exact = exact.round()
            elif interpolation in ("lower", "higher"):
                exact = exact.floor() if interpolation == "lower" else exact.ceil()
            below = exact.floor()
            low, high = ordered.gather(dim, below.to(_C.int64)), ordered.gather(dim, exact.ceil().to(_C.int64))
            weight = exact - below if interpolation != "midpoint" else (exact != below).to(input.dtype) * 0.5
            value = low.lerp(high, weight)
            results.append(value if self.skips_nan else value.masked_fill(missing > 0, math.nan))
        return results


class NanQuantile(Quantile):
    """The q-quantiles of the elements that are not NaN."""

    schema = (
        (
            "nanquantile(Tensor input, float q, int? dim=None, bool keepdim=False, *, str interpolation='linear') ->"
            " Tensor"
        ),
        (
            "nanquantile(Tensor input, Tensor q, int? dim=None, bool keepdim=False, *, str interpolation='linear') ->"
            " Tensor"
        ),
    )
    replays = True
    skips_nan = True
