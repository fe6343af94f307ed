"""Batches copied into page-locked memory.

Enters: any nesting of containers. Leaves: the same nesting, tensors (and objects with a `pin_memory` method) replaced
by their pinned copies. Only called when an accelerator is there to copy from such memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .collate import _rebuild_mapping, _rebuild_sequence


def pin_memory(data: Any, device: Any = None) -> Any:
    """`data` with every tensor pinned."""
    if hasattr(data, "pin_memory"):
        return data.pin_memory()
    if isinstance(data, (str, bytes)):
        return data
    if isinstance(data, Mapping):
        return _rebuild_mapping(data, lambda: {k: pin_memory(v, device) for k, v in data.items()})
    if isinstance(data, tuple):
        items = [pin_memory(v, device) for v in data]
        return type(data)(*items) if hasattr(data, "_fields") else type(data)(items)
    if isinstance(data, Sequence):
        return _rebuild_sequence(data, [pin_memory(v, device) for v in data])
    return data
