"""The table that the command prints: what bounds the program, the slowest ops, and what to do.

Enters: `Findings`. Leaves: text for a terminal.
"""

from __future__ import annotations

from .findings import SHARES, Findings, OpRow
from .units import UNKNOWN, bytes_text, count_text, share_text, time_text

ROWS = 20
NAME_WIDTH = 48
HEADER = ("Op", "Bound", "Calls", "Time", "% wall", "per call", "FLOP/s", "B/s")


def rate(amount: float | None, us: float, unit: str) -> str:
    """So much per second."""
    return UNKNOWN if not amount or us <= 0 else count_text(amount / us * 1e6, unit)


def cells(row: OpRow, wall_us: float) -> tuple[str, ...]:
    """A row as text."""
    name = row.name if len(row.name) <= NAME_WIDTH else row.name[: NAME_WIDTH - 1] + "…"
    return (
        name, row.bound, str(row.count), time_text(row.us), share_text(row.us / wall_us) if wall_us else "0.0%",
        time_text(row.us / max(row.count, 1)), rate(row.flops, row.us, "FLOP/s"), rate(row.bytes, row.us, "B/s"),
    )


def lay_out(rows: list[tuple[str, ...]]) -> list[str]:
    """Columns under a ruled header: text to the left, numbers to the right."""
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines = [
        "  ".join([c.ljust(w) if k < 2 else c.rjust(w) for k, (c, w) in enumerate(zip(row, widths, strict=True))])
        for row in rows
    ]
    return [lines[0], "  ".join(["-" * w for w in widths]), *lines[1:]]


def table(found: Findings) -> str:
    """Everything worth a terminal's lines."""
    shares = ", ".join([f"{name} {share_text(found.share[name])}" for name in SHARES])
    lines = [
        f"{found.program}: {found.outcome} after {time_text(found.wall_us)}; bound by {found.verdict} ({shares})",
        f"This machine: {count_text(found.peaks.flops_per_s, 'FLOP/s')}, {count_text(found.peaks.bytes_per_s, 'B/s')};"
        f" tensors held at most {bytes_text(found.memory.peak_bytes)}, at the end {bytes_text(found.memory.end_bytes)}",
        "",
    ]
    if found.ops:
        lines += lay_out([HEADER, *[cells(row, found.wall_us) for row in found.ops[:ROWS]]])
        if len(found.ops) > ROWS:
            lines.append(f"… and {len(found.ops) - ROWS} more in summary.json")
    else:
        lines.append("No op was called.")
    if found.advice:
        lines += ["", "What to do:"]
        lines += [f"  - {one.title} ({time_text(one.us)}): {one.detail}" for one in found.advice]
    return "\n".join([*lines, *[f"Note: {note}" for note in found.notes]])
