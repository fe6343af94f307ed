"""`DistributedDataParallel` by name: it needs `rushlight.distributed`, which is not available yet."""

from __future__ import annotations

from typing import Any

from ..modules.module import Module


class DistributedDataParallel(Module):
    """A module whose gradients are averaged over processes."""

    def __init__(self, module: Module, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        raise NotImplementedError(
            "DistributedDataParallel: running over several processes is not written yet (distributed.is_available() is"
            " False)"
        )
