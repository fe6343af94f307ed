"""Who a worker is, and the few words it and the loader's process exchange. The loop itself is in loop.py.

Enters: nothing. Leaves: `get_worker_info`, which datasets ask; the rest is between the two processes. Kept apart from
the loop so that loading in one process imports nothing that starts others.
"""

from __future__ import annotations

import os
from typing import Any

from ....base import late

__all__ = ["WorkerInfo", "get_worker_info"]


class WorkerInfo:
    """Who this worker is. `dataset` is this process's copy; `seed` is the base seed plus `id`. Read only."""

    __slots__ = ("id", "num_workers", "seed", "dataset", "rng", "worker_method")

    def __init__(
        self,
        id: int,
        num_workers: int,
        seed: int,
        dataset: Any,
        rng: Any = None,
        worker_method: str | None = "multiprocessing",
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


# --- what is said between the processes -------------------------------------------------------------------------------


class _IterableDatasetStopIteration:
    """This worker's stream has ended."""

    def __init__(self, worker_id: int) -> None:
        self.worker_id = worker_id


class _ResumeIteration:
    """A new epoch begins; the worker sends it back once it has done with the last one."""

    def __init__(self, seed: int | None = None) -> None:
        self.seed = seed


class ManagerWatchdog:
    """Whether the loader's process still lives."""

    def __init__(self) -> None:
        self.manager_pid = os.getppid()

    def is_alive(self) -> bool:
        return os.getppid() == self.manager_pid


def __getattr__(name: str) -> Any:
    if name in ("_worker_loop", "_generate_state"):
        return getattr(late.provided("worker loop"), name)     # PyTorch has them in this file
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
