"""Pictures of directed graphs as SVG text, without Graphviz.

Enters: nodes with labels and colors, edges. Leaves: SVG: a node stands one row below the lowest that it uses, and
within rows nodes stand near those they are tied to. Made for graphs that run from top to bottom; edges that go back are
drawn all the same.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

_WIDTH, _LINE, _PAD, _GAP_X, _GAP_Y = 6.6, 14, 8, 24, 40      # of a letter, of a line; around text; between boxes
_COLORS = {
    "AliceBlue": "#f0f8ff", "LemonChiffon1": "#fffacd", "LightGrey": "#d3d3d3", "PowderBlue": "#b0e0e6",
    "CadetBlue1": "#98f5ff", "Coral": "#ff7f50", "DarkOliveGreen1": "#caff70", "DarkSeaGreen1": "#c1ffc1",
    "GhostWhite": "#f8f8ff", "Khaki1": "#fff68f", "LavenderBlush1": "#fff0f5", "LightSkyBlue": "#87cefa",
    "MistyRose1": "#ffe4e1", "PaleTurquoise2": "#aeeeee", "PeachPuff1": "#ffdab9", "Salmon": "#fa8072",
    "Thistle1": "#ffe1ff", "Wheat1": "#ffe7ba", "YellowGreen": "#9acd32", "Yellow2": "#eeee00", "Green": "#66cc66",
    "Red": "#ee6666",
}


def lines_of(label: str) -> list[str]:
    """The lines of a label in Graphviz's record language."""
    text = label.strip()
    text = text[1:-1] if text.startswith("{") and text.endswith("}") else text
    for escaped, plain in ((r"\|", "\0"), (r"\{", "{"), (r"\}", "}"), (r"\<", "<"), (r"\>", ">")):
        text = text.replace(escaped, plain)
    text = text.replace("|", "\n").replace(r"\n", "\n").replace(r"\l", "\n")
    return [line.replace("\0", "|")[:80] for line in text.split("\n") if line.strip()] or [""]


def draw_svg(title: str, nodes: Mapping[str, Mapping[str, str]], edges: Sequence[tuple[str, str]]) -> str:
    """The picture. `nodes`: attributes by name (`label`, `fillcolor`)."""
    texts = {n: lines_of(a.get("label", n)) for n, a in nodes.items()}
    size = {n: (max(map(len, t)) * _WIDTH + 2 * _PAD, len(t) * _LINE + 2 * _PAD) for n, t in texts.items()}
    edges = [(a, b) for a, b in edges if a in nodes and b in nodes]
    rows = _rows(list(nodes), edges)
    place, width, y = {}, 0.0, float(_GAP_X)
    for row in rows:
        x = float(_GAP_X)
        for n in row:
            place[n] = (x, y)
            x += size[n][0] + _GAP_X
        width = max(width, x)
        y += max(size[n][1] for n in row) + _GAP_Y
    for row in rows:                      # rows in the middle
        shift = (width - (place[row[-1]][0] + size[row[-1]][0] + _GAP_X)) / 2
        for n in row:
            place[n] = (place[n][0] + shift, place[n][1])
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{y:.0f}" '
             f'viewBox="0 0 {width:.0f} {y:.0f}" font-family="monospace" font-size="11">',
             f"<title>{html.escape(title)}</title>",
             '<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
             '<path d="M0 0L8 4L0 8z"/></marker></defs>']
    parts += [_edge(place[a], size[a], place[b], size[b]) for a, b in edges]
    parts += [_box(n, texts[n], place[n], size[n], nodes[n].get("fillcolor", "")) for n in nodes]
    return "\n".join([*parts, "</svg>", ""])


def _rows(names: list[str], edges: Sequence[tuple[str, str]]) -> list[list[str]]:
    order = {n: i for i, n in enumerate(names)}
    before: dict[str, list[str]] = {n: [] for n in names}
    for a, b in edges:
        if order[a] < order[b]:
            before[b].append(a)
    depth: dict[str, int] = {}
    for n in names:
        depth[n] = max([depth[b] + 1 for b in before[n]], default=0)
    rows: list[list[str]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for n in names:
        rows[depth[n]].append(n)
    at: dict[str, float] = {}
    for row in rows:                      # near the middle of what they use
        row.sort(key=lambda n: (sum(at[b] for b in before[n]) / len(before[n]) if before[n] else order[n], order[n]))
        at.update({n: float(i) for i, n in enumerate(row)})
    return rows


def _box(name: str, lines: list[str], place: tuple, size: tuple, color: str) -> str:
    (x, y), (w, h) = place, size
    fill = _COLORS.get(color, color if color.startswith("#") else "#ffffff")
    text = "".join(f'<tspan x="{x + _PAD:.1f}" dy="{_LINE if i else 0}">{html.escape(line)}</tspan>'
                   for i, line in enumerate(lines))
    return (f'<g id="{html.escape(name, quote=True)}"><rect x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}" '
            f'rx="4" fill="{fill}" stroke="#444"/><text x="{x + _PAD:.1f}" y="{y + _PAD + 10:.1f}" '
            f'xml:space="preserve">{text}</text></g>')


def _edge(a: tuple, a_size: tuple, b: tuple, b_size: tuple) -> str:
    x1, y1 = a[0] + a_size[0] / 2, a[1] + a_size[1]
    x2, y2 = b[0] + b_size[0] / 2, b[1]
    bend = max(20.0, (y2 - y1) / 2)
    return (f'<path d="M{x1:.1f} {y1:.1f}C{x1:.1f} {y1 + bend:.1f} {x2:.1f} {y2 - bend:.1f} {x2:.1f} {y2:.1f}" '
            'fill="none" stroke="#444" marker-end="url(#a)"/>')
