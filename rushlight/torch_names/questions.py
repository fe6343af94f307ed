"""What libraries ask `torch._utils`: whether a compiler looks, which device a name means, what a dotted name means.

Enters: devices, dtypes, names. Leaves: numbers, and the things named. Refuses devices that have no number.
"""

from __future__ import annotations

from typing import Any

from .. import _C
from ..base import late


def _element_size(dtype: _C.dtype) -> int:
    return dtype.itemsize


def is_compiling() -> bool:
    """Whether a compiler looks at the program now."""
    return late.provided("is_compiling")()


class classproperty:  # noqa: N801 - PyTorch's name
    """A property of the class itself."""

    def __init__(self, func: Any) -> None:
        self.func = func

    def __get__(self, instance: Any, owner: Any) -> Any:
        return self.func(owner)


def _get_available_device_type() -> str | None:
    """The accelerator of this machine: none."""
    return None


def _get_all_device_indices() -> list[int]:
    """The accelerators of this machine: none."""
    return []


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    """The number of a device, or of the one a name means."""
    if isinstance(device, int):
        return device
    if device is None or isinstance(device, (str, _C.device)):
        device = None if device is None else _C.device(device)
        if device is not None and device.type == "cpu":
            if allow_cpu:
                return -1
            raise ValueError(f"Expected a non cpu device, but got: {device}")
        if device is not None and device.index is not None:
            return device.index
        if optional:
            return 0
    raise ValueError(f"Expected a device with a specified index or an integer, but got: {device}")


def _import_dotted_name(name: str) -> Any:
    first, *rest = name.split(".")
    found: Any = __import__(first)
    for part in rest:
        found = getattr(found, part)
    return found
