"""What specialised paths gain: each is turned off, and its own cases are measured with it and without, by turns.

Enters: the paths of ablation_paths.py. Leaves: for every path its lines, the gain of each case (time without / time
with, less one) and a verdict: `keep` where some case gains 10% or more, `goes` where none does, `not on this processor`
where no case takes it here. A row cannot lie: a case counts only if the path is taken when it is on, is not when it is
off, and both results agree. Refuses nothing: a case that fails is said to, and the run goes on.

    python -m benchmarks ablation --threads 1 --clock cpu
    python -m benchmarks ablation --only triangles        one path
    python -m benchmarks ablation --quick                 the first case of each, shortly: whether the table still holds
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field

from benchmarks.ablation_paths import PATHS, Path, PathCase, freed
from benchmarks.cases import Section
from benchmarks.harness import Progress, Session, Worker, WorkerFailure
from benchmarks.report import show_seconds

BAR = 0.10          # a path that gains less everywhere goes
DOUBTFUL = 0.05     # distance from the bar within which a case is measured once more
STATES = ("on", "off")


@dataclass
class Gain:
    """One case of a path: its times in both states, or why there is no gain to speak of."""

    case: str
    times: dict[str, list[float]] = field(default_factory=lambda: {state: [] for state in STATES})
    problem: str = ""

    def value(self) -> float | None:
        """Median of what neighbouring rounds say."""
        pairs = list(zip(self.times["off"], self.times["on"]))
        return statistics.median(off / on - 1 for off, on in pairs) if pairs and not self.problem else None


def differs(first: list[float], second: list[float], tolerance: float) -> bool:
    """Whether two results are further apart than the largest number times `tolerance`; NaN is like NaN."""
    if len(first) != len(second):
        return True
    scale = max((abs(x) for x in first if math.isfinite(x)), default=1.0) or 1.0
    pairs = [(x, y) for x, y in zip(first, second) if not (math.isnan(x) and math.isnan(y))]
    return any(x != y and not abs(x - y) <= tolerance * scale for x, y in pairs)


def problem_of(case: PathCase, told: dict[str, dict]) -> str:
    """Why a case says nothing about its path, from the first answers of both states; "" where it does."""
    for state in STATES:
        if "error" in told[state]:
            return f"fails {state}: {told[state]['error']}"
    if not told["on"]["taken"]:
        return "not taken"
    if told["off"]["taken"]:
        return "taken though off"
    if differs(told["on"]["numbers"], told["off"]["numbers"], case.tolerance):
        return "results differ"
    return ""


def measure(session: Session, path: Path, cases: tuple[PathCase, ...], progress: Progress) -> list[Gain]:
    """The gains of a path's cases, in rounds that take turns between the states."""
    gains: list[Gain] = []
    for some in [(case,) for case in cases] if path.fresh else [cases]:
        gains += measure_some(session, path, some, progress)
    return gains


def measure_some(session: Session, path: Path, cases: tuple[PathCase, ...], progress: Progress) -> list[Gain]:
    """The same of cases that share a pair of processes."""
    gains = [Gain(case.name) for case in cases]
    workers: dict[str, Worker] = {}
    try:
        for state in STATES:
            workers[state] = Worker(f"{path.name}={state}", session.threads, session.patience, session.clock,
                                    "benchmarks.ablation_worker")
        for case, gain in zip(cases, gains, strict=True):
            progress.step(f"{path.name}: {case.name}")
            told = {state: workers[state].ask(case, session.at_least) for state in STATES}
            gain.problem = problem_of(case, told)
            if gain.problem:
                continue
            rounds(session, workers, case, gain, session.rounds)
            if session.rounds > 2 and abs(gain.value() - BAR) < DOUBTFUL:
                rounds(session, workers, case, gain, 2 * session.rounds)
    except WorkerFailure as failure:
        for gain in gains:
            gain.problem = gain.problem or ("" if gain.times["on"] else str(failure))
    finally:
        for worker in workers.values():
            worker.close()
    return gains


def rounds(session: Session, workers: dict[str, Worker], case: PathCase, gain: Gain, count: int) -> None:
    for turn in range(count):
        for state in STATES if turn % 2 == 0 else STATES[::-1]:
            gain.times[state].append(workers[state].ask(case, session.at_least)["seconds"])


def verdict(gains: list[Gain]) -> str:
    values = [value for gain in gains if (value := gain.value()) is not None]
    if values:
        return "keep" if max(values) >= BAR else "goes"
    return "not on this processor" if all(gain.problem == "not taken" for gain in gains) else "not measured"


def percent(value: float) -> str:
    return f"{value:+.0%}" if value < 1 else f"{value + 1:.1f}x"


def row_of(path: Path, gains: list[Gain]) -> list[str]:
    values = sorted(value for gain in gains if (value := gain.value()) is not None)
    spread = [values[0], statistics.median(values), values[-1]] if values else []
    said = " / ".join(percent(value) for value in spread) or "-"
    return [path.name, str(freed(path)), str(len(values)), said, verdict(gains)]


def details(path: Path, gains: list[Gain]) -> list[str]:
    """A line for every case."""
    lines = []
    for gain in gains:
        value = gain.value()
        if value is None:
            lines.append(f"  {path.name}: {gain.case}: {gain.problem or 'not measured'}")
            continue
        on, off = (show_seconds(statistics.median(gain.times[state])) for state in STATES)
        lines.append(f"  {path.name}: {gain.case}: {on} with, {off} without: {percent(value)}")
    return lines


def run(session: Session) -> list[Section]:
    """All paths whose name contains what is asked for."""
    paths = [path for path in PATHS if session.only in path.name]
    chosen = [path.cases[:1] if session.quick else path.cases for path in paths]
    progress = Progress(sum(map(len, chosen)))
    table = [["path", "lines", "cases", "gain: least / median / most", "verdict"]]
    lines: list[str] = []
    for path, cases in zip(paths, chosen, strict=True):
        gains = measure(session, path, cases, progress)
        table.append(row_of(path, gains))
        lines += details(path, gains)
    progress.close()
    text = ["| " + " | ".join(row) + " |" for row in table]
    text.insert(1, "| --- | --- | --- | --- | --- |")
    return [Section("what specialised paths gain", notes=[*text, "", *lines])]
