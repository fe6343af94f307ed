"""Devices: each one small package that implements `base.Device`. See `base.py` for how to add one."""

from .base import Device, handlers, register, registered

__all__ = ["Device", "handlers", "register", "registered"]
