"""`torch.monitor`: counters that report themselves, and events that programs send to whoever listens.

Enters: numbers added to a `Stat`, events given to `log_event`. Leaves: an event per window of a `Stat` and every logged
event, handed to each registered handler on the thread that logged. Refuses event data that is no number,
text or truth value.
"""

from __future__ import annotations

import datetime
import enum
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

STAT_EVENT = "torch.monitor.Stat"
data_value_t = int | float | bool | str


class Aggregation(enum.Enum):
    """What a `Stat` reports of the numbers added to it."""

    VALUE = 0
    MEAN = 2
    COUNT = 3
    SUM = 4
    MAX = 5
    MIN = 6

    def __str__(self) -> str:
        return f"Aggregation.{self.name}"


VALUE, MEAN, COUNT, SUM, MAX, MIN = Aggregation


class Event:
    """Something that happened: a name, when, and what is to be said of it."""

    def __init__(self, name: str, timestamp: datetime.datetime, data: dict[str, data_value_t]) -> None:
        for key, value in data.items():
            if not isinstance(key, str) or not isinstance(value, (int, float, bool, str)):
                raise TypeError(
                    f"Event: expected data to map text to int, float, bool or text, got {key!r}: {type(value).__name__}"
                )
        self.name, self.timestamp, self.data = name, timestamp, data


class EventHandlerHandle:
    """What `register_event_handler` returns, to unregister with."""

    def __init__(self, callback: Callable[[Event], None]) -> None:
        self.callback = callback


_handlers: list[EventHandlerHandle] = []
_lock = threading.RLock()


def register_event_handler(callback: Callable[[Event], None]) -> EventHandlerHandle:
    """Hand every event logged from now on to `callback`."""
    handle = EventHandlerHandle(callback)
    with _lock:
        _handlers.append(handle)
    return handle


def unregister_event_handler(handler: EventHandlerHandle) -> None:
    """Hand no more events to a callback."""
    with _lock:
        if handler in _handlers:
            _handlers.remove(handler)


def log_event(event: Event) -> None:
    """Hand an event to every registered handler."""
    for handle in tuple(_handlers):
        handle.callback(event)


class Stat:
    """Numbers, put together over windows of time; each window that ends is logged as an event.

    Windows follow each other without gaps. Once `max_samples` numbers are in one it is logged,
    and what else arrives in it is dropped.
    """

    def __init__(
        self,
        name: str,
        aggregations: Sequence[Aggregation],
        window_size: datetime.timedelta,
        max_samples: int = 2**63 - 1,
    ) -> None:
        self.name = name
        self._aggregations = sorted(set(aggregations), key=lambda kind: kind.value)
        self._window, self._most = window_size, max_samples
        self._values: list[float] = []
        self._last: list[float] = []
        self._number, self._is_logged = self._now(), False     # of the window
        self._own_lock = threading.Lock()

    def add(self, v: float) -> None:
        """Add a number."""
        with self._own_lock:
            self._end_window_if_over()
            if self._is_logged:
                return
            self._values.append(float(v))
            if len(self._values) >= self._most:
                self._end_window()
                self._is_logged = True

    @property
    def count(self) -> int:
        """How many numbers are in the window."""
        with self._own_lock:
            self._end_window_if_over()
            return len(self._values)

    def get(self) -> dict[Aggregation, float]:
        """The aggregations of the window that ended last; zeros before."""
        with self._own_lock:
            self._end_window_if_over()
            return self._aggregated(self._last)

    def _end_window_if_over(self) -> None:
        if self._now() != self._number:
            self._end_window()
            self._number, self._is_logged = self._now(), False

    def _now(self) -> int:
        return time.monotonic_ns() // max(int(self._window.total_seconds() * 1e9), 1)

    def _end_window(self) -> None:
        if self._values:
            self._last, self._values = self._values, []
            data: dict[str, int | float | bool | str] = {
                f"{self.name}.{kind.name.lower()}": value
                for kind, value in self._aggregated(self._last).items()
            }
            log_event(Event(STAT_EVENT, datetime.datetime.now(), data))

    def _aggregated(self, values: list[float]) -> dict[Aggregation, float]:
        total = sum(values)
        found = {
            VALUE: values[-1] if values else 0.0, MEAN: total / len(values) if values else 0.0,
            COUNT: float(len(values)), SUM: float(total), MAX: max(values, default=0.0), MIN: min(values, default=0.0),
        }
        return {kind: found[kind] for kind in self._aggregations}

    def __del__(self) -> None:
        if getattr(self, "_values", None):
            self._end_window()


class TensorboardEventHandler:
    """A handler that writes the numbers of every `Stat` to a `SummaryWriter`."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def __call__(self, event: Event) -> None:
        if event.name == STAT_EVENT:
            for name, value in event.data.items():
                self._writer.add_scalar(name, value, walltime=event.timestamp.timestamp())
