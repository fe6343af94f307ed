"""`DistributedSampler`: every process of a group reads its own part of a dataset.

Enters: a dataset of known length, the number of processes and this one's rank (from the process group when not given).
Leaves: this rank's indices, every rank as many as the others. Refuses: a rank outside the group; leaving the group
out where `distributed` is not available.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, TypeVar

from ..._C import Generator
from ...base import late
from ...op import find_op
from .dataset import Dataset
from .sampler import Sampler

__all__ = ["DistributedSampler"]

_T_co = TypeVar("_T_co", covariant=True)


def process_group() -> Any:
    """The `distributed` package when it is there and usable, else None."""
    package = late.provided("distributed")
    return package if package.is_available() else None


def _required_group() -> Any:
    group = process_group()
    if group is None:
        raise RuntimeError("Requires distributed package to be available. Pass num_replicas and rank.")
    return group


class DistributedSampler(Sampler[_T_co]):
    """Indices `rank`, `rank + num_replicas`, ... of a permutation drawn from `seed` + epoch (see `set_epoch`)."""

    def __init__(
        self,
        dataset: Dataset,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if num_replicas is None:
            num_replicas = _required_group().get_world_size()
        if rank is None:
            rank = _required_group().get_rank()
        if rank >= num_replicas or rank < 0:
            raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]")
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.drop_last = drop_last
        size = len(dataset)  # type: ignore[arg-type]
        self.num_samples = size // num_replicas if drop_last else math.ceil(size / num_replicas)
        self.total_size = self.num_samples * num_replicas
        self.shuffle = shuffle
        self.seed = seed

    def _order(self) -> list[int]:
        size = len(self.dataset)  # type: ignore[arg-type]
        if not self.shuffle:
            return list(range(size))
        generator = Generator()
        generator.manual_seed(self.seed + self.epoch)
        return find_op("randperm")(size, generator=generator).tolist()

    def __iter__(self) -> Iterator[_T_co]:
        indices = self._order()
        missing = self.total_size - len(indices)
        if missing > 0:  # start again from the first ones until every rank has as many
            indices += (indices * math.ceil(missing / len(indices)))[:missing]
        mine = indices[self.rank : self.total_size : self.num_replicas]
        if len(mine) != self.num_samples:
            raise AssertionError(
                f"Number of subsampled indices ({len(mine)}) does not match num_samples ({self.num_samples})"
            )
        return iter(mine)

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Draw another order in this epoch than in the one before."""
        self.epoch = epoch
