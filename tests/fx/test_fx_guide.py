"""docs/fx.md runs as written."""

from __future__ import annotations

import linecache
import re
from pathlib import Path

GUIDE = Path(__file__).parents[2] / "docs" / "fx.md"


def test_guide_runs() -> None:
    names: dict[str, object] = {"__name__": "guide"}
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)):
        file = f"<fx.md block {number}>"
        linecache.cache[file] = (len(block), None, block.splitlines(keepends=True), file)
        exec(compile(block, file, "exec"), names)
