"""Asks two measuring processes, one per library, turn by turn, and collects what they say.

Enters: groups of cases. Leaves: sections with times per round. Interleaving at the level of single rounds means
that a noisy neighbour hits both libraries; several process pairs mean that neither profits from a lucky memory
layout. A case that raises, hangs or crashes on one side is reported and the run goes on.
"""

from __future__ import annotations

import dataclasses
import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.cases import LIBRARIES, Case, Group, Row, Section, checks_of

ROOT = Path(__file__).resolve().parent.parent


class Progress:
    """A bar on stderr: redrawn in place on a terminal, a line now and then elsewhere."""

    def __init__(self, total: int) -> None:
        self.total, self.done, self.start = max(total, 1), 0, time.monotonic()
        self.last = self.start

    def step(self, label: str) -> None:
        self.done += 1
        now = time.monotonic()
        terminal = sys.stderr.isatty()
        if now - self.last < (0.1 if terminal else 20) and self.done < self.total:
            return
        self.last = now
        share = min(self.done / self.total, 1.0)
        left = (now - self.start) / share * (1 - share)
        text = f"[{'#' * int(share * 30):30}] {share:4.0%}  {left:4.0f} s left  {label[:40]:40}"
        print(("\r" if terminal else "") + text, end="" if terminal else "\n", file=sys.stderr, flush=True)

    def skip(self, steps: int) -> None:
        self.done += steps

    def close(self) -> None:
        if sys.stderr.isatty():
            print("\r" + " " * 100 + "\r", end="", file=sys.stderr, flush=True)


class WorkerFailure(Exception):
    """The measuring process died or did not answer in time."""


class Worker:
    """One measuring process."""

    def __init__(self, library: str, threads: int, patience: float, clock: str = "wall",
                 module: str = "benchmarks.worker", root: Path = ROOT) -> None:
        self.library, self.patience, self.waiting = library, patience, b""
        environment = dict(os.environ, OMP_NUM_THREADS=str(threads), PYTHONPATH=worker_path(root))
        command = [sys.executable, "-m", module, library, str(threads), clock]
        self.process = subprocess.Popen(command, cwd=root, env=environment, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.version = self.read_answer().get("version", "unknown")

    def ask(self, case: Case, at_least: float) -> dict[str, Any]:
        request = {"case": dataclasses.asdict(case), "at_least": at_least}
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise WorkerFailure(self.last_words()) from None
        return self.read_answer()

    def read_answer(self) -> dict[str, Any]:
        deadline = time.monotonic() + self.patience
        stream = self.process.stdout.fileno()
        while b"\n" not in self.waiting:
            ready, _, _ = select.select([stream], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                self.close()
                raise WorkerFailure(f"no answer within {self.patience:.0f} s")
            piece = os.read(stream, 65536)
            if not piece:
                raise WorkerFailure(self.last_words())
            self.waiting += piece
        line, self.waiting = self.waiting.split(b"\n", 1)
        return json.loads(line)

    def last_words(self) -> str:
        """Why the process ended: the signal, or the last line it wrote."""
        _, errors = self.process.communicate()
        code = self.process.returncode
        if code < 0:
            return f"crashed with signal {-code}"
        lines = errors.decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"ended with status {code}"

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


def worker_path(root: Path = ROOT) -> str:
    inherited = os.environ.get("PYTHONPATH")
    return str(root) + (os.pathsep + inherited if inherited else "")


@dataclasses.dataclass
class Session:
    """The settings of a run, and the versions it met."""

    rounds: int = 5
    processes: int = 2
    threads: int = 2
    at_least: float = 0.05
    patience: float = 300.0
    enough: float = 20.0  # seconds spent on one case by either library after which it gets no more turns
    only: str = ""
    clock: str = "wall"   # or cpu: the time of all threads, for a machine that others use
    batches: tuple[int, ...] = (1, 8)  # of the layers group
    quick: bool = False   # of the ablation: one case of each path
    versions: dict[str, str] = dataclasses.field(default_factory=dict)

    def compare(self, group: Group) -> Section:
        """Run every case of `group` on both libraries, in turns."""
        cases = [case for case in group.cases if self.only in case.name]
        rows = {case.name: Row(case.name) for case in cases}
        progress = Progress(self.processes * self.rounds * len(cases) * len(LIBRARIES))
        for generation in range(self.processes):
            workers: dict[str, Worker | None] = dict.fromkeys(LIBRARIES)
            for case in cases:
                for turn in range(self.rounds):
                    if max(rows[case.name].spent.values()) > self.enough and rows[case.name].ratio() is not None:
                        progress.skip(len(LIBRARIES))
                        continue
                    # Alternate who goes first as well, so that neither always runs on a freshly rested machine.
                    order = LIBRARIES if (turn + generation) % 2 == 0 else LIBRARIES[::-1]
                    for library in order:
                        progress.step(f"{group.name}: {case.name}")
                        self.one_turn(workers, library, case, rows[case.name])
            for worker in workers.values():
                if worker is not None:
                    worker.close()
        progress.close()
        return Section(group.title, list(rows.values()), checks_of(group, list(rows.values())) if rows else [])

    def one_turn(self, workers: dict[str, Worker | None], library: str, case: Case, row: Row) -> None:
        if library in row.errors:
            return
        try:
            worker = workers[library]
            if worker is None:
                worker = workers[library] = Worker(library, self.threads, self.patience, self.clock)
                self.versions[library] = worker.version
            start = time.monotonic()
            reply = worker.ask(case, self.at_least)
            row.spent[library] += time.monotonic() - start
        except WorkerFailure as failure:
            workers[library] = None
            reply = {"error": str(failure)}
        if "error" in reply:
            row.errors[library] = reply["error"]
        else:
            row.times[library].append(reply["seconds"])
