"""What was captured and where graphs ended since the process began, or since somebody cleared it.

Enters: every frame that was captured or refused. Leaves: `counters`, by PyTorch's names: "graph_break" has the reasons
with their lines, "stats" has "unique_graphs" and "calls_captured", "frames" has "total" and "ok".
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

counters: defaultdict[str, Counter[str]] = defaultdict(Counter)


def count(reason: Any, num_ops: int | None = None) -> None:
    """Note a frame: why its graph ended (None: it did not), and the ops of its graph (None: it has none)."""
    counters["frames"]["total"] += 1
    if reason is None:
        counters["frames"]["ok"] += 1
    else:
        counters["graph_break"][str(reason)] += 1
    if num_ops is not None:
        counters["stats"]["unique_graphs"] += 1
        counters["stats"]["calls_captured"] += num_ops
