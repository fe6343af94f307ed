"""Normalizations and embeddings as scripts."""

# ruff: noqa: UP006, UP007, UP035, UP045 - annotations as the language reads them
from __future__ import annotations

from typing import List, Optional

from ..._C import Tensor
from .language import torch


def _product(sizes: List[int]) -> int:
    total = 1
    for n in sizes:
        total *= n
    return total


def _refuse_single(count: int, name: str, what: str, sizes: List[int]) -> None:
    """One value has no variance."""
    if count == 1:
        raise ValueError(f"{name}: training needs more than 1 {what}, got input of size {sizes}")


def _check_eps(eps: float, training: bool) -> None:
    if eps < 0.0 or (training and eps == 0.0):
        bound = "positive while training" if training else "0 or more"
        raise ValueError(f"batch_norm: eps must be {bound}, got {eps}")


def batch_norm(input: Tensor, running_mean: Optional[Tensor], running_var: Optional[Tensor],
               weight: Optional[Tensor] = None, bias: Optional[Tensor] = None, training: bool = False,
               momentum: float = 0.1, eps: float = 1e-5) -> Tensor:
    if training:
        sizes = input.size()
        _refuse_single(sizes[0] * _product(sizes[2:]), "batch_norm", "value per channel", sizes)
    _check_eps(eps, training)
    return torch.batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, True)


def instance_norm(input: Tensor, running_mean: Optional[Tensor] = None, running_var: Optional[Tensor] = None,
                  weight: Optional[Tensor] = None, bias: Optional[Tensor] = None, use_input_stats: bool = True,
                  momentum: float = 0.1, eps: float = 1e-5) -> Tensor:
    if use_input_stats:
        sizes = input.size()
        _refuse_single(_product(sizes[2:]), "instance_norm", "spatial element", sizes)
    return torch.instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, True)


def layer_norm(input: Tensor, normalized_shape: List[int], weight: Optional[Tensor] = None,
               bias: Optional[Tensor] = None, eps: float = 1e-5) -> Tensor:
    return torch.layer_norm(input, normalized_shape, weight, bias, eps, True)


def rms_norm(input: Tensor, normalized_shape: List[int], weight: Optional[Tensor] = None,
             eps: Optional[float] = None) -> Tensor:
    return torch.rms_norm(input, normalized_shape, weight, eps)


def group_norm(input: Tensor, num_groups: int, weight: Optional[Tensor] = None, bias: Optional[Tensor] = None,
               eps: float = 1e-5) -> Tensor:
    sizes = input.size()
    if len(sizes) < 2:
        raise RuntimeError(f"group_norm: input needs a batch and channels (2 dims or more), got {len(sizes)} dims")
    groups = sizes[0] * sizes[1] // num_groups
    _refuse_single(groups * _product(sizes[2:]), "group_norm", "value per channel", sizes)
    return torch.group_norm(input, num_groups, weight, bias, eps, True)


def _mean_square_of_neighbours(input: Tensor, size: int) -> Tensor:
    """Squares of an input, averaged over `size` channels around each."""
    before, after = size // 2, (size - 1) // 2
    squares = input.mul(input)
    if input.dim() == 3:
        rows = torch.pad(squares.unsqueeze(1), (0, 0, before, after))
        return torch.avg_pool2d(rows, (size, 1), stride=1).squeeze(1)
    shape = input.size()
    boxes = torch.pad(squares.view(shape[0], 1, shape[1], shape[2], -1), (0, 0, 0, 0, before, after))
    return torch.avg_pool3d(boxes, (size, 1, 1), stride=1).squeeze(1).view(shape)


def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    if input.dim() < 3:
        raise ValueError(f"local_response_norm: input must have 3 dims or more, got {input.dim()}")
    if input.numel() == 0:
        return input
    return input / _mean_square_of_neighbours(input, size).mul(alpha).add(k).pow(beta)


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12,
              out: Optional[Tensor] = None) -> Tensor:
    if out is not None:
        denom = input.norm(p, dim, keepdim=True).clamp_min_(eps).expand_as(input)
        return torch.div(input, denom, out=out)
    denom = input.norm(p, dim, keepdim=True).clamp_min(eps).expand_as(input)      # traces show this name
    return input / denom


def _shorten_rows(table: Tensor, rows: Tensor, longest: Optional[float], norm_type: float) -> None:
    if longest is not None:
        torch.embedding_renorm_(table.detach(), rows, longest, norm_type)


def _padding_row(padding_idx: Optional[int], rows: int) -> int:
    """The row that learns nothing, counted from the front; -1 for none."""
    if padding_idx is None:
        return -1
    if padding_idx != 0 and (padding_idx >= rows or padding_idx < -rows):
        raise AssertionError(f"embedding: padding_idx {padding_idx} is no row of a weight of {rows} rows")
    return padding_idx + rows if padding_idx < 0 else padding_idx


def embedding(input: Tensor, weight: Tensor, padding_idx: Optional[int] = None, max_norm: Optional[float] = None,
              norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False) -> Tensor:
    row = _padding_row(padding_idx, weight.size(0))
    ids = input if max_norm is None else input.contiguous()
    _shorten_rows(weight, ids, max_norm, norm_type)
    return torch.embedding(weight, ids, row, scale_grad_by_freq, sparse)


def _check_bags(ids: Tensor, table: Tensor, factors: Optional[Tensor]) -> None:
    if factors is not None:
        if factors.size() != ids.size():
            raise ValueError(f"embedding_bag: per_sample_weights must have the input's size {ids.size()}, got"
                             f" {factors.size()}")
    if table.dim() != 2:
        raise ValueError(f"embedding_bag: weight must be a matrix (2D), got {table.dim()} dims")


def _bag_starts(ids: Tensor, offsets: Optional[Tensor]) -> Tensor:
    """Where bags begin in the flat ids: every row of a matrix is a bag, a vector is cut at offsets."""
    rank = ids.dim()
    if rank == 2:
        if offsets is not None:
            raise ValueError("embedding_bag: a 2D input has a bag in every row: offsets must be None")
        return torch.arange(0, ids.numel(), ids.size(1), dtype=ids.dtype, device=ids.device)
    if rank != 1:
        raise ValueError(f"embedding_bag: input must be 1D or 2D, got {rank} dims")
    if offsets is None:
        raise ValueError("embedding_bag: a 1D input needs offsets (1D), got None")
    if offsets.dim() != 1:
        raise ValueError(f"embedding_bag: offsets must be 1D, got {offsets.dim()} dims")
    return offsets


def _bag_code(mode: str, scaled: bool, sparse: bool, weighted: bool) -> int:
    """The op's number of a mode. Refuses what only other modes can do."""
    if mode != "sum" and mode != "mean" and mode != "max":
        raise ValueError(f"embedding_bag: mode must be 'sum', 'mean' or 'max', got '{mode}'")
    if mode == "max" and (scaled or sparse):
        option = "scale_grad_by_freq" if scaled else "sparse"
        raise ValueError(f"embedding_bag: mode 'max' cannot be used with {option}=True")
    if mode == "sum":
        return 0
    if weighted:
        raise NotImplementedError(f"embedding_bag: per_sample_weights need mode 'sum', got '{mode}'")
    return 1 if mode == "mean" else 2


def embedding_bag(input: Tensor, weight: Tensor, offsets: Optional[Tensor] = None, max_norm: Optional[float] = None,
                  norm_type: float = 2, scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False,
                  per_sample_weights: Optional[Tensor] = None, include_last_offset: bool = False,
                  padding_idx: Optional[int] = None) -> Tensor:
    _check_bags(input, weight, per_sample_weights)
    starts = _bag_starts(input, offsets)
    if input.dim() == 2:
        input = input.reshape(-1)
        if per_sample_weights is not None:
            per_sample_weights = per_sample_weights.reshape(-1)
    code = _bag_code(mode, scale_grad_by_freq, sparse, per_sample_weights is not None)
    _shorten_rows(weight, input, max_norm, norm_type)
    return torch.embedding_bag(weight, input, starts, scale_grad_by_freq, code, sparse, per_sample_weights,
                               include_last_offset, padding_idx)[0]
