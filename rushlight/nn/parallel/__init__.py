"""`torch.nn.parallel`: one module over several devices or processes. Neither exists here yet; the names refuse when used."""

from __future__ import annotations

from .data_parallel import DataParallel, data_parallel
from .distributed import DistributedDataParallel

__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel"]

