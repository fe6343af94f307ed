"""`torch.ao.nn.quantized.functional`: functions of quantized tensors.

Enters: quantized tensors, weights included. Leaves: quantized tensors. Refuses: floats (ValueError), dtypes and
paddings without kernels (NotImplementedError), shapes of other ranks.
"""

from __future__ import annotations

import warnings
from typing import Any

from .... import _C, ops
from ...._C import Tensor
from ....nn import functional as F
from ....nn.modules.settings import repeated
from ....op import find_op
from .modules.utils import _pair_from_first

__all__ = [
    "avg_pool2d", "avg_pool3d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "conv1d", "conv2d", "conv3d",
    "interpolate", "linear", "max_pool1d", "max_pool2d", "celu", "leaky_relu", "hardtanh", "hardswish", "threshold",
    "elu", "hardsigmoid", "clamp", "upsample", "upsample_bilinear", "upsample_nearest",
]

_SHAPES = {1: "(N, C, L)", 2: "(N, C, H, W)", 3: "(N, C, D, H, W)"}


def _expect_quantized(name: str, input: Any) -> None:
    if not input.is_quantized:
        raise ValueError(f"Input to 'quantized.{name}' must be quantized! Got {input.dtype}: use quantize_per_tensor")


def avg_pool2d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None,
) -> Tensor:
    """Means over windows of images; the qparams stay."""
    _expect_quantized("avg_pool2d", input)
    return F.avg_pool2d(input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def avg_pool3d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None,
) -> Tensor:
    """Means over windows of volumes; the qparams stay."""
    _expect_quantized("avg_pool3d", input)
    return F.avg_pool3d(input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """Means that leave images of this size."""
    _expect_quantized("functional.adaptive_avg_pool2d", input)
    return F.adaptive_avg_pool2d(input, output_size)


def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Tensor:
    """Means that leave volumes of this size."""
    _expect_quantized("functional.adaptive_avg_pool3d", input)
    return F.adaptive_avg_pool3d(input, output_size)


def _conv(
    dims: int, input: Tensor, weight: Tensor, bias: Tensor | None, sizes: tuple, groups: int, padding_mode: str,
    scale: float, zero_point: int,
) -> Tensor:
    if padding_mode != "zeros":
        raise NotImplementedError(f"conv{dims}d: Only zero-padding is supported! Got {padding_mode!r}")
    if input.dtype != _C.quint8:
        raise NotImplementedError(f"conv{dims}d: the input must be of dtype quint8, got {input.dtype}")
    if weight.dtype != _C.qint8:
        raise NotImplementedError(f"conv{dims}d: the weight must be of dtype qint8, got {weight.dtype}")
    if input.dim() != dims + 2:
        raise ValueError(f"Input shape must be `{_SHAPES[dims]}`! Got {tuple(input.shape)}")
    packed = getattr(ops.quantized, f"conv{dims}d_prepack")(weight, bias, *sizes, groups)
    return getattr(ops.quantized, f"conv{dims}d")(input, packed, scale, zero_point)


def conv1d(
    input: Tensor, weight: Tensor, bias: Tensor | None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1, padding_mode: str = "zeros", scale: float = 1.0, zero_point: int = 0,
    dtype: _C.dtype = _C.quint8,
) -> Tensor:
    """A convolution of sequences by a quantized weight; `scale` and `zero_point` are the result's."""
    sizes = tuple(_pair_from_first(value)[:1] for value in (stride, padding, dilation))
    return _conv(1, input, weight, bias, sizes, groups, padding_mode, scale, zero_point)


def conv2d(
    input: Tensor, weight: Tensor, bias: Tensor | None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1, padding_mode: str = "zeros", scale: float = 1.0, zero_point: int = 0,
    dtype: _C.dtype = _C.quint8,
) -> Tensor:
    """A convolution of images by a quantized weight; `scale` and `zero_point` are the result's."""
    sizes = tuple(repeated(value, 2) for value in (stride, padding, dilation))
    return _conv(2, input, weight, bias, sizes, groups, padding_mode, scale, zero_point)


def conv3d(
    input: Tensor, weight: Tensor, bias: Tensor | None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1, padding_mode: str = "zeros", scale: float = 1.0, zero_point: int = 0,
    dtype: _C.dtype = _C.quint8,
) -> Tensor:
    """A convolution of volumes by a quantized weight; `scale` and `zero_point` are the result's."""
    sizes = tuple(repeated(value, 3) for value in (stride, padding, dilation))
    return _conv(3, input, weight, bias, sizes, groups, padding_mode, scale, zero_point)


def interpolate(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool | None = None
) -> Tensor:
    """Images or volumes of another size; the qparams stay."""
    _expect_quantized("interpolate", input)
    return F.interpolate(input, size, scale_factor, mode, align_corners)


def linear(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, scale: float | None = None,
    zero_point: int | None = None,
) -> Tensor:
    """x W^T + b by a quantized weight, which is packed anew at every call; without qparams, those of the input."""
    scale = input.q_scale() if scale is None else scale
    zero_point = input.q_zero_point() if zero_point is None else zero_point
    return ops.quantized.linear(input, ops.quantized.linear_prepack(weight, bias), scale, zero_point)


def _expect_no_indices(name: str, return_indices: bool) -> None:
    if return_indices:
        raise NotImplementedError(f"{name}: return_indices is not yet implemented! Pass False")


def max_pool1d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor:
    """Largest values of windows of sequences; the qparams stay."""
    _expect_no_indices("max_pool1d", return_indices)
    return F.max_pool1d(input, kernel_size, stride, padding, dilation, ceil_mode=ceil_mode)


def max_pool2d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor:
    """Largest values of windows of images; the qparams stay."""
    _expect_no_indices("max_pool2d", return_indices)
    return F.max_pool2d(input, kernel_size, stride, padding, dilation, ceil_mode=ceil_mode)


def celu(input: Tensor, scale: float, zero_point: int, alpha: float = 1.0) -> Tensor:
    """x above 0, alpha (e^(x/alpha) - 1) below, by the result's qparams."""
    _expect_quantized("celu", input)
    return ops.quantized.celu(input, scale, zero_point, alpha)


def leaky_relu(
    input: Tensor, negative_slope: float = 0.01, inplace: bool = False, scale: float | None = None,
    zero_point: int | None = None,
) -> Tensor:
    """x above 0, negative_slope x below; with a scale and a zero point, by those. Refuses both in place."""
    if scale is not None and zero_point is not None:
        if inplace:
            raise AssertionError("leaky_relu: Cannot rescale with `inplace`")
        return ops.quantized.leaky_relu(input, negative_slope, False, scale, int(zero_point))
    return F.leaky_relu(input, negative_slope, inplace)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """Values within [min_val, max_val]; the qparams stay."""
    _expect_quantized("hardtanh", input)
    return F.hardtanh(input, min_val, max_val, inplace)


def hardswish(input: Tensor, scale: float, zero_point: int) -> Tensor:
    """x relu6(x + 3) / 6, by the result's qparams."""
    _expect_quantized("hardswish", input)
    return ops.quantized.hardswish(input, scale, zero_point)


def threshold(input: Tensor, threshold: float, value: float) -> Tensor:
    """x above the threshold, `value` elsewhere."""
    _expect_quantized("threshold", input)
    for name, given in (("threshold", threshold), ("value", value)):
        if given is None:
            raise ValueError(f"Input to '{name}' must be specified! Got None")
    return ops.quantized.threshold(input, threshold, value)


def elu(input: Tensor, scale: float, zero_point: int, alpha: float = 1.0) -> Tensor:
    """x above 0, alpha (e^x - 1) below, by the result's qparams."""
    _expect_quantized("elu", input)
    return ops.quantized.elu(input, scale, zero_point, alpha)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """relu6(x + 3) / 6, with a scale that fits [0, 1]."""
    _expect_quantized("hardsigmoid", input)
    return F.hardsigmoid(input, inplace)


def clamp(input: Tensor, min_: float, max_: float) -> Tensor:
    """Values within [min_, max_]; the qparams stay."""
    _expect_quantized("clamp", input)
    return find_op("clamp")(input, min_, max_)


def _instead(name: str) -> None:
    warnings.warn(f"nn.quantized.functional.{name} is deprecated: interpolate does the same", stacklevel=3)


def upsample(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool | None = None
) -> Tensor:
    """`interpolate`, by an older name."""
    _instead("upsample")
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """`interpolate` between four neighbours, corners kept."""
    _instead("upsample_bilinear")
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """`interpolate` by the nearest neighbour."""
    _instead("upsample_nearest")
    return interpolate(input, size, scale_factor, mode="nearest")
