"""A worker initialiser that older programs name."""

from __future__ import annotations

import warnings

__all__ = ["worker_init_fn"]


def worker_init_fn(worker_id: int) -> None:
    """Nothing: DataLoader shards datapipes by itself."""
    warnings.warn(
        "backward_compatibility.worker_init_fn is deprecated: DataLoader applies sharding in its workers by itself",
        stacklevel=2,
    )
