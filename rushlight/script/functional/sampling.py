"""Resizing, grids, windows and padding as scripts."""

# ruff: noqa: UP006, UP007, UP035, UP045 - annotations as the language reads them
from __future__ import annotations

import math
from typing import Any, Callable, List, Optional

from ..._C import Tensor
from .language import Ints2, torch
from .pooling import adaptive_avg_pool2d, adaptive_avg_pool3d


def pad(input: Tensor, pad: List[int], mode: str = "constant", value: Optional[float] = None) -> Tensor:
    return torch.pad(input, pad, mode, value)


def unfold(input: Tensor, kernel_size: Ints2, dilation: Ints2 = 1, padding: Ints2 = 0, stride: Ints2 = 1) -> Tensor:
    return torch.im2col(input, kernel_size, dilation, padding, stride)


def fold(input: Tensor, output_size: Ints2, kernel_size: Ints2, dilation: Ints2 = 1, padding: Ints2 = 0,
         stride: Ints2 = 1) -> Tensor:
    return torch.col2im(input, output_size, kernel_size, dilation, padding, stride)


def _grid_mode(mode: str) -> int:
    if mode == "nearest":
        return 1
    if mode == "bicubic":
        return 2
    if mode != "bilinear":
        raise ValueError(f"grid_sample: unknown mode '{mode}'; there are 'bilinear', 'nearest' and 'bicubic'")
    return 0


def _grid_border(padding_mode: str) -> int:
    if padding_mode == "border":
        return 1
    if padding_mode == "reflection":
        return 2
    if padding_mode != "zeros":
        raise ValueError(f"grid_sample: unknown padding_mode '{padding_mode}'; there are 'zeros', 'border' and"
                         " 'reflection'")
    return 0


def _is_set(flag: Optional[bool]) -> bool:
    return flag is not None and flag


def grid_sample(input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros",
                align_corners: Optional[bool] = None) -> Tensor:
    return torch.grid_sampler(input, grid, _grid_mode(mode), _grid_border(padding_mode), _is_set(align_corners))


def affine_grid(theta: Tensor, size: List[int], align_corners: Optional[bool] = None) -> Tensor:
    if not theta.is_floating_point():
        raise ValueError("affine_grid: theta must have a floating point type, and it has an integer one")
    dims = len(size) - 2
    if dims != 2 and dims != 3:
        raise NotImplementedError(f"affine_grid: size must have 4 numbers (images) or 5 (volumes), got {size}")
    if theta.dim() != 3 or theta.size(-2) != dims or theta.size(-1) != dims + 1:
        raise ValueError(f"affine_grid: for size {size} theta must be of shape (N, {dims}, {dims + 1}), got"
                         f" {theta.shape}")
    if min(size) < 1:
        raise ValueError(f"affine_grid: every size must be 1 or more, got {size}")
    return torch.affine_grid_generator(theta, size, _is_set(align_corners))


def _corners(mode: str, align_corners: Optional[bool]) -> bool:
    """Whether corners are aligned. Refuses the word for modes that take elements as they are."""
    if align_corners is not None and (mode == "nearest" or mode == "nearest-exact" or mode == "area"):
        raise ValueError(f"interpolate: align_corners goes with modes that blend (linear, bilinear, bicubic,"
                         f" trilinear), not with mode '{mode}'")
    return _is_set(align_corners)


def _check_count(name: str, count: int, input: Tensor) -> None:
    if count != input.dim() - 2:
        raise ValueError(f"interpolate: {name} must have a number for each of the {input.dim() - 2} spatial dims of"
                         f" an input of size {input.shape}, got {count}")


def _nearest(input: Tensor, sizes: Optional[List[int]], factors: Optional[List[float]]) -> Tensor:
    if input.dim() == 3:
        return torch.upsample_nearest1d(input, sizes, factors)
    if input.dim() == 4:
        return torch.upsample_nearest2d(input, sizes, factors)
    return torch.upsample_nearest3d(input, sizes, factors)


def _nearest_exact(input: Tensor, sizes: Optional[List[int]], factors: Optional[List[float]]) -> Tensor:
    if input.dim() == 3:
        return torch._upsample_nearest_exact1d(input, sizes, factors)
    if input.dim() == 4:
        return torch._upsample_nearest_exact2d(input, sizes, factors)
    return torch._upsample_nearest_exact3d(input, sizes, factors)


def _area(input: Tensor, sizes: Optional[List[int]]) -> Tensor:
    assert sizes is not None
    if input.dim() == 3:
        return torch.adaptive_avg_pool1d(input, sizes)
    if input.dim() == 4:
        return adaptive_avg_pool2d(input, sizes)
    return adaptive_avg_pool3d(input, sizes)


def _smoothed(input: Tensor, mode: str, sizes: Optional[List[int]], aligned: bool,
              factors: Optional[List[float]]) -> Tensor:
    """Images made smaller or larger with a filter as wide as the step between elements."""
    if input.dim() != 4 or (mode != "bilinear" and mode != "bicubic"):
        raise ValueError(f"interpolate: antialias=True needs mode 'bilinear' or 'bicubic' and a 4D input, got mode"
                         f" '{mode}' and {input.dim()} dims")
    if mode == "bilinear":
        return torch._upsample_bilinear2d_aa(input, sizes, aligned, factors)
    return torch._upsample_bicubic2d_aa(input, sizes, aligned, factors)


def _blended(input: Tensor, mode: str, sizes: Optional[List[int]], aligned: bool,
             factors: Optional[List[float]]) -> Tensor:
    rank = input.dim()
    if mode == "linear" and rank == 3:
        return torch.upsample_linear1d(input, sizes, aligned, factors)
    if mode == "bilinear" and rank == 4:
        return torch.upsample_bilinear2d(input, sizes, aligned, factors)
    if mode == "bicubic" and rank == 4:
        return torch.upsample_bicubic2d(input, sizes, aligned, factors)
    if mode == "trilinear" and rank == 5:
        return torch.upsample_trilinear3d(input, sizes, aligned, factors)
    raise NotImplementedError(f"interpolate: no mode '{mode}' for an input of {rank} dims; there are nearest,"
                              " nearest-exact and area (3 to 5 dims), linear (3), bilinear and bicubic (4),"
                              " trilinear (5)")


_signatures: List[Callable] = []


def _signature(function: Callable) -> Callable:
    """Note one signature of `interpolate`."""
    _signatures.append(function)
    return function


@_signature
def interpolate(input: Tensor, size: Optional[int] = None, scale_factor: Optional[List[float]] = None,  # noqa: F811
                mode: str = "nearest", align_corners: Optional[bool] = None,
                recompute_scale_factor: Optional[bool] = None, antialias: bool = False) -> Tensor:
    pass


@_signature
def interpolate(input: Tensor, size: Optional[List[int]] = None,  # noqa: F811
                scale_factor: Optional[List[float]] = None, mode: str = "nearest",
                align_corners: Optional[bool] = None, recompute_scale_factor: Optional[bool] = None,
                antialias: bool = False) -> Tensor:
    pass


@_signature
def interpolate(input: Tensor, size: Optional[int] = None, scale_factor: Optional[float] = None,  # noqa: F811
                mode: str = "nearest", align_corners: Optional[bool] = None,
                recompute_scale_factor: Optional[bool] = None, antialias: bool = False) -> Tensor:
    pass


@_signature
def interpolate(input: Tensor, size: Optional[List[int]] = None, scale_factor: Optional[float] = None,  # noqa: F811
                mode: str = "nearest", align_corners: Optional[bool] = None,
                recompute_scale_factor: Optional[bool] = None, antialias: bool = False) -> Tensor:
    pass


def interpolate(input: Tensor, size: Optional[int] = None, scale_factor: Optional[List[float]] = None,  # noqa: F811
                mode: str = "nearest", align_corners: Optional[bool] = None,
                recompute_scale_factor: Optional[bool] = None, antialias: bool = False) -> Tensor:
    aligned = _corners(mode, align_corners)
    sizes: Optional[List[int]] = None
    factors: Optional[List[float]] = None
    if size is not None:
        if scale_factor is not None:
            raise ValueError(f"interpolate: expected size or scale_factor, got both ({size} and {scale_factor})")
        if _is_set(recompute_scale_factor):
            raise ValueError(f"interpolate: recompute_scale_factor goes with scale_factor, and size {size} was given")
        if isinstance(size, (list, tuple)):
            _check_count("size", len(size), input)
            sizes = size
        else:
            sizes = [size for _ in range(input.dim() - 2)]
    elif scale_factor is not None:
        if isinstance(scale_factor, (list, tuple)):
            _check_count("scale_factor", len(scale_factor), input)
            factors = scale_factor
        else:
            factors = [scale_factor for _ in range(input.dim() - 2)]
    else:
        raise ValueError("interpolate: expected size or scale_factor, got neither")
    if factors is not None and (mode == "area" or _is_set(recompute_scale_factor)):
        sizes = [math.floor(float(input.size(d + 2)) * factors[d]) for d in range(input.dim() - 2)]
        factors = None
    if antialias:
        return _smoothed(input, mode, sizes, aligned, factors)
    if input.dim() >= 3 and input.dim() <= 5:
        if mode == "nearest":
            return _nearest(input, sizes, factors)
        if mode == "nearest-exact":
            return _nearest_exact(input, sizes, factors)
        if mode == "area":
            return _area(input, sizes)
    return _blended(input, mode, sizes, aligned, factors)


_whole: Any = interpolate
_whole.__script_overloads__ = _signatures
