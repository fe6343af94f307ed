"""Operators that move elements: shapes, parts, repetitions, margins, and tensors made of sizes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from .... import _C, ops
from ...._higher_order_ops.cond import is_recorded
from ....compiler import is_dynamo_compiling
from ...kinds import ELEMENTS
from ..hosts import as_tuple
from ..table import rule

aten = ops.aten


@rule("Reshape", since=5, host=(1,))
def reshape(x: Any, shape: Any, *, allowzero: int = 0) -> Any:
    shape = as_tuple(shape)
    if not allowzero:
        shape = tuple([x.shape[i] if isinstance(n, int) and n == 0 else n for i, n in enumerate(shape)])
    if _is_text(x):
        return x.reshape(shape)
    if any(isinstance(n, int) and n == -1 for n in shape) and any(isinstance(n, int) and n == 0 for n in x.shape):
        rest = math.prod([n for n in shape if n != -1])
        shape = tuple([(math.prod(tuple(x.shape)) // rest if rest else 0) if n == -1 else n for n in shape])
    return aten.reshape(x, shape)


@rule("Reshape", since=1)
def reshape_1(x: Any, *, shape: Sequence[int] = ()) -> Any:
    return reshape(x, tuple(shape))


@rule("Flatten")
def flatten(x: Any, *, axis: int = 1) -> Any:
    if axis < 0:
        axis += x.ndim
    if not 0 <= axis <= x.ndim:
        raise ValueError(f"Flatten: axis should be in {-x.ndim} to {x.ndim}, got {axis}")
    sizes = tuple(x.shape)
    if axis == 1 and x.ndim > 1 and not any(isinstance(n, int) and n == 0 for n in sizes):
        return aten.flatten(x, 1)
    return aten.reshape(x, (math.prod(sizes[:axis]), math.prod(sizes[axis:])))


@rule("Transpose")
def transpose(x: Any, *, perm: Sequence[int] | None = None) -> Any:
    order = list(range(x.ndim))[::-1] if perm is None else list(perm)
    return x.transpose(order) if _is_text(x) else aten.permute(x, order)


@rule("Squeeze", since=13, host=(1,))
def squeeze(x: Any, axes: Any = None) -> Any:
    if axes is None:
        return aten.squeeze(x, [d for d, n in enumerate(x.shape) if n == 1])
    axes = [a % x.ndim for a in as_tuple(axes)]
    for a in axes:
        if isinstance(x.shape[a], int) and x.shape[a] != 1:
            raise ValueError(f"Squeeze: dim {a} of shape {list(x.shape)} does not have one element")
    if any(not isinstance(x.shape[a], int) for a in axes):      # how many dims are left must not hang on sizes
        return aten.reshape(x, [n for d, n in enumerate(x.shape) if d not in axes])
    return aten.squeeze(x, axes)


@rule("Squeeze", since=1)
def squeeze_1(x: Any, *, axes: Sequence[int] | None = None) -> Any:
    return squeeze(x, None if axes is None else tuple(axes))


@rule("Unsqueeze", since=13, host=(1,))
def unsqueeze(x: Any, axes: Any) -> Any:
    axes = as_tuple(axes)
    rank = x.ndim + len(axes)
    places = sorted([a % rank for a in axes])
    if len(set(places)) != len(places):
        raise ValueError(f"Unsqueeze: an axis is there twice in {list(axes)}")
    for a in places:
        x = aten.unsqueeze(x, a)
    return x


@rule("Unsqueeze", since=1)
def unsqueeze_1(x: Any, *, axes: Sequence[int]) -> Any:
    return unsqueeze(x, tuple(axes))


@rule("Expand", since=8, host=(1,), grows=True)
def expand(x: Any, shape: Any) -> Any:
    shape = as_tuple(shape)
    rank = max(x.ndim, len(shape))
    own, asked = (1,) * (rank - x.ndim) + tuple(x.shape), (1,) * (rank - len(shape)) + tuple(shape)
    target = [_wider(a, b) for a, b in zip(own, asked, strict=True)]
    return aten.expand(x, target)


def _wider(own: Any, asked: Any) -> Any:
    """The size of a dim after broadcasting, decided without asking what a varying size is."""
    if isinstance(own, int):
        return asked if own == 1 else own
    if isinstance(asked, int):
        return own if asked == 1 else asked
    return own if own is asked else asked


@rule("Tile", since=6, host=(1,), grows=True)
def tile(x: Any, repeats: Any) -> Any:
    return aten.repeat(x, as_tuple(repeats))


@rule("Tile", since=1, host=(1, 2), grows=True)
def tile_1(x: Any, tiles: Any, axis: Any) -> Any:
    counts = [1] * x.ndim
    counts[as_tuple(axis)[0]] = as_tuple(tiles)[0]
    return aten.repeat(x, counts)


@rule("Concat", since=4)
def concat(*parts: Any, axis: int) -> Any:
    if _is_text(parts[0]):
        import numpy  # noqa: PLC0415

        return numpy.concatenate(parts, axis)
    return parts[0] if len(parts) == 1 else aten.cat(list(parts), axis)


@rule("Concat", since=1)
def concat_1(*parts: Any, axis: int = 1) -> Any:
    return concat(*parts, axis=axis)


@rule("Split", since=13, host=(1,))
def split_dim(x: Any, sizes: Any = None, *, axis: int = 0, num_outputs: int | None = None, count: int) -> Any:
    if sizes is None:
        total, parts = x.shape[axis], num_outputs or count
        if parts != count:
            raise ValueError(f"Split: num_outputs is {parts}, and the node has {count} outputs")
        each = -(-total // parts)
        sizes = tuple([each] * (parts - 1) + [total - each * (parts - 1)])
    return tuple(aten.split(x, list(as_tuple(sizes)), axis))


@rule("Split", since=2)
def split_2(x: Any, *, axis: int = 0, split: Sequence[int] | None = None, count: int) -> Any:
    return split_dim(x, None if split is None else tuple(split), axis=axis, count=count)


@rule("Split", since=1, host=(1,))
def split_1(x: Any, sizes: Any = None, *, axis: int = 0, split: Sequence[int] | None = None, count: int) -> Any:
    return split_2(x, axis=axis, split=split if sizes is None else list(as_tuple(sizes)), count=count)


@rule("Slice", since=10, host=(1, 2, 3, 4))
def slice_dims(x: Any, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Any:
    starts, ends = as_tuple(starts), as_tuple(ends)
    axes = range(len(starts)) if axes is None else as_tuple(axes)
    steps = (1,) * len(starts) if steps is None else as_tuple(steps)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        x = _slice(x, axis % x.ndim, start, end, step)
    return x


def _slice(x: Any, axis: int, start: Any, end: Any, step: Any) -> Any:
    if step == 0:
        raise ValueError("Slice: a step should not be 0")
    if _is_text(x):
        return x[(slice(None),) * axis + (slice(start, end if step > 0 or end >= -x.shape[axis] else None, step),)]
    if step > 0:
        return aten.slice(x, axis, start, end, step)
    # Backwards: the same elements forwards, turned round.
    size = x.shape[axis]
    first = start + size if start < 0 else start
    first = min(first, size - 1)
    last = end + size if end < 0 else end
    last = max(last, -1)
    if first <= last or first < 0:
        return aten.slice(x, axis, 0, 0)
    stride = -step
    low = first - (first - last - 1) // stride * stride
    return aten.flip(aten.slice(x, axis, low, first + 1, stride), [axis])


@rule("Slice", since=1)
def slice_1(x: Any, *, starts: Sequence[int], ends: Sequence[int], axes: Sequence[int] | None = None) -> Any:
    return slice_dims(x, tuple(starts), tuple(ends), None if axes is None else tuple(axes))


MODES = {"constant": "constant", "reflect": "reflect", "edge": "replicate", "wrap": "circular"}


@rule("Pad", since=11, host=(1, 3), grows=True)
def pad(x: Any, pads: Any, value: Any = None, axes: Any = None, *, mode: str = "constant") -> Any:
    pads = as_tuple(pads)
    axes = list(range(x.ndim)) if axes is None else [a % x.ndim for a in as_tuple(axes)]
    before, after = [0] * x.ndim, [0] * x.ndim
    for k, a in enumerate(axes):
        before[a], after[a] = pads[k], pads[k + len(axes)]
    return padded(x, before, after, mode, value)


def padded(x: Any, before: Sequence[Any], after: Sequence[Any], mode: str = "constant", value: Any = None) -> Any:
    """x with margins at both ends of its dims; negative ones cut."""
    if mode not in MODES:
        raise ValueError(f"Pad: mode should be one of {', '.join(MODES)}, got {mode!r}")
    if mode == "constant":
        flat = [n for b, a in zip(reversed(before), reversed(after), strict=True) for n in (b, a)]
        if value is None:
            return aten.constant_pad_nd(x, flat, 0)
        filler = value.reshape(()) if isinstance(value, _C.Tensor) else value
        if isinstance(filler, _C.Tensor):
            inside = aten.constant_pad_nd(aten.ones_like(x, dtype=_C.bool), flat, False)
            return aten.where(inside, aten.constant_pad_nd(x, flat, 0), filler)
        return aten.constant_pad_nd(x, flat, filler)
    for d in range(x.ndim):
        if isinstance(before[d], int) and isinstance(after[d], int) and before[d] == after[d] == 0:
            continue
        x = _margin(x, d, before[d], after[d], mode)
    return x


def _margin(x: Any, d: int, before: Any, after: Any, mode: str) -> Any:
    """Margins of one dim, by indices into it."""
    size = x.shape[d]
    at = aten.arange(-before, size + after, device=x.device)
    if mode == "edge":
        at = aten.clamp(at, 0, size - 1)
    elif mode == "wrap":
        at = aten.remainder(at, size)
    else:
        period = 2 * (size - 1)
        at = aten.remainder(at, period) if not (isinstance(period, int) and period == 0) else aten.zeros_like(at)
        at = aten.minimum(at, period - at)
    return aten.index_select(x, d, at)


@rule("Pad", since=2)
def pad_2(x: Any, *, pads: Sequence[int], mode: str = "constant", value: float = 0.0) -> Any:
    return padded(x, pads[: x.ndim], pads[x.ndim :], mode, value)


@rule("Pad", since=1)
def pad_1(x: Any, *, paddings: Sequence[int], mode: str = "constant", value: float = 0.0) -> Any:
    return pad_2(x, pads=paddings, mode=mode, value=value)


@rule("DepthToSpace")
def depth_to_space(x: Any, *, blocksize: int, mode: str = "DCR") -> Any:
    n, c, h, w = x.shape
    b, channels = blocksize, c // blocksize**2
    if mode == "DCR":
        parts = aten.permute(aten.reshape(x, (n, b, b, channels, h, w)), (0, 3, 4, 1, 5, 2))
    elif mode == "CRD":
        parts = aten.permute(aten.reshape(x, (n, channels, b, b, h, w)), (0, 1, 4, 2, 5, 3))
    else:
        raise ValueError(f"DepthToSpace: mode should be 'DCR' or 'CRD', got {mode!r}")
    return aten.reshape(parts, (n, channels, h * b, w * b))


@rule("SpaceToDepth")
def space_to_depth(x: Any, *, blocksize: int, mode: str = "DCR") -> Any:
    n, c, h, w = x.shape
    b = blocksize
    parts = aten.reshape(x, (n, c, h // b, b, w // b, b))
    parts = aten.permute(parts, (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4))
    return aten.reshape(parts, (n, c * b * b, h // b, w // b))


@rule("Shape", closed=True)
def shape(x: Any, *, start: int = 0, end: int | None = None) -> Any:
    from ....tensors.interop import tensor  # noqa: PLC0415

    return tensor(list(tuple(x.shape)[start:end]), dtype=_C.int64)


@rule("Size", closed=True)
def size(x: Any) -> Any:
    from ....tensors.interop import tensor  # noqa: PLC0415

    return tensor(math.prod(tuple(x.shape)), dtype=_C.int64)


def _filled_gives(numbers: Sequence[int], settings: Mapping[str, Any]) -> Any:
    return settings["value"].element.number if hasattr(settings.get("value"), "element") else 1


@rule("ConstantOfShape", since=9, host=(0,), closed=True, grows=True, gives=_filled_gives)
def constant_of_shape(shape: Any, *, value: Any = None, anchor: Any) -> Any:
    shape = as_tuple(shape)
    if value is None:
        return aten.full(shape, 0.0, dtype=_C.float32, device=anchor.device)
    if _is_text(value):
        import numpy  # noqa: PLC0415

        return numpy.full(shape, value.reshape(-1)[0], object)
    if not is_dynamo_compiling() and not is_recorded([value]):
        return aten.empty(shape, dtype=value.dtype, device=value.device).copy_(value.reshape(()))
    return aten.expand(value.reshape(()), shape).clone()


@rule("Range", since=11, sized=True, closed=True, grows=True)
def arithmetic_range(start: Any, limit: Any, delta: Any, *, stash_type: int = 1, elements: Sequence[int],
                     anchor: Any) -> Any:
    if not isinstance(start, _C.Tensor):
        dtype = ELEMENTS[elements[0]].dtype
        if not dtype.is_floating_point:
            return aten.arange(start, limit, delta, dtype=dtype, device=anchor.device)
        steps = aten.arange(math.ceil((limit - start) / delta), dtype=dtype, device=anchor.device)
        return aten.add(aten.mul(steps, delta), start)
    dtype = start.dtype
    if dtype.is_floating_point:
        # The number of elements is that of exact arithmetic; the elements are start plus so many deltas.
        count = max(math.ceil((limit.double().item() - start.double().item()) / delta.double().item()), 0)
        wide = start.to(_C.float32) if dtype in (_C.float16, _C.bfloat16) and stash_type == 1 else start
        steps = aten.arange(count, device=start.device).to(wide.dtype)
        return aten.add(aten.mul(steps, delta.to(wide.dtype)), wide).to(dtype)
    return aten.arange(start.item(), limit.item(), delta.item(), dtype=dtype, device=start.device)


@rule("EyeLike", since=9, closed=True, gives=lambda numbers, settings: settings.get("dtype", numbers[0]))
def eye_like(x: Any, *, dtype: int | None = None, k: int = 0) -> Any:
    kind = x.dtype if dtype is None else ELEMENTS[dtype].dtype
    rows, columns = x.shape
    down, right = aten.arange(rows, device=x.device), aten.arange(columns, device=x.device)
    return aten.eq(aten.unsqueeze(right, 0), aten.unsqueeze(down, 1) + k).to(kind)


@rule("Trilu", since=14, host=(1,))
def trilu(x: Any, k: Any = None, *, upper: int = 1) -> Any:
    by = 0 if k is None else as_tuple(k)[0]
    return aten.triu(x, by) if upper else aten.tril(x, by)


@rule("CenterCropPad", since=18, host=(1,))
def center_crop_pad(x: Any, shape: Any, *, axes: Sequence[int] | None = None) -> Any:
    axes = range(x.ndim) if axes is None else axes
    for a, target in zip(axes, as_tuple(shape), strict=True):
        a = a % x.ndim
        have = x.shape[a]
        if have > target:
            begin = (have - target) // 2
            x = aten.slice(x, a, begin, begin + target)
        elif have < target:
            before = [0] * x.ndim
            after = [0] * x.ndim
            before[a] = (target - have) // 2
            after[a] = target - have - before[a]
            x = padded(x, before, after)
    return x


def _is_text(x: Any) -> bool:
    return not isinstance(x, _C.Tensor) and hasattr(x, "dtype")
