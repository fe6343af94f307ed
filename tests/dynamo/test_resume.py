"""Functions broken at any of their instructions run as they did: see break_everywhere.py."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.parametrize("python", [sys.executable, "python3.12", "python3.13", "python3.14"])
def test_breaks_at_every_instruction(python):
    found = python if python == sys.executable else shutil.which(python)
    if found is None or subprocess.run([found, "-c", ""], capture_output=True).returncode:
        pytest.skip(f"{python} is not here")
    answer = subprocess.run([found, str(HERE / "break_everywhere.py")], capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr[-2000:]
    assert int(answer.stdout) > 250
