"""Distinct elements: unique and unique_consecutive, of elements or of slices along a dim.

Enters: tensors of ordered types. Leaves: the distinct elements, and if asked for where each element went and how often
each occurs; all written with sorts, comparisons and scans. Refuses: complex numbers, slices without elements, and meta
tensors, since the number of results depends on data. Every NaN is distinct.
"""

from __future__ import annotations

from typing import Any

from ... import _C
from ...op import Library, OpDefinition, Spec, find_op, wrap_dim
from ...planners.order.runs import WALKED, runs_schedule

COUNTS = (_C.int64, _C.int32, _C.int16, _C.int8, _C.uint8)
KEY_BITS = 62


class _Distinct(OpDefinition):
    """Ops whose output sizes depend on data: one tensor or several."""

    differentiable = False
    out = False
    batch = "data"

    def most(self, input: Any, *rest: Any) -> Any:
        """The size that elements decide is at most this."""
        return input.numel() if rest[-1] is None else input.shape[rest[-1]]

    def hidden_size(self, size: Any, input: Any, *rest: Any) -> Any:
        """The results, given that size."""
        *_, inverse, counts, dim = rest
        shape = tuple(input.shape)
        at = None if dim is None else wrap_dim(self.name, dim, input.ndim)
        result = [Spec((size,) if at is None else (*shape[:at], size, *shape[at + 1 :]), input.dtype)]
        result += [Spec(shape if at is None else (shape[at],), _C.int64)] if inverse else []
        result += [Spec((size,), _C.int64)] if counts else []
        return result[0] if len(result) == 1 else tuple(result)

    def run(self, *args: Any) -> Any:
        if args[0].is_meta:
            raise NotImplementedError(f"{self.name}: the number of results depends on data, and meta tensors have none")
        result = self.compute(args[0].detach(), *args[1:])
        return result[0] if len(result) == 1 else tuple(result)

    def compute(self, *args: Any) -> list[Any]:
        raise NotImplementedError


def check_distinct(name: str, t: Any, dim: int | None) -> None:
    """Refuse what has no order, and slices without elements."""
    if t.dtype.is_complex:
        raise NotImplementedError(f'"{name}" not implemented for {t.dtype.name}')
    if dim is None:
        return
    if not t.ndim:
        raise IndexError(f"{name}: Dimension specified as {dim} but tensor has no dimensions")
    if 0 in [n for d, n in enumerate(t.shape) if d != wrap_dim(name, dim, t.ndim)]:
        raise RuntimeError(
            f"{name}: shape {list(t.shape)} is empty in a dimension other than dim, so its slices have no elements to"
            " compare"
        )


def slices(t: Any, dim: int) -> Any:
    """One row per slice along `dim`."""
    return t.movedim(dim, 0).flatten(1) if t.ndim > 1 else t.unsqueeze(1)


def starts_of(rows: Any) -> Any:
    """Whether each element (or slice) differs from the one before it; the first always does."""
    differs = rows[1:] != rows[:-1]
    differs = differs.any(1) if rows.ndim == 2 else differs
    first = differs.new_ones((min(rows.shape[0], 1),), dtype=_C.bool)
    return find_op("cat")([first, differs])


def counts_of(first: Any, total: int) -> Any:
    """How many elements each run has, from where runs begin."""
    ends = find_op("cat")([first[1:], first.new_full((min(first.shape[0], 1),), total)])
    return ends - first


def joined_columns(rows: Any) -> list[Any]:
    """Numbers that order rows as their columns do, one behind the other: neighbours whose values need few bits
    together are one number."""
    wide = rows.to(_C.int64)
    lows, highs = find_op("stack")([wide.amin(0), wide.amax(0)]).tolist()
    widths = [(high - low).bit_length() for low, high in zip(lows, highs, strict=True)]
    groups: list[list[int]] = []
    for column, width in enumerate(widths):
        if not groups or sum(widths[c] for c in groups[-1]) + width > KEY_BITS:
            groups.append([])
        groups[-1].append(column)
    keys = []
    for first, *others in groups:
        if not others:
            keys.append(rows[:, first])
            continue
        last = first + len(others) + 1
        shifts = [sum(widths[c + 1 : last]) for c in range(first, last)]
        factors = wide.new_tensor([1 << shift for shift in shifts])
        keys.append(((wide[:, first:last] - wide.new_tensor(lows[first:last])) * factors).sum(1))
    return keys


def order_of(rows: Any) -> Any:
    """Where the slices in order come from: stable sorts by the last key, then the one before, and so on."""
    keys = joined_columns(rows) if rows.dtype in COUNTS and min(rows.shape) > 1 else list(rows.unbind(1))
    if len(keys) == 1:
        return keys[0].argsort(stable=True)
    order = find_op("arange")(rows.shape[0], device=rows.device)
    for column in reversed(keys):
        order = order.index_select(0, column.index_select(0, order).argsort(stable=True))
    return order


class Runs(Library):
    """The first elements of runs of equal neighbours in a dense vector, and if asked for the run of every element and
    the lengths of runs: as many as there are elements, of which the last result says how many count."""

    computes = False
    schema = "_runs(Tensor input, bool inverse, bool counts) -> (Tensor, Tensor, Tensor, Tensor)"
    function = method = out = differentiable = False

    def meta(self, input, inverse, counts):
        (length,) = input.shape
        sizes = (length if inverse else 0, length if counts else 0, 1)
        return Spec((length,), input.dtype), *[Spec((size,), _C.int64) for size in sizes]

    def launches(self, args):
        input, inverse, counts = args
        return runs_schedule(input.dtype.code, input.shape[0], inverse, counts)


def shortened(result: Any, size: int) -> Any:
    """The first elements of a fresh vector; memory that is mostly theirs is not copied."""
    return result.resize_(size) if 2 * size > result.shape[0] else result.narrow(0, 0, size).clone()


def runs_of(flat: Any, inverse: bool, counts: bool) -> tuple[Any, Any, Any]:
    """The first elements of the runs of a vector, which run each element is in and how long they are, if asked for."""
    if flat.dtype is _C.bool:
        values, *rest = runs_of(flat.view(_C.uint8), inverse, counts)
        return values.view(_C.bool), *rest
    if flat.device.type == "cpu" and flat.dtype.code in WALKED:
        values, rank, lengths, size = find_op("_runs")(flat.contiguous(), inverse, counts)
        size = size.item()
        return shortened(values, size), rank if inverse else None, shortened(lengths, size) if counts else None
    starts = starts_of(flat)
    first = starts.nonzero().reshape(-1)
    rank = starts.cumsum(0).sub_(1) if inverse else None
    return flat.index_select(0, first), rank, counts_of(first, flat.shape[0]) if counts else None


class Unique(_Distinct):
    """The distinct elements in order, where each went, and how often it occurs."""

    schema = (
        "unique(Tensor input, bool sorted=True, bool return_inverse=False, bool return_counts=False, int? dim=None) ->"
        " Tensor"
    )

    def compute(self, input, sorted, return_inverse, return_counts, dim):
        check_distinct("unique", input, dim)
        if dim is None:
            ordered, order = input.reshape(-1).sort(stable=True)
            values, rank, lengths = runs_of(ordered, return_inverse, return_counts)
            inverse = rank.scatter(0, order, rank).reshape(input.shape) if return_inverse else None
            return [t for t in (values, inverse, lengths) if t is not None]
        at = wrap_dim("unique", dim, input.ndim)
        flat = slices(input, at)
        order = order_of(flat)
        starts = starts_of(flat.index_select(0, order))
        first = starts.nonzero().reshape(-1)
        result = [input.index_select(at, order.index_select(0, first))]
        if return_inverse:
            rank = starts.cumsum(0).sub_(1)
            result.append(rank.scatter(0, order, rank))
        if return_counts:
            result.append(counts_of(first, flat.shape[0]))
        return result


class UniqueConsecutive(_Distinct):
    """The elements without repetitions of neighbours."""

    schema = (
        "unique_consecutive(Tensor input, bool return_inverse=False, bool return_counts=False, int? dim=None) -> Tensor"
    )

    def compute(self, input, return_inverse, return_counts, dim):
        check_distinct("unique_consecutive", input, dim)
        if dim is None:
            values, inverse, lengths = runs_of(input.reshape(-1), return_inverse, return_counts)
            inverse = inverse.reshape(input.shape) if return_inverse else None
            return [t for t in (values, inverse, lengths) if t is not None]
        at = wrap_dim("unique_consecutive", dim, input.ndim)
        starts = starts_of(slices(input, at))
        first = starts.nonzero().reshape(-1)
        result = [input.index_select(at, first)]
        if return_inverse:
            result.append(starts.cumsum(0).sub_(1))
        if return_counts:
            result.append(counts_of(first, input.shape[at]))
        return result
