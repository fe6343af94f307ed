"""`torch.distributed.fsdp`: modules whose parameters, gradients and optimizer state are spread over processes.

`fully_shard` makes an existing module one; names that are not written yet refuse to be used."""

from ...base.refusals import names_of
from ._fully_shard import FSDPModule, UnshardHandle, fully_shard, register_fsdp_forward_method, share_comm_ctx
from .policies import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy

__all__ = [
    "CPUOffloadPolicy", "FSDPModule", "MixedPrecisionPolicy", "OffloadPolicy", "UnshardHandle", "fully_shard",
    "register_fsdp_forward_method", "share_comm_ctx",
]  # fmt: skip
globals().update(names_of("torch.distributed.fsdp"))
