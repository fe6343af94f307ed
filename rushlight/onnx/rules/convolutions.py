"""Convolutions and pooling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ... import _C
from ..building import Builder
from ..model import Value
from .table import INT64, as_list, positive, reshaped, rule
from .windows import largest, summed


@rule("convolution")
def convolution(g: Builder, input: Value, weight: Value, bias: Value | None, stride: Any, padding: Any, dilation: Any,
                transposed: bool, output_padding: Any, groups: int) -> Value:
    dims = weight.ndim - 2
    return _convolved(g, input, weight, bias, dims, stride, padding, dilation, groups, transposed, output_padding)


@rule("conv1d", "conv2d", "conv3d")
def conv(g: Builder, input: Value, weight: Value, bias: Value | None = None, stride: Any = 1, padding: Any = 0,
         dilation: Any = 1, groups: int = 1) -> Value:
    return _convolved(g, input, weight, bias, weight.ndim - 2, stride, padding, dilation, groups)


@rule("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def conv_transpose(g: Builder, input: Value, weight: Value, bias: Value | None = None, stride: Any = 1,
                   padding: Any = 0, output_padding: Any = 0, groups: int = 1, dilation: Any = 1) -> Value:
    dims = weight.ndim - 2
    return _convolved(g, input, weight, bias, dims, stride, padding, dilation, groups, True, output_padding)


def _convolved(g: Builder, input: Value, weight: Value, bias: Value | None, dims: int, stride: Any, padding: Any,
               dilation: Any, groups: int, transposed: bool = False, output_padding: Any = 0) -> Value:
    kernel = list(weight.shape[2:])
    steps = as_list(dilation, dims)
    if isinstance(padding, str):
        total = [s * (k - 1) if padding == "same" else 0 for s, k in zip(steps, kernel)]
        pads = [n // 2 for n in total] + [n - n // 2 for n in total]
    else:
        pads = as_list(padding, dims) * 2
    single = input.ndim == dims + 1
    x = g.node("Unsqueeze", input, g.ints([0])) if single else input
    settings = {"kernel_shape": kernel, "strides": as_list(stride, dims), "dilations": steps, "group": groups,
                "pads": pads}
    if transposed:
        result = g.node("ConvTranspose", x, weight, bias, output_padding=as_list(output_padding, dims), **settings)
    else:
        result = g.node("Conv", x, weight, bias, **settings)
    return g.node("Squeeze", result, g.ints([0])) if single else result


def _batched(g: Builder, x: Value, dims: int, convert: Any) -> Any:
    """A pooling of one example as that of a batch of one."""
    if x.ndim != dims + 1:
        return convert(x)
    results = convert(g.node("Unsqueeze", x, g.ints([0])))
    if isinstance(results, tuple):
        return tuple([g.node("Squeeze", r, g.ints([0])) for r in results])
    return g.node("Squeeze", results, g.ints([0]))


def _max_pool(dims: int, with_indices: bool) -> Any:
    def convert(g: Builder, input: Value, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
                ceil_mode: bool = False, return_indices: bool = False) -> Any:
        kernel = as_list(kernel_size, dims)
        settings = {
            "kernel_shape": kernel, "strides": as_list(stride, dims) if stride else kernel,
            "pads": as_list(padding, dims) * 2, "dilations": as_list(dilation, dims), "ceil_mode": int(ceil_mode),
        }

        def pool(x: Value) -> Any:
            if not (with_indices or return_indices):
                return g.node("MaxPool", x, **settings)
            values, indices = g.nodes("MaxPool", x, dtypes=(x.dtype, INT64), **settings)
            # Ours count from the beginning of each channel, ONNX's from that of the whole tensor.
            spatial = input.shape[-dims:]
            if not all(isinstance(n, int) for n in spatial):
                raise NotImplementedError("indices of a max pool over sizes that vary")
            return values, g.node("Mod", indices, g.constant(math.prod(spatial), INT64))

        return _batched(g, input, dims, pool)

    return convert


for _d in (1, 2, 3):
    rule(f"max_pool{_d}d")(_max_pool(_d, False))
    rule(f"max_pool{_d}d_with_indices")(_max_pool(_d, True))


def _average_pool(dims: int) -> Any:
    def convert(g: Builder, input: Value, kernel_size: Any, stride: Any = None, padding: Any = 0,
                ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None
                ) -> Value:
        kernel = as_list(kernel_size, dims)
        settings = {
            "kernel_shape": kernel, "strides": as_list(stride, dims) if stride else kernel,
            "pads": as_list(padding, dims) * 2, "ceil_mode": int(ceil_mode),
            "count_include_pad": int(count_include_pad or divisor_override is not None),
        }

        def pool(x: Value) -> Value:
            if divisor_override is not None and ceil_mode:      # windows at the end are cut off
                return _by_matrices(g, x, settings, input.shape[-dims:], divisor_override)
            result = g.node("AveragePool", x, **settings)
            if divisor_override is None:
                return result
            return g.node("Mul", result, g.constant(math.prod(kernel) / divisor_override, x.dtype))

        return _batched(g, input, dims, pool)

    return convert


def _by_matrices(g: Builder, x: Value, settings: dict[str, Any], sizes: Sequence[Any], divisor: int) -> Value:
    """Sums of windows over a divisor, a matrix for each dim."""
    out, matrices = g.result.shape[-len(sizes):], []
    for d, (n, count) in enumerate(zip(sizes, out, strict=True)):
        if type(n) is not int:
            raise NotImplementedError("avg_pool with divisor_override and ceil_mode of sizes that vary")
        first, k, step = settings["pads"][d], settings["kernel_shape"][d], settings["strides"][d]
        scale = 1 / divisor if d == 0 else 1.0
        matrices.append([[scale * (0 <= i + first - o * step < k) for i in range(n)] for o in range(count)])
    return summed(g, x, len(sizes) + 2, matrices)


for _d in (1, 2, 3):
    rule(f"avg_pool{_d}d")(_average_pool(_d))


def _adaptive(dims: int, op: str) -> Any:
    def convert(g: Builder, input: Value, output_size: Any, return_indices: bool = False) -> Any:
        wanted = as_list(output_size, dims)
        sizes = input.shape[-dims:]
        wanted = [n if w is None else w for w, n in zip(wanted, sizes)]

        def pool(x: Value) -> Value:
            if all(w == 1 for w in wanted):
                return g.node(f"Global{op}", x)
            if not all(isinstance(n, int) for n in sizes):
                raise NotImplementedError(f"adaptive pooling to {wanted} of sizes that vary; ONNX has it for 1 alone")
            if any(n % w for n, w in zip(sizes, wanted)):
                return _uneven(g, x, sizes, wanted, op)
            kernel = [n // w for n, w in zip(sizes, wanted)]
            return g.node(op, x, kernel_shape=kernel, strides=kernel)

        if not isinstance(g.result, (tuple, list)):
            return _batched(g, input, dims, pool)
        if not all(isinstance(n, int) for n in sizes):
            raise NotImplementedError("places of an adaptive pool over sizes that vary")
        return largest(g, input, input.shape, [
            [list(range(o * n // w, -(-(o + 1) * n // w))) for o in range(w)] for n, w in zip(sizes, wanted)])

    return convert


def _uneven(g: Builder, x: Value, sizes: Sequence[int], wanted: Sequence[int], op: str) -> Value:
    """Windows of different lengths: along one dim after the other, slices reduced and joined."""
    first = 2
    for d, (n, w) in enumerate(zip(sizes, wanted)):
        axis, parts = first + d, []
        for i in range(w):
            begin, end = i * n // w, -(-(i + 1) * n // w)
            piece = g.node("Slice", x, g.ints([begin]), g.ints([end]), g.ints([axis]))
            reduce = "ReduceMean" if op == "AveragePool" else "ReduceMax"
            parts.append(g.node(reduce, piece, g.ints([axis]), keepdims=1))
        x = g.node("Concat", *parts, axis=axis) if len(parts) > 1 else parts[0]
    return x


for _d in (1, 2, 3):
    rule(f"adaptive_avg_pool{_d}d", f"_adaptive_avg_pool{_d}d")(_adaptive(_d, "AveragePool"))
    rule(f"adaptive_max_pool{_d}d")(_adaptive(_d, "MaxPool"))


@rule("im2col")
def im2col(g: Builder, input: Value, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Value:
    """Patches, as a convolution with kernels that pick one element each."""
    if input.ndim != 4 or not isinstance(input.shape[1], int):
        raise NotImplementedError("im2col of a batch of images with a known number of channels only")
    channels, (h, w) = input.shape[1], as_list(kernel_size, 2)
    picks = [[[[float(i == r and j == c) for j in range(w)] for i in range(h)]] for r in range(h) for c in range(w)]
    weight = g.constant(picks * channels, input.dtype)
    found = g.node("Conv", input, weight, strides=as_list(stride, 2), pads=as_list(padding, 2) * 2,
                   dilations=as_list(dilation, 2), kernel_shape=[h, w], group=channels)
    count = g.result.shape[-1]
    rows = [g.size(input, 0), channels * h * w, count if type(count) is int else -1]
    return reshaped(g, found, rows)


@rule("col2im")
def col2im(g: Builder, input: Value, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0,
           stride: Any = 1) -> Value:
    if input.ndim != 3:
        raise NotImplementedError("col2im of batches only")
    return g.node("Col2Im", input, g.ints(as_list(output_size, 2)), g.ints(as_list(kernel_size, 2)),
                  dilations=as_list(dilation, 2), pads=as_list(padding, 2) * 2, strides=as_list(stride, 2))


@rule("constant_pad_nd")
def constant_pad(g: Builder, input: Value, pad: Sequence[Any], value: Any = 0) -> Value:
    return padded(g, input, pad, "constant", value)


def padded(g: Builder, x: Value, pad: Sequence[Any], mode: str, value: Any = None) -> Value:
    """x with elements around it; `pad` has the last dim first, as PyTorch's does."""
    given = x
    if x.dtype is _C.bool:
        x, value = g.cast(x, _C.uint8), int(bool(value or 0))
    cuts = [n if isinstance(n, int) and n < 0 else 0 for n in pad]      # negative pads cut
    if any(cuts):
        pad = [n if not isinstance(n, int) else max(n, 0) for n in pad]
    if any(cuts) and mode in ("constant", "wrap"):
        x = _cut(g, x, cuts)
    count = len(pad) // 2
    begins = [0] * (given.ndim - count) + [pad[2 * i] for i in reversed(range(count))]
    ends = [0] * (given.ndim - count) + [pad[2 * i + 1] for i in reversed(range(count))]
    fill = None if mode != "constant" else g.constant(value or 0, x.dtype)
    x = g.node("Pad", x, g.sizes([*begins, *ends]), fill, mode=mode, shape=x.shape)
    if any(cuts) and mode in ("edge", "reflect"):      # what is cut off may be what is repeated
        x = _cut(g, x, cuts)
    return g.cast(x, given.dtype)


def _cut(g: Builder, x: Value, pad: Sequence[int]) -> Value:
    shape = x.shape
    for i in range(len(pad) // 2):
        axis = positive(-1 - i, x.ndim)
        begin, end = max(-pad[2 * i], 0), min(pad[2 * i + 1], 0)
        if begin or end:
            cut = g.node("Slice", x, g.ints([begin]), g.ints([end or 2**63 - 1]), g.ints([axis]))
            x = Value(cut.name, cut.dtype, shape)
    return x


def _padding(mode: str) -> Any:
    def convert(g: Builder, input: Value, padding: Any = None, pad: Any = None) -> Value:
        return padded(g, input, list(padding if padding is not None else pad), mode)

    return convert


for _d in (1, 2, 3):
    rule(f"reflection_pad{_d}d")(_padding("reflect"))
    rule(f"replication_pad{_d}d")(_padding("edge"))


@rule("pad")
def pad(g: Builder, input: Value, pad: Any, mode: str = "constant", value: float | None = None) -> Value:
    kinds = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    if mode == "circular" and g.opset < 19:
        raise NotImplementedError("padding with mode 'circular' needs opset 19")
    return padded(g, input, list(pad), kinds[mode], value if value is not None else 0)
