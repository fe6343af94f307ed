"""`torch.mtia` on a machine without such a device."""

from .base.absent import absent_device
from .base.refusals import names_of

globals().update(absent_device("torch.mtia", "MTIA", names_of("torch.mtia")))
