"""Which quantized modules stand for sparse float ones. Refuses: they are layers on quantized tensors, not built yet."""

from __future__ import annotations

from typing import NoReturn

__all__ = ["get_static_sparse_quantized_mapping", "get_dynamic_sparse_quantized_mapping"]


def get_static_sparse_quantized_mapping() -> NoReturn:
    """Refuses: `ao.nn.sparse.quantized.Linear` needs quantized tensors."""
    _refuse("get_static_sparse_quantized_mapping", "ao.nn.sparse.quantized.Linear")


def get_dynamic_sparse_quantized_mapping() -> NoReturn:
    """Refuses: `ao.nn.sparse.quantized.dynamic.Linear` needs quantized tensors."""
    _refuse("get_dynamic_sparse_quantized_mapping", "ao.nn.sparse.quantized.dynamic.Linear")


def _refuse(name: str, module: str) -> NoReturn:
    raise NotImplementedError(
        f"ao.pruning.{name}: {module} works on quantized tensors, which this version does not have. Give convert() a"
        " mapping to modules of your own, or keep the float model after squash_mask()."
    )
