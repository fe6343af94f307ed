"""Steps between samples and batches of samples."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from .._decorator import functional_datapipe
from ..datapipe import DataChunk, IterDataPipe
from ..steps import Batched
from ..streams import check_callable
from .source import length_of

__all__ = ["BatcherIterDataPipe", "GrouperIterDataPipe", "UnBatcherIterDataPipe"]

_T_co = TypeVar("_T_co", covariant=True)


@functional_datapipe("batch")
class BatcherIterDataPipe(Batched, IterDataPipe[DataChunk]):
    """Chunks of `batch_size` consecutive samples; the last may be shorter, or dropped."""

    def __iter__(self) -> Iterator[DataChunk]:
        batch: list = []
        for x in self.datapipe:
            batch.append(x)
            if len(batch) == self.batch_size:
                yield self.wrapper_class(batch)
                batch = []
        if batch and not self.drop_last:
            yield self.wrapper_class(batch)

    def __len__(self) -> int:
        total = length_of(self, self.datapipe)
        return total // self.batch_size if self.drop_last else -(-total // self.batch_size)


@functional_datapipe("unbatch")
class UnBatcherIterDataPipe(IterDataPipe):
    """The samples inside batches, `unbatch_level` levels down; -1 for all levels."""

    def __init__(self, datapipe: IterDataPipe, unbatch_level: int = 1) -> None:
        self.datapipe = datapipe
        self.unbatch_level = unbatch_level

    def __iter__(self) -> Iterator:
        if self.unbatch_level < -1:
            raise ValueError("unbatch_level must be -1 or >= 0")
        for element in self.datapipe:
            yield from self._dive(element, self.unbatch_level)

    def _dive(self, element: Any, level: int) -> Iterator:
        is_batch = isinstance(element, list)
        if level == 0 or (level == -1 and not is_batch):
            yield element
        elif not is_batch:
            raise IndexError(f"unbatch_level {self.unbatch_level} exceeds the depth of the DataPipe")
        else:
            for item in element:
                yield from self._dive(item, max(level - 1, -1))


@functional_datapipe("groupby")
class GrouperIterDataPipe(IterDataPipe[DataChunk]):
    """Chunks of samples with one key, given out when `group_size` are there, or when the buffer is full the largest.

    At the end what is left is given out; a group smaller than `guaranteed_group_size` that the full buffer forces out
    is an error, or dropped with `drop_remaining`.
    """

    def __init__(
        self,
        datapipe: IterDataPipe[_T_co],
        group_key_fn: Callable[[_T_co], Any],
        *,
        keep_key: bool = False,
        buffer_size: int = 10000,
        group_size: int | None = None,
        guaranteed_group_size: int | None = None,
        drop_remaining: bool = False,
    ) -> None:
        check_callable(group_key_fn)
        if group_size is not None and buffer_size is not None and not 0 < group_size <= buffer_size:
            raise AssertionError("group_size must be > 0 and <= buffer_size")
        if guaranteed_group_size is not None and (group_size is None or not 0 < guaranteed_group_size <= group_size):
            raise AssertionError(
                "guaranteed_group_size: expected at least 1 and at most group_size, which must be given"
            )
        self.datapipe = datapipe
        self.group_key_fn = group_key_fn
        self.keep_key = keep_key
        self.max_buffer_size = buffer_size
        self.group_size = group_size
        self.guaranteed_group_size = group_size if guaranteed_group_size is None else guaranteed_group_size
        self.drop_remaining = drop_remaining
        self.wrapper_class = DataChunk
        self.reset()

    def reset(self) -> None:
        self.buffer_elements: defaultdict[Any, list] = defaultdict(list)
        self.curr_buffer_size = 0

    def _take(self, key: Any) -> list:
        group = self.buffer_elements.pop(key)
        self.curr_buffer_size -= len(group)
        return group

    def _make_room(self) -> list | None:
        """The largest group, taken out of the buffer; None if it is too small and to be dropped."""
        key = max(self.buffer_elements, key=lambda k: len(self.buffer_elements[k]))
        group = self._take(key)
        if self.guaranteed_group_size is None or len(group) >= self.guaranteed_group_size:
            return group
        if not self.drop_remaining:
            raise RuntimeError("Failed to group items", str(group))
        return None

    def _wrap(self, key: Any, group: list) -> Any:
        chunk = self.wrapper_class(group)
        return (key, chunk) if self.keep_key else chunk

    def __iter__(self) -> Iterator:
        for x in self.datapipe:
            key = self.group_key_fn(x)
            self.buffer_elements[key].append(x)
            self.curr_buffer_size += 1
            if self.group_size is not None and len(self.buffer_elements[key]) == self.group_size:
                yield self._wrap(key, self._take(key))
            if self.curr_buffer_size == self.max_buffer_size:
                group = self._make_room()
                if group is not None:
                    yield self._wrap(self.group_key_fn(group[0]), group)
        for key in tuple(self.buffer_elements):
            yield self._wrap(key, self._take(key))
