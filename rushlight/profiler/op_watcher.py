"""Every op that runs, told to somebody while it runs: execution traces, and ranges for other tools' profilers.

Enters: two functions. Leaves: a context in which `begin(op, args, kwargs)` is called before each op below autograd and
`end(token, result)` after it (the token is what `begin` gave), on the thread that opened it; and, if asked for, the
program's labels in the same way. It is a dispatch mode: nothing of it is there while no such context is open.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..autograd import labels
from ..dispatch.modes import TorchDispatchMode


class OpWatcher(TorchDispatchMode):
    """Tells of each op, before and after it."""

    def __init__(self, begin: Callable[[Any, tuple, dict], Any], end: Callable[[Any, Any], None]) -> None:
        super().__init__()
        self._begin, self._end = begin, end

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        token = self._begin(func, args, kwargs)
        result = None
        try:
            result = func(*args, **kwargs)
        finally:
            self._end(token, result)
        return result


class _Told:
    """A label's handle: the recording's own, and what the watcher gave for it."""

    __slots__ = ("handle", "token")

    def __init__(self, handle: int, token: Any) -> None:
        self.handle, self.token = handle, token


class LabelWatcher:
    """Tells of each `record_function` from `start` to `stop`; one of them at a time."""

    def __init__(self, begin: Callable[[str], Any], end: Callable[[Any], None]) -> None:
        self._tell_begin, self._tell_end = begin, end

    def start(self) -> None:
        self._before = labels._begin, labels._end
        labels._begin, labels._end = self._begin, self._end   # type: ignore[assignment]

    def stop(self) -> None:
        labels._begin, labels._end = self._before

    def _begin(self, name: str, args: str | None = None) -> Any:
        return _Told(self._before[0](name, args), self._tell_begin(name))

    def _end(self, told: Any) -> None:
        if not isinstance(told, _Told):          # begun before the watcher was
            self._before[1](told)
            return
        self._tell_end(told.token)
        self._before[1](told.handle)
