"""`torch.distributed.tensor`: tensors spread over the processes of a mesh. How they may lie is here; the tensors
themselves are not written yet: the names serve `isinstance` and refuse to be made."""

from ...base.refusals import names_of
from ..device_mesh import DeviceMesh, init_device_mesh
from .placement_types import Partial, Placement, Replicate, Shard

__all__ = ["DeviceMesh", "Partial", "Placement", "Replicate", "Shard", "init_device_mesh"]
globals().update(names_of("torch.distributed.tensor"))
