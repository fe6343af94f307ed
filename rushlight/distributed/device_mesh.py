"""`torch.distributed.device_mesh`: devices in rows and columns, by name."""

from . import DeviceMesh, init_device_mesh

__all__ = ["DeviceMesh", "init_device_mesh"]
