"""docs/troubleshooting.md: every message in it is raised by its block, word for word, and every remedy runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).resolve().parents[2] / "docs/troubleshooting.md").read_text(encoding="utf-8")
HEAD, *SECTIONS = PAGE.split("\n## ")


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.M | re.S)


def test_there_are_ten_or_more() -> None:
    assert len(SECTIONS) >= 10


@pytest.mark.parametrize("section", SECTIONS, ids=lambda text: text.splitlines()[0])
def test_the_message_is_raised_and_the_remedy_runs(section: str) -> None:
    space: dict = {}
    exec(blocks(HEAD, "python")[0], space)
    raising, remedy = blocks(section, "python")
    exec(raising, space)
    assert space["message"] == blocks(section, "text")[0].rstrip("\n")
    exec(remedy, space)
    assert "**Remedy.**" in section
