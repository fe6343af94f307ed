"""What was compiled, for people: a folder for each graph, with a page that shows it.

Enters: a graph, its units and the plan they became; later the times of its first call. Leaves: `graph.py` (the graph as
Python), `kernels.tsv` (steps of the plan in order, what each belongs to, nanoseconds) and `page.html`: which ops share
a kernel, which do not and why, and the bytes each kernel moves against those that the whole graph must. Nothing here
is read again.
"""

from __future__ import annotations

import html
import os
from collections.abc import Sequence
from typing import Any

from .units import Unit
from .values import Buffer, hints

STYLE = """body{font:14px/1.5 system-ui,sans-serif;margin:2em auto;max-width:75em;padding:0 1em}
table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.25em .6em;border-bottom:1px solid #8884}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}code{font-size:.95em}.why{color:#777}
@media(prefers-color-scheme:dark){body{background:#181818;color:#ddd}}"""


class Report:
    """The folder of one compiled graph."""

    def __init__(self, folder: str, emitter: Any, labels: Sequence[str]) -> None:
        self.folder, self.labels = folder, labels
        self.units = [Line(u, first, last) for u, first, last in emitter.units]
        self.refused = [(n.definition.name, repr(u), why) for n, u, why in emitter.grouping.refused]
        outside = {b for line in self.units for b in (*line.reads, *line.writes)}
        self.floor = sum([size(b) for b in outside if b.is_input or b.is_output])
        self.prepared = () if emitter.prepared is None else tuple(emitter.prepared.labels)
        self.calls = tuple(emitter.calls)

    def add_times(self, nanoseconds: Sequence[int]) -> None:
        """The times of one call, by step."""
        rows = zip(self.labels, nanoseconds, strict=True)
        self.write("kernels.tsv", "".join([f"{taken}\t{label}\n" for label, taken in rows]))
        self.write("page.html", self.page(nanoseconds))

    def write(self, name: str, text: str) -> None:
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as f:
            f.write(text)

    def page(self, nanoseconds: Sequence[int] | None = None) -> str:
        moved = sum([line.bytes for line in self.units])
        parts = [
            f"<h1>{html.escape(os.path.basename(self.folder))}</h1>",
            f"<p>{len(self.units)} kernels and library calls of {len(self.labels)} steps move {shown(moved)} between"
            f" them; the graph's own inputs and results are {shown(self.floor)}"
            + (f" ({moved / self.floor:.2f} times that)." if self.floor else ".")
            + (f" Run in Python: {html.escape(', '.join(self.calls))}." if self.calls else "")
            + (f" Once for many calls: {len(self.prepared)} steps." if self.prepared else "")
            + "</p>",
            "<table><tr><th>kernel</th><th>ops</th><th>result</th><th class=n>reads</th><th class=n>writes</th>"
            "<th class=n>µs</th><th class=n>GB/s</th></tr>",
            *[line.row(nanoseconds) for line in self.units],
            "</table><h2>Not fused</h2><table><tr><th>op</th><th>kernel before it</th><th>why</th></tr>",
            *[
                f"<tr><td><code>{html.escape(name)}</code></td><td><code>{html.escape(unit)}</code></td>"
                f"<td class=why>{html.escape(why)}</td></tr>"
                for name, unit, why in self.refused
            ],
            "</table>",
        ]
        return f"<!doctype html><meta charset=utf-8><title>Compiled graph</title><style>{STYLE}</style>" + "\n".join(
            parts
        )


class Line:
    """One unit in the table."""

    def __init__(self, unit: Unit, first: int, last: int) -> None:
        self.form, self.first, self.last = unit.form, first, last
        self.ops = [n.definition.name for n in unit.nodes]
        self.sizes = list(hints(unit.nodes[-1].results[0].sizes)) if unit.nodes[-1].results else []
        results = unit.produced
        self.reads = {v.buffer for n in unit.nodes for v in n.inputs} - results
        self.writes = {b for b in results if b.slot is not None} | {b for n in unit.nodes for b in n.writes}
        self.bytes = sum([size(b) for b in (*self.reads, *self.writes)])

    def row(self, nanoseconds: Sequence[int] | None) -> str:
        taken = sum(nanoseconds[self.first : self.last]) if nanoseconds is not None else 0
        cells = [
            f"<td>{html.escape(self.form)}</td><td><code>{html.escape(', '.join(self.ops))}</code></td>"
            f"<td><code>{self.sizes}</code></td>",
            *[
                f"<td class=n>{text}</td>"
                for text in (
                    shown(sum([size(b) for b in self.reads])),
                    shown(sum([size(b) for b in self.writes])),
                    f"{taken / 1000:.1f}" if taken else "",
                    f"{self.bytes / taken:.1f}" if taken else "",
                )
            ],
        ]
        return f"<tr>{''.join(cells)}</tr>"


def size(buffer: Buffer) -> int:
    """Bytes of a buffer, for the sizes that were compiled for."""
    count = 1
    for n in hints(buffer.sizes):
        count *= n
    return count * buffer.dtype.itemsize


def shown(count: int) -> str:
    """A number of bytes as people read it."""
    for unit in ("B", "KB", "MB"):
        if count < 1000:
            return f"{count:.4g} {unit}"
        count /= 1000
    return f"{count:.4g} GB"


def written(folder: str, graph_module: Any, emitter: Any, compiled: Any) -> Report:
    """Write what is known of a graph to a new folder inside `folder`."""
    os.makedirs(folder, exist_ok=True)
    name = type(graph_module).__name__ if not getattr(graph_module, "_name", "") else graph_module._name
    number = 0
    while True:       # other processes write there too
        own = os.path.join(folder, f"{number:04}_{os.path.basename(str(name))}")
        try:
            os.mkdir(own)
            break
        except FileExistsError:
            number += 1
    result = Report(own, emitter, compiled.labels)
    result.write("graph.py", graph_module.print_readable(print_output=False))
    result.write("kernels.tsv", "".join([f"\t{label}\n" for label in compiled.labels]))
    result.write("page.html", result.page())
    return result
