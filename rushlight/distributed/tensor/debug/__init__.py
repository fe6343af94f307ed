"""`torch.distributed.tensor.debug`: what is sent, by which module, and where the parts of a tensor lie."""

from ._comm_mode import CommDebugMode
from ._visualize_sharding import visualize_sharding

__all__ = ["CommDebugMode", "visualize_sharding"]
