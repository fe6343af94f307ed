"""docs/xla.md runs, and examples/xla_gpt.py learns."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

pytest.importorskip("jaxlib")

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_the_example_learns(tmp_path, capsys):
    spec = importlib.util.spec_from_file_location("xla_gpt", ROOT / "examples/xla_gpt.py")
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    first, last = example.train(12, str(tmp_path))
    assert last < first - 0.3
    said = capsys.readouterr().out
    assert "programs were compiled" in said and "loaded again" in said
