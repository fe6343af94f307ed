"""Times of one statement, and what they say: median, spread, how many digits to believe.

Enters: wall times of runs, and a description of what ran. Leaves: statistics and a printed summary.
"""

from __future__ import annotations

import contextlib
import math
import struct
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
    share, gap = at - low, ordered[min(low + 1, len(ordered) - 1)] - ordered[low]
    # From the nearer neighbour, as PyTorch's lerp goes: the last digit agrees.
    return ordered[low] + share * gap if share < 0.5 else ordered[low] + gap - gap * (1 - share)


def single(x: float) -> float:
    """`x` as float32 keeps it: PyTorch's roundings of times are made there, and decide which digits are shown."""
    return struct.unpack("f", struct.pack("f", x))[0]


def single_log10(x: float) -> float:
    """The decimal logarithm in float32."""
    return single(math.log10(single(x)))


# What PyTorch's class keeps of its own statistics until they are asked for: written into pickles, so that it can read
# ours, and left alone in those it wrote.
_UNKNOWN = {"_sorted_times": (), "_warnings": (), "_median": -1.0, "_mean": -1.0, "_p25": -1.0, "_p75": -1.0}


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

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, **_UNKNOWN}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update({name: value for name, value in state.items() if name not in _UNKNOWN})

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
        middle = [single(t) for t in ordered[len(ordered) // 4 : math.ceil(3 * len(ordered) / 4)]]
        mean = math.fsum(middle) / len(middle)
        deviation = single(math.sqrt(math.fsum((t - mean) ** 2 for t in middle) / len(middle)))
        # 90 % of a normal distribution
        interval = max(1.645 * deviation / single(math.sqrt(len(middle))), MIN_CONFIDENCE_INTERVAL)
        return min(max(math.floor(single_log10(self.median / interval)), 1), MAX_SIGNIFICANT_FIGURES)

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
    def env(self) -> str | None:
        """The environment the task was said to run in; None unless it was."""
        return self.task_spec.env

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
    unit = {-3: "ns", -2: "us", -1: "ms"}.get(math.floor(single_log10(t) / 3) if t > 0 else 0, "s")
    return unit, {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1}[unit]


def unit_to_english(u: str) -> str:
    """The unit in words."""
    return {"ns": "nanosecond", "us": "microsecond", "ms": "millisecond", "s": "second"}[u]


def trim_sigfig(x: float, n: int) -> float:
    """`x` with `n` significant figures, as float32 keeps it. Refuses an `n` that is not whole."""
    if n != int(n):
        raise AssertionError(f"trim_sigfig: expected a whole number of significant figures, got {n}")
    scale = 10 ** (math.ceil(single_log10(abs(x))) - n) if x else 1
    return single(round(single(x / scale)) * single(scale))


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
