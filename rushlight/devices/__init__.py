"""Devices: each one small package that implements `base.Device`. See `base.py` for how to add one."""

from .base import Device, register, registered

__all__ = ["Device", "register", "registered"]
