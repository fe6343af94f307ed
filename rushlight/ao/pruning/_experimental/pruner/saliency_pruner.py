"""Channels pruned by the sum of their magnitudes."""

from __future__ import annotations

from typing import Any

from .....nn import Module
from ...sparsifier.base_sparsifier import mask_of
from .base_structured_sparsifier import BaseStructuredSparsifier

__all__ = ["SaliencyPruner"]


def row_magnitudes(weights: Any) -> Any:
    """The sum of magnitudes of each row. Refuses vectors."""
    if weights.dim() <= 1:
        raise Exception(  # noqa: TRY002 - PyTorch's class
            f"rows can be pruned of a weight of 2 dimensions or more, got one of shape {tuple(weights.shape)}"
        )
    return weights.norm(dim=tuple(range(1, weights.dim())), p=1)


class SaliencyPruner(BaseStructuredSparsifier):
    """Masks the share `sparsity_level` of rows, those of smallest magnitude."""

    def update_mask(self, module: Module, tensor_name: str, **kwargs: Any) -> None:
        mask = mask_of(module, tensor_name)
        saliency = -row_magnitudes(getattr(module, tensor_name))
        if saliency.shape != mask.shape:
            raise AssertionError(f"mask of shape {mask.shape} for {saliency.shape} rows")
        mask.data[saliency.topk(int(len(mask) * kwargs["sparsity_level"])).indices] = False
