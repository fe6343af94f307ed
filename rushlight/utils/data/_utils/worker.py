"""What runs in a worker process.

Enters: tasks from the loader's process. Leaves: batches, or the exception that came up, back to it. The worker seeds
Python's, NumPy's and the framework's generators as PyTorch does, so random augmentations are the same.
"""

from __future__ import annotations

from typing import Any

__all__ = ["WorkerInfo", "get_worker_info"]


class WorkerInfo:
    """Who this worker is. `dataset` is this process's copy; `seed` is the base seed plus `id`. Read only."""

    __slots__ = ("id", "num_workers", "seed", "dataset", "rng", "worker_method")

    def __init__(
        self, id: int, num_workers: int, seed: int, dataset: Any, rng: Any = None, worker_method: str | None = "multiprocessing"
    ) -> None:
        for name, value in zip(self.__slots__, (id, num_workers, seed, dataset, rng, worker_method)):
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        from dataclasses import FrozenInstanceError

        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __repr__(self) -> str:
        return f"WorkerInfo({', '.join(f'{name}={getattr(self, name)!r}' for name in self.__slots__)})"


_worker_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """The worker this runs in; None in the main process."""
    return _worker_info
