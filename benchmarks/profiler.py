"""The profiler: what it adds to small ops, what its tables and traces cost, and its cost while nothing is recorded.

Enters: the session's settings. Leaves: four sections with the bars of the profiler, each a fraction of PyTorch's figure
for the same program in the same run. One thread and processor time whatever the session says. "Added" is the time of a
loop under a profile less the time of the loop without one, per op; starting and stopping are not counted. Tables and
traces are made from a profile that was taken just before, so that whatever a library puts off until somebody asks is
counted. `RUSHLIGHT_BEFORE` names a tree to compare small ops with while nothing is recorded: a build of the commit that
came before the profiler, for instance. On a machine with a GPU, a training step under a profile is compared too.
"""

from __future__ import annotations

import dataclasses
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks import small
from benchmarks.cases import LIBRARIES, Case, Check, Group, Row, Section
from benchmarks.harness import ROOT, Progress, Session, Worker, WorkerFailure, worker_path
from benchmarks.startup import run_python

OPS = 4000          # of one loop under a profile: 1000 turns of four ops
PROFILES = {
    "plain": "",
    "shapes and memory": "record_shapes=True, profile_memory=True",
    "stack": "with_stack=True",
}
BARS = {"plain": 0.5, "shapes and memory": 0.5, "stack": 0.7}

SETUP = """
import importlib, os, tempfile, warnings
warnings.simplefilter("ignore")
profiler = importlib.import_module(torch.__name__ + ".profiler")
x = torch.arange(16, dtype=torch.float32).reshape(4, 4) / 10
b = torch.ones(4, 4) * 0.5

def turn(x, b):
    y = x + b
    torch.relu(y)
    y.mul_(b)
    return torch.sub(y, x)

def loop(turns):
    for _ in range(turns):
        turn(x, b)

def profile(turns, **options):
    with profiler.profile(activities=[profiler.ProfilerActivity.CPU], **options) as found:
        loop(turns)
    return found

loop(100)
"""
ALONE = """
def sample(clock):
    start = clock()
    loop(1000)
    return clock() - start
"""
WATCHED = """
def sample(clock):
    with profiler.profile(activities=[profiler.ProfilerActivity.CPU], {options}):
        start = clock()
        loop(1000)
        taken = clock() - start
    return taken
"""
AVERAGES = """
def sample(clock):
    found = profile(1000)
    start = clock()
    found.key_averages()
    taken = clock() - start
    return taken / len(found.events()) * 4000   # of as many events
"""
TRACE = """
path = os.path.join(tempfile.mkdtemp(), "trace.json")

def sample(clock):
    found = profile(1000)
    start = clock()
    found.export_chrome_trace(path)
    taken = clock() - start
    os.remove(path)
    return taken / len(found.events()) * 4000   # of as many events
"""
# What 4000 ops add to a file, per op: a trace's head and the profiler's own frames are no part of it.
BYTES = """
path = os.path.join(tempfile.mkdtemp(), "trace.json")

def size(turns):
    profile(turns, {options}).export_chrome_trace(path)
    found = os.path.getsize(path)
    os.remove(path)
    return found

def sample(clock):
    return (size(1200) - size(200)) / 4000
"""
LABEL = "with record_function('label'):\n    pass"
SCRIPT = """
import torch
x = torch.arange(16, dtype=torch.float32).reshape(4, 4) / 10
b = torch.ones(4, 4) * 0.5

def turn(x, b):
    y = x + b
    torch.relu(y)
    y.mul_(b)
    return torch.sub(y, x)

import time
for _ in range(100):
    turn(x, b)
start = time.process_time()
for _ in range(25000):
    turn(x, b)
print("seconds", time.process_time() - start)
"""
STEP = """
import importlib
networks = importlib.import_module("benchmarks.networks")
profiler = importlib.import_module(torch.__name__ + ".profiler")
torch.manual_seed(0)
model = networks.gpt2(torch).to(torch.bfloat16).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
tokens = [torch.randint(0, 50257, (16, 1024), device="cuda") for _ in range(2)]

def steps(count):
    for _ in range(count):
        model(*tokens).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    torch.cuda.synchronize()

steps(3)
"""
STEPS = 5
STEP_ALONE = """
def sample(clock):
    start = clock()
    steps(5)
    return clock() - start
"""
STEP_WATCHED = """
def sample(clock):
    with profiler.profile(activities=[profiler.ProfilerActivity.CPU, profiler.ProfilerActivity.CUDA]):
        start = clock()
        steps(5)
        taken = clock() - start
    return taken
"""


def settled(session: Session) -> Session:
    """The session with one thread and processor time, which these bars speak of."""
    return dataclasses.replace(session, threads=1, clock="cpu")


def at_most(name: str, ratio: float | None, bar: float, detail: str = "") -> Check:
    shown = "not measured" if ratio is None else f"{ratio:.2f}x{detail}"
    return Check(name, shown, f"at most {bar:g}x", ratio is not None and ratio <= bar)


def fraction(row: Row) -> float | None:
    """Our figure over PyTorch's: less is better, the other way round than the rows' own ratio."""
    ratio = row.ratio()
    return None if ratio is None else 1 / ratio


def added(alone: Row, watched: Row, library: str) -> float | None:
    """Seconds per op that a profile adds, from neighbouring rounds."""
    pairs = list(zip(watched.times[library], alone.times[library]))
    return statistics.median(one - other for one, other in pairs) if pairs else None


def measure_added(session: Session) -> Section:
    cases = [Case("four small ops, no profile", setup=SETUP + ALONE, per=OPS)]
    cases += [
        Case(f"the same under a profile: {name}", setup=SETUP + WATCHED.format(options=options), per=OPS)
        for name, options in PROFILES.items()
    ]
    section = session.compare(Group("profiler", "Small ops under a profile, per op", tuple(cases)))
    section.checks = []
    if len(section.rows) != len(cases):   # --only
        return section
    alone = section.rows[0]
    for row, name in zip(section.rows[1:], PROFILES):
        extra = {library: added(alone, row, library) for library in LIBRARIES}
        known = [value for value in extra.values() if value is not None]
        shown = ", ".join(f"{library} {value * 1e9:.0f} ns" for library, value in extra.items() if value is not None)
        ratio = extra["rushlight"] / extra["torch"] if len(known) == 2 else None
        section.checks.append(at_most(f"added per op, {name}", ratio, BARS[name], f" ({shown})"))
    return section


def measure_reports(session: Session) -> Section:
    bars = {"key_averages, per event": 0.2, "export_chrome_trace, per event": 0.7, "record_function, idle": 0.2}
    cases = (
        Case("key_averages, per event", setup=SETUP + AVERAGES, per=OPS),
        Case("export_chrome_trace, per event", setup=SETUP + TRACE, per=OPS),
        Case("record_function, idle", LABEL, SETUP + "record_function = profiler.record_function", unroll=10),
    )
    section = session.compare(Group("profiler", "Tables, traces, labels while nothing records", cases))
    section.checks = [at_most(row.case, fraction(row), bars[row.case]) for row in section.rows]
    return section


def measure_bytes(session: Session) -> Section:
    """Sizes do not vary: one process each."""
    section = Section("Bytes of a trace, per op")
    for name, options in PROFILES.items():
        sizes: dict[str, float] = {}
        for library in LIBRARIES:
            code = f"import {library} as torch\n{SETUP}{BYTES.format(options=options)}\nprint('bytes', sample(None))"
            try:
                sizes[library] = float(run_python(code).rsplit("bytes", 1)[1])
            except (RuntimeError, IndexError) as error:
                section.notes.append(f"failed on {library}, {name}: {error}")
        ratio = sizes["rushlight"] / sizes["torch"] if len(sizes) == 2 else None
        shown = ", ".join(f"{library} {size:.0f}" for library, size in sizes.items())
        section.checks.append(at_most(f"bytes per op, {name}", ratio, 1.0, f" ({shown})"))
    return section


def measure_off(session: Session) -> Section:
    """Small ops while nothing is recorded, against the tree that RUSHLIGHT_BEFORE names, in turns."""
    section = Section("Small ops while nothing is recorded, against the build before")
    tree = os.environ.get("RUSHLIGHT_BEFORE")
    if not tree or not (Path(tree) / "rushlight").is_dir():
        section.notes.append("RUSHLIGHT_BEFORE names no tree: not measured")
        return section
    cases = [case for case in small.GROUP.cases if session.only in case.name]
    ratios: dict[str, list[float]] = {case.name: [] for case in cases}
    progress = Progress(session.processes * session.rounds * len(cases))
    for generation in range(session.processes):
        both = [Worker("rushlight", 1, session.patience, "cpu", root=root) for root in (Path(tree), ROOT)]
        for case in cases:
            for turn in range(session.rounds):
                progress.step(f"off: {case.name}")
                order = both if (turn + generation) % 2 == 0 else both[::-1]
                try:
                    seconds = {worker: worker.ask(case, session.at_least).get("seconds") for worker in order}
                except WorkerFailure as failure:
                    section.notes.append(f"{case.name}: {failure}")
                    return section
                if all(seconds.values()):
                    ratios[case.name].append(seconds[both[1]] / seconds[both[0]])
        for worker in both:
            worker.close()
    progress.close()
    medians = {name: statistics.median(found) for name, found in ratios.items() if found}
    if medians:
        mean = statistics.geometric_mean(medians.values())
        worst = max(medians, key=medians.__getitem__)
        section.checks.append(at_most("geometric mean", mean, 1.02, f" (worst {medians[worst]:.3f}x: {worst})"))
    return section


def seconds_of_script(command: list[str], folder: str) -> float:
    """What the script says its loop took."""
    environment = dict(os.environ, PYTHONPATH=worker_path(), OMP_NUM_THREADS="1")
    done = subprocess.run([sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("seconds ")]
    if not lines:
        raise RuntimeError((done.stderr.strip().splitlines() or ["said nothing"])[-1])
    return float(lines[-1].split()[1])


def measure_command(session: Session) -> Section:
    """`python -m rushlight profile` over `python -m rushlight run`, of a program that only calls small ops."""
    section = Section("python -m rushlight profile, over the plain run")
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "script.py").write_text(SCRIPT)
        try:
            for _ in range(session.rounds):
                plain = seconds_of_script(["-m", "rushlight", "run", "script.py"], folder)
                watched = seconds_of_script(["-m", "rushlight", "profile", "--out", "found", "script.py"], folder)
                ratios.append(watched / plain)
        except RuntimeError as error:
            section.notes.append(f"failed: {error}")
    ratio = statistics.median(ratios) if ratios else None
    section.checks.append(at_most("small ops", ratio, 5.0))
    return section


def measure_step(session: Session) -> list[Section]:
    """GPT-2's training step under a profile of CPU and GPU, over the step without; only where there is a GPU."""
    if not Path("/dev/nvidiactl").exists():
        return []
    cases = (Case("GPT-2 step, no profile", setup=STEP + STEP_ALONE, per=STEPS),
             Case("GPT-2 step under a profile of CPU and GPU", setup=STEP + STEP_WATCHED, per=STEPS))
    section = dataclasses.replace(session, clock="wall").compare(Group("profiler", "A training step on a GPU", cases))
    section.checks = []
    alone, watched = section.rows
    ratios = {library: over / under for library in LIBRARIES
              if (over := watched.median(library)) and (under := alone.median(library))}
    shown = ", ".join(f"{library} {ratio:.2f}x" for library, ratio in ratios.items())
    passed = len(ratios) == 2 and ratios["rushlight"] <= ratios["torch"]
    section.checks.append(Check("under a profile over without", shown, "at most torch's", passed))
    return [section]


def run(session: Session) -> list[Section]:
    steady = settled(session)
    return [measure_added(steady), measure_reports(steady), measure_bytes(steady), measure_off(steady),
            measure_command(steady), *measure_step(steady)]
