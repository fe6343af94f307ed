"""The command itself: run a program, record it, and leave a report however it ends.

Enters: a function that runs the program, a folder, and what to call the program. Leaves, in the folder: trace.json,
stacks.txt, summary.json and report.html, each whole or not at all; on standard output the table; the process ends as
the program did. Refuses: a folder that takes no files, before anything runs. A process that the program forked leaves
no report, whatever it returns to.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from ... import _extras
from ..event_source import EventSource
from ..files import written
from ..frames import collapsed
from ..recording import Log
from ..trace import write as write_trace
from . import peaks as machine, program as programs
from .analysis import analysed
from .findings import Findings
from .page import page
from .program import Ending
from .recorder import Recorder
from .table import table


def profile(program: Callable[[], object], name: str, folder: Path, ours: frozenset[str]) -> NoReturn:
    """Runs `program` under a recording and ends this process as it ended; `ours` are files whose frames are not its."""
    peaks = machine.measure()
    recorder = Recorder()
    peaks = peaks._replace(launch_ns=recorder.launch_ns())
    recorder.start()
    begin = _extras.profile_now()
    ending = programs.run(program, ours)
    if recorder.is_elsewhere:
        ending.leave()
    end = _extras.profile_now()
    recording = recorder.stop()
    try:
        found = analysed(recording, peaks, (begin, end), name, ending.outcome)
        leave_files(folder, recording, found)
        say(f"\n{table(found)}\nReport: {folder / 'report.html'}")
    except OSError as refused:
        complain(f"rushlight profile: no report in {str(folder)!r}: {refused.strerror or refused}", ending)
    except Exception:
        traceback.print_exc()
        complain("rushlight profile: no report: the analysis failed, see above", ending)
    ending.leave()


def leave_files(folder: Path, recording: dict[str, Any], found: Findings) -> None:
    """Everything that a report is."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [collapsed(list(reversed(frames)), round(ns / 1e3)) for frames, ns in found.stacks if ns >= 500]
    put(folder / "stacks.txt", "".join(lines))
    put(folder / "summary.json", json.dumps(found.summary(), indent=1) + "\n")
    put(folder / "report.html", page(found))
    write_trace(EventSource(Log(recording)), str(folder / "trace.json"), {}, "")


def put(path: Path, text: str) -> None:
    """A file of text."""
    with written(path) as file:
        file.write(text.encode("utf-8", "replace"))


def say(text: str) -> None:
    """Prints behind what the program printed; a reader who is gone is no error."""
    try:
        print(text, flush=True)
    except (OSError, ValueError):
        sys.stdout = None


def complain(line: str, ending: Ending) -> None:
    """One line on standard error; a run that ended well has failed then."""
    print(line, file=sys.stderr)
    if ending.status == 0 and not ending.interrupted:
        sys.exit(1)
