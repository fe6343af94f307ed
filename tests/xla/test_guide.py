"""docs/xla.md runs, and examples/xla_gpt.py learns."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

pytest.importorskip("jaxlib")

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_the_guide_runs(capsys):
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/xla.md").read_text(encoding="utf-8"), re.M | re.S)
    assert len(blocks) >= 5
    space: dict = {"__name__": "guide"}
    for block in blocks:
        exec(compile(block, "xla.md", "exec"), space)
    capsys.readouterr()


@pytest.mark.slow
def test_the_example_learns(tmp_path, capsys):
    spec = importlib.util.spec_from_file_location("xla_gpt", ROOT / "examples/xla_gpt.py")
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    first, last = example.train(12, str(tmp_path))
    assert last < first - 0.3
    said = capsys.readouterr().out
    assert "programs were compiled" in said and "loaded again" in said
