"""Lowering to the built-in kernels, by the name of the other."""

from __future__ import annotations

from typing import Any

from ....fx import GraphModule
from .lowering import lower

__all__ = ["lower_to_qnnpack"]


def lower_to_qnnpack(
    model: GraphModule, qconfig_map: dict[str, Any], node_name_to_scope: dict[str, tuple[str, type]],
) -> GraphModule:
    """A reference model as one of quantized operators."""
    return lower(model, qconfig_map, node_name_to_scope)
