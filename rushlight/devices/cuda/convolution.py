"""Convolution by cuDNN: forward, transposed (the gradient of an input) and the gradient of a weight.

Enters: what the ops `convolution` and `_convolution_weight` get, on this device. Leaves: the results, computed
channels last where the input's are. Answers NotImplemented for what the library does not do (integers, complex
numbers): the caller then computes it otherwise. One plan for each geometry is kept.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from ... import _C
from ..._C import Tensor
from ...base.settings import conv_tf32
from . import cudnn
from .cudnn import BACKWARD_DATA, BACKWARD_FILTER, FORWARD, Graph, Prepared

TYPES = (_C.float32, _C.float16, _C.bfloat16, _C.float64)
Layout = tuple[tuple[int, ...], tuple[int, ...]]
MOST_SETTLED = 4096
MOST = 1 << 31                 # bytes an engine may have for itself


def convolution(
    out: Any, input: Any, weight: Any, bias: Any, stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], transposed: bool, output_padding: Sequence[int], groups: int,
) -> Any:
    """Fill `out` with a convolution, or a transposed one."""
    key = geometry(input, weight, out, (tuple(stride), tuple(padding), tuple(dilation), transposed, groups))
    known = settled.get(key)
    if known is not None and bias is None:
        known.run(input, weight, out)
        return out
    if not serves(input, weight):
        return NotImplemented
    last = channels_last(input) or channels_last(weight)
    x, w = (laid_out(t, last) for t in (input, weight))
    result = out if matches(out, last) else fresh(out, last)
    numbers = tuple([spread(v, input.ndim - 2) for v in (stride, padding, dilation)])
    kind = BACKWARD_DATA if transposed else FORWARD
    plan = prepared(kind, input.device, input.dtype.code, layout(x), layout(w), layout(result), *numbers, groups,
                    exact(input))
    if plan is None:
        return NotImplemented
    plan.run(x, w, result)
    if x is input and w is weight and result is out:
        settle(key, plan)
    elif result is not out:
        out.copy_(result)
    if bias is not None:
        out.add_(bias.reshape((-1, *(1,) * (input.ndim - 2))))
    return out


def convolution_weight(
    out: Any, grad: Any, input: Any, kernel_size: Sequence[int], stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], groups: int,
) -> Any:
    """Fill `out` with the gradient of a weight."""
    key = geometry(input, grad, out, (tuple(stride), tuple(padding), tuple(dilation), groups))
    known = settled.get(key)
    if known is not None:
        known.run(input, grad, out)
        return out
    if not serves(input, grad):
        return NotImplemented
    last = channels_last(input) or channels_last(grad)
    x, g = (laid_out(t, last) for t in (input, grad))
    result = out if matches(out, last) else fresh(out, last)
    numbers = tuple([spread(v, input.ndim - 2) for v in (stride, padding, dilation)])
    plan = prepared(
        BACKWARD_FILTER, grad.device, grad.dtype.code, layout(x), layout(g), layout(result), *numbers, groups,
        exact(grad),
    )
    if plan is None:
        return NotImplemented
    plan.run(x, g, result)
    if x is input and g is grad and result is out:
        settle(key, plan)
    elif result is not out:
        out.copy_(result)
    return out


settled: dict[tuple, Prepared] = {}     # plans of geometries that need no copies


def geometry(a: Tensor, b: Tensor, out: Tensor, numbers: tuple) -> tuple:
    """What decides which plan serves a call, and that it needs no copies."""
    layouts = (a.shape, a.stride(), b.shape, b.stride(), out.shape, out.stride())
    return (a.dtype, b.dtype, a.device, exact(a), *layouts, numbers)


def settle(key: tuple, plan: Prepared) -> None:
    if len(settled) >= MOST_SETTLED:
        settled.clear()
    settled[key] = plan


# What each of x, second and out is, as the library numbers a convolution's attributes.
PARTS = {FORWARD: (704, 703, 705), BACKWARD_DATA: (711, 709, 710), BACKWARD_FILTER: (716, 717, 715)}


@functools.lru_cache(maxsize=2048)
def prepared(
    kind: int, device: Any, code: str, first: Layout, second: Layout, out: Layout, stride: tuple[int, ...],
    padding: tuple[int, ...], dilation: tuple[int, ...], groups: int, exact: bool,
) -> Prepared | None:
    """The plan of a geometry; None where the library has no engine for it."""
    g = Graph(cudnn.installed())
    tensors = [g.tensor(code, *one) for one in (first, second, out)]
    if len(stride) == 1:
        stride, padding, dilation = (1, *stride), (0, *padding), (1, *dilation)
    try:
        g.convolve(kind, PARTS[kind], tensors, stride, padding, dilation, "f64" if code == "f64" else "f32")
        return g.prepare(device, most=MOST, exact=exact)
    except RuntimeError:
        return None


def exact(t: Tensor) -> bool:
    """Whether numbers must not be rounded to TF32."""
    return t.dtype is _C.float32 and not conv_tf32()


def serves(a: Tensor, b: Tensor) -> bool:
    return a.dtype in TYPES and a.dtype is b.dtype and a.numel() > 0 and b.numel() > 0 and cudnn.find() is not None


def spread(values: Sequence[int], dims: int) -> tuple[int, ...]:
    """One number per spatial dimension."""
    return tuple(values) if len(values) == dims else tuple(values) * dims


def layout(t: Tensor) -> Layout:
    """Sizes and strides as the library sees them: two spatial dimensions at least."""
    sizes, strides = tuple(t.shape), tuple(t.stride())
    if len(sizes) > 3:
        return sizes, strides
    (batch, channels, length), (a, b, c) = sizes, strides
    return (batch, channels, 1, length), (a, b, length * c, c)


def last_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides with the channels last."""
    _, channels, *spatial = shape
    strides, reach = [], channels
    for n in reversed(spatial):
        strides.append(reach)
        reach *= n
    return (reach, 1, *reversed(strides))


def channels_last(t: Tensor) -> bool:
    """Whether channels lie side by side, and rows do not."""
    return tuple(t.stride()) == last_strides(t.shape) and not t.is_contiguous()


def laid_out(t: Tensor, last: bool) -> Any:
    """The tensor in the layout that the library gets; a copy where it has another."""
    if not last:
        return t.contiguous()
    return t if matches(t, True) else fresh(t, True).copy_(t)


def matches(t: Tensor, last: bool) -> bool:
    return tuple(t.stride()) == last_strides(t.shape) if last else t.is_contiguous()


def fresh(like: Tensor, last: bool) -> Any:
    return _C.empty(tuple(like.shape), last_strides(like.shape) if last else None, like.dtype, like.device)
