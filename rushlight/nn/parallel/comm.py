"""`torch.nn.parallel.comm`: copies between several devices, of which there are none."""

from ...absent import absent_names

globals().update(absent_names("torch.nn.parallel.comm", "there are no devices to spread over", "broadcast broadcast_coalesced gather reduce_add reduce_add_coalesced scatter"))
