"""Poolings as scripts. Those that can give indices are two functions, chosen by a constant flag."""

# ruff: noqa: UP006, UP007, UP035, UP045 - annotations as the language reads them
from __future__ import annotations

from typing import List, Optional, Tuple

from ..._C import Tensor
from ..._jit_internal import boolean_dispatch
from .activations import relu
from .language import Floats2, Floats3, Ints1, Ints2, Ints3, torch


def _stride_given(stride: Optional[List[int]]) -> List[int]:
    """A stride as the ops take it: an empty one is the window's size."""
    unset: List[int] = []
    return unset if stride is None else stride


def _stride_or(stride: Optional[List[int]], window: List[int]) -> List[int]:
    return window if stride is None else stride


def _fitting(sizes: List[int], rank: int) -> List[int]:
    """Sizes to pool to. Refuses an input that has no channels before them."""
    if rank <= len(sizes):
        raise ValueError(f"output_size {sizes}: input must have {len(sizes) + 1} dims or more, got {rank}")
    return sizes


def max_pool1d_with_indices(input: Tensor, kernel_size: Ints1, stride: Optional[Ints1] = None, padding: Ints1 = 0,
                            dilation: Ints1 = 1, ceil_mode: bool = False,
                            return_indices: bool = False) -> Tuple[Tensor, Tensor]:
    return torch.max_pool1d_with_indices(input, kernel_size, _stride_given(stride), padding, dilation, ceil_mode)


def _max_pool1d(input: Tensor, kernel_size: Ints1, stride: Optional[Ints1] = None, padding: Ints1 = 0,
                dilation: Ints1 = 1, ceil_mode: bool = False, return_indices: bool = False) -> Tensor:
    return torch.max_pool1d(input, kernel_size, _stride_given(stride), padding, dilation, ceil_mode)


max_pool1d = boolean_dispatch("return_indices", 6, False, max_pool1d_with_indices, _max_pool1d, __name__,
                              "max_pool1d")


def max_pool2d_with_indices(input: Tensor, kernel_size: Ints2, stride: Optional[Ints2] = None, padding: Ints2 = 0,
                            dilation: Ints2 = 1, ceil_mode: bool = False,
                            return_indices: bool = False) -> Tuple[Tensor, Tensor]:
    return torch.max_pool2d_with_indices(input, kernel_size, _stride_given(stride), padding, dilation, ceil_mode)


def _max_pool2d(input: Tensor, kernel_size: Ints2, stride: Optional[Ints2] = None, padding: Ints2 = 0,
                dilation: Ints2 = 1, ceil_mode: bool = False, return_indices: bool = False) -> Tensor:
    return torch.max_pool2d(input, kernel_size, _stride_given(stride), padding, dilation, ceil_mode)


max_pool2d = boolean_dispatch("return_indices", 6, False, max_pool2d_with_indices, _max_pool2d, __name__,
                              "max_pool2d")


def max_pool3d_with_indices(input: Tensor, kernel_size: Ints3, stride: Optional[Ints3] = None, padding: Ints3 = 0,
                            dilation: Ints3 = 1, ceil_mode: bool = False,
                            return_indices: bool = False) -> Tuple[Tensor, Tensor]:
    return torch.max_pool3d_with_indices(input, kernel_size, _stride_given(stride), padding, dilation, ceil_mode)


def _max_pool3d(input: Tensor, kernel_size: Ints3, stride: Optional[Ints3] = None, padding: Ints3 = 0,
                dilation: Ints3 = 1, ceil_mode: bool = False, return_indices: bool = False) -> Tensor:
    return torch.max_pool3d(input, kernel_size, _stride_given(stride), padding, dilation, ceil_mode)


max_pool3d = boolean_dispatch("return_indices", 6, False, max_pool3d_with_indices, _max_pool3d, __name__,
                              "max_pool3d")


def adaptive_max_pool1d_with_indices(input: Tensor, output_size: Ints1,
                                     return_indices: bool = False) -> Tuple[Tensor, Tensor]:
    return torch.adaptive_max_pool1d(input, output_size)


def _adaptive_max_pool1d(input: Tensor, output_size: Ints1, return_indices: bool = False) -> Tensor:
    return adaptive_max_pool1d_with_indices(input, output_size)[0]


adaptive_max_pool1d = boolean_dispatch("return_indices", 2, False, adaptive_max_pool1d_with_indices,
                                       _adaptive_max_pool1d, __name__, "adaptive_max_pool1d")


def adaptive_max_pool2d_with_indices(input: Tensor, output_size: Ints2,
                                     return_indices: bool = False) -> Tuple[Tensor, Tensor]:
    return torch.adaptive_max_pool2d(input, _fitting(output_size, input.dim()))


def _adaptive_max_pool2d(input: Tensor, output_size: Ints2, return_indices: bool = False) -> Tensor:
    return adaptive_max_pool2d_with_indices(input, output_size)[0]


adaptive_max_pool2d = boolean_dispatch("return_indices", 2, False, adaptive_max_pool2d_with_indices,
                                       _adaptive_max_pool2d, __name__, "adaptive_max_pool2d")


def adaptive_max_pool3d_with_indices(input: Tensor, output_size: Ints3,
                                     return_indices: bool = False) -> Tuple[Tensor, Tensor]:
    return torch.adaptive_max_pool3d(input, _fitting(output_size, input.dim()))


def _adaptive_max_pool3d(input: Tensor, output_size: Ints3, return_indices: bool = False) -> Tensor:
    return adaptive_max_pool3d_with_indices(input, output_size)[0]


adaptive_max_pool3d = boolean_dispatch("return_indices", 2, False, adaptive_max_pool3d_with_indices,
                                       _adaptive_max_pool3d, __name__, "adaptive_max_pool3d")


def adaptive_avg_pool2d(input: Tensor, output_size: Ints2) -> Tensor:
    return torch.adaptive_avg_pool2d(input, _fitting(output_size, input.dim()))


def adaptive_avg_pool3d(input: Tensor, output_size: Ints3) -> Tensor:
    return torch.adaptive_avg_pool3d(input, _fitting(output_size, input.dim()))


def _fraction_sizes(input: Tensor, dims: int, sizes: Optional[List[int]], ratios: Optional[List[float]]) -> List[int]:
    """The sizes that are given, or the parts of the input's that ratios say."""
    if sizes is not None:
        return sizes
    if ratios is None:
        raise ValueError(f"fractional_max_pool{dims}d: expected output_size or output_ratio, got neither")
    if len(ratios) > dims:
        raise ValueError(f"fractional_max_pool{dims}d: output_ratio must be one number or {dims}, got {ratios}")
    return [int(input.size(d - dims) * ratios[d]) for d in range(dims)]


def _fraction_samples(input: Tensor, dims: int, given: Optional[Tensor]) -> Tensor:
    """Random numbers that place the windows: one per sample, channel and dim."""
    if given is not None:
        return given
    samples = 1 if input.dim() == dims + 1 else input.size(0)
    return torch.rand(samples, input.size(-1 - dims), dims, dtype=input.dtype, device=input.device)


def fractional_max_pool2d_with_indices(input: Tensor, kernel_size: Ints2, output_size: Optional[Ints2] = None,
                                       output_ratio: Optional[Floats2] = None, return_indices: bool = False,
                                       _random_samples: Optional[Tensor] = None) -> Tuple[Tensor, Tensor]:
    sizes = _fraction_sizes(input, 2, output_size, output_ratio)
    return torch.fractional_max_pool2d(input, kernel_size, sizes, _fraction_samples(input, 2, _random_samples))


def _fractional_max_pool2d(input: Tensor, kernel_size: Ints2, output_size: Optional[Ints2] = None,
                           output_ratio: Optional[Floats2] = None, return_indices: bool = False,
                           _random_samples: Optional[Tensor] = None) -> Tensor:
    return fractional_max_pool2d_with_indices(input, kernel_size, output_size, output_ratio, return_indices,
                                              _random_samples)[0]


fractional_max_pool2d = boolean_dispatch("return_indices", 4, False, fractional_max_pool2d_with_indices,
                                         _fractional_max_pool2d, __name__, "fractional_max_pool2d")


def fractional_max_pool3d_with_indices(input: Tensor, kernel_size: Ints3, output_size: Optional[Ints3] = None,
                                       output_ratio: Optional[Floats3] = None, return_indices: bool = False,
                                       _random_samples: Optional[Tensor] = None) -> Tuple[Tensor, Tensor]:
    sizes = _fraction_sizes(input, 3, output_size, output_ratio)
    return torch.fractional_max_pool3d(input, kernel_size, sizes, _fraction_samples(input, 3, _random_samples))


def _fractional_max_pool3d(input: Tensor, kernel_size: Ints3, output_size: Optional[Ints3] = None,
                           output_ratio: Optional[Floats3] = None, return_indices: bool = False,
                           _random_samples: Optional[Tensor] = None) -> Tensor:
    return fractional_max_pool3d_with_indices(input, kernel_size, output_size, output_ratio, return_indices,
                                              _random_samples)[0]


fractional_max_pool3d = boolean_dispatch("return_indices", 4, False, fractional_max_pool3d_with_indices,
                                         _fractional_max_pool3d, __name__, "fractional_max_pool3d")


def _unpooled_sizes(input: Tensor, window: List[int], stride: List[int], padding: List[int],
                    wanted: Optional[List[int]]) -> List[int]:
    """Sizes before a pooling. Those wanted (batch and channels first, or not) must be less than a stride from exact."""
    dims = len(window)
    exact = [(input.size(d - dims) - 1) * stride[d] + window[d] - 2 * padding[d] for d in range(dims)]
    if wanted is None:
        return exact
    sizes = wanted[2:] if len(wanted) == dims + 2 else wanted
    if len(sizes) != dims:
        raise ValueError(f"output_size must have {dims} or {dims + 2} elements, got {sizes}")
    for d in range(dims):
        if abs(sizes[d] - exact[d]) >= stride[d]:
            raise ValueError(f"invalid output_size {sizes}: dim {d} must lie between {exact[d] - stride[d]} and"
                             f" {exact[d] + stride[d]}, both excluded")
    return sizes


def max_unpool1d(input: Tensor, indices: Tensor, kernel_size: Ints1, stride: Optional[Ints1] = None, padding: Ints1 = 0,
                 output_size: Optional[Ints1] = None) -> Tensor:
    steps = _stride_or(stride, kernel_size)
    sizes = _unpooled_sizes(input, kernel_size, steps, padding, output_size)
    return torch.max_unpool2d(input.unsqueeze(-1), indices.unsqueeze(-1), sizes + [1]).squeeze(-1)


def max_unpool2d(input: Tensor, indices: Tensor, kernel_size: Ints2, stride: Optional[Ints2] = None, padding: Ints2 = 0,
                 output_size: Optional[Ints2] = None) -> Tensor:
    steps = _stride_or(stride, kernel_size)
    sizes = _unpooled_sizes(input, kernel_size, steps, padding, output_size)
    return torch.max_unpool2d(input, indices, sizes)


def max_unpool3d(input: Tensor, indices: Tensor, kernel_size: Ints3, stride: Optional[Ints3] = None, padding: Ints3 = 0,
                 output_size: Optional[Ints3] = None) -> Tensor:
    steps = _stride_or(stride, kernel_size)
    sizes = _unpooled_sizes(input, kernel_size, steps, padding, output_size)
    return torch.max_unpool3d(input, indices, sizes, steps, padding)


def _root_of_sums(means: Tensor, count: int, norm_type: float) -> Tensor:
    """The p-norm of windows of `count` elements by the means of their p-th powers."""
    return (torch.sign(means) * relu(torch.abs(means))).mul(count).pow(1.0 / norm_type)


def lp_pool1d(input: Tensor, norm_type: float, kernel_size: int, stride: Optional[Ints1] = None,
              ceil_mode: bool = False) -> Tensor:
    means = torch.avg_pool1d(input.pow(norm_type), kernel_size, _stride_given(stride), 0, ceil_mode)
    return _root_of_sums(means, kernel_size, norm_type)


def lp_pool2d(input: Tensor, norm_type: float, kernel_size: Ints2, stride: Optional[Ints2] = None,
              ceil_mode: bool = False) -> Tensor:
    means = torch.avg_pool2d(input.pow(norm_type), kernel_size, _stride_given(stride), 0, ceil_mode)
    return _root_of_sums(means, kernel_size[0] * kernel_size[1], norm_type)


def lp_pool3d(input: Tensor, norm_type: float, kernel_size: Ints3, stride: Optional[Ints3] = None,
              ceil_mode: bool = False) -> Tensor:
    means = torch.avg_pool3d(input.pow(norm_type), kernel_size, _stride_given(stride), 0, ceil_mode)
    return _root_of_sums(means, kernel_size[0] * kernel_size[1] * kernel_size[2], norm_type)
