"""`torch.distributed._tensor.placement_types`: `torch.distributed.tensor.placement_types` under its old name."""

from ..tensor._dtensor_spec import DTensorSpec, TensorMeta
from ..tensor.placement_types import Partial, Placement, Replicate, Shard

_Partial = Partial
__all__ = ["DTensorSpec", "Partial", "Placement", "Replicate", "Shard", "TensorMeta"]
