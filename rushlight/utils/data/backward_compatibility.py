"""A worker initialiser that older programs name."""

from __future__ import annotations

import warnings

__all__ = ["worker_init_fn"]


def worker_init_fn(worker_id: int) -> None:
    """Nothing: DataLoader shards datapipes by itself."""
    warnings.warn(
        "Usage of backward_compatibility.worker_init_fn is deprecated as DataLoader automatically applies sharding in every worker",
        stacklevel=2,
    )
