"""`torch.distributed.tensor`: tensors spread over the processes of a mesh, and how they lie there."""

from ...base import late
from ...serialization import add_safe_globals
from ..device_mesh import DeviceMesh, init_device_mesh
from . import _lookup, _utils  # noqa: F401
from ._api import DTensor, _rebuild, distribute_tensor
from ._dtensor_spec import DTensorSpec, TensorMeta
from ._factories import empty, full, ones, rand, randn, zeros
from .placement_types import Partial, Placement, Replicate, Shard, _rebuilt, _StridedShard

__all__ = [
    "DTensor", "Partial", "Placement", "Replicate", "Shard", "distribute_module", "distribute_tensor", "empty", "full",
    "ones", "rand", "randn", "zeros",
]
add_safe_globals(
    [DTensor, DTensorSpec, DeviceMesh, Partial, Replicate, Shard, TensorMeta, _StridedShard, _rebuild, _rebuilt]
)
__getattr__, __dir__ = late.names(globals(), {"distribute_module": "_modules"}, ("experimental", "parallel"))
