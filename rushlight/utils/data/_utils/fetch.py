"""From what a sampler yields to collated data, for both kinds of dataset.

Enters: an index, or with `auto_collation` a list of them. Leaves: what `collate_fn` made of the samples. Raises
StopIteration when a stream has ended.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import collate as _collate

__all__: list[str] = []


class _BaseDatasetFetcher:
    def __init__(self, dataset: Any, auto_collation: bool, collate_fn: Callable, drop_last: bool) -> None:
        self.dataset = dataset
        self.auto_collation = auto_collation
        self.collate_fn = collate_fn
        self.drop_last = drop_last

    def fetch(self, possibly_batched_index: Any) -> Any:
        raise NotImplementedError


class _IterableDatasetFetcher(_BaseDatasetFetcher):
    """Reads on in one iterator over the stream, whatever the indices are."""

    def __init__(self, dataset: Any, auto_collation: bool, collate_fn: Callable, drop_last: bool) -> None:
        super().__init__(dataset, auto_collation, collate_fn, drop_last)
        self.dataset_iter = iter(dataset)
        self.ended = False

    def fetch(self, possibly_batched_index: Any) -> Any:
        if self.ended:
            raise StopIteration
        if not self.auto_collation:
            return self.collate_fn(next(self.dataset_iter))
        data = []
        for _ in possibly_batched_index:
            try:
                data.append(next(self.dataset_iter))
            except StopIteration:
                self.ended = True
                break
        if not data or (self.drop_last and len(data) < len(possibly_batched_index)):
            raise StopIteration
        return self.collate_fn(data)


class _MapDatasetFetcher(_BaseDatasetFetcher):
    """Reads samples by index; whole batches where the dataset offers that."""

    def fetch(self, possibly_batched_index: Any) -> Any:
        dataset, index = self.dataset, possibly_batched_index
        if not self.auto_collation:
            return self.collate_fn(dataset[index])
        # Of the class, not by the instance: a wrapper that passes attributes on may still change samples.
        shortcut = getattr(type(dataset), "_fetch_batch", None)
        if shortcut is not None and _collate.collates_tensors_plainly(self.collate_fn):
            batch = shortcut(dataset, index, _collate._call)
            if batch is not None:
                return batch
        if getattr(dataset, "__getitems__", None):
            return self.collate_fn(dataset.__getitems__(index))
        return self.collate_fn([dataset[i] for i in index])


class _DatasetKind:
    """Whether a dataset is a map or a stream."""

    Map = 0
    Iterable = 1

    @staticmethod
    def create_fetcher(
        kind: int, dataset: Any, auto_collation: bool, collate_fn: Callable, drop_last: bool
    ) -> _BaseDatasetFetcher:
        maker = _MapDatasetFetcher if kind == _DatasetKind.Map else _IterableDatasetFetcher
        return maker(dataset, auto_collation, collate_fn, drop_last)
