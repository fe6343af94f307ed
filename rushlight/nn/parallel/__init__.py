"""`torch.nn.parallel`: one module over several devices or processes."""

from __future__ import annotations

from typing import Any

from ...base import late
from . import distributed as distributed
from .data_parallel import DataParallel, data_parallel
from .parallel_apply import parallel_apply
from .replicate import replicate
from .scatter_gather import gather, scatter

__all__ = [
    "DataParallel",
    "DistributedDataParallel",
    "data_parallel",
    "gather",
    "parallel_apply",
    "replicate",
    "scatter",
]


def __getattr__(name: str) -> Any:
    if name == "DistributedDataParallel":
        return late.provided("DistributedDataParallel")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
