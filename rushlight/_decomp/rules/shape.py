"""Decompositions of ops that arrange elements: copies, parts, repetitions, padding, triangles.

Enters: arguments in the order of ATen's signatures. Leaves: `RULES`, from names of ops (or `op.overload`) to functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ... import _C
from ...base.shape import contiguous_format
from ...op import find_op


def to_copy(input: Any, dtype: Any = None, device: Any = None, memory_format: Any = None) -> Any:
    """`to` always copies in a graph without writes, unless there is nothing to change."""
    kept = (dtype is None or dtype is input.dtype) and (device is None or _C.device(device) == input.device)
    if kept and memory_format is None:
        return input.clone()
    options = {"dtype": dtype, "device": device, "memory_format": memory_format}
    return find_op("_to_copy")(input, **{k: v for k, v in options.items() if v is not None})


def _to_dtype(input: Any, dtype: Any, non_blocking: bool = False, copy: bool = False, memory_format: Any = None) -> Any:
    return to_copy(input, dtype, memory_format=memory_format)


def _to_device(input: Any, device: Any, dtype: Any, non_blocking: bool = False, copy: bool = False,
               memory_format: Any = None) -> Any:
    return to_copy(input, dtype, device, memory_format)


def _to_other(input: Any, other: Any, non_blocking: bool = False, copy: bool = False, memory_format: Any = None) -> Any:
    return to_copy(input, other.dtype, other.device, memory_format)


def _view_of(input: Any, sizes: Any) -> Any:
    """`reshape` where no copy is needed is a view; else of a copy."""
    try:
        return find_op("view")(input, sizes)
    except RuntimeError:
        return find_op("view")(input.clone(memory_format=contiguous_format), sizes)


def reshape(input: Any, shape: Any) -> Any:
    return _view_of(input, list(shape))


def flatten(input: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    if not input.ndim:
        return input.view([1])
    first, last = start_dim % input.ndim, end_dim % input.ndim
    if first == last:
        return input
    return _view_of(input, [*input.shape[:first], math.prod(input.shape[first : last + 1]), *input.shape[last + 1 :]])


def unflatten(input: Any, dim: int, sizes: Any) -> Any:
    dim %= input.ndim
    known = math.prod([n for n in sizes if not (isinstance(n, int) and n == -1)])
    sizes = [input.shape[dim] // known if isinstance(n, int) and n == -1 else n for n in sizes]
    return find_op("view")(input, [*input.shape[:dim], *sizes, *input.shape[dim + 1 :]])


def transpose(input: Any, dim0: int, dim1: int) -> Any:
    if not input.ndim:
        return NotImplemented
    order = list(range(input.ndim))
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return input.permute(order)


def movedim(input: Any, source: Any, destination: Any) -> Any:
    old = [source] if isinstance(source, int) else list(source)
    new = [destination] if isinstance(destination, int) else list(destination)
    count = input.ndim
    placed = {d % count: s % count for s, d in zip(old, new, strict=True)}
    rest = iter([d for d in range(count) if d not in placed.values()])
    return input.permute([placed[d] if d in placed else next(rest) for d in range(count)])


def split(input: Any, split_size: Any, dim: int = 0) -> Any:
    size = input.shape[dim]
    if not isinstance(size, int) or not isinstance(split_size, int) or not split_size:
        return NotImplemented
    count = max(1, -(-size // split_size))
    sizes = [split_size] * (count - 1) + [size - split_size * (count - 1)]
    return find_op("split_with_sizes")(input, sizes, dim)


def chunk(input: Any, chunks: int, dim: int = 0) -> Any:
    size = input.shape[dim]
    if not isinstance(size, int):
        return input.split(-(-size // chunks), dim)
    each = -(-size // chunks)
    return find_op("split_with_sizes")(input, [0] * chunks, dim) if not each else split(input, each, dim)


def unbind(input: Any, dim: int = 0) -> Any:
    size = input.shape[dim]
    return tuple(input.select(dim, i) for i in range(size)) if isinstance(size, int) else NotImplemented


def stack(tensors: Any, dim: int = 0) -> Any:
    return find_op("cat")([t.unsqueeze(dim) for t in tensors], dim)


def squeeze(input: Any) -> Any:
    dims = [d for d, n in enumerate(input.shape) if isinstance(n, int) and n == 1]
    return find_op("squeeze")(input, dims)


def narrow(input: Any, dim: int, start: Any, length: Any) -> Any:
    if isinstance(start, _C.Tensor):
        return NotImplemented
    start = start + input.shape[dim] if isinstance(start, int) and start < 0 else start
    return find_op("slice")(input, dim, start, start + length)


def tile(input: Any, dims: Any) -> Any:
    return input.repeat([*[1] * (input.ndim - len(dims)), *dims])


def repeat_interleave(input: Any, repeats: Any, dim: Any = None, *, output_size: Any = None) -> Any:
    if isinstance(repeats, _C.Tensor):
        return NotImplemented
    if dim is None:
        input, dim = input.reshape([-1]), 0
    dim %= max(input.ndim, 1)
    wide = input.unsqueeze(dim + 1).expand([*input.shape[: dim + 1], repeats, *input.shape[dim + 1 :]])
    sizes = [*input.shape[:dim], input.shape[dim] * repeats, *input.shape[dim + 1 :]]
    return wide.clone(memory_format=contiguous_format).view(sizes)


def roll(input: Any, shifts: Any, dims: Any = ()) -> Any:
    shifts = [shifts] if not isinstance(shifts, (list, tuple)) else list(shifts)
    dims = [dims] if isinstance(dims, int) else list(dims)
    if not dims:
        return roll(input.reshape([-1]), shifts, [0]).view(list(input.shape))
    for shift, dim in zip(shifts, dims, strict=True):
        size = input.shape[dim]
        if isinstance(size, int) and not size:
            return input.clone()
        at = (size - shift % size) % size
        input = find_op("cat")([find_op("slice")(input, dim, at), find_op("slice")(input, dim, 0, at)], dim)
    return input


def diag(input: Any, diagonal: int = 0) -> Any:
    return find_op("diagonal")(input, diagonal).clone() if input.ndim == 2 else diag_embed(input, diagonal)


def diag_embed(input: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    count = input.ndim + 1
    dim1, dim2 = dim1 % count, dim2 % count
    if dim1 > dim2:
        dim1, dim2, offset = dim2, dim1, -offset
    size = input.shape[-1] + abs(offset)
    padded = find_op("constant_pad_nd")(input, [max(offset, 0), max(-offset, 0)])
    wide = padded.unsqueeze(-2).expand([*input.shape[:-1], size, size])     # along the last dim: the column
    row, column = (find_op("arange")(size, device=input.device) for _ in range(2))
    on = find_op("eq")(row.unsqueeze(-1) + offset, column)
    zero = find_op("scalar_tensor")(0, dtype=input.dtype, device=input.device)
    return movedim(find_op("where")(on, wide, zero), [-2, -1], [dim1, dim2])


def _triangle(compare: str) -> Callable:
    def rule(input: Any, diagonal: int = 0) -> Any:
        row = find_op("arange")(input.shape[-2], device=input.device).unsqueeze(-1)
        column = find_op("arange")(input.shape[-1], device=input.device)
        zero = find_op("scalar_tensor")(0, dtype=input.dtype, device=input.device)
        return find_op("where")(find_op(compare)(column - row, diagonal), input, zero)

    return rule


def trace(input: Any) -> Any:
    return find_op("diagonal")(input).sum([0])


def pad(input: Any, pad: Any, mode: str = "constant", value: Any = None) -> Any:
    if mode == "constant":
        return find_op("constant_pad_nd")(input, list(pad), 0 if value is None else value)
    if mode == "circular" and any(n < 0 for n in pad):
        return NotImplemented           # what is cut off is not what is repeated
    pairs = [(pad[2 * i], pad[2 * i + 1]) for i in range(len(pad) // 2)]
    for back, (before, after) in enumerate(pairs):
        dim = input.ndim - 1 - back
        size = input.shape[dim]
        place = find_op("arange")(-before, size + after, device=input.device)
        if mode == "reflect":
            place = (size - 1) - (place.abs() - (size - 1)).abs()
        elif mode == "replicate":
            place = place.clamp(0, size - 1)
        else:
            place = find_op("remainder")(place, size)
        input = find_op("index_select")(input, dim, place)
    return input


def pixel_shuffle(input: Any, upscale_factor: int) -> Any:
    *batch, channels, height, width = input.shape
    r, count = upscale_factor, len(input.shape) - 3
    parts = input.view([*batch, channels // (r * r), r, r, height, width])
    order = [*range(count), count, count + 3, count + 1, count + 4, count + 2]
    return _view_of(parts.permute(order), [*batch, channels // (r * r), height * r, width * r])


def pixel_unshuffle(input: Any, downscale_factor: int) -> Any:
    *batch, channels, height, width = input.shape
    r, count = downscale_factor, len(input.shape) - 3
    parts = input.view([*batch, channels, height // r, r, width // r, r])
    order = [*range(count), count, count + 2, count + 4, count + 1, count + 3]
    return _view_of(parts.permute(order), [*batch, channels * r * r, height // r, width // r])


def channel_shuffle(input: Any, groups: int) -> Any:
    batch, channels, *rest = input.shape
    parts = input.view([batch, groups, channels // groups, *rest])
    return _view_of(parts.permute([0, 2, 1, *range(3, len(rest) + 3)]), [batch, channels, *rest])


def im2col(input: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    batched = input if input.ndim == 4 else input.unsqueeze(0)
    k, d, p, s = ([x] * 2 if isinstance(x, int) else list(x) * (2 // len(x)) for x in
                  (kernel_size, dilation, padding, stride))
    filled = find_op("constant_pad_nd")(batched, [p[1], p[1], p[0], p[0]])
    n, channels, *sizes = filled.shape
    outs = [(sizes[i] - d[i] * (k[i] - 1) - 1) // s[i] + 1 for i in range(2)]
    for axis, dim in ((0, 2), (1, 4)):      # rows first: after that, columns are dim 4
        taps = find_op("arange")(k[axis], device=input.device).unsqueeze(1) * d[axis]
        steps = find_op("arange")(outs[axis], device=input.device) * s[axis]
        filled = find_op("index")(filled, [*[None] * dim, taps + steps])
    columns = filled.permute([0, 1, 2, 4, 3, 5]).clone(memory_format=contiguous_format)
    result = columns.view([n, channels * k[0] * k[1], outs[0] * outs[1]])
    return result if input.ndim == 4 else result.squeeze(0)


RULES: dict[str, Callable] = {
    "to.dtype": _to_dtype, "to.device": _to_device, "to.other": _to_other,
    "reshape": reshape, "flatten.using_ints": flatten, "unflatten.int": unflatten, "transpose.int": transpose,
    "t": lambda x: x.permute([1, 0]) if x.ndim == 2 else NotImplemented,
    "movedim.int": movedim, "movedim.intlist": movedim, "moveaxis.int": movedim, "moveaxis.intlist": movedim,
    "swapaxes": transpose, "swapdims": transpose,
    "split.Tensor": split, "chunk": chunk, "unbind.int": unbind, "stack": stack, "squeeze": squeeze,
    "narrow": narrow, "tile": tile, "repeat_interleave.self_int": repeat_interleave, "roll": roll,
    "contiguous": lambda x, memory_format=None: x.clone(memory_format=memory_format or contiguous_format),
    "diag": diag, "diag_embed": diag_embed, "trace": trace, "tril": _triangle("le"), "triu": _triangle("ge"),
    "pad": pad, "pixel_shuffle": pixel_shuffle, "pixel_unshuffle": pixel_unshuffle,
    "channel_shuffle": channel_shuffle, "native_channel_shuffle": channel_shuffle, "im2col": im2col,
    "expand_as": lambda x, other: x.expand(list(other.shape)), "view_as": lambda x, other: x.view(list(other.shape)),
    "concat": lambda xs, dim=0: find_op("cat")(xs, dim), "concatenate": lambda xs, dim=0: find_op("cat")(xs, dim),
    "detach": lambda x: find_op("alias")(x), "real": lambda x: x if not x.dtype.is_complex else
        find_op("view_as_real")(x).select(-1, 0),
    "imag": lambda x: find_op("view_as_real")(x).select(-1, 1),
    "lift_fresh_copy": lambda x: x.clone(),
}
