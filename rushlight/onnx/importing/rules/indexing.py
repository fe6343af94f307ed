"""Operators that read and write by index, and those that order or find elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .... import _C, ops
from ....library import custom_op, get_ctx
from ..hosts import as_tuple
from ..table import rule

aten = ops.aten


def positive(indices: Any, size: Any) -> Any:
    """Indices counted from the front."""
    return aten.where(aten.lt(indices, 0), aten.add(indices, size), indices)


@rule("Gather", closed=(1,))
def gather(x: Any, indices: Any, *, axis: int = 0) -> Any:
    if not isinstance(x, _C.Tensor):
        return x.take(indices.numpy(), axis)
    axis = axis % x.ndim
    flat = positive(aten.reshape(indices, (-1,)).to(_C.int64), x.shape[axis])
    found = aten.index_select(x, axis, flat)
    if indices.ndim == 1:
        return found
    if indices.ndim == 0:
        return aten.squeeze(found, axis)
    sizes = tuple(x.shape)
    return aten.reshape(found, sizes[:axis] + tuple(indices.shape) + sizes[axis + 1 :])


@rule("GatherElements", since=11, closed=(1,))
def gather_elements(x: Any, indices: Any, *, axis: int = 0) -> Any:
    return aten.gather(x, axis, positive(indices.to(_C.int64), x.shape[axis]))


@rule("GatherND", since=11, closed=(1,))
def gather_nd(x: Any, indices: Any, *, batch_dims: int = 0) -> Any:
    depth = indices.shape[-1]
    parts = [indices[..., k] for k in range(depth)]
    lead = []
    for d in range(batch_dims):
        places = aten.arange(x.shape[d], device=x.device)
        lead.append(aten.reshape(places, (1,) * d + (-1,) + (1,) * (indices.ndim - 2 - d)))
    where = [*lead, *parts]
    return aten.index(x, [w.to(_C.int64) for w in where]) if where else x


REDUCED = {"none": None, "add": "sum", "mul": "prod", "min": "amin", "max": "amax"}


def _reduction(op: str, reduction: str) -> str | None:
    if reduction not in REDUCED:
        raise ValueError(f"{op}: reduction should be one of {', '.join(REDUCED)}, got {reduction!r}")
    return REDUCED[reduction]


@rule("ScatterElements", "Scatter", since=9, closed=(1,))
def scatter_elements(x: Any, indices: Any, updates: Any, *, axis: int = 0, reduction: str = "none") -> Any:
    how = _reduction("ScatterElements", reduction)
    places = positive(indices.to(_C.int64), x.shape[axis])
    if how is None:
        return aten.scatter(x, axis, places, updates)
    return aten.scatter_reduce(x, axis, places, updates, how, include_self=True)


@rule("ScatterND", since=11, closed=(1,))
def scatter_nd(x: Any, indices: Any, updates: Any, *, reduction: str = "none") -> Any:
    how = _reduction("ScatterND", reduction)
    depth = indices.shape[-1]
    if depth == 0:
        return updates
    indices = indices.to(_C.int64)
    # Leading dims become one, which is written to by one index.
    flat = None
    count: Any = 1
    for k in range(depth):
        place = positive(indices[..., k], x.shape[k])
        flat = place if flat is None else aten.add(aten.mul(flat, x.shape[k]), place)
        count = count * x.shape[k]
    rest = tuple(x.shape)[depth:]
    base = aten.reshape(x, (count, *rest))
    rows = aten.reshape(flat, (-1,))
    values = aten.reshape(updates, (rows.shape[0], *rest))
    if how is None:
        found = aten.index_put(base, [rows], values)
    elif how == "sum":
        found = aten.index_put(base, [rows], values, accumulate=True)
    else:
        found = aten.index_reduce(base, 0, rows, values, how, include_self=True) if base.dtype.is_floating_point else (
            aten.scatter_reduce(base, 0, aten.expand(aten.reshape(rows, (-1,) + (1,) * len(rest)), tuple(values.shape)),
                                values, how, include_self=True))
    return aten.reshape(found, tuple(x.shape))


@rule("OneHot", since=9, host=(1,), closed=(0,), grows=True)
def one_hot(indices: Any, depth: Any, values: Any, *, axis: int = -1) -> Any:
    depth = int(as_tuple(depth)[0])
    rank = indices.ndim + 1
    axis = axis % rank
    places = positive(indices.to(_C.int64), depth)
    steps = aten.reshape(aten.arange(depth, device=indices.device), (1,) * axis + (-1,) + (1,) * (rank - 1 - axis))
    return aten.where(aten.eq(aten.unsqueeze(places, axis), steps), values[1], values[0])


@rule("NonZero", since=9, closed=True)
def nonzero(x: Any) -> Any:
    if x.ndim == 0:
        return aten.permute(aten.nonzero(aten.reshape(x, (1,))), (1, 0))
    return aten.permute(aten.nonzero(x), (1, 0))


@rule("Compress", since=9, closed=(1,))
def compress(x: Any, condition: Any, *, axis: int | None = None) -> Any:
    if axis is None:
        x, axis = aten.reshape(x, (-1,)), 0
    chosen = aten.reshape(aten.nonzero(condition.to(_C.bool)), (-1,))
    return aten.index_select(x, axis, chosen)


def _top_gives(numbers: Sequence[int], settings: Mapping[str, Any]) -> Any:
    return [numbers[0], 7]


def _top(x: Any, k: Any, axis: int, largest: int = 1, ordered: int = 1) -> tuple:
    """Equal elements come in the order of their places, so that sorting has to be stable."""
    if x.dtype.code in ("f16", "bf16"):
        values, indices = aten.sort(x.float(), stable=True, dim=axis, descending=bool(largest))
        values = values.to(x.dtype)
    else:
        values, indices = aten.sort(x, stable=True, dim=axis, descending=bool(largest))
    return aten.slice(values, axis, 0, k), aten.slice(indices, axis, 0, k)


@rule("TopK", since=11, host=(1,), gives=_top_gives)
def top_k(x: Any, k: Any, *, axis: int = -1, largest: int = 1, sorted: int = 1, count: int) -> tuple:    # noqa: A002
    k = as_tuple(k)[0]
    if k > x.shape[axis]:
        raise ValueError(f"TopK: k should be at most {x.shape[axis]}, the size of dim {axis}, got {k}")
    return _top(x, k, axis % x.ndim, largest, sorted)


@rule("TopK", since=10, host=(1,), gives=_top_gives)
def top_k_10(x: Any, k: Any, *, axis: int = -1, count: int) -> tuple:
    return top_k(x, k, axis=axis, count=count)


@rule("TopK", since=1, gives=_top_gives)
def top_k_1(x: Any, *, k: int, axis: int = -1, count: int) -> tuple:
    return top_k(x, k, axis=axis, count=count)


@rule("Unique", since=11, gives=lambda numbers, settings: [numbers[0], 7, 7, 7])
def unique(x: Any, *, axis: int | None = None, sorted: int = 1, count: int) -> tuple:    # noqa: A002 - ONNX's name
    if not isinstance(x, _C.Tensor):
        raise NotImplementedError("Unique: strings are not supported here")
    flat = aten.reshape(x, (-1,)) if axis is None else x
    dim = 0 if axis is None else axis % x.ndim
    values, inverse, counts = aten.unique(flat, True, True, True, dim)
    size = flat.shape[dim]
    places = aten.arange(size, device=x.device)
    first = aten.scatter_reduce(aten.full_like(counts, size), 0, inverse, places, "amin", include_self=True)
    if not sorted:
        order = aten.argsort(first)
        values, counts, first = aten.index_select(values, dim, order), counts[order], first[order]
        inverse = aten.argsort(order)[inverse]
    return values, first, inverse, counts


@rule("ReverseSequence", since=10, closed=(1,))
def reverse_sequence(x: Any, lengths: Any, *, batch_axis: int = 1, time_axis: int = 0) -> Any:
    steps, batch = x.shape[time_axis], x.shape[batch_axis]
    at = aten.unsqueeze(aten.arange(steps, device=x.device), 1)
    lengths = aten.unsqueeze(lengths.to(_C.int64), 0)
    at = aten.where(aten.lt(at, lengths), aten.sub(aten.sub(lengths, 1), at), at)          # [time, batch]
    moved = x if time_axis == 0 else aten.transpose(x, 0, 1)
    rest = tuple(moved.shape)[2:]
    at = aten.expand(aten.reshape(at, (steps, batch) + (1,) * len(rest)), (steps, batch, *rest))
    found = aten.gather(moved, 0, at)
    return found if time_axis == 0 else aten.transpose(found, 0, 1)


@rule("TensorScatter", since=24, closed=(2,))
def tensor_scatter(cache: Any, update: Any, places: Any = None, *, mode: str = "linear", axis: int = -2) -> Any:
    """Write a run of `update` into `cache` along an axis, at a place for each element of the batch."""
    axis = axis % cache.ndim
    if places is None:
        places = aten.zeros((cache.shape[0],), dtype=_C.int64, device=cache.device)
    count, size = update.shape[axis], cache.shape[axis]
    at = aten.add(aten.unsqueeze(places.to(_C.int64), 1), aten.arange(count, device=cache.device))
    if mode == "circular":
        at = aten.remainder(at, size)
    at = aten.reshape(at, (cache.shape[0],) + (1,) * (axis - 1) + (count,) + (1,) * (cache.ndim - 1 - axis))
    return aten.scatter(cache, axis, aten.expand(at, tuple(update.shape)), update)


@rule("NonMaxSuppression", since=10, closed=True, host=(2,))
def non_max_suppression(boxes: Any, scores: Any, most: Any = None, overlap: Any = None, least: Any = None, *,
                        center_point_box: int = 0) -> Any:
    """Boxes of each class by score, without those that overlap a better one: [batch, class, box] of each."""
    return _suppressed(boxes, scores, as_tuple(most)[0] if most is not None else 0, overlap, least,
                       bool(center_point_box))


@custom_op("onnx::NonMaxSuppression", mutates_args=(), schema="(Tensor boxes, Tensor scores, SymInt most, Tensor?"
           " overlap, Tensor? least, bool is_centered) -> Tensor")
def _suppressed(boxes: Any, scores: Any, most: int, overlap: Any, least: Any, is_centered: bool) -> Any:
    limit = int(most)
    bound = float(overlap.reshape(())) if overlap is not None else 0.0
    lowest = float(least.reshape(())) if least is not None else None
    areas, corners = _corners(boxes.float(), is_centered)
    found = []
    for n in range(boxes.shape[0]):
        for c in range(scores.shape[1]):
            kept = _kept(corners[n], areas[n], scores[n, c], limit, bound, lowest)
            found += [[n, c, k] for k in kept]
    from ....tensors.interop import tensor  # noqa: PLC0415

    return tensor(found, dtype=_C.int64, device=boxes.device).reshape(len(found), 3)


@_suppressed.register_fake
def _suppressed_like(boxes: Any, *rest: Any) -> Any:
    return aten.empty((get_ctx().new_dynamic_size(), 3), dtype=_C.int64, device=boxes.device)


def _corners(boxes: Any, is_centered: bool) -> tuple[Any, Any]:
    if is_centered:
        x, y, w, h = boxes.unbind(-1)
        low_x, high_x, low_y, high_y = x - w / 2, x + w / 2, y - h / 2, y + h / 2
    else:
        y1, x1, y2, x2 = boxes.unbind(-1)
        low_x, high_x = aten.minimum(x1, x2), aten.maximum(x1, x2)
        low_y, high_y = aten.minimum(y1, y2), aten.maximum(y1, y2)
    return (high_x - low_x) * (high_y - low_y), aten.stack([low_x, low_y, high_x, high_y], -1)


def _kept(corners: Any, areas: Any, scores: Any, limit: int, bound: float, lowest: float | None) -> list[int]:
    order = aten.argsort(scores, descending=True, stable=True)
    if lowest is not None:
        order = order[aten.gt(scores[order], lowest)]
    kept: list[int] = []
    while order.numel() and len(kept) < limit:
        best, rest = order[0], order[1:]
        kept.append(int(best))
        a, b = corners[best], corners[rest]
        sides = aten.clamp(aten.minimum(a[2:], b[:, 2:]) - aten.maximum(a[:2], b[:, :2]), min=0)
        shared = sides[:, 0] * sides[:, 1]
        order = rest[aten.le(shared / (areas[best] + areas[rest] - shared), bound)]
    return kept
