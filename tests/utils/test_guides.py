"""The code blocks of docs/amp.md and docs/utilities.md run, one after the other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize(("name", "least"), [("amp.md", 3), ("utilities.md", 6)])
def test_the_guide_runs(name, least, capsys):
    blocks = re.findall(r"^```python\n(.*?)^```", (DOCS / name).read_text(encoding="utf-8"), re.M | re.S)
    assert len(blocks) >= least
    space: dict = {"__name__": "guide"}
    for block in blocks:
        exec(compile(block, name, "exec"), space)
    capsys.readouterr()
