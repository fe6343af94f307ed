"""`torch.mps` on a machine without such a device."""

from ..base import late
from ..base.absent import absent_device
from ..base.refusals import names_of

globals().update(absent_device("torch.mps", "MPS", names_of("torch.mps")))
__getattr__, __dir__ = late.names(globals(), {}, ("profiler",))
