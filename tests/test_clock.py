"""The clock of the suite: what it keeps of a run, and which tests it names."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import clock
from tests.clock import LIMIT, Taken

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = '''
import subprocess, sys, time
import pytest

SPIN = "import time\\nend = time.process_time() + 0.2\\nwhile time.process_time() < end: pass"

def test_that_computes(): exec(SPIN)

def test_that_sleeps(): time.sleep(0.2)

def test_that_starts_another(): subprocess.run([sys.executable, "-c", SPIN], check=True)

@pytest.fixture(scope="module")
def helper():
    found = subprocess.Popen([sys.executable, "-c", "for line in iter(input, ''): exec(line); print(flush=True)"],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    yield found
    found.kill()
    found.wait()

def test_that_asks_a_helper(helper):
    print(f"exec({SPIN!r})", file=helper.stdin, flush=True)
    helper.stdout.readline()

computed = []

def test_that_computes_once():
    if not computed: exec(SPIN)
    computed.append(1)

@pytest.mark.slow
def test_that_is_marked(): pass

@pytest.mark.parametrize("word", ["slow"])
def test_that_is_called_so(word): pass

@pytest.mark.parametrize("n", range(9))
def test_of_many(n): pass
'''


def run(place: Path, *options: str) -> dict[str, Taken]:
    """What the clock keeps of a run over a small file of tests."""
    (place / "pytest.ini").write_text("[pytest]\nmarkers =\n  slow: so\n  ecosystem: so")
    (place / "conftest.py").write_text("from tests.conftest import *")
    (place / "test_program.py").write_text(PROGRAM)
    subprocess.run([sys.executable, "-m", "pytest", "-q", *options, place], cwd=ROOT, check=True, stdout=sys.stderr)
    found = clock.read(place / ".pytest_cache" / "v" / clock.RECORD)
    return {test.partition("::test_")[2]: taken for test, taken in found.items()}


def test_record_says_what_each_test_took_in_workers_and_descendants(tmp_path: Path) -> None:
    taken = run(tmp_path, "-n", "1")
    assert len(taken) == 16
    kernel_names_children = Path(f"/proc/self/task/{os.getpid()}/children").exists()
    for test in ("that_computes", "that_starts_another", *["that_asks_a_helper"] * kernel_names_children):
        assert taken[test].wall >= taken[test].call >= 0.19 and taken[test].own >= 0.15, test
    assert taken["that_sleeps"].call >= 0.19 and taken["that_sleeps"].own < 0.15
    assert [test for test, t in taken.items() if t.slow] == ["that_is_marked"]
    quick = [test for test, t in taken.items() if t.quick]
    assert "that_computes" in quick and "that_is_marked" not in quick
    assert len([test for test in quick if test.startswith("of_many")]) == 2


def test_record_of_what_was_still_to_pass_joins_the_one_before(tmp_path: Path) -> None:
    assert set(run(tmp_path, "-n", "0", "-k", "many")) == {f"of_many[{n}]" for n in range(9)}
    assert len(run(tmp_path, "-n", "0", "-k", "many or marked", "--still-to-pass")) == 10


def test_what_only_the_first_time_takes_is_not_counted_the_second(tmp_path: Path) -> None:
    once, twice = (run(tmp_path, "-n", "0", "-k", "computes", *more) for more in ([], ["--twice"]))
    assert once["that_computes_once"].own >= 0.15 > twice["that_computes_once"].own
    assert twice["that_computes"].own >= 0.15


OVER = 2 * LIMIT


@pytest.mark.parametrize(
    "taken, named",
    [
        (Taken(OVER, OVER, OVER, True, False), True),
        (Taken(OVER, OVER, OVER, False, True), False),      # marked
        (Taken(OVER, OVER, LIMIT / 2, True, False), False),   # others had the processor, or it slept
        (Taken(OVER, LIMIT / 2, OVER, True, False), False),   # many threads, or a slow fixture
    ],
)
def test_suspects_are_over_the_limit_by_both_clocks_without_the_mark(taken: Taken, named: bool) -> None:
    assert clock.suspects({"a": taken}, 1.0) == ["a"] * named
    assert clock.suspects({"a": taken}, 3.0) == []


@pytest.mark.parametrize("second, named", [(OVER, {"a": OVER / 1.5}), (LIMIT, {}), (None, {"a": OVER / 1.5})])
def test_only_what_is_over_the_limit_again_is_named(monkeypatch, second: float | None, named: dict) -> None:
    def again(tests: list[str]) -> dict[str, Taken]:
        assert tests == ["a"]
        return {} if second is None else {"a": Taken(second, second, second, True, False)}

    monkeypatch.setattr(clock, "run_again", again)
    monkeypatch.setattr(clock, "slowness", lambda: 1.5)
    fine = Taken(1.0, 1.0, 1.0, True, False)
    assert clock.too_slow({"a": Taken(OVER, OVER, OVER, True, False), "b": fine}) == named


def test_a_test_is_run_again_by_its_id() -> None:
    name = "tests/test_clock.py::test_suspects_are_over_the_limit_by_both_clocks_without_the_mark[taken0-True]"
    assert list(clock.run_again([name])) == [name]


def test_table_has_minutes_by_folder_and_the_budgets() -> None:
    taken = {
        "tests/ops/test_a.py::test_a": Taken(1200.0, 600.0, 600.0, True, False),
        "tests/test_b.py::test_b": Taken(1260.0, 60.0, 60.0, False, True),
    }
    assert clock.folder("tests/ops/test_a.py::test_a") == "ops" and clock.folder("tests/test_b.py::test_b") == "."
    shown = clock.table(taken).splitlines()
    assert shown[1].split() == ["21.00", "1.00", "1", "."] and shown[2].split() == ["20.00", "10.00", "1", "ops"]
    assert shown[4].split() == ["1260.0", "60.0", "60.0", "slow", "tests/test_b.py::test_b"]
    assert clock.budgets(taken, 49.0).splitlines() == [
        "whole: 49.0 minutes, within the budget of 50",
        "python -m pytest: 20.5 minutes, over the budget of 20",
        "--quick: 10.0 minutes, over the budget of 3",
    ]


def test_long_tests_are_noted_without_their_cases_and_without_what_is_marked() -> None:
    long, short = Taken(2 * clock.LONG, 1.0, 1.0, True, False), Taken(0.1, 0.1, 0.1, True, False)
    taken = {"a.py::test_b[1]": long, "a.py::test_b[2]": long, "a.py::test_c[1]": long, "a.py::test_c[2]": short,
             "a.py::test_c[3]": short, "a.py::test_d": long._replace(slow=True)}
    assert clock.long_tests(taken) == ["a.py::test_b"]
