"""Which quantized modules stand for sparse float ones. Refuses: they are layers on quantized tensors, not built yet."""

from __future__ import annotations

from typing import NoReturn

__all__ = ["get_static_sparse_quantized_mapping", "get_dynamic_sparse_quantized_mapping"]

_REFUSAL = (
    "ao.pruning.{}: {} works on quantized tensors, which this version does not have. Give convert() a mapping to"
    " modules of your own, or keep the float model after squash_mask()."
)


def get_static_sparse_quantized_mapping() -> NoReturn:
    """Refuses: `ao.nn.sparse.quantized.Linear` needs quantized tensors."""
    raise NotImplementedError(_REFUSAL.format("get_static_sparse_quantized_mapping", "ao.nn.sparse.quantized.Linear"))


def get_dynamic_sparse_quantized_mapping() -> NoReturn:
    """Refuses: `ao.nn.sparse.quantized.dynamic.Linear` needs quantized tensors."""
    raise NotImplementedError(
        _REFUSAL.format("get_dynamic_sparse_quantized_mapping", "ao.nn.sparse.quantized.dynamic.Linear")
    )
