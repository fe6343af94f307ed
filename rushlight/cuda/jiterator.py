"""`torch.cuda.jiterator`: elementwise kernels given as CUDA source. There is no CUDA device: using a name says so."""

from .no_device import _needs_device

NAMES = "create_jit_fn create_multi_output_jit_fn"
globals().update({name: _needs_device(name, __name__) for name in NAMES.split()})
__all__ = NAMES.split()
