"""Keeps fuzzing processes going: hands out stretches of calls, notices deaths and hangs, and goes on behind them.

Leaves: one line for each finding: `died`, `hung`, or `defect`, the number of the call and what was called.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STRETCH = 3_000    # calls per process: memory that tensors hold on to does not add up without end
SETTING_UP = 120.0   # seconds for imports and for making the first samples


class Stretch:
    """Calls `start` to `stop`, in as many processes as it takes."""

    def __init__(self, seed: int, start: int, stop: int, extra: list[str], patience: float, folder: Path) -> None:
        self.seed, self.next, self.stop, self.extra, self.patience = seed, start, stop, extra, patience
        self.journal = folder / f"{start}.journal"
        self.findings: list[str] = []

    def read(self) -> tuple[int, float, str]:
        """Which call the process is at, since when, and what it is."""
        words = self.journal.read_bytes().split(b"\0")[0].decode(errors="replace").strip().split(" ", 2)
        return (int(words[0]), float(words[1]), words[2]) if len(words) == 3 else (self.next, 0.0, "")

    def run(self) -> None:
        while self.next < self.stop:
            self.journal.write_bytes(b"\0" * 4096)
            log = self.journal.with_suffix(".log")
            with open(log, "wb") as out:
                command = [
                    sys.executable,
                    "-m",
                    "tests.fuzz.worker",
                    "--seed",
                    str(self.seed),
                    "--start",
                    str(self.next),
                    "--stop",
                    str(self.stop),
                    "--journal",
                    str(self.journal),
                    *self.extra,
                ]
                process = subprocess.Popen(
                    command, cwd=ROOT, stdout=out, stderr=subprocess.STDOUT, env=dict(os.environ, PYTHONPATH=str(ROOT))
                )
                hung = self._wait(process)
            lines = log.read_text(errors="replace").splitlines()
            self.findings += [f"defect {line.removeprefix('DEFECT ')}" for line in lines if line.startswith("DEFECT ")]
            if not hung and process.returncode == 0:
                return
            number, _, text = self.read()
            what = f"hung {number}" if hung else f"died {number} ({_cause(process.returncode)})"
            self.findings.append(f"{what} {text or ' / '.join(lines[-4:])}")
            if not text:   # it never got as far as a call: another process would not either
                return
            self.next = number + 1

    def _wait(self, process: subprocess.Popen) -> bool:
        """Wait for the end of a process; true if it was killed because one call took too long."""
        born = time.time()
        while process.poll() is None:
            time.sleep(0.2)
            _, since, _ = self.read()
            if time.time() - (since + self.patience if since else born + SETTING_UP) > 0:
                process.send_signal(signal.SIGABRT)   # faulthandler prints where it is
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
                return True
        return False


def _cause(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"


def fuzz(
    seed: int, start: int, stop: int, processes: int, extra: list[str], patience: float, progress: bool = False
) -> list[str]:
    """All findings of calls `start` to `stop`."""
    with tempfile.TemporaryDirectory() as folder:
        waiting = [
            Stretch(seed, at, min(at + STRETCH, stop), extra, patience, Path(folder))
            for at in range(start, stop, STRETCH)
        ]
        done: list[Stretch] = []
        total = len(waiting)
        lock = threading.Lock()

        def work() -> None:
            while True:
                with lock:
                    if not waiting:
                        return
                    stretch = waiting.pop(0)
                stretch.run()
                with lock:
                    done.append(stretch)
                    if progress:
                        for line in stretch.findings:
                            print(line, flush=True)
                        print(f"{len(done)} of {total} stretches", file=sys.stderr, flush=True)

        threads = [threading.Thread(target=work) for _ in range(processes)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [line for stretch in done for line in stretch.findings]
