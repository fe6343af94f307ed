"""What NVIDIA's management library says of units: load, temperature, power, clocks, and who uses them.

Enters: a unit's number. Leaves: numbers in PyTorch's units. Refuses where the driver brings no management library.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

from ..devices.cuda import find

LIBRARY = "libnvidia-ml.so.1"
TEMPERATURE_OF_GPU, SM_CLOCK = 0, 1


@functools.cache
def library() -> Any:
    """The library, started."""
    try:
        opened = ctypes.CDLL(LIBRARY)
    except OSError:
        raise RuntimeError(
            f"cuda: {LIBRARY} is not there, and only it knows a unit's load. It comes with NVIDIA's driver."
        ) from None
    check(opened.nvmlInit_v2(), "nvmlInit")
    return opened


def check(code: int, what: str) -> None:
    if code:
        raise RuntimeError(f"cuda: {what} failed with {code} of {LIBRARY}")


def handle(index: int) -> ctypes.c_void_p:
    """The library's name of a unit: by its identity, since the two number units differently."""
    raw = find().driver.uuid(index).hex()
    text = f"GPU-{raw[:8]}-{raw[8:12]}-{raw[12:16]}-{raw[16:20]}-{raw[20:]}"
    result = ctypes.c_void_p()
    check(library().nvmlDeviceGetHandleByUUID(text.encode(), ctypes.byref(result)), "nvmlDeviceGetHandleByUUID")
    return result


def number(name: str, index: int, *given: Any) -> int:
    found = ctypes.c_uint()
    check(getattr(library(), name)(handle(index), *given, ctypes.byref(found)), name)
    return found.value


def utilization(index: int) -> tuple[int, int]:
    """Percent of time that kernels ran, and that memory was read or written."""
    found = (ctypes.c_uint * 2)()
    check(library().nvmlDeviceGetUtilizationRates(handle(index), found), "nvmlDeviceGetUtilizationRates")
    return found[0], found[1]


def temperature(index: int) -> int:
    """Degrees Celsius."""
    return number("nvmlDeviceGetTemperature", index, TEMPERATURE_OF_GPU)


def power_draw(index: int) -> int:
    """Milliwatts."""
    return number("nvmlDeviceGetPowerUsage", index)


def clock_rate(index: int) -> int:
    """MHz of the multiprocessors."""
    return number("nvmlDeviceGetClockInfo", index, SM_CLOCK)


class _Process(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_uint), ("memory", ctypes.c_ulonglong), ("instance", ctypes.c_uint),
                ("compute", ctypes.c_uint)]


def processes(index: int) -> list[tuple[int, int]]:
    """(process, bytes) of everybody who computes on a unit."""
    count, found = ctypes.c_uint(256), (_Process * 256)()
    code = library().nvmlDeviceGetComputeRunningProcesses_v3(handle(index), ctypes.byref(count), found)
    check(code, "nvmlDeviceGetComputeRunningProcesses")
    return [(p.pid, p.memory) for p in found[: count.value]]
