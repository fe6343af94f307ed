"""`torch.xpu` on a machine without such a device."""

from .absent import absent_device

globals().update(absent_device("torch.xpu", "XPU"))
