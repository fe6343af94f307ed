"""docs/fx.md, docs/symbolic_sizes.md, docs/compile.md and docs/export.md run as written."""

from __future__ import annotations

import linecache
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("guide", ["fx.md", "symbolic_sizes.md", "compile.md", "export.md"])
def test_guide_runs(guide: str) -> None:
    names: dict[str, object] = {"__name__": "guide"}
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", (DOCS / guide).read_text(), re.DOTALL)):
        file = f"<{guide} block {number}>"
        linecache.cache[file] = (len(block), None, block.splitlines(keepends=True), file)
        exec(compile(block, file, "exec"), names)
