"""`torch.distributed.device_mesh`: devices in rows and columns, by name."""

from ..absent import absent

_REASON = "running over several processes is not written yet (distributed.is_available() is False)"
DeviceMesh = absent("torch.distributed", "DeviceMesh", _REASON)
init_device_mesh = absent("torch.distributed", "init_device_mesh", _REASON)

__all__ = ["DeviceMesh", "init_device_mesh"]
