"""`torch.nn.parallel.replicate`: copies of a module on several devices, of which there are none."""

from ...absent import absent_names

globals().update(absent_names("torch.nn.parallel.replicate", "there are no devices to spread over", "replicate"))
