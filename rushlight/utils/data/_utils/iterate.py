"""Iterators over a DataLoader: what both kinds share, and the one that loads in this process.

Enters: a DataLoader. Leaves: its batches. Random numbers are drawn in PyTorch's order: the workers' base seed when the
iterator is made, the sampler's own seed when the first index is asked for.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from typing import Any

from .... import _C, _extras
from ...._C import Generator
from ....autograd.labels import record_function
from ....base import late
from ..distributed import process_group
from ..sampler import draw_seed
from .fetch import _DatasetKind
from .pin_memory import pin_memory

_PACKAGE = __name__.rpartition("._utils")[0]


def is_datapipe(dataset: Any, *kinds: str) -> bool:
    """Whether `dataset` is of one of these datapipe classes; nothing is while their module is not even loaded."""
    module = sys.modules.get(f"{_PACKAGE}.datapipes.datapipe")
    return module is not None and isinstance(dataset, tuple(getattr(module, kind) for kind in kinds))


def graph_settings() -> Any:
    """The module that sets up graphs of datapipes; loaded only where there are some."""
    return importlib.import_module(f"{_PACKAGE}.graph_settings")


def accelerator() -> Any:
    """The `accelerator` module when it exists and a device is there, else None."""
    module = late.provided("accelerator")
    return module if module.is_available() else None


def _share_dist_seed(generator: Generator | None, group: Any) -> int:
    """A seed all processes of `group` agree on; this process's own without a group."""
    seed = draw_seed(generator)
    if group is None:
        return seed
    shared = _C.from_data(seed, _C.int64, None)
    process_group().broadcast(shared, src=0, group=group)
    return shared.item()


class _BaseDataLoaderIter:
    """Draws indices, counts batches, warns about streams longer than they said."""

    def __init__(self, loader: Any) -> None:
        self._dataset = loader.dataset
        self._shared_seed: int | None = None
        self._pg = None
        # Nobody has joined a group while the package that makes them is not even loaded.
        group = process_group() if late.is_loaded("distributed") else None
        joined = group is not None and group.is_initialized()
        self._world_size, self._rank = (group.get_world_size(), group.get_rank()) if joined else (1, 0)
        self._is_datapipe = is_datapipe(self._dataset, "IterDataPipe")
        if self._is_datapipe:
            self._pg = group.new_group(backend="gloo") if joined else None
            self._seed_datapipe(loader)
        self._dataset_kind = loader._dataset_kind
        self._IterableDataset_len_called = loader._IterableDataset_len_called
        self._auto_collation = loader._auto_collation
        self._drop_last = loader.drop_last
        self._index_sampler = loader._index_sampler
        self._num_workers = loader.num_workers
        self._pin_memory = loader.pin_memory and _can_pin(loader)
        self._pin_memory_device = accelerator().current_accelerator().type if self._pin_memory else None
        self._timeout = loader.timeout
        self._collate_fn = loader.collate_fn
        self._sampler_iter = iter(self._index_sampler)
        self._base_seed = draw_seed(loader.generator)
        self._persistent_workers = loader.persistent_workers
        self._num_yielded = 0

    def _seed_datapipe(self, loader: Any) -> None:
        self._shared_seed = _share_dist_seed(loader.generator, self._pg)
        generator = Generator()
        generator.manual_seed(self._shared_seed)
        self._dataset = graph_settings().apply_random_seed(self._dataset, generator)

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        self._sampler_iter = iter(self._index_sampler)
        self._num_yielded = 0
        self._IterableDataset_len_called = loader._IterableDataset_len_called
        if self._is_datapipe:
            self._seed_datapipe(loader)

    def _next_index(self) -> Any:
        return next(self._sampler_iter)

    def _next_data(self) -> Any:
        raise NotImplementedError

    def __iter__(self) -> _BaseDataLoaderIter:
        return self

    def __next__(self) -> Any:
        if not _extras.profile_is_on():
            return self._next_batch()
        with record_function(f"enumerate(DataLoader)#{type(self).__name__}.__next__"):
            return self._next_batch()

    def _next_batch(self) -> Any:
        data = self._next_data()
        self._num_yielded += 1
        if self._IterableDataset_len_called is not None and self._num_yielded > self._IterableDataset_len_called:
            self._warn_length()
        return data

    def _warn_length(self) -> None:
        text = (
            f"Length of IterableDataset {self._dataset} was reported to be {self._IterableDataset_len_called}"
            f"(when accessing len(dataloader)), but {self._num_yielded} samples have been fetched. "
        )
        if self._num_workers > 0:
            text += (
                "With workers, that happens where the IterableDataset does not share its elements out "
                "among them: every worker iterates over its own copy. See get_worker_info."
            )
        warnings.warn(text, stacklevel=3)

    def __len__(self) -> int:
        return len(self._index_sampler)

    def __getstate__(self) -> Any:
        raise NotImplementedError("{} cannot be pickled", type(self).__name__)


def _can_pin(loader: Any) -> bool:
    """Whether pinning is possible; what the user asked for in vain is said in a warning."""
    if loader.pin_memory_device:
        warnings.warn(
            "pin_memory_device is deprecated: memory is pinned for the current accelerator, "
            f"not for '{loader.pin_memory_device}'.",
            stacklevel=4,
        )
    if accelerator() is None:
        warnings.warn(
            "DataLoader: pin_memory=True has no effect where no accelerator is found.",
            stacklevel=4,
        )
        return False
    return True


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    """Loads each batch when it is asked for."""

    def __init__(self, loader: Any) -> None:
        super().__init__(loader)
        if self._timeout != 0:
            raise AssertionError("_SingleProcessDataLoaderIter requires timeout == 0")
        if self._num_workers != 0:
            raise AssertionError("_SingleProcessDataLoaderIter requires num_workers == 0")
        if is_datapipe(self._dataset, "IterDataPipe", "MapDataPipe"):
            graph_settings().apply_sharding(self._dataset, self._world_size, self._rank)
        self._dataset_fetcher = _DatasetKind.create_fetcher(
            self._dataset_kind, self._dataset, self._auto_collation, self._collate_fn, self._drop_last
        )

    def _next_data(self) -> Any:
        data = self._dataset_fetcher.fetch(self._next_index())
        return pin_memory(data, self._pin_memory_device) if self._pin_memory else data
