"""The flame graph: which calls the time was spent under, drawn from collapsed stacks.

Enters: stacks, frames from the outermost on, with microseconds. Leaves: an SVG whose outermost frame is at the top; the
width of a frame is the time under it. Frames too narrow to see are left out.
Names appear as tooltips without any script; clicking a frame zooms where scripts run (page.js).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from .charts import framed, number, tag
from .units import share_text, time_text

WIDTH, ROW = 1200, 19
NARROW = 0.0008              # of the whole: what is not drawn
LETTER = 6.6                 # pixels
DEEPEST = 120


class Frame:
    """A call and what it called."""

    def __init__(self, name: str) -> None:
        self.name, self.us, self.children = name, 0.0, {}

    name: str
    us: float
    children: dict[str, Frame]


def tree(stacks: Iterable[tuple[Sequence[str], float]]) -> Frame:
    """Stacks with a common beginning joined."""
    root = Frame("all")
    for frames, us in stacks:
        root.us += us
        here = root
        for name in frames:
            found = here.children.get(name)
            if found is None:
                found = here.children[name] = Frame(name)
            found.us += us
            here = found
    return root


def kind_of(name: str) -> str:
    """The class that colours a frame."""
    if name.startswith(("aten::", "rushlight::", "Torch-Compiled")):
        return "f-op"
    if "Backward" in name or name.startswith(("autograd::", "torch::autograd")):
        return "f-backward"
    if name.startswith("enumerate(DataLoader)"):
        return "f-data"
    if name.startswith("nn.Module"):
        return "f-module"
    return "f-python"


def drawn(frame: Frame, start: float, depth: int, whole: float, parts: list[str]) -> int:
    """Adds the frames from this one on; how many rows there are."""
    width = frame.us / whole * WIDTH
    label = f"{frame.name}, {time_text(frame.us)}, {share_text(frame.us / whole)}"
    room = int((width - 6) / LETTER)
    shown = frame.name if len(frame.name) <= room else frame.name[: room - 1] + "…" if room > 3 else ""
    inner = [
        tag("title", escape(label)),
        tag("rect", x=number(start), y=depth * ROW, width=number(max(width - 0.5, 0.3)), height=ROW - 1, rx=2),
    ]
    if shown:
        inner.append(tag("text", escape(shown), x=number(start + 4), y=depth * ROW + ROW - 6))
    parts.append(
        f'<g class="frame {kind_of(frame.name)}" data-x="{start:.2f}" data-w="{width:.2f}" data-d="{depth}"'
        f' data-n="{escape(frame.name)}">{"".join(inner)}</g>'
    )
    rows = depth + 1
    if depth >= DEEPEST:
        return rows
    for child in sorted(frame.children.values(), key=lambda one: -one.us):
        if child.us / whole >= NARROW:
            rows = max(rows, drawn(child, start, depth + 1, whole, parts))
        start += child.us / whole * WIDTH
    return rows


def flame_graph(stacks: Iterable[tuple[Sequence[str], float]]) -> str:
    """The picture; empty where nothing was recorded."""
    root = tree(stacks)
    if root.us <= 0:
        return ""
    parts: list[str] = []
    rows = drawn(root, 0.0, 0, root.us, parts)
    return framed(parts, "flame graph", WIDTH, rows * ROW).replace("<svg ", '<svg id="flame" ', 1)
