"""`DataLoader`: batches of a dataset, in this process or from worker processes.

Enters: a dataset and how to sample, collate and load it. Leaves: an iterable of batches, equal to PyTorch's for the
same seeds. Refuses: options that exclude each other, and changing what was fixed when the loader was made.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

from ..._C import Generator
from . import _utils
from ._utils.fetch import _DatasetKind
from ._utils.iterate import (
    _BaseDataLoaderIter,
    _SingleProcessDataLoaderIter,
    graph_settings,
    is_datapipe,
)
from .dataset import Dataset, IterableDataset
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

__all__ = ["DataLoader", "get_worker_info", "default_collate", "default_convert"]

_T_co = TypeVar("_T_co", covariant=True)
_collate_fn_t = Callable[[list], Any]
_worker_init_fn_t = Callable[[int], None]

default_collate = _utils.collate.default_collate
default_convert = _utils.collate.default_convert
get_worker_info = _utils.worker.get_worker_info

_FIXED = frozenset(("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"))


class _InfiniteConstantSampler(Sampler):
    """None, without end: streams are read on whatever the index is."""

    def __iter__(self) -> Iterator[None]:
        while True:
            yield None


def _check_loading(num_workers: int, timeout: float, prefetch_factor: int | None, persistent_workers: bool) -> None:
    if num_workers < 0:
        raise ValueError("num_workers: expected at least 0, which loads in this process.")
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if num_workers == 0 and prefetch_factor is not None:
        raise ValueError(
            "prefetch_factor: only workers fetch ahead. "
            "Pass num_workers > 0, or leave it None."
        )
    if prefetch_factor is not None and prefetch_factor < 0:
        raise ValueError("prefetch_factor: expected at least 0")
    if persistent_workers and num_workers == 0:
        raise ValueError("persistent_workers option needs num_workers > 0")


def _check_stream(shuffle: bool | None, sampler: Any, batch_sampler: Any, is_pipe: bool) -> None:
    prefix = "DataLoader with IterableDataset: expected unspecified"
    if not is_pipe and shuffle not in {False, None}:
        raise ValueError(f"{prefix} shuffle option, but got shuffle={shuffle}")
    if sampler is not None:
        raise ValueError(f"{prefix} sampler option, but got sampler={sampler}")
    if batch_sampler is not None:
        raise ValueError(f"{prefix} batch_sampler option, but got batch_sampler={batch_sampler}")


class DataLoader(Generic[_T_co]):
    """Batches of `dataset`: an iterable that starts anew each time it is iterated.

    `batch_size` None turns batching off: samples come one by one, converted to tensors. `num_workers` processes load
    ahead, `prefetch_factor` batches each, and hand batches over in shared memory; `timeout` bounds the wait for one.
    `generator` seeds the order and the workers. docs/data.md says more.

    Arguments:
        dataset: what has samples: by index, or to be iterated
        batch_size: samples in a batch; None for samples one by one
        shuffle: whether each round has a new order
        sampler: gives the indices in their order, in place of `shuffle`
        batch_sampler: gives lists of indices, in place of `batch_size`, `shuffle`, `sampler` and `drop_last`
        num_workers: processes that load ahead; 0 loads in this one
        collate_fn: makes a batch of a list of samples; None stacks tensors
        pin_memory: whether batches lie in memory that a GPU reads directly
        drop_last: whether a last, smaller batch is left out
        timeout: seconds to wait for a batch; 0 for ever
        worker_init_fn: called in each worker with its number
        multiprocessing_context: how workers are started: "fork", "spawn" or "forkserver"
        generator: where the order comes from, and the seeds of the workers
        prefetch_factor: batches that each worker loads ahead; None for 2
        persistent_workers: whether workers live on after a round
        pin_memory_device: the device whose pinned memory is meant
        in_order: whether batches come in the order of their indices, even if a later one is ready

    Example:
        >>> data = rl.utils.data.TensorDataset(rl.arange(5.0), rl.arange(5) % 2)
        >>> for x, y in rl.utils.data.DataLoader(data, batch_size=2):
        ...     print(x, y)
        tensor([0., 1.]) tensor([0, 1])
        tensor([2., 3.]) tensor([0, 1])
        tensor([4.]) tensor([0])
    """

    dataset: Dataset[_T_co]
    batch_size: int | None
    num_workers: int
    pin_memory: bool
    drop_last: bool
    timeout: float
    sampler: Sampler | Iterable
    pin_memory_device: str
    prefetch_factor: int | None
    _iterator: _BaseDataLoaderIter | None
    __initialized = False

    def __init__(
        self,
        dataset: Dataset[_T_co],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Sampler | Iterable | None = None,
        batch_sampler: Sampler[list] | Iterable[list] | None = None,
        num_workers: int = 0,
        collate_fn: _collate_fn_t | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: _worker_init_fn_t | None = None,
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        _check_loading(num_workers, timeout, prefetch_factor, persistent_workers)
        self.dataset = self._wrap_datapipe(dataset)
        self.num_workers = num_workers
        self.prefetch_factor = 2 if num_workers > 0 and prefetch_factor is None else prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.in_order = in_order
        if isinstance(dataset, IterableDataset):
            self._dataset_kind = _DatasetKind.Iterable
            is_pipe = is_datapipe(dataset, "IterDataPipe")
            _check_stream(shuffle, sampler, batch_sampler, is_pipe)
            if is_pipe and shuffle is not None:
                graph_settings().apply_shuffle_settings(dataset, shuffle=shuffle)
        else:
            shuffle = bool(shuffle)
            self._dataset_kind = _DatasetKind.Map
        self.generator = generator
        self._choose_samplers(dataset, batch_size, shuffle, sampler, batch_sampler, drop_last)
        if collate_fn is None:
            collate_fn = default_collate if self._auto_collation else default_convert
        self.collate_fn = collate_fn
        self.persistent_workers = persistent_workers
        self.__initialized = True
        self._IterableDataset_len_called: int | None = None
        self._iterator = None
        self.check_worker_number_rationality()

    @staticmethod
    def _wrap_datapipe(dataset: Any) -> Any:
        if is_datapipe(dataset, "IterDataPipe", "MapDataPipe"):
            from .datapipes.datapipe import wrap_for_workers

            return wrap_for_workers(dataset)
        return dataset

    def _choose_samplers(
        self,
        dataset: Any,
        batch_size: int | None,
        shuffle: bool | None,
        sampler: Any,
        batch_sampler: Any,
        drop_last: bool,
    ) -> None:
        is_stream = self._dataset_kind == _DatasetKind.Iterable
        if sampler is not None and shuffle:
            raise ValueError("sampler decides on the order, so shuffle must not: give one of them")
        if batch_sampler is not None:
            # A shuffled datapipe arrives here with shuffle=True and no batch sampler: streams were checked above.
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError(
                    "batch_sampler takes the place of batch_size, shuffle, sampler and drop_last: give it alone"
                )
            batch_size, drop_last = None, False
        elif batch_size is None and drop_last:
            raise ValueError("batch_size=None makes no batches, so drop_last has nothing to drop")
        if sampler is None:
            if is_stream:
                sampler = _InfiniteConstantSampler()
            else:
                sampler = RandomSampler(dataset, generator=self.generator) if shuffle else SequentialSampler(dataset)
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler

    def _get_iterator(self) -> _BaseDataLoaderIter:
        if self.num_workers == 0:
            return _SingleProcessDataLoaderIter(self)
        self.check_worker_number_rationality()
        from ._utils.processes import _MultiProcessingDataLoaderIter

        return _MultiProcessingDataLoaderIter(self)

    @property
    def multiprocessing_context(self) -> Any:
        """How workers are started: a context of the multiprocessing module, or None for its default."""
        return self.__multiprocessing_context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: Any) -> None:
        if context is not None:
            import multiprocessing as python_multiprocessing  # not needed, and not loaded, in one process

            if self.num_workers <= 0:
                raise ValueError(
                    "multiprocessing_context: expected workers (num_workers > 0), "
                    f"got num_workers={self.num_workers}"
                )
            if isinstance(context, str):
                known = python_multiprocessing.get_all_start_methods()
                if context not in known:
                    raise ValueError(
                        f"multiprocessing_context: expected a start method of {known!r}, "
                        f"got {context!r}"
                    )
                context = python_multiprocessing.get_context(context)
            if not isinstance(context, python_multiprocessing.context.BaseContext):
                raise TypeError(
                    "multiprocessing_context: expected a context object or the name of a "
                    f"start method, got {context}"
                )
        self.__multiprocessing_context = context

    def __setattr__(self, attr: str, val: Any) -> None:
        if self.__initialized and attr in _FIXED:
            raise ValueError(f"{attr} attribute should not be set after {type(self).__name__} is initialized")
        super().__setattr__(attr, val)

    def __iter__(self) -> _BaseDataLoaderIter:
        if not self.persistent_workers or self.num_workers == 0:
            return self._get_iterator()
        # Workers that died, or that belong to the process this one was forked from, are replaced.
        if self._iterator is None or not self._iterator._can_resume():  # type: ignore[attr-defined]
            self._iterator = self._get_iterator()
        else:
            self._iterator._reset(self)
        return self._iterator

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        return self.batch_sampler if self._auto_collation else self.sampler

    def __len__(self) -> int:
        if self._dataset_kind != _DatasetKind.Iterable:
            return len(self._index_sampler)
        # What was said is remembered: iterators warn when the stream turns out to be longer.
        length = self._IterableDataset_len_called = len(self.dataset)  # type: ignore[arg-type]
        if self.batch_size is None:
            return length
        return length // self.batch_size if self.drop_last else -(-length // self.batch_size)

    def check_worker_number_rationality(self) -> None:
        """Warn when more workers are asked for than there are processors to run them."""
        if not self.num_workers:
            return
        available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        if available is not None and self.num_workers <= available:
            return
        warnings.warn(
            f"This DataLoader will create {self.num_workers} worker processes, and this "
            f"process may use {available} CPUs. "
            "More workers than CPUs "
            "mostly slow loading down: lower num_workers.",
            stacklevel=3,
        )


def __getattr__(name: str) -> Any:
    if name == "_MultiProcessingDataLoaderIter":
        from ._utils.processes import _MultiProcessingDataLoaderIter

        return _MultiProcessingDataLoaderIter
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
