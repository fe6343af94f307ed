"""Processes forked from a warm helper are like new ones."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.warm import Helper

MODULE = """
import os, sys, time

state = []

def report(pipe):
    state.append(1)
    said = (state, os.getcwd(), os.environ.get("GIVEN"), "never" in os.environ)
    os.write(pipe, repr(said).encode())
    print("out")
    print("err", file=sys.stderr)

def leave(how):
    how() if callable(how) else sys.exit(how)

def raises():
    raise ValueError("mine")

def sleep():
    time.sleep(60)
"""


@pytest.fixture
def helper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Helper]:
    (tmp_path / "of_warm.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("never", "again")
    base = Helper(["json"])
    found = Helper(["of_warm", "no.such.module"], base)
    monkeypatch.delenv("never")
    yield found
    found.close()
    base.close()


def test_each_has_new_state_and_what_its_caller_has_now(helper: Helper, tmp_path: Path, monkeypatch) -> None:
    import of_warm

    for number in range(2):
        place = tmp_path / str(number)
        place.mkdir()
        monkeypatch.chdir(place)
        monkeypatch.setenv("GIVEN", str(number))
        with open("out", "w") as out, open("err", "w") as err:
            ours, theirs = os.pipe()
            process = helper.start(of_warm.report, files=[theirs], out=out.fileno(), err=err.fileno())
            os.close(theirs)
        with open(ours) as pipe:
            assert pipe.read() == repr(([1], str(place), str(number), False))
        assert helper.wait(process, 10) == 0
        assert Path("out").read_text() == "out\n" and Path("err").read_text() == "err\n"
    assert of_warm.state == []


def test_exit_status_is_that_of_a_program(helper: Helper, tmp_path: Path) -> None:
    import of_warm

    assert helper.wait(helper.start(of_warm.leave, 0), 10) == 0
    assert helper.wait(helper.start(of_warm.leave, 7), 10) == 7
    assert helper.wait(helper.start(of_warm.leave, os.abort), 10) == -signal.SIGABRT
    with open(tmp_path / "err", "w") as err:
        assert helper.wait(helper.start(of_warm.raises, err=err.fileno()), 10) == 1
    assert "ValueError: mine" in (tmp_path / "err").read_text()


def test_what_does_not_end_is_killed(helper: Helper) -> None:
    import of_warm

    start = time.monotonic()
    assert helper.wait(helper.start(of_warm.sleep), 0.1) == -signal.SIGKILL
    assert time.monotonic() - start < 30
