"""Times, shares, sizes and counts of operations as a table shows them."""

from __future__ import annotations

import math

FLOP_UNITS = ("FLOPs", "KFLOPs", "MFLOPs", "GFLOPs", "TFLOPs", "PFLOPs")
TIME_UNITS = {"s": 1e6, "ms": 1e3, "us": 1.0}


def time_text(time_us: float, unit: str | None = None) -> str:
    """`12.345us`, `1.234ms` or `1.234s`: the unit that fits, or the one asked for."""
    if unit not in TIME_UNITS:
        unit = "s" if time_us >= 1e6 else "ms" if time_us >= 1e3 else "us"
    return f"{time_us / TIME_UNITS[unit]:.3f}{unit}"


def share_text(time_us: float, total_us: float) -> str:
    """`12.34%` of the total; of nothing, `NaN`."""
    if total_us == 0:
        if time_us != 0:
            raise AssertionError(f"a share of no time at all must be of none, got {time_us} us")
        return "NaN"
    return f"{time_us * 100.0 / total_us:.2f}%"


def memory_text(num_bytes: int) -> str:
    """`12 B`, `1.50 KB`, `2.00 MB` or `3.00 GB`."""
    for size, unit in ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")):
        if abs(num_bytes) >= size:
            return f"{num_bytes / size:.2f} {unit}"
    return f"{num_bytes} B"


def flops_unit(smallest: float) -> tuple[float, str]:
    """(factor, unit) for a column of counts whose smallest is given."""
    if smallest <= 0:
        raise AssertionError(f"expected a positive number of operations, got {smallest}")
    at = int(max(0.0, min(math.log10(smallest) / 3, len(FLOP_UNITS) - 1)))
    return 10.0 ** (-3 * at), FLOP_UNITS[at]
