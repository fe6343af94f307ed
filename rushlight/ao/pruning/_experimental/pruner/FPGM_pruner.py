"""Channels pruned because others are near: those of smallest sum of distances to the rest."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ....._C import Tensor
from .....nn import Module
from .....op import find_op
from ...sparsifier.base_sparsifier import mask_of
from .base_structured_sparsifier import BaseStructuredSparsifier

__all__ = ["FPGMPruner"]


class FPGMPruner(BaseStructuredSparsifier):
    """Masks the share `sparsity_level` of rows nearest to the others (filter pruning by the geometric median).

    `dist` is 1, 2 (the default) or a function from a matrix of rows to the matrix of their distances.
    """

    dist_fn: Callable[[Tensor], Tensor]

    def __init__(self, sparsity_level: float = 0.5, dist: Callable[[Tensor], Tensor] | int | None = None) -> None:
        if callable(dist):
            self.dist_fn = dist
        elif dist in (1, 2, None):
            self.dist_fn = partial(_distances, p=2.0 if dist is None else float(dist))  # type: ignore[arg-type]
        else:
            raise NotImplementedError(f"dist: expected 1, 2 or a function, got {dist}")
        super().__init__(defaults={"sparsity_level": sparsity_level})

    def _compute_distance(self, t: Tensor) -> Tensor:
        """The sum of distances from each row of `t` to all rows."""
        return self.dist_fn(t.flatten(1)).abs().sum(1)

    def update_mask(self, module: Module, tensor_name: str, sparsity_level: float, **kwargs: Any) -> None:  # type: ignore[override]
        mask = mask_of(module, tensor_name)
        if sparsity_level <= 0:
            mask.data = find_op("ones_like")(mask).bool()
        elif sparsity_level >= 1.0:
            mask.data = find_op("zeros_like")(mask).bool()
        else:
            weight = getattr(module, tensor_name)
            count = round(sparsity_level * weight.shape[0])
            mask[self._compute_distance(weight).topk(k=count, largest=False).indices] = False


def _distances(rows: Tensor, p: float) -> Tensor:
    return find_op("cdist")(rows, rows, p=p)
