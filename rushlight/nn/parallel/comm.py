"""`torch.nn.parallel.comm`: copies between several devices, of which there are none."""

from ...base.refusals import names_of

globals().update(names_of("torch.nn.parallel.comm"))
