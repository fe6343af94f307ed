"""docs/script.md runs as written."""

import linecache
import re
from pathlib import Path

GUIDE = Path(__file__).parents[2] / "docs" / "script.md"


def test_the_guide_runs() -> None:
    names: dict[str, object] = {"__name__": "guide"}
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)):
        file = f"<script.md block {number}>"
        linecache.cache[file] = (len(block), None, block.splitlines(keepends=True), file)
        exec(compile(block, file, "exec"), names)
