"""The code blocks of docs/saving.md run, one after the other."""

import re
import types
from pathlib import Path

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "saving.md"


def test_the_guide_runs(monkeypatch):
    space = types.ModuleType("guide_to_saving")    # classes of the guide must be found again under a module's name
    monkeypatch.setitem(__import__("sys").modules, space.__name__, space)
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), flags=re.S)
    assert len(blocks) >= 4
    for block in blocks:
        exec(compile(block, str(GUIDE), "exec"), vars(space))
