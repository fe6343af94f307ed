"""Whether an answer is right: a child runs it, this process runs the solution, and compares.

Enters: an exercise and a file. Leaves: a verdict of two sentences, with the smallest input on which the two differ,
and what the answer printed, cut. Refuses: to wait longer than `SECONDS`, and to read more than a bounded amount of
what the child says.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from ..base import environment
from . import running
from .exercise import Exercise
from .plain import difference, same, show

SECONDS = 30.0
PRINTED = 2000               # bytes kept of what an answer prints
REPORTED = 64 << 20          # bytes read of what a child reports
NOTHING_YET = "Nothing was asked of it yet."
QUIET = {"RUSHLIGHT_NOTICE": "0"}
PACKAGE_HOME = str(Path(__file__).resolve().parents[2])


@dataclass(frozen=True)
class Verdict:
    """Whether an answer passed, why not in two sentences, and what it printed."""

    passed: bool
    message: str
    printed: str = ""


@dataclass
class Run:
    """A child that ended, or was ended: what it reported, printed, and how it went."""

    records: list[running.Record]
    printed: str
    status: int
    is_late: bool


def check(exercise: Exercise, path: Path, seconds: float = SECONDS) -> Verdict:
    """The verdict on the answer in a file."""
    with tempfile.TemporaryDirectory(prefix="rushlight-learn-") as folder:
        child, reports = start(exercise, path, folder)
        try:
            wanted = running.expected(exercise)       # while the child starts
            run = follow(child, reports, seconds)
        finally:
            end(child)
            os.close(reports)
    passed, message = judge(exercise, wanted, run, seconds)
    return Verdict(passed, message, run.printed)


def start(exercise: Exercise, path: Path, folder: str) -> tuple[subprocess.Popen[bytes], int]:
    """A child in an empty folder, and the pipe that its records come from."""
    reports, descriptor = os.pipe()
    found = os.pathsep.join([PACKAGE_HOME, *filter(None, sys.path)])
    try:
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", f"{__package__}.child", exercise.id, str(path.resolve()), str(descriptor)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=environment.with_changes({"PYTHONPATH": found, "PYTHONDONTWRITEBYTECODE": "1", **QUIET}),
            pass_fds=(descriptor,),
            start_new_session=True,
        )
    except BaseException:
        os.close(reports)
        raise
    finally:
        os.close(descriptor)
    return child, reports


def follow(child: subprocess.Popen[bytes], reports: int, seconds: float) -> Run:
    """Read what a child says until it ends, says that it is done, or its time is over."""
    assert child.stdout is not None
    deadline, printed = time.monotonic() + seconds, child.stdout.fileno()
    limits = {reports: REPORTED, printed: PRINTED}
    kept: dict[int, bytearray] = {descriptor: bytearray() for descriptor in limits}
    is_late = False
    with selectors.DefaultSelector() as selector:
        for descriptor in limits:
            selector.register(descriptor, selectors.EVENT_READ)
        while selector.get_map() and not is_late:
            ready = selector.select(0.1)
            for key, _ in ready:
                data = os.read(key.fd, 1 << 16)
                kept[key.fd] += data[: limits[key.fd] - len(kept[key.fd])]
                if not data:
                    selector.unregister(key.fd)
            # What the answer started may hold the pipes open after the child ended.
            if not ready and child.poll() is not None:
                break
            is_late = time.monotonic() > deadline
    if not is_late:
        try:
            child.wait(max(deadline - time.monotonic(), 0.1))
        except subprocess.TimeoutExpired:     # it closed its pipes, and goes on
            is_late = True
    end(child)
    said = kept[printed].decode(errors="replace")
    return Run(read(bytes(kept[reports])), said, child.returncode, is_late)


def end(child: subprocess.Popen[bytes]) -> None:
    """Stop the child and whatever it started, and free what is held of it. Asking twice is asking once."""
    if child.stdout is None or child.stdout.closed:
        return
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    child.wait()
    child.stdout.close()


def read(data: bytes) -> list[running.Record]:
    """The records among the lines of a report; what is none is left out."""
    found = []
    for line in data.splitlines():
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict):
            found.append(record)
    return found


def judge(exercise: Exercise, wanted: list[running.Record], run: Run, seconds: float) -> tuple[bool, str]:
    """Whether an answer passed, and the two sentences that say it."""
    for record in run.records:
        if isinstance(record.get("refused"), str):
            return False, record["refused"]
        if isinstance(record.get("at_once"), str):
            return False, f"The file raised {ended(record['at_once'])} {record.get('advice', NOTHING_YET)}"
    answered = {record["case"]: record for record in run.records if isinstance(record.get("case"), int)}
    cases = exercise.ordered_cases()
    for right in wanted:
        number = right["case"]
        if not is_right(exercise, right, answered.get(number)):
            got = answered.get(number)
            told = story(run, got, seconds) + how(exercise, right, got)
            return False, f"{question(exercise, cases[number], right)}. {ended(told)}"
    done = next((record for record in run.records if record.get("done") is True), None)
    if done is None:
        return False, f"All {len(wanted)} cases were answered rightly. {story(run, None, seconds)}."
    if left := done.get("left"):
        return False, f"All {len(wanted)} cases were answered rightly. The answer left a thread running: {show(left)}."
    return True, f"Right: all {len(wanted)} cases pass. Solved: {exercise.id}, {exercise.title}."


def is_right(exercise: Exercise, right: running.Record, got: running.Record | None) -> bool:
    return got is not None and "value" in got and same(right["value"], got["value"], exercise.tolerance)


def ended(sentence: str) -> str:
    """A sentence with a mark at its end."""
    return sentence if sentence.endswith(("?", "!", ".")) else f"{sentence}."


def how(exercise: Exercise, right: running.Record, got: running.Record | None) -> str:
    """What tells two values apart that look the same where they are cut."""
    if got is None or "value" not in got or got.get("shown") != right["shown"]:
        return ""
    differs = difference(right["value"], got["value"], exercise.tolerance)
    return f", which {differs}" if differs else ", which looks the same and is of another type"


def question(exercise: Exercise, case: tuple[object, ...], right: running.Record) -> str:
    """The first sentence: an input, and what is expected of it."""
    shown = [show(value) for value in case]
    call = exercise.asks.format(*shown) if exercise.asks else f"{exercise.entry}({', '.join(shown)})"
    return f"For {call} the answer is {right['shown']}"


def story(run: Run, got: running.Record | None, seconds: float) -> str:
    """The second sentence: what happened instead."""
    if got is not None and "error" in got:
        if str(got["error"]).startswith("NotImplementedError: write this"):
            return f"Yours is not written yet{got.get('at', '')}"
        return f"Yours raised {got['error']}{got.get('at', '')}"
    if got is not None:
        return f"Yours gave {got.get('shown', 'nothing')}"
    if run.is_late:
        return f"Yours was still running after {seconds:g} seconds and was stopped"
    if run.status < 0:
        return f"Yours ended the process (signal {signal.Signals(-run.status).name})"
    return f"Yours ended the process (exit status {run.status})"
