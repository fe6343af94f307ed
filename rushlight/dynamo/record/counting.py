"""What was captured and where graphs ended since the process began, or since somebody cleared it.

Enters: every frame that was captured or refused. Leaves: `counters`, by PyTorch's names: "graph_break" has the reasons
with their lines, "stats" has "unique_graphs" and "calls_captured", "frames" has "total" and "ok"; and
`compilation_time_metrics`, the seconds that compilations took.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any, Literal

counters: defaultdict[str, Counter[str]] = defaultdict(Counter)
# seconds of each compilation, by what was done: whole frames, and of that what the backend took
compilation_time_metrics: dict[str, list[float]] = {}
FRAME, BACKEND = "_compile.compile_inner", "OutputGraph.call_user_compiler"


def note_time(what: str, seconds: float) -> None:
    """Note what a compilation took."""
    compilation_time_metrics.setdefault(what, []).append(seconds)


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


def compile_times(repr: Literal["str", "csv"] = "str", aggregate: bool = False) -> Any:
    """What compilations took, by what was done: a table, or with "csv" names and rows of seconds; `aggregate` adds up.
    Refuses (ValueError) other forms."""
    if repr not in ("str", "csv"):
        raise ValueError(f"compile_times: expected repr 'str' or 'csv', got {repr!r}")
    found = {name: [sum(taken)] if aggregate else taken for name, taken in compilation_time_metrics.items()}
    if repr == "csv":
        return list(found), [", ".join(f"{seconds:.6f}" for seconds in taken) for taken in found.values()]
    rows = [("Function", "Runtimes (s)"), *((k, ", ".join(f"{s:.4f}" for s in taken)) for k, taken in found.items())]
    width = max(len(name) for name, _ in rows)
    rows.insert(1, ("-" * width, "-" * max(len(taken) for _, taken in rows)))
    return "TorchDynamo compilation metrics:\n" + "\n".join(f"{name:{width}}  {taken}".rstrip() for name, taken in rows)
