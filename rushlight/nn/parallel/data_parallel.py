"""DataParallel as a program without GPUs meets it: a wrapper that calls its module.

Enters: a module. Leaves: the same results, with names under `module.`. Refuses devices to spread over:
there is no replication yet.
"""

from __future__ import annotations

from typing import Any

from ..modules.module import Module


class DataParallel(Module):
    """`module`, called as it is."""

    def __init__(self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0) -> None:
        super().__init__()
        if device_ids:
            raise NotImplementedError(
                "DataParallel: spreading over several devices is not supported yet; leave device_ids out"
            )
        self.module = module
        self.device_ids: list[int] = []
        self.dim = dim

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Any = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: Any = None,
) -> Any:
    """`module` on `inputs`; spreading over devices is refused as `DataParallel` refuses it."""
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    return DataParallel(module, device_ids, output_device, dim)(*inputs, **(module_kwargs or {}))
