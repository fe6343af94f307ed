"""`torch.mps` on a machine without such a device."""

from .. import late
from ..absent import absent_device

globals().update(absent_device("torch.mps", "MPS", "compile_shader load_metallib set_per_process_memory_fraction"))
__getattr__, __dir__ = late.names(globals(), {}, ("profiler",))
