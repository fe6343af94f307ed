"""Convolutions, transposed ones, and the gradient of their kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...op.pack import BY_CODE
from .. import types
from ..printing import Value
from .building import Hlo, value
from .elements import cast
from .table import Call, rule


def convolved(b: Hlo, x: Value, w: Value, *, strides: Sequence[int], padding: Sequence[tuple[Any, Any]],
              spread: Sequence[int], dilation: Sequence[int], groups: int, shape: Sequence[Any]) -> Value:
    """[batch, channels, ...] under [outs, channels of a group, ...]. `spread`: steps between elements of x."""
    places = ", ".join(str(d) for d in range(x.ndim - 2))
    places = f", {places}" if places else ""
    return b.op("stablehlo.convolution", [x, w], value(x.dtype, shape), {
        "window_strides": types.integers(strides), "padding": types.table(padding),
        "lhs_dilation": types.integers(spread), "rhs_dilation": types.integers(dilation),
        "dimension_numbers": f"#stablehlo.conv<[b, f{places}]x[o, i{places}]->[b, f{places}]>",
        "feature_group_count": types.integer(groups), "batch_group_count": types.integer(1)})


def wide(numbers: Sequence[int], dims: int) -> list[int]:
    """A number for each dim."""
    return list(numbers) if len(numbers) == dims else list(numbers) * dims


@rule("convolution")
def convolution(call: Call, input: Value, weight: Value, bias: Value | None, stride: Any, padding: Any, dilation: Any,
                transposed: bool, output_padding: Any, groups: int) -> Value:
    b, out = call.b, call.out()
    dims = weight.ndim - 2
    stride, padding, dilation, extra = (wide(v, dims) for v in (stride, padding, dilation, output_padding))
    x, w = (cast(b, v, BY_CODE["f32"]) if v.dtype.code in ("f16", "bf16") else v for v in (input, weight))
    shape, kernel = tuple(out.shape), weight.shape[2:]
    if transposed:
        ins, outs = weight.shape[0], weight.shape[1]
        w = b.reshape(w, (groups, ins // groups, outs, *kernel))
        w = b.transpose(w, [0, 2, 1, *range(3, 3 + dims)])
        w = b.reverse(b.reshape(w, (groups * outs, ins // groups, *kernel)), range(2, 2 + dims))
        reach = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
        pads = [(r - p, r - p + e) for r, p, e in zip(reach, padding, extra, strict=True)]
        found = convolved(b, x, w, strides=[1] * dims, padding=pads, spread=stride, dilation=dilation, groups=groups,
                          shape=shape)
    else:
        found = convolved(b, x, w, strides=stride, padding=[(p, p) for p in padding], spread=[1] * dims,
                          dilation=dilation, groups=groups, shape=shape)
    if bias is not None:
        found = b.binary("add", found, b.broadcast(cast(b, bias, found.dtype), shape, [1]))
    return cast(b, found, out.dtype)


@rule("_convolution_weight")
def convolution_weight(call: Call, grad: Value, input: Value, kernel_size: Any, stride: Any, padding: Any,
                       dilation: Any, groups: int) -> Value:
    """The input under the gradient: what was the batch is summed over, and strides and dilations change places."""
    b, out = call.b, call.out()
    dims = grad.ndim - 2
    stride, padding, dilation = (wide(v, dims) for v in (stride, padding, dilation))
    g, x = (cast(b, v, BY_CODE["f32"]) if v.dtype.code in ("f16", "bf16") else v for v in (grad, input))
    batch, channels, outs = x.shape[0], x.shape[1] // groups, g.shape[1]
    x = b.reshape(x, (batch, groups, channels, *x.shape[2:]))
    x = b.transpose(x, [2, 1, 0, *range(3, 3 + dims)])
    x = b.reshape(x, (channels, groups * batch, *input.shape[2:]))
    g = b.transpose(g, [1, 0, *range(2, 2 + dims)])
    sizes = zip(input.shape[2:], grad.shape[2:], kernel_size, stride, padding, dilation, strict=True)
    pads = [(p, (k - 1) * d + s * (o - 1) + 1 - n - p) for n, o, k, s, p, d in sizes]
    found = convolved(b, x, g, strides=dilation, padding=pads, spread=[1] * dims, dilation=stride, groups=groups,
                      shape=(channels, outs, *kernel_size))
    return cast(b, b.transpose(found, [1, 0, *range(2, 2 + dims)]), out.dtype)
