"""`torch.distributed.fsdp.fully_sharded_data_parallel`: modules whose parameters are spread over processes.
Not written yet; the names serve `isinstance` and refuse to be used."""

from ...base.refusals import names_of

globals().update(names_of("torch.distributed.fsdp.fully_sharded_data_parallel"))
