"""`torch.distributed._tensor`: where `torch.distributed.tensor` was before it had a public name."""

from ..tensor import *  # noqa: F403
from ..tensor import DeviceMesh, __all__ as _names, distribute_module, init_device_mesh  # noqa: F401
from . import api, device_mesh, placement_types  # noqa: F401

__all__ = [*_names, "DeviceMesh", "init_device_mesh"]
