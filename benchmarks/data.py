"""Loading data: time per batch with 0 and 2 workers, and how soon the first batch is there.

Enters: the session's settings. Leaves: three sections, each case at least as fast as torch. Three data sets stand for
what loaders meet: rows of a TensorDataset, images of 3x224x224 floats (made by the dataset, 32 to a batch), and samples
that cost Python time. Time per batch is taken over one pass, from its first batch on. The first batch is timed from
iter() in a warm process, and from the start of a fresh one. No consumer computes anything: only loading is measured.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

from benchmarks.cases import LIBRARIES, Case, Check, Group, Row, Section
from benchmarks.harness import ROOT, Progress, Session, worker_path
from benchmarks.startup import run_python

DATASETS = {
    "rows": """
dataset = data.TensorDataset(torch.randn(20000, 16), torch.arange(20000))
options = dict(batch_size=64, shuffle=True)
""",
    "images": """
class Images(data.Dataset):
    def __init__(self):
        self.pool = torch.randn(8, 3, 224, 224)
    def __len__(self):
        return 32 * 12
    def __getitem__(self, i):
        return self.pool[i % 8], i % 10
dataset = Images()
options = dict(batch_size=32)
""",
    "python": """
class Words(data.Dataset):
    def __len__(self):
        return 3200
    def __getitem__(self, i):
        text = " ".join(str(i * k % 97) for k in range(40))
        ids = [hash(word) % 1000 for word in text.split()]
        return {"ids": torch.tensor(ids), "text": text, "label": i % 2, "weight": 0.5}
dataset = Words()
options = dict(batch_size=32, shuffle=True)
""",
}
BATCHES = {"rows": 312, "images": 11, "python": 99}  # of one pass, the first left out
SETUP = """
import importlib, warnings
warnings.simplefilter("ignore")
data = importlib.import_module(torch.__name__ + ".utils.data")
{dataset}
loader = data.DataLoader(dataset, num_workers={workers}, **options)
"""
PASS = """
def sample(clock):
    batches = iter(loader)
    next(batches)
    start = clock()
    for batch in batches:
        pass
    return clock() - start
"""
FIRST = """
def sample(clock):
    start = clock()
    batches = iter(loader)
    next(batches)
    return clock() - start
"""
PROCESS = """
import {library} as torch
import importlib, warnings
warnings.simplefilter("ignore")
data = importlib.import_module("{library}.utils.data")
dataset = data.TensorDataset(torch.zeros(1000, 16), torch.arange(1000))
batches = iter(data.DataLoader(dataset, batch_size=32, shuffle=True, num_workers={workers}))
next(batches)
print("first", flush=True)
"""


def cases(program: str, counts: dict[str, int]) -> tuple[Case, ...]:
    return tuple(
        Case(
            f"{name}, {workers} workers",
            setup=SETUP.format(dataset=dataset, workers=workers) + program,
            per=counts.get(name, 1),
        )
        for name, dataset in DATASETS.items()
        for workers in (0, 2)
    )


def seconds_to_first(code: str) -> float:
    """From starting an interpreter to the first batch; that its workers end afterwards is not counted."""
    start = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, env=environment())
    said = process.stdout.readline()
    taken = time.perf_counter() - start
    process.communicate()
    if said.strip() != b"first":
        raise RuntimeError("no batch came")
    return taken


def environment() -> dict[str, str]:
    result = {**os.environ, "PYTHONPATH": worker_path()}
    result.pop("PYTHONDONTWRITEBYTECODE", None)
    return result


def measure_process(session: Session) -> Section:
    """A fresh process, up to its first batch."""
    rows = [Row(f"process start to first batch, {workers} workers") for workers in (0, 2)]
    progress = Progress((session.rounds + 1) * len(rows) * len(LIBRARIES))
    run_python("import rushlight.utils.data")
    for turn in range(session.rounds + 1):
        for row, workers in zip(rows, (0, 2)):
            for library in LIBRARIES:
                progress.step(row.case)
                seconds = seconds_to_first(PROCESS.format(library=library, workers=workers))
                if turn:  # the first turn fills the caches of files, bytecode and kernels
                    row.times[library].append(seconds)
    progress.close()
    checks = [Check(row.case, f"{row.ratio():.1f}x", "at least 1x", row.ratio() >= 1) for row in rows]
    return Section("First batch of a fresh process", rows, checks)


def run(session: Session) -> list[Section]:
    groups = [
        Group("data", "Loading: time per batch", cases(PASS, BATCHES), worst_bar=1.0),
        Group("first", "Loading: time to the first batch of a pass", cases(FIRST, {}), worst_bar=1.0),
    ]
    return [*(session.compare(group) for group in groups), measure_process(session)]
