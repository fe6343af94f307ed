"""`torch.distributed.algorithms`: uneven inputs (`join`), hooks that reduce gradients (`ddp_comm_hooks`), averages of
models (`model_averaging`)."""

from __future__ import annotations

from .join import Join as Join, Joinable as Joinable, JoinHook as JoinHook
