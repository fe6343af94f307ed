"""The accelerator of this machine, in PyTorch's words. There is none yet: questions have plain answers, using it is refused."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any

from ._C import device as Device
from .refusals import stand_in

Graph = stand_in("torch.accelerator", "Graph")


def is_available() -> bool:
    """False."""
    return False


def device_count() -> int:
    """0."""
    return 0


def current_accelerator(check_available: bool = False) -> Any:
    """None."""
    return None


def _refused(name: str) -> Any:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        """Refused: there is no accelerator."""
        raise RuntimeError(f"accelerator.{name}: Cannot access accelerator device when none is available.")

    refuse.__name__ = refuse.__qualname__ = name
    return refuse


_NEED_ONE = (
    "current_device_index current_device_idx set_device_index set_device_idx current_stream set_stream synchronize get_device_capability get_memory_info "
    "memory_allocated memory_reserved max_memory_allocated max_memory_reserved memory_stats reset_accumulated_memory_stats reset_peak_memory_stats"
)
globals().update({name: _refused(name) for name in _NEED_ONE.split()})
__all__ = [
    "Graph", "current_accelerator", "device_count", "device_index", "empty_cache", "empty_host_cache", "is_available", *_NEED_ONE.split(),
]  # fmt: skip


def empty_cache() -> None:
    """Nothing is kept for a device that is not there."""


def empty_host_cache() -> None:
    """Nothing is kept for a device that is not there."""


def get_device_module(device: Any = None) -> ModuleType:
    """The module of a device, `torch.cpu` for "cpu"; of the accelerator, or of the processor where there is none, when not told."""
    if device is not None and not isinstance(device, (str, Device)):
        raise RuntimeError(f"Invalid value of device '{device}', expect torch.device, str, or None")
    name = "cpu" if device is None else Device(device).type
    try:
        return import_module(f".{name}", __package__)
    except ModuleNotFoundError:
        raise RuntimeError(f"device '{name}' has no module 'torch.{name}'. Register one with it.") from None


class device_index:  # noqa: N801 - PyTorch's name
    """A region on one of several accelerators; None changes nothing."""

    def __init__(self, device: int | None, /) -> None:
        self.idx = device

    def __enter__(self) -> None:
        if self.idx is not None:
            globals()["set_device_index"]()

    def __exit__(self, *exc: object) -> None:
        return None
