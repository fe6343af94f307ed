"""An everyday program (everyday.py) is clean under mypy, which sees only the stubs and sources of the package."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import rushlight

PROGRAM = Path(__file__).with_name("everyday.py")
INSTALLED = Path(rushlight.__file__).parent.parent


def execute(*command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(INSTALLED), "MYPYPATH": str(INSTALLED)}
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300)


def test_the_program_runs(tmp_path: Path) -> None:
    done = execute(sys.executable, str(PROGRAM), cwd=tmp_path)
    assert done.returncode == 0 and done.stdout.startswith("accuracy "), done.stderr


WRONG = """
import rushlight as torch
x = torch.ones(3)
reveal_type(x + 1)
reveal_type(x.max(0).values)
reveal_type(torch.nn.Linear(2, 2).weight)
x.no_such_method()
torch.no_such_function(x)
"""


@pytest.mark.slow
def test_mypy_finds_what_is_wrong_and_nothing_else(tmp_path: Path) -> None:
    """`Any` everywhere would be clean as well: wrong uses must be found, and results have types."""
    pytest.importorskip("mypy")
    (tmp_path / "wrong.py").write_text(WRONG)
    (tmp_path / "everyday.py").write_text(PROGRAM.read_text())
    # The package's own bodies are not the question here: its annotations are, as a user's program meets them.
    (tmp_path / "mypy.ini").write_text(
        "[mypy]\ncheck_untyped_defs = True\n[mypy-rushlight.*]\nfollow_imports = silent\n[mypy-numpy.*]\nfollow_imports"
        " = skip\n"
    )
    command = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "--cache-dir", str(tmp_path / "cache")]
    done = execute(*command, "everyday.py", "wrong.py", cwd=tmp_path)
    errors = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert len(errors) == 2 and all(line.startswith("wrong.py:") for line in errors), done.stdout + done.stderr[-2000:]
    assert "no_such_method" in errors[0] and "no_such_function" in errors[1]
    revealed = re.findall(r'Revealed type is "([^"]*)"', done.stdout)
    assert len(revealed) == 3 and all("Tensor" in kind or "Parameter" in kind for kind in revealed), done.stdout
