"""Turns sections into text for people and JSON for programs."""

from __future__ import annotations

import os
import platform
import resource
from typing import Any

from benchmarks.cases import LIBRARIES, Row, Section


def show_seconds(value: float | None) -> str:
    if value is None:
        return "-"
    for limit, factor, unit in ((1e-6, 1e9, "ns"), (1e-3, 1e6, "µs"), (1.0, 1e3, "ms")):
        if value < limit:
            return f"{value * factor:.3g} {unit}" if value * factor < 100 else f"{value * factor:.0f} {unit}"
    return f"{value:.3g} s"


def show_percent(value: float | None) -> str:
    return "-" if value is None else f"±{value:.0%}"


def show_row(row: Row) -> list[str]:
    ratio = row.ratio()
    cells = [row.case, *(show_seconds(row.median(library)) for library in LIBRARIES)]
    cells.append("-" if ratio is None else f"{ratio:.2f}x")
    cells.append(" ".join(show_percent(row.spread(library)) for library in LIBRARIES))
    if row.floor is not None:
        share = row.share()
        cells.append("-" if share is None else f"{share:.0%}")
    return cells


def show_failures(rows: list[Row]) -> list[str]:
    """One line per library and reason, however many cases share it."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for library, error in row.errors.items():
            reasons.setdefault((library, error), []).append(row.case)
    return [f"  failed on {library}: {', '.join(cases) if len(cases) < 4 else f'{len(cases)} cases'}: {error}"
            for (library, error), cases in reasons.items()]


def show_section(section: Section) -> str:
    lines = [section.title, "-" * len(section.title)]
    if section.rows:
        floors = ["of floor"] if section.rows[0].floor is not None else []
        table = [["case", *LIBRARIES, "ratio", "spread", *floors], *(show_row(row) for row in section.rows)]
        widths = [max(len(line[column]) for line in table) for column in range(len(table[0]))]
        for line in table:
            cells = [line[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:]))]
            lines.append("  " + "  ".join(cells))
        lines += show_failures(section.rows)
    for check in section.checks:
        verdict = {True: "met", False: "MISSED", None: "no bar"}[check.passed]
        bar = f" (bar: {check.bar})" if check.bar else ""
        lines.append(f"  {check.name}: {check.shown}{bar}: {verdict}")
    lines += [f"  {note}" for note in section.notes]
    return "\n".join(lines)


def cpu_name() -> str:
    """The processor's name as Linux tells it, or the architecture."""
    try:
        with open("/proc/cpuinfo") as handle:
            for line in handle:
                if line.lower().startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def busy_seconds() -> tuple[float, float]:
    """Seconds of processor time since boot: spent by all programs, and available in all (Linux; else zeros)."""
    try:
        with open("/proc/stat") as handle:
            ticks = [int(field) for field in handle.readline().split()[1:9]]
    except OSError:
        return 0.0, 0.0
    idle = ticks[3] + ticks[4]
    return (sum(ticks) - idle) / os.sysconf("SC_CLK_TCK"), sum(ticks) / os.sysconf("SC_CLK_TCK")


def own_seconds() -> float:
    """Processor time of this process and the measuring ones that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


class Neighbours:
    """How much of the machine other programs took while this one measured."""

    def __init__(self) -> None:
        self.busy, self.total = busy_seconds()
        self.own = own_seconds()

    def share(self) -> float:
        busy, total = busy_seconds()
        others = (busy - self.busy) - (own_seconds() - self.own)
        return max(0.0, others / (total - self.total)) if total > self.total else 0.0


def describe_machine(threads: int, versions: dict[str, str]) -> dict[str, Any]:
    return {"cpu": cpu_name(), "machine": platform.machine(), "system": platform.platform(),
            "python": platform.python_version(), "threads": threads, **versions}


def show_machine(machine: dict[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in machine.items())


def as_data(section: Section) -> dict[str, Any]:
    """The section as JSON-ready data, every round included."""
    rows = [{"case": row.case, "ratio": row.ratio(), "errors": row.errors, "seconds": row.times,
             "floor": row.floor, "median": {library: row.median(library) for library in LIBRARIES},
             "spread": {library: row.spread(library) for library in LIBRARIES}} for row in section.rows]
    checks = [vars(check) for check in section.checks]
    return {"title": section.title, "rows": rows, "checks": checks, "notes": section.notes}
