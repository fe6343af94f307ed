"""examples/parallel_gpt.py: however a model is spread over processes, its losses are one process's."""

from __future__ import annotations

import functools
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@functools.cache
def losses(
    data: int, tensor: int, pipeline: int, context: int, expert: int = 1, experts: int = 0
) -> list[float]:
    program = [str(EXAMPLES / "parallel_gpt.py"), str(EXAMPLES / "parallel_gpt.toml"), "--steps", "3"]
    program += ["--data", str(data), "--tensor", str(tensor), "--pipeline", str(pipeline)]
    program += ["--context", str(context), "--expert", str(expert), "--experts", str(experts)]
    count = data * tensor * pipeline * context * expert
    start = ["-m", "rushlight", "run", "--nproc", str(count)] if count > 1 else []
    done = subprocess.run([sys.executable, *start, *program], capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    return [float(number) for number in re.findall(r"loss ([\d.]+)", done.stdout)]


@pytest.mark.parametrize("spread", [(1, 1, 1, 2), (2, 1, 2, 1), (1, 2, 2, 1), (1, 2, 2, 2), (2, 2, 2, 1)], ids=str)
def test_losses_are_those_of_one_process(spread: tuple[int, int, int, int]) -> None:
    alone = losses(1, 1, 1, 1)
    assert len(alone) == 3 and alone[2] < alone[0]
    assert losses(*spread) == pytest.approx(alone, rel=2e-5)


@pytest.mark.parametrize("spread", [(1, 1, 1, 1, 2), (1, 1, 1, 1, 4), (1, 2, 1, 1, 2)], ids=str)
def test_experts_dealt_to_ranks(spread: tuple[int, ...]) -> None:
    alone = losses(1, 1, 1, 1, 1, 4)
    assert len(alone) == 3 and alone[2] < alone[0] and alone != losses(1, 1, 1, 1)
    assert losses(*spread, 4) == pytest.approx(alone, rel=2e-5)


def test_a_wrong_number_of_processes_is_told() -> None:
    program = [sys.executable, str(EXAMPLES / "parallel_gpt.py"), str(EXAMPLES / "parallel_gpt.toml")]
    done = subprocess.run(program, capture_output=True, text=True, timeout=120)
    said = "pipeline x data x expert x context x tensor is 8, but 1 processes were started"
    assert done.returncode and said in done.stderr
