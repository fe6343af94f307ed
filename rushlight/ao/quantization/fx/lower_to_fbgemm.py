"""Lowering to the built-in kernels, by the name of one engine."""

from __future__ import annotations

from typing import Any

from ....fx import GraphModule
from .lowering import lower

__all__ = ["lower_to_fbgemm"]


def lower_to_fbgemm(
    model: GraphModule, qconfig_map: dict[str, Any], node_name_to_scope: dict[str, tuple[str, type]],
    keep_original_weights: bool = False,
) -> GraphModule:
    """A reference model as one of quantized operators."""
    return lower(model, qconfig_map, node_name_to_scope, keep_original_weights)
