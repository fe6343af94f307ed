"""NVIDIA GPUs. Nothing is opened until CUDA is asked for, and nothing but the driver is needed.

`find()` is what `rushlight.cuda` and the table of devices ask: the device, registered,
or None where there is no driver or no unit; `reason()` says which.
"""

from __future__ import annotations

from .. import memory
from ..base import register
from . import settings
from .ahead import ready_first_kernel
from .device import CudaDevice
from .driver import Driver

_found: list[CudaDevice | None] = []
_reason = ""


def find() -> CudaDevice | None:
    """The device, registered when it is first found; None where there is none."""
    global _reason
    if not _found:
        device = None
        try:
            driver = Driver()
            if driver.units:
                device = CudaDevice(driver)
            else:
                _reason = "the driver knows no device"
        except (OSError, RuntimeError) as error:
            _reason = str(error)
        _found.append(device)
        if device is not None:
            register(device)
            memory.room_of["cuda"] = device.driver.memory_info
            settings.read_environment(device.driver)
            ready_first_kernel()
    return _found[0]


def reason() -> str:
    """Why there is no device; an empty text where there is one."""
    find()
    return _reason


__all__ = ["CudaDevice", "find", "reason"]
