"""Data that loses the blocks of smallest norm, and within blocks the entries of smallest norm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....._C import Tensor, int8
from .....op import find_op
from ...sparsifier.weight_norm_sparsifier import Block, block_means, check_zeros, entries_of_blocks, padded_size, spread
from .base_data_sparsifier import BaseDataSparsifier

__all__ = ["DataNormSparsifier"]

_NORMS: dict[str, Callable[[Tensor], Tensor]] = {"L1": lambda data: data.abs(), "L2": lambda data: data * data}


class DataNormSparsifier(BaseDataSparsifier):
    """Masks the share `sparsity_level` of blocks of smallest mean norm ("L1": magnitudes, "L2": squares); in each, the
    `zeros_per_block` smallest entries. For data of up to two dimensions."""

    def __init__(
        self, data_list: list[tuple[str, Any]] | None = None, sparsity_level: float = 0.5,
        sparse_block_shape: Block = (1, 4), zeros_per_block: int | None = None, norm: str = "L1",
    ) -> None:
        if norm not in _NORMS:
            raise AssertionError(f'norm: expected "L1" or "L2", got {norm!r}')
        self.norm = norm
        if zeros_per_block is None:
            zeros_per_block = sparse_block_shape[0] * sparse_block_shape[1]
        super().__init__(data_list, sparsity_level=sparsity_level, zeros_per_block=zeros_per_block,
                         sparse_block_shape=sparse_block_shape)

    def update_mask(  # type: ignore[override]
        self,
        name: str,
        data: Tensor,
        sparsity_level: float,
        sparse_block_shape: Block,
        zeros_per_block: int,
        **kwargs: Any,
    ) -> None:
        """Write the mask of the data under a name. Refuses more than two dimensions."""
        check_zeros(zeros_per_block, sparse_block_shape)
        norms = _NORMS[self.norm](data).squeeze()
        if norms.dim() > 2:
            raise ValueError(f"{name}: expected data of 2 dimensions or fewer, got shape {tuple(data.shape)}")
        norms = norms[None, :] if norms.dim() == 1 else norms
        blocks = _mask_blocks(norms, sparsity_level, sparse_block_shape)
        within = _mask_within_blocks(norms, sparse_block_shape, zeros_per_block)
        self.get_mask(name).data = find_op("where")(blocks == 1, blocks, within).reshape(data.shape)


def _mask_blocks(data: Tensor, sparsity_level: float, block: Block) -> Tensor:
    means = block_means(data, block).repeat(1, block[0] * block[1], 1)
    chosen = find_op("sort")(means, dim=2).indices[:, :, : round(sparsity_level * means.shape[-1])]
    return _without(means, 2, chosen, data, block)


def _mask_within_blocks(data: Tensor, block: Block, zeros_per_block: int) -> Tensor:
    if zeros_per_block == block[0] * block[1]:
        return find_op("zeros_like")(data, dtype=int8)
    entries = entries_of_blocks(data, block)
    return _without(entries, 1, find_op("sort")(entries, dim=1).indices[:, :zeros_per_block, :], data, block)


def _without(columns: Tensor, dim: int, chosen: Tensor, data: Tensor, block: Block) -> Tensor:
    """The mask of the data, of small integers, with zeros where blocks or entries of blocks were chosen."""
    kept = find_op("ones_like")(columns).scatter_(dim, chosen, 0)
    return spread(kept, padded_size(data, block), block).to(int8)[: data.shape[-2], : data.shape[-1]].contiguous()
