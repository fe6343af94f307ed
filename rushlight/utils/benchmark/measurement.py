"""Times of one statement, and what they say: median, spread, how many digits to believe.

Enters: wall times of runs, and a description of what ran. Leaves: statistics and a printed summary.
"""

from __future__ import annotations

import contextlib
import math
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Any

from ... import _C

MAX_SIGNIFICANT_FIGURES = 4
MIN_CONFIDENCE_INTERVAL = 25e-9        # seconds: clocks tell no more
IQR_WARN_THRESHOLD, IQR_GROSS_WARN_THRESHOLD = 0.1, 0.25


@dataclass(frozen=True, repr=False)
class TaskSpec:
    """What a timer runs, without its globals."""

    stmt: str
    setup: str
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """The label, or the statement itself."""
        if self.label is None and "\n" in self.stmt:
            return f"stmt:{f' ({self.sub_label})' if self.sub_label else ''}\n{textwrap.indent(self.stmt, '  ')}"
        return (self.label if self.label is not None else self.stmt) + (f": {self.sub_label}" if self.sub_label else "")

    def setup_str(self) -> str:
        """The setup, if it does something."""
        if not self.setup or self.setup == "pass":
            return ""
        return f"setup:\n{textwrap.indent(self.setup, '  ')}" if "\n" in self.setup else f"setup: {self.setup}"

    def summarize(self) -> str:
        """Title, description and setup, each on lines of its own."""
        parts = [self.title, self.description or "", self.setup_str()]
        return "\n".join(f"{part}\n" if "\n" in part else part for part in parts if part)


_SPEC_FIELDS = tuple(f.name for f in fields(TaskSpec))


def quantile(ordered: list[float], q: float) -> float:
    """The value below which a share `q` of sorted numbers lies, between neighbours linearly."""
    at = q * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


@dataclass(repr=False)
class Measurement:
    """Times of `number_per_run` runs of a statement, one or more of them.
    Fields of the task can be read from it directly."""

    number_per_run: int
    raw_times: list[float]
    task_spec: TaskSpec
    metadata: dict[Any, Any] | None = None

    def __getattr__(self, name: str) -> Any:
        if name in _SPEC_FIELDS:
            return getattr(self.task_spec, name)
        raise AttributeError(f"'Measurement' object has no attribute {name!r}")

    @property
    def times(self) -> list[float]:
        """Seconds per run of the statement."""
        return [t / self.number_per_run for t in self.raw_times]

    def _quantile(self, q: float) -> float:
        return quantile(sorted(self.times), q) if self.raw_times else -1.0

    @property
    def median(self) -> float:
        """The middle time."""
        return self._quantile(0.5)

    @property
    def mean(self) -> float:
        """The average time."""
        return sum(self.times) / len(self.raw_times) if self.raw_times else -1.0

    @property
    def iqr(self) -> float:
        """The distance between the quartiles."""
        return self._quantile(0.75) - self._quantile(0.25)

    @property
    def significant_figures(self) -> int:
        """How many digits of the median to believe, from the spread of the middle half of the times."""
        ordered = sorted(self.times)
        middle = ordered[len(ordered) // 4 : math.ceil(3 * len(ordered) / 4)]
        mean = sum(middle) / len(middle)
        deviation = math.sqrt(sum((t - mean) ** 2 for t in middle) / len(middle))
        # 90 % of a normal distribution
        interval = max(1.645 * deviation / math.sqrt(len(middle)), MIN_CONFIDENCE_INTERVAL)
        return min(max(math.floor(math.log10(self.median / interval)), 1), MAX_SIGNIFICANT_FIGURES)

    def meets_confidence(self, threshold: float = IQR_WARN_THRESHOLD) -> bool:
        """Whether the quartiles are close together, compared with the median."""
        return self.iqr / self.median < threshold

    @property
    def has_warnings(self) -> bool:
        """Whether the times spread more than they should."""
        return bool(self._warning())

    def _warning(self) -> str:
        if not self.raw_times or self.meets_confidence():
            return ""
        gross = not self.meets_confidence(IQR_GROSS_WARN_THRESHOLD)
        reason = (
            "This suggests significant environmental influence." if gross else "This could indicate system fluctuation."
        )
        return (
            f"  WARNING: Interquartile range is {self.iqr / self.median * 100:.1f}% of the median measurement.\n       "
            f"    {reason}"
        )

    @property
    def title(self) -> str:
        """The task's title."""
        return self.task_spec.title

    @property
    def env(self) -> str:
        """The environment the task was said to run in."""
        return "Unspecified env" if self.task_spec.env is None else self.task_spec.env

    @property
    def as_row_name(self) -> str:
        """What names this measurement's row in a table."""
        return self.sub_label or self.stmt or "[Unknown]"

    def __repr__(self) -> str:
        count, (unit, scale) = len(self.raw_times), select_unit(self.median)
        many, threads = count > 1, self.num_threads
        lines = [
            object.__repr__(self),
            self.task_spec.summarize(),
            f"  {'Median: ' if many else ''}{self.median / scale:.2f} {unit}",
        ]
        if count >= 4:
            lines.append(
                f"  IQR:    {self.iqr / scale:.2f} {unit} ({self._quantile(0.25) / scale:.2f} to"
                f" {self._quantile(0.75) / scale:.2f})"
            )
        lines.append(
            f"  {count} measurement{'s' * many}, {self.number_per_run} runs {'per measurement,' if many else ','}"
            f" {threads} thread{'s' * (threads > 1)}"
        )
        return "\n".join([*lines, self._warning()]).strip()

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """One measurement per task, with the times of all its replicates."""
        groups: dict[TaskSpec, list[float]] = {}
        for m in measurements:
            groups.setdefault(m.task_spec, []).extend(m.times)
        return [Measurement(1, times, task) for task, times in groups.items()]


def select_unit(t: float) -> tuple[str, float]:
    """The unit in which a time has one to three digits before the point, and its length in seconds."""
    unit = {-3: "ns", -2: "us", -1: "ms"}.get(math.floor(math.log10(t) / 3) if t > 0 else 0, "s")
    return unit, {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1}[unit]


def unit_to_english(u: str) -> str:
    """The unit in words."""
    return {"ns": "nanosecond", "us": "microsecond", "ms": "millisecond", "s": "second"}[u]


def trim_sigfig(x: float, n: int) -> float:
    """`x` with `n` significant figures."""
    assert n == int(n), "trim_sigfig: the number of figures must be whole"
    scale = 10.0 ** (math.ceil(math.log10(abs(x))) - n)
    return round(x / scale) * scale


def ordered_unique(elements: Iterable[Any]) -> list[Any]:
    """Elements without repetitions, in order."""
    return list(dict.fromkeys(elements))


@contextlib.contextmanager
def set_torch_threads(n: int) -> Iterator[None]:
    """A context with `n` threads."""
    before = _C.get_num_threads()
    _C.set_num_threads(n)
    try:
        yield
    finally:
        _C.set_num_threads(before)
