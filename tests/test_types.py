"""Everyday programs check clean against our stubs, as they do against PyTorch's:
tests/types_samples/ under mypy and pyright.

The programs are written for `torch`; here their imports are turned to `rushlight`. They also run, in
`test_the_programs_run`, so that what is checked is what works.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import rushlight

ROOT = Path(__file__).resolve().parent.parent
SAMPLES = sorted((ROOT / "tests" / "types_samples").glob("*.py"))
INSTALLED = str(Path(rushlight.__file__).parent.parent)

# What a checker must see, not merely let pass: each line's type, as both of them write it.
REVEALED = {
    "x.max(0).values": "Tensor", "x.shape": "Size", "x.shape[0]": "int", "x.shape[1:]": "Size",
    "torch.linalg.svd(x).S": "Tensor", "x.grad": "Tensor | None", "x + 1": "Tensor", "2 - x": "Tensor",
    "nn.Linear(2, 2)": "Linear", "nn.Linear(2, 2).weight": "Parameter",
    "torch.optim.AdamW([x])": "AdamW", "[y for y in x]": "list[Tensor]", "x.size()": "Size", "x.size(0)": "int",
    "nn.Linear(2, 2)(x)": "Any", "torch.device('cpu').type": "str", "torch.float32": "dtype", "F.relu(x)": "Tensor",
    "x.to('cpu')": "Tensor", "torch.tensor([1])": "Tensor", "next(nn.Linear(2, 2).parameters())": "Parameter",
    "torch.Generator().manual_seed(0)": "Generator", "decorated(x)": "Tensor",
}


def turned(folder: Path) -> None:
    """Copies of the programs that import rushlight."""
    for sample in SAMPLES:
        text = re.sub(r"(?m)^import torch$", "import rushlight as torch", sample.read_text())
        (folder / sample.name).write_text(re.sub(r"(?m)^(from|import) torch\b", r"\1 rushlight", text))


def reveal(folder: Path) -> None:
    lines = [
        "import rushlight as torch",
        "import rushlight.nn.functional as F",
        "from rushlight import nn",
        "x = torch.zeros(2, 3)",
        "@torch.no_grad()",
        "def decorated(x: torch.Tensor) -> torch.Tensor: return x",
        "with torch.no_grad(), torch.autocast('cpu'), torch.device('cpu'): pass",
        *(f"reveal_type({text})" for text in REVEALED),
    ]
    (folder / "revealed.py").write_text("\n".join(lines) + "\n")


def check(command: list[str], folder: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": INSTALLED, "MYPYPATH": INSTALLED}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=900)
    return done.stdout + done.stderr


def found_types(text: str, pattern: str) -> dict[str, str]:
    """What a checker said of each line, in one spelling."""
    said = {int(line): re.sub(r"[\w.]+\.(?=\w)|\?", "", kind) for line, kind in re.findall(pattern, text)}
    first = 8   # of the lines of revealed.py
    return {expression: said.get(first + i, "nothing") for i, expression in enumerate(REVEALED)}


def compare(found: dict[str, str]) -> None:
    def parts(kind: str) -> set[str]:
        return set(kind.replace("None | ", "").replace(" | None", "").split(" | "))

    wrong = {name: kind for name, kind in found.items() if parts(kind) != parts(REVEALED[name])}
    assert not wrong


@pytest.mark.slow
def test_mypy(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    turned(tmp_path)
    reveal(tmp_path)
    # Errors in the package itself are not the user's, as with an installed package.
    (tmp_path / "mypy.ini").write_text("[mypy]\n[mypy-rushlight.*]\nignore_errors = True\nfollow_imports = silent\n")
    said = check([sys.executable, "-m", "mypy", "--check-untyped-defs", "."], tmp_path)
    errors = [line for line in said.splitlines() if ": error:" in line]
    assert not errors and "revealed.py" in said, "\n".join(errors) or said
    compare(found_types(said, r'revealed\.py:(\d+): note: Revealed type is "(.*)"'))


@pytest.mark.slow
def test_pyright(tmp_path: Path) -> None:
    if importlib.util.find_spec("pyright") is None and shutil.which("pyright") is None:
        pytest.skip("pyright is not installed")
    turned(tmp_path)
    reveal(tmp_path)
    (tmp_path / "pyrightconfig.json").write_text(f'{{"extraPaths": ["{INSTALLED}"]}}')
    said = check([sys.executable, "-m", "pyright", "."], tmp_path)
    if "revealed.py" not in said:
        pytest.skip(f"pyright does not run here: {said[:200]}")
    errors = [line for line in said.splitlines() if " - error:" in line or " - warning:" in line]
    assert not errors
    compare(found_types(said, r'revealed\.py:(\d+):\d+ - information: Type of ".*" is "(.*)"'))


@pytest.mark.share(2)
@pytest.mark.slow
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_the_programs_run(sample: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "rushlight", "run", str(sample)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": INSTALLED},
    )
    assert done.returncode == 0, done.stderr
