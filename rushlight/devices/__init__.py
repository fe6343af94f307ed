"""Devices: each one small package that implements `base.Device`. See `base.py` for how to add one.

Enters: kernels, sizes and addresses. Leaves: memory, copies and launches on one kind of hardware. Refuses: what the
hardware lacks, by name.
"""

from .base import (
    Device,
    at_unit,
    default_device,
    device_of,
    find,
    find_accelerator,
    handlers,
    placed,
    register,
    registered,
    set_default_device,
    set_unit,
    told_apart,
)
from .memory import empty_cache, memory_stats, reset_peak_memory_stats

__all__ = [
    "Device", "at_unit", "default_device", "device_of", "empty_cache", "find", "find_accelerator", "handlers",
    "memory_stats", "placed", "register", "registered", "reset_peak_memory_stats", "set_default_device", "set_unit",
    "told_apart",
]
