"""The suite finds what is wrong: every chip with a fault fails in the fault's area, by the quick run too.

A telling handful runs here each time; all of them are swept in turns, each in a process of its own, since a chip that
writes where it must not may take its process with it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rushlight.conform import AREAS, Chip, cases_of
from rushlight.conform.runner import Event, run_case
from rushlight.devices import register

from .faults import FAULTS

ROOT = Path(__file__).parents[2]
HANDFUL = ("seeds_cut", "state_of_its_own", "long_copies_cut", "strided_copies_are_dense", "waits_ignored",
           "queries_say_yes", "negative_times", "checks_not_written")


def first_failure(name: str) -> Event | None:
    """The first case of the quick run that fails in the area that must find a chip's fault."""
    register(FAULTS[name]())
    chip, area = Chip.find(name, quick=True), FAULTS[name].area
    events = (run_case(one, chip) for one in cases_of(area, chip))
    return next((event for event in events if event.kind == "failed"), None)


@pytest.mark.parametrize("name", HANDFUL)
def test_a_fault_is_found(name):
    failure = first_failure(name)
    assert failure is not None, f"{name} passed: {FAULTS[name].__doc__}"
    assert failure.message and name in failure.repro


def test_there_are_faults_in_every_area():
    assert len(FAULTS) >= 25
    assert {chip.area for chip in FAULTS.values()} == set(AREAS) - {"performance"}


@pytest.mark.slow
@pytest.mark.share(20)
@pytest.mark.parametrize("name", [name for name in FAULTS if name not in HANDFUL])
def test_each_fault_is_found(name):
    done = subprocess.run(
        [sys.executable, "-m", "tests.conform.test_faults", name], cwd=ROOT, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=600,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith(("{", "null"))]
    assert lines, done.stderr[-2000:]
    assert json.loads(lines[0]) is not None, f"{name} passed: {FAULTS[name].__doc__}"


if __name__ == "__main__":
    found = first_failure(sys.argv[1])
    print(json.dumps(found and vars(found)), flush=True)
