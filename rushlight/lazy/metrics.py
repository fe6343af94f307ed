"""Counters and times of lazy devices.

Enters: names, from whoever counts. Leaves: what was counted, and a report in text.
"""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence

from ..base.show import is_shown, show
from ..base.sources import PACKAGE

_counters: dict[str, int] = {}
_waiting: dict[tuple[str, int], list] = {}      # what `count_all` was given, and how often
SAMPLES = 1 << 16      # that are kept of each name
_times: dict[str, deque[tuple[float, float]]] = {}      # when, and how many seconds


def count(name: str, by: int = 1) -> None:
    """One more of `name`."""
    _counters[name] = _counters.get(name, 0) + by


def count_all(prefix: str, times: Mapping[str, int]) -> None:
    """Many at once, under `prefix::name`. They are the same whenever the same object is given."""
    entry = _waiting.get((prefix, id(times)))
    if entry is None:
        entry = _waiting[prefix, id(times)] = [prefix, times, 0]
    entry[2] += 1


def _settle() -> None:
    """Names are put together when somebody asks."""
    waiting = list(_waiting.values())
    _waiting.clear()
    for prefix, times, often in waiting:
        for name, by in times.items():
            count(f"{prefix}::{name}", by * often)


def tell(title: str, text: str) -> None:
    """RUSHLIGHT_SHOW=lazy: what happened, and the line of the program that it happened at."""
    if is_shown("lazy"):
        show("lazy", title, f"{text}, at {current_line()}")


class timed:  # noqa: N801 - reads as a word behind `with`
    """The seconds inside are one more sample of `name`."""

    __slots__ = ("name", "start")

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        self.start = time.perf_counter()

    def __exit__(self, *error: object) -> None:
        taken = time.perf_counter() - self.start
        found = _times.get(self.name)
        if found is None:
            found = _times[self.name] = deque(maxlen=SAMPLES)
        found.append((time.time(), taken))


def current_line() -> str:
    """`file:line` of the program that asks for something now."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith((PACKAGE + os.sep, "<")):
        frame = frame.f_back
    return "an unknown line" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def counter_names() -> list[str]:
    """Names of the counters that are not 0."""
    _settle()
    return sorted(_counters)


def counter_value(name: str) -> int:
    """How often `name` was counted since the last reset."""
    _settle()
    return _counters.get(name, 0)


def metric_names() -> list[str]:
    """Names of what was timed."""
    return sorted(_times)


def samples(name: str) -> list[tuple[float, float]]:
    """Of each sample of `name` when it was taken, and its seconds."""
    return list(_times.get(name, ()))


def reset_counters() -> None:
    """Begin to count anew."""
    _counters.clear()
    _waiting.clear()


def reset_times() -> None:
    """Forget what was timed."""
    _times.clear()


def reset() -> None:
    """Begin to count and to time anew."""
    reset_counters()
    reset_times()


def metrics_report(counters: Sequence[str] | None = None, times: Sequence[str] | None = None) -> str:
    """Counters, and times with their percentiles, as text: all of them, or those that are named."""
    lines = []
    for name in metric_names() if times is None else [n for n in times if n in _times]:
        taken = sorted(seconds for _, seconds in _times[name])
        lines += [f"Metric: {name}", f"  TotalSamples: {len(taken)}", f"  Accumulator: {sum(taken) * 1e3:.3f}ms"]
        marks = (0.01, 0.05, 0.1, 0.2, 0.5, 0.8, 0.9, 0.95, 0.99)
        shown = [f"{p:.0%}={taken[min(int(p * len(taken)), len(taken) - 1)] * 1e3:.3f}ms" for p in marks]
        lines.append("  Percentiles: " + "; ".join(shown))
    for name in counter_names() if counters is None else [n for n in counters if n in _counters]:
        lines += [f"Counter: {name}", f"  Value: {_counters[name]}"]
    return "\n".join(lines) + "\n"
