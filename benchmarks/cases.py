"""What a benchmark is made of: cases, groups with their bars, and the rows of a report.

Plain frozen records, shared by the process that measures (worker.py), the one that asks (harness.py) and the
one that prints (report.py). Nothing here imports torch or rushlight.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

LIBRARIES = ("torch", "rushlight")


@dataclass(frozen=True)
class Case:
    """One measured statement over the name `torch`, which is either library.

    `setup` runs once; `prologue` runs before every `unroll` repetitions of `code` (it keeps graphs that would
    otherwise grow without bound short, and its cost is shared by the repetitions). A case whose timed part is
    only a piece of it leaves `code` empty and defines `sample(clock) -> seconds` in `setup` instead.
    `per` divides the time: 100 for a statement that does the same thing 100 times.
    """

    name: str
    code: str = ""
    setup: str = ""
    prologue: str = ""
    unroll: int = 1
    per: int = 1


@dataclass(frozen=True)
class Group:
    """Cases that one bar speaks of: ratios are time of torch / time of rushlight, so more is better."""

    name: str
    title: str
    cases: tuple[Case, ...]
    mean_bar: float | None = None
    worst_bar: float | None = None


@dataclass
class Row:
    """What came out of one case: seconds per round for each library, or the reason there are none."""

    case: str
    times: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in LIBRARIES})
    errors: dict[str, str] = field(default_factory=dict)
    spent: dict[str, float] = field(default_factory=lambda: dict.fromkeys(LIBRARIES, 0.0))
    floor: float | None = None   # seconds that the machine needs at least, where that is known

    def share(self) -> float | None:
        """The floor over our time: 1 is as fast as the machine can be."""
        median = self.median("rushlight")
        return None if median is None or self.floor is None else self.floor / median

    def median(self, library: str) -> float | None:
        return statistics.median(self.times[library]) if self.times[library] else None

    def spread(self, library: str) -> float | None:
        """Half the distance between the quartiles, relative to the median."""
        times = sorted(self.times[library])
        if len(times) < 2:
            return None
        low, _, high = statistics.quantiles(times, n=4, method="inclusive")
        return (high - low) / 2 / statistics.median(times)

    def ratio(self) -> float | None:
        """Median of the ratios of neighbouring rounds: what slows the machine for a while slows both."""
        pairs = list(zip(self.times["torch"], self.times["rushlight"]))
        return statistics.median(first / second for first, second in pairs) if pairs else None


@dataclass(frozen=True)
class Check:
    """A single number against its bar."""

    name: str
    shown: str
    bar: str
    passed: bool | None


@dataclass
class Section:
    """One part of the report: a comparison, single checks, or both."""

    title: str
    rows: list[Row] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(statistics.fmean(math.log(value) for value in values))


def checks_of(group: Group, rows: list[Row]) -> list[Check]:
    """The group's geometric mean and worst ratio, against its bars. A case that failed fails the group."""
    ratios = {row.case: ratio for row in rows if (ratio := row.ratio()) is not None}
    missing = [row.case for row in rows if "rushlight" in row.errors]
    if not ratios:
        return [Check("ratios", "none measured", "", False)]
    worst = min(ratios, key=ratios.__getitem__)

    def check(name: str, value: float, bar: float | None, detail: str = "") -> Check:
        text = f"{value:.2f}x{detail}"
        if missing:
            text += f", {len(missing)} of {len(rows)} cases failed"
        passed = None if bar is None else value >= bar and not missing
        return Check(name, text, "" if bar is None else f"at least {bar:g}x", passed)

    return [check("geometric mean", geometric_mean(list(ratios.values())), group.mean_bar),
            check("worst", ratios[worst], group.worst_bar, f" ({worst})")]
