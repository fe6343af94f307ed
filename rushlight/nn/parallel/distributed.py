"""`torch.nn.parallel.distributed`: the name under which programs import `DistributedDataParallel`.

It stands on processes (rushlight/distributed), which are above modules; its file says that it plays the role."""

from __future__ import annotations

from typing import Any

from ...base import late

_ROLES = {"DistributedDataParallel": "DistributedDataParallel", "_MixedPrecision": "DistributedDataParallel types"}


def __getattr__(name: str) -> Any:
    if name in _ROLES:
        return late.provided(_ROLES[name])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
