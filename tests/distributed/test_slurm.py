"""Jobs that Slurm starts, where there is one that works: on one machine, with tasks for ranks or with launchers."""

from __future__ import annotations

import functools
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import os, sys
from datetime import timedelta
if "RANK" not in os.environ:        # no launcher: Slurm's own numbers
    os.environ.update(RANK=os.environ["SLURM_PROCID"], WORLD_SIZE=os.environ["SLURM_NTASKS"],
                      LOCAL_RANK=os.environ["SLURM_LOCALID"])
import rushlight as rl
from rushlight import distributed as dist
dist.init_process_group("gloo", timeout=timedelta(seconds=60))
x = rl.tensor(float(dist.get_rank() + 1))
dist.all_reduce(x)
open(f"{sys.argv[1]}-{dist.get_rank()}", "w").write(f"{x.item()} {dist.get_world_size()} {os.environ['SLURM_JOB_ID']}")
dist.destroy_process_group()
"""


@functools.cache
def _works() -> bool:
    if shutil.which("srun") is None:
        return False
    try:
        tried = subprocess.run(["srun", "--overcommit", "-n", "1", "true"], timeout=15, capture_output=True)
        return tried.returncode == 0
    except subprocess.TimeoutExpired:
        return False


@pytest.fixture
def program(tmp_path: Path) -> Path:
    if not _works():
        pytest.skip("needs a Slurm that runs jobs")
    (tmp_path / "program.py").write_text(PROGRAM)
    return tmp_path / "program.py"


def _port() -> str:
    with socket.create_server(("", 0)) as free:
        return str(free.getsockname()[1])


def _srun(tasks: int, command: list[str], **more: str) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **more}
    done = subprocess.run(
        ["srun", "--overcommit", "--export=ALL", "-n", str(tasks), *command], env=environment, capture_output=True,
        text=True, timeout=150,
    )
    assert done.returncode == 0, done.stderr


def _said(folder: Path) -> list[list[str]]:
    return [path.read_text().split() for path in sorted(folder.glob("out-*"))]


def test_tasks_are_ranks(program):
    out = str(program.parent / "out")
    _srun(3, [sys.executable, str(program), out], MASTER_ADDR="127.0.0.1", MASTER_PORT=_port())
    found = _said(program.parent)
    assert [row[:2] for row in found] == [["6.0", "3"]] * 3 and len({row[2] for row in found}) == 1


def test_a_launcher_per_task_numbers_itself(program):
    launcher = [sys.executable, "-m", "rushlight.distributed.run", "--nnodes", "2", "--nproc-per-node", "2"]
    meeting = ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{_port()}"]
    _srun(2, [*launcher, *meeting, str(program), str(program.parent / "out")])
    assert [row[:2] for row in _said(program.parent)] == [["10.0", "4"]] * 4
