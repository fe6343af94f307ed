"""Matrices that lose the blocks of smallest norm, and within blocks the entries of smallest norm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...._C import Tensor
from ....nn import Module, functional as F
from ....op import find_op
from .base_sparsifier import BaseSparsifier, mask_of

__all__ = ["WeightNormSparsifier"]

Block = tuple[int, int]


class WeightNormSparsifier(BaseSparsifier):
    """Masks the share `sparsity_level` of blocks of smallest mean norm; in each, the `zeros_per_block` smallest.

    `norm` is 1 (magnitudes), 2 (squares, the default) or a function of the tensor.
    """

    norm_fn: Callable[[Tensor], Tensor]

    def __init__(
        self, sparsity_level: float = 0.5, sparse_block_shape: Block = (1, 4),
        zeros_per_block: int | None = None, norm: Callable[[Tensor], Tensor] | int | None = None,
    ) -> None:
        if callable(norm):
            self.norm_fn = norm
        elif norm == 1:
            self.norm_fn = _magnitudes
        elif norm in (2, None):
            self.norm_fn = _squares
        else:
            raise NotImplementedError(f"norm: expected 1, 2 or a function, got {norm}")
        super().__init__(
            defaults={
                "sparsity_level": sparsity_level,
                "sparse_block_shape": sparse_block_shape,
                "zeros_per_block": _size(sparse_block_shape) if zeros_per_block is None else zeros_per_block,
            }
        )

    def update_mask(  # type: ignore[override]
        self,
        module: Module,
        tensor_name: str,
        sparsity_level: float,
        sparse_block_shape: Block,
        zeros_per_block: int,
        **kwargs: Any,
    ) -> None:
        """Write the mask of one matrix. Refuses a number of zeros that a block cannot hold."""
        check_zeros(zeros_per_block, sparse_block_shape)
        mask = mask_of(module, tensor_name)
        whole_blocks = zeros_per_block == _size(sparse_block_shape)
        if sparsity_level <= 0 or zeros_per_block == 0:
            mask.data = find_op("ones_like")(mask)
        elif sparsity_level >= 1.0 and whole_blocks:
            mask.data = find_op("zeros_like")(mask)
        else:
            norms = self.norm_fn(getattr(module, tensor_name))
            new = _mask_blocks(norms, sparsity_level, sparse_block_shape)
            if not whole_blocks:
                new = find_op("logical_or")(new, _mask_within_blocks(norms, sparse_block_shape, zeros_per_block))
            mask.data = new[: norms.shape[-2], : norms.shape[-1]].contiguous()


def _magnitudes(x: Tensor) -> Tensor:
    return x.abs()


def _squares(x: Tensor) -> Tensor:
    return x * x


def _size(block: Block) -> int:
    return block[0] * block[1]


def check_zeros(zeros_per_block: int, block: Block) -> None:
    """Refuse a number of zeros that a block cannot hold."""
    if zeros_per_block > _size(block):
        raise ValueError(
            f"zeros_per_block: a block of shape {tuple(block)} has {_size(block)} elements, and {zeros_per_block} of"
            " them were asked for"
        )
    if zeros_per_block < 0:
        raise ValueError(f"zeros_per_block: expected 0 or more, got {zeros_per_block}")


def padded_size(data: Tensor, block: Block) -> tuple[int, int]:
    """The size of the smallest matrix of whole blocks that holds the data."""
    height, width = data.shape[-2:]
    return height + -height % block[0], width + -width % block[1]


def block_means(data: Tensor, block: Block) -> Tensor:
    """The mean of each block, in rows of blocks, as one vector."""
    return F.avg_pool2d(data[None, None, :], kernel_size=block, stride=block, ceil_mode=True).flatten()


def spread(chosen: Tensor, size: tuple[int, int], block: Block) -> Tensor:
    """Columns of blocks laid out as the matrix they are blocks of."""
    return F.fold(chosen, output_size=size, kernel_size=block, stride=block).squeeze(0).squeeze(0)


def entries_of_blocks(data: Tensor, block: Block) -> Tensor:
    """The entries of each block as a column of (1, entries, blocks); nan where a block hangs over the edge."""
    padded = find_op("full")(padded_size(data, block), float("nan"), dtype=data.dtype, device=data.device)
    padded[: data.shape[-2], : data.shape[-1]] = data
    return F.unfold(padded[None, None, :], kernel_size=block, stride=block)


def _mask_blocks(data: Tensor, sparsity_level: float, block: Block) -> Tensor:
    """Zeros in the given share of blocks, those of smallest mean; at least one block stays."""
    size = padded_size(data, block)
    if not 0.0 < sparsity_level < 1.0:
        return find_op("zeros" if sparsity_level >= 1.0 else "ones")(size, device=data.device)
    means = data.flatten() if _size(block) == 1 else block_means(data, block)
    count = min(len(means) - 1, round(sparsity_level * len(means)))
    chosen = find_op("topk")(means.repeat(1, _size(block), 1), k=count, dim=2, largest=False).indices
    columns = find_op("ones")((1, _size(block), len(means)), device=data.device).scatter_(2, chosen, 0)
    return spread(columns, size, block)


def _mask_within_blocks(data: Tensor, block: Block, zeros_per_block: int) -> Tensor:
    """Zeros at the smallest entries of each block."""
    entries = entries_of_blocks(data, block)
    chosen = find_op("topk")(entries, k=zeros_per_block, dim=1, largest=False).indices
    columns = find_op("ones")(entries.shape, device=data.device).scatter_(1, chosen, 0)
    return spread(columns, padded_size(data, block), block)
