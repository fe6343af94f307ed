"""Pictures of a run as SVG: the roofline, memory over time, and the shares of the wall clock.

Enters: `Findings`. Leaves: SVG elements as text, coloured by classes of the page's style sheet, so that they follow the
reader's light or dark scheme. Nothing is fetched from anywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape

from .findings import SHARES, Findings, OpRow
from .units import bytes_text, count_text, share_text, time_text

WIDTH, HEIGHT = 640, 320
LEFT, RIGHT, TOP, BOTTOM = 84, 16, 14, 44
LABELLED = 8                 # points of the roofline that are named
MOST_STEPS = 1200            # of memory: more than there are pixels


def tag(name: str, text: str = "", **attributes: object) -> str:
    """An element; `class_` and `text_anchor` are written as SVG spells them."""
    shown = "".join([f' {key.rstrip("_").replace("_", "-")}="{escape(str(v))}"' for key, v in attributes.items()])
    return f"<{name}{shown}>{text}</{name}>"


def number(value: float) -> str:
    """A coordinate."""
    return f"{value:.1f}"


def framed(parts: Sequence[str], label: str, width: int = WIDTH, height: int = HEIGHT) -> str:
    """A picture of its own."""
    return tag("svg", "".join(parts), viewBox=f"0 0 {width} {height}", role="img", aria_label=label)


class Axis:
    """From values to pixels, evenly (ticks at round numbers of `unit`) or by powers of ten."""

    def __init__(
        self, low: float, high: float, start: float, stop: float, is_log: bool = False, unit: float = 1.0
    ) -> None:
        self.is_log, self.start, self.stop, self.unit = is_log, start, stop, unit
        self.low, self.high = (math.log10(low), math.log10(high)) if is_log else (low, high)

    def at(self, value: float) -> float:
        """The pixel of a value; outside values lie on the edge."""
        v = math.log10(value) if self.is_log else value
        part = (v - self.low) / ((self.high - self.low) or 1)
        return self.start + min(max(part, 0.0), 1.0) * (self.stop - self.start)

    def ticks(self) -> list[float]:
        """Round values along the axis."""
        if self.is_log:
            powers = range(math.ceil(self.low), math.floor(self.high) + 1)
            step = max(1, math.ceil(len(powers) / 8))
            return [10.0**k for k in powers if k % step == 0]
        return [self.unit * value for value in even_ticks(self.low / self.unit, self.high / self.unit)]


def even_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """At most so many multiples of a round step."""
    span = high - low
    if span <= 0:
        return [low]
    raw = span / most
    base = 10.0 ** math.floor(math.log10(raw))
    step = next(base * k for k in (1, 2, 5, 10) if base * k >= raw)
    first = math.ceil(low / step)
    return [k * step for k in range(first, math.floor(high / step) + 1)]


def axes(x: Axis, y: Axis, titles: tuple[str, str], texts: tuple[Callable[[float], str], ...]) -> list[str]:
    """Grid, ticks and titles of a chart."""
    parts = []
    for value in x.ticks():
        at = number(x.at(value))
        parts.append(tag("line", class_="grid", x1=at, x2=at, y1=y.stop, y2=y.start))
        parts.append(tag("text", escape(texts[0](value)), class_="tick", x=at, y=y.start + 16, text_anchor="middle"))
    for value in y.ticks():
        at = number(y.at(value))
        parts.append(tag("line", class_="grid", x1=x.start, x2=x.stop, y1=at, y2=at))
        parts.append(
            tag("text", escape(texts[1](value)), class_="tick", x=x.start - 6, y=at, dy="0.32em", text_anchor="end")
        )
    middle = number((x.start + x.stop) / 2)
    parts.append(tag("text", escape(titles[0]), class_="axis", x=middle, y=y.start + 36, text_anchor="middle"))
    parts.append(
        tag("text", escape(titles[1]), class_="axis", text_anchor="middle",
            transform=f"translate(14 {number((y.start + y.stop) / 2)}) rotate(-90)")
    )
    return parts


# --- the roofline -----------------------------------------------------------------------------------------------------


def intensity(row: OpRow) -> float:
    """Operations per byte."""
    return (row.flops or 0) / (row.bytes or 1)


def roofline(found: Findings) -> str:
    """What ops reach, against what this machine does at best: a point for each op that computes and moves something."""
    points = [row for row in found.ops if row.flops and row.bytes and row.us > 0]
    peaks = found.peaks
    ridge = peaks.flops_per_s / peaks.bytes_per_s
    reached = [row.flops / row.us * 1e6 for row in points if row.flops]
    intensities = [intensity(row) for row in points]
    x = Axis(min([ridge / 100, *intensities]) / 2, max([ridge * 20, *intensities]) * 2, LEFT, WIDTH - RIGHT, True)
    low = min([peaks.flops_per_s / 1e4, *reached]) / 2
    y = Axis(max(low, peaks.flops_per_s / 1e7), peaks.flops_per_s * 3, HEIGHT - BOTTOM, TOP, True)
    parts = axes(x, y, ("operations per byte", "operations per second"), (lambda v: f"{v:g}", count_text))
    left = 10.0**x.low
    roof = [(left, left * peaks.bytes_per_s), (ridge, peaks.flops_per_s), (10.0**x.high, peaks.flops_per_s)]
    if roof[0][1] < 10.0**y.low:      # where the slope leaves the chart
        roof[0] = (10.0**y.low / peaks.bytes_per_s, 10.0**y.low)
    path = " ".join([f"{number(x.at(a))},{number(y.at(b))}" for a, b in roof])
    parts.append(tag("polyline", class_="roof", points=path))
    parts.append(
        tag("text", escape(count_text(peaks.flops_per_s, "FLOP/s")), class_="tick", x=WIDTH - RIGHT - 4,
            y=number(y.at(peaks.flops_per_s) - 6), text_anchor="end")
    )
    parts.append(
        tag("text", escape(count_text(peaks.bytes_per_s, "B/s")), class_="tick", x=number(x.at(roof[0][0]) + 6),
            y=number(y.at(roof[0][1]) - 14))
    )
    most = max([row.us for row in points], default=1.0)
    for rank, row in enumerate(points):
        parts.append(point(row, x.at(intensity(row)), y.at((row.flops or 1) / row.us * 1e6), most, rank < LABELLED))
    return framed(parts, "roofline")


def point(row: OpRow, at_x: float, at_y: float, most: float, is_named: bool) -> str:
    """One op: its area says how long it took."""
    title = (
        f"{row.name}: {time_text(row.us)} in {row.count} calls, {count_text(row.flops, 'FLOP')},"
        f" {bytes_text(row.bytes)}, bound by {row.bound}"
    )
    radius = 3 + 11 * math.sqrt(row.us / most)
    circle = tag(
        "circle", tag("title", escape(title)), class_=f"point {row.bound}", cx=number(at_x), cy=number(at_y),
        r=number(radius),
    )
    if not is_named:
        return circle
    is_right = at_x < WIDTH * 0.7
    place = at_x + (radius + 4) * (1 if is_right else -1)
    name = row.name.removeprefix("aten::")[:28]
    return circle + tag(
        "text", escape(name), class_="name", x=number(place), y=number(at_y), dy="0.32em",
        text_anchor="start" if is_right else "end",
    )


# --- memory -----------------------------------------------------------------------------------------------------------


def thinned(steps: Sequence[tuple[float, int]]) -> list[tuple[float, int]]:
    """As many steps as can be seen, the largest of each stretch among them."""
    if len(steps) <= MOST_STEPS:
        return list(steps)
    size = -(-len(steps) // MOST_STEPS)
    return [max(steps[k : k + size], key=lambda step: step[1]) for k in range(0, len(steps), size)]


def memory(found: Findings) -> str:
    """Bytes that tensors held, over time."""
    use, wall = found.memory, max(found.wall_us, 1.0)
    most = max(use.peak_bytes, 1) * 1.08
    unit = 1024.0 ** int(math.log(most, 1024.0))
    x, y = Axis(0, wall, LEFT, WIDTH - RIGHT), Axis(0, most, HEIGHT - BOTTOM, TOP, unit=unit)
    parts = axes(x, y, ("time", "bytes of tensors"), (time_text, bytes_text))
    floor = number(y.at(0))
    path, last = [f"M{number(x.at(0))},{floor}"], 0
    for at, held in thinned(use.steps):
        path.append(f"L{number(x.at(at))},{number(y.at(last))}L{number(x.at(at))},{number(y.at(held))}")
        last = held
    path.append(f"L{number(x.at(wall))},{number(y.at(last))}L{number(x.at(wall))},{floor}Z")
    parts.append(tag("path", class_="held", d="".join(path)))
    top = number(y.at(use.peak_bytes))
    parts.append(tag("line", class_="peak", x1=x.start, x2=x.stop, y1=top, y2=top))
    parts.append(
        tag("text", escape(f"peak {bytes_text(use.peak_bytes)}"), class_="name", x=WIDTH - RIGHT - 4,
            y=number(y.at(use.peak_bytes) - 4), text_anchor="end")
    )
    return framed(parts, "memory over time")


# --- shares -----------------------------------------------------------------------------------------------------------


def shares(found: Findings) -> str:
    """The wall clock as one bar."""
    width, height = 960, 34
    parts, start = [], 0.0
    for name in SHARES:
        part = found.share[name] * width
        title = tag("title", f"{name}: {share_text(found.share[name])}")
        parts.append(
            tag("rect", title, class_=f"bar {name}", x=number(start), y=0, width=number(max(part, 0)), height=height)
        )
        if part > 90:
            parts.append(
                tag("text", f"{name} {share_text(found.share[name])}", class_="on-bar", x=number(start + part / 2),
                    y=height / 2, dy="0.35em", text_anchor="middle")
            )
        start += part
    return framed(parts, "shares of the wall clock", width, height)
