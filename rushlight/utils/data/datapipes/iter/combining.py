"""Steps that join pipes, and steps that make several out of one.

The children of `fork` and `demux` read one source through a shared container, which buffers what some of them have not
read yet; a buffer that would grow past `buffer_size` is an error. A new iterator of a child that has one already begins
a new pass for all of them.
"""

from __future__ import annotations

import copy as copying
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sized
from typing import Any

from .._decorator import functional_datapipe
from ..datapipe import IterDataPipe
from ..streams import StreamWrapper, check_callable

__all__ = [
    "ConcaterIterDataPipe",
    "DemultiplexerIterDataPipe",
    "ForkerIterDataPipe",
    "MultiplexerIterDataPipe",
    "ZipperIterDataPipe",
]


def _total(pipe: Any, lengths: Callable[[list[int]], int]) -> int:
    if not all(isinstance(dp, Sized) for dp in pipe.datapipes):
        raise TypeError(f"{type(pipe).__name__} instance doesn't have valid length")
    return lengths([len(dp) for dp in pipe.datapipes])


# --- several into one -------------------------------------------------------------------------------------------------


@functional_datapipe("concat")
class ConcaterIterDataPipe(IterDataPipe):
    """One pipe after another."""

    def __init__(self, *datapipes: IterDataPipe) -> None:
        if not datapipes:
            raise ValueError("expected at least one DataPipe, got none")
        if not all(isinstance(dp, IterDataPipe) for dp in datapipes):
            raise TypeError("Expected all inputs to be `IterDataPipe`")
        self.datapipes = datapipes

    def __iter__(self) -> Iterator:
        for dp in self.datapipes:
            yield from dp

    def __len__(self) -> int:
        return _total(self, sum)


@functional_datapipe("mux")
class MultiplexerIterDataPipe(IterDataPipe):
    """One sample of each pipe in turn, until one of them ends."""

    def __init__(self, *datapipes: IterDataPipe) -> None:
        self.datapipes = datapipes

    def __iter__(self) -> Iterator:
        for row in zip(*self.datapipes):
            yield from row

    def __len__(self) -> int:
        return _total(self, lambda lengths: min(lengths) * len(lengths))


@functional_datapipe("zip")
class ZipperIterDataPipe(IterDataPipe[tuple]):
    """Tuples of one sample of each pipe, until one of them ends."""

    def __init__(self, *datapipes: IterDataPipe) -> None:
        if not all(isinstance(dp, IterDataPipe) for dp in datapipes):
            raise TypeError("ZipIterDataPipe: expected IterDataPipes.")
        super().__init__()
        self.datapipes = datapipes

    def __iter__(self) -> Iterator[tuple]:
        yield from zip(*self.datapipes)

    def __len__(self) -> int:
        return _total(self, min)


# --- one into several -------------------------------------------------------------------------------------------------


class _Container(IterDataPipe):
    """What the children of one source share: its iterator, and a buffer of what each has still to read."""

    def __init__(self, datapipe: IterDataPipe, num_instances: int, buffer_size: int, name: str) -> None:
        if buffer_size < 0:
            warnings.warn(
                f"Unlimited buffer size is set for `{name}`, please be aware of OOM at random places",
                UserWarning,
                stacklevel=5,
            )
        self.main_datapipe = datapipe
        self.num_instances = num_instances
        self.buffer_size = buffer_size
        self.reset()

    def reset(self) -> None:
        self._datapipe_iterator: Iterator | None = None
        self.buffers: list[deque] = [deque() for _ in range(self.num_instances)]
        self.is_source_exhausted = False
        self.is_child_done = [True] * self.num_instances

    def __getstate__(self) -> dict:
        state = dict(self.__dict__)
        for transient in ("_datapipe_iterator", "buffers", "is_source_exhausted", "is_child_done"):
            state.pop(transient, None)
        return state

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state)
        self.reset()

    def is_every_instance_exhausted(self) -> bool:
        return self.is_source_exhausted and all(self.is_child_done)

    def distribute(self, value: Any) -> None:
        """Put a sample of the source into the buffers it belongs to."""
        raise NotImplementedError

    def check_room(self) -> None:
        raise NotImplementedError

    def get_next_element_by_instance(self, instance_id: int) -> Iterator:
        """The samples of one child."""
        if self._datapipe_iterator is None and self.is_child_done[instance_id]:
            self._datapipe_iterator = iter(self.main_datapipe)
            self.is_source_exhausted = False
            self.is_child_done = [False] * self.num_instances
        mine = self.buffers[instance_id]
        try:
            while not self.is_child_done[instance_id]:
                if mine:
                    yield self.hand_out(mine.popleft())
                elif self.is_source_exhausted:
                    return
                else:
                    try:
                        self.distribute(next(self._datapipe_iterator))  # type: ignore[arg-type]
                    except StopIteration:
                        self.is_source_exhausted = True
                        self._datapipe_iterator = None
                    self.check_room()
        finally:
            self.is_child_done[instance_id] = True
            StreamWrapper.close_streams(list(mine))
            mine.clear()
            if all(self.is_child_done):
                self._datapipe_iterator = None

    def hand_out(self, value: Any) -> Any:
        return value

    def get_length_by_instance(self, instance_id: int) -> int:
        raise TypeError(f"{type(self).__name__} cannot know how many samples child {instance_id} will get")


class _ForkerIterDataPipe(_Container):
    """Every child gets every sample."""

    _COPIES = {None: None, "shallow": copying.copy, "deep": copying.deepcopy}

    def __init__(self, datapipe: IterDataPipe, num_instances: int, buffer_size: int, copy: str | None) -> None:
        if copy not in self._COPIES:
            raise ValueError(f"copy: expected None, 'shallow' or 'deep', got {copy!r}.")
        self.copy = copy
        super().__init__(datapipe, num_instances, buffer_size, "fork")

    def distribute(self, value: Any) -> None:
        for buffer, is_done in zip(self.buffers, self.is_child_done):
            if not is_done:
                buffer.append(value)

    def check_room(self) -> None:
        # The child that reads takes its own copy out at once.
        if self.buffer_size >= 0 and max(map(len, self.buffers)) > self.buffer_size:
            raise BufferError(f"ForkerIterDataPipe buffer overflow, buffer size {self.buffer_size} is insufficient.")

    def hand_out(self, value: Any) -> Any:
        function = self._COPIES[self.copy]
        return value if function is None else function(value)

    def get_length_by_instance(self, instance_id: int) -> int:
        return len(self.main_datapipe)  # type: ignore[arg-type]

    __len__ = lambda self: len(self.main_datapipe)  # noqa: E731


class _DemultiplexerIterDataPipe(_Container):
    """Each sample goes to the child that `classifier_fn` names."""

    def __init__(
        self, datapipe: IterDataPipe, num_instances: int, classifier_fn: Callable, drop_none: bool, buffer_size: int
    ) -> None:
        self.classifier_fn = classifier_fn
        self.drop_none = drop_none
        super().__init__(datapipe, num_instances, buffer_size, "demux")

    def distribute(self, value: Any) -> None:
        child = self.classifier_fn(value)
        if child is None and self.drop_none:
            StreamWrapper.close_streams(value)
        elif child is None or not 0 <= child < self.num_instances:
            raise ValueError(f"classifier_fn: expected a number between 0 and {self.num_instances - 1}, got {child}.")
        else:
            self.buffers[child].append(value)

    def check_room(self) -> None:
        if self.buffer_size >= 0 and sum(map(len, self.buffers)) > self.buffer_size + 1:
            raise BufferError(
                f"DemultiplexerIterDataPipe buffer overflow, buffer size {self.buffer_size} is insufficient."
            )


class _ChildDataPipe(IterDataPipe):
    """One reader of a container."""

    _is_child_datapipe = True

    def __init__(self, main_datapipe: _Container, instance_id: int) -> None:
        self.main_datapipe = main_datapipe
        self.instance_id = instance_id

    def __iter__(self) -> Iterator:
        return self.main_datapipe.get_next_element_by_instance(self.instance_id)

    def __len__(self) -> int:
        return self.main_datapipe.get_length_by_instance(self.instance_id)

    def _set_main_datapipe_valid_iterator_id(self) -> int:
        main = self.main_datapipe
        if main._valid_iterator_id is None:
            main._valid_iterator_id = 0
        elif main._valid_iterator_id == self._valid_iterator_id:  # this child had its pass: a new one begins for all
            main._valid_iterator_id += 1
            if not main.is_every_instance_exhausted():
                warnings.warn(
                    "__iter__ was called before every child DataPipe had ended: the buffer is emptied, and each child "
                    "starts again.",
                    UserWarning,
                    stacklevel=4,
                )
            main.reset()
        self._valid_iterator_id = main._valid_iterator_id
        return self._valid_iterator_id

    def _check_valid_iterator_id(self, iterator_id: int) -> bool:
        return iterator_id == self._valid_iterator_id == self.main_datapipe._valid_iterator_id


def _check_count(num_instances: int) -> None:
    if num_instances < 1:
        raise ValueError(f"Expected `num_instances` larger than 0, but {num_instances} is found")


@functional_datapipe("fork")
class ForkerIterDataPipe(IterDataPipe):
    """A list of `num_instances` pipes that all read `datapipe` whole; `copy` says what each gets of a sample."""

    def __new__(
        cls, datapipe: IterDataPipe, num_instances: int, buffer_size: int = 1000, copy: str | None = None
    ) -> Any:
        _check_count(num_instances)
        if num_instances == 1:
            return datapipe
        container = _ForkerIterDataPipe(datapipe, num_instances, buffer_size, copy)
        return [_ChildDataPipe(container, i) for i in range(num_instances)]


@functional_datapipe("demux")
class DemultiplexerIterDataPipe(IterDataPipe):
    """A list of `num_instances` pipes; `classifier_fn` says which of them gets a sample, None to `drop_none`."""

    def __new__(
        cls,
        datapipe: IterDataPipe,
        num_instances: int,
        classifier_fn: Callable,
        drop_none: bool = False,
        buffer_size: int = 1000,
    ) -> Any:
        _check_count(num_instances)
        check_callable(classifier_fn)
        container = _DemultiplexerIterDataPipe(datapipe, num_instances, classifier_fn, drop_none, buffer_size)
        return [_ChildDataPipe(container, i) for i in range(num_instances)]
