"""Curves and points for the pictures of the book, beside the forms of page_pictures.py.

Enters: points computed when the picture is drawn. Leaves: SVG whose places are whole pixels, so that what differs
between machines by rounding draws the same picture. Compute in float64.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from draw_pictures import COLOURS, Picture
from page_pictures import width_of

LEFT, TOP, WIDE, HIGH = 64, 52, 460, 240


class Curve(NamedTuple):
    """A line through points, or the points alone."""

    label: str
    points: Sequence[tuple[float, float]]
    dots: bool = False


class Axis(NamedTuple):
    """What an axis spans, the numbers that are written at it, and its words."""

    words: str
    low: float
    high: float
    marks: Sequence[float]
    log: bool = False

    def share(self, value: float) -> float:
        low, high, at = (math.log(v) if self.log else v for v in (self.low, self.high, value))
        return (at - low) / (high - low)


def plot(title: str, curves: Sequence[Curve], across: Axis, up: Axis) -> str:
    """Curves over two axes, each in a colour of its own; points outside of the axes are left out."""
    legend = 40 + max(width_of(curve.label, 6.6) for curve in curves)
    picture = Picture(round(LEFT + WIDE + legend + 12), TOP + HIGH + 56, title)
    picture.text(18, 28, title)

    def place(x: float, y: float) -> tuple[int, int]:
        return round(LEFT + WIDE * across.share(x)), round(TOP + HIGH * (1 - up.share(y)))

    for mark in across.marks:
        x, _ = place(mark, up.low)
        picture.parts.append(f'<path class="grid" d="M{x} {TOP}v{HIGH}"/>')
        picture.text(x, TOP + HIGH + 18, f"{mark:g}", "small", "middle")
    for mark in up.marks:
        _, y = place(across.low, mark)
        picture.parts.append(f'<path class="grid" d="M{LEFT} {y}h{WIDE}"/>')
        picture.text(LEFT - 8, y + 4, f"{mark:g}", "small", "end")
    picture.text(LEFT + WIDE / 2, TOP + HIGH + 42, across.words, "small", "middle")
    picture.text(18, TOP - 8, up.words, "small")
    for number, curve in enumerate(curves):
        colour = COLOURS[number % len(COLOURS)]
        inside = [
            place(x, y)
            for x, y in curve.points
            if across.low <= x <= across.high and up.low <= y <= up.high
        ]
        if curve.dots:
            picture.parts += [f'<circle cx="{x}" cy="{y}" r="4" fill="{colour}"/>' for x, y in inside]
        else:
            path = " ".join(f"{x},{y}" for x, y in inside)
            picture.parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        y = TOP + 14 + 22 * number
        x = LEFT + WIDE + 14
        picture.parts.append(f'<rect x="{x}" y="{y - 9}" width="12" height="12" rx="2" fill="{colour}"/>')
        picture.text(x + 18, y + 1, curve.label, "small")
    return picture.svg()
