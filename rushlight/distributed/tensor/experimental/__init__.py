"""`torch.distributed.tensor.experimental`: functions run on parts, plain tensors as copies, sequences spread."""

from .._dispatch import implicit_replication
from ._attention import context_parallel
from ._func_map import local_map
from ._register_sharding import register_sharding

__all__ = ["context_parallel", "implicit_replication", "local_map", "register_sharding"]
