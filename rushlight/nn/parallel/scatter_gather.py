"""`torch.nn.parallel.scatter_gather`: moving parts of nested inputs to several devices, of which there are none."""

from ...base.refusals import names_of

globals().update(names_of("torch.nn.parallel.scatter_gather"))
