"""`torch.distributed.device_mesh`: devices in rows and columns, by name."""

from ..base.refusals import stand_in

DeviceMesh = stand_in("torch.distributed", "DeviceMesh")
init_device_mesh = stand_in("torch.distributed", "init_device_mesh")

__all__ = ["DeviceMesh", "init_device_mesh"]
