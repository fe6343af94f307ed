"""`torch.nn.parallel.parallel_apply`: modules called on several devices at once, of which there are none."""

from ...base.refusals import names_of

globals().update(names_of("torch.nn.parallel.parallel_apply"))
