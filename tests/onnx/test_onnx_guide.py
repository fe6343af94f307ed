"""The code of docs/onnx.md runs."""

from __future__ import annotations

import re
from pathlib import Path


def test_the_guide_runs():
    text = (Path(__file__).parents[2] / "docs" / "onnx.md").read_text(encoding="utf-8")
    names: dict[str, object] = {"__name__": "guide"}
    blocks = re.findall(r"```python\n(.*?)```", text, re.S)
    assert len(blocks) == 4
    for block in blocks:
        exec(block, names)
