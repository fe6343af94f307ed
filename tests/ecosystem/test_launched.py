"""Libraries that train on several processes give PyTorch's losses on two of ours."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.ecosystem, pytest.mark.slow]

HERE = Path(__file__).resolve().parent
PROGRAMS = sorted((HERE / "launched").glob("*.py"))
LAUNCHERS = {
    "torch": ["torch.distributed.run", "--nproc-per-node", "2"],
    "rushlight": ["rushlight", "run", "--nproc", "2"],
}
# PyTorch's processes abort now and then as they exit ("terminate called without an active exception"): they are asked
# again. Ours are not.
ATTEMPTS = {"torch": 3, "rushlight": 1}


def numbers(library: str, program: Path) -> list[float]:
    """What rank 0 printed last: the number of processes, and losses."""
    paths = [str(HERE), str(HERE.parent.parent), os.environ.get("PYTHONPATH", "")]
    for _ in range(ATTEMPTS[library]):
        done = subprocess.run(
            [sys.executable, "-m", *LAUNCHERS[library], str(program)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "OMP_NUM_THREADS": "1"},
            capture_output=True, text=True, timeout=280,
        )
        if done.returncode == 0:
            break
    assert done.returncode == 0, f"{library}: {done.stderr[-3000:]}"
    return json.loads([line for line in done.stdout.splitlines() if line.startswith("[")][-1])


@pytest.mark.share(3)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_losses_of_two_processes_are_those_of_pytorch(program: Path) -> None:
    for needed in ("torch", program.stem.split("_")[0]):
        if importlib.util.find_spec(needed) is None:
            pytest.skip(f"not installed: {needed}")
    expected, found = numbers("torch", program), numbers("rushlight", program)
    assert expected[0] == found[0] == 2 and len(found) > 4
    assert found == pytest.approx(expected, rel=1e-4)
