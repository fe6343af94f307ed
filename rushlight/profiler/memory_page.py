"""A page that draws memory by category over time: one SVG in one file, read from disk, asking no network.

Enters: times, bytes by category at each, names and colours of the categories. Leaves: HTML.
"""

from __future__ import annotations

import html
from collections.abc import Callable

from .units import memory_text

WIDTH, HEIGHT, LEFT, BELOW = 1200, 620, 90, 50
MAX_POINTS = 4000                # more would be closer together than pixels are


def _thinned(times: list[int], sizes: list[list[int]]) -> tuple[list[int], list[list[int]]]:
    """At most MAX_POINTS moments: of each stretch, the one with the most memory, so that no peak is lost."""
    if len(times) <= MAX_POINTS:
        return times, sizes
    kept = []
    for at in range(MAX_POINTS):
        first, last = at * len(times) // MAX_POINTS, (at + 1) * len(times) // MAX_POINTS
        kept.append(max(range(first, last), key=lambda i: sum(sizes[i])))
    return [times[i] for i in kept], [sizes[i] for i in kept]


def page(times: list[int], sizes: list[list[int]], layers: list[tuple[str, str]], title: str,
         figsize: tuple[float, float]) -> str:
    """The page; `figsize` says how wide it is compared with its height."""
    times, sizes = _thinned(times, sizes)
    width, height = WIDTH, max(200, round(WIDTH * figsize[1] / figsize[0] * HEIGHT / 720))
    start, end = (times[0], times[-1]) if times else (0, 0)
    peak = max((sum(row) for row in sizes), default=0)
    across, up = width - LEFT - 20, height - BELOW - 60

    def x(time: int) -> float:
        return LEFT + across * (time - start) / max(end - start, 1)

    def y(num_bytes: int) -> float:
        return 60 + up * (1 - num_bytes / max(peak, 1))

    shapes = []
    below = [0] * len(times)
    for place, (name, colour) in enumerate(layers, start=1):
        above = [low + row[place] for low, row in zip(below, sizes, strict=True)]
        if any(row[place] for row in sizes):
            edge = _steps(times, above, x, y) + _steps(times, below, x, y)[::-1]
            points = " ".join(f"{a:.1f},{b:.1f}" for a, b in edge)
            shapes.append(f'<polygon points="{points}" fill="{colour}" fill-opacity="0.7">'
                          f"<title>{name}</title></polygon>")
        below = above
    legend = "".join(
        f'<rect x="{LEFT + i * 140}" y="34" width="12" height="12" fill="{colour}" fill-opacity="0.7"/>'
        f'<text x="{LEFT + i * 140 + 16}" y="45">{name}</text>' for i, (name, colour) in enumerate(layers)
    )
    marks = "".join(
        f'<text x="{LEFT - 8}" y="{y(peak * i // 4) + 4:.1f}" text-anchor="end">{memory_text(peak * i // 4)}</text>'
        f'<path d="M{LEFT} {y(peak * i // 4):.1f}h{across}" stroke="#ddd"/>' for i in range(5)
    )
    moments = "".join(
        f'<text x="{x(start + (end - start) * i // 5):.1f}" y="{height - BELOW + 20}" text-anchor="middle">'
        f"{(end - start) * i / 5 / 1000:.2f}</text>" for i in range(6)
    )
    return (
        f'<!DOCTYPE html>\n<html><head><meta charset="utf-8"><title>{html.escape(title)}</title></head>\n'
        f'<body style="font-family:sans-serif">\n<svg viewBox="0 0 {width} {height}" width="100%" font-size="12" '
        f'xmlns="http://www.w3.org/2000/svg">\n'
        f'<text x="{LEFT}" y="20" font-size="16">{html.escape(title)}: at most {memory_text(peak)}</text>\n'
        f'{legend}\n{marks}\n{"".join(shapes)}\n{moments}\n'
        f'<text x="{LEFT + across / 2}" y="{height - 8}" text-anchor="middle">Time (ms)</text>\n'
        "</svg>\n</body></html>\n"
    )


def _steps(times: list[int], heights: list[int], x: Callable[[int], float],
           y: Callable[[int], float]) -> list[tuple[float, float]]:
    """The corners of a line that stays level from one time to the next."""
    corners: list[tuple[float, float]] = []
    for i, (time, level) in enumerate(zip(times, heights, strict=True)):
        if i:
            corners.append((x(time), y(heights[i - 1])))
        corners.append((x(time), y(level)))
    return corners
