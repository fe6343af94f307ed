"""Devices: each one small package that implements `base.Device`. See `base.py` for how to add one."""

from .base import Device, default_device, device_of, handlers, placed, register, registered, set_default_device

__all__ = ["Device", "default_device", "device_of", "handlers", "placed", "register", "registered", "set_default_device"]
