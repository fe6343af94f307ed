"""The suite in a process of its own, watched by this one: a device may end its process, or never answer.

Enters: what to check. Leaves: the report. The child tells what begins and what ends, a line of JSON each. Where it dies
or is silent for too long, the case that had begun has failed, and another child goes on behind it. Refuses what the
child refuses: a device or package that is not there.

    python -m rushlight.conform.supervise FD '{"device": …}'       the child
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from .case import Chip, NoSuchDevice
from .report import Event, Report
from .runner import Progress, cases_of, events

SILENCE = 600.0          # seconds that a case may take
SILENCE_QUICK = 60.0     # with --quick
CHILD = ("-m", "rushlight.conform.supervise")
DEATHS = 3               # after so many in one area the rest of it is left out


def supervised(
    device: str, package: str | None, areas: Sequence[str], quick: bool, progress: Progress | None = None
) -> Report:
    """Run the areas' cases in a child, or as many as it takes."""
    report = Report(device, quick=quick)
    order = {"device": device, "package": package, "areas": list(areas), "quick": quick, "after": None}
    deaths: dict[str, int] = {}
    while order["areas"]:
        begun: Event | None = None
        with Child(order) as child:
            for event in child.events(SILENCE_QUICK if quick else SILENCE):
                if event.kind == "died" and begun is not None:
                    event = Event("failed", begun.area, begun.case, event.message, child.repro(begun))
                    deaths[event.area] = deaths.get(event.area, 0) + 1
                elif event.kind == "died":
                    raise NoSuchDevice(f"the process that looked for device {device!r} ended: {event.message}")
                report.enter(event)
                if progress is not None:
                    progress(report, event)
                begun = event if event.kind == "begin" else begun
        if not child.died or begun is None:
            break
        order["after"] = [begun.area, begun.case]
        if deaths[begun.area] >= DEATHS:
            report.enter(Event("skipped", begun.area, "the rest", f"its cases ended the process {DEATHS} times"))
            order["areas"] = list(areas)[list(areas).index(begun.area) + 1:]
            order["after"] = None
    return report


class Child:
    """A process that runs cases, and the pipe it tells of them through."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.order, self.died = order, False

    def __enter__(self) -> Child:
        self.process, self.pipe = start(self.order)
        return self

    def __exit__(self, *error: object) -> None:
        os.close(self.pipe)
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def events(self, silence: float) -> Iterator[Event]:
        """What the child tells, until it is done; a last "died" where it ended otherwise or was silent for too long."""
        rest = b""
        with selectors.DefaultSelector() as ready:
            ready.register(self.pipe, selectors.EVENT_READ)
            while True:
                if not ready.select(silence):
                    self.process.kill()
                    self.died = True
                    yield Event("died", "", message=f"no answer for {silence:.0f} s")
                    return
                read = os.read(self.pipe, 1 << 16)
                if not read:
                    break
                *whole, rest = (rest + read).split(b"\n")
                for line in whole:
                    told = json.loads(line)
                    if "refused" in told:
                        raise NoSuchDevice(told["refused"])
                    if "done" in told:
                        self.process.wait()
                        return
                    yield Event(**told)
        self.died = True
        yield Event("died", "", message=ended(self.process.wait()))

    def repro(self, begun: Event) -> str:
        """The script of a case that ended the process: asked of another one, which runs nothing."""
        process, pipe = start({**self.order, "script": [begun.area, begun.case]})
        with os.fdopen(pipe, "rb") as file:
            text = file.read()
        process.wait()
        return text.decode()


def start(order: dict[str, Any]) -> tuple[subprocess.Popen[bytes], int]:
    """A child with an order, and the end of the pipe to read from. It looks for modules where this process does."""
    read, write = os.pipe()
    command = [sys.executable, *CHILD, str(write), json.dumps(order)]
    places = os.pathsep.join(os.path.abspath(place) for place in sys.path if place != "" or os.path.isdir("."))
    process = subprocess.Popen(command, pass_fds=(write,), env={**os.environ, "PYTHONPATH": places})
    os.close(write)
    return process, read


def ended(status: int) -> str:
    """How a process ended, in words."""
    if status < 0:
        return f"the process was ended by {signal.Signals(-status).name}"
    return f"the process exited with status {status}"


def child(write: int, order: dict[str, Any]) -> None:
    """What the child does: run the cases, and tell; or give the script of one."""
    with os.fdopen(write, "wb", buffering=0) as file:

        def tell(what: dict[str, Any]) -> None:
            file.write(json.dumps(what).encode() + b"\n")

        try:
            chip = Chip.find(order["device"], order["package"], order["quick"])
        except NoSuchDevice as why:
            tell({"refused": str(why)})
            return
        if "script" in order:
            area, name = order["script"]
            file.write(next(one for one in cases_of(area, chip) if one.name == name).repro(chip).encode())
            return
        after = tuple(order["after"]) if order["after"] else None
        for event in events(chip, order["areas"], after):
            tell(asdict(event))
        tell({"done": True})


if __name__ == "__main__":
    try:
        child(int(sys.argv[1]), json.loads(sys.argv[2]))
    except BrokenPipeError:      # nobody listens any more
        os._exit(1)
