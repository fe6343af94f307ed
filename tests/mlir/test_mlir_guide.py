"""The code of docs/mlir.md runs."""

from __future__ import annotations

import re
from pathlib import Path


def test_the_guide_runs():
    text = (Path(__file__).parents[2] / "docs" / "mlir.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.S)
    assert len(blocks) >= 2
    names: dict[str, object] = {"__name__": "guide"}
    for block in blocks:
        exec(block, names)
