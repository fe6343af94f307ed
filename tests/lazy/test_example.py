"""examples/lazy_mnist.py learns."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

pytest.importorskip("sklearn")

PATH = Path(__file__).resolve().parents[2] / "examples" / "lazy_mnist.py"


@pytest.mark.slow
def test_the_example_learns(capsys):
    spec = importlib.util.spec_from_file_location("lazy_mnist", PATH)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    assert example.train(3) > 0.85
    assert "graphs compiled" in capsys.readouterr().out
