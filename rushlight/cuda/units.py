"""Which unit is meant by a device, a number, or nothing."""

from __future__ import annotations

from typing import Any

from .. import _C
from ..devices.cuda import find


def current_device() -> int:
    """This thread's current unit."""
    return _C.current_unit("cuda")


def index_of(device: Any) -> int:
    """The number of a unit that is meant by a device, a number, or None for the current one."""
    if device is None:
        return current_device()
    if isinstance(device, int):
        return device if device >= 0 else current_device()
    chosen = _C.device(device)
    if chosen.type != "cuda":
        raise ValueError(f"cuda: expected a cuda device, got {device!r}")
    return current_device() if chosen.index is None else chosen.index


def unit_of(device: Any) -> Any:
    """The unit that is meant."""
    return checked_unit(device, _C.AcceleratorError, "CUDA error: invalid device ordinal")


def known_unit(device: Any) -> Any:
    """The unit that is meant, of those whose properties can be told."""
    return checked_unit(device, AssertionError, "Invalid device id")


def checked_unit(device: Any, error: type[Exception], words: str) -> Any:
    index, count = index_of(device), find().device_count()
    if not 0 <= index < count:
        raise error(f"cuda: {words}: there is no device {index}, the last is {count - 1}")
    return _C.device("cuda", index)


class CudaError(RuntimeError):
    """An error of CUDA's, by its number."""

    def __init__(self, code: int) -> None:
        device = find()
        text = "CUDA error" if device is None else device.driver.text(code)
        super().__init__(f"{text} ({code})")


class cudaStatus:  # noqa: N801 - PyTorch's name
    """Answers of the CUDA runtime."""

    SUCCESS = 0
    ERROR_NOT_READY = 34
