"""The code blocks of the guides run, one after the other, and so do the examples."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("amp.md", 3),
        ("lazy.md", 4),
        ("utilities.md", 9),
        ("coming_from_pytorch.md", 2),
        ("adding_an_op.md", 7),
        ("adding_a_device.md", 8),
        ("npu.md", 7),
        ("checking_a_device.md", 5),
        ("pruning.md", 3),
        ("quantization.md", 6),
        ("serving_language.md", 3),
        ("helpers.md", 3),
    ],
)
def test_the_guide_runs(name, least, capsys, monkeypatch):
    monkeypatch.chdir(DOCS.parent)
    monkeypatch.syspath_prepend(str(DOCS.parent))
    blocks = re.findall(r"^```python\n(.*?)^```", (DOCS / name).read_text(encoding="utf-8"), re.M | re.S)
    assert len(blocks) >= least
    space: dict = {"__name__": "guide"}
    for block in blocks:
        exec(compile(block, name, "exec"), space)
    capsys.readouterr()


def run_example(folder: Path, name: str, *words: str) -> str:
    """What an example prints, run as a program in an empty folder."""
    program = [sys.executable, str(DOCS.parent / "examples" / name), *words]
    done = subprocess.run(
        program,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=600,
        env=dict(os.environ, PYTHONPATH=str(DOCS.parent)),
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_language_model_is_trained_saved_and_fine_tuned(tmp_path: Path) -> None:
    assert "saved as gpt.pt" in run_example(tmp_path, "gpt.py", "--steps", "3")
    assert "adapter saved" in run_example(tmp_path, "finetune.py", "--steps", "2")


@pytest.mark.slow
def test_digits_are_recognised(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    assert "accuracy 9" in run_example(tmp_path, "mnist.py", "--epochs", "3").splitlines()[-1]


@pytest.mark.slow
def test_a_pruned_student_is_taught(tmp_path: Path) -> None:
    lines = run_example(tmp_path, "distill.py", "--images", "600", "--epochs", "3").splitlines()
    _, pruned, taught = (float(re.search(r"([\d.]+)%", line)[1]) for line in lines)
    assert taught > pruned + 20 and "8,182 parameters" in lines[-1]


@pytest.mark.slow
def test_a_network_is_quantized_in_four_ways(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    rows = [line.rsplit(None, 5) for line in run_example(tmp_path, "quantize.py", "--epochs", "3").splitlines()[-5:]]
    accuracy, size = ([float(row[k].rstrip("%")) for row in rows] for k in (1, 2))
    assert min(accuracy) > 90 and accuracy[0] - min(accuracy) < 3      # every way is near the network of floats
    assert max(size[1:4]) < 0.4 * size[0]


@pytest.mark.slow
def test_a_language_model_of_few_bits(tmp_path: Path) -> None:
    rows = run_example(tmp_path, "quantize_gpt.py", "--steps", "3").splitlines()[-7:]
    losses = {row[:28].strip(): float(row[28:].split()[0]) for row in rows}
    assert len(losses) == 7 and max(losses.values()) < 1.02 * losses["32 bits"]


def test_the_page_of_environment_variables_has_the_table_of_the_code() -> None:
    from rushlight.base import environment

    assert environment.table() in (DOCS / "environment.md").read_text(
        encoding="utf-8"
    ), "write environment.table() into docs/environment.md"
