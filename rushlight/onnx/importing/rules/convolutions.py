"""Convolutions, and what is written as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .... import _C, ops
from ....nn import functional
from ..hosts import as_tuple
from ..table import rule

aten = ops.aten


def margins(sizes: Sequence[Any], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int],
            pads: Sequence[int] | None, auto_pad: str) -> tuple[list[Any], list[Any]]:
    """What is added before and after each dim."""
    rank = len(kernel)
    if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        before, after = [], []
        for n, k, s, d in zip(sizes, kernel, strides, dilations, strict=True):
            total = (-(-n // s) - 1) * s + (k - 1) * d + 1 - n
            total = max(total, 0)
            small = total // 2
            before.append(small if auto_pad == "SAME_UPPER" else total - small)
            after.append(total - before[-1])
        return before, after
    if auto_pad not in ("NOTSET", "VALID", ""):
        raise ValueError(f"Conv: auto_pad should be NOTSET, VALID, SAME_UPPER or SAME_LOWER, got {auto_pad!r}")
    if pads is None or auto_pad == "VALID":
        return [0] * rank, [0] * rank
    return list(pads[:rank]), list(pads[rank:])


def padded_input(x: Any, before: Sequence[Any], after: Sequence[Any], value: float = 0.0) -> Any:
    """x with margins around its last dims."""
    if all(isinstance(n, int) and n == 0 for n in (*before, *after)):
        return x
    flat = [n for b, a in zip(reversed(before), reversed(after), strict=True) for n in (b, a)]
    return aten.constant_pad_nd(x, flat, value)


def _is_even(before: Sequence[Any], after: Sequence[Any]) -> bool:
    return all(isinstance(b, int) and isinstance(a, int) and b == a >= 0 for b, a in zip(before, after, strict=True))


@rule("Conv")
def conv(x: Any, w: Any, bias: Any = None, *, auto_pad: str = "NOTSET", dilations: Sequence[int] | None = None,
         group: int = 1, kernel_shape: Sequence[int] | None = None, pads: Sequence[int] | None = None,
         strides: Sequence[int] | None = None) -> Any:
    rank = x.ndim - 2
    kernel = list(w.shape)[2:]
    strides, dilations = list(strides or [1] * rank), list(dilations or [1] * rank)
    before, after = margins(tuple(x.shape)[2:], kernel, strides, dilations, pads, auto_pad)
    if not _is_even(before, after):
        x, before = padded_input(x, before, after), [0] * rank
    if rank > 3 or rank == 0:
        return _of_many_dims(x, w, bias, strides, before, dilations, group)
    return aten.convolution(x, w, bias, strides, before, dilations, False, [0] * rank, group)


def _of_many_dims(x: Any, w: Any, bias: Any, strides: Sequence[int], before: Sequence[int], dilations: Sequence[int],
                  group: int) -> Any:
    """More than three dims of space: a sum over the elements of the kernel."""
    x = padded_input(x, before, before)
    sizes, kernel = tuple(x.shape), tuple(w.shape)[2:]
    counts = [(n - (k - 1) * d - 1) // s + 1 for n, k, d, s in zip(sizes[2:], kernel, dilations, strides, strict=True)]
    total = None
    from itertools import product  # noqa: PLC0415

    for place in product(*[range(k) for k in kernel]):
        part = x
        for d, (at, count) in enumerate(zip(place, counts, strict=True)):
            begin = at * dilations[d]
            part = aten.slice(part, d + 2, begin, begin + (count - 1) * strides[d] + 1, strides[d])
        flat = aten.reshape(part, (sizes[0], group, sizes[1] // group, -1))
        weight = w[(slice(None), slice(None), *place)]
        weight = aten.reshape(weight, (group, w.shape[0] // group, w.shape[1]))
        term = aten.einsum("ngcp,goc->ngop", [flat, weight])
        total = term if total is None else aten.add(total, term)
    found = aten.reshape(total, (sizes[0], w.shape[0], *counts))
    return found if bias is None else aten.add(found, aten.reshape(bias, (-1,) + (1,) * len(counts)))


@rule("ConvTranspose")
def conv_transpose(x: Any, w: Any, bias: Any = None, *, auto_pad: str = "NOTSET",
                   dilations: Sequence[int] | None = None,
                   group: int = 1, kernel_shape: Sequence[int] | None = None,
                   output_padding: Sequence[int] | None = None,
                   output_shape: Sequence[int] | None = None, pads: Sequence[int] | None = None,
                   strides: Sequence[int] | None = None) -> Any:
    rank = x.ndim - 2
    kernel = list(w.shape)[2:]
    strides, dilations = list(strides or [1] * rank), list(dilations or [1] * rank)
    extra = list(output_padding or [0] * rank)
    whole = [s * (n - 1) + e + (k - 1) * d + 1 for n, s, e, k, d in zip(
        tuple(x.shape)[2:], strides, extra, kernel, dilations, strict=True)]
    if output_shape is not None or auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        target = list(output_shape)[-rank:] if output_shape is not None else [
            n * s for n, s in zip(tuple(x.shape)[2:], strides, strict=True)]
        before, after = [], []
        for have, want in zip(whole, target, strict=True):
            total = have - want
            small = total // 2
            before.append(small if auto_pad == "SAME_UPPER" else total - small)
            after.append(total - before[-1])
    else:
        before, after = margins((), kernel, strides, dilations, pads, "VALID" if auto_pad == "VALID" else "NOTSET")
    if _is_even(before, after) and all(e < max(s, d) for e, s, d in zip(extra, strides, dilations, strict=True)):
        return aten.convolution(x, w, bias, strides, before, dilations, True, extra, group)
    # Margins that differ, or are negative: the whole result, cut or filled.
    found = aten.convolution(x, w, None, strides, [0] * rank, dilations, True, [0] * rank, group)
    flat = [n for b, a, e in zip(reversed(before), reversed(after), reversed(extra), strict=True) for n in (-b, e - a)]
    found = aten.constant_pad_nd(found, flat, 0)
    return found if bias is None else aten.add(found, aten.reshape(bias, (-1,) + (1,) * rank))


@rule("ConvInteger", since=10, closed=True, gives=lambda numbers, settings: 6)
def conv_integer(x: Any, w: Any, x_zero: Any = None, w_zero: Any = None, *, auto_pad: str = "NOTSET",
                 dilations: Sequence[int] | None = None, group: int = 1, kernel_shape: Sequence[int] | None = None,
                 pads: Sequence[int] | None = None, strides: Sequence[int] | None = None) -> Any:
    if 1 <= x.ndim - 2 <= 3 and (x_zero is None or x_zero.numel() == 1):
        return _by_bytes(x, w, x_zero, w_zero, auto_pad, dilations, group, pads, strides)
    # Products of 8 bits and their sums are exact in float64.
    wide, weight = x.to(_C.float64), w.to(_C.float64)
    if x_zero is not None:
        wide = aten.sub(wide, x_zero.to(_C.float64))
    if w_zero is not None:
        zero = w_zero.to(_C.float64)
        weight = aten.sub(weight, zero if zero.numel() == 1 else aten.reshape(zero, (-1,) + (1,) * (w.ndim - 1)))
    found = conv(wide, weight, auto_pad=auto_pad, dilations=dilations, group=group, pads=pads, strides=strides)
    return aten.round(found).to(_C.int32)


def _by_bytes(x: Any, w: Any, x_zero: Any, w_zero: Any, auto_pad: str, dilations: Sequence[int] | None, group: int,
              pads: Sequence[int] | None, strides: Sequence[int] | None) -> Any:
    """By the kernels of quantized layers."""
    rank = x.ndim - 2
    strides, dilations = list(strides or [1] * rank), list(dilations or [1] * rank)
    before, after = margins(tuple(x.shape)[2:], list(w.shape)[2:], strides, dilations, pads, auto_pad)
    if not _is_even(before, after):       # margins are the zero point: what is zero beside it
        zero = None if x_zero is None else aten.reshape(x_zero, ()).to(x.dtype)
        x = padded_input(x if zero is None else aten.bitwise_xor(x, zero), before, after, 0)
        x, before = x if zero is None else aten.bitwise_xor(x, zero), [0] * rank
    return aten._integer_convolution(x, w, x_zero, w_zero, strides, before, dilations, group)


@rule("Col2Im", since=18, host=(1, 2))
def col2im(x: Any, image_shape: Any, block_shape: Any, *, dilations: Sequence[int] | None = None,
           pads: Sequence[int] | None = None, strides: Sequence[int] | None = None) -> Any:
    image, block = as_tuple(image_shape), as_tuple(block_shape)
    rank = len(image)
    strides, dilations, pads = list(strides or [1] * rank), list(dilations or [1] * rank), list(pads or [0] * 2 * rank)
    n, size = x.shape[0], 1
    for k in block:
        size *= k
    channels = x.shape[1] // size
    whole = [n_ + pads[d] + pads[d + rank] for d, n_ in enumerate(image)]
    counts = [(w - (b - 1) * d - 1) // s + 1 for w, b, d, s in zip(whole, block, dilations, strides, strict=True)]
    # The place in the image that each column's element belongs to, counted in one dim.
    place = None
    for d in range(rank):
        inner = aten.reshape(aten.arange(block[d], device=x.device) * dilations[d], (-1, 1))
        outer = aten.reshape(aten.arange(counts[d], device=x.device) * strides[d], (1, -1))
        along = aten.add(inner, outer)                        # [block, count]
        shape = [1] * (2 * rank)
        shape[d], shape[rank + d] = block[d], counts[d]
        along = aten.reshape(along, shape)
        place = along if place is None else aten.add(aten.mul(place, whole[d]), along)
    total = 1
    for w in whole:
        total *= w
    place = aten.reshape(place, (1, 1, -1))
    flat = aten.reshape(x, (n, channels, -1))
    found = aten.scatter_add(aten.zeros((n, channels, total), dtype=x.dtype, device=x.device), 2,
                             aten.expand(place, tuple(flat.shape)), flat)
    found = aten.reshape(found, (n, channels, *whole))
    for d in range(rank):
        found = aten.slice(found, d + 2, pads[d], pads[d] + image[d])
    return found


@rule("DeformConv", since=19)
def deform_conv(x: Any, w: Any, offset: Any, bias: Any = None, mask: Any = None, *,
                dilations: Sequence[int] | None = None,
                group: int = 1, kernel_shape: Sequence[int] | None = None, offset_group: int = 1,
                pads: Sequence[int] | None = None, strides: Sequence[int] | None = None) -> Any:
    """A convolution of two dims whose taps lie between elements, where `offset` says."""
    if x.ndim != 4:
        raise ValueError(f"DeformConv: expected images of two dims, got {x.ndim - 2}")
    strides, dilations, pads = list(strides or [1, 1]), list(dilations or [1, 1]), list(pads or [0] * 4)
    n, c, height, width = x.shape
    kh, kw = w.shape[2], w.shape[3]
    oh, ow = offset.shape[2], offset.shape[3]
    taps = kh * kw
    offset = aten.reshape(offset, (n, offset_group, taps, 2, oh, ow))
    rows = aten.reshape(aten.arange(kh, device=x.device) * dilations[0], (kh, 1)).expand(kh, kw).reshape(taps, 1, 1)
    columns = aten.reshape(aten.arange(kw, device=x.device) * dilations[1], (1, kw)).expand(kh, kw).reshape(taps, 1, 1)
    y = rows + (aten.arange(oh, device=x.device) * strides[0] - pads[0]).reshape(1, oh, 1)
    z = columns + (aten.arange(ow, device=x.device) * strides[1] - pads[1]).reshape(1, 1, ow)
    y, z = offset[:, :, :, 0] + y, offset[:, :, :, 1] + z                # [n, groups, taps, oh, ow]
    grid = aten.stack([(2 * z + 1) / width - 1, (2 * y + 1) / height - 1], -1).to(x.dtype)
    images = aten.reshape(x, (n * offset_group, c // offset_group, height, width))
    grid = aten.reshape(grid, (n * offset_group, taps * oh, ow, 2))
    sampled = functional.grid_sample(images, grid, "bilinear", "zeros", False)
    sampled = aten.reshape(sampled, (n, offset_group, c // offset_group, taps, oh, ow))
    if mask is not None:
        sampled = sampled * aten.reshape(mask, (n, offset_group, 1, taps, oh, ow))
    sampled = aten.reshape(sampled, (n, group, (c // group) * taps, oh * ow))
    weight = aten.reshape(w, (group, w.shape[0] // group, (c // group) * taps))
    found = aten.reshape(aten.matmul(aten.unsqueeze(weight, 0), sampled), (n, w.shape[0], oh, ow))
    return found if bias is None else aten.add(found, aten.reshape(bias, (-1, 1, 1)))


