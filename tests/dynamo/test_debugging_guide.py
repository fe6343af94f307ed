"""The code blocks of docs/debugging.md run, one after the other, and the page names every artifact there is."""

from __future__ import annotations

import re
from pathlib import Path

from rushlight._logging._internal import log_registry

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "debugging.md"


def test_the_guide_names_all_artifacts() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    assert [name for name in log_registry.artifact_names if f"`{name}`" not in text] == ["custom_format_test_artifact"]
    silent = text[text.index("`annotation`"):].partition("are about parts")[0]
    assert set(re.findall(r"`(\w+)`", silent)) == log_registry.silent
