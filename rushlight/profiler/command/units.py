"""Quantities as people read them: times, bytes, operations and shares, three digits each.

Enters: numbers in base units; None where nothing is known. Leaves: short text.
"""

from __future__ import annotations

UNKNOWN = "–"


def time_text(us: float) -> str:
    """Microseconds in the unit that fits."""
    for limit, scale, unit in ((1.0, 1000.0, "ns"), (1e3, 1.0, "us"), (1e6, 1e-3, "ms")):
        if us < limit:
            return f"{digits(us * scale)} {unit}"
    return f"{digits(us * 1e-6)} s"


def bytes_text(count: float | None) -> str:
    """Bytes, in steps of 1024."""
    return scaled(count, 1024.0, ("B", "KiB", "MiB", "GiB", "TiB"))


def count_text(count: float | None, unit: str = "") -> str:
    """A large number, in steps of 1000."""
    return scaled(count, 1000.0, tuple([f"{prefix}{unit}" for prefix in ("", "k", "M", "G", "T", "P")]))


def share_text(share: float) -> str:
    """A share in percent."""
    return f"{100 * share:.1f}%"


def scaled(count: float | None, step: float, units: tuple[str, ...]) -> str:
    """A number in the largest unit of which there is at least one."""
    if count is None:
        return UNKNOWN
    value, place = float(count), 0
    while abs(value) >= step and place + 1 < len(units):
        value, place = value / step, place + 1
    return f"{digits(value)} {units[place]}".rstrip()


def digits(value: float) -> str:
    """Three significant digits."""
    if value == int(value) and abs(value) < 1000:
        return str(int(value))
    size = abs(value)
    return f"{value:.0f}" if size >= 100 else f"{value:.1f}" if size >= 10 else f"{value:.2f}"
