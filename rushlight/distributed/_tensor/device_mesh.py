"""`torch.distributed._tensor.device_mesh`: `torch.distributed.device_mesh` under its old name."""

from ..device_mesh import DeviceMesh, init_device_mesh

__all__ = ["DeviceMesh", "init_device_mesh"]
