"""`python -m rushlight check --device NAME`: arguments in, a report out, and the exit status."""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import dataclass

from rushlight import devices
from rushlight.profiler.files import written

from .case import Chip, NoSuchDevice
from .page import html
from .report import Event, Report, lines
from .runner import AREAS, Progress, check
from .supervise import supervised


@dataclass
class Request:
    """What was asked for on the command line."""

    device: str
    package: str | None = None
    only: str | None = None
    quick: bool = False
    json: str | None = None
    html: str | None = None


class Refused(Exception):
    """The suite cannot begin: one line that says why."""


def check_device(request: Request) -> int:
    """Run the suite, print what came of it, write the files. 0: all passed; 1: something failed; 2: it cannot begin."""
    ticker = Ticker() if sys.stderr.isatty() else None
    try:
        areas = chosen(request.only)
        for path in filter(None, (request.json, request.html)):
            writable(path)
        report = run(request, areas, ticker)
    except (Refused, NoSuchDevice) as why:
        print(f"rushlight check: {why}", file=sys.stderr)
        return 2
    if ticker is not None:
        ticker.end()
    for line in lines(report):
        print(line)
    save(report, request)
    return 0 if report.passed else 1


def run(request: Request, areas: tuple[str, ...], progress: Progress | None) -> Report:
    """The suite in a process of its own, so that a device that ends it has a report all the same; in this one where
    nobody but this process knows the device."""
    if request.package is None and request.device in devices.registered():
        return check(Chip.find(request.device, quick=request.quick), areas, progress)
    return supervised(request.device, request.package, areas, request.quick, progress)


def chosen(only: str | None) -> tuple[str, ...]:
    """The areas that --only names, in the suite's order; all without it."""
    if only is None:
        return AREAS
    asked = [name.strip() for name in only.split(",") if name.strip()]
    unknown = [name for name in asked if name not in AREAS]
    if unknown or not asked:
        raise Refused(f"--only: there is no area {', '.join(unknown) or repr(only)}; there are {', '.join(AREAS)}")
    return tuple(name for name in AREAS if name in asked)


def writable(path: str) -> None:
    """Refuse a file that could not be written when all is done."""
    folder = os.path.dirname(os.path.abspath(path))
    if os.path.isdir(path) or not os.path.isdir(folder):
        raise Refused(f"cannot write {path}: {'it is a folder' if os.path.isdir(path) else f'there is no {folder}'}")
    if not os.access(path if os.path.exists(path) else folder, os.W_OK):
        raise Refused(f"cannot write {path}: permission denied")


def save(report: Report, request: Request) -> None:
    """Write the files that were asked for, each whole or not at all."""
    if request.json is not None:
        with written(request.json) as file:
            file.write((json.dumps(report.as_json(), indent=2) + "\n").encode())
    if request.html is not None:
        with written(request.html) as file:
            file.write(html(report).encode())


class Ticker:
    """A line on the terminal that says what is being done, written over again and again."""

    def __init__(self) -> None:
        self.last = 0.0
        self.start = time.monotonic()

    def __call__(self, report: Report, event: Event) -> None:
        now = time.monotonic()
        if event.kind == "begin" and now - self.last > 0.05:
            self.last = now
            done = sum(map(report.count, ("passed", "failed", "skipped")))
            bad = f", {len(report.failures)} failed" if report.failures else ""
            text = f"{now - self.start:5.1f} s  {done} cases{bad}  {event.area}: {event.case}"
            sys.stderr.write(f"\r\x1b[K{text[: width() - 1]}")
            sys.stderr.flush()

    def end(self) -> None:
        """Take the line away."""
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


def width() -> int:
    """Columns of the terminal."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except (OSError, ValueError):
        return 80
