"""Ops of ours that ATen has not, or has with other results, as calls of ops that it has: what is recorded of them.

Enters: the arguments of a call. Leaves: its result, computed by calls that are recorded in its place. `COMPOSED` says
for which ops.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._C import Tensor
from ..op import find_op
from .calls import aten_overload

_MODES = {"nearest": "upsample_nearest{d}d", "nearest-exact": "_upsample_nearest_exact{d}d",
          "linear": "upsample_linear1d", "bilinear": "upsample_bilinear2d", "bicubic": "upsample_bicubic2d",
          "trilinear": "upsample_trilinear3d"}


def _interpolate(record: Any, input: Any, size: Any, scale_factor: Any, mode: str, align_corners: Any,
                 recompute_scale_factor: Any, antialias: bool) -> Any:
    dims = input.ndim - 2
    if mode not in _MODES or antialias or recompute_scale_factor:
        return NotImplemented
    if size is not None:
        size = [size] * dims if not isinstance(size, (list, tuple)) else list(size)
        scale_factor = None
    if scale_factor is not None:
        scale_factor = [float(s) for s in (
            [scale_factor] * dims if not isinstance(scale_factor, (list, tuple)) else scale_factor)]
    corners = () if "nearest" in mode else (bool(align_corners),)
    return find_op(_MODES[mode].format(d=dims))(input, size, *corners, scale_factor)


def _adaptive_max_pool(name: str) -> Callable:
    def pool(record: Any, input: Any, output_size: Any, return_indices: bool) -> Any:
        dims = int(name[-2])
        sizes = list(output_size) if isinstance(output_size, (list, tuple)) else [output_size] * dims
        if any(n is None for n in sizes):
            return NotImplemented
        target = aten_overload(name, "default")
        result = record((target, (input, sizes), {}), lambda: find_op(name)(input, sizes, True))
        return result if return_indices else result[0]

    return pool


def _max_pool(name: str) -> Callable:
    def pool(record: Any, input: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool,
             return_indices: bool) -> Any:
        if not return_indices:
            return NotImplemented
        return find_op(f"{name}_with_indices")(input, kernel_size, stride, padding, dilation, ceil_mode)

    return pool


def _tensor_split(record: Any, input: Any, at: Any, dim: Any) -> Any:
    """Cut at positions that are elements: each is read by a node, so that the graph knows where they come from."""
    if not isinstance(at, Tensor):
        return NotImplemented
    return find_op("tensor_split").overload_list[0].definition.compute(input, at, dim)


def _stft(record: Any, *bound: Any) -> Any:
    """By the signature that says whether frames are centered: the other one leaves it out, and means that they are
    not."""
    return record((aten_overload("stft", "center"), bound, {}), lambda: find_op("stft")(*bound))


COMPOSED: dict[str, Callable] = {
    "stft": _stft,
    "tensor_split": _tensor_split,
    "softsign": lambda record, x: x / (x.abs() + 1),
    "tanhshrink": lambda record, x: x - x.tanh(),
    "logsigmoid": lambda record, x: find_op("log_sigmoid")(x),
    "interpolate": _interpolate,
    **{f"adaptive_max_pool{d}d": _adaptive_max_pool(f"adaptive_max_pool{d}d") for d in (1, 2, 3)},
    **{f"max_pool{d}d": _max_pool(f"max_pool{d}d") for d in (2, 3)},
}
