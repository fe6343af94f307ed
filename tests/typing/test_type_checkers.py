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


@pytest.mark.slow
def test_mypy_finds_nothing(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    # The package's own bodies are not the question here: its annotations are, as a user's program meets them.
    (tmp_path / "mypy.ini").write_text(
        "[mypy]\ncheck_untyped_defs = True\n[mypy-rushlight.*]\nfollow_imports = silent\n[mypy-numpy.*]\nfollow_imports"
        " = skip\n"
    )
    done = execute(
        sys.executable,
        "-m",
        "mypy",
        "--config-file",
        "mypy.ini",
        "--cache-dir",
        str(tmp_path / "cache"),
        str(PROGRAM),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]


@pytest.mark.slow
def test_mypy_knows_the_types_of_results(tmp_path: Path) -> None:
    """`Any` everywhere would be clean as well: wrong uses must be found, and results have types."""
    pytest.importorskip("mypy")
    (tmp_path / "wrong.py").write_text("""
import rushlight as torch
x = torch.ones(3)
reveal_type(x + 1)
reveal_type(x.max(0).values)
reveal_type(torch.nn.Linear(2, 2).weight)
x.no_such_method()
torch.no_such_function(x)
""")
    done = execute(
        sys.executable,
        "-m",
        "mypy",
        "--cache-dir",
        str(tmp_path / "cache"),
        "--follow-imports",
        "silent",
        "wrong.py",
        cwd=tmp_path,
    )
    revealed = re.findall(r'Revealed type is "([^"]*)"', done.stdout)
    assert len(revealed) == 3 and all("Tensor" in kind or "Parameter" in kind for kind in revealed), done.stdout
    assert "no_such_method" in done.stdout and "no_such_function" in done.stdout
