"""The notebooks: their cells are those of the chapters, they run from top to bottom, and show pictures."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import notebooks  # noqa: E402


def test_notebooks_say_what_the_chapters_say() -> None:
    assert notebooks.stale() == [], "python tools/notebooks.py"


@pytest.mark.parametrize("slug", notebooks.SHOWN)
def test_pictures_and_links_lead_somewhere(slug: str) -> None:
    text = "".join(text for _, text in notebooks.sources(notebooks.notebook(slug)))
    targets = [part.split(")")[0].split("#")[0] for part in text.split("](")[1:]]
    places = [target for target in targets if target.startswith("../")]
    assert sum(place.endswith(".svg") for place in places) >= 2
    assert [place for place in places if not (notebooks.NOTEBOOKS / place).resolve().is_file()] == []


@pytest.mark.slow
@pytest.mark.ecosystem
@pytest.mark.parametrize("slug", notebooks.SHOWN)
def test_notebooks_run(slug: str) -> None:
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    book = notebooks.executed(notebooks.notebook(slug))
    outputs = [out for cell in book["cells"] for out in cell.get("outputs", [])]
    assert not [out for out in outputs if out["output_type"] == "error"]
    assert "<svg" in json.dumps([out.get("data", {}) for out in outputs])
    assert len(json.dumps(outputs)) < 100_000
