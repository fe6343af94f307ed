"""`torch.distributed.tensor`: tensors spread over devices. There are none;
the names serve `isinstance` and refuse to be made."""

from ...base.refusals import names_of

globals().update(names_of("torch.distributed.tensor"))
