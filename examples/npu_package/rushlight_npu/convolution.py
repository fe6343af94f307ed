"""Convolutions as matrix products for the array.

Windows are a strided view of the padded input; the vector unit's DMA lays them out as columns, the array multiplies
weights by those. A transposed convolution multiplies first, and adds the columns up where their windows lie.
Enters: tensors of the device, as `rushlight.devices.Device.implementation` names them. Refuses (NotImplemented: the
host computes): integers and complex numbers.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import rushlight

_TAKEN = (rushlight.float32, rushlight.float64, rushlight.float16, rushlight.bfloat16)


def _quietly(function: Callable) -> Callable:
    """Without recording, in f32 where elements are halves, and not at all for types that have no products here."""

    @functools.wraps(function)
    def run(out: Any, *args: Any) -> Any:
        if out.dtype not in _TAKEN:
            return NotImplemented
        half = out.dtype in _TAKEN[2:]
        with rushlight.no_grad():
            out.copy_(function(*[a.float() if half and isinstance(a, rushlight.Tensor) else a for a in args]))
        return None

    return run


def columns(x: Any, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int],
            groups: int) -> Any:
    """Windows of [batch, channels, ...] as [batch, groups, channels of one * prod(kernel), positions]."""
    if any(padding):
        x = rushlight.nn.functional.pad(x, [p for p in reversed(padding) for _ in range(2)])
    x = x.contiguous()
    spatial, steps = x.shape[2:], x.stride()[2:]
    sizes = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(spatial, kernel, stride, dilation, strict=True)]
    batch, channels = x.shape[0], x.shape[1]
    view = x.as_strided(
        (batch, channels, *kernel, *sizes),
        (x.stride(0), x.stride(1), *(t * d for t, d in zip(steps, dilation, strict=True)),
         *(t * s for t, s in zip(steps, stride, strict=True))),
    )
    return view.reshape(batch, groups, channels // groups * math.prod(kernel), math.prod(sizes))


@_quietly
def convolution(
    input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool,
    output_padding: Any, groups: int,
) -> Any:
    """The op of this name."""
    dims = input.ndim - 2
    stride, padding, dilation, extra = (_spread(v, dims) for v in (stride, padding, dilation, output_padding))
    kernel = tuple(weight.shape[2:])
    if transposed:
        result = _transposed(input, weight, kernel, stride, padding, dilation, extra, groups)
    else:
        sizes = [(n + 2 * p - d * (k - 1) - 1) // s + 1
                 for n, k, s, p, d in zip(input.shape[2:], kernel, stride, padding, dilation, strict=True)]
        windows = columns(input, kernel, stride, padding, dilation, groups)
        flat = weight.reshape(groups, weight.shape[0] // groups, -1)
        result = (flat @ windows).reshape(input.shape[0], weight.shape[0], *sizes)
    return result if bias is None else result + bias.reshape(-1, *[1] * dims)


def _transposed(
    x: Any, weight: Any, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], extra: Sequence[int], groups: int,
) -> Any:
    batch, spatial, outs = x.shape[0], tuple(x.shape[2:]), weight.shape[1] * groups
    flat = weight.reshape(groups, weight.shape[0] // groups, -1)      # [groups, channels, outs * kernel]
    parts = flat.transpose(1, 2) @ x.reshape(batch, groups, x.shape[1] // groups, -1)
    parts = parts.reshape(batch, outs, *kernel, *spatial)
    sizes = [(n - 1) * s - 2 * p + d * (k - 1) + e + 1
             for n, k, s, p, d, e in zip(spatial, kernel, stride, padding, dilation, extra, strict=True)]
    whole = [max(p + n, (m - 1) * s + d * (k - 1) + 1)
             for n, m, k, s, p, d in zip(sizes, spatial, kernel, stride, padding, dilation, strict=True)]
    total = rushlight.zeros(batch, outs, *whole, dtype=x.dtype, device=x.device)
    for at in itertools.product(*map(range, kernel)):
        window = tuple(slice(k * d, k * d + (n - 1) * s + 1, s)
                       for k, d, n, s in zip(at, dilation, spatial, stride, strict=True))
        total[(slice(None), slice(None), *window)] += parts[(slice(None), slice(None), *at)]
    return total[(slice(None), slice(None), *(slice(p, p + n) for p, n in zip(padding, sizes, strict=True)))]


@_quietly
def convolution_weight(
    grad: Any, input: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> Any:
    """The gradient of a convolution's weight."""
    dims = input.ndim - 2
    stride, padding, dilation = (_spread(v, dims) for v in (stride, padding, dilation))
    windows = columns(input, kernel_size, stride, padding, dilation, groups)
    positions = math.prod(grad.shape[2:])
    cut = [(n + 2 * p - d * (k - 1) - 1) // s + 1
           for n, k, s, p, d in zip(input.shape[2:], kernel_size, stride, padding, dilation, strict=True)]
    if tuple(cut) != tuple(grad.shape[2:]):
        windows = windows.reshape(*windows.shape[:3], *cut)[(..., *(slice(n) for n in grad.shape[2:]))]
        windows = windows.reshape(*windows.shape[:3], positions)
    batch = grad.shape[0]
    left = grad.reshape(batch, groups, -1, positions).permute(1, 2, 0, 3).reshape(groups, -1, batch * positions)
    right = windows.permute(1, 2, 0, 3).reshape(groups, -1, batch * positions)
    return (left @ right.transpose(1, 2)).reshape(grad.shape[1], input.shape[1] // groups, *kernel_size)


def _spread(value: Any, dims: int) -> tuple[int, ...]:
    """A number for each dim."""
    value = tuple(value) if isinstance(value, (list, tuple)) else (value,)
    return value if len(value) == dims else value * dims
