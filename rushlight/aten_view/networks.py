"""Layers, pools, samplings and losses in PyTorch's parts.

Enters: arguments by ATen's signature (`NETWORKS`), or as our op has them (`OWN`, where ATen's op of that name takes
others). Leaves: the result, by calls of the parts. NotImplemented where PyTorch has the call as one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .. import _C
from .._C import Tensor
from ..op import find_op
from .words import aten

_MODES = {"nearest": "upsample_nearest{d}d", "nearest-exact": "_upsample_nearest_exact{d}d",
          "linear": "upsample_linear1d", "bilinear": "upsample_bilinear2d", "bicubic": "upsample_bicubic2d",
          "trilinear": "upsample_trilinear3d"}


def _numbers(value: Any, count: int) -> list[Any]:
    listed = list(value) if isinstance(value, (list, tuple)) else [value]
    return listed * count if len(listed) == 1 else listed


def interpolate(input: Any, size: Any, scale_factor: Any, mode: str, align_corners: Any, recompute_scale_factor: Any,
                antialias: bool) -> Any:
    dims = input.ndim - 2
    if mode not in _MODES or antialias or dims < 1 or not input.numel():
        return NotImplemented
    if size is not None:
        sizes, scales = _numbers(size, dims), [None] * dims
    else:
        scales = [float(s) for s in _numbers(scale_factor, dims)]
        sizes = [math.floor(n * s) for n, s in zip(input.shape[2:], scales, strict=True)]
        scales = [None] * dims if recompute_scale_factor else scales
    corners = () if "nearest" in mode else (bool(align_corners),)
    while scales and scales[-1] is None:
        scales.pop()
    return getattr(aten, _MODES[mode].format(d=dims))(input, sizes, *corners, *scales)


def adaptive_avg_pool(dims: int) -> Callable:
    def rule(input: Any, output_size: Any) -> Any:
        sizes = [n if n is not None else m
                 for n, m in zip(_numbers(output_size, dims), input.shape[-dims:], strict=True)]
        if dims == 1:
            return find_op("adaptive_avg_pool2d")(input.unsqueeze(-2), [1, *sizes]).squeeze(-2)
        if all(n == 1 for n in sizes):
            return aten.mean.dim(input, [-1 - i for i in range(dims)], True)
        return getattr(aten, f"_adaptive_avg_pool{dims}d")(input, sizes)

    return rule


def adaptive_max_pool(dims: int) -> Callable:
    def rule(input: Any, output_size: Any, return_indices: bool) -> Any:
        sizes = [n if n is not None else m
                 for n, m in zip(_numbers(output_size, dims), input.shape[-dims:], strict=True)]
        if dims == 1:
            found = [t.squeeze(-2) for t in aten.adaptive_max_pool2d(input.unsqueeze(-2), [1, *sizes])]
        else:
            found = list(getattr(aten, f"adaptive_max_pool{dims}d")(input, sizes))
        return tuple(found) if return_indices else found[0]

    return rule


def max_pool(dims: int) -> Callable:
    def rule(input: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool,
             return_indices: bool) -> Any:
        if dims == 1:
            if not (input.requires_grad or return_indices):
                return NotImplemented
            wide = [[1, *_numbers(kernel_size, 1)], [] if stride is None else [1, *_numbers(stride, 1)],
                    [0, *_numbers(padding, 1)], [1, *_numbers(dilation, 1)], ceil_mode]
            found = aten.max_pool2d_with_indices(input.unsqueeze(-2), *_shortened(wide, ([], [0, 0], [1, 1], False)))
            result = tuple(t.squeeze(-2) for t in found)
        else:
            given = [_numbers(kernel_size, dims), [] if stride is None else _numbers(stride, dims),
                     _numbers(padding, dims), _numbers(dilation, dims), ceil_mode]
            result = getattr(aten, f"max_pool{dims}d_with_indices")(
                input, *_shortened(given, ([], [0] * dims, [1] * dims, False)))
        return tuple(result) if return_indices else result[0]

    return rule


def _shortened(given: list[Any], defaults: tuple) -> list[Any]:
    """Arguments without those at the end that are as they would be."""
    kept = list(given)
    while len(kept) > 1 and kept[-1] == defaults[len(kept) - 2]:
        kept.pop()
    return kept


def avg_pool1d(input: Any, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool,
               count_include_pad: bool) -> Any:
    wide = [[1, *_numbers(kernel_size, 1)], [] if stride is None else [1, *_numbers(stride, 1)],
            [0, *_numbers(padding, 1)], ceil_mode, count_include_pad]
    return aten.avg_pool2d(input.unsqueeze(-2), *_shortened(wide, ([], [0, 0], False, True))).squeeze(-2)


def rms_norm(input: Any, normalized_shape: Any, weight: Any = None, eps: Any = None) -> Any:
    if input.dtype not in (_C.float32, _C.float64):
        return NotImplemented
    eps = eps if eps is not None else 2.0**-23 if input.dtype is _C.float32 else 2.0**-52
    dims = [input.ndim - len(normalized_shape) + i for i in range(len(normalized_shape))]
    scale = aten.add_.Scalar(aten.mean.dim(aten.pow.Tensor_Scalar(input, 2), dims, True), eps).rsqrt()
    result = input * scale
    return result if weight is None else result * weight


def _spread(name: str) -> Callable:
    """Variances and deviations: every form is the one with a correction."""

    def rule(input: Any, *rest: Any) -> Any:
        found = getattr(aten, name).correction
        if len(rest) == 1:
            return found(input, **({} if rest[0] else {"correction": 0}))
        dim, unbiased, keepdim = rest
        if not isinstance(unbiased, bool):
            return NotImplemented
        return found(input, None if dim is None else _numbers(dim, 1), correction=int(unbiased),
                     **({"keepdim": True} if keepdim else {}))

    return rule


def isclose(self: Any, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Any:
    if not self.is_floating_point() or equal_nan:
        return NotImplemented
    close = aten.eq.Tensor(self, other)
    if rtol == 0 and atol == 0:
        return close
    allowed = aten.add.Scalar(aten.abs(aten.mul.Scalar(other, rtol)), atol)
    apart = (self - other).abs()
    finite = find_op("isfinite")(apart)
    near = aten.bitwise_and_.Tensor(finite, aten.le.Tensor(apart, allowed))
    return aten.bitwise_or_.Tensor(close, near)


def isfinite(self: Any) -> Any:
    if not self.is_floating_point():
        return NotImplemented
    return aten.ne.Scalar(self.abs(), math.inf) * aten.eq.Tensor(self, self)


def prelu(input: Any, weight: Any) -> Any:
    if (weight.ndim == 1 and input.ndim >= 2 and weight.numel() != 1) or input.ndim != weight.ndim:
        shape = [1] * input.ndim
        if input.ndim > 1:
            shape[1] = weight.numel()
        weight = find_op("reshape")(weight, shape)
    return aten._prelu_kernel(input, weight)


def norm(input: Any, p: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    if isinstance(p, str) or p is None or dtype is not None:
        if p not in ("fro", None) or dtype is not None:
            return NotImplemented
        return aten.linalg_vector_norm(input, 2.0, *([_numbers(dim, 1), keepdim] if dim is not None else []))
    given = (p,) if dim is None and not keepdim else (p, None if dim is None else _numbers(dim, 1), keepdim)
    return aten.linalg_vector_norm(input, *(given if given[-1] is not False or len(given) == 1 else given[:-1]))


def div(input: Any, other: Any, rounding_mode: Any) -> Any:
    """A number divided by a tensor."""
    return NotImplemented if isinstance(input, Tensor) or rounding_mode else other.reciprocal() * input


def moved(input: Any, *rest: Any) -> Any:
    """`to` a device, like another tensor, or by keywords: one copy, or none."""
    *places, non_blocking, copy, memory_format = rest
    like = next((p for p in places if isinstance(p, Tensor)), None)
    dtype = like.dtype if like is not None else next((p for p in places if isinstance(p, _C.dtype)), None)
    device = like.device if like is not None else next((p for p in places if p is not None
                                                        and not isinstance(p, _C.dtype)), None)
    device = None if device is None else _C.device(device) if isinstance(device, (str, int)) else device
    if device is not None and device.type == input.device.type and device.index in (None, input.device.index):
        device = None
    dtype = None if dtype is input.dtype else dtype
    if dtype is None and device is None and not copy:
        return input if memory_format is None else NotImplemented
    named = {"dtype": dtype, "device": device, "non_blocking": non_blocking or None, "memory_format": memory_format}
    return aten._to_copy(input, **{k: v for k, v in named.items() if v is not None})


NETWORKS: dict[str, Callable] = {
    "rms_norm.default": rms_norm, "isclose.default": isclose, "isfinite.default": isfinite,
    "true_divide.Tensor": lambda self, other: aten.div.Tensor(self, other),
    "true_divide.Scalar": lambda self, other: aten.div.Tensor(self, other),
    "outer.default": lambda self, vec2: find_op("reshape")(self, [self.shape[0], 1]) * vec2,
    "log_sigmoid.default": lambda self: aten.log_sigmoid_forward(self)[0],
    "isreal.default": lambda self: aten.ones_like(self, dtype=_C.bool) if not self.is_complex() else NotImplemented,
    "linalg_inv.default": lambda A: aten.linalg_inv_ex(A)[0],  # noqa: N803 - ATen's name
}

OWN: dict[str, Callable] = {
    "div": div, "to": moved, "cpu": lambda input, memory_format: moved(input, "cpu", False, False, memory_format),
    "interpolate": interpolate, "avg_pool1d": avg_pool1d,
    **{f"adaptive_avg_pool{d}d": adaptive_avg_pool(d) for d in (1, 2, 3)},
    **{f"adaptive_max_pool{d}d": adaptive_max_pool(d) for d in (1, 2, 3)},
    **{f"max_pool{d}d": max_pool(d) for d in (1, 2, 3)},
    **{name: _spread(name) for name in ("var", "std", "var_mean", "std_mean")},
    "softsign": lambda input: input / (input.abs() + 1),
    "tanhshrink": lambda input: input - input.tanh(),
    "logsigmoid": lambda input: aten.log_sigmoid_forward(input)[0],
    "prelu": prelu, "norm": norm,
    "selu": lambda input: aten.elu(input, 1.6732632423543772, 1.0507009873554805),
}

