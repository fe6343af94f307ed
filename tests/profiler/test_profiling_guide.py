"""The code blocks of docs/profiling.md run, one after the other."""

from __future__ import annotations

import re
from pathlib import Path

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "profiling.md"


def test_the_guide_runs(capsys):
    blocks = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.M | re.S)
    assert len(blocks) >= 5
    space: dict = {"__name__": "guide"}
    for block in blocks:
        exec(compile(block, str(GUIDE), "exec"), space)
    assert "Self CPU time total" in capsys.readouterr().out
