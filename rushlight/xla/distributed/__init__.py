"""torch_xla.distributed: loaders that move batches, and processes, of which there is one."""

from ...base import late

__getattr__, __dir__ = late.names(globals(), {}, files=("parallel_loader", "spmd", "xla_multiprocessing"))
