"""The timeline of a forecast: as one HTML page, and in the format that trace viewers read.

Enters: a `Forecast`. Leaves: text; nothing is written to disk and nothing is loaded from anywhere.
"""

from __future__ import annotations

import html
from typing import Any

from .engine import Forecast, Span

COLORS = {"forward": "#4c78a8", "backward": "#f58518", "weights": "#eeca3b", "gather": "#72b7b2", "reduce": "#54a24b",
          "step": "#b279a2"}
WIDTH, ROW, LEFT = 1200, 18, 110
MOST = 12_000            # spans drawn; neighbours of a kind are joined until there are no more than that

_STYLE = """body{font:14px sans-serif;margin:2em;max-width:1330px}table{border-collapse:collapse;margin:1em 0}
td,th{padding:.2em .8em;text-align:left;border-bottom:1px solid #ddd}td.n{text-align:right}
.frame{overflow-x:auto;border:1px solid #ddd}text{font:11px sans-serif}rect:hover{stroke:#000}
.key{display:inline-block;width:1em;height:1em;vertical-align:middle;margin:0 .3em 0 1em}"""


def page(found: Forecast) -> str:
    """One HTML page: the forecast in figures, and what every pipeline rank's two lanes do, drawn over time."""
    keys = "".join(f'<span class=key style="background:{color}"></span>{kind}' for kind, color in COLORS.items())
    return (
        f"<!doctype html><meta charset=utf-8><title>{html.escape(found.model.name)}</title><style>{_STYLE}</style>"
        f"<h1>{html.escape(found.model.name)}</h1><p>{html.escape(str(found.layout))}, {found.layout.ranks} ranks</p>"
        f"{_figures(found)}<p>{keys}</p><div class=frame>{drawing(found)}</div>"
        "<p>One rank of every pipeline stage; ranks that differ in other dimensions do the same at the same time. "
        "Upper lane: computing. Lower lane: the network.</p>"
    )


def _figures(found: Forecast) -> str:
    rows = [
        ("step", f"{found.seconds * 1e3:.4g} ms"),
        ("samples a second", f"{found.batch / found.seconds:.4g}"),
        ("arithmetic used", f"{found.utilization:.1%}"),
        ("waiting for the network", f"{found.exposed / found.seconds:.1%}"),
        ("waiting for other stages", f"{max(found.idle, 0) / found.seconds:.1%}"),
    ]
    rows += [(f"memory: {what}", f"{size / 1e9:.3g} GB") for what, size in found.memory.items() if size]
    limit = found.cluster.chip.memory / 1e9
    rows.append(("memory of a chip", f"{limit:.3g} GB" + ("" if found.fits else ": does not fit")))
    return "<table>" + "".join(f"<tr><td>{a}</td><td class=n>{b}</td></tr>" for a, b in rows) + "</table>"


def drawing(found: Forecast) -> str:
    """The timeline as SVG."""
    spans = joined(found.timeline, MOST)
    ranks = found.layout.pipeline
    height = ranks * (2 * ROW + 8) + 30
    scale = WIDTH / found.seconds
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 50}" height="{height}">']
    for rank in range(ranks):
        top = rank * (2 * ROW + 8)
        parts.append(f'<text x="4" y="{top + 14}">stage {rank}</text>')
        parts.append(f'<line x1="{LEFT}" x2="{LEFT + WIDTH}" y1="{top + 2 * ROW + 4}" y2="{top + 2 * ROW + 4}" '
                     'stroke="#eee"/>')
    for s in spans:
        top = s.rank * (2 * ROW + 8) + (0 if s.lane == "compute" else ROW)
        title = html.escape(f"{s.kind} {s.name}: {s.start * 1e3:.4g} to {s.end * 1e3:.4g} ms")
        parts.append(
            f'<rect x="{LEFT + s.start * scale:.2f}" y="{top}" width="{max((s.end - s.start) * scale, 0.3):.2f}" '
            f'height="{ROW - 2}" fill="{COLORS[s.kind]}"><title>{title}</title></rect>'
        )
    for k in range(11):
        at = LEFT + WIDTH * k / 10
        parts.append(f'<text x="{at - 12:.0f}" y="{height - 8}">{found.seconds * 100 * k:.3g} ms</text>')
    return "".join([*parts, "</svg>"])


def joined(spans: list[Span], most: int) -> list[Span]:
    """Fewer spans: neighbours on a lane that are of one kind and follow each other at once become one; if that is not
    enough, those with small gaps too."""
    gap = 0.0
    length = max((s.end for s in spans), default=0.0)
    ordered = sorted(spans, key=lambda s: (s.rank, s.lane, s.start))
    while len(ordered) > most:
        kept: list[Span] = []
        for s in ordered:
            last = kept[-1] if kept else None
            if last and last[:2] == s[:2] and last.kind == s.kind and s.start - last.end <= gap:
                name = last.name if last.name == s.name else f"{last.name.split(' to ')[0]} to {s.name}"
                kept[-1] = last._replace(name=name, end=s.end)
            else:
                kept.append(s)
        ordered, gap = kept, max(gap * 2, length * 1e-6)
        if gap > length:
            break
    return ordered


def trace(found: Forecast) -> dict[str, Any]:
    """The timeline as Chrome's trace viewer and Perfetto read it: `json.dump` it into a file."""
    events: list[dict[str, Any]] = [
        {"ph": "M", "pid": rank, "name": "process_name", "args": {"name": f"stage {rank}"}}
        for rank in range(found.layout.pipeline)
    ]
    events += [
        {"ph": "X", "pid": s.rank, "tid": s.lane, "name": s.name, "cat": s.kind, "ts": s.start * 1e6,
         "dur": (s.end - s.start) * 1e6}
        for s in found.timeline
    ]
    return {"traceEvents": events, "displayTimeUnit": "ms"}
