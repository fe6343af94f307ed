"""`torch.nn.parallel.distributed`: the name under which programs import `DistributedDataParallel`.

It stands on processes (rushlight/distributed), which are above modules; its file says that it plays the role."""

from __future__ import annotations

from typing import Any

from ...base import late


def __getattr__(name: str) -> Any:
    if name == "DistributedDataParallel":
        return late.provided("DistributedDataParallel")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
