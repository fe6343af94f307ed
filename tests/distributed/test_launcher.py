"""Jobs of several processes from the command line: environment, exit status, restarts, and ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

PROGRAM = """
import os, sys, time
import torch, torch.distributed as dist
dist.init_process_group("gloo")
rank, attempt = dist.get_rank(), os.environ["TORCHELASTIC_RESTART_COUNT"]
x = torch.ones(3)
dist.all_reduce(x)
open(os.path.join(sys.argv[1], f"{attempt}-{rank}"), "w").write(
    f"{x.tolist()} {dist.get_world_size()} {os.environ['LOCAL_RANK']} {os.getpid()} {sys.argv[2:]}")
if "fails" in sys.argv and attempt == "0" and rank == 1:
    sys.exit(3)
if "hangs" in sys.argv and attempt == "0" and rank == 0:
    time.sleep(60)
dist.barrier()
dist.destroy_process_group()
"""


@pytest.fixture
def program(tmp_path: Path) -> list[str]:
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "out").mkdir()
    return [str(tmp_path / "program.py"), str(tmp_path / "out")]


def launch(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", *arguments], capture_output=True, text=True, timeout=100)


def written(program: list[str]) -> dict[str, str]:
    return {path.name: path.read_text() for path in Path(program[1]).iterdir()}


def test_rushlight_run_starts_several(program: list[str]) -> None:
    done = launch("rushlight", "run", "--nproc", "2", *program, "--epochs", "3")
    assert done.returncode == 0, done.stderr
    found = written(program)
    assert set(found) == {"0-0", "0-1"}
    for rank in range(2):
        values, size, local, _, rest = found[f"0-{rank}"].partition("]")[2].split(" ", 4)
        assert (size, local, rest) == ("2", str(rank), "['--epochs', '3']")
        assert found[f"0-{rank}"].startswith("[2.0, 2.0, 2.0]") and not values


def test_torchrun_by_its_module_name(program: list[str]) -> None:
    done = launch("rushlight", "run", "-m", "torch.distributed.run", "--nproc_per_node=2", "--standalone", *program)
    assert done.returncode == 0, done.stderr
    assert set(written(program)) == {"0-0", "0-1"}


def test_a_process_that_fails_ends_the_job_and_is_named(program: list[str]) -> None:
    began = time.monotonic()
    done = launch("rushlight", "run", "--nproc", "2", *program, "fails", "hangs")
    assert done.returncode == 1 and "rank 1 (local rank 1" in done.stderr and "exit status 3" in done.stderr
    assert time.monotonic() - began < 50, "the process that hangs was ended too"
    pid = int(written(program)["0-0"].split("] ", 1)[1].split()[2])
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_all_are_started_again(program: list[str]) -> None:
    done = launch("rushlight", "run", "--nproc", "2", "--max-restarts", "2", *program, "fails")
    assert done.returncode == 0, done.stderr
    assert set(written(program)) == {"0-0", "0-1", "1-0", "1-1"} and "starting all processes again" in done.stderr


def test_the_end_of_the_launcher_is_the_end_of_all(program: list[str]) -> None:
    command = [sys.executable, "-m", "rushlight", "run", "--nproc", "2", *program, "hangs"]
    job = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while len(written(program)) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.2)
    pids = [int(text.split("] ", 1)[1].split()[2]) for text in written(program).values()]
    job.send_signal(signal.SIGTERM)
    assert job.wait(40) == 128 + signal.SIGTERM
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_machines_meet(program: list[str]) -> None:
    """Two launchers that number themselves at a store, as on two machines."""
    import socket

    with socket.create_server(("", 0)) as free:
        port = free.getsockname()[1]
    options = ["--nnodes", "2", "--nproc-per-node", "1", "--rdzv-backend", "c10d"]
    options += ["--rdzv-endpoint", f"127.0.0.1:{port}"]
    command = [sys.executable, "-m", "rushlight", "run", "-m", "torch.distributed.run", *options, *program]
    jobs = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    for job in jobs:
        errors = job.communicate(timeout=100)[1]
        assert job.returncode == 0, errors
    assert {name: text.split("] ", 1)[1].split()[:2] for name, text in written(program).items()} == {
        "0-0": ["2", "0"], "0-1": ["2", "0"],
    }


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--nnodes", "1:4"), "--rdzv-backend c10d"),
        (("--nnodes", "4:2", "--rdzv-backend", "c10d"), "least:most"),
        (("--rdzv-conf", "patience=3"), "last_call_timeout"),
        (("--nnodes", "2"), "--node-rank"),
        (("--nproc-per-node", "many"), "positive number"),
        (("--tee", "3"), "--tee is not written yet"),
        (("--nnodes", "2", "--rdzv-backend", "zookeeper"), "etcd-v2, got 'zookeeper'"),
        (("--nnodes", "2", "--rdzv-backend", "etcd"), "host:port"),
        (("--redirects", "x"), "--redirects"),
    ],
)
def test_bad_options(arguments: tuple[str, ...], words: str, capsys: Any) -> None:
    from rushlight.distributed import run

    with pytest.raises(SystemExit, match=words):
        run.main([*arguments, "program.py"])


def test_output_goes_to_files(program: list[str], tmp_path: Path) -> None:
    talk = tmp_path / "talk.py"
    talk.write_text("import os, sys; print('out', os.environ['RANK']); print('err', file=sys.stderr)")
    done = launch("rushlight.distributed.run", "--nproc-per-node", "2", "--log-dir", str(tmp_path / "logs"),
                  "--rdzv-id", "job7", "--redirects", "3", str(talk))
    assert done.returncode == 0 and not done.stdout, done.stderr
    folder = tmp_path / "logs" / "job7" / "attempt_0"
    assert [(folder / str(r) / "stdout.log").read_text() for r in range(2)] == ["out 0\n", "out 1\n"]
    assert (folder / "1" / "stderr.log").read_text() == "err\n"
