"""Matrices that keep a band around the diagonal."""

from __future__ import annotations

from typing import Any

from ....nn import Module
from ....op import find_op
from .base_sparsifier import BaseSparsifier, mask_of


class NearlyDiagonalSparsifier(BaseSparsifier):
    """Keeps `nearliness` diagonals, an odd number, half of them on each side of the main one."""

    def __init__(self, nearliness: int = 1) -> None:
        super().__init__(defaults={"nearliness": nearliness})

    def update_mask(self, module: Module, tensor_name: str, nearliness: int, **kwargs: Any) -> None:  # type: ignore[override]
        """Write a band of ones. Refuses an even number of diagonals, and more than the tensor has."""
        mask = mask_of(module, tensor_name)
        mask.data = find_op("zeros_like")(mask)
        if nearliness <= 0:
            return
        height, width = getattr(module, tensor_name).shape
        if nearliness % 2 == 0:
            raise ValueError(f"nearliness can only be an odd number, got {nearliness}")
        reach = nearliness // 2
        if reach >= min(height, width):
            raise ValueError(f"nearliness {nearliness} cannot be larger than the tensor of {height} by {width} allows")
        mask.data = find_op("ones_like")(mask).tril(reach).triu(-reach)
