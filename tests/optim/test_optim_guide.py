"""The examples of docs/optim.md run, one after the other, as a reader would run them."""

from __future__ import annotations

import re
from pathlib import Path

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "optim.md"


def test_examples_run() -> None:
    names: dict = {}
    for block in re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL):
        exec(compile(block, str(GUIDE), "exec"), names)
