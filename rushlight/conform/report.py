"""What the suite found, as plain data and as text for a terminal; `page.py` makes a page of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass
class Area:
    """How many cases of an area passed and failed, and which were skipped, by reason."""

    passed: int = 0
    failed: int = 0
    seconds: float = 0.0
    reasons: dict[str, list[str]] = field(default_factory=dict)

    @property
    def skipped(self) -> int:
        return sum(map(len, self.reasons.values()))

    def skip(self, case: str, reason: str) -> None:
        self.reasons.setdefault(reason, []).append(case)


@dataclass
class Failure:
    """A case that failed, why, and a script that shows it alone."""

    area: str
    case: str
    message: str
    repro: str


@dataclass
class Event:
    """Something that happens while the suite runs: "area" and "begin" say what comes, "passed", "failed" and "skipped"
    what came of a case."""

    kind: str
    area: str
    case: str = ""
    message: str = ""
    repro: str = ""
    seconds: float = 0.0
    measured: list[dict[str, Any]] = field(default_factory=list)
    on_host: dict[str, int] = field(default_factory=dict)


@dataclass
class Report:
    """All of it."""

    device: str
    quick: bool = False
    areas: dict[str, Area] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    performance: list[dict[str, Any]] = field(default_factory=list)
    on_host: Counter[str] = field(default_factory=Counter)
    """Ops that the device has no function for, and how often the host was asked for them."""

    @property
    def passed(self) -> bool:
        return not self.failures

    def enter(self, event: Event) -> None:
        """Take in what happened."""
        area = self.areas.setdefault(event.area, Area())
        if event.kind == "passed":
            area.passed += 1
        elif event.kind == "skipped":
            area.skip(event.case, event.message)
        elif event.kind == "failed":
            area.failed += 1
            self.failures.append(Failure(event.area, event.case, event.message, event.repro))
        area.seconds += event.seconds
        self.performance += event.measured
        self.on_host.update(event.on_host)

    def count(self, what: str) -> int:
        """How many cases "passed", "failed" or were "skipped" in all."""
        return sum(getattr(area, what) for area in self.areas.values())

    def as_json(self) -> dict[str, Any]:
        """The report as plain data. Ops that the host computed are among the figures: each such call is two copies."""
        return {
            "device": self.device,
            "areas": {
                name: {
                    "passed": area.passed, "failed": area.failed, "skipped": area.skipped,
                    "seconds": round(area.seconds, 3),
                }
                for name, area in self.areas.items()
            },
            "failures": [asdict(failure) for failure in self.failures],
            "performance": [*self.performance, *self.host_rows()],
        }

    def host_rows(self) -> Iterator[dict[str, Any]]:
        """The ops that the host computed for the device, as figures."""
        for op, calls in self.on_host.most_common():
            yield {"name": f"{op}, computed on the host", "value": calls, "unit": "calls", "host": None}

    def verdict(self) -> str:
        """One line: whether it passed."""
        ran, skipped = self.count("passed") + self.count("failed"), self.count("skipped")
        rest = f", {skipped} skipped" if skipped else ""
        if not ran:
            return f"{self.device}: no case ran{rest}"
        if self.failures:
            where = ", ".join(name for name, area in self.areas.items() if area.failed)
            return f"{self.device}: {len(self.failures)} of {ran} cases failed, in {where}{rest}"
        return f"{self.device}: all of {ran} cases passed{rest}"


def figure(value: float) -> str:
    """A number by three digits, without powers of ten where they can be avoided."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def lines(report: Report) -> Iterator[str]:
    """The report for a terminal: tables, failures with the first one's script, and the verdict last."""
    yield f"{'area':<14}{'passed':>8}{'failed':>8}{'skipped':>9}{'seconds':>9}"
    for name, area in report.areas.items():
        yield f"{name:<14}{area.passed:>8}{area.failed or '-':>8}{area.skipped or '-':>9}{area.seconds:>9.1f}"
    yield from skipped_lines(report)
    if report.performance:
        yield ""
        yield f"{'figures':<34}{'device':>10}{'host':>10}"
        for row in report.performance:
            host = "" if row["host"] is None else figure(row["host"])
            yield f"{row['name']:<34}{figure(row['value']):>10}{host:>10} {row['unit']}"
    if report.on_host:
        calls = ", ".join(f"{op} ({times})" for op, times in report.on_host.most_common())
        yield ""
        yield f"computed on the host, the device having no function for them (calls): {calls}"
    yield from failed_lines(report)
    yield ""
    yield report.verdict()


def skipped_lines(report: Report) -> Iterator[str]:
    """Why cases were skipped."""
    if report.count("skipped"):
        yield ""
    for name, area in report.areas.items():
        for reason, cases in area.reasons.items():
            yield f"skipped in {name}: {len(cases)}, because {reason}"


def failed_lines(report: Report) -> Iterator[str]:
    """What failed, and the script of the first."""
    for failure in report.failures:
        yield ""
        yield f"FAILED {failure.area}: {failure.case}"
        yield from (f"    {line}" for line in failure.message.splitlines()[:8])
    if report.failures:
        yield ""
        yield "The first of them alone (--json and --html have a script for each):"
        yield ""
        yield from (f"    {line}".rstrip() for line in report.failures[0].repro.splitlines())
