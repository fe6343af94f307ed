"""Steps that keep samples reachable by index, and the shuffler, which gives that up."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from .._decorator import functional_datapipe
from ..datapipe import DataChunk, IterDataPipe, MapDataPipe
from ..steps import Batched, Shuffled
from ..streams import check_callable

__all__ = [
    "BatcherMapDataPipe", "ConcaterMapDataPipe", "MapperMapDataPipe", "SequenceWrapperMapDataPipe",
    "ShufflerIterDataPipe", "ZipperMapDataPipe",
]

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)


class SequenceWrapperMapDataPipe(MapDataPipe[_T]):
    """The items of a sequence or mapping; with `deepcopy`, of a copy of it."""

    def __init__(self, sequence: Sequence[_T] | Mapping[Any, _T], deepcopy: bool = True) -> None:
        self.sequence = sequence
        if deepcopy:
            try:
                self.sequence = copy.deepcopy(sequence)
            except TypeError:
                warnings.warn(
                    "SequenceWrapper: the sequence cannot be deep-copied, so changes made in place reach the source",
                    stacklevel=2,
                )

    def __getitem__(self, index: Any) -> _T:
        return self.sequence[index]

    def __len__(self) -> int:
        return len(self.sequence)


def default_fn(data: Any) -> Any:
    """The sample as it is."""
    return data


@functional_datapipe("map")
class MapperMapDataPipe(MapDataPipe[_T_co]):
    """`fn` of each sample."""

    def __init__(self, datapipe: MapDataPipe, fn: Callable = default_fn) -> None:
        super().__init__()
        check_callable(fn)
        self.datapipe = datapipe
        self.fn = fn

    def __getitem__(self, index: Any) -> _T_co:
        return self.fn(self.datapipe[index])

    def __len__(self) -> int:
        return len(self.datapipe)  # type: ignore[arg-type]


def _check_pipes(datapipes: tuple, what: str = "`MapDataPipe`") -> None:
    if not datapipes:
        raise ValueError("expected at least one DataPipe, got none")
    if not all(isinstance(dp, MapDataPipe) for dp in datapipes):
        raise TypeError(f"Expected all inputs to be {what}")


@functional_datapipe("concat")
class ConcaterMapDataPipe(MapDataPipe):
    """Pipes one after another, by one running index."""

    def __init__(self, *datapipes: MapDataPipe) -> None:
        _check_pipes(datapipes)
        self.datapipes = datapipes

    def __getitem__(self, index: int) -> Any:
        at = index
        for dp in self.datapipes:
            if at < len(dp):
                return dp[at]
            at -= len(dp)
        raise IndexError(f"Index {index} is out of range.")

    def __len__(self) -> int:
        return sum(len(dp) for dp in self.datapipes)


@functional_datapipe("zip")
class ZipperMapDataPipe(MapDataPipe[tuple]):
    """Tuples of the samples of each pipe at one index."""

    def __init__(self, *datapipes: MapDataPipe) -> None:
        _check_pipes(datapipes)
        self.datapipes = datapipes

    def __getitem__(self, index: Any) -> tuple:
        found = []
        for dp in self.datapipes:
            try:
                found.append(dp[index])
            except IndexError as e:
                raise IndexError(f"index {index} is out of range for {dp}, one of the zipped MapDataPipes.") from e
        return tuple(found)

    def __len__(self) -> int:
        return min(len(dp) for dp in self.datapipes)


@functional_datapipe("batch")
class BatcherMapDataPipe(Batched, MapDataPipe[DataChunk]):
    """Chunks of `batch_size` consecutive samples; the last may be shorter, or dropped."""

    def __getitem__(self, index: int) -> DataChunk:
        batch: list = []
        try:
            for i in range(index * self.batch_size, (index + 1) * self.batch_size):
                batch.append(self.datapipe[i])
        except IndexError as e:
            if self.drop_last or not batch:
                raise IndexError(f"Index {index} is out of bound.") from e
        return self.wrapper_class(batch)

    def __len__(self) -> int:
        total = len(self.datapipe)  # type: ignore[arg-type]
        return total // self.batch_size if self.drop_last else -(-total // self.batch_size)


class ShufflerIterDataPipe(Shuffled, IterDataPipe[_T_co]):
    """The samples at `indices` (all of them by default) in random order, as a stream."""

    def __init__(self, datapipe: MapDataPipe[_T_co], *, indices: list | None = None) -> None:
        super().__init__()
        self.datapipe = datapipe
        self.indices = list(range(len(datapipe))) if indices is None else indices  # type: ignore[arg-type]
        self._shuffled_indices: list = self.indices

    def __iter__(self) -> Iterator[_T_co]:
        if not self._enabled:
            for i in self.indices:
                yield self.datapipe[i]
            return
        while self._shuffled_indices:
            yield self.datapipe[self._shuffled_indices.pop()]

    def reset(self) -> None:
        if self._enabled:
            self.seed_pass()
            self._shuffled_indices = self._rng.sample(self.indices, len(self.indices))

    def __len__(self) -> int:
        return len(self.indices)


# A stream itself, but a step of maps.
MapDataPipe.register_datapipe_as_function("shuffle", ShufflerIterDataPipe)
