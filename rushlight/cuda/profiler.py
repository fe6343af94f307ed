"""`torch.cuda.profiler`: marks for NVIDIA's profiler. There is no CUDA device: using a name says so."""

from .no_device import _needs_device

NAMES = "start stop profile init"
globals().update({name: _needs_device(name, __name__) for name in NAMES.split()})
__all__ = NAMES.split()
