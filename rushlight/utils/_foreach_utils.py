"""Lists of tensors, grouped so that each group can be handled at once."""

from __future__ import annotations

from typing import Any

from ..base import homes

__all__ = ["_device_has_foreach_support", "_group_tensors_by_device_and_dtype", "_has_foreach_support"]


def _get_foreach_kernels_supported_devices() -> list[str]:
    return ["cpu"]


def _get_fused_kernels_supported_devices() -> list[str]:
    return ["cpu"]


def _group_tensors_by_device_and_dtype(
    tensorlistlist: list[list[Any]], with_indices: bool = False
) -> dict[tuple[Any, Any], tuple[list[list[Any]], list[int]]]:
    """(device, dtype) of the first list's tensors -> the lists restricted to them, and their positions if asked for."""
    groups: dict[tuple[Any, Any], tuple[list[list[Any]], list[int]]] = {}
    for i, row in enumerate(zip(*(lst or [None] * len(tensorlistlist[0]) for lst in tensorlistlist), strict=True)):
        lists, positions = groups.setdefault((row[0].device, row[0].dtype), ([[] for _ in tensorlistlist], []))
        for lst, value, given in zip(lists, row, tensorlistlist, strict=True):
            if given:
                lst.append(value)
        if with_indices:
            positions.append(i)
    return groups


def _device_has_foreach_support(device: Any) -> bool:
    return device.type in _get_foreach_kernels_supported_devices()


def _has_foreach_support(tensors: list[Any], device: Any) -> bool:
    return _device_has_foreach_support(device) and all(
        t is None or not hasattr(type(t), "__torch_dispatch__") or homes.is_ours(type(t).__module__) for t in tensors
    )
