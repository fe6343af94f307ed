"""Write the notebooks of `examples/notebooks/` from chapters of the book.

Enters: pages of `docs/book/en`, and a Jupyter kernel (`pip install nbclient ipykernel`). Leaves: a notebook for each:
the chapter's prose, its blocks as cells with what they print, its pictures, and cells that show objects drawn, as
only a notebook can. `--check` runs nothing: it says whether the cells are those of the chapters.

    python tools/notebooks.py            write, and run
    python tools/notebooks.py --check
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import blocks

ROOT = Path(__file__).resolve().parent.parent
CHAPTERS = ROOT / "docs" / "book" / "en"
NOTEBOOKS = ROOT / "examples" / "notebooks"

# For each chapter: what a cell behind the block of that number shows.
SHOWN = {
    "01_compile": {1: "torch.utils.draw(curve, x)         # the graph, with the shape of each result"},
    "03_fx": {1: "gate            # a module shows its parameters", 2: "traced          # and a traced one its graph"},
}


def notebook(slug: str) -> dict[str, Any]:
    """The chapter as a notebook that has not run."""
    page = CHAPTERS / f"{slug}.md"
    lines = page.read_text(encoding="utf-8").split("\n")
    cells, at = [], 0
    note = f"*Written from `docs/book/en/{slug}.md` by `tools/notebooks.py`: change it there.*"
    for number, block in enumerate(blocks.blocks_of(page), 1):
        cells += _prose(lines[at : block.line - 1])
        code = block.code.rstrip("\n")
        at = block.line + len(code.split("\n")) + 1
        cells.append(_cell("code", code) if block.runs() else _cell("markdown", f"```python\n{code}\n```"))
        if number in SHOWN[slug]:
            cells.append(_cell("code", SHOWN[slug][number]))
    cells += _prose(lines[at:])
    cells.insert(1, _cell("markdown", note))
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def _prose(lines: list[str]) -> list[dict[str, Any]]:
    """Text between two blocks; what it links to lies beside the chapter."""
    text = re.sub(r"\]\((?![a-z]+:|#|/)", "](../../docs/book/en/", "\n".join(lines).strip())
    return [_cell("markdown", text)] if text else []


def _cell(kind: str, text: str) -> dict[str, Any]:
    cell: dict[str, Any] = {"cell_type": kind, "metadata": {}, "source": text.splitlines(keepends=True)}
    return cell | ({"execution_count": None, "outputs": []} if kind == "code" else {})


def sources(book: dict[str, Any]) -> list[tuple[str, str]]:
    """What a notebook says, without what it printed."""
    return [(cell["cell_type"], "".join(cell["source"])) for cell in book["cells"]]


def executed(book: dict[str, Any], limit: int = 300) -> dict[str, Any]:
    """The notebook with the outputs of a run in an empty folder; raises what a cell raises."""
    import nbclient
    import nbformat

    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    with tempfile.TemporaryDirectory() as folder:
        node = nbformat.reads(json.dumps(book), as_version=4)
        client = nbclient.NotebookClient(node, timeout=limit, resources={"metadata": {"path": folder}})
        client.execute(env=dict(os.environ, PYTHONPATH=path))
    for cell in node.cells:
        cell.metadata.pop("execution", None)            # when it ran
        cell.get("outputs", [])[:] = [out for out in cell.get("outputs", []) if out.get("name") != "stderr"]
    node.metadata.pop("language_info", None)
    return json.loads(re.sub(r"/\S+/ipykernel_\d+/\d+\.py", "a cell", nbformat.writes(node)))


def stale() -> list[str]:
    """Notebooks that are not their chapters'."""
    def said(slug: str) -> list[tuple[str, str]]:
        path = NOTEBOOKS / f"{slug}.ipynb"
        return sources(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else []

    return [slug for slug in SHOWN if said(slug) != sources(notebook(slug))]


def main() -> int:
    reader = argparse.ArgumentParser(description="Write the notebooks from chapters of the book.")
    reader.add_argument("--check", action="store_true", help="only say which are not their chapters'")
    if reader.parse_args().check:
        for slug in (old := stale()):
            print(f"examples/notebooks/{slug}.ipynb is not docs/book/en/{slug}.md: run tools/notebooks.py",
                  file=sys.stderr)
        return 1 if old else 0
    NOTEBOOKS.mkdir(parents=True, exist_ok=True)
    for slug in SHOWN:
        path = NOTEBOOKS / f"{slug}.ipynb"
        path.write_text(json.dumps(executed(notebook(slug)), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size:,} bytes", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
