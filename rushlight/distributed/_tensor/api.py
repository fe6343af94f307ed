"""`torch.distributed._tensor.api`: `torch.distributed.tensor` under its old name."""

from ..tensor import *  # noqa: F403
from ..tensor import DTensor, __all__, distribute_module, distribute_tensor  # noqa: F401
