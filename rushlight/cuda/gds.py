"""`torch.cuda.gds`: files read straight into a GPU. There is no CUDA device: using a name says so."""

from ..base.refusals import names_of
from .no_device import _needs_device

NAMES = "gds_register_buffer gds_deregister_buffer"
globals().update({name: _needs_device(name, __name__) for name in NAMES.split()})
globals().update(names_of("torch.cuda.gds"))
__all__ = [*NAMES.split(), *("GdsFile",)]
