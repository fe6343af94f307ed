"""`torch.nn.parallel.replicate`: copies of a module on several devices, of which there are none."""

from ...base.refusals import names_of

globals().update(names_of("torch.nn.parallel.replicate"))
