"""Which quantized layers stand for sparse float ones."""

from __future__ import annotations

from ...nn import Module
from ...nn.modules.linear import Linear
from ..nn.sparse.quantized import linear
from ..nn.sparse.quantized.dynamic import linear as dynamic_linear

__all__ = ["get_static_sparse_quantized_mapping", "get_dynamic_sparse_quantized_mapping"]


def get_static_sparse_quantized_mapping() -> dict[type[Module], type[Module]]:
    """For convert(): linear layers that a sparsifier left become layers of integers with weights in blocks."""
    return {Linear: linear.Linear}


def get_dynamic_sparse_quantized_mapping() -> dict[type[Module], type[Module]]:
    """The same, with inputs quantized by the moment's range."""
    return {Linear: dynamic_linear.Linear}
