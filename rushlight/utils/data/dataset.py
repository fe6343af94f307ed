"""Datasets: maps from an index to a sample, and streams of samples.

Enters: tensors, other datasets, indices. Leaves: samples, one at a time or (`__getitems__`) one list per batch.
Refuses: tensors or datasets of unequal lengths, splits that do not add up. Nothing here copies data before it is asked
for. `TensorDataset` and `Subset` also answer `_fetch_batch`, the loader's shortcut from a list of indices to a collated
batch without making the samples in between (`call` is how functions that make it are to be called); they decline
whenever a sample would not be a plain row.
"""

from __future__ import annotations

import bisect
import itertools
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from operator import getitem
from typing import Any, Generic, Iterable, TypeVar  # noqa: UP035 - typing's Iterable may follow a Generic base

from ..._C import Generator, Tensor, default_generator
from ...base.shape import strided
from ...op import find_op
from ...tensors.interop import tensor

__all__ = [
    "Dataset",
    "IterableDataset",
    "TensorDataset",
    "StackDataset",
    "ConcatDataset",
    "ChainDataset",
    "Subset",
    "random_split",
]

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)


class Dataset(Generic[_T_co]):
    """A map from keys to samples. Subclasses give `__getitem__`, and `__len__` where samplers need it."""

    def __getitem__(self, index: Any) -> _T_co:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: Dataset[_T_co]) -> ConcatDataset[_T_co]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[_T_co], Iterable[_T_co]):
    """A stream of samples. Subclasses give `__iter__`; with worker processes each has a copy of the whole stream."""

    def __add__(self, other: Dataset[_T_co]) -> ChainDataset:
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Row i of every tensor, as a tuple. The tensors agree in their first size."""

    tensors: tuple[Tensor, ...]

    def __init__(self, *tensors: Tensor) -> None:
        if any(tensors[0].size(0) != t.size(0) for t in tensors):
            raise AssertionError("Size mismatch between tensors")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(t[index] for t in self.tensors)

    def __len__(self) -> int:
        return self.tensors[0].size(0)

    def _fetch_batch(self, indices: list, call: Callable) -> list[Tensor] | None:
        """What collating `self[i] for i in indices` gives, by one gather per tensor; None where rows are not plain."""
        cls = type(self)
        if cls.__getitem__ is not TensorDataset.__getitem__ or hasattr(cls, "__getitems__"):
            return None
        if not all(_has_plain_rows(t) for t in self.tensors):
            return None
        # A row that is not there, or an index that is no number, is left to the plain path and its errors.
        if {*map(type, indices)} != {int} or min(indices) < -len(self) or max(indices) >= len(self):
            return None
        at = tensor(indices)
        return [call(getitem, t, at) for t in self.tensors]


def _has_plain_rows(t: Any) -> bool:
    """Whether gathering rows of `t` and stacking them one by one give the same tensor."""
    if type(t) is not Tensor or t.layout is not strided or not t.is_cpu or t.requires_grad:
        return False
    return t.is_contiguous() and not t.is_conj() and not t.is_neg()


class StackDataset(Dataset[Any]):
    """Sample i of every dataset: a tuple of them for positional datasets, a dict for named ones."""

    datasets: tuple | dict

    def __init__(self, *args: Dataset, **kwargs: Dataset) -> None:
        if args and kwargs:
            raise ValueError("StackDataset: expected datasets by position (tuples) or by name (dicts), got both types.")
        if not args and not kwargs:
            raise ValueError("StackDataset: expected at least one dataset, got none")
        members = args or tuple(kwargs.values())
        self._length = len(members[0])  # type: ignore[arg-type]
        if any(len(d) != self._length for d in members):  # type: ignore[arg-type]
            raise ValueError("Size mismatch between datasets")
        self.datasets = args or kwargs

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {k: d[index] for k, d in self.datasets.items()}
        return tuple(d[index] for d in self.datasets)

    def __getitems__(self, indices: list) -> list:
        if isinstance(self.datasets, dict):
            columns = [_items_of(d, indices) for d in self.datasets.values()]
            return [dict(zip(self.datasets, row)) for row in zip(*columns)]
        return list(zip(*(_items_of(d, indices) for d in self.datasets)))

    def __len__(self) -> int:
        return self._length


def _items_of(dataset: Any, indices: list) -> list:
    """Samples at `indices`, by the dataset's own batched access where it has one."""
    if not callable(getattr(dataset, "__getitems__", None)):
        return [dataset[i] for i in indices]
    items = dataset.__getitems__(indices)
    if len(items) != len(indices):
        raise ValueError(f"Nested dataset's output size mismatch. Expected {len(indices)}, got {len(items)}")
    return items


class ConcatDataset(Dataset[_T_co]):
    """Datasets one after another, seen as one."""

    datasets: list[Dataset[_T_co]]
    cumulative_sizes: list[int]

    @staticmethod
    def cumsum(sequence: Sequence) -> list[int]:
        """Ends of the members: running sums of their lengths."""
        return list(itertools.accumulate(len(e) for e in sequence))

    def __init__(self, datasets: Iterable[Dataset]) -> None:
        super().__init__()
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("ConcatDataset: expected at least one dataset, got none")
        if any(isinstance(d, IterableDataset) for d in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = self.cumsum(self.datasets)

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, idx: int) -> _T_co:
        if idx < 0:
            if -idx > len(self):
                raise ValueError(f"index {idx} is out of range for {len(self)} elements")
            idx += len(self)
        member = bisect.bisect_right(self.cumulative_sizes, idx)
        start = self.cumulative_sizes[member - 1] if member else 0
        return self.datasets[member][idx - start]

    @property
    def cummulative_sizes(self) -> list[int]:
        """The old spelling."""
        warnings.warn("cummulative_sizes is spelled cumulative_sizes now", FutureWarning, stacklevel=2)
        return self.cumulative_sizes


class ChainDataset(IterableDataset):
    """Streams one after another, seen as one."""

    def __init__(self, datasets: Iterable[Dataset]) -> None:
        super().__init__()
        self.datasets = datasets

    def _streams(self) -> Iterator[IterableDataset]:
        for d in self.datasets:
            if not isinstance(d, IterableDataset):
                raise AssertionError("ChainDataset only supports IterableDataset")
            yield d

    def __iter__(self) -> Iterator[Any]:
        for d in self._streams():
            yield from d

    def __len__(self) -> int:
        return sum(len(d) for d in self._streams())  # type: ignore[arg-type]


class Subset(Dataset[_T_co]):
    """The samples of `dataset` at `indices`. A subclass that overrides `__getitem__` overrides `__getitems__` too."""

    dataset: Dataset[_T_co]
    indices: Sequence[int]

    def __init__(self, dataset: Dataset[_T_co], indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices
        cls = type(self)
        if cls.__getitem__ is not Subset.__getitem__ and cls.__getitems__ is Subset.__getitems__:
            raise NotImplementedError(
                f"{cls.__name__} overrides __getitem__ but not __getitems__, which DataLoader calls for batches. "
                "Override both, for example:\n\n"
                "def __getitems__(self, indices):\n    return [self[i] for i in indices]"
            )

    def __getitem__(self, idx: Any) -> _T_co:
        if isinstance(idx, list):
            return self.dataset[[self.indices[i] for i in idx]]
        return self.dataset[self.indices[idx]]

    def __getitems__(self, indices: list[int]) -> list[_T_co]:
        chosen = [self.indices[i] for i in indices]
        if callable(getattr(self.dataset, "__getitems__", None)):
            return self.dataset.__getitems__(chosen)  # type: ignore[attr-defined]
        return [self.dataset[i] for i in chosen]

    def _fetch_batch(self, indices: list, call: Callable) -> Any:
        """The collated batch, where `dataset` has a shortcut to it; else None."""
        inner = getattr(type(self.dataset), "_fetch_batch", None)
        if inner is None or type(self).__getitems__ is not Subset.__getitems__:
            return None
        return inner(self.dataset, [self.indices[i] for i in indices], call)

    def __len__(self) -> int:
        return len(self.indices)


def random_split(
    dataset: Dataset[_T], lengths: Sequence[int | float], generator: Generator | None = default_generator
) -> list[Subset[_T]]:
    """Split at random into subsets of the given lengths, or of the given fractions when those sum to one."""
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        lengths = _lengths_of_fractions(lengths, len(dataset))  # type: ignore[arg-type]
    if sum(lengths) != len(dataset):  # type: ignore[arg-type]
        raise ValueError(
            "random_split: expected lengths that add up to the length of the dataset. Sum of input lengths:"
            f" {sum(lengths)}, dataset: {len(dataset)}."
        )
    indices = find_op("randperm")(sum(lengths), generator=generator).tolist()
    ends = itertools.accumulate(lengths)
    return [Subset(dataset, indices[end - length : end]) for end, length in zip(ends, lengths)]  # type: ignore[misc]


def _lengths_of_fractions(fractions: Sequence[float], total: int) -> list[int]:
    for i, fraction in enumerate(fractions):
        if fraction < 0 or fraction > 1:
            raise ValueError(f"Fraction at index {i} is not between 0 and 1")
    lengths = [math.floor(total * fraction) for fraction in fractions]
    for i in range(total - sum(lengths)):
        lengths[i % len(lengths)] += 1
    for i, length in enumerate(lengths):
        if length == 0:
            warnings.warn(f"Length of split at index {i} is 0, so that part is empty.", stacklevel=3)
    return lengths
