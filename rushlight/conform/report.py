"""What the suite found, as text for a terminal, as JSON and as a page of tables."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Area:
    """How many cases of an area passed, failed, and were skipped (by reason: their names)."""

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

    def as_json(self) -> dict[str, Any]:
        """The report as plain data."""
        return {
            "device": self.device,
            "areas": {
                name: {
                    "passed": area.passed, "failed": area.failed, "skipped": area.skipped,
                    "seconds": round(area.seconds, 3),
                }
                for name, area in self.areas.items()
            },
            "failures": [vars(failure) for failure in self.failures],
            "performance": self.performance,
        }
