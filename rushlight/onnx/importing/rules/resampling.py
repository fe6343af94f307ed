"""Images in other sizes, and what is read between their elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .... import _C, ops
from ....nn import functional
from ..hosts import as_tuple
from ..table import rule

aten = ops.aten


@rule("Resize", since=11, host=(2, 3), closed=(1, 2, 3), grows=True)
def resize(x: Any, roi: Any = None, scales: Any = None, sizes: Any = None, *, antialias: int = 0,
           axes: Sequence[int] | None = None, coordinate_transformation_mode: str = "half_pixel",
           cubic_coeff_a: float = -0.75, exclude_outside: int = 0, extrapolation_value: float = 0.0,
           keep_aspect_ratio_policy: str = "stretch", mode: str = "nearest", nearest_mode: str = "round_prefer_floor"
           ) -> Any:
    axes = list(range(x.ndim)) if axes is None else [a % x.ndim for a in axes]
    lengths = tuple(x.shape)
    if scales is not None and len(as_tuple(scales)):
        factors = list(as_tuple(scales))
        targets = [_scaled(lengths[a], s) for a, s in zip(axes, factors, strict=True)]
    elif sizes is not None:
        targets = list(as_tuple(sizes))
        factors = [t / lengths[a] for a, t in zip(axes, targets, strict=True)]
        if keep_aspect_ratio_policy != "stretch":
            factor = (min if keep_aspect_ratio_policy == "not_larger" else max)(factors)
            factors = [factor] * len(axes)
            targets = [math.floor(lengths[a] * factor + 0.5) for a in axes]
    else:
        raise ValueError("Resize: expected scales or sizes, got neither")
    places = {a: (t, s) for a, t, s in zip(axes, targets, factors, strict=True)
              if not _is_same(t, s, lengths[a], coordinate_transformation_mode)}
    whole = _at_once(x, places, coordinate_transformation_mode, mode, nearest_mode, antialias, exclude_outside,
                     bool(scales))
    if whole is not None:
        return whole
    bounds = {} if roi is None or coordinate_transformation_mode != "tf_crop_and_resize" else {
        a: (roi[k], roi[k + len(axes)]) for k, a in enumerate(axes)}
    outside = None
    found = x if x.dtype.is_floating_point else x.to(_C.float32)
    for a, (target, factor) in places.items():
        at = positions(lengths[a], target, factor, coordinate_transformation_mode, bounds.get(a), x.device)
        found = _along(found, a, at, factor, mode, nearest_mode, antialias, exclude_outside, cubic_coeff_a)
        if bounds:
            beyond = aten.logical_or(aten.lt(at, 0), aten.gt(at, lengths[a] - 1))
            beyond = aten.reshape(beyond, (-1,) + (1,) * (x.ndim - 1 - a))
            outside = beyond if outside is None else aten.logical_or(outside, beyond)
    if outside is not None:
        found = aten.where(outside, aten.full_like(found, extrapolation_value), found)
    if not x.dtype.is_floating_point and mode != "nearest":
        found = aten.round(found)
    return found.to(x.dtype)


def _scaled(n: Any, factor: float) -> Any:
    """The size of a dim that is scaled, rounded down."""
    return n * int(factor) if factor == int(factor) else math.floor(n * factor)


def _is_same(target: Any, factor: Any, length: Any, how: str) -> bool:
    if how == "tf_crop_and_resize":
        return False
    if isinstance(factor, float) and factor == 1.0:
        return True
    return isinstance(target, int) and isinstance(length, int) and target == length and factor == 1


def _at_once(x: Any, places: dict[int, tuple], how: str, mode: str, nearest: str, antialias: int, exclude: int,
             by_scales: bool) -> Any:
    """The whole resize by one op, where one means the same."""
    rank = x.ndim - 2
    if not places:
        return x
    if not 1 <= rank <= 3 or any(a < 2 for a in places) or antialias or exclude or not x.dtype.is_floating_point:
        return None
    targets = [places[a][0] if a in places else x.shape[a] for a in range(2, x.ndim)]
    factors = [places[a][1] if a in places else 1.0 for a in range(2, x.ndim)]
    if mode == "nearest":
        whole = all(isinstance(f, (int, float)) and f == int(f) and f >= 1 for f in factors)
        odd_or_floor = (how == "asymmetric" and nearest == "floor") or (
            how == "half_pixel" and nearest.startswith("round") and all(f in (1, 2) for f in factors))
        if not (whole and odd_or_floor):
            return None
        for d, f in enumerate(factors):
            if f != 1:
                x = aten.repeat_interleave(x, int(f), d + 2)
        return x
    aligned = how == "align_corners"
    if aligned and by_scales and any(not float(f).is_integer() for f in factors):
        return None
    if mode != "linear" or not (aligned or how in ("half_pixel", "pytorch_half_pixel")):
        return None
    if how == "pytorch_half_pixel" and any(not isinstance(t, int) or t == 1 for t in targets):
        return None
    name = {1: "linear", 2: "bilinear", 3: "trilinear"}[rank]
    if by_scales and not aligned:
        return functional.interpolate(x, scale_factor=[float(f) for f in factors], mode=name, align_corners=False)
    return functional.interpolate(x, size=targets, mode=name, align_corners=aligned)


def positions(length: Any, target: Any, factor: Any, how: str, bounds: Any, device: Any) -> Any:
    """Where each element of the result lies in the dim that it comes from."""
    at = aten.arange(target, dtype=_C.float64, device=device)
    exact = length * factor
    if how == "half_pixel":
        return aten.sub(aten.div(aten.add(at, 0.5), factor), 0.5)
    if how == "pytorch_half_pixel":
        return aten.sub(aten.div(aten.add(at, 0.5), factor), 0.5) if target > 1 else aten.full_like(at, -0.5)
    if how == "half_pixel_symmetric":
        offset = length / 2 * (1 - target / exact)
        return aten.add(aten.sub(aten.div(aten.add(at, 0.5), factor), 0.5), offset)
    if how == "asymmetric":
        return aten.div(at, factor)
    if how == "align_corners":
        return aten.mul(at, (length - 1) / (exact - 1)) if exact != 1 else aten.zeros_like(at)
    if how == "tf_half_pixel_for_nn":
        return aten.div(aten.add(at, 0.5), factor)
    if how == "tf_crop_and_resize" and bounds is not None:
        begin, end = bounds[0].to(_C.float64), bounds[1].to(_C.float64)
        span = (end - begin) * (length - 1)
        first = begin * (length - 1)
        return aten.add(aten.mul(at, span / (exact - 1)), first) if exact > 1 else aten.add(
            aten.zeros_like(at), first + span / 2)
    raise ValueError(f"Resize: coordinate_transformation_mode {how!r} is not known, or needs roi")


def _along(x: Any, dim: int, at: Any, factor: Any, mode: str, nearest: str, antialias: int, exclude: int, cubic: float
           ) -> Any:
    """x resampled along one dim."""
    length = x.shape[dim]
    if mode == "nearest":
        rounded = {"round_prefer_floor": lambda p: aten.ceil(aten.sub(p, 0.5)),
                   "round_prefer_ceil": lambda p: aten.floor(aten.add(p, 0.5)), "floor": aten.floor, "ceil": aten.ceil}
        if nearest not in rounded:
            raise ValueError(f"Resize: nearest_mode {nearest!r} is not known")
        return aten.index_select(x, dim, aten.clamp(rounded[nearest](at).to(_C.int64), 0, length - 1))
    if mode not in ("linear", "cubic"):
        raise ValueError(f"Resize: mode should be 'nearest', 'linear' or 'cubic', got {mode!r}")
    shrink = min(factor, 1.0) if antialias else 1.0
    reach = math.ceil((1 if mode == "linear" else 2) / shrink)
    base = aten.floor(at)
    taps, weights = [], []
    for k in range(1 - reach, reach + 1):
        place = aten.add(base, k)
        apart = aten.mul(aten.abs(aten.sub(place, at)), shrink)
        taps.append(place.to(_C.int64))
        weights.append(_triangle(apart) if mode == "linear" else _cubic(apart, cubic))
    if exclude:
        weights = [aten.where(aten.logical_or(aten.lt(t, 0), aten.ge(t, length)), aten.zeros_like(w), w)
                   for t, w in zip(taps, weights, strict=True)]
    if exclude or antialias:
        total = sum(weights)
        weights = [aten.div(w, total) for w in weights]
    found = None
    for tap, weight in zip(taps, weights, strict=True):
        part = aten.index_select(x, dim, aten.clamp(tap, 0, length - 1))
        part = aten.mul(part, aten.reshape(weight.to(x.dtype), (-1,) + (1,) * (x.ndim - 1 - dim)))
        found = part if found is None else aten.add(found, part)
    return found


def _triangle(apart: Any) -> Any:
    return aten.clamp(aten.sub(1, apart), min=0)


def _cubic(apart: Any, a: float) -> Any:
    near = ((a + 2) * apart - (a + 3)) * apart * apart + 1
    far = ((a * apart - 5 * a) * apart + 8 * a) * apart - 4 * a
    return aten.where(aten.le(apart, 1), near, aten.where(aten.lt(apart, 2), far, aten.zeros_like(far)))


@rule("Resize", since=10, host=(1,), closed=(1,), grows=True)
def resize_10(x: Any, scales: Any, *, mode: str = "nearest") -> Any:
    return resize(x, None, scales, mode=mode, coordinate_transformation_mode="asymmetric", nearest_mode="floor")


@rule("Upsample", since=9, host=(1,), closed=(1,), grows=True)
def upsample(x: Any, scales: Any, *, mode: str = "nearest") -> Any:
    return resize_10(x, scales, mode="linear" if mode == "bilinear" else mode)


@rule("Upsample", since=7, grows=True)
def upsample_7(x: Any, *, scales: Sequence[float], mode: str = "nearest") -> Any:
    return upsample(x, tuple(scales), mode=mode)


@rule("Upsample", since=1, grows=True)
def upsample_1(x: Any, *, height_scale: float, width_scale: float, mode: str = "nearest") -> Any:
    return upsample(x, (1.0, 1.0, height_scale, width_scale), mode=mode)


GRID_MODES = {"linear": "bilinear", "bilinear": "bilinear", "nearest": "nearest", "cubic": "bicubic",
              "bicubic": "bicubic"}


@rule("GridSample", since=16)
def grid_sample(x: Any, grid: Any, *, align_corners: int = 0, mode: str = "linear", padding_mode: str = "zeros") -> Any:
    if mode not in GRID_MODES:
        raise ValueError(f"GridSample: mode should be 'linear', 'nearest' or 'cubic', got {mode!r}")
    return functional.grid_sample(x, grid.to(x.dtype), GRID_MODES[mode], padding_mode, bool(align_corners))


@rule("AffineGrid", since=20, host=(1,), grows=True)
def affine_grid(theta: Any, size: Any, *, align_corners: int = 0) -> Any:
    return functional.affine_grid(theta, list(as_tuple(size)), bool(align_corners))


@rule("RoiAlign", since=10, closed=(1, 2))
def roi_align(x: Any, rois: Any, batches: Any, *, coordinate_transformation_mode: str = "half_pixel", mode: str = "avg",
              output_height: int = 1, output_width: int = 1, sampling_ratio: int = 0,
              spatial_scale: float = 1.0) -> Any:
    """Each region in so many bins, a bin from samples between elements."""
    offset = 0.5 if coordinate_transformation_mode == "half_pixel" else 0.0
    found = []
    for box, batch in zip(rois.tolist(), batches.tolist(), strict=True):
        x1, y1, x2, y2 = [v * spatial_scale - offset for v in box]
        width, height = x2 - x1, y2 - y1
        if not offset:
            width, height = max(width, 1.0), max(height, 1.0)
        down, right = height / output_height, width / output_width
        rows = sampling_ratio or math.ceil(down)
        columns = sampling_ratio or math.ceil(right)
        ys = _samples(y1, down, output_height, rows, x)
        xs = _samples(x1, right, output_width, columns, x)
        tapped = _between(x[batch], ys, xs, mode == "max")
        tapped = aten.reshape(tapped, (x.shape[1], output_height, rows, output_width, columns))
        found.append(aten.amax(tapped, [2, 4]) if mode == "max" else aten.mean(tapped, [2, 4]))
    return aten.stack(found) if found else aten.zeros((0, x.shape[1], output_height, output_width), dtype=x.dtype)


def _samples(begin: float, step: float, bins: int, each: int, x: Any) -> Any:
    at = aten.arange(bins * each, dtype=_C.float64, device=x.device)
    return aten.add(aten.mul(aten.add(at, 0.5), step / each), begin)


def _between(image: Any, ys: Any, xs: Any, greatest: bool) -> Any:
    """Values of an image [C, H, W] at a grid of rows and columns, 0 outside."""
    height, width = image.shape[1], image.shape[2]
    inside = aten.logical_and(_is_inside(ys, height).reshape(-1, 1), _is_inside(xs, width).reshape(1, -1))
    ys, xs = aten.clamp(ys, 0, height - 1), aten.clamp(xs, 0, width - 1)
    top, left = aten.floor(ys).to(_C.int64), aten.floor(xs).to(_C.int64)
    below, beside = aten.clamp(top + 1, max=height - 1), aten.clamp(left + 1, max=width - 1)
    dy, dx = (ys - top).to(image.dtype).reshape(-1, 1), (xs - left).to(image.dtype).reshape(1, -1)
    corners = [(top, left, (1 - dy) * (1 - dx)), (top, beside, (1 - dy) * dx), (below, left, dy * (1 - dx)),
               (below, beside, dy * dx)]
    parts = [aten.index_select(aten.index_select(image, 1, r), 2, c) * w for r, c, w in corners]
    total = parts[0]
    for part in parts[1:]:
        total = aten.maximum(total, part) if greatest else aten.add(total, part)
    return aten.where(inside, total, aten.zeros_like(total))


def _is_inside(at: Any, length: Any) -> Any:
    return aten.logical_and(aten.ge(at, -1), aten.le(at, length))


@rule("MaxRoiPool")
def max_roi_pool(x: Any, rois: Any, *, pooled_shape: Sequence[int], spatial_scale: float = 1.0) -> Any:
    rows, columns = pooled_shape
    found = []
    for batch, *box in rois.tolist():
        x1, y1, x2, y2 = [math.floor(v * spatial_scale + 0.5) for v in box]
        height, width = max(y2 - y1 + 1, 1) / rows, max(x2 - x1 + 1, 1) / columns
        bins = []
        for r in range(rows):
            top, below = _bin(r, height, y1, x.shape[2])
            for c in range(columns):
                left, right = _bin(c, width, x1, x.shape[3])
                part = x[int(batch), :, top:below, left:right]
                bins.append(aten.amax(part, [1, 2]) if part.numel() else aten.zeros((x.shape[1],), dtype=x.dtype))
        found.append(aten.reshape(aten.stack(bins, 1), (x.shape[1], rows, columns)))
    return aten.stack(found)


def _bin(k: int, step: float, begin: int, limit: int) -> tuple[int, int]:
    low, high = math.floor(k * step) + begin, math.ceil((k + 1) * step) + begin
    return min(max(low, 0), limit), min(max(high, 0), limit)
