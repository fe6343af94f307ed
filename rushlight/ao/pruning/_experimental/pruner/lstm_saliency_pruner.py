"""Hidden units of LSTMs pruned by the sum of magnitudes of their weights."""

from __future__ import annotations

from typing import Any

from .....nn import Module
from .base_structured_sparsifier import BaseStructuredSparsifier
from .parametrization import FakeStructuredSparsity
from .saliency_pruner import row_magnitudes

__all__ = ["LSTMSaliencyPruner"]


class LSTMSaliencyPruner(BaseStructuredSparsifier):
    """Masks the share `sparsity_level` of rows of each of the four gates, so that all keep as many."""

    def update_mask(self, module: Module, tensor_name: str, **kwargs: Any) -> None:
        saliency = row_magnitudes(getattr(module, tensor_name))
        steps: Any = getattr(module.parametrizations, tensor_name)
        for step in steps:
            if not isinstance(step, FakeStructuredSparsity):
                continue
            size = len(step.mask) // 4
            for mask, rows in zip(step.mask.split(size), saliency.split(size)):
                count = int(len(mask) * kwargs["sparsity_level"])
                mask.data[rows.topk(count, largest=False, sorted=False).indices] = False
