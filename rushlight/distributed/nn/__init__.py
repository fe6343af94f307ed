"""`torch.distributed.nn`: modules that live on other workers, and collectives that gradients pass through."""

from . import functional
from .api.remote_module import RemoteModule
from .functional import (
    all_gather,
    all_reduce,
    all_to_all,
    all_to_all_single,
    broadcast,
    gather,
    reduce,
    reduce_scatter,
    scatter,
)

__all__ = ["RemoteModule", "all_gather", "all_reduce", "all_to_all", "all_to_all_single", "broadcast", "functional",
           "gather", "reduce", "reduce_scatter", "scatter"]
