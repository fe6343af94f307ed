"""examples/parallel_gpt.py: however a model is spread over processes, its losses are one process's."""

from __future__ import annotations

import contextlib
import functools
import io
import math
import os
import re
import runpy
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from .processes import results_of, run

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


# What the example imports; its processes are forked from one that has done so.
LIBRARIES = (
    "rushlight.distributed.pipelining",
    "rushlight.distributed.tensor.experimental",
    "rushlight.distributed.tensor.parallel",
    "rushlight.optim",
)


def arguments(spread: tuple[int, ...], experts: int) -> list[str]:
    names = ("data", "tensor", "pipeline", "context", "expert")
    counts = dict(zip(names, (*spread, 1), strict=False), experts=experts, steps=3)
    program = [str(EXAMPLES / "parallel_gpt.py"), str(EXAMPLES / "parallel_gpt.toml")]
    return program + [word for name, count in counts.items() for word in (f"--{name}", str(count))]


def example(rank: int, ranks: int, port: int, program: list[str]) -> str:
    """What the example prints in a process of a job, as a launcher would have started it."""
    place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": ranks, "MASTER_PORT": port}
    job = {"MASTER_ADDR": "127.0.0.1", "TORCHELASTIC_RUN_ID": "a test"}
    os.environ.update({name: str(value) for name, value in place.items()}, **job)
    sys.argv, said = program, io.StringIO()
    sys.path.insert(0, str(EXAMPLES))
    with contextlib.redirect_stdout(said):
        runpy.run_path(program[0], run_name="__main__")
    return said.getvalue()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@functools.cache
def losses(spread: tuple[int, ...] = (1, 1, 1, 1), experts: int = 0) -> list[float]:
    program, count = arguments(spread, experts), math.prod(spread)
    options = {"libraries": LIBRARIES, "make_world": False, "patience": 280.0}
    said = results_of(run(count, example, free_port(), program, **options)) if count > 1 else [alone(program)]
    return read(said[0])


def alone(program: list[str], *launcher: str) -> str:
    """What the example prints as a program of its own."""
    done = subprocess.run([sys.executable, *launcher, *program], capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    return done.stdout


def read(said: str) -> list[float]:
    return [float(number) for number in re.findall(r"loss ([\d.]+)", said)]


@pytest.mark.share(3)
@pytest.mark.slow
@pytest.mark.parametrize("spread", [(1, 1, 1, 2), (2, 1, 2, 1), (1, 2, 2, 1), (1, 2, 2, 2), (2, 2, 2, 1)], ids=str)
def test_losses_are_those_of_one_process(spread: tuple[int, int, int, int]) -> None:
    one = losses()
    assert len(one) == 3 and one[2] < one[0]
    assert losses(spread) == pytest.approx(one, rel=2e-5)


@pytest.mark.slow
def test_the_launcher_starts_it() -> None:
    found = read(alone(arguments((1, 2, 1, 1), 0), "-m", "rushlight", "run", "--nproc", "2"))
    assert found == pytest.approx(losses(), rel=2e-5)


@pytest.mark.share(3)
@pytest.mark.slow
@pytest.mark.parametrize("spread", [(1, 1, 1, 1, 2), (1, 1, 1, 1, 4), (1, 2, 1, 1, 2)], ids=str)
def test_experts_dealt_to_ranks(spread: tuple[int, ...]) -> None:
    one = losses(experts=4)
    assert len(one) == 3 and one[2] < one[0] and one != losses()
    assert losses(spread, 4) == pytest.approx(one, rel=2e-5)


def test_a_wrong_number_of_processes_is_told() -> None:
    program = [sys.executable, str(EXAMPLES / "parallel_gpt.py"), str(EXAMPLES / "parallel_gpt.toml")]
    done = subprocess.run(program, capture_output=True, text=True, timeout=120)
    said = "pipeline x data x expert x context x tensor is 8, but 1 processes were started"
    assert done.returncode and said in done.stderr
