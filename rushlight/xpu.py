"""`torch.xpu` on a machine without such a device."""

from .base.absent import absent_device
from .base.refusals import names_of

globals().update(absent_device("torch.xpu", "XPU", names_of("torch.xpu")))
default_generators: tuple = ()
