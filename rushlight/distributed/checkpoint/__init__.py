"""`torch.distributed.checkpoint`: files that several processes write together. Not written yet;
the names serve `isinstance` and refuse to be used."""

from ...base.refusals import names_of

globals().update(names_of("torch.distributed.checkpoint"))
