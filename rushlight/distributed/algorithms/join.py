"""Uneven inputs: a process that has run out of data goes on answering the collectives of those that have not.

A class whose steps make collectives is `Joinable`: it says by a `JoinHook` what a joined process must do in place of a
step, and when all have joined. In a `Join` context every step begins with a count of the processes that still have data
(`Join.notify_join_context`); joined ones take part in the count, and answer, until it is zero.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Any, NamedTuple

from ... import _C
from ...op import find_op
from ..collectives import all_reduce
from ..reduce_op import ReduceOp
from ..work import Work

__all__ = ["Join", "JoinHook", "Joinable"]
_empty = find_op("empty")
_MANY_STEPS = 1000


class JoinHook:
    """What a joined process does in place of a step (`main_hook`) and at the end (`post_hook`)."""

    def main_hook(self) -> None:
        """Answer the collectives of one step."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """All have joined; the last to do so may be the one with the newest state."""


class _JoinConfig(NamedTuple):
    enable: bool
    throw_on_early_termination: bool
    is_first_joinable: bool

    @staticmethod
    def construct_disabled_join_config() -> _JoinConfig:
        """Outside a Join context."""
        return _JoinConfig(False, False, False)


class Joinable(ABC):
    """Something whose steps make collectives."""

    def __init__(self) -> None:
        super().__init__()
        self._join_config = _JoinConfig.construct_disabled_join_config()

    @abstractmethod
    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What a joined process does for this object."""

    @property
    @abstractmethod
    def join_device(self) -> _C.device:
        """Where the count is kept."""

    @property
    @abstractmethod
    def join_process_group(self) -> Any:
        """Whose steps are counted."""


def _count(number: int, group: Any) -> int:
    """How many processes have data, this one counting for `number`."""
    total = _empty(1, dtype=_C.int64).fill_(number)
    all_reduce(total, group=group)
    return int(total)


class Join:
    """Inside, processes may take different numbers of steps: `with Join([model, optimizer]): ...`"""

    def __init__(
        self, joinables: list[Joinable], enable: bool = True, throw_on_early_termination: bool = False, **kwargs: Any
    ) -> None:
        if not joinables:
            raise ValueError("Join: the list of joinables is empty")
        self._joinables = joinables
        self._hooks = [joinable.join_hook(**kwargs) for joinable in joinables]
        self._enable, self._throws = enable, throw_on_early_termination
        groups = {id(joinable.join_process_group): joinable.join_process_group for joinable in joinables}
        if len(groups) > 1:
            raise ValueError("Join: all joinables must use one process group")
        self._group = next(iter(groups.values()))
        for place, joinable in enumerate(joinables):
            joinable._join_config = _JoinConfig(enable, throw_on_early_termination, place == 0)

    def __enter__(self) -> Join:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._enable or kind is not None:
            return
        joined_with, steps = -1, 0
        while True:
            with_data = _count(0, self._group)
            if not with_data:
                break
            if self._throws:
                self._tell_all_to_stop()
            joined_with = with_data
            for hook in self._hooks:
                hook.main_hook()
            steps += 1
            if steps == _MANY_STEPS:
                warnings.warn(
                    f"Join: this process has answered {steps} steps of others without data of its own. Its share of "
                    f"the data is much smaller than theirs",
                    stacklevel=2,
                )
        is_last = joined_with == -1         # nobody had data left when this process came
        for hook in self._hooks:
            hook.post_hook(is_last)

    def _tell_all_to_stop(self) -> None:
        stop = _empty(1, dtype=_C.int64).fill_(1)
        all_reduce(stop, ReduceOp.MAX, self._group)
        raise RuntimeError("Join: this process has no data left, and throw_on_early_termination was asked for")

    @staticmethod
    def notify_join_context(joinable: Joinable) -> Work | None:
        """A step begins: be counted among those with data. Called by every joinable before its collectives."""
        if not hasattr(joinable, "_join_config"):
            raise AttributeError(f"{type(joinable).__name__}.__init__ must call Joinable.__init__")
        config = joinable._join_config
        if not config.enable or not config.is_first_joinable:
            return None
        group = joinable.join_process_group
        with_data = _empty(1, dtype=_C.int64).fill_(1)
        work = all_reduce(with_data, group=group, async_op=True)
        if config.throw_on_early_termination:
            work.wait()
            if int(with_data) < group.size():
                stop = _empty(1, dtype=_C.int64).fill_(0)
                all_reduce(stop, ReduceOp.MAX, group)
                raise RuntimeError(
                    "Join: another process has no data left, and throw_on_early_termination was asked for"
                )
        return work
