"""`torch.mtia` on a machine without such a device."""

from .absent import absent_device
from .refusals import names_of

globals().update(absent_device("torch.mtia", "MTIA", names_of("torch.mtia")))
