"""Pools under PyTorch's names: Python's own, which pass tensors in shared memory."""

import gc
import multiprocessing.pool
from multiprocessing.pool import Pool
from typing import Any

__all__ = ["Pool", "clean_worker"]


def clean_worker(*args: Any, **kwargs: Any) -> None:
    """A pool's worker that lets go of everything when it is done."""
    multiprocessing.pool.worker(*args, **kwargs)
    gc.collect()
