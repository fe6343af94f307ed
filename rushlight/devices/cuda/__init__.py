"""NVIDIA GPUs. Nothing is opened until CUDA is asked for, and nothing but the driver is needed.

`find()` is what `rushlight.cuda` and the table of devices ask: the device, registered,
or None where there is no driver or no unit; `reason()` says which.
"""

from __future__ import annotations

import warnings

from ...base import environment
from ...base.tracebacks import users_level
from ..base import register
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
            _warn_of_settings()
    return _found[0]


def _warn_of_settings() -> None:
    """Programs are told of settings that have no effect, where PyTorch would follow them."""
    for name in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"):
        text = environment.get(name)
        if text:
            warnings.warn(
                f"{name}={text}: Rushlight's allocator has none of these settings (no expandable segments, split sizes"
                " or rounding), so the variable has no effect. Unset it to be rid of this warning.",
                UserWarning, stacklevel=users_level(),
            )  # fmt: skip


def reason() -> str:
    """Why there is no device; an empty text where there is one."""
    find()
    return _reason


__all__ = ["CudaDevice", "find", "reason"]
