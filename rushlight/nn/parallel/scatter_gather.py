"""`torch.nn.parallel.scatter_gather`: moving parts of nested inputs to several devices, of which there are none."""

from ...absent import absent_names

globals().update(absent_names("torch.nn.parallel.scatter_gather", "there are no devices to spread over", "scatter scatter_kwargs gather"))
