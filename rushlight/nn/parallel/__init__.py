"""`torch.nn.parallel`: one module over several devices or processes. Neither exists here yet; the names refuse when used."""

from __future__ import annotations

from typing import Any

from ..modules.module import Module
from .data_parallel import DataParallel
from .distributed import DistributedDataParallel

__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel"]


def data_parallel(module: Module, inputs: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0, module_kwargs: Any = None) -> Any:
    """`module` on `inputs`; spreading over devices is refused as `DataParallel` refuses it."""
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    return DataParallel(module, device_ids, output_device, dim)(*inputs, **(module_kwargs or {}))
