"""An unmodified PyTorch program with worker processes of every start method, run by `python -m rushlight run`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import torch
import torch.multiprocessing as mp
from torch.utils.data import DataLoader, Dataset

class Rows(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, i):
        return torch.ones(3) * i, i

def mark(rank, shared):
    shared[rank] = rank + 1

if __name__ == "__main__":
    for method in ("fork", "spawn", "forkserver"):
        loader = DataLoader(Rows(), batch_size=4, num_workers=2, multiprocessing_context=method)
        print(method, [(type(x).__module__, y.tolist()) for x, y in loader], flush=True)
    shared = torch.zeros(2).share_memory_()
    mp.spawn(mark, args=(shared,), nprocs=2)
    print(shared.tolist(), "rushlight" in torch.__version__)
"""


def test_every_start_method_serves_rushlight_as_torch(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    environment = dict(os.environ, PYTHONPATH=str(ROOT))
    done = subprocess.run(
        [sys.executable, "-m", "rushlight", "run", str(script)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines[:3]] == ["fork", "spawn", "forkserver"]
    assert all("[0, 1, 2, 3]" in line and "[4, 5, 6, 7]" in line for line in lines[:3])
    assert lines[3] == "[1.0, 2.0] True"
