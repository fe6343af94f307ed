"""Back ends written for PyTorch's PrivateUse1 run here unchanged: each program's answers are PyTorch's.

A program runs in a process of its own, since the device's name is given away once a process. `answers/<program>.txt` is
what PyTorch 2.13 wrote; where it is installed it is asked again.
"""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PROGRAMS = ("names", "unnamed", "kernels", "fallback")


def said(program: str, *command: str) -> list[str]:
    """What a program writes."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, *command, str(HERE / "programs" / f"{program}.py")], capture_output=True,
                          text=True, env=env, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()


def stored(program: str) -> list[str]:
    return (HERE / "answers" / f"{program}.txt").read_text().splitlines()


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_back_end_gets_the_answers_of_pytorch(program):
    assert said(program, "-m", "rushlight", "run") == stored(program)


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
@pytest.mark.parametrize("program", ("names", "kernels"))
def test_the_stored_answers_are_what_pytorch_says(program):
    assert said(program) == stored(program)


def test_a_back_end_and_a_device_of_our_own_side_by_side():
    assert said("beside", "-m", "rushlight", "run") == [
        "tally: [2, 2] tally", "npy: [3, 3] npy", "kernels: ['add npy']", "refused: RuntimeError",
        "taken: RuntimeError", "moved: [2, 2] npy", "back: [2, 2] tally", "more than pytorch: [3.0, 3.0]"]
