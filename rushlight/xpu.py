"""`torch.xpu` on a machine without such a device."""

from .absent import absent_device
from .refusals import names_of

globals().update(absent_device("torch.xpu", "XPU", names_of("torch.xpu")))
default_generators: tuple = ()
