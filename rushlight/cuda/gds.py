"""`torch.cuda.gds`: files read straight into a GPU. There is no CUDA device: using a name says so."""

from ..absent import absent_names
from .no_device import _needs_device

NAMES = "gds_register_buffer gds_deregister_buffer"
globals().update({name: _needs_device(name, __name__) for name in NAMES.split()})
globals().update(absent_names("torch.cuda.gds", "there is no CUDA device support yet", "GdsFile"))
__all__ = [*NAMES.split(), *("GdsFile",)]
