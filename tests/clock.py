"""How long each test takes: a record that every run keeps, and a look at it.

As a plugin (`Clock`, from conftest.py) it measures each test and keeps what the whole run took in pytest's cache; with
`--still-to-pass` it adds to the record of the run before. The worker that runs a test measures it, the process that
hears of all tests keeps the record. As a program it reads such a record,

    python -m tests.clock RECORD [--whole MINUTES] [--look-again] [--note-long]

and prints minutes by folder of tests/, the slowest tests, and the budgets. With `--look-again` a test that takes over
`LIMIT` seconds without the mark `slow` makes it fail; `.ci/run` does that. With `--note-long` it writes down which
tests the quick tier leaves out for their length (tiers.py).

A verdict must not hang on what else the machine does, or on which machine it is. So

- a test's seconds are the lesser of wall and processor time (its own process and its descendants) of its call alone.
  Other load stretches the one but not the other, and threads that spin inflate the other alone. Sleep is therefore not
  judged: it costs a worker's time, which the minutes by folder show.
- seconds are those of the machine on which the limit was set: they are divided by how many times longer a loop of
  plain Python takes here (`slowness`), in processor time, at the same moment. A faster machine gets no stricter limit.
- a test that seems too slow is run again, with the other suspects, in one process after everything else, twice on end,
  and only if it is over the limit each time is it named. Its first run may have compiled kernels, or imported packages,
  that it shares with others; then the later ones find them.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from _pytest.runner import runtestprotocol

from tests.shares import turn_of_the_tree
from tests.tiers import NOTED, chosen

ROOT = Path(__file__).resolve().parent.parent
RECORD = "rushlight/durations"   # in pytest's own cache
LIMIT = 5.0                      # seconds a test may take without the mark `slow`
LONG = 0.5                       # seconds a case may take, on average, for the quick tier to have its test
SHOWN = 30                       # slowest tests that are printed
LOOKED_AT = 40                   # suspects that are run again: more mean that the machine, not a test, is at fault
WORKERS = 2                      # what the budgets are stated for
BUDGET = {"whole": 50.0, "python -m pytest": 20.0, "--quick": 3.0}   # minutes
LOOP = 0.028                     # processor seconds of `_loop` where the limit was set
TICKS = os.sysconf("SC_CLK_TCK")
QUICK = pytest.StashKey[bool]()
SPENT = pytest.StashKey[float]()   # processor seconds of the call


class Taken(NamedTuple):
    """What is kept of a test."""

    wall: float       # seconds with setup and teardown
    call: float       # of these, the test itself
    processor: float  # of the test itself: its process and descendants
    quick: bool       # whether it is in the quick tier
    slow: bool        # whether it is marked so

    @property
    def own(self) -> float:
        """The seconds that the limit is about."""
        return min(self.call, self.processor)


# --- while tests run --------------------------------------------------------------------------------------------------


def processor_seconds() -> float:
    """Of this process and its descendants: those it has waited for, and where Linux names them those that live, such as
    helpers that serve several tests."""
    return sum(os.times()[:4]) + sum(map(_of_child, _children(os.getpid())))


def _children(process: int) -> list[int]:
    try:
        return [int(child) for task in Path(f"/proc/{process}/task").iterdir()
                for child in (task / "children").read_text().split()]
    except OSError:   # it has ended, or this kernel does not say
        return []


def _of_child(process: int) -> float:
    """Seconds of a process, of the children it has waited for, and of those that live."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / TICKS + sum(map(_of_child, _children(process)))


class Clock:
    """Measures where tests run, and keeps the record where all of them are heard of."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.taken: dict[str, Taken] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Before anything is left out: the quick tier is of all that there is."""
        for item in chosen(items):
            item.stash[QUICK] = True

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        """With `--twice`, once without being heard of, before the time that counts."""
        if self.config.getoption("--twice"):
            runtestprotocol(item, log=False, nextitem=item)
            item._initrequest()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        before = processor_seconds()
        try:
            return (yield)
        finally:
            item.stash[SPENT] = processor_seconds() - before

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo) -> Iterator[pytest.TestReport]:
        report = yield
        # Plain attributes go along from a worker.
        report.processor = item.stash.get(SPENT, 0.0) if call.when == "call" else 0.0
        report.tiers = item.stash.get(QUICK, False), item.get_closest_marker("slow") is not None
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        # The report of a worker that died was written by another process, which measured nothing.
        tiers, processor = getattr(report, "tiers", (False, False)), getattr(report, "processor", 0.0)
        so_far = self.taken.get(report.nodeid, Taken(0.0, 0.0, 0.0, *tiers))
        called = report.duration if report.when == "call" else 0.0
        self.taken[report.nodeid] = so_far._replace(
            wall=round(so_far.wall + report.duration, 3),
            call=round(so_far.call + called, 3),
            processor=round(so_far.processor + processor, 3),
        )

    def pytest_sessionfinish(self) -> None:
        if hasattr(self.config, "workerinput"):
            return
        before = self.config.cache.get(RECORD, {}) if self.config.getoption("--still-to-pass") else {}
        self.config.cache.set(RECORD, {**before, **self.taken})


# --- afterwards -------------------------------------------------------------------------------------------------------


def read(record: Path) -> dict[str, Taken]:
    return {test: Taken(*values) for test, values in json.loads(record.read_text()).items()}


def _loop() -> int:
    """A fixed piece of plain Python."""
    found: dict[int, int] = {}
    for number in range(100_000):
        found[number % 1000] = found.get(number % 1000, 0) + len(str(number))
    return sum(found.values())


def slowness() -> float:
    """How many times longer than on the machine of the limit this one takes; at least 1."""
    seconds = []
    for _ in range(9):
        before = time.process_time()
        _loop()
        seconds.append(time.process_time() - before)
    return max(1.0, statistics.median(seconds) / LOOP)


def suspects(taken: dict[str, Taken], slower: float) -> list[str]:
    """Tests over the limit without the mark, the slowest first."""
    over = {test: t.own for test, t in taken.items() if not t.slow and t.own > LIMIT * slower}
    return sorted(over, key=over.get, reverse=True)


def folder(test: str) -> str:
    """The folder of tests/ that a test is in, and `.` for those beside them."""
    parts = test.partition("::")[0].split("/")
    return parts[1] if len(parts) > 2 else "."


def table(taken: dict[str, Taken]) -> str:
    """Minutes by folder, and the slowest tests."""
    rooms: dict[str, list[Taken]] = defaultdict(list)
    for test, t in taken.items():
        rooms[folder(test)].append(t)
    lines = ["minutes of one worker, of its processor, tests, and the folder:"]
    for room, tests in sorted(rooms.items(), key=lambda pair: -sum(t.wall for t in pair[1])):
        wall, processor = (sum(getattr(t, name) for t in tests) / 60 for name in ("wall", "processor"))
        lines.append(f"{wall:8.2f} {processor:8.2f} {len(tests):7} {room}")
    lines.append("seconds, of these the test itself, of its processor, and the test:")
    for test, t in sorted(taken.items(), key=lambda pair: -pair[1].wall)[:SHOWN]:
        lines.append(f"{t.wall:8.1f} {t.call:8.1f} {t.processor:8.1f} {'slow ' if t.slow else '     '}{test}")
    return "\n".join(lines)


def long_tests(taken: dict[str, Taken]) -> list[str]:
    """Tests, without their cases, that take too long for the quick tier though they are not marked `slow`."""
    cases: dict[str, list[float]] = defaultdict(list)
    for test, t in taken.items():
        if not t.slow:
            cases[test.partition("[")[0]].append(t.wall)
    return sorted(test for test, seconds in cases.items() if statistics.mean(seconds) > LONG)


def budgets(taken: dict[str, Taken], whole: float | None) -> str:
    """Minutes against what they may be: of a whole run where they are given, of the others by what the tests in them
    took."""
    found = {} if whole is None else {"whole": whole}
    found["python -m pytest"] = sum(t.wall for t in taken.values()) / 60 / WORKERS
    found["--quick"] = sum(t.wall for t in taken.values() if t.quick) / 60 / WORKERS
    return "\n".join(f"{name}: {minutes:.1f} minutes, {'over' if minutes > BUDGET[name] else 'within'} "
                     f"the budget of {BUDGET[name]:.0f}" for name, minutes in found.items())


def run_again(tests: list[str]) -> dict[str, Taken]:
    """The record of these tests, run by one process."""
    with tempfile.TemporaryDirectory() as place:
        options = ["-n", "0", "--twice", "-q", "--no-header", "--no-summary", "-o", f"cache_dir={place}",
                   "--turn", turn_of_the_tree()]
        command = [sys.executable, "-m", "pytest", *options, *tests]
        subprocess.run(command, cwd=ROOT, check=False, stdout=subprocess.DEVNULL)
        record = Path(place, "v", RECORD)
        return read(record) if record.exists() else {}


def too_slow(taken: dict[str, Taken]) -> dict[str, float]:
    """Tests that are over the limit without the mark each time they are looked at, and their seconds."""
    first = suspects(taken, slowness())[:LOOKED_AT]
    if not first:
        return {}
    slower = slowness()
    again = run_again(first)
    slower = max(slower, slowness())
    # One that was not run again (its id is not one that a command line can name) is judged by its first run.
    least = {test: min(taken[test], again.get(test, taken[test]), key=lambda t: t.own) for test in first}
    return {test: least[test].own / slower for test in suspects(least, slower)}


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m tests.clock", description="What a record of durations says.")
    options.add_argument("record", type=Path)
    options.add_argument("--whole", type=float, help="minutes that the whole run took")
    options.add_argument("--look-again", action="store_true", help="fail if a test is too slow for its lack of a mark")
    options.add_argument("--note-long", action="store_true", help="write what the quick tier leaves out for its length")
    given = options.parse_args()
    taken = read(given.record)
    if given.note_long:
        NOTED.write_text("".join(f"{test}\n" for test in long_tests(taken)))
    print(table(taken), budgets(taken, given.whole), sep="\n", flush=True)
    named = too_slow(taken) if given.look_again else {}
    for test, seconds in named.items():
        print(f"too slow: {test} took {seconds:.1f} s, over {LIMIT:.0f}, and is not marked `slow`")
    return 1 if named else 0


if __name__ == "__main__":
    sys.exit(main())
