"""Poolings as scripts. Those that can give indices are two functions, chosen by a constant flag."""

# ruff: noqa: UP006, UP007, UP035, UP045 - annotations as the language reads them
from __future__ import annotations

from typing import List, Optional, Tuple

from ..._C import Tensor
from ..._jit_internal import BroadcastingList1, BroadcastingList2, BroadcastingList3, boolean_dispatch
from .activations import relu
from .language import torch


def _list_with_default(out_size: List[int], defaults: List[int]) -> List[int]:
    if len(defaults) <= len(out_size):
        raise ValueError(f"Input dimension should be at least {len(out_size) + 1}")
    return out_size


def max_pool1d_with_indices(input: Tensor, kernel_size: BroadcastingList1[int],
                            stride: Optional[BroadcastingList1[int]] = None, padding: BroadcastingList1[int] = 0,
                            dilation: BroadcastingList1[int] = 1, ceil_mode: bool = False,
                            return_indices: bool = False) -> Tuple[Tensor, Tensor]:
    if stride is None:
        stride = []
    return torch.max_pool1d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)


def _max_pool1d(input: Tensor, kernel_size: BroadcastingList1[int],
                stride: Optional[BroadcastingList1[int]] = None, padding: BroadcastingList1[int] = 0,
                dilation: BroadcastingList1[int] = 1, ceil_mode: bool = False,
                return_indices: bool = False) -> Tensor:
    if stride is None:
        stride = []
    return torch.max_pool1d(input, kernel_size, stride, padding, dilation, ceil_mode)


max_pool1d = boolean_dispatch("return_indices", 6, False, max_pool1d_with_indices, _max_pool1d, __name__,
                              "max_pool1d")


def max_pool2d_with_indices(input: Tensor, kernel_size: BroadcastingList2[int],
                            stride: Optional[BroadcastingList2[int]] = None, padding: BroadcastingList2[int] = 0,
                            dilation: BroadcastingList2[int] = 1, ceil_mode: bool = False,
                            return_indices: bool = False) -> Tuple[Tensor, Tensor]:
    if stride is None:
        stride = []
    return torch.max_pool2d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)


def _max_pool2d(input: Tensor, kernel_size: BroadcastingList2[int],
                stride: Optional[BroadcastingList2[int]] = None, padding: BroadcastingList2[int] = 0,
                dilation: BroadcastingList2[int] = 1, ceil_mode: bool = False,
                return_indices: bool = False) -> Tensor:
    if stride is None:
        stride = []
    return torch.max_pool2d(input, kernel_size, stride, padding, dilation, ceil_mode)


max_pool2d = boolean_dispatch("return_indices", 6, False, max_pool2d_with_indices, _max_pool2d, __name__,
                              "max_pool2d")


def max_pool3d_with_indices(input: Tensor, kernel_size: BroadcastingList3[int],
                            stride: Optional[BroadcastingList3[int]] = None, padding: BroadcastingList3[int] = 0,
                            dilation: BroadcastingList3[int] = 1, ceil_mode: bool = False,
                            return_indices: bool = False) -> Tuple[Tensor, Tensor]:
    if stride is None:
        stride = []
    return torch.max_pool3d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)


def _max_pool3d(input: Tensor, kernel_size: BroadcastingList3[int],
                stride: Optional[BroadcastingList3[int]] = None, padding: BroadcastingList3[int] = 0,
                dilation: BroadcastingList3[int] = 1, ceil_mode: bool = False,
                return_indices: bool = False) -> Tensor:
    if stride is None:
        stride = []
    return torch.max_pool3d(input, kernel_size, stride, padding, dilation, ceil_mode)


max_pool3d = boolean_dispatch("return_indices", 6, False, max_pool3d_with_indices, _max_pool3d, __name__,
                              "max_pool3d")


def adaptive_max_pool1d_with_indices(input: Tensor, output_size: BroadcastingList1[int],
                                     return_indices: bool = False) -> Tuple[Tensor, Tensor]:
    return torch.adaptive_max_pool1d(input, output_size)


def _adaptive_max_pool1d(input: Tensor, output_size: BroadcastingList1[int],
                         return_indices: bool = False) -> Tensor:
    return adaptive_max_pool1d_with_indices(input, output_size)[0]


adaptive_max_pool1d = boolean_dispatch("return_indices", 2, False, adaptive_max_pool1d_with_indices,
                                       _adaptive_max_pool1d, __name__, "adaptive_max_pool1d")


def adaptive_max_pool2d_with_indices(input: Tensor, output_size: BroadcastingList2[int],
                                     return_indices: bool = False) -> Tuple[Tensor, Tensor]:
    output_size = _list_with_default(output_size, input.size())
    return torch.adaptive_max_pool2d(input, output_size)


def _adaptive_max_pool2d(input: Tensor, output_size: BroadcastingList2[int],
                         return_indices: bool = False) -> Tensor:
    return adaptive_max_pool2d_with_indices(input, output_size)[0]


adaptive_max_pool2d = boolean_dispatch("return_indices", 2, False, adaptive_max_pool2d_with_indices,
                                       _adaptive_max_pool2d, __name__, "adaptive_max_pool2d")


def adaptive_max_pool3d_with_indices(input: Tensor, output_size: BroadcastingList3[int],
                                     return_indices: bool = False) -> Tuple[Tensor, Tensor]:
    output_size = _list_with_default(output_size, input.size())
    return torch.adaptive_max_pool3d(input, output_size)


def _adaptive_max_pool3d(input: Tensor, output_size: BroadcastingList3[int],
                         return_indices: bool = False) -> Tensor:
    return adaptive_max_pool3d_with_indices(input, output_size)[0]


adaptive_max_pool3d = boolean_dispatch("return_indices", 2, False, adaptive_max_pool3d_with_indices,
                                       _adaptive_max_pool3d, __name__, "adaptive_max_pool3d")


def adaptive_avg_pool2d(input: Tensor, output_size: BroadcastingList2[int]) -> Tensor:
    _output_size = _list_with_default(output_size, input.size())
    return torch.adaptive_avg_pool2d(input, _output_size)


def adaptive_avg_pool3d(input: Tensor, output_size: BroadcastingList3[int]) -> Tensor:
    _output_size = _list_with_default(output_size, input.size())
    return torch.adaptive_avg_pool3d(input, _output_size)


def fractional_max_pool2d_with_indices(input: Tensor, kernel_size: BroadcastingList2[int],
                                       output_size: Optional[BroadcastingList2[int]] = None,
                                       output_ratio: Optional[BroadcastingList2[float]] = None,
                                       return_indices: bool = False,
                                       _random_samples: Optional[Tensor] = None) -> Tuple[Tensor, Tensor]:
    if output_size is None and output_ratio is None:
        raise ValueError("fractional_max_pool2d requires specifying either an output_size or an output_ratio")
    if output_size is None:
        assert output_ratio is not None
        if len(output_ratio) > 2:
            raise ValueError("fractional_max_pool2d requires output_ratio to either be a single Int or tuple of Ints.")
        output_size = [int(input.size(-2) * output_ratio[0]), int(input.size(-1) * output_ratio[1])]
    if _random_samples is None:
        n_batch = 1 if input.dim() == 3 else input.size(0)
        _random_samples = torch.rand(n_batch, input.size(-3), 2, dtype=input.dtype, device=input.device)
    return torch.fractional_max_pool2d(input, kernel_size, output_size, _random_samples)


def _fractional_max_pool2d(input: Tensor, kernel_size: BroadcastingList2[int],
                           output_size: Optional[BroadcastingList2[int]] = None,
                           output_ratio: Optional[BroadcastingList2[float]] = None, return_indices: bool = False,
                           _random_samples: Optional[Tensor] = None) -> Tensor:
    return fractional_max_pool2d_with_indices(input, kernel_size, output_size, output_ratio, return_indices,
                                              _random_samples)[0]


fractional_max_pool2d = boolean_dispatch("return_indices", 4, False, fractional_max_pool2d_with_indices,
                                         _fractional_max_pool2d, __name__, "fractional_max_pool2d")


def fractional_max_pool3d_with_indices(input: Tensor, kernel_size: BroadcastingList3[int],
                                       output_size: Optional[BroadcastingList3[int]] = None,
                                       output_ratio: Optional[BroadcastingList3[float]] = None,
                                       return_indices: bool = False,
                                       _random_samples: Optional[Tensor] = None) -> Tuple[Tensor, Tensor]:
    if output_size is None and output_ratio is None:
        raise ValueError("fractional_max_pool3d requires specifying either an output_size or an output_ratio")
    if output_size is None:
        assert output_ratio is not None
        if len(output_ratio) > 3:
            raise ValueError("fractional_max_pool3d requires output_ratio to either be a single Int or tuple of Ints.")
        output_size = [int(input.size(-3) * output_ratio[0]), int(input.size(-2) * output_ratio[1]),
                       int(input.size(-1) * output_ratio[2])]
    if _random_samples is None:
        n_batch = 1 if input.dim() == 4 else input.size(0)
        _random_samples = torch.rand(n_batch, input.size(-4), 3, dtype=input.dtype, device=input.device)
    return torch.fractional_max_pool3d(input, kernel_size, output_size, _random_samples)


def _fractional_max_pool3d(input: Tensor, kernel_size: BroadcastingList3[int],
                           output_size: Optional[BroadcastingList3[int]] = None,
                           output_ratio: Optional[BroadcastingList3[float]] = None, return_indices: bool = False,
                           _random_samples: Optional[Tensor] = None) -> Tensor:
    return fractional_max_pool3d_with_indices(input, kernel_size, output_size, output_ratio, return_indices,
                                              _random_samples)[0]


fractional_max_pool3d = boolean_dispatch("return_indices", 4, False, fractional_max_pool3d_with_indices,
                                         _fractional_max_pool3d, __name__, "fractional_max_pool3d")


def _unpool_output_size(input: Tensor, kernel_size: List[int], stride: List[int], padding: List[int],
                        output_size: Optional[List[int]]) -> List[int]:
    input_size = input.size()
    default_size: List[int] = []
    for d in range(len(kernel_size)):
        default_size.append((input_size[-len(kernel_size) + d] - 1) * stride[d] + kernel_size[d] - 2 * padding[d])
    if output_size is None:
        ret = default_size
    else:
        if len(output_size) == (len(kernel_size) + 2):
            output_size = output_size[2:]
        if len(output_size) != len(kernel_size):
            raise ValueError("output_size should be a sequence containing"
                             f" {len(kernel_size)} or {len(kernel_size) + 2} elements, but it has a length of"
                             f" '{len(output_size)}'")
        for d in range(len(kernel_size)):
            min_size = default_size[d] - stride[d]
            max_size = default_size[d] + stride[d]
            if not (min_size < output_size[d] < max_size):
                raise ValueError(f'invalid output_size "{output_size}" (dim {d} must be between {min_size} and'
                                 f" {max_size})")
        ret = output_size
    return ret


def max_unpool1d(input: Tensor, indices: Tensor, kernel_size: BroadcastingList1[int],
                 stride: Optional[BroadcastingList1[int]] = None, padding: BroadcastingList1[int] = 0,
                 output_size: Optional[BroadcastingList1[int]] = None) -> Tensor:
    if stride is not None:
        _stride = stride
    else:
        _stride = kernel_size
    sizes = _unpool_output_size(input, kernel_size, _stride, padding, output_size)
    return torch.max_unpool2d(input.unsqueeze(-1), indices.unsqueeze(-1), sizes + [1]).squeeze(-1)


def max_unpool2d(input: Tensor, indices: Tensor, kernel_size: BroadcastingList2[int],
                 stride: Optional[BroadcastingList2[int]] = None, padding: BroadcastingList2[int] = 0,
                 output_size: Optional[BroadcastingList2[int]] = None) -> Tensor:
    if stride is not None:
        _stride = stride
    else:
        _stride = kernel_size
    sizes = _unpool_output_size(input, kernel_size, _stride, padding, output_size)
    return torch.max_unpool2d(input, indices, sizes)


def max_unpool3d(input: Tensor, indices: Tensor, kernel_size: BroadcastingList3[int],
                 stride: Optional[BroadcastingList3[int]] = None, padding: BroadcastingList3[int] = 0,
                 output_size: Optional[BroadcastingList3[int]] = None) -> Tensor:
    if stride is not None:
        _stride = stride
    else:
        _stride = kernel_size
    sizes = _unpool_output_size(input, kernel_size, _stride, padding, output_size)
    return torch.max_unpool3d(input, indices, sizes, _stride, padding)


def lp_pool1d(input: Tensor, norm_type: float, kernel_size: int,
              stride: Optional[BroadcastingList1[int]] = None, ceil_mode: bool = False) -> Tensor:
    if stride is not None:
        out = torch.avg_pool1d(input.pow(norm_type), kernel_size, stride, 0, ceil_mode)
    else:
        out = torch.avg_pool1d(input.pow(norm_type), kernel_size, padding=0, ceil_mode=ceil_mode)
    return (torch.sign(out) * relu(torch.abs(out))).mul(kernel_size).pow(1.0 / norm_type)


def lp_pool2d(input: Tensor, norm_type: float, kernel_size: BroadcastingList2[int],
              stride: Optional[BroadcastingList2[int]] = None, ceil_mode: bool = False) -> Tensor:
    kw, kh = kernel_size[0], kernel_size[1]
    if stride is not None:
        out = torch.avg_pool2d(input.pow(norm_type), kernel_size, stride, 0, ceil_mode)
    else:
        out = torch.avg_pool2d(input.pow(norm_type), kernel_size, padding=0, ceil_mode=ceil_mode)
    return (torch.sign(out) * relu(torch.abs(out))).mul(kw * kh).pow(1.0 / norm_type)


def lp_pool3d(input: Tensor, norm_type: float, kernel_size: BroadcastingList3[int],
              stride: Optional[BroadcastingList3[int]] = None, ceil_mode: bool = False) -> Tensor:
    kd, kw, kh = kernel_size[0], kernel_size[1], kernel_size[2]
    if stride is not None:
        out = torch.avg_pool3d(input.pow(norm_type), kernel_size, stride, 0, ceil_mode)
    else:
        out = torch.avg_pool3d(input.pow(norm_type), kernel_size, padding=0, ceil_mode=ceil_mode)
    return (torch.sign(out) * relu(torch.abs(out))).mul(kd * kw * kh).pow(1.0 / norm_type)
