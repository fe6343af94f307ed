"""torch_xla.debug.metrics: counters and times of lazy devices, by torch_xla's names.

Enters: names. Leaves: what was counted since the last `clear_all`. Names that nothing was counted under give None.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...lazy import metrics
from ...lazy.metrics import (
    counter_names as counter_names,
    metric_names as metric_names,
    metrics_report as metrics_report,
    reset as clear_all,
    reset_counters as clear_counters,
    reset_times as clear_metrics,
)

__all__ = ["clear_all", "clear_counters", "clear_metrics", "counter_names", "counter_value", "executed_fallback_ops",
           "metric_data", "metric_names", "metrics_report", "short_metrics_report"]


def counter_value(name: str) -> int | None:
    """How often something was counted; None where it never was."""
    return metrics.counter_value(name) or None


def metric_data(name: str) -> tuple[int, float, list[tuple[float, float]]] | None:
    """(how many samples, their sum, each with the time it was taken at), in nanoseconds; None where there is none."""
    samples = metrics.samples(name)
    if not samples:
        return None
    return len(samples), sum(s for _, s in samples) * 1e9, [(when, s * 1e9) for when, s in samples]


def short_metrics_report(counter_names: Sequence[str] = (), metric_names: Sequence[str] = ()) -> str:
    """The report of a few: by default what is compiled and run, and what runs on the host."""
    counters = list(counter_names) or [n for n in metrics.counter_names() if n.startswith("aten::")] + [
        "CachedCompile", "MarkStep", "UncachedCompile"]
    return metrics.metrics_report(counters, list(metric_names) or ["CompileTime", "ExecuteTime"])


def executed_fallback_ops() -> list[str]:
    """Ops that the host computed."""
    return [name for name in metrics.counter_names() if name.startswith("aten::")]
