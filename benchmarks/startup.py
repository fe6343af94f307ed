"""Start-up: import in a fresh process, how soon a process has trained one step, and the first call of a pointwise op,
cold and warm from the disk cache."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

from benchmarks.cases import LIBRARIES, Check, Row, Section
from benchmarks.harness import ROOT, Progress, Session, worker_path

IMPORT = """
import time
start = time.perf_counter()
import {library}
print(time.perf_counter() - start)
"""

# The first call of each op in a process; the tensor and its dtype exist already. The first op also pays for loading the
# compiler when nothing is cached, so it is reported apart.
FIRST_CALLS = """
import json, time
import rushlight as torch
x = torch.tensor([0.25, 0.5, 0.75, 1.0])
times = dict()
for name in {names!r}:
    op = getattr(torch, name)
    start = time.perf_counter()
    op(x)
    times[name] = time.perf_counter() - start
print(json.dumps(times))
"""
FIRST_STEP = """
import sys
import {library} as torch, {library}.nn as nn, {library}.optim as optim
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = optim.{optimizer}
x, y = torch.randn(8, 16), torch.randn(8, 1)
nn.functional.mse_loss(model(x), y).backward()
optimizer.step()
sys.stdout.write("done")
sys.stdout.flush()
"""
OPTIMIZERS = {"SGD": "SGD(model.parameters(), lr=0.1)", "AdamW": "AdamW(model.parameters(), lr=1e-3)"}
NAMES = ("neg", "exp", "sin", "tanh", "log1p", "sigmoid", "atan", "erf")


def run_python(code: str, **environment: str) -> str:
    """What a fresh interpreter prints for `code`; raises RuntimeError with its last line of error."""
    environment = {**os.environ, "PYTHONPATH": worker_path(), **environment}
    # An installed package comes with its bytecode; a source tree must be allowed to keep it between runs.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, env=environment)
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise RuntimeError(lines[-1] if lines else f"status {done.returncode}")
    return done.stdout


def measure_import(session: Session) -> Section:
    row = Row("import")
    rounds = session.rounds * session.processes
    progress = Progress((rounds + 1) * len(LIBRARIES))
    for turn in range(rounds + 1):
        for library in LIBRARIES:
            progress.step(f"import {library}")
            if library in row.errors:
                continue
            try:
                seconds = float(run_python(IMPORT.format(library=library)))
            except RuntimeError as error:
                row.errors[library] = str(error)
                continue
            if turn:  # the first turn fills the caches of files and bytecode
                row.times[library].append(seconds)
    progress.close()
    ratio, ours = row.ratio(), row.median("rushlight")
    checks = [Check("import, ratio", "not measured" if ratio is None else f"{ratio:.1f}x", "at least 10x",
                    ratio is not None and ratio >= 10),
              Check("import, time", "not measured" if ours is None else f"{ours * 1e3:.0f} ms", "at most 150 ms",
                    ours is not None and ours <= 0.15)]
    return Section("Import in a fresh process", [row], checks)


def seconds_to_first_step(library: str, optimizer: str) -> float:
    """From starting the interpreter until the first step is done; RuntimeError with its last line of error."""
    environment = {**os.environ, "PYTHONPATH": worker_path()}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    code = FIRST_STEP.format(library=library, optimizer=OPTIMIZERS[optimizer])
    start = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        said = process.stdout.read(4)
        taken = time.perf_counter() - start
        errors = process.communicate()[1]
    if said != b"done":
        raise RuntimeError((errors.decode(errors="replace").strip().splitlines() or ["no answer"])[-1])
    return taken


def measure_first_step(session: Session) -> Section:
    """Process start to first MLP training step done, with kernels and bytecode cached by an earlier process."""
    rows = {optimizer: Row(f"first step of an MLP, {optimizer}") for optimizer in OPTIMIZERS}
    rounds = session.rounds * session.processes
    progress = Progress((rounds + 1) * len(rows) * len(LIBRARIES))
    for turn in range(rounds + 1):
        for optimizer, row in rows.items():
            for library in LIBRARIES:
                progress.step(f"first step, {library}")
                if library in row.errors:
                    continue
                try:
                    seconds = seconds_to_first_step(library, optimizer)
                except RuntimeError as error:
                    row.errors[library] = str(error)
                    continue
                if turn:
                    row.times[library].append(seconds)
    progress.close()
    ratios = {row.case: row.ratio() for row in rows.values()}
    checks = [
        Check(
            case, "not measured" if ratio is None else f"{ratio:.1f}x", "at least 5x", ratio is not None and ratio >= 5
        )
        for case, ratio in ratios.items()
    ]
    return Section("Process start to first training step", list(rows.values()), checks)


def measure_kernels(session: Session) -> Section:
    """First calls with an empty cache, then in a new process with the cache that the first one filled."""
    cold: list[dict[str, float]] = []
    warm: list[dict[str, float]] = []
    progress = Progress(session.rounds * 2)
    code = FIRST_CALLS.format(names=NAMES)
    run_python("import rushlight")
    try:
        for _ in range(session.rounds):
            with tempfile.TemporaryDirectory() as folder:
                for times in (cold, warm):
                    progress.step("kernels")
                    times.append(json.loads(run_python(code, RUSHLIGHT_CACHE=folder)))
    except RuntimeError as error:
        return Section("New pointwise kernels", checks=[Check("first calls", f"failed: {error}", "", False)])
    finally:
        progress.close()

    def typical(times: list[dict[str, float]]) -> float:
        """Median over ops (the first left out) of the median over processes."""
        return statistics.median(statistics.median(run[name] for run in times) for name in NAMES[1:])

    def very_first(times: list[dict[str, float]]) -> float:
        return statistics.median(run[NAMES[0]] for run in times) * 1e3

    checks = [Check("cold", f"{typical(cold) * 1e3:.1f} ms", "under 30 ms", typical(cold) < 0.03),
              Check("warm from disk", f"{typical(warm) * 1e3:.2f} ms", "under 2 ms", typical(warm) < 0.002)]
    notes = [f"the very first kernel of a process: {very_first(cold):.0f} ms cold (loads the compiler), "
             f"{very_first(warm):.2f} ms warm"]
    notes += [f"{name}: cold {statistics.median(run[name] for run in cold) * 1e3:.1f} ms, "
              f"warm {statistics.median(run[name] for run in warm) * 1e3:.2f} ms" for name in NAMES]
    return Section("New pointwise kernels, first call", checks=checks, notes=notes)


def run(session: Session) -> list[Section]:
    return [measure_import(session), measure_first_step(session), measure_kernels(session)]
