"""A flame graph of collapsed stacks whose weights are bytes, as one SVG without scripts from elsewhere.

Enters: lines `frame;frame;frame bytes`, the outermost frame first. Leaves: the picture: a frame is as wide as the bytes
under it, hovering shows its name and bytes, a click makes it as wide as the picture, a click on the lowest shows all.
"""

from __future__ import annotations

import zlib
from html import escape

WIDTH, ROW, LETTER = 1200.0, 17, 7.0
NARROW = 0.2              # pixels of a frame that is not drawn
SCRIPT = """
function zoom(to) {
  const x = +to.dataset.x, w = +to.dataset.w, d = +to.dataset.d;
  for (const g of document.querySelectorAll("g.f")) {
    const gx = +g.dataset.x, gw = +g.dataset.w, above = +g.dataset.d < d && gx <= x + 1e-6 && gx + gw >= x + w - 1e-6;
    const from = above ? 0 : (gx - x) / w * WIDTH, wide = above ? WIDTH : gw / w * WIDTH;
    const seen = above || (+g.dataset.d >= d && gx >= x - 1e-6 && gx + gw <= x + w + 1e-6);
    g.style.display = seen ? "" : "none";
    g.querySelector("rect").setAttribute("x", from);
    g.querySelector("rect").setAttribute("width", Math.max(wide - 0.5, 0.2));
    const text = g.querySelector("text"), room = Math.floor((wide - 6) / LETTER), name = g.dataset.n;
    text.setAttribute("x", from + 3);
    text.textContent = name.length <= room ? name : room > 3 ? name.slice(0, room - 1) + "…" : "";
  }
}
for (const g of document.querySelectorAll("g.f")) g.addEventListener("click", () => zoom(g));
""".replace("WIDTH", str(int(WIDTH))).replace("LETTER", str(LETTER))


class Frame:
    """A frame, the bytes under it, and what it called."""

    def __init__(self) -> None:
        self.bytes = 0
        self.inner: dict[str, Frame] = {}


def tree(lines: str) -> Frame:
    """Stacks with a common beginning joined."""
    root = Frame()
    for line in lines.splitlines():
        stack, _, weight = line.rpartition(" ")
        here, size = root, int(weight)
        here.bytes += size
        for name in stack.split(";"):
            here = here.inner.setdefault(name, Frame())
            here.bytes += size
    return root


def colour(name: str) -> str:
    """A warm colour that stays the same for a name."""
    number = zlib.crc32(name.encode())
    return f"rgb({205 + number % 50},{80 + number // 50 % 140},{number // 7000 % 60})"


def flame_graph(lines: str) -> str:
    """The picture."""
    root = tree(lines)
    parts: list[str] = []
    waiting = [("all", root, 0.0, 0)]
    rows = 1
    while waiting:
        name, frame, x, depth = waiting.pop()
        width = WIDTH * frame.bytes / root.bytes if root.bytes else WIDTH
        if width < NARROW:
            continue
        rows = max(rows, depth + 1)
        room = int((width - 6) / LETTER)
        shown = name if len(name) <= room else name[: room - 1] + "…" if room > 3 else ""
        share = 100 * frame.bytes / root.bytes if root.bytes else 100
        parts.append(
            f'<g class="f" data-x="{x:.3f}" data-w="{width:.3f}" data-d="{depth}" data-n="{escape(name, quote=True)}">'
            f"<title>{escape(name)} ({frame.bytes:,} bytes, {share:.2f}%)</title>"
            f'<rect x="{x:.2f}" y="{{{depth}}}" width="{max(width - 0.5, 0.2):.2f}" height="{ROW - 1}" rx="2"'
            f' fill="{colour(name)}"/><text x="{x + 3:.2f}" y="{{{depth}+}}">{escape(shown)}</text></g>'
        )
        for child, held in frame.inner.items():
            waiting.append((child, held, x, depth + 1))
            x += WIDTH * held.bytes / root.bytes if root.bytes else 0
    body = "".join(parts)
    for depth in range(rows):      # the outermost frame is at the bottom, which is known when all are placed
        top = (rows - 1 - depth) * ROW + 30
        body = body.replace(f'"{{{depth}}}"', f'"{top}"').replace(f'"{{{depth}+}}"', f'"{top + 12}"')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:.0f} {rows * ROW + 40}" font-family="monospace"'
        f' font-size="11"><text x="4" y="18" font-size="14">Memory by who asked for it: {root.bytes:,} bytes</text>'
        f"{body}<script>{escape(SCRIPT, quote=False)}</script></svg>\n"
    )
