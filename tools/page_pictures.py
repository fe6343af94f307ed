"""Pictures of the book, drawn from what this tree does when they are drawn.

Enters: `docs/book/pictures/NN_slug.py`, whose functions `draw_NAME(say)` run something and return SVG; `say(english,
chinese)` is the word of the language being drawn. Leaves: `docs/book/LANGUAGE/pictures/NN_slug_NAME.svg`, the same on
every machine, so that a test can draw them again and compare. Refuses pictures of what differs between machines: times,
vector widths and addresses belong into the pages' own blocks.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from draw_pictures import Picture
from page_form import BOOK, LANGUAGES, chapters

SOURCES = BOOK / "pictures"
TOOLS = Path(__file__).resolve().parent
Say = Callable[[str, str], str]
COLORS = {"placeholder": "PowderBlue", "output": "LightGrey", "get_attr": "Khaki1", "call_module": "DarkSeaGreen1"}


def width_of(text: str, letter: float = 7.3) -> float:
    """About what a line of code takes; Chinese characters are twice as wide."""
    return letter * sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def graph(title: str, module: Any, label: Callable[[Any], str] | None = None,
          colors: Mapping[str, str] | None = None) -> str:
    """An fx graph (or what has one), a box for each node; `colors`: of nodes by name."""
    from rushlight.fx.passes.graph_svg import draw_svg

    nodes = list(getattr(module, "graph", module).nodes)
    told = label or (lambda node: node.name if node.op in ("placeholder", "output") else f"{node.op}|{node.name}")
    boxes = {
        node.name: {"label": told(node), "fillcolor": (colors or {}).get(node.name, COLORS.get(node.op, "AliceBlue"))}
        for node in nodes
    }
    edges = [(before.name, node.name) for node in nodes for before in node.all_input_nodes]
    return on_paper(draw_svg(title, boxes, edges))


def boxes(title: str, nodes: Mapping[str, str], edges: Sequence[tuple[str, str]],
          colors: Mapping[str, str] | None = None) -> str:
    """Labels by name (`|` starts a line) and arrows between them, laid out in rows."""
    from rushlight.fx.passes.graph_svg import draw_svg

    made = {name: {"label": label, "fillcolor": (colors or {}).get(name, "AliceBlue")} for name, label in nodes.items()}
    return on_paper(draw_svg(title, made, edges))


def on_paper(svg: str) -> str:
    """The same picture on a light ground, so that it can be read on a dark page; and with a role for readers."""
    head, _, rest = svg.partition(">")
    return f'{head} role="img" style="max-width:100%"><rect width="100%" height="100%" rx="8" fill="#fbfaf8"/>{rest}'


def bars(title: str, rows: Sequence[tuple[str, float, str]], hot: Sequence[int] = ()) -> str:
    """A bar for each (label, value, what is written behind it)."""
    left = 30 + max(width_of(label) for label, _, _ in rows)
    most = max(value for _, value, _ in rows) or 1.0
    right = 20 + max(width_of(note) for _, _, note in rows)
    picture = Picture(round(left + 320 + right), 50 + 34 * len(rows), title)
    picture.text(18, 28, title)
    for number, (label, value, note) in enumerate(rows):
        y = 46 + 34 * number
        picture.text(18, y + 16, label, "code")
        kind = "bar" if number in hot else "bar second"
        wide = 320 * value / most
        picture.parts.append(f'<rect class="{kind}" x="{left:.0f}" y="{y}" width="{wide:.1f}" height="22" rx="3"/>')
        picture.text(round(left + 320 * value / most + 8), y + 16, note, "small")
    return picture.svg()


def lines(title: str, rows: Sequence[tuple[str, str]], hot: Sequence[int] = ()) -> str:
    """Code on the left, a remark on each line to its right; lines in `hot` stand out."""
    left = 46 + max(width_of(code) for code, _ in rows)
    right = 24 + max((width_of(remark, 6.6) for _, remark in rows), default=0)
    picture = Picture(round(max(left + right, 60 + width_of(title, 8))), 52 + 22 * len(rows), title)
    picture.text(18, 28, title)
    for number, (code, remark) in enumerate(rows):
        y = 42 + 22 * number
        if number in hot:
            picture.parts.append(f'<rect class="hot" x="12" y="{y}" width="{left - 20:.0f}" height="20" rx="3"/>')
        picture.text(18, y + 15, code, "code")
        picture.text(round(left), y + 15, remark, "small")
    return picture.svg()


def grid(title: str, cells: Sequence[Sequence[str]], hot: Callable[[int, int], bool] = lambda row, column: False,
         side: Sequence[str] = ()) -> str:
    """A table of short texts in squares; `side`: words in front of the rows."""
    wide = max(44, round(16 + max(width_of(text) for row in cells for text in row)))
    left = 20 + (max(width_of(text) for text in side) + 10 if side else 0)
    width = left + wide * max(map(len, cells)) + 20
    picture = Picture(round(max(width, 60 + width_of(title, 8))), 56 + 34 * len(cells), title)
    picture.text(18, 28, title)
    for i, row in enumerate(cells):
        y = 42 + 34 * i
        if side:
            picture.text(18, y + 21, side[i], "code")
        for j, text in enumerate(row):
            x = left + wide * j
            kind = "box hot" if hot(i, j) else "box"
            picture.parts.append(f'<rect class="{kind}" x="{x:.0f}" y="{y}" width="{wide}" height="32"/>')
            picture.text(round(x + wide / 2), y + 21, text, "code", "middle")
    return picture.svg()


def lanes(title: str, rows: Sequence[tuple[str, Sequence[tuple[float, float, str]]]], unit: str = "") -> str:
    """Time to the right: for each lane the pieces (from, to, name) that it is busy with."""
    left = 36 + max(width_of(name) for name, _ in rows)
    end = max(stop for _, pieces in rows for _, stop, _ in pieces)
    scale = 620 / end
    picture = Picture(round(left + 660), 74 + 44 * len(rows), title)
    picture.text(18, 28, title)
    for number, (name, pieces) in enumerate(rows):
        y = 44 + 44 * number
        picture.text(18, y + 23, name, "code")
        for start, stop, word in pieces:
            wide = (stop - start) * scale
            x = left + start * scale
            picture.parts.append(f'<rect class="box hot" x="{x:.1f}" y="{y}" width="{wide:.1f}" height="34" rx="4"/>')
            if width_of(word) < wide - 6:
                picture.text(round(x + wide / 2), y + 22, word, "code", "middle")
    picture.text(round(left), 60 + 44 * len(rows), unit, "small")
    return picture.svg()


def drawn(chapter: str) -> dict[str, str]:
    """The pictures of a chapter, by path below docs/book; in this process."""
    specification = importlib.util.spec_from_file_location(f"pictures_{chapter}", SOURCES / f"{chapter}.py")
    assert specification is not None and specification.loader is not None, chapter
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    made = {}
    for language in LANGUAGES:
        for name, draw in list(vars(module).items()):
            if name.startswith("draw_"):
                svg = draw(lambda english, chinese: english if language == "en" else chinese)  # noqa: B023 - called at once
                made[f"{language}/pictures/{chapter}_{name.removeprefix('draw_')}.svg"] = svg
    return made


def redraw(chapter: str) -> dict[str, str]:
    """The same in a process of its own, which compiles everything anew."""
    environment = dict(os.environ, RUSHLIGHT_GRAPH_CACHE="0", PYTHONPATH=str(TOOLS.parent), PYTHONIOENCODING="utf-8")
    done = subprocess.run([sys.executable, str(TOOLS / "page_pictures.py"), chapter], env=environment, check=False,
                          capture_output=True, text=True, encoding="utf-8")
    if done.returncode:
        raise RuntimeError(f"pictures of {chapter}: {done.stderr}")
    result: dict[str, str] = json.loads(done.stdout.rpartition("\x1e")[2])
    return result


def with_pictures() -> list[str]:
    return [chapter for chapter in chapters() if (SOURCES / f"{chapter}.py").is_file()]


if __name__ == "__main__":
    print("\x1e" + json.dumps(drawn(sys.argv[1])))
